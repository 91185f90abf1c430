"""Queues and exchanges as clients of AMQP 0-9-1 declare them, at a real broker."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import amqp
import pika
import pytest
from amqp import exceptions, spec

from tests.acceptance import amqp_clients
from tests.acceptance.amqp_clients import WAIT_MAX_S, Inbox, bodies, connected, declare, pika_channel, publish
from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess

CONFIG = amqp_clients.CONFIG
LETTERS = {"b": ">b", "B": ">B", "s": ">h", "u": ">H", "i": ">I", "I": ">i", "l": ">q", "L": ">Q"}


@pytest.fixture
def connection(broker: BrokerProcess) -> Iterator[amqp.Connection]:
    with connected(broker) as opened:
        yield opened


@pytest.fixture
def channel(connection: amqp.Connection) -> amqp.Channel:
    return connection.channel()


def is_gone(connection: amqp.Connection, queue: str) -> bool:
    with connection.channel() as asker:
        try:
            asker.queue_declare(queue, passive=True)
        except exceptions.NotFound:
            return True
    return False


# ---- queues ----------------------------------------------------------------------------------------------------------


def test_exclusive_queue_is_its_connections_alone(
    broker: BrokerProcess, connection: amqp.Connection, name: str
) -> None:
    owner = connected(broker)
    declare(owner.channel(), name, durable=False, exclusive=True)
    channel = connection.channel()
    for passive in (True, False):
        with pytest.raises(exceptions.ResourceLocked) as refused:
            channel.queue_declare(name, passive=passive, exclusive=not passive)
        assert refused.value.reply_code == 405
        channel = connection.channel()
    with pytest.raises(exceptions.ResourceLocked):
        Inbox(channel, name)
    owner.close()
    assert is_gone(connection, name)


def test_passive_declare_of_what_is_not_there(connection: amqp.Connection, name: str) -> None:
    with pytest.raises(exceptions.NotFound) as refused:
        connection.channel().queue_declare(name, passive=True)
    assert refused.value.reply_code == 404
    with pytest.raises(exceptions.NotFound):
        connection.channel().exchange_declare(name, "direct", passive=True)
    with pytest.raises(exceptions.NotFound):
        publish(connection.channel(), "key", "lost", exchange=name)
    assert is_gone(connection, name)


def test_other_arguments_are_another_queue(connection: amqp.Connection, name: str) -> None:
    declare(connection.channel(), name)
    declare(connection.channel(), name)
    for settings in ({"durable": False}, {"auto_delete": True}, {"arguments": {"x-message-ttl": 1000}}):
        with pytest.raises(exceptions.PreconditionFailed) as refused:
            declare(connection.channel(), name, **settings)
        assert refused.value.reply_code == 406


def test_server_names_a_queue(channel: amqp.Channel) -> None:
    first, second = declare(channel, exclusive=True), declare(channel, exclusive=True)
    assert first.startswith("amq.gen-") and first != second
    publish(channel, second, "1")
    assert bodies(channel, "") == ["1"]  # the last that was declared
    with pytest.raises(exceptions.AccessRefused):
        declare(channel, "amq.mine")


def test_what_differs_is_named_as_it_was_given(connection: amqp.Connection, name: str) -> None:
    """An x-max-length means an `overflow` too: what the program has said comes first."""
    few, more = {"x-max-length": 5}, {"x-expires": 60_000, "x-dead-letter-exchange": "dlx", "x-max-length": 5}
    declare(connection.channel(), name)
    declare(connection.channel(), f"{name}-2", arguments=more)
    for queue, arguments, sentence in (
        (name, few, "'x-max-length' for queue '{}' in vhost '/': received '5' but current is none"),
        (name, more, "'x-expires' for queue '{}' in vhost '/': received '60000' but current is none"),
        (f"{name}-2", {}, "'x-expires' for queue '{}' in vhost '/': received none but current is '60000'"),
    ):
        with pytest.raises(exceptions.PreconditionFailed) as refused:
            declare(connection.channel(), queue, arguments=arguments)
        assert refused.value.reply_text.endswith(f"inequivalent arg {sentence.format(queue)}")


def test_auto_delete_with_the_last_consumer(connection: amqp.Connection, name: str) -> None:
    channel = connection.channel()
    declare(channel, name, auto_delete=True)
    one, two = Inbox(channel, name), Inbox(channel, name)
    channel.basic_cancel(one.tag)
    assert not is_gone(connection, name)
    channel.basic_cancel(two.tag)
    assert is_gone(connection, name)


def test_delete_takes_what_is_unacked(connection: amqp.Connection, name: str) -> None:
    channel = connection.channel()
    declare(channel, name)
    publish(channel, name, "1")
    publish(channel, name, "2")
    message = channel.basic_get(name)
    connection.channel().queue_delete(name)
    assert is_gone(connection, name)
    channel.basic_ack(message.delivery_tag)
    assert declare(channel, name) == name
    assert bodies(channel, name) == []


def test_conditions_of_a_delete_and_purge(connection: amqp.Connection, name: str) -> None:
    declare(connection.channel(), name)
    publish(connection.channel(), name, "1")
    with pytest.raises(exceptions.PreconditionFailed):
        connection.channel().queue_delete(name, if_empty=True)
    assert connection.channel().queue_purge(name) == 1
    Inbox(connection.channel(), name, on_cancel=lambda tag: None)
    with pytest.raises(exceptions.PreconditionFailed):
        connection.channel().queue_delete(name, if_unused=True)
    assert connection.channel().queue_delete(name) == 0


def test_consumer_hears_that_its_queue_is_deleted(
    broker: BrokerProcess, connection: amqp.Connection, name: str
) -> None:
    channel = connection.channel()
    declare(channel, name)
    heard: list[str] = []
    inbox = Inbox(channel, name, on_cancel=heard.append)
    with connected(broker) as other:
        other.channel().queue_delete(name)
    while not heard:
        connection.drain_events(timeout=WAIT_MAX_S)
    assert heard == [inbox.tag]


def test_consumer_that_is_alone(channel: amqp.Channel, connection: amqp.Connection, name: str) -> None:
    declare(channel, name)
    Inbox(channel, name, exclusive=True)
    with pytest.raises(exceptions.AccessRefused):
        Inbox(connection.channel(), name)


@pytest.mark.parametrize("letter", LETTERS)
def test_integer_of_every_letter(channel: amqp.Channel, wire: Wire, name: str, letter: str) -> None:
    argument = b"x-message-ttl"
    table = bytes([len(argument)]) + argument + letter.encode() + struct.pack(LETTERS[letter], 100)
    # a long string has the same length before it as a table
    channel.send_method(
        spec.Queue.Declare, "BsbbbbbS", (0, name, False, True, False, False, False, table), wait=spec.Queue.DeclareOk
    )
    settings = json.loads(wire.admin(json.dumps({"do": "describe", "queue": name}).encode()))["settings"]
    assert settings["message_ttl_ms"] == 100
    declare(channel, name, arguments={"x-message-ttl": 100})


# ---- what bounds a queue ---------------------------------------------------------------------------------------------


def test_expired_message_is_a_dead_letter(channel: amqp.Channel, name: str) -> None:
    dead = declare(channel, f"{name}-dead")
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    declare(channel, name, arguments={"x-message-ttl": 20, **letters})
    publish(channel, name, "1")
    message = Inbox(channel, dead, no_ack=True).next()
    (death,) = message.headers["x-death"]
    assert (death["queue"], death["reason"], death["count"]) == (name, "expired", 1)
    assert (death["exchange"], death["routing-keys"]) == ("", [name])
    assert message.headers["x-first-death-queue"] == name and message.headers["x-first-death-reason"] == "expired"


def test_expiration_of_a_message(channel: amqp.Channel, name: str) -> None:
    dead = declare(channel, f"{name}-dead")
    declare(channel, name, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    publish(channel, name, "1", expiration="20")
    message = Inbox(channel, dead, no_ack=True).next()
    assert message.headers["x-death"][0]["original-expiration"] == "20"
    assert "expiration" not in message.properties


def test_work_comes_back_by_way_of_retry(channel: amqp.Channel, name: str) -> None:
    work, retry = f"{name}-work", f"{name}-retry"
    channel.exchange_declare(name, "direct", durable=True, auto_delete=False)
    declare(channel, work, arguments={"x-dead-letter-exchange": name, "x-dead-letter-routing-key": "again"})
    back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": work, "x-message-ttl": 20}
    declare(channel, retry, arguments=back)
    channel.queue_bind(retry, name, "again")
    publish(channel, work, "job", application_headers={"kept": "yes"})
    inbox = Inbox(channel, work)
    for _ in range(2):
        channel.basic_reject(inbox.next().delivery_tag, requeue=False)
    message = inbox.next()
    deaths = {(death["queue"], death["reason"]): death["count"] for death in message.headers["x-death"]}
    assert deaths == {(work, "rejected"): 2, (retry, "expired"): 2}
    assert (message.body, message.headers["kept"]) == ("job", "yes")
    channel.basic_ack(message.delivery_tag)


def test_full_queue_drops_its_head(channel: amqp.Channel, name: str) -> None:
    declare(channel, name, arguments={"x-max-length": 2})
    for body in ("1", "2", "3"):
        publish(channel, name, body)
    assert bodies(channel, name) == ["2", "3"]


@pytest.mark.parametrize("durable", [True, False])
def test_a_transaction_may_bring_more_than_a_queue_has_room_for(
    broker: BrokerProcess, name: str, durable: bool
) -> None:
    with connected(broker, confirm_publish=False) as connection:
        channel, dead = connection.channel(), f"{name}-dead"
        declare(channel, dead)
        to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
        declare(channel, name, durable=durable, arguments={"x-max-length": 2, **to_dead})
        publish(channel, name, "old")
        channel.tx_select()
        for body in "12345":
            publish(channel, name, body)
        channel.tx_commit()
        with connection.channel() as another:
            assert bodies(another, name) == ["4", "5"]
            assert bodies(another, dead) == ["old", "1", "2", "3"]


def test_a_transaction_with_more_than_a_queue_takes_that_refuses_is_refused_whole(
    broker: BrokerProcess, name: str
) -> None:
    with connected(broker, confirm_publish=False) as connection:
        channel = connection.channel()
        declare(channel, name, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
        channel.tx_select()
        for body in "123":
            publish(channel, name, body)
        with pytest.raises(exceptions.PreconditionFailed, match="can never hold 3 messages of") as raised:
            channel.tx_commit()
        assert raised.value.method_sig == spec.Tx.Commit
        assert bodies(connection.channel(), name) == []


@pytest.mark.parametrize("durable", [True, False])
def test_a_queue_for_no_message_hands_over_what_a_consumer_has_room_for(
    connection: amqp.Connection, name: str, durable: bool
) -> None:
    channel = connection.channel()
    declare(channel, name, durable=durable, arguments={"x-max-length": 0})
    publish(channel, name, "nobody is there")
    channel.basic_qos(0, 2, False)
    inbox = Inbox(channel, name)
    for body in "123":
        publish(channel, name, body)
    assert [inbox.next().body for _ in range(2)] == ["1", "2"] and inbox.is_silent()
    assert channel.queue_declare(name, passive=True).message_count == 0


def test_what_is_unacked_takes_no_room(connection: amqp.Connection, name: str) -> None:
    channel = connection.channel()
    declare(channel, name, arguments={"x-max-length": 2})
    channel.basic_qos(0, 3, False)
    inbox = Inbox(channel, name)
    for body in "123456":
        publish(channel, name, body)
    assert [inbox.next().body for _ in range(3)] == ["1", "2", "3"]
    channel.close()
    with connection.channel() as another:
        assert bodies(another, name) == ["5", "6"], "what comes back is older than what is there"


def test_what_a_full_queue_drops_is_a_dead_letter(channel: amqp.Channel, name: str) -> None:
    dead = f"{name}-dead"
    declare(channel, dead)
    to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    declare(channel, name, arguments={"x-max-length": 2, **to_dead})
    for body in ("1", "2", "3"):
        publish(channel, name, body)
    message = channel.basic_get(dead, no_ack=True)
    assert message is not None
    assert (message.body, message.headers["x-first-death-reason"]) == ("1", "maxlen")
    assert bodies(channel, name) == ["2", "3"]


def test_full_queue_that_refuses_gives_a_nack(broker: BrokerProcess, name: str) -> None:
    with connected(broker) as connection:
        channel = connection.channel()
        declare(channel, name, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
        publish(channel, name, "1")
        with pytest.raises(exceptions.MessageNacked):
            publish(channel, name, "2")
        assert bodies(channel, name) == ["1"]
        publish(channel, name, "3")
        assert bodies(channel, name) == ["3"]


def test_highest_priority_first_after_a_restart_too(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, CONFIG) as broker:
        channel = connected(broker).channel()
        declare(channel, "q", arguments={"x-max-priority": 9})
        for priority in (1, 9, 5, 9, 0, 200):
            publish(channel, "q", str(priority), priority=priority)
        publish(channel, "q", "none")
        broker.kill()
        broker.start()
        assert bodies(connected(broker).channel(), "q") == ["9", "9", "200", "5", "1", "0", "none"]
        assert broker.stop() == 0


# ---- routing ---------------------------------------------------------------------------------------------------------


def exchange(channel: amqp.Channel, name: str, kind: str, **settings: Any) -> str:
    channel.exchange_declare(name, kind, durable=True, auto_delete=False, **settings)
    return name


@pytest.mark.parametrize(
    ("kind", "bound", "reached", "missed"),
    [
        ("direct", "a.b", ["a.b"], ["a", "a.b.c"]),
        ("topic", "a.*.#", ["a.b", "a.b.c"], ["a", "b.a"]),
        ("fanout", "ignored", ["a", ""], []),
    ],
)
def test_key_is_matched(
    channel: amqp.Channel, name: str, kind: str, bound: str, reached: list[str], missed: list[str]
) -> None:
    exchange(channel, name, kind)
    queue = declare(channel, name)
    channel.queue_bind(queue, name, bound)
    for key in reached + missed:
        publish(channel, key, key, exchange=name)
    assert bodies(channel, queue) == reached
    channel.queue_unbind(queue, name, bound)
    publish(channel, reached[0], "lost", exchange=name)
    assert bodies(channel, queue) == []


def test_headers_are_matched(channel: amqp.Channel, name: str) -> None:
    exchange(channel, name, "headers")
    every, some = declare(channel, f"{name}-all"), declare(channel, f"{name}-any")
    channel.queue_bind(every, name, "", arguments={"x-match": "all", "a": 1, "b": "x"})
    channel.queue_bind(some, name, "", arguments={"x-match": "any", "a": 1, "b": "x"})
    for body, headers in {"both": {"a": 1, "b": "x"}, "one": {"a": 1}, "other": {"a": 2}, "none": {}}.items():
        publish(channel, "", body, exchange=name, application_headers=headers)
    assert bodies(channel, every) == ["both"]
    assert bodies(channel, some) == ["both", "one"]


def test_byte_arrays_are_matched(broker: BrokerProcess, channel: amqp.Channel, name: str) -> None:
    """Perl's Net::AMQP::RabbitMQ sends all text in tables so, as pika does with bytes."""
    exchange(channel, name, "headers")
    queue = declare(channel, name)
    with pika_channel(broker, confirms=True) as other:
        other.queue_bind(queue, name, arguments={"a": b"bar"})
        for value in (b"bar", "bar", b"baz"):
            other.basic_publish(name, "", repr(value).encode(), pika.BasicProperties(headers={"a": value}))
        assert bodies(channel, queue) == [b"b'bar'"]
        other.queue_unbind(queue, name, arguments={"a": b"bar"})
        other.basic_publish(name, "", b"lost", pika.BasicProperties(headers={"a": b"bar"}))
        assert bodies(channel, queue) == []


