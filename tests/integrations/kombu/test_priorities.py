"""Priorities of messages and of consumers, against a real broker."""

import time
from datetime import UTC, datetime
from typing import Any

import kombu
import pytest

from radiator.client import Client
from radiator.integrations.kombu.failures import OperationRefused
from tests.broker_process import BrokerProcess
from tests.integrations.kombu.test_channel import Collected, declared, publish


def of(channel: Any, name: str, *priorities: int | None) -> list[tuple[bytes, int]]:
    """Publishes one message of each, and gives them as a consumer gets them."""
    producer = kombu.Producer(channel)
    for number, priority in enumerate(priorities):
        producer.publish(b"%d" % number, routing_key=name, priority=priority)
    got = Collected(channel, name, prefetch_count=1)
    for count in range(len(priorities)):
        got.wait_for(count + 1).messages[-1].ack()
    for message in got.messages:
        assert message.properties["priority"] == message.delivery_info["priority"]
    return [(message.body, message.delivery_info["priority"]) for message in got.messages]


@pytest.mark.parametrize("durable", [True, False], ids=["on-the-disk", "in-memory"])
def test_the_highest_is_first_as_with_rabbitmq(channel: Any, name: str, durable: bool) -> None:
    kombu.Queue(name, durable=durable, max_priority=9)(channel).declare()
    # what is above the highest of the queue counts as that, and 255 is told as it was sent
    assert of(channel, name, 0, 3, 9, None, 3, 255) == [
        (b"2", 9), (b"5", 255), (b"1", 3), (b"4", 3), (b"0", 0), (b"3", 0),
    ]  # fmt: skip


def test_what_was_delayed_joins_its_priority(channel: Any, name: str) -> None:
    declared(channel, name, arguments={"x-max-priority": 9})
    producer = kombu.Producer(channel)
    for priority in (1, 5, 9):
        eta = datetime.fromtimestamp(time.time() + 0.2, UTC).isoformat()
        producer.publish(b"late", routing_key=name, priority=priority, headers={"task": "t", "eta": eta})
        producer.publish(b"now", routing_key=name, priority=priority)
    time.sleep(0.6)
    got = Collected(channel, name).wait_for(6).messages
    assert [(message.body, message.delivery_info["priority"]) for message in got] == [
        (body, priority) for priority in (9, 5, 1) for body in (b"late", b"now")
    ]


def test_a_queue_without_them_keeps_its_order_and_tells_the_priority(channel: Any, name: str) -> None:
    declared(channel, name)
    assert of(channel, name, 0, 3, 9) == [(b"0", 0), (b"1", 3), (b"2", 9)]


@pytest.mark.parametrize("priority", [-1, 256, 1.5, True, "5"])
def test_a_priority_that_cannot_be_is_refused(connection: kombu.Connection, name: str, priority: Any) -> None:
    with pytest.raises(OperationRefused, match=r"The priority of the message is .*: it must be a whole number from 0"):
        connection.Producer().publish("x", routing_key=name, priority=priority, retry=True)
    assert connection.connected


def test_a_queue_has_at_most_ten(channel: Any, name: str) -> None:
    declared(channel, f"{name}-10", arguments={"x-max-priority": 10})
    with pytest.raises(OperationRefused, match="`max_priority` is 11; it must be a whole number from 1 to 10"):
        declared(channel, name, arguments={"x-max-priority": 11})


def test_another_client_gets_the_priority_and_its_own_is_told(broker: BrokerProcess, channel: Any, name: str) -> None:
    declared(channel, name, arguments={"x-max-priority": 5})
    with Client(broker.address) as client:
        for priority in ("2", "4", "256", "x", "-1"):
            client.send(f"/queue/{name}", priority, [("priority", priority)])
    got = Collected(channel, name).wait_for(5)
    assert [(message.body, message.delivery_info["priority"]) for message in got.messages] == [
        (b"256", 0), (b"4", 4), (b"2", 2), (b"x", 0), (b"-1", 0),
    ]  # fmt: skip


def test_a_consumer_of_a_higher_priority_is_first(channel: Any, name: str) -> None:
    queue = kombu.Queue(name, consumer_arguments={"x-priority": 5})(channel)
    queue.declare()
    channel.basic_qos(0, 2, False)
    got: dict[str, list[bytes]] = {"low": [], "high": []}
    channel.basic_consume(name, callback=lambda message: got["low"].append(message.body))
    queue.consume(callback=lambda message: got["high"].append(message.body))
    for number in range(4):
        publish(channel, b"%d" % number, name)
    while sum(map(len, got.values())) < 4:
        channel.connection.client.drain_events(timeout=5)
    assert got == {"low": [b"2", b"3"], "high": [b"0", b"1"]}
    with pytest.raises(OperationRefused, match="'x-stream-offset' = 'first' of a consumer means nothing"):
        channel.basic_consume(name, callback=print, arguments={"x-stream-offset": "first"})
