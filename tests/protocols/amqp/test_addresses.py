"""Exchange and routing key to an address of the broker, and back."""

import pytest

from radiator.protocols.amqp.addresses import (
    destination,
    names_of,
    published_to,
    queue_destination,
    reply_id,
    reply_name,
)


@pytest.mark.parametrize(("exchange", "key", "address"), [
    ("", "orders", "/amq/queue/orders"),
    ("", "", "/amq/queue/"),
    ("", "a/b c", "/amq/queue/a/b c"),
    ("", "amq.rabbitmq.reply-to.x-1.y", "/reply-queue/x-1.y"),
    ("", "amq.rabbitmq.reply-to", "/amq/queue/amq.rabbitmq.reply-to"),
    ("logs", "a.b", "/exchange/logs/a.b"),
    ("logs", "", "/exchange/logs/"),
    ("logs", "a/b", "/exchange/logs/a/b"),
])  # fmt: skip
def test_what_is_published_goes_to_an_address(exchange: str, key: str, address: str) -> None:
    assert destination(exchange, key) == address
    assert published_to(address) == (exchange, key), "and comes from it"


@pytest.mark.parametrize(("address", "names"), [
    ("/queue/orders", ("", "orders")),
    ("/topic/a.b", ("", "/topic/a.b")),
    ("/fanout/events", ("", "/fanout/events")),
    ("/exchange/logs", ("logs", "")),
])  # fmt: skip
def test_what_others_have_sent_has_names_too(address: str, names: tuple[str, str]) -> None:
    assert published_to(address) == names
    assert reply_name(address) == names[1]


def test_names_fit_the_wire() -> None:
    assert names_of("/exchange/logs/a.ä") == (b"logs", "a.ä".encode())
    exchange, key = names_of("/exchange/" + "e" * 300 + "/" + "k" * 300)
    assert (len(exchange), len(key)) == (255, 255)
    assert queue_destination("q") == "/amq/queue/q"


@pytest.mark.parametrize(("queue", "asker"), [
    ("amq.rabbitmq.reply-to.x-1.y", "x-1.y"), ("amq.rabbitmq.reply-to.", ""), ("amq.rabbitmq.reply-to", ""),
    ("amq.rabbitmq.reply-tox", ""), ("orders", ""), ("", ""),
])  # fmt: skip
def test_the_name_of_a_reply_has_its_id(queue: str, asker: str) -> None:
    assert reply_id(queue) == asker
    assert not asker or destination("", queue) == f"/reply-queue/{asker}"
