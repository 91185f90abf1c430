"""Searches of the journal: slices in turns, so many at once, and each over when nobody waits for it."""

from collections.abc import Iterator

import pytest

from radiator.core import searches
from radiator.core.searches import Wanted
from radiator.model.errors import Refusal
from radiator.model.journal import JournalEvent
from radiator.model.limits import SEARCH_FOUND_WORK, SEARCHES_AT_ONCE
from radiator.model.message import position_of
from radiator.model.reads import ReadEvents, ReadLog
from radiator.model.settings import JOURNAL, Declarations, LogSettings
from tests.core.node import Node
from tests.core.words import send


@pytest.fixture(autouse=True)
def slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the simulated disk: of four events each."""
    monkeypatch.setattr(searches, "SEARCH_WORK", 4 * SEARCH_FOUND_WORK)


def journaled(messages: int) -> Node:
    """So many events of accepted messages, behind two of the start."""
    node = Node(Declarations(logs={JOURNAL: LogSettings()}, has_journal=True, create_queues=True))
    node.open(1)
    for _ in range(messages):
        node.say(send(1, "q"))
    node.auto = False
    return node


class OneSeeker:
    """Looks for these messages, one after the other; found: offsets, by message."""

    def __init__(self, *numbers: int, until: int = 1 << 40) -> None:
        self.numbers = [*numbers]
        self.found: list[list[int]] = []
        self.until = until
        self.is_gone = False
        self.times_ended = 0

    def next_wanted(self) -> Wanted | None:
        assert not self.is_gone and not self.times_ended
        if not self.numbers:
            return None
        self.found.append([])
        return Wanted(frozenset([position_of(1, self.numbers.pop(0))]))

    def take(self, events: list[tuple[int, JournalEvent]]) -> bool:
        assert not self.is_gone and not self.times_ended
        self.found[-1] += [offset for offset, _ in events]
        return len(self.found[-1]) < self.until

    def ended(self) -> None:
        self.times_ended += 1


def begin(node: Node, *seekers: OneSeeker) -> None:
    for seeker in seekers:
        node.broker.parts.searches.begin(node.broker.destinations.logs.all[JOURNAL], seeker)


def slices_of(node: Node) -> Iterator[ReadEvents]:
    """Each slice before it is read, and each turn until there is no more to do."""
    for _ in range(1000):
        if node.read_requests:
            (asked,) = node.read_requests
            assert isinstance(asked, ReadEvents)
            yield asked
        if not node.step():
            return
    raise AssertionError("it does not end")


def test_a_search_reads_slice_by_slice_and_again_for_the_next_message() -> None:
    node = journaled(10)
    begin(node, seeker := OneSeeker(2, 9))
    asked = [(one.offset, one.end) for one in slices_of(node)]
    assert asked == [(offset, 11) for offset in (0, 4, 8)] * 2
    assert len(seeker.found) == 2 and all(len(one) == 1 for one in seeker.found)
    assert seeker.times_ended == 1 and node.broker.parts.searches.count == 0
    assert not node.broker.background and not node.broker.destinations.windows.waiting


def test_a_search_has_what_was_decided_before_it_and_ends_where_that_ends() -> None:
    node = journaled(1)
    node.say(send(1, "q"))  # not on the disk
    assert node.broker.has_batch
    begin(node, seeker := OneSeeker(2))
    ends = set()
    for one in slices_of(node):
        ends.add(one.end)
        node.say(send(1, "q"))
    assert len(ends) == 1 and len(seeker.found[0]) == 1


def test_a_search_that_has_enough_goes_on_with_the_next() -> None:
    node = journaled(30)
    begin(node, seeker := OneSeeker(1, 2, until=1))
    assert [one.offset for one in slices_of(node)] == [0, 0] and seeker.times_ended == 1


def test_one_slice_is_read_at_a_time_and_searches_take_turns() -> None:
    node = journaled(10)
    seekers = [OneSeeker(number) for number in (1, 2, 3)]
    begin(node, *seekers)
    found = [(next(iter(one.positions)) - position_of(1, 0), one.offset) for one in slices_of(node)]
    assert found == [(number, offset) for offset in (0, 4, 8) for number in (1, 2, 3)]


def test_the_next_slice_is_read_behind_what_others_have_asked_for() -> None:
    node = journaled(10)
    begin(node, OneSeeker(1))
    while not node.read_requests:
        assert node.step()
    node.broker.destinations.logs.all[JOURNAL].read(0, 0, 1, 1, lambda answer: None)
    node.read_requests += node.broker.context.turn.read_requests[-1:]
    node.answer()
    assert [type(one) for one in node.read_requests] == [ReadLog, ReadEvents]


def test_so_many_searches_are_under_way_and_one_more_is_refused() -> None:
    node = journaled(5)
    seekers = [OneSeeker(1) for _ in range(SEARCHES_AT_ONCE)]
    begin(node, *seekers)
    with pytest.raises(Refusal, match=f"{SEARCHES_AT_ONCE} searches of the journal are running") as refused:
        begin(node, OneSeeker(1))
    assert refused.value.code == "blocked"
    for _ in slices_of(node):
        pass
    assert all(seeker.times_ended == 1 for seeker in seekers)
    begin(node, OneSeeker(1))


@pytest.mark.parametrize("when", ["at once", "asked", "waiting"])
def test_a_search_ends_when_nobody_waits_for_it(when: str) -> None:
    node = journaled(10)
    begin(node, gone := OneSeeker(1, 2), other := OneSeeker(1))
    if when != "at once":
        while not node.read_requests:
            node.step()
    if when == "waiting":
        node.answer()
    gone.is_gone = True
    slices_left = sum(1 for _ in slices_of(node))
    assert gone.times_ended == 1 and other.times_ended == 1 and node.broker.parts.searches.count == 0
    assert slices_left == {"at once": 3, "asked": 4, "waiting": 3}[when]


def test_a_stop_does_not_wait_for_searches() -> None:
    node = journaled(10)
    begin(node, seeker := OneSeeker(1))
    while not node.read_requests:
        node.step()
    node.stop()
    assert seeker.times_ended == 0


def test_retention_may_remove_what_is_being_searched() -> None:
    node = journaled(10)
    log = node.broker.destinations.logs.all[JOURNAL]
    begin(node, seeker := OneSeeker(2, 9))
    offsets = []
    for one in slices_of(node):
        offsets.append(one.offset)
        if len(offsets) == 1:
            log.partitions[0].segments[0].begin = 6  # as if a segment before it had gone
    assert offsets == [0, 4, 8, 6, 10] and len(seeker.found[1]) == 1
