"""Real clients of AMQP 0-9-1 beside a real broker: py-amqp and pika, and what every test does with them."""

import re
from collections.abc import Callable
from typing import Any

import amqp
import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess

WAIT_MAX_S = 10.0
LISTENING = SERVER.replace('"stomp://127.0.0.1:0"', '"stomp://127.0.0.1:0", "amqp://127.0.0.1:0"')
CONFIG = LISTENING + EVERYTHING_MAY_BE_CREATED

Declared = Callable[..., str]


def port_of(broker: BrokerProcess, scheme: str = "amqp") -> int:
    """The port of the running broker's listener: the last that its log names."""
    starts = broker.log.count("listening address=stomp://")
    pattern = rf"listening address={scheme}://127\.0\.0\.1:(\d+)"
    since = [at for at, line in enumerate(broker.log.splitlines()) if "listening address=stomp://" in line][starts - 1]
    found = re.search(pattern, broker.wait_for_log(f"listening address={scheme}://", since=since))
    assert found is not None
    return int(found[1])


def connected(broker: BrokerProcess, scheme: str = "amqp", **settings: Any) -> amqp.Connection:
    """py-amqp. settings: as its Connection has them. What it publishes is confirmed unless they say otherwise."""
    host = f"{'localhost' if scheme == 'amqps' else '127.0.0.1'}:{port_of(broker, scheme)}"
    connection = amqp.Connection(host, connect_timeout=WAIT_MAX_S, **{"confirm_publish": True, **settings})
    connection.connect()
    return connection


def pika_channel(broker: BrokerProcess, confirms: bool = False) -> BlockingChannel:
    parameters = pika.ConnectionParameters("127.0.0.1", port_of(broker), blocked_connection_timeout=WAIT_MAX_S)
    channel = pika.BlockingConnection(parameters).channel()
    if confirms:
        channel.confirm_delivery()
    return channel


def declare(channel: amqp.Channel, name: str = "", *, durable: bool = True, **settings: Any) -> str:
    """A queue that no consumer's end deletes: its name."""
    return str(channel.queue_declare(name, durable=durable, **{"auto_delete": False, **settings}).queue)


def publish(channel: amqp.Channel, key: str, body: str | bytes = "", exchange: str = "", **properties: Any) -> None:
    channel.basic_publish(amqp.Message(body, **properties), exchange=exchange, routing_key=key)


def bodies(channel: amqp.Channel, queue: str) -> list[Any]:
    """All that is ready in it, taken out."""
    found = []
    while (message := channel.basic_get(queue, no_ack=True)) is not None:
        found.append(message.body)
    return found


class Inbox:
    """A consumer of py-amqp: `next` is what it is given, in that order."""

    def __init__(self, channel: amqp.Channel, queue: str, no_ack: bool = False, **settings: Any) -> None:
        self._channel = channel
        self._messages: list[amqp.Message] = []
        self.tag = channel.basic_consume(queue, no_ack=no_ack, callback=self._messages.append, **settings)
        self.tag = getattr(self.tag, "consumer_tag", self.tag)

    def next(self) -> amqp.Message:
        while not self._messages:
            self._channel.connection.drain_events(timeout=WAIT_MAX_S)
        return self._messages.pop(0)

    def is_silent(self) -> bool:
        """Whether nothing is there that could have come by now: an answer comes behind it."""
        self._channel.basic_qos(0, 1, False)
        return not self._messages
