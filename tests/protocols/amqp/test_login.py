"""Who a client is: what its start-ok says, and what cannot be one."""

import pytest

from radiator.model.amqp_tables import encode_table
from radiator.protocols.amqp.connection_methods import ConnectionStartOk
from radiator.protocols.amqp.frame import BrokenAmqp
from radiator.protocols.amqp.login import MECHANISMS, START, greeting_of, start_for
from radiator.protocols.amqp.spec import COMMAND_INVALID, SYNTAX_ERROR


def table(**values: object) -> bytes:
    return encode_table(values)[4:]  # as a long string has its own length


@pytest.mark.parametrize(("mechanism", "response", "user", "secret"), [
    ("PLAIN", b"\0shop\0secret", b"shop", b"secret"),
    ("PLAIN", b"another\0shop\0secret", b"shop", b"secret"),
    ("PLAIN", b"\0shop\0se\0cret", b"shop", b"se\0cret"),
    ("PLAIN", b"\0\0", b"", b""),
    ("PLAIN", b"\0\xff\0\xfe", b"\xff", b"\xfe"),
    ("AMQPLAIN", table(LOGIN="shop", PASSWORD="secret"), b"shop", b"secret"),
    ("AMQPLAIN", table(LOGIN="shop", PASSWORD=7), b"shop", b""),
    ("AMQPLAIN", b"", b"", b""),
    ("EXTERNAL", b"whatever", b"", b""),
])  # fmt: skip
def test_each_mechanism_gives_user_and_secret(mechanism: str, response: bytes, user: bytes, secret: bytes) -> None:
    greeting = greeting_of(ConnectionStartOk({}, mechanism, response))
    assert (greeting.user, greeting.secret) == (user, secret)
    assert secret.decode("latin-1") not in repr(greeting) or not secret


@pytest.mark.parametrize(("mechanism", "response", "code"), [
    ("PLAIN", b"", SYNTAX_ERROR),
    ("PLAIN", b"shop", SYNTAX_ERROR),
    ("PLAIN", b"\0shop", SYNTAX_ERROR),
    ("AMQPLAIN", b"\xff", SYNTAX_ERROR),
    ("AMQPLAIN", table(LOGIN="shop") + b"x", SYNTAX_ERROR),
    ("plain", b"\0shop\0secret", COMMAND_INVALID),
    ("ANONYMOUS", b"", COMMAND_INVALID),
    ("", b"", COMMAND_INVALID),
])  # fmt: skip
def test_what_is_no_login_is_refused(mechanism: str, response: bytes, code: int) -> None:
    with pytest.raises(BrokenAmqp) as broken:
        greeting_of(ConnectionStartOk({}, mechanism, response))
    assert broken.value.code == code and "secret" not in str(broken.value)


@pytest.mark.parametrize(("properties", "client"), [
    ({}, ""),
    ({"product": "pika", "version": "1.3"}, "pika 1.3"),
    ({"connection_name": "orders", "product": "pika", "version": 3}, "orders pika"),
])  # fmt: skip
def test_a_client_is_called_by_its_own_name_and_its_product(properties: dict[str, object], client: str) -> None:
    assert greeting_of(ConnectionStartOk(properties, "EXTERNAL")).client == client


@pytest.mark.parametrize("capabilities", [None, 7, "x", {}, {"basic.nack": False}, {"basic.nack": 1}])
def test_a_capability_is_what_is_true(capabilities: object) -> None:
    properties = {"capabilities": capabilities}
    assert not greeting_of(ConnectionStartOk(properties, "EXTERNAL")).can("basic.nack")
    assert greeting_of(ConnectionStartOk({"capabilities": {"basic.nack": True}}, "EXTERNAL")).can("basic.nack")


def test_start_offers_what_is_taken() -> None:
    assert START.mechanisms.split() == [name.encode() for name in MECHANISMS]
    assert START.server_properties["capabilities"]["consumer_priorities"] is True
    assert start_for(True) is START and start_for(False).mechanisms == b"PLAIN AMQPLAIN"
    assert (START.version_major, START.version_minor, START.locales) == (0, 9, b"en_US")
    assert START.server_properties["product"] == "Radiator"  # clients that know RabbitMQ do not take it for that
