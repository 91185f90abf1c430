"""S18: what belongs to another connection: its messages, subscriptions, transactions, temp queues and their ids.

A thief who knows every id of a victim says ACK, NACK, UNSUBSCRIBE, SUBSCRIBE, BEGIN, COMMIT, ABORT and SEND with them,
in every version; with guessed ids too. Each must be refused, or mean something of the thief's own; then the victim's
books are as they were, its messages can still be acked, and its transaction commits what it has, once.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass

from tests.acceptance.wire import Frame, Gone, Wire
from tests.broker_process import BrokerProcess
from tests.campaigns.bystander import Operator, upright
from tests.campaigns.campaign import Campaign, Run

VERSIONS = ("1.0", "1.1", "1.2")
CONFIG = """\
[create]
queues = true
topics = true
[queue."memory.#"]
persistent = false
"""
VICTIMS_OF_A_LIFE = 50  # of one broker: each leaves some queues
HELD = 3  # messages that the victim holds

Headers = dict[str, str]
Theft = tuple[str, Headers, bytes]


@dataclass(slots=True)
class Victim:
    """Holds messages, a transaction with a SEND and an ACK in it, a subscription and a temp queue."""

    wire: Wire
    queue: str
    held: list[Frame]
    in_transaction: Frame
    transaction: str
    subscription: str
    reply_to: str

    @classmethod
    def come(cls, broker: BrokerProcess, version: str, name: str) -> "Victim":
        wire = Wire((broker.host, broker.port), version)
        wire.connect()
        queue = f"/queue/{name}"
        for number in range(HELD + 1):
            wire.send(queue, f"held {number}")
        subscription = f"sub-{name}"
        wire.subscribe(queue, id=subscription, headers={"prefetch-count": "10"})
        *held, last = [wire.message() for _ in range(HELD + 1)]
        transaction = f"tx-{name}"
        wire.ask("BEGIN", {"transaction": transaction})
        wire.send(f"{queue}.out", "from the transaction", {"transaction": transaction})
        wire.ack(last, {"transaction": transaction})
        # where its temp queue is, as whoever answers it would be told
        wire.ask("SUBSCRIBE", {"id": "asked", "destination": f"{queue}.asked", "ack": "auto"})
        wire.ask("SUBSCRIBE", {"id": "answers", "destination": "/temp-queue/answers", "ack": "auto"})
        wire.send(f"{queue}.asked", "where am I?", {"reply-to": "/temp-queue/answers"})
        return cls(wire, queue, held, last, transaction, subscription, wire.message()["reply-to"])

    def is_well(self) -> list[str]:
        """What it finds wrong when it goes on as if nothing had been."""
        wire, wrong = self.wire, []
        try:
            if not wire.is_silent():
                wrong.append(f"it was sent {wire.early}")
            wire.ack(self.held[0])
            wire.nack(self.held[1]) if wire.version != "1.0" else wire.ack(self.held[1])
            if wire.version != "1.0" and (again := wire.message()).body != self.held[1].body:
                wrong.append(f"after a NACK it was sent {again}")
            wire.ask("COMMIT", {"transaction": self.transaction})
            wire.send(self.reply_to, "here you are")
            if (answer := wire.message()).body != b"here you are":
                wrong.append(f"its own answer came as {answer}")
            wire.ask("UNSUBSCRIBE", {"id": self.subscription})
        except (AssertionError, Gone, TimeoutError) as lost:
            wrong.append(f"it was refused: {lost}")
        return wrong


# ---- the thefts -----------------------------------------------------------------------------------------------------


def named(victim: Victim, message: Frame, version: str) -> Headers:
    """The headers by which the thief's version would name it; the ids are what the victim was told."""
    if version == "1.2":
        return {"id": message["message-id"]}
    if version == "1.1":
        return {"message-id": message["message-id"], "subscription": victim.subscription}
    return {"message-id": message["message-id"]}


