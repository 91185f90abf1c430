"""Turns the broker's refusals into reply codes of the specification (section 1.2) or of RabbitMQ."""

from radiator.model.commands import Ack, Nack, Send
from radiator.protocols.amqp.methods import NUMBERS, BasicAck, BasicNack, BasicPublish, BasicReject
from radiator.protocols.amqp.spec import (
    ACCESS_REFUSED,
    CODE_NAMES,
    CONNECTION_FORCED,
    FRAME_ERROR,
    NOT_FOUND,
    PRECONDITION_FAILED,
    RESOURCE_ERROR,
    RESOURCE_LOCKED,
)

_CODES = {
    "forbidden": ACCESS_REFUSED,
    "reserved": ACCESS_REFUSED,
    "exclusive": ACCESS_REFUSED,
    "internal": ACCESS_REFUSED,
    "no-such-destination": NOT_FOUND,
    "locked": RESOURCE_LOCKED,
}
_OF_CONNECTION = {
    "forbidden": ACCESS_REFUSED,
    "protocol": FRAME_ERROR,
    "connections": RESOURCE_ERROR,
}
_METHODS = {Send: NUMBERS[BasicPublish], Ack: NUMBERS[BasicAck], Nack: NUMBERS[BasicNack]}
"""The commands of methods whose client waits for no answer."""


def reply_code(code: str) -> int:
    """Returns the reply code of a refusal that ends a channel. Most mean that a precondition of the client's failed."""
    return _CODES.get(code, PRECONDITION_FAILED)


def closing_code(code: str) -> int:
    """Returns the reply code of a refusal that ends the connection."""
    return _OF_CONNECTION.get(code, CONNECTION_FORCED)


def number_of(command: object) -> tuple[int, int]:
    """Returns the class and method number of a refused command, if its method has no answer; 0 and 0: no method is the
    cause.
    """
    if isinstance(command, Nack) and command.is_reject:
        return NUMBERS[BasicReject]
    return _METHODS.get(type(command), (0, 0))


def reply_text(code: int, sentence: str) -> str:
    """Returns the text as RabbitMQ writes it: the code's name, then what is wrong; at most 255 bytes of UTF-8."""
    text = f"{CODE_NAMES[code]} - {sentence}".encode("utf-8", "replace")
    return text[:255].decode("utf-8", "ignore")