def test_exchange_bound_to_another(channel: amqp.Channel, name: str) -> None:
    source, target = exchange(channel, f"{name}-source", "topic"), exchange(channel, f"{name}-target", "fanout")
    queue = declare(channel, name)
    channel.exchange_bind(target, source, "a.#")
    channel.queue_bind(queue, target)
    channel.queue_bind(queue, source, "a.b")
    publish(channel, "a.b", "once", exchange=source)
    publish(channel, "b", "lost", exchange=source)
    assert bodies(channel, queue) == ["once"]
    channel.exchange_unbind(target, source, "a.#")
    publish(channel, "a.c", "lost", exchange=source)
    assert bodies(channel, queue) == []


def test_alternate_exchange(channel: amqp.Channel, name: str) -> None:
    other = exchange(channel, f"{name}-other", "fanout")
    exchange(channel, name, "direct", arguments={"alternate-exchange": other})
    queue, rest = declare(channel, name), declare(channel, f"{name}-rest")
    channel.queue_bind(queue, name, "known")
    channel.queue_bind(rest, other)
    publish(channel, "known", "1", exchange=name)
    publish(channel, "unknown", "2", exchange=name)
    assert (bodies(channel, queue), bodies(channel, rest)) == (["1"], ["2"])


def test_an_alternate_exchange_without_a_name_is_none(connection: amqp.Connection, name: str) -> None:
    channel = connection.channel()
    for arguments in ({"alternate-exchange": ""}, {}, {"alternate-exchange": ""}):
        exchange(channel, name, "direct", arguments=arguments)
    queue = declare(channel, name)
    publish(channel, queue, "lost", exchange=name)  # the default exchange would lead it to the queue
    assert bodies(channel, queue) == []
    exchange(channel, f"{name}-led", "direct", arguments={"alternate-exchange": name})
    for arguments in ({"alternate-exchange": ""}, {"alternate-exchange": 1}):
        with pytest.raises(exceptions.PreconditionFailed):
            exchange(connection.channel(), f"{name}-led", "direct", arguments=arguments)