def acks(run: Run, victim: Victim, version: str) -> list[Theft]:
    messages = [*victim.held, victim.in_transaction]
    commands = ("ACK",) if version == "1.0" else ("ACK", "NACK")
    thefts: list[Theft] = [
        (command, named(victim, run.chance.choice(messages), version), b"") for command in commands for _ in "12"
    ]
    if version != "1.0":
        requeue = {"requeue": "false", **named(victim, victim.held[0], version)}
        thefts.append(("NACK", requeue, b""))
    store, boot, position = victim.held[0]["message-id"].rsplit("-", 2)
    guesses = (
        f"{store}-{boot}-{int(position) + run.chance.randrange(-30, 30)}",
        f"{store}-{int(boot) + 1}-{position}", f"{store}-0-{position}", f"{'0' * len(store)}-{boot}-{position}",
        f"{store}-{boot}-{position}t", f"{store}-{boot}-0{position}", f" {store}-{boot}-{position}",
        f"{store}-{boot}", store, position, "-1", "0", "*", "#", "x" * 1000, "é", "message-id", "1", "",
    )  # fmt: skip
    for guess in run.chance.sample(guesses, 4):
        if version == "1.2":
            thefts.append(("ACK", {"id": guess}, b""))
        else:
            thefts.append(("ACK", {"message-id": guess, "subscription": victim.subscription}, b""))
    return thefts


def thefts_of(run: Run, victim: Victim, version: str) -> list[Theft]:
    """All that must be refused."""
    transaction = {"transaction": victim.transaction}
    out = f"{victim.queue}.out"
    return [
        *acks(run, victim, version),
        ("UNSUBSCRIBE", {"id": victim.subscription}, b""),
        ("UNSUBSCRIBE", {"id": "answers"}, b""),
        ("COMMIT", transaction, b""),
        ("ABORT", transaction, b""),
        ("SEND", {"destination": out, **transaction}, b"stolen"),
        ("ACK", {**named(victim, victim.held[0], version), **transaction}, b""),
        ("SUBSCRIBE", {"id": "s", "destination": victim.reply_to}, b""),
        ("SUBSCRIBE", {"id": "s", "destination": victim.reply_to.upper()}, b""),
    ]


def own_things(victim: Victim, version: str) -> list[tuple[str, Callable[[Wire], None]]]:
    """What a thief may do: the same names, as its own. None of it touches the victim."""

    def same_transaction(wire: Wire) -> None:
        wire.ask("BEGIN", {"transaction": victim.transaction})
        wire.send(f"{victim.queue}.thief", "its own", {"transaction": victim.transaction})
        wire.ask("ABORT", {"transaction": victim.transaction})
        wire.ask("BEGIN", {"transaction": victim.transaction})
        wire.ask("COMMIT", {"transaction": victim.transaction})

    def same_subscription(wire: Wire) -> None:
        wire.subscribe(f"{victim.queue}.thief", id=victim.subscription)
        wire.ask("UNSUBSCRIBE", {"id": victim.subscription})

    def same_temp_queue(wire: Wire) -> None:
        wire.subscribe("/temp-queue/answers", id="answers", ack="auto")
        if not wire.is_silent():
            raise AssertionError(f"it was sent {wire.early}")
        wire.ask("UNSUBSCRIBE", {"id": "answers"})

    def acks_where_they_mean_nothing(wire: Wire) -> None:
        """With an `auto` subscription and a topic of its own an ACK that names neither is ignored."""
        wire.subscribe(f"{victim.queue}.auto", id="auto", ack="auto")
        wire.send(f"{victim.queue}.auto", "mine")
        wire.message()
        for message in (*victim.held, victim.in_transaction):
            naming = {**named(victim, message, version), "subscription": "auto"}
            wire.ask("ACK", naming)
            if version != "1.0":
                wire.ask("NACK", {**naming, "requeue": "false"})

    def leaves(wire: Wire) -> None:
        wire.subscribe(f"{victim.queue}.thief", id=victim.subscription)
        wire.ask("DISCONNECT")

    return [
        ("begins a transaction of the same name", same_transaction),
        ("subscribes with the same id", same_subscription),
        ("subscribes to a temp queue of the same name", same_temp_queue),
        ("acks where that means nothing", acks_where_they_mean_nothing),
        ("leaves with the same names", leaves),
    ]


