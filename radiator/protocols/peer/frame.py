"""Frames of a link: four bytes of length, one of kind, and the fields of one word (spec.py has the words).

The parser is incremental and bounded: a length is compared with the maximum of its kind before any of the frame is
held, and held bytes are examined again only when the frame is complete. Once `words` has raised Violation, the parser
must not be used again.
"""

import struct
from collections.abc import Iterator

from radiator.model.errors import Violation
from radiator.model.limits import Limits
from radiator.protocols.peer.fields import FieldReader
from radiator.protocols.peer.spec import BEAT, SPECS, FrameSpec, LinkFrame

_HEAD = struct.Struct(">IB")  # bytes that follow the length; kind
_LENGTH_BYTES = 4

HEART_BEAT = _HEAD.pack(1, BEAT)


def encode(word: LinkFrame) -> bytes:
    """Returns the frame of a word."""
    spec = SPECS[type(word)]
    parts = [b""]
    size = 1
    for name, field in zip(word.__slots__, spec.fields):  # noqa: B905 - the words are ours
        part = field.write(getattr(word, name))
        parts.append(part)
        size += len(part)
    parts[0] = _HEAD.pack(size, spec.kind)
    return b"".join(parts)


class Frames:
    """Parses what one side sends. Until `take` is called, it accepts the kinds given here."""

    __slots__ = ("_held", "_kinds", "_limits", "_most_bytes", "_whole_bytes", "held_bytes")

    def __init__(self, limits: Limits, kinds: dict[int, FrameSpec]) -> None:
        self._limits = limits
        self._held: bytearray | None = None  # the beginning of an unfinished frame
        self._whole_bytes = 0  # the size of the whole frame, as far as it is known
        self.held_bytes = 0
        self.take(kinds)

    def take(self, kinds: dict[int, FrameSpec]) -> None:
        """Accepts these kinds from the next frame on. May be called between two words of one `words` call."""
        self._kinds = kinds
        self._most_bytes = {kind: spec.most_bytes(self._limits) for kind, spec in kinds.items()}

    @property
    def frame_bytes(self) -> int:
        """The size of the unfinished frame if its head has arrived; else the bytes held of it."""
        return max(self._whole_bytes, self.held_bytes)

    def words(self, data: bytes) -> Iterator[LinkFrame]:
        """Yields the words that `data` completes, in order; heart-beats are left out."""
        if self._held is not None:
            self._held += data
            self.held_bytes = len(self._held)
            if self.held_bytes < self._whole_bytes:
                return
            data = bytes(self._held)
            self._held = None
        self.held_bytes = 0
        at, size = 0, len(data)
        while True:
            whole_bytes = _HEAD.size
            if size - at < whole_bytes:
                break
            length, kind = _HEAD.unpack_from(data, at)
            self._check_head(length, kind)
            whole_bytes = _LENGTH_BYTES + length
            end = at + whole_bytes
            if end > size:
                break
            if kind != BEAT:
                yield self._word(FieldReader(data, at + _HEAD.size, end, self._limits), self._kinds[kind])
            at = end
        if at < size:
            self._held = bytearray(data) if at == 0 else bytearray(data[at:])
            self._whole_bytes = whole_bytes
            self.held_bytes = size - at

    def _check_head(self, length: int, kind: int) -> None:
        if kind == BEAT:
            most = 0
        elif kind in self._kinds:
            most = self._most_bytes[kind]
        else:
            known = ", ".join(str(number) for number in self._kinds)
            raise Violation(f"A frame of kind {kind} may not come now: {known} may.")
        if not 1 <= length <= 1 + most:
            raise Violation(f"A frame of kind {kind} and {length} bytes: it has 1 to {1 + most}.")

    def _word(self, reader: FieldReader, spec: FrameSpec) -> LinkFrame:
        word = spec.word(*[field.read(reader) for field in spec.fields])
        if reader.at != reader.end:
            raise Violation(f"A frame of kind {spec.kind} has {reader.end - reader.at} bytes after its last field.")
        return word
