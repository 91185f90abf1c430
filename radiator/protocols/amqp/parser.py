"""Bytes to frames of AMQP 0-9-1: incremental, bounded, and the same frames however the bytes were split.

The bytes of a whole frame are examined once, those of an unfinished one once more when it is complete. A frame's size
is checked against the negotiated bound as soon as its head is there, before anything after that is held. Once `frames`
has raised BrokenAmqp, the parser must not be used again.

Three frames for each message would cost more than everything else that is read of it: if they are complete and valid,
they are yielded as one. Otherwise each is yielded, or refused, on its own.
"""

import struct
from collections.abc import Iterator

from radiator.model.errors import shown
from radiator.protocols.amqp.frame import AmqpFrame, AmqpMessage, BrokenAmqp
from radiator.protocols.amqp.spec import (
    CLASS_BASIC,
    FRAME_BODY,
    FRAME_END,
    FRAME_ERROR,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    FRAME_MIN_BYTES,
    FRAME_OVERHEAD_BYTES,
    PROTOCOL_HEADER,
    PROTOCOL_OPENING,
)

_HEAD = struct.Struct(">BHI")  # type, channel, bytes of the payload
_HEAD_BYTES = _HEAD.size
_HEADER_HEAD = struct.Struct(">BHI4xQ")  # of a content header: up to the bytes of the body
_HEADER_BYTES = _HEADER_HEAD.size - _HEAD_BYTES
_BETWEEN = struct.Struct(">BBHI")  # the end of a frame, and the head of the next
_PUBLISH = struct.pack(">HH", CLASS_BASIC, 40)
_END = FRAME_END[0]
_TYPES = frozenset((FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT))
_tuple = tuple.__new__


class WrongProtocol(BrokenAmqp):
    """Raised if a connection begins with something else: it is answered with PROTOCOL_HEADER, and closed."""


class FrameParser:
    """Parses one direction of one connection. Until `use` is called, a frame has at most FRAME_MIN_BYTES.

    The first frame is the protocol header, of type PROTOCOL_OPENING. All frames of one call must be taken before the
    next call.
    """

    __slots__ = ("_held", "_is_open", "_payload_max", "_whole_bytes", "held_bytes")

    def __init__(self) -> None:
        self._held: bytearray | None = None  # the beginning of an unfinished frame
        self._is_open = False
        self._payload_max = FRAME_MIN_BYTES - FRAME_OVERHEAD_BYTES
        self._whole_bytes = 0  # the size of the whole frame, as far as that is known
        self.held_bytes = 0

    def use(self, frame_max: int) -> None:
        """Bounds the payload of all frames from the next one on. May be called between two frames of one `frames` call.
        frame_max: as negotiated, which is a bound of whole frames; but some clients, rabbitpy among them, fill the
        payload up to it, and RabbitMQ takes what they send.
        """
        self._payload_max = frame_max

    @property
    def frame_bytes(self) -> int:
        """The size of the unfinished frame if it is known, else the bytes held of it."""
        return max(self._whole_bytes, self.held_bytes) if self.held_bytes else 0

    def frames(self, data: bytes) -> Iterator[AmqpFrame | AmqpMessage]:
        """Yields the frames that `data` completes, in order; the three of a message as one, if `data` has them all.
        Raises BrokenAmqp after the last good one.
        """
        if self._held is not None:
            self._held += data
            if len(self._held) < self._whole_bytes:
                self.held_bytes = len(self._held)
                return
            data = bytes(self._held)
            self._held = None
        self.held_bytes = 0
        position, size = 0, len(data)
        if not self._is_open and data:
            if self._opens(data):
                position = len(PROTOCOL_HEADER)
                yield AmqpFrame(PROTOCOL_OPENING, 0, PROTOCOL_HEADER)
            else:
                self._hold(data, len(PROTOCOL_HEADER))
                return
        wanted = _HEAD_BYTES
        while size - position >= _HEAD_BYTES:
            type_, channel, payload_bytes = _HEAD.unpack_from(data, position)
            if payload_bytes > self._payload_max or type_ not in _TYPES:
                raise self._bad_head(type_, payload_bytes)
            start = position + _HEAD_BYTES
            end = start + payload_bytes
            if end >= size:
                wanted = payload_bytes + FRAME_OVERHEAD_BYTES
                break
            if data[end] != _END:
                raise BrokenAmqp(
                    FRAME_ERROR,
                    f"A frame of {payload_bytes} bytes ends with {data[end]:#04x}: 0xce ends each.",
                )
            position = end + 1
            payload = data[start:end]
            if type_ == FRAME_METHOD and payload.startswith(_PUBLISH):
                body_at, body_end = self._content(data, position, channel)
                if body_end:
                    header = data[position + _HEAD_BYTES : body_at - _BETWEEN.size]
                    position = body_end + 1
                    yield _tuple(AmqpMessage, (channel, payload, header, data[body_at:body_end]))
                    continue
            yield _tuple(AmqpFrame, (type_, channel, payload))
        if position < size:
            self._hold(data[position:], wanted)

    def _content(self, data: bytes, at: int, channel: int) -> tuple[int, int]:
        """Returns where the body begins and ends, if a complete and valid header and body frame are at `at`; else 0 and
        0, and each frame shows on its own what is wrong with it.
        """
        try:
            type_, header_channel, header_bytes, size = _HEADER_HEAD.unpack_from(data, at)
            header_end = at + _HEAD_BYTES + header_bytes
            end, body_type, body_channel, body_bytes = _BETWEEN.unpack_from(data, header_end)
            body_at = header_end + _BETWEEN.size
            body_end = body_at + body_bytes
            if (
                type_ == FRAME_HEADER
                and body_type == FRAME_BODY
                and header_channel == body_channel == channel
                and size == body_bytes > 0
                and header_bytes <= self._payload_max
                and body_bytes <= self._payload_max
                and header_bytes >= _HEADER_BYTES
                and end == data[body_end] == _END
            ):
                return body_at, body_end
        except (struct.error, IndexError):
            pass  # they are not complete
        return 0, 0

    def _hold(self, data: bytes, wanted: int) -> None:
        self._held = bytearray(data)
        self._whole_bytes = wanted
        self.held_bytes = len(data)

    def _opens(self, data: bytes) -> bool:
        """Whether the protocol header is complete. Noise, HTTP and TLS are refused at their first bytes."""
        if data.startswith(PROTOCOL_HEADER):
            self._is_open = True
            return True
        if PROTOCOL_HEADER.startswith(data):
            return False
        raise WrongProtocol(
            FRAME_ERROR, f"The connection begins with {shown(data[: len(PROTOCOL_HEADER)])}, which is not AMQP 0-9-1."
        )

    def _bad_head(self, type_: int, payload_bytes: int) -> BrokenAmqp:
        if type_ not in _TYPES:
            return BrokenAmqp(FRAME_ERROR, f"A frame has the type {type_}: there are 1, 2, 3 and 8.")
        return BrokenAmqp(
            FRAME_ERROR,
            f"A frame has {payload_bytes + FRAME_OVERHEAD_BYTES} bytes: at most "
            f"{self._payload_max + FRAME_OVERHEAD_BYTES} may come.",
        )
