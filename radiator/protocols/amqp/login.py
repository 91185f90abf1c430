"""connection.start and start-ok: how a client says who it is (AMQP 0-9-1, section 2.2.4; SASL)."""

from dataclasses import dataclass, field

from radiator import __version__
from radiator.model.amqp_tables import Value, decode_table
from radiator.model.errors import Violation
from radiator.protocols.amqp.connection_methods import ConnectionStart, ConnectionStartOk
from radiator.protocols.amqp.frame import BrokenAmqp
from radiator.protocols.amqp.spec import COMMAND_INVALID, SYNTAX_ERROR

MECHANISMS = ("PLAIN", "AMQPLAIN", "EXTERNAL")
_CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "consumer_priorities",
    "connection.blocked",
    "per_consumer_qos",
    "direct_reply_to",
    "authentication_failure_close",
)
START = ConnectionStart(
    0,
    9,
    {
        "product": "Radiator",
        "version": __version__,
        "platform": "Python",
        "information": "docs/AMQP.md says what is like RabbitMQ and what is not",
        "capabilities": dict.fromkeys(_CAPABILITIES, True),
    },
    " ".join(MECHANISMS).encode(),
    b"en_US",
)
_START_WITHOUT_PROOF = START._replace(mechanisms=" ".join(MECHANISMS[:2]).encode())


def start_for(has_proof: bool) -> ConnectionStart:
    """Returns connection.start. has_proof: whether the transport says who a client is. Otherwise EXTERNAL is not
    offered: py-amqp prefers it to the user and password that it was given, and would be nobody.
    """
    return START if has_proof else _START_WITHOUT_PROOF


@dataclass(slots=True, frozen=True)
class Greeting:
    """What a client says about itself. user, secret: its login; b"": none but its certificate. client: the name that it
    gives the connection, its product and its version. capabilities: what it understands. mechanism: the one that it
    logs in by.
    """

    user: bytes
    secret: bytes = field(repr=False)
    client: str
    capabilities: frozenset[str]
    mechanism: str = MECHANISMS[0]

    def can(self, capability: str) -> bool:
        return capability in self.capabilities


def greeting_of(method: ConnectionStartOk) -> Greeting:
    """Returns what start-ok says about the client. Raises BrokenAmqp."""
    user, secret = _login(method.mechanism, method.response)
    properties = method.client_properties
    given = properties.get("capabilities")
    capabilities = given if isinstance(given, dict) else {}
    words = (properties.get("connection_name"), properties.get("product"), properties.get("version"))
    client = " ".join(word for word in words if isinstance(word, str))
    return Greeting(
        user, secret, client, frozenset(name for name, value in capabilities.items() if value is True), method.mechanism
    )


def _login(mechanism: str, response: bytes) -> tuple[bytes, bytes]:
    if mechanism == "PLAIN":
        _, separator, rest = response.partition(b"\0")
        user, found, secret = rest.partition(b"\0")
        if not separator or not found:
            raise BrokenAmqp(SYNTAX_ERROR, "the response to PLAIN must be NUL, the user, NUL, the password")
        return user, secret
    if mechanism == "AMQPLAIN":
        try:
            table = decode_table(response, 0, len(response))
        except Violation as broken:
            raise BrokenAmqp(SYNTAX_ERROR, f"the response to AMQPLAIN is not a table: {broken}") from None
        return _text(table.get("LOGIN")), _text(table.get("PASSWORD"))
    if mechanism == "EXTERNAL":
        return b"", b""
    raise BrokenAmqp(COMMAND_INVALID, f"{mechanism!r:.40} is not a mechanism here: {', '.join(MECHANISMS)}")


def _text(value: Value) -> bytes:
    return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else b""
