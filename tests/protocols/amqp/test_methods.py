"""The tables of methods are whole, and name what AMQP names."""

import re

import pytest

from radiator.protocols.amqp.methods import METHODS, NAMES, NUMBERS, BasicNack, ExchangeUnbindOk, Method, QueueDeclare

SYNCHRONOUS = [
    "connection.start", "connection.secure", "connection.tune", "connection.open", "connection.close",
    "connection.update-secret", "channel.open", "channel.flow", "channel.close", "access.request", "exchange.declare",
    "exchange.delete", "exchange.bind", "exchange.unbind", "queue.declare", "queue.bind", "queue.purge",
    "queue.delete", "queue.unbind", "basic.qos", "basic.consume", "basic.cancel", "basic.get", "basic.recover",
    "confirm.select", "tx.select", "tx.commit", "tx.rollback",
]  # fmt: skip
"""Those that have an answer, by the specification and RabbitMQ's extensions to it."""
OTHERS = [
    "connection.blocked", "connection.unblocked", "basic.publish", "basic.return", "basic.deliver", "basic.get-empty",
    "basic.ack", "basic.reject", "basic.recover-async", "basic.nack",
]  # fmt: skip


def test_every_method_is_there_with_its_answer() -> None:
    assert sorted(NAMES.values()) == sorted([*SYNCHRONOUS, *(f"{name}-ok" for name in SYNCHRONOUS), *OTHERS])


@pytest.mark.parametrize("kind", METHODS.values(), ids=NAMES.get)
def test_a_class_is_called_as_its_method(kind: type[Method]) -> None:
    words = [word.lower() for word in re.findall("[A-Z][a-z]*", kind.__name__)]
    assert NAMES[kind].replace(".", "-").split("-") == words
    assert METHODS[NUMBERS[kind]] is kind
    assert kind() == kind(), "each argument has a value when none is given"


def test_the_numbers_that_rabbitmq_has_chosen() -> None:
    assert NUMBERS[ExchangeUnbindOk] == (40, 51)
    assert NUMBERS[BasicNack] == (60, 120)
    assert NUMBERS[QueueDeclare] == (50, 10)
