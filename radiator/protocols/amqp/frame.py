"""Frames of AMQP 0-9-1, and the bytes of those that a server sends for each message.

Names in these are bytes, at most 255 of them: what the broker sends for each message is kept encoded.
"""

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from radiator.model.errors import Violation
from radiator.model.limits import HEADER_LINES_KEPT
from radiator.protocols.amqp.spec import (
    CLASS_BASIC,
    FRAME_BODY,
    FRAME_END,
    FRAME_ERROR,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    FRAME_OVERHEAD_BYTES,
    UNEXPECTED_FRAME,
)

_END = FRAME_END[0]
_HEAD = struct.Struct(">BHI")  # type, channel, bytes of the payload
_CONTENT = struct.Struct(">HHQ")  # class, weight, bytes of the body
_CONTENT_HEAD = struct.Struct(">BBHIHHQ")  # the end of the method's frame, the head of the header's, and its beginning
_BODY_HEAD = struct.Struct(">BBHI")  # the end of a frame, and the head of the next
_TAG = struct.Struct(">QBB")  # delivery tag, redelivered, bytes of the exchange's name
_COUNT = struct.Struct(">I")
_RETURN_HEAD = struct.Struct(">BHIHHH")  # up to the reply code
_METHOD_HEAD = struct.Struct(">BHIHH")  # up to the method's number
_ACK = struct.Struct(">BHIHHQBB")  # basic.ack, or basic.nack, whole
_ACK_BYTES = 13
_DELIVER = struct.pack(">HH", CLASS_BASIC, 60)
_BYTE = [bytes((value,)) for value in range(256)]

HEARTBEAT = _HEAD.pack(FRAME_HEARTBEAT, 0, 0) + FRAME_END


class AmqpFrame(NamedTuple):
    """One frame as it was read. type: FRAME_METHOD, ...; PROTOCOL_OPENING: the eight bytes that precede all frames."""

    type: int
    channel: int
    payload: bytes

    @property
    def frames(self) -> "tuple[AmqpFrame]":
        """This frame alone, as AmqpMessage.frames has its three."""
        return (self,)


class AmqpMessage(NamedTuple):
    """A basic.publish, its content header and its only body as they were read: three consecutive frames. The header
    announces as many bytes as the body has, and the body is not empty.
    """

    channel: int
    method: bytes
    header: bytes
    body: bytes

    @property
    def frames(self) -> tuple[AmqpFrame, AmqpFrame, AmqpFrame]:
        """The three frames, one by one."""
        channel, method, header, body = self
        return (
            AmqpFrame(FRAME_METHOD, channel, method),
            AmqpFrame(FRAME_HEADER, channel, header),
            AmqpFrame(FRAME_BODY, channel, body),
        )


class BrokenAmqp(Violation):
    """A Violation that closes an AMQP connection: `code` is AMQP's, `method` the class and number that it is about."""

    def __init__(self, code: int, sentence: str, method: tuple[int, int] = (0, 0)) -> None:
        super().__init__(sentence)
        self.code = code
        self.method = method

    def without_trace(self) -> "BrokenAmqp":
        """Returns a copy to keep: the raised one's traceback would keep alive what was read, and who keeps it."""
        return BrokenAmqp(self.code, str(self), self.method)


def encode_frame(type_: int, channel: int, payload: bytes) -> bytes:
    """Returns the bytes of any frame."""
    return b"%b%b\xce" % (_HEAD.pack(type_, channel, len(payload)), payload)


def decode_content_header(payload: bytes) -> tuple[int, int, bytes]:
    """Returns the class, the size of the body, and the property flags and list, which are not examined."""
    if len(payload) < _CONTENT.size:
        raise BrokenAmqp(FRAME_ERROR, f"A content header has {len(payload)} bytes: it begins with {_CONTENT.size}.")
    class_id, weight, size = _CONTENT.unpack_from(payload)
    if weight:
        raise BrokenAmqp(UNEXPECTED_FRAME, f"A content header has the weight {weight}: it must be 0.")
    return class_id, size, payload[_CONTENT.size :]


# ---- what carries a message -----------------------------------------------------------------------------------------


def encode_deliver(
    channel: int,
    consumer_tag: bytes,
    delivery_tag: int,
    redelivered: bool,
    exchange: bytes,
    routing_key: bytes,
    properties: bytes,
    body: bytes,
    frame_max: int,
) -> bytes:
    """Returns basic.deliver with its content: method, header, and the body in frames of at most frame_max bytes.
    properties: flags and list, as properties_of (model/amqp_properties.py) makes them.
    """
    method = _deliver(channel, consumer_tag, delivery_tag, redelivered, exchange, routing_key)
    return _with_content(method, channel, properties, body, frame_max)


