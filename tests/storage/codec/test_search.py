"""Events are found in the blocks of a journal, and only where they stand."""

import pytest

from radiator.model.journal import ACCEPTED, ACKED, MOVED, STARTED, JournalEvent
from radiator.model.limits import SEARCH_BLOCK_WORK, SEARCH_DECODED_WORK
from radiator.model.message import Message, position_of
from radiator.storage.codec import blocks, records
from radiator.storage.codec.search import EventSearch

KEY = records.record_key(1, 0, 40)
TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
EVENTS = [
    JournalEvent(STARTED, 1, "", position_of(3, 0)),
    JournalEvent(ACCEPTED, 1, "q", position_of(3, 1), traceparent=f"00-{TRACE_ID}-00f067aa0ba902b7-01"),
    JournalEvent(ACCEPTED, 2, "q", position_of(3, 2), correlation_id="täsk-7"),
    JournalEvent(MOVED, 3, "q", position_of(3, 2), other=position_of(3, 9)),
    JournalEvent(ACKED, 4, "q", position_of(3, 1)),
]
VALUE = blocks.pack(KEY, EVENTS)[1]


def search_for(*numbers: int) -> EventSearch:
    return EventSearch(frozenset(position_of(3, number) for number in numbers))


def found(search: EventSearch, value: bytes = VALUE) -> list[int]:
    events = search.found_in(40, KEY, value)
    assert all(event == EVENTS[offset - 40] for offset, event in events)
    return [offset for offset, _ in events]


@pytest.mark.parametrize(("numbers", "offsets"), [
    ((1,), [41, 44]), ((2,), [42, 43]), ((9,), [43]), ((1, 9), [41, 43, 44]), ((5,), []), ((0,), []), ((), []),
])  # fmt: skip
def test_events_of_messages_are_found(numbers: tuple[int, ...], offsets: list[int]) -> None:
    assert found(search_for(*numbers)) == offsets


@pytest.mark.parametrize("others", [14, 15, 16, 300])
def test_many_messages_are_found_too(others: int) -> None:
    assert found(search_for(1, *range(100, 100 + others))) == [41, 44]


def test_events_of_a_trace_are_found() -> None:
    assert found(EventSearch(trace_id=TRACE_ID)) == [41]
    assert found(EventSearch(trace_id="1" * 32)) == []


def test_events_of_a_correlation_id_are_found_by_the_whole_of_it() -> None:
    assert found(EventSearch(correlation_id="täsk-7")) == [42]
    for other in ("täsk", "t", "äsk-7", "täsk-70", "q", "TÄSK-7", "a", TRACE_ID):
        assert found(EventSearch(correlation_id=other)) == []


def test_a_block_without_correlation_ids_is_not_decoded_for_one() -> None:
    value = blocks.pack(KEY, EVENTS[:2])[1]
    search = EventSearch(correlation_id="q")
    assert search.found_in(40, KEY, value) == [] and search.work == SEARCH_BLOCK_WORK
    for size in range(len(value)):
        assert search.found_in(40, KEY, value[:size]) == []


def test_a_name_with_the_bytes_of_a_trace_id_is_none() -> None:
    event = JournalEvent(ACCEPTED, 1, f"x-{TRACE_ID}-y", position_of(3, 1))
    assert EventSearch(trace_id=TRACE_ID).found_in(0, KEY, blocks.pack(KEY, [event])[1]) == []


def test_a_block_without_the_bytes_is_not_decoded() -> None:
    search = search_for(5)
    assert found(search) == [] and search.work == SEARCH_BLOCK_WORK + len(VALUE)
    assert found(search_for(1)) and search.work < SEARCH_DECODED_WORK
    search = search_for(1)
    assert found(search) and search.work > SEARCH_DECODED_WORK


@pytest.mark.parametrize("at", range(0, len(VALUE), 7))
def test_of_a_damaged_block_nothing_is_told(at: int) -> None:
    damaged = bytearray(VALUE)
    damaged[at] ^= 4
    for search in (search_for(1), search_for(*range(200)), EventSearch(correlation_id="täsk-7")):
        assert search.found_in(40, KEY, bytes(damaged)) == []


def test_a_block_of_messages_has_no_events() -> None:
    value = blocks.pack(KEY, [Message("/log/l", b"", 2, position_of(3, 1).to_bytes(12, "big"), 1)])[1]
    assert search_for(1).found_in(40, KEY, value) == []