def hold_of_its_own(wire: Wire, victim: Victim) -> None:
    """A message, on a subscription with the victim's id: an ACK could be taken for one of it."""
    wire.send(f"{victim.queue}.thief", "its own")
    wire.subscribe(f"{victim.queue}.thief", id=victim.subscription, ack="client")
    wire.message()


def is_of(victim: Victim, headers: Headers) -> bool:
    ids = {message["message-id"] for message in (*victim.held, victim.in_transaction)}
    return not ids.isdisjoint(headers.values())


def books(operator: Operator, victim: Victim) -> dict[str, object]:
    """All that the operator can see of the victim's queues."""
    names = (victim.queue, f"{victim.queue}.out")
    queues = operator.stats()["queues"]
    return {name: queues.get(name.removeprefix("/queue/")) for name in names}


def steal(run: Run, broker: BrokerProcess, operator: Operator, number: int) -> None:
    victims, thief = run.chance.choice(VERSIONS), run.chance.choice(VERSIONS)
    victim = Victim.come(broker, victims, f"{run.chance.choice(('durable', 'memory'))}.{number}")
    before = books(operator, victim)
    address = (broker.host, broker.port)
    context = f"A thief ({thief}) of {victims}"
    try:
        for command, headers, body in thefts_of(run, victim, thief):
            with Wire(address, thief) as wire:
                wire.connect()
                if is_of(victim, headers) and run.chance.random() < 0.5:
                    hold_of_its_own(wire, victim)
                wire.send_frame(command, {"receipt": "loot", **headers}, body)
                try:
                    answer = wire.read_frame()
                except (Gone, TimeoutError) as wrong:
                    run.violation(f"{context} says {command} {headers} and is answered nothing: {wrong}.")
                    continue
                if answer.command != "ERROR":
                    run.violation(f"{context} says {command} {headers} and is answered {answer}.")
            run.case()
        for what, do in own_things(victim, thief):
            with Wire(address, thief) as wire:
                wire.connect()
                try:
                    do(wire)
                except (AssertionError, Gone, TimeoutError) as wrong:
                    run.violation(f"{context} {what}, and that goes wrong: {wrong}.")
            run.case()
        if books(operator, victim) != before:
            run.violation(f"{context} changed {before} to {books(operator, victim)}.")
        for wrong in victim.is_well():
            run.violation(f"{context} did the victim harm: {wrong}.")
        after = books(operator, victim)[f"{victim.queue}.out"]
        if not isinstance(after, dict) or after["accepted"] != 1:
            run.violation(f"{context}: the victim's transaction came to {after}.")
    finally:
        victim.wire.close()


def theft(run: Run) -> None:
    for life in range(run.cases):
        if run.is_over:
            break
        directory = run.directory / str(life)
        directory.mkdir()
        with BrokerProcess(directory, CONFIG) as broker, upright(run, broker):
            operator = Operator(broker)
            for number in range(VICTIMS_OF_A_LIFE):
                if not run.is_over:
                    steal(run, broker, operator, number)
            operator.close()
        shutil.rmtree(directory)


CAMPAIGNS = (
    Campaign(
        number="S18",
        name="theft",
        title="ids of another connection's messages, subscriptions, transactions and temp queues, stolen and guessed",
        unit="thefts",
        run=theft,
        cases=(600, 30_000, 500_000),
        mutants=("foreign-ack-accepted", "transactions-of-everybody", "subscriptions-of-everybody"),
        mutant_cases=150,
        quick_mutants=3,
        needs=("linux",),
    ),
)
