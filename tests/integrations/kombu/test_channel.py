"""Channels of kombu against a real broker: queues, consumers, acks, windows, publishing."""

import threading
import time
from datetime import UTC, datetime
from typing import Any

import kombu
import pytest
from amqp.exceptions import NotFound, PreconditionFailed
from kombu.exceptions import ChannelError

from radiator.client import Client
from radiator.integrations.kombu.failures import ConnectionLost, OperationRefused
from tests.broker_process import BrokerProcess
from tests.integrations.kombu.conftest import Connect


class Collected:
    """A consumer that keeps what comes. prefetch_count 0: as many as there are."""

    def __init__(self, channel: Any, queue: str, *, no_ack: bool = False, prefetch_count: int = 0) -> None:
        self.messages: list[Any] = []
        self.connection = channel.connection.client
        channel.basic_qos(0, prefetch_count, False)
        self.tag = channel.basic_consume(queue, no_ack=no_ack, callback=self.messages.append)

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    def wait_for(self, count: int, timeout_s: float = 5.0) -> "Collected":
        end_s = time.monotonic() + timeout_s
        while len(self.messages) < count and time.monotonic() < end_s:
            drain(self.connection, 0.2)
        assert len(self.messages) == count, self.bodies
        return self

    def hears_nothing(self, seconds: float = 0.15) -> None:
        before = len(self.messages)
        drain(self.connection, seconds)
        assert len(self.messages) == before, self.bodies[before:]


def drain(connection: kombu.Connection, timeout: float) -> bool:
    try:
        connection.drain_events(timeout=timeout)
    except TimeoutError:
        return False
    return True


def publish(channel: Any, body: bytes, routing_key: str, exchange: str = "", **options: Any) -> None:
    properties = {"delivery_mode": options.pop("delivery_mode", 2), **options.pop("properties", {})}
    message = channel.prepare_message(body, 0, "application/data", "binary", options.pop("headers", {}), properties)
    channel.basic_publish(message, exchange=exchange, routing_key=routing_key, **options)


def declared(channel: Any, queue: str, **options: Any) -> str:
    options = {"durable": True, "auto_delete": False, **options}
    return str(channel.queue_declare(queue, **options).queue)


# ---- queues


def test_a_queue_is_declared_counted_purged_and_deleted(channel: Any, name: str) -> None:
    assert channel.queue_declare(name, durable=True, auto_delete=False) == (name, 0, 0)
    for number in range(3):
        publish(channel, b"%d" % number, name)
    assert channel.queue_declare(name, passive=True) == (name, 3, 0)
    assert channel.queue_purge(name) == 3
    publish(channel, b"last", name)
    assert channel.queue_delete(name) == 1
    with pytest.raises(ChannelError):
        channel.queue_declare(name, passive=True)
    assert channel.queue_delete(name) == 0


def test_what_is_not_there_or_is_another_is_what_amqp_calls_it(channel: Any, name: str) -> None:
    """Programs written for RabbitMQ catch NotFound and PreconditionFailed."""
    with pytest.raises(NotFound) as missing:
        channel.basic_get(name)
    assert missing.value.code == 404 and "There is no" in str(missing.value)
    declared(channel, name)
    publish(channel, b"x", name)
    with pytest.raises(PreconditionFailed) as otherwise:
        channel.queue_delete(name, if_empty=True)
    assert otherwise.value.code == 406 and "purge it first" in str(otherwise.value)
    with pytest.raises(PreconditionFailed):
        channel.queue_declare(name, durable=False, auto_delete=False)
    assert channel.is_open


def test_a_queue_without_a_name_gets_one(channel: Any) -> None:
    first, second = declared(channel, ""), declared(channel, "")
    assert first and second and first != second


def test_a_queue_that_exists_and_is_another_is_refused_and_the_connection_goes_on(channel: Any, name: str) -> None:
    declared(channel, name)
    with pytest.raises(OperationRefused) as refused:
        channel.queue_declare(name, durable=False, auto_delete=False)
    assert refused.value.radiator_code == "declared-otherwise"
    declared(channel, name)


def test_queue_arguments_are_settings_of_the_broker(broker: BrokerProcess, channel: Any, name: str) -> None:
    arguments = {"x-message-ttl": 60_000, "x-max-length": 2, "max_redeliveries": 3}
    declared(channel, name, arguments=arguments)
    for number in range(3):
        publish(channel, b"%d" % number, name)
    with Client(broker.address) as client:
        settings = client.admin({"do": "describe", "queue": name})["settings"]
    assert (settings["message_ttl_ms"], settings["max_redeliveries"]) == (60_000, 3)
    assert Collected(channel, name).wait_for(2).bodies == [b"1", b"2"]


# ---- publishing and consuming


