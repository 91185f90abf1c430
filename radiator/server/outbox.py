"""The bytes that are on their way to one client, in order, and which of them are Delivers.

`next` returns what to write, `took` is told how much of it the system took; nothing may be appended between the two. A
piece is copied only to join it with small neighbours, so that a turn costs one write, and many small pieces that wait
take no more memory than their bytes. A frame begins with `bytes`; the rest of one that is partly sent, and the later
pieces of a large one, are memoryviews.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import takewhile

from radiator.model.limits import KIB, WRITE_BYTES

Piece = bytes | memoryview
_LOOSE_MAX = 64  # small pieces are joined once there are this many
_LOOSE_BYTES = 4 * KIB * _LOOSE_MAX  # if they have fewer bytes than this together


class OutgoingBuffer:
    """pending_bytes: not taken yet. sent_bytes and delivered: bytes, and Deliver replies, taken since the beginning."""

    __slots__ = ("_deliver_ends", "_loose", "_pieces", "delivered", "pending_bytes", "sent_bytes")

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._loose = 0  # pieces appended since small ones were last joined
        self._deliver_ends: list[int] = []  # where in the stream each Deliver that is not wholly taken ends
        self.pending_bytes = 0
        self.sent_bytes = 0
        self.delivered = 0

    def append(self, data: bytes, is_deliver: bool = False, number: int = 0) -> None:
        """Appends after everything before. No data: only the Deliver is counted. number: of the connection that it
        belongs to, if several write here.
        """
        if data:
            self._pieces.append(data)
            self.pending_bytes += len(data)
            self._loose += 1
            if self._loose == _LOOSE_MAX:
                self._join_loose()
        if is_deliver:
            self._deliver_ends.append(self.sent_bytes + self.pending_bytes)

    def _join_loose(self) -> None:
        """Joins the last pieces, if all are small: between thousands of small blocks memory lies unused."""
        self._loose = 0
        loose = self._pieces[1:][-_LOOSE_MAX:]  # the first one may be partly sent
        if len(loose) > 1 and all(isinstance(piece, bytes) for piece in loose) and sum(map(len, loose)) < _LOOSE_BYTES:
            self._pieces[-len(loose) :] = [b"".join(loose)]

    def append_pieces(self, pieces: Sequence[Piece], is_deliver: bool = True, number: int = 0) -> None:
        """Appends a reply, usually a Deliver, that is so large that it comes in pieces."""
        first, *others = pieces
        self.append(bytes(first))
        for piece in others:
            self._pieces.append(memoryview(piece))
            self.pending_bytes += len(piece)
        if is_deliver:
            self._deliver_ends.append(self.sent_bytes + self.pending_bytes)

    def next(self) -> Piece:
        """Returns what to write now: everything up to WRITE_BYTES, or a larger piece alone. Needs something pending."""
        pieces = self._pieces
        if len(pieces) > 1:
            count = self._joinable()
            if count > 1:
                joined = b"".join(pieces[:count])
                pieces[:count] = [memoryview(joined) if isinstance(pieces[0], memoryview) else joined]
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
        """Notes how much of what `next` returned the system took. Returns whether `delivered` has grown."""
        pieces = self._pieces
        if sent_bytes == self.pending_bytes:
            # nearly always: everything was taken
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

    def taken(self, number: int) -> list[tuple[int, int]]:
        """Returns whose Delivers were taken since the last call, and how many in all. number: of the buffer's owner."""
        return [(number, self.delivered)]

    def drop(self) -> bool:
        """Drops every frame that is not partly sent, to free memory. The peer still gets whole frames before it is
        closed. Returns whether any was dropped.
        """
        if not self._pieces:
            return False
        begun = [*takewhile(lambda piece: isinstance(piece, memoryview), self._pieces)]
        is_less = len(begun) < len(self._pieces)
        self._pieces = begun
        self.pending_bytes = sum(map(len, begun))
        self._deliver_ends.clear()
        return is_less

    def clear(self) -> None:
        """Drops everything."""
        self._pieces.clear()
        self._deliver_ends.clear()
        self.pending_bytes = 0


class ChannelsBuffer(OutgoingBuffer):
    """An OutgoingBuffer for several connections, whose Delivers are counted by connection number."""

    __slots__ = ("_counts", "_owners", "_seen", "_touched")

    def __init__(self) -> None:
        super().__init__()
        self._owners: list[int] = []  # the connections of Delivers that are not wholly taken, in order
        self._counts: dict[int, int] = {}  # wholly taken Delivers of each connection that has not ended
        self._seen = 0  # how many of `delivered` are in those counts
        self._touched: dict[int, None] = {}  # the connections whose count has grown since the last `taken`

    def append(self, data: bytes, is_deliver: bool = False, number: int = 0) -> None:
        super().append(data, is_deliver)
        if is_deliver:
            self._note(number)

    def append_pieces(self, pieces: Sequence[Piece], is_deliver: bool = True, number: int = 0) -> None:
        super().append_pieces(pieces, is_deliver)
        if is_deliver:
            self._note(number)

    def _note(self, number: int) -> None:
        self._owners.append(number)
        self._counts.setdefault(number, 0)

    def took(self, sent_bytes: int) -> bool:
        has_grown = super().took(sent_bytes)
        count = self.delivered - self._seen
        self._seen = self.delivered
        for owner in self._owners[:count]:
            if owner in self._counts:  # its connection has not ended
                self._counts[owner] += 1
                self._touched[owner] = None
        del self._owners[:count]
        return has_grown

    def taken(self, number: int) -> list[tuple[int, int]]:
        found = [(number, self._counts[number]) for number in self._touched]
        self._touched.clear()
        return found

    def forget(self, number: int) -> None:
        """Drops the count of a connection that has ended."""
        self._counts.pop(number, None)
        self._touched.pop(number, None)

    def drop(self) -> bool:
        self._owners.clear()
        return super().drop()

    def clear(self) -> None:
        super().clear()
        self._owners.clear()
