"""A message on its way from a client: basic.publish, then its header, then its body in as many frames as it needs."""

from typing import Any

from radiator.model.amqp_properties import Properties
from radiator.model.limits import TIME_MAX_MS
from radiator.protocols.amqp.frame import BrokenAmqp, decode_content_header
from radiator.protocols.amqp.spec import CLASS_BASIC, NOT_FOUND, NOT_IMPLEMENTED, PRECONDITION_FAILED, UNEXPECTED_FRAME


class Publishing:
    """A basic.publish whose content is on its way. body: as much as has arrived. counted_bytes: its share of
    CommonToChannels.content_bytes.
    """

    __slots__ = ("body", "body_bytes", "counted_bytes", "exchange", "key", "mandatory", "properties")

    def __init__(self, exchange: str, key: str, mandatory: bool) -> None:
        self.exchange = exchange
        self.key = key
        self.mandatory = mandatory
        self.properties = b""
        self.body_bytes = -1  # -1: before its header
        self.counted_bytes = 0
        self.body = bytearray()  # not a list: frames may be as small as a client likes

    def announce(self, header: bytes, header_max_bytes: int, body_max_bytes: int) -> None:
        """Takes the content header: the properties, and the size of the body. Raises BrokenAmqp, also if a bound is
        exceeded.
        """
        class_id, body_bytes, properties = decode_content_header(header)
        if class_id != CLASS_BASIC:
            raise BrokenAmqp(UNEXPECTED_FRAME, f"the content is of class {class_id}: {CLASS_BASIC} was announced")
        if len(properties) > header_max_bytes:
            sentence = f"the properties have {len(properties)} bytes: max_header_bytes is {header_max_bytes}"
            raise BrokenAmqp(PRECONDITION_FAILED, sentence)
        size = body_bytes + len(properties)
        if size > body_max_bytes:
            sentence = f"message size {size} is larger than {body_max_bytes} (max_frame_bytes)"
            raise BrokenAmqp(PRECONDITION_FAILED, sentence)
        self.body_bytes, self.properties = body_bytes, properties


def begun(arguments: Any) -> Publishing:
    """Returns the message that a basic.publish begins. Raises BrokenAmqp."""
    if arguments.immediate:
        raise BrokenAmqp(NOT_IMPLEMENTED, "immediate=true")
    if "/" in arguments.exchange:  # what follows it would be taken for the key
        raise BrokenAmqp(NOT_FOUND, f"no exchange {arguments.exchange!r:.80}: none has a / in its name")
    return Publishing(arguments.exchange, arguments.routing_key, arguments.mandatory)


def expiration_ms(properties: Properties) -> int | None:
    """Returns the expiration, which is text in milliseconds (RabbitMQ, "Time-To-Live"). Raises BrokenAmqp."""
    text = properties.expiration
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and int(text) <= TIME_MAX_MS):
        raise BrokenAmqp(PRECONDITION_FAILED, f"invalid expiration {text!r:.80}: it is a number of milliseconds")
    return int(text)
