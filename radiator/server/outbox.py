"""The bytes that are on their way to one client, in order, and which of them are Delivers.

`next` gives what to write, `took` is told how much of it the system has taken; between the two nothing may be appended.
A piece is copied only to join it with small neighbours, so that a turn costs one write.
"""

from bisect import bisect_right

from radiator.limits import WRITE_BYTES

Piece = bytes | memoryview


class Outbox:
    """pending_bytes: not taken yet. sent_bytes and delivered: bytes, and Deliver replies, taken since the beginning."""

    __slots__ = ("_deliver_ends", "_pieces", "delivered", "pending_bytes", "sent_bytes")

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._deliver_ends: list[int] = []  # where in the stream each Deliver ends that is not wholly taken
        self.pending_bytes = 0
        self.sent_bytes = 0
        self.delivered = 0

    def append(self, data: bytes, is_deliver: bool = False) -> None:
        """After everything that was appended before. No data: only the Deliver is counted."""
        if data:
            self._pieces.append(data)
            self.pending_bytes += len(data)
        if is_deliver:
            self._deliver_ends.append(self.sent_bytes + self.pending_bytes)

    def next(self) -> Piece:
        """What to write now: everything up to WRITE_BYTES, or a larger piece alone. Only where something is pending."""
        pieces = self._pieces
        if len(pieces) > 1:
            count = self._joinable()
            if count > 1:
                pieces[:count] = [b"".join(pieces[:count])]
        return pieces[0]

    def _joinable(self) -> int:
        if self.pending_bytes <= WRITE_BYTES:
            return len(self._pieces)
        size = 0
        for count, piece in enumerate(self._pieces):
            size += len(piece)
            if size > WRITE_BYTES:
                return count
        return len(self._pieces)

    def took(self, sent_bytes: int) -> bool:
        """The system took so much of what `next` gave. Whether `delivered` has grown."""
        pieces = self._pieces
        if sent_bytes == self.pending_bytes:
            # as nearly always: all of it
            pieces.clear()
            self.sent_bytes += sent_bytes
            self.pending_bytes = 0
            written = len(self._deliver_ends)
            self._deliver_ends.clear()
            self.delivered += written
            return written > 0
        if sent_bytes == len(pieces[0]):
            del pieces[0]
        elif sent_bytes:
            pieces[0] = memoryview(pieces[0])[sent_bytes:]
        self.sent_bytes += sent_bytes
        self.pending_bytes -= sent_bytes
        ends = self._deliver_ends
        if not ends:
            return False
        written = len(ends) if not pieces else bisect_right(ends, self.sent_bytes)
        del ends[:written]
        self.delivered += written
        return written > 0

    def drop(self) -> None:
        """What was not begun to be sent is not: memory is wanted. The peer still gets whole frames, as it is closed."""
        if not self._pieces:
            return
        started = self._pieces[0]
        if not isinstance(started, memoryview):
            self.clear()
            return
        self._pieces = [started]
        self.pending_bytes = len(started)
        self._deliver_ends.clear()

    def clear(self) -> None:
        """Nothing of it will be sent."""
        self._pieces.clear()
        self._deliver_ends.clear()
        self.pending_bytes = 0