def test_messages_come_in_order_and_are_gone_when_acked(channel: Any, name: str) -> None:
    declared(channel, name)
    consumer = Collected(channel, name)
    for number in range(20):
        publish(channel, b"%d" % number, name, headers={"number": number})
    consumer.wait_for(20)
    assert consumer.bodies == [b"%d" % number for number in range(20)]
    assert [message.headers["number"] for message in consumer.messages] == list(range(20))
    for message in consumer.messages:
        message.ack()
    channel.basic_cancel(consumer.tag)
    channel.close()
    assert channel.connection is None
    assert consumer.connection.channel().queue_declare(name, passive=True).message_count == 0


def test_each_drain_hands_on_one_message(connection: kombu.Connection, channel: Any, name: str) -> None:
    """kombu counts on it: what collects so many replies drains so many times."""
    declared(channel, name)
    for number in range(3):
        publish(channel, b"%d" % number, name)
    consumer = Collected(channel, name)
    for count in (1, 2, 3):
        connection.drain_events(timeout=5)
        assert len(consumer.messages) == count
    began_s = time.monotonic()
    with pytest.raises(TimeoutError):
        connection.drain_events(timeout=0.2)
    assert 0.15 < time.monotonic() - began_s < 2


def test_multiple_acks_all_up_to_the_tag_and_no_other_channel(connection: kombu.Connection, name: str) -> None:
    first, second = connection.channel(), connection.channel()
    declared(first, name)
    declared(second, name + "-2")
    one, two = Collected(first, name), Collected(second, name + "-2")
    for number in range(3):
        publish(first, b"%d" % number, name)
        publish(first, b"%d" % number, name + "-2")
    one.wait_for(3)
    two.wait_for(3)
    first.basic_ack(one.messages[1].delivery_tag, multiple=True)
    first.close()
    second.close()
    check = connection.channel()
    assert check.queue_declare(name, passive=True).message_count == 1
    assert check.queue_declare(name + "-2", passive=True).message_count == 3


def test_a_tag_that_is_not_unacked_is_refused(channel: Any, name: str) -> None:
    declared(channel, name)
    publish(channel, b"x", name)
    tag = Collected(channel, name).wait_for(1).messages[0].delivery_tag
    channel.basic_ack(tag)
    for wrong in (tag, tag + 1):
        with pytest.raises(OperationRefused):
            channel.basic_ack(wrong)


def test_reject_gives_back_or_away(channel: Any, name: str) -> None:
    declared(channel, name + "-dead")
    declared(channel, name, arguments={"x-dead-letter-routing-key": name + "-dead"})
    consumer, dead = Collected(channel, name), Collected(channel, name + "-dead")
    publish(channel, b"x", name)
    assert not consumer.wait_for(1).messages[0].delivery_info["redelivered"]
    consumer.messages[0].requeue()
    assert consumer.wait_for(2).messages[1].delivery_info["redelivered"]
    consumer.messages[1].reject()
    assert dead.wait_for(1).bodies == [b"x"]


def test_recover_brings_all_of_a_channel_again(channel: Any, name: str) -> None:
    declared(channel, name)
    consumer = Collected(channel, name)
    for number in range(2):
        publish(channel, b"%d" % number, name)
    consumer.wait_for(2)
    channel.basic_recover(requeue=True)
    assert sorted(consumer.wait_for(4).bodies) == [b"0", b"0", b"1", b"1"]


def test_no_ack_needs_none(channel: Any, connection: kombu.Connection, name: str) -> None:
    declared(channel, name)
    consumer = Collected(channel, name, no_ack=True, prefetch_count=1)
    for number in range(3):
        publish(channel, b"%d" % number, name)
    consumer.wait_for(3)
    consumer.messages[0].ack()  # kombu's consumers may do so all the same
    channel.close()
    assert connection.channel().queue_declare(name, passive=True).message_count == 0


@pytest.mark.parametrize("count", [1, 3])
def test_a_window_holds_so_many_and_can_be_changed(channel: Any, name: str, count: int) -> None:
    declared(channel, name)
    for number in range(8):
        publish(channel, b"%d" % number, name)
    consumer = Collected(channel, name, prefetch_count=count).wait_for(count)
    consumer.hears_nothing()
    consumer.messages[0].ack()
    consumer.wait_for(count + 1).hears_nothing()
    channel.basic_qos(0, count + 2, False)
    consumer.wait_for(count + 3).hears_nothing()


def test_queues_of_one_channel_share_its_window(channel: Any, name: str) -> None:
    """A worker that consumes from several queues takes no more than it was told, and may take all from one."""
    names = [f"{name}-{letter}" for letter in "ab"]
    for one in names:
        declared(channel, one)
        for number in range(3):
            publish(channel, b"%d" % number, one)
    first, second = (Collected(channel, one, prefetch_count=2) for one in names)
    together = lambda: len(first.messages) + len(second.messages)  # noqa: E731
    while together() < 2:
        assert drain(first.connection, 5)
    first.hears_nothing()
    assert together() == 2
    channel.basic_qos(0, 4, False)
    while together() < 4:
        assert drain(first.connection, 5)
    first.hears_nothing()
    assert together() == 4


