"""S18b: what belongs to another connection of AMQP: its exclusive queues, and the deliveries of its other channels.

A victim has an exclusive queue with messages, some of which it holds. Thieves know the name: another connection, by
py-amqp, says each method that a queue has, and a STOMP client subscribes. Each must be refused as locked; a message to
it may be published, as anybody may. Another channel of the victim's acks the tags of the first, and must be told that
there are none. Then the victim's messages are all there, once and in order; and when it has gone the name is free.
"""

import shutil
from collections.abc import Callable
from random import Random

import amqp
from amqp import exceptions

from tests.acceptance.amqp_clients import CONFIG, bodies, connected, declare, publish
from tests.acceptance.wire import Gone, Wire
from tests.broker_process import BrokerProcess
from tests.campaigns.bystander import upright
from tests.campaigns.campaign import Campaign, Run

VICTIMS_OF_A_LIFE = 40  # of one broker
MESSAGES, HELD = 6, 3

Theft = Callable[[amqp.Channel, str], object]
THEFTS: dict[str, Theft] = {
    "consumes": lambda channel, name: channel.basic_consume(name),
    "consumes alone": lambda channel, name: channel.basic_consume(name, exclusive=True),
    "gets": lambda channel, name: channel.basic_get(name),
    "gets without acks": lambda channel, name: channel.basic_get(name, no_ack=True),
    "purges": lambda channel, name: channel.queue_purge(name),
    "deletes": lambda channel, name: channel.queue_delete(name),
    "asks for": lambda channel, name: channel.queue_declare(name, passive=True),
    "declares": lambda channel, name: channel.queue_declare(name, auto_delete=False),
    "declares as its own": lambda channel, name: channel.queue_declare(name, exclusive=True, auto_delete=False),
    "binds": lambda channel, name: channel.queue_bind(name, "amq.direct", "key"),
    "unbinds": lambda channel, name: channel.queue_unbind(name, "amq.direct", "its.key"),
}


def attempt(thief: amqp.Connection, what: str, name: str) -> str:
    """What is wrong with the answer; "": nothing."""
    channel = thief.channel()
    try:
        found = THEFTS[what](channel, name)
    except exceptions.ResourceLocked:
        return ""
    except exceptions.AccessRefused as refused:  # names of that kind are the broker's to give
        return "" if what.startswith("declares") and name.startswith("amq.") else f"is answered {refused!r}"
    except (exceptions.AMQPError, OSError) as other:
        return f"is answered {other!r}"
    channel.close()
    return f"is answered {found!r}"


def attempt_by_stomp(broker: BrokerProcess, name: str) -> str:
    with Wire((broker.host, broker.port)) as wire:
        wire.connect()
        wire.send_frame("SUBSCRIBE", {"id": "s", "destination": f"/queue/{name}", "receipt": "loot"})
        try:
            answer = wire.read_frame()
        except (Gone, TimeoutError) as wrong:
            return f"is answered nothing: {wrong}"
    return "" if answer.command == "ERROR" else f"is answered {answer}"


def foreign_ack(connection: amqp.Connection, tag: int, is_multiple: bool) -> str:
    """From another channel of the same connection."""
    channel = connection.channel()
    try:
        channel.basic_ack(tag, multiple=is_multiple)
        channel.basic_qos(0, 1, True)
    except exceptions.PreconditionFailed:
        return ""
    channel.close()
    return "is not refused"


def steal(run: Run, broker: BrokerProcess, chance: Random, number: int) -> None:
    with connected(broker) as victim, connected(broker) as thief:
        channel = victim.channel()
        name = declare(channel, f"mine.{number}" if chance.random() < 0.5 else "", durable=False, exclusive=True)
        channel.queue_bind(name, "amq.direct", "its.key")
        for one in range(MESSAGES):
            publish(channel, name, str(one))
        held = [channel.basic_get(name) for _ in range(HELD)]
        for what in chance.sample(sorted(THEFTS), len(THEFTS)):
            wrong = attempt(thief, what, name)
            run.case()
            if wrong:
                run.violation(f"A thief {what} the exclusive queue {name} of another connection, and {wrong}.")
        wrong = attempt_by_stomp(broker, name)
        if wrong:
            run.violation(f"A thief subscribes by STOMP to the exclusive queue {name}, and {wrong}.")
        wrong = foreign_ack(victim, held[-1].delivery_tag, chance.random() < 0.5)
        if wrong:
            run.violation(f"An ack of another channel's tag {wrong}.")
        run.case(2)
        publish(thief.channel(), name, "from another")
        judge(run, channel, name, held)
    with connected(broker) as next_one:
        try:
            declare(next_one.channel(), name if not name.startswith("amq.") else "", durable=False, exclusive=True)
        except exceptions.AMQPError as refused:
            run.violation(f"The owner of {name} has gone, and the name is not free: {refused!r}.")


def judge(run: Run, channel: amqp.Channel, name: str, held: list[amqp.Message]) -> None:
    """The victim's own books."""
    try:
        channel.basic_ack(held[0].delivery_tag)
        channel.basic_reject(held[1].delivery_tag, requeue=True)
        wanted = ["1", *map(str, range(HELD, MESSAGES)), "from another"]
        found = bodies(channel, name)
        if found != wanted:
            run.violation(f"The victim of thieves finds {found} in its queue, where {wanted} belong.")
        channel.basic_ack(held[2].delivery_tag)
        channel.queue_delete(name)
    except (exceptions.AMQPError, OSError) as refused:
        run.violation(f"The victim of thieves is refused: {refused!r}.")


def theft(run: Run) -> None:
    number = 0
    while not run.is_over:
        directory = run.directory / str(number)
        directory.mkdir()
        with BrokerProcess(directory, CONFIG) as broker, upright(run, broker):
            for _ in range(VICTIMS_OF_A_LIFE):
                if not run.is_over:
                    steal(run, broker, run.chance, number)
                    number += 1
        shutil.rmtree(directory)


CAMPAIGNS = (
    Campaign(
        number="S18b",
        name="owned-queues",
        title="exclusive queues and delivery tags of others over AMQP, stolen",
        unit="thefts",
        run=theft,
        cases=(130, 10_000, 100_000),
        mutants=("owned-queue-of-everybody",),
        mutant_cases=130,
        quick_mutants=1,
        needs=("linux",),
    ),
)