def test_copies_by_headers(channel: amqp.Channel, name: str) -> None:
    to, copy, blind = (declare(channel, f"{name}-{which}") for which in ("to", "cc", "bcc"))
    publish(channel, to, "1", application_headers={"CC": [copy], "BCC": [blind]})
    found = [channel.basic_get(queue, no_ack=True) for queue in (to, copy, blind)]
    assert [message.body for message in found] == ["1"] * 3
    assert all(message.headers["CC"] == [copy] and "BCC" not in message.headers for message in found)


@pytest.mark.parametrize("way", ["headers", "onward", "alternate"])
def test_dead_letter_is_routed_as_a_published_message(channel: amqp.Channel, name: str, way: str) -> None:
    dead, other, last = declare(channel, f"{name}-dead"), declare(channel, f"{name}-other"), f"{name}-last"
    exchange(channel, last, "fanout")
    channel.queue_bind(dead, last)
    if way == "headers":
        exchange(channel, name, "headers")
        channel.queue_bind(dead, name, arguments={"format": "pdf", "number": 5})
        channel.queue_bind(other, name, arguments={"format": "doc"})
    elif way == "onward":
        exchange(channel, name, "topic")
        channel.exchange_bind(last, name, "*.*.*.*.work.#")
    else:
        exchange(channel, name, "direct", arguments={"alternate-exchange": last})
    to_dead = {"x-dead-letter-exchange": name, "x-dead-letter-routing-key": "0.1.0.1.work"}
    work = declare(channel, f"{name}-work", arguments=to_dead)
    publish(channel, work, "1", application_headers={"format": "pdf", "number": 5})
    channel.basic_reject(channel.basic_get(work).delivery_tag, requeue=False)
    assert (bodies(channel, dead), bodies(channel, other)) == (["1"], [])