def test_what_is_unacked_comes_back_when_its_channel_is_closed(connection: kombu.Connection, name: str) -> None:
    channel, other = connection.channel(), connection.channel()
    declared(channel, name)
    publish(channel, b"x", name)
    Collected(channel, name).wait_for(1)
    channel.close()
    assert Collected(other, name).wait_for(1).messages[0].delivery_info["redelivered"]


def test_cancel_ends_one_consumer_only(channel: Any, name: str) -> None:
    declared(channel, name)
    first, second = Collected(channel, name), Collected(channel, name)
    channel.basic_cancel(first.tag)
    for number in range(4):
        publish(channel, b"%d" % number, name)
    assert second.wait_for(4) and first.messages == []
    channel.basic_cancel(first.tag)  # twice does no harm


def test_what_came_while_its_consumer_was_cancelled_goes_to_others(channel: Any, name: str) -> None:
    declared(channel, name)
    for number in range(5):
        publish(channel, b"%d" % number, name)
    first = Collected(channel, name)
    channel.basic_cancel(first.tag)
    drain(first.connection, 0.1)
    assert first.messages == [] and channel.connection.broker.waiting == 0
    assert sorted(Collected(channel, name).wait_for(5).bodies) == [b"%d" % number for number in range(5)]


def test_flow_stops_and_goes_on(channel: Any, name: str) -> None:
    declared(channel, name)
    consumer = Collected(channel, name)
    channel.flow(False)
    publish(channel, b"x", name)
    consumer.hears_nothing()
    channel.flow(True)
    consumer.wait_for(1)


def test_large_and_odd_messages(channel: Any, name: str) -> None:
    declared(channel, name)
    consumer = Collected(channel, name)
    bodies = [b"", b"\0", bytes(range(256)) * 8192, b"\n\r\\:c"]
    for body in bodies:
        publish(channel, body, name, headers={"x": "y" * 20_000, "z:\n\\": "\0"})
    assert consumer.wait_for(4).bodies == bodies
    assert all(message.headers == {"x": "y" * 20_000, "z:\n\\": "\0"} for message in consumer.messages)


# ---- get


def test_get_takes_one_or_none(channel: Any, name: str) -> None:
    declared(channel, name)
    assert channel.basic_get(name) is None
    for number in range(2):
        publish(channel, b"%d" % number, name)
    first = channel.basic_get(name)
    assert first.body == b"0"
    assert channel.basic_get(name, no_ack=True).body == b"1"
    assert channel.basic_get(name) is None
    first.requeue()
    again = channel.basic_get(name)
    assert (again.body, again.delivery_info["redelivered"]) == (b"0", True)
    again.ack()
    assert channel.queue_declare(name, passive=True).message_count == 0


def test_get_deletes_no_queue_that_would_go_with_its_last_consumer(channel: Any, name: str) -> None:
    """What a client of rpc:// does that asks for the state of its task, and then waits for the result."""
    declared(channel, name, auto_delete=True, arguments={"x-expires": 60_000})
    assert channel.basic_get(name) is None
    publish(channel, b"x", name)
    channel.basic_get(name).ack()
    assert channel.basic_get(name) is None
    publish(channel, b"y", name)
    consumer = Collected(channel, name).wait_for(1)
    consumer.messages[0].ack()
    channel.basic_cancel(consumer.tag)
    with pytest.raises(ChannelError):
        channel.queue_declare(name, passive=True)


def test_a_queue_for_replies_can_be_declared_again_at_once(channel: Any, name: str) -> None:
    """It is not asked for before each task; but where it may be gone it is."""
    for _ in range(2):
        declared(channel, name, auto_delete=True, arguments={"x-expires": 60_000})
        declared(channel, name, auto_delete=True, arguments={"x-expires": 60_000})
        consumer = Collected(channel, name)
        publish(channel, b"x", name, mandatory=True)
        consumer.wait_for(1).messages[0].ack()
        channel.basic_cancel(consumer.tag)
    with pytest.raises(ChannelError):
        channel.queue_declare(name, passive=True)


def test_get_of_no_queue_is_refused(channel: Any, name: str) -> None:
    with pytest.raises(ChannelError):
        channel.basic_get(name)


# ---- queues that come and go


def test_what_is_sent_to_a_queue_that_is_gone_is_dropped_and_makes_none(connect: Connect, name: str) -> None:
    ours, theirs = connect().channel(), connect().channel()
    declared(theirs, name, auto_delete=True, arguments={"x-expires": 60_000})
    consumer = Collected(theirs, name)
    publish(ours, b"one", name)
    consumer.wait_for(1)
    theirs.close()
    publish(ours, b"two", name)
    with pytest.raises(ChannelError):
        ours.queue_declare(name, passive=True)


