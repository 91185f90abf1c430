"""Addresses of brokers of AMQP."""

import pytest

from radiator.model.errors import ConfigError
from radiator.tools.migrate.place import AmqpPlace


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("amqp://h", AmqpPlace("h", 5672)),
        ("amqps://h/", AmqpPlace("h", 5671, is_tls=True)),
        ("amqp://ann@h:1/shop", AmqpPlace("h", 1, "ann", vhost="shop")),
        ("amqp://a%40b@[::1]:1/%2F", AmqpPlace("::1", 1, "a@b")),
        ("amqp://guest:guest@h", AmqpPlace("h", 5672, "guest", "guest")),
        ("amqp+unix:/run/a.sock", AmqpPlace("localhost", 0, path="/run/a.sock")),
    ],
)
def test_read(text: str, place: AmqpPlace) -> None:
    assert AmqpPlace.parse(text) == place


@pytest.mark.parametrize(
    "text",
    ["", "h", "h:5672", "stomp://h", "amqp://", "amqp://h:x", "amqp://h:0", "amqp://h:65536", "amqp://h/a/b",
     "amqp://h?x=1", "amqp://h#x", "amqp://h /", "amqp://h\n", "amqp+unix:", "amqp+unix://x", "amqp://guest:geheim@h"],
)  # fmt: skip
def test_refused(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        AmqpPlace.parse(text)
    assert "geheim" not in str(raised.value)


def test_shown_without_the_login() -> None:
    assert str(AmqpPlace.parse("amqps://ann@[::1]/shop")) == "amqps://[::1]:5671/shop"
    assert str(AmqpPlace.parse("amqp+unix:/a")) == "amqp+unix:/a"
