"""A partition: its first and last times and offsets, where a time is looked for, and how far a reader has come."""

from radiator.core.logs.partition import Cursor, Partition
from radiator.model.writes import KeepSegment


def segment(first: int, count: int, first_ms: int, last_ms: int, begin: int | None = None) -> KeepSegment:
    return KeepSegment(1, 0, first, first if begin is None else begin, count, 10 * count, first_ms, last_ms)


def partition(*segments: KeepSegment) -> Partition:
    made = Partition(0)
    made.recover(segments)
    return made


class Nobody:
    """A reader that is never called."""

    def grown(self, cursor: Cursor) -> None:
        raise AssertionError

    def pump(self) -> None:
        raise AssertionError

    def yield_partition(self, cursor: Cursor) -> None:
        raise AssertionError

    def drop(self, cursor: Cursor) -> None:
        raise AssertionError


def test_an_empty_partition_begins_and_ends_at_nothing() -> None:
    empty = partition()
    assert (empty.first, empty.next, empty.committed, empty.size) == (0, 0, 0, 0)
    assert (empty.first_ms, empty.last_ms, empty.segment_at(5)) == (0, 0, 0)


def test_what_is_recovered_goes_on_behind_its_last_record() -> None:
    there = partition(segment(3, 2, 10, 20), segment(5, 4, 20, 30))
    assert (there.first, there.next, there.committed, there.tail_first, there.size) == (3, 9, 9, 9, 60)
    assert (there.first_ms, there.last_ms) == (10, 30)


def test_records_that_were_let_go_of_are_not_its_first() -> None:
    assert partition(segment(0, 2, 1, 2, begin=2), segment(2, 3, 3, 4, begin=3)).first == 3
    assert partition(segment(0, 2, 1, 2, begin=2)).first == 2, "all are gone: the next comes there"


def test_a_time_is_looked_for_in_the_first_segment_that_reaches_it() -> None:
    there = partition(segment(0, 2, 10, 20), segment(2, 2, 20, 30), segment(4, 2, 40, 50))
    assert [there.segment_at(time_ms) for time_ms in (0, 20, 21, 31, 50, 51)] == [0, 0, 2, 4, 4, 6]


def test_no_segment_is_later_than_those_behind_it() -> None:
    there = partition(segment(0, 1, 10, 90), segment(1, 1, 80, 80), segment(2, 1, 30, 40))
    assert [(one.first_ms, one.last_ms) for one in there.segments] == [(10, 40), (40, 40), (30, 40)]
    assert there.settle_times(40) == [], "all is settled"
    assert [one.first for one in there.settle_times(35)] == [2, 1, 0], "the clock was set back"


def test_a_cursor_has_unread_what_is_committed_and_before_its_end() -> None:
    there = partition(segment(0, 4, 1, 2))
    assert not Cursor(Nobody(), there, 4, None, 0).has_unread
    assert Cursor(Nobody(), there, 3, None, 0).has_unread
    assert not Cursor(Nobody(), there, 3, 3, 0).has_unread
    there.next = 5
    assert not Cursor(Nobody(), there, 4, None, 0).has_unread, "on no disk yet"