def test_what_is_sent_to_a_queue_that_others_have_made_is_there(connect: Connect, name: str) -> None:
    """Declared by another process, and of the lasting kind: the name is enough."""
    declared(connect().channel(), name)
    ours = connect().channel()
    publish(ours, b"x", name)
    assert ours.queue_declare(name, passive=True).message_count == 1


def test_what_is_sent_to_no_queue_is_dropped_or_returned(connect: Connect, name: str) -> None:
    channel = connect().channel()
    publish(channel, b"x", name)
    with pytest.raises(OperationRefused) as refused:
        publish(channel, b"x", name, mandatory=True)
    assert refused.value.radiator_code == "no-subscriber"
    assert channel.is_open
    declared(channel, f"{name}-2")
    returned = []
    with connect() as connection:
        producer = connection.Producer(on_return=lambda *about: returned.append(about))
        producer.publish("x", routing_key=name, mandatory=True)
        producer.publish("y", routing_key=f"{name}-2", mandatory=True)
        producer.publish("z", routing_key=name, mandatory=True)
        assert connection.connected and producer.channel.is_open
    assert [about[1:3] for about in returned] == [("", name)] * 2


def test_a_full_queue_refuses_a_publish_and_not_the_connection(channel: Any, name: str) -> None:
    declared(channel, name, arguments={"max_messages": 1, "overflow": "reject"})
    publish(channel, b"1", name)
    with pytest.raises(OperationRefused) as refused:
        publish(channel, b"2", name)
    assert refused.value.radiator_code == "queue-full" and channel.is_open
    assert channel.queue_purge(name) == 1
    publish(channel, b"3", name)
    assert Collected(channel, name).wait_for(1).bodies == [b"3"]


def test_a_property_that_nobody_knows_and_json_cannot_say_is_left_out(channel: Any, name: str) -> None:
    declared(channel, name)
    publish(channel, b"x", name, properties={"mine": object(), "other": 7, "app_id": "a"})
    (message,) = Collected(channel, name).wait_for(1).messages
    assert (message.properties["other"], message.properties["app_id"]) == (7, "a")
    assert "mine" not in message.properties and message.delivery_info["priority"] == 0


def test_an_exclusive_queue_goes_with_its_consumer(connect: Connect, name: str) -> None:
    ours, other = connect().channel(), connect().channel()
    declared(ours, name, exclusive=True)
    Collected(ours, name)
    assert other.queue_declare(name, passive=True).consumer_count == 1
    ours.connection.client.release()
    with pytest.raises(ChannelError):
        other.queue_declare(name, passive=True)


def test_a_message_expires(channel: Any, name: str) -> None:
    declared(channel, name)
    publish(channel, b"late", name, properties={"expiration": "1"})
    publish(channel, b"good", name)
    time.sleep(0.05)
    assert Collected(channel, name).wait_for(1).bodies == [b"good"]


def test_a_task_with_an_eta_waits_in_the_broker(channel: Any, name: str) -> None:
    declared(channel, name)
    due_s = time.time() + 0.6
    consumer = Collected(channel, name)
    eta = datetime.fromtimestamp(due_s, UTC).isoformat()
    publish(channel, b"later", name, headers={"task": "t", "eta": eta})
    publish(channel, b"now", name)
    assert consumer.wait_for(1).bodies == [b"now"]
    consumer.wait_for(2)
    assert due_s - 0.01 <= time.time() < due_s + 1
    assert consumer.messages[1].headers["eta"] == eta


# ---- threads, and what is over


def test_an_ack_of_another_thread_needs_no_turn_of_the_one_that_waits(channel: Any, name: str) -> None:
    """As a greenlet of a pool does it: the next task comes at once, not when the wait is over."""
    declared(channel, name)
    for number in range(2):
        publish(channel, b"%d" % number, name)
    consumer = Collected(channel, name, prefetch_count=1).wait_for(1)
    began_s = time.monotonic()
    threading.Timer(0.2, consumer.messages[0].ack).start()
    consumer.connection.drain_events(timeout=5)
    assert time.monotonic() - began_s < 2
    assert consumer.bodies == [b"0", b"1"]


def test_a_closed_channel_says_so(connection: kombu.Connection, channel: Any, name: str) -> None:
    declared(channel, name)
    publish(channel, b"x", name)
    message = Collected(channel, name).wait_for(1).messages[0]
    channel.close()
    channel.close()
    for forbidden in (message.ack, lambda: channel.queue_purge(name), lambda: publish(channel, b"x", name)):
        with pytest.raises(ConnectionLost):
            forbidden()
    assert not channel.is_open and connection.connected