def deliver_pieces(
    channel: int,
    consumer_tag: bytes,
    delivery_tag: int,
    redelivered: bool,
    exchange: bytes,
    routing_key: bytes,
    properties: bytes,
    body: bytes,
    frame_max: int,
) -> list[bytes | memoryview]:
    """Returns basic.deliver with its content in pieces, none of which is a copy of the body."""
    method = _deliver(channel, consumer_tag, delivery_tag, redelivered, exchange, routing_key)
    return [*_pieces(method, channel, properties, body, frame_max)]


def encode_get_ok(
    channel: int,
    delivery_tag: int,
    redelivered: bool,
    exchange: bytes,
    routing_key: bytes,
    message_count: int,
    properties: bytes,
    body: bytes,
    frame_max: int,
) -> bytes:
    """Returns basic.get-ok with its content. message_count: messages that are left in the queue."""
    method = (
        _METHOD_HEAD.pack(FRAME_METHOD, channel, 19 + len(exchange) + len(routing_key), CLASS_BASIC, 71),
        _TAG.pack(delivery_tag, redelivered, len(exchange)),
        exchange,
        _BYTE[len(routing_key)],
        routing_key,
        _COUNT.pack(message_count),
    )
    return _with_content(method, channel, properties, body, frame_max)


def encode_return(
    channel: int,
    reply_code: int,
    reply_text: bytes,
    exchange: bytes,
    routing_key: bytes,
    properties: bytes,
    body: bytes,
    frame_max: int,
) -> bytes:
    """Returns basic.return with its content."""
    names_bytes = len(reply_text) + len(exchange) + len(routing_key)
    method = (
        _RETURN_HEAD.pack(FRAME_METHOD, channel, 9 + names_bytes, CLASS_BASIC, 50, reply_code),
        _BYTE[len(reply_text)],
        reply_text,
        _BYTE[len(exchange)],
        exchange,
        _BYTE[len(routing_key)],
        routing_key,
    )
    return _with_content(method, channel, properties, body, frame_max)


def _deliver(
    channel: int, consumer_tag: bytes, delivery_tag: int, redelivered: bool, exchange: bytes, routing_key: bytes
) -> tuple[bytes, ...]:
    """Returns the frame of basic.deliver in parts, without its end."""
    tagged = _deliver_to(consumer_tag)
    return (
        _HEAD.pack(FRAME_METHOD, channel, len(tagged) + 11 + len(exchange) + len(routing_key)),
        tagged,
        _TAG.pack(delivery_tag, redelivered, len(exchange)),
        exchange,
        _BYTE[len(routing_key)],
        routing_key,
    )


@lru_cache(HEADER_LINES_KEPT)
def _deliver_to(consumer_tag: bytes) -> bytes:
    return _DELIVER + _BYTE[len(consumer_tag)] + consumer_tag


def _with_content(method: tuple[bytes, ...], channel: int, properties: bytes, body: bytes, frame_max: int) -> bytes:
    """Joins all of a message in one step. method: its frame in parts, without the end."""
    size = len(body)
    if size == 0 or size > frame_max - FRAME_OVERHEAD_BYTES:
        return b"".join(_pieces(method, channel, properties, body, frame_max))
    return b"".join(
        (
            *method,
            _CONTENT_HEAD.pack(_END, FRAME_HEADER, channel, 12 + len(properties), CLASS_BASIC, 0, size),
            properties,
            _BODY_HEAD.pack(_END, FRAME_BODY, channel, size),
            body,
            FRAME_END,
        )
    )


def _pieces(
    method: tuple[bytes, ...], channel: int, properties: bytes, body: bytes, frame_max: int
) -> Iterator[bytes | memoryview]:
    size, step = len(body), frame_max - FRAME_OVERHEAD_BYTES
    head = b"".join(
        (
            *method,
            _CONTENT_HEAD.pack(_END, FRAME_HEADER, channel, 12 + len(properties), CLASS_BASIC, 0, size),
            properties,
        )
    )
    if size <= step:
        if size:
            yield head + _BODY_HEAD.pack(_END, FRAME_BODY, channel, size)
            yield body
        else:
            yield head
        yield FRAME_END
        return
    view = memoryview(body)
    yield head
    for start in range(0, size, step):
        part = view[start : start + step]
        yield _BODY_HEAD.pack(_END, FRAME_BODY, channel, len(part))
        yield part
    yield FRAME_END


# ---- confirms -------------------------------------------------------------------------------------------------------


def encode_ack(channel: int, delivery_tag: int, multiple: bool) -> bytes:
    """Returns basic.ack."""
    return _ACK.pack(FRAME_METHOD, channel, _ACK_BYTES, CLASS_BASIC, 80, delivery_tag, multiple, _END)


def encode_nack(channel: int, delivery_tag: int, multiple: bool) -> bytes:
    """Returns basic.nack for a published message: `requeue` has no meaning there, and is false."""
    return _ACK.pack(FRAME_METHOD, channel, _ACK_BYTES, CLASS_BASIC, 120, delivery_tag, multiple, _END)
