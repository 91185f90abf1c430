"""Exchanges and bindings as kombu declares them; they live in the broker, for every process at once."""

from typing import Any

import kombu
import pytest
from amqp.exceptions import NotFound
from kombu.common import Broadcast
from kombu.exceptions import ChannelError

from radiator.integrations.kombu.failures import OperationRefused
from tests.integrations.kombu.conftest import Connect
from tests.integrations.kombu.test_channel import Collected, declared, publish


def bound(channel: Any, exchange: str, type: str, bindings: dict[str, str]) -> dict[str, Collected]:
    """A consumer for each queue, bound with each key of it."""
    channel.exchange_declare(exchange, type, durable=True, auto_delete=False)
    for queue, keys in bindings.items():
        declared(channel, queue)
        for key in keys.split():
            channel.queue_bind(queue, exchange, key)
    return {queue: Collected(channel, queue) for queue in bindings}


def test_direct(channel: Any, name: str) -> None:
    queues = bound(channel, name, "direct", {name + "-a": "a both", name + "-b": "b both"})
    for key in ("a", "b", "both", "none"):
        publish(channel, key.encode(), key, name)
    assert sorted(queues[name + "-a"].wait_for(2).bodies) == [b"a", b"both"]
    assert sorted(queues[name + "-b"].wait_for(2).bodies) == [b"b", b"both"]
    message = queues[name + "-a"].messages[0]
    assert (message.delivery_info["exchange"], message.delivery_info["routing_key"]) == (name, "a")


def test_topic(channel: Any, name: str) -> None:
    queues = bound(channel, name, "topic", {name + "-a": "a.*", name + "-b": "#.b", name + "-c": "#"})
    for key in ("a.x", "a.b", "b", "a.x.y"):
        publish(channel, key.encode(), key, name)
    assert queues[name + "-a"].wait_for(2).bodies == [b"a.x", b"a.b"]
    assert queues[name + "-b"].wait_for(2).bodies == [b"a.b", b"b"]
    assert queues[name + "-c"].wait_for(4).bodies == [b"a.x", b"a.b", b"b", b"a.x.y"]


def test_fanout(channel: Any, name: str) -> None:
    queues = bound(channel, name, "fanout", {name + "-a": "x", name + "-b": "y"})
    publish(channel, b"all", "whatever", name)
    assert [queue.wait_for(1).bodies for queue in queues.values()] == [[b"all"], [b"all"]]


def test_unbind_and_delete(channel: Any, name: str) -> None:
    (queue,) = bound(channel, name, "direct", {name: "a b"}).values()
    channel.queue_unbind(name, name, "a")
    channel.queue_unbind(name, name, "a")
    publish(channel, b"a", "a", name)
    publish(channel, b"b", "b", name)
    assert queue.wait_for(1).bodies == [b"b"]
    with pytest.raises(OperationRefused):
        channel.exchange_delete(name, if_unused=True)
    channel.exchange_delete(name)
    channel.exchange_delete(name)
    with pytest.raises(ChannelError):
        channel.exchange_declare(name, passive=True)


def test_an_exchange_that_is_another_is_refused(channel: Any, name: str) -> None:
    channel.exchange_declare(name, "direct", durable=True)
    channel.exchange_declare(name, "direct", durable=True)
    channel.exchange_declare(name, passive=True)
    with pytest.raises(OperationRefused):
        channel.exchange_declare(name, "topic", durable=True)
    with pytest.raises(OperationRefused, match="use direct, topic, fanout, headers"):
        channel.exchange_declare(name + "-2", "x-consistent-hash")
    with pytest.raises(OperationRefused, match="`alternte`|alternte"):
        channel.exchange_declare(name + "-2", "direct", arguments={"alternte": "x"})


def test_to_an_exchange_that_is_not_there_the_publisher_hears_of_it(connect: Connect, name: str) -> None:
    connection = connect()
    with pytest.raises(ChannelError):
        publish(connection.channel(), b"x", "key", name)
    connection.ensure_connection()
    declared(connection.channel(), name)  # on a new connection


def test_exchanges_are_bound_to_exchanges(channel: Any, name: str) -> None:
    (queue,) = bound(channel, name, "topic", {name: "#"}).values()
    source = kombu.Exchange(f"{name}-source")(channel)
    source.declare()
    target = kombu.Exchange(name, "topic")(channel)
    target.bind_to(source, routing_key="a")
    target.bind_to(source, routing_key="b")
    target.unbind_from(source, routing_key="b")
    target.unbind_from(source, routing_key="b")
    target.unbind_from(f"{name}-nowhere", routing_key="b")
    for key in ("a", "b"):
        publish(channel, key.encode(), key, source.name)
    assert queue.wait_for(1).bodies == [b"a"]
    with pytest.raises(NotFound):
        target.bind_to(f"{name}-nowhere")


def test_an_alternate_gets_what_is_routed_nowhere(channel: Any, name: str) -> None:
    (queue,) = bound(channel, f"{name}-rest", "fanout", {name: ""}).values()
    channel.exchange_declare(name, "direct", durable=True, arguments={"alternate-exchange": f"{name}-rest"})
    channel.queue_bind(name, f"{name}-rest", "")
    publish(channel, b"x", "nobody", name)
    assert queue.wait_for(1).bodies == [b"x"]


def test_arguments_of_a_binding_are_for_exchanges_of_type_headers(channel: Any, name: str) -> None:
    declared(channel, name)
    channel.exchange_declare(name, "topic", durable=True)
    with pytest.raises(OperationRefused, match="which an exchange of type topic does not look at"):
        channel.queue_bind(name, name, "a", {"format": "pdf"})
    with pytest.raises(NotFound):
        channel.queue_bind(name, f"{name}-nowhere", "a", {"format": "pdf"})


def test_a_broadcast_reaches_every_consumer(connect: Connect, name: str) -> None:
    """kombu_broadcast: each consumer a queue of its own."""
    consumers: list[list[Any]] = []
    connections = [connect(), connect()]
    for connection in connections:
        queue = Broadcast(name)
        got: list[Any] = []
        connection.Consumer(
            [queue], channel=connection.channel(), callbacks=[lambda body, _, got=got: got.append(body)], no_ack=True
        ).consume()
        consumers.append(got)
    publisher = connect()
    publisher.Producer(exchange=kombu.Exchange(name, "fanout")).publish({"all": "of you"})
    for connection in connections:
        connection.drain_events(timeout=5)
    assert consumers == [[{"all": "of you"}]] * 2


def test_a_queue_of_kombu_is_declared_with_its_exchange_and_bindings(connection: kombu.Connection, name: str) -> None:
    exchange = kombu.Exchange(name, "topic")
    queue = kombu.Queue(name, exchange, routing_key="a.#", expires=60, message_ttl=60, max_length=10)
    connection.Producer().publish({"x": 1}, exchange=exchange, routing_key="a.b", declare=[queue])
    with connection.SimpleQueue(queue) as simple:
        message = simple.get(timeout=5)
        assert message.payload == {"x": 1}
        message.ack()
        with pytest.raises(simple.Empty):
            simple.get_nowait()
