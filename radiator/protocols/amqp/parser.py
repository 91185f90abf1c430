"""Bytes to frames of AMQP 0-9-1: incremental, bounded, and the same frames however the bytes were cut.

The bytes of a whole frame are looked at once, those of an unfinished one once more when it is whole. A frame's size is
compared with what was agreed on as soon as its head is there, before anything behind that is held. `frames` raises
BrokenAmqp, and after it the parser must not be used again.
"""

import struct
from collections.abc import Iterator

from radiator.model.errors import shown
from radiator.protocols.amqp.frame import AmqpFrame, BrokenAmqp
from radiator.protocols.amqp.spec import (
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
_END = FRAME_END[0]
_TYPES = frozenset((FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT))
_tuple = tuple.__new__


class WrongProtocol(BrokenAmqp):
    """A connection that begins otherwise: it is answered with PROTOCOL_HEADER, and closed."""


class FrameParser:
    """One direction of one connection. Until `use` a frame has at most FRAME_MIN_BYTES.

    The first frame is the protocol header, of the type PROTOCOL_OPENING. All frames of one call must be taken before
    the next call.
    """

    __slots__ = ("_held", "_is_open", "_payload_max", "_whole_bytes", "held_bytes")

    def __init__(self) -> None:
        self._held: bytearray | None = None  # the beginning of a frame that is not whole
        self._is_open = False
        self._payload_max = FRAME_MIN_BYTES - FRAME_OVERHEAD_BYTES
        self._whole_bytes = 0  # what makes it whole, as far as that is known
        self.held_bytes = 0

    def use(self, frame_max: int) -> None:
        """From the next frame on it may have so many bytes. May be called between two frames of one `frames` call."""
        self._payload_max = frame_max - FRAME_OVERHEAD_BYTES

    @property
    def frame_bytes(self) -> int:
        """The size of the unfinished frame where it is known, else the bytes held of it."""
        return max(self._whole_bytes, self.held_bytes) if self.held_bytes else 0

    def frames(self, data: bytes) -> Iterator[AmqpFrame]:
        """The frames that `data` makes whole, in order. Raises BrokenAmqp after the last good one."""
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
            yield _tuple(AmqpFrame, (type_, channel, data[start:end]))
        if position < size:
            self._hold(data[position:], wanted)

    def _hold(self, data: bytes, wanted: int) -> None:
        self._held = bytearray(data)
        self._whole_bytes = wanted
        self.held_bytes = len(data)

    def _opens(self, data: bytes) -> bool:
        """Whether the protocol header is whole. Noise, HTTP and TLS are recognised by their first bytes."""
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
