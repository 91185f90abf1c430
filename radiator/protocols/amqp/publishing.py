"""A message on its way from a client: basic.publish, then its header, then its body in as many frames as it needs."""

from radiator.model.amqp_properties import Properties
from radiator.model.limits import TIME_MAX_MS
from radiator.protocols.amqp.frame import BrokenAmqp
from radiator.protocols.amqp.spec import PRECONDITION_FAILED


class Publishing:
    """A basic.publish whose content is on its way. body: as far as it has come."""

    __slots__ = ("body", "body_bytes", "exchange", "key", "mandatory", "properties")

    def __init__(self, exchange: str, key: str, mandatory: bool) -> None:
        self.exchange = exchange
        self.key = key
        self.mandatory = mandatory
        self.properties = b""
        self.body_bytes = -1  # before its header
        self.body = bytearray()  # not a list: frames may be as small as a client likes


def expiration_ms(properties: Properties) -> int | None:
    """Milliseconds, as text (RabbitMQ, "Time-To-Live"). Raises BrokenAmqp."""
    text = properties.expiration
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and int(text) <= TIME_MAX_MS):
        raise BrokenAmqp(PRECONDITION_FAILED, f"invalid expiration {text!r:.80}: it is a number of milliseconds")
    return int(text)
