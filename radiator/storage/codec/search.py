"""Looks for events in the blocks of a journal: those of some messages, or of a trace or a correlation-id. Pure.

A position, a trace id and a correlation-id are in a block unchanged (events.py), so a block without their bytes is not
decoded.
"""

from collections.abc import Collection
from functools import lru_cache

from radiator.model.errors import DamagedRecord
from radiator.model.journal import JournalEvent, is_about, is_traced
from radiator.model.limits import (
    SEARCH_BLOCK_WORK,
    SEARCH_DECODED_WORK,
    SEARCH_EVENT_WORK,
    SEARCH_FOUND_WORK,
    SEARCH_POSITION_WORK,
    SEARCH_POSITIONS_WORK,
    SEARCHES_AT_ONCE,
)
from radiator.storage.codec.blocks import EVENTS, HEAD_BYTES, checked, count_of, events_in, more_of
from radiator.storage.codec.events import CORRELATED, POSITION_BYTES, positions_of

_TEXTS_MAX = 16  # for more of them it is quicker to look at each position of a block


def _as_bytes(position: int) -> bytes:
    return position.to_bytes(POSITION_BYTES, "big")


@lru_cache(maxsize=SEARCHES_AT_ONCE)
def _many(positions: frozenset[int]) -> frozenset[bytes]:
    """Made once for all slices of a search, which would otherwise take longer for this than for a block."""
    return frozenset(map(_as_bytes, positions))


class EventSearch:
    """positions: of the messages; trace_id, correlation_id: what they were accepted with; one of the three. work: what
    it has cost so far; to search a byte for one text is 1, about 0.2 ns.
    """

    __slots__ = ("_correlation_id", "_positions", "_texts", "_trace_id", "work")

    def __init__(self, positions: frozenset[int] = frozenset(), trace_id: str = "", correlation_id: str = "") -> None:
        self._positions = positions
        self._trace_id = trace_id
        self._correlation_id = correlation_id
        self._texts: Collection[bytes]
        if trace_id or correlation_id:
            self._texts = [(trace_id or correlation_id).encode()]
        else:
            self._texts = _many(positions) if len(positions) > _TEXTS_MAX else [*map(_as_bytes, positions)]
        self.work = 0

    def found_in(self, first: int, key: bytes, value: bytes) -> list[tuple[int, JournalEvent]]:
        """Returns the matching events of a block whose first event has that offset, each with its offset; none of a
        damaged block.
        """
        self.work += SEARCH_BLOCK_WORK
        if (self._correlation_id and more_of(value) < CORRELATED) or not self._may_have_some(value):
            return []
        try:
            kind, _ = checked(key, value)
            events = events_in(key, value) if kind == EVENTS else []
        except DamagedRecord:
            return []
        self.work += SEARCH_DECODED_WORK + SEARCH_EVENT_WORK * len(events)
        if self._trace_id:
            found = [(at, one) for at, one in enumerate(events, first) if is_traced(one, self._trace_id)]
        elif self._correlation_id:
            found = [(at, one) for at, one in enumerate(events, first) if one.correlation_id == self._correlation_id]
        else:
            found = [(at, one) for at, one in enumerate(events, first) if is_about(one, self._positions)]
        self.work += SEARCH_FOUND_WORK * len(found)
        return found

    def _may_have_some(self, value: bytes) -> bool:
        """Whether it has the bytes of any of them; unchecked."""
        if isinstance(self._texts, frozenset):
            count = count_of(value)
            self.work += SEARCH_POSITIONS_WORK + SEARCH_POSITION_WORK * count
            try:
                return not self._texts.isdisjoint(positions_of(memoryview(value)[HEAD_BYTES:], count))
            except ValueError:
                return False
        for text in self._texts:
            self.work += len(value)
            if text in value:
                return True
        return False