def test_dead_letter_is_routed_by_one_key(channel: amqp.Channel, name: str) -> None:
    """RabbitMQ routes it by CC again: docs/AMQP.md says that this broker does not."""
    work, dead, copy = f"{name}-work", declare(channel, f"{name}-dead"), declare(channel, f"{name}-cc")
    exchange(channel, name, "direct")
    channel.queue_bind(dead, name, work)
    channel.queue_bind(copy, name, copy)
    declare(channel, work, arguments={"x-dead-letter-exchange": name})
    publish(channel, work, "1", application_headers={"CC": [copy]})
    channel.basic_reject(channel.basic_get(work).delivery_tag, requeue=False)
    assert (bodies(channel, dead), bodies(channel, copy)) == (["1"], ["1"])  # the copy of the publish alone


def test_exchange_that_is_in_use_or_the_brokers_own(connection: amqp.Connection, name: str) -> None:
    exchange(connection.channel(), name, "direct")
    with pytest.raises(exceptions.PreconditionFailed):
        exchange(connection.channel(), name, "topic")
    with pytest.raises(exceptions.AccessRefused):
        exchange(connection.channel(), "amq.mine", "topic")
    channel = connection.channel()
    channel.queue_bind(declare(channel, name), name, "key")
    with pytest.raises(exceptions.PreconditionFailed):
        connection.channel().exchange_delete(name, if_unused=True)
    connection.channel().exchange_delete(name)
    connection.channel().exchange_delete(name)  # what is not there is deleted


# ---- redeliveries


@pytest.mark.parametrize("limit", [None, -1, 20])
def test_what_is_given_back_is_a_dead_letter_only_beyond_a_limit_that_was_given(
    connection: amqp.Connection, name: str, limit: int | None
) -> None:
    given = {} if limit is None else {"x-delivery-limit": limit}
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}.dead", **given}
    channel = connection.channel()
    declare(channel, f"{name}.dead")
    for _ in range(2):  # again it is the same
        declare(channel, name, arguments=arguments)
    publish(channel, name, b"poison")
    deliveries = 0
    while deliveries < 50 and (message := channel.basic_get(name)) is not None:
        deliveries += 1
        channel.basic_reject(message.delivery_tag, requeue=True)
    assert deliveries == (21 if limit == 20 else 50)
    assert (channel.basic_get(f"{name}.dead") is not None) is (limit == 20)
