"""Judges whether every message is accounted for, by the rules of docs/ARCHIVE.md, "Verdicts". Pure.

The first pass keeps only open messages: accepted and not ended. Whatever does not fit is a *suspect*; a second pass
counts all events of the suspects, and judges them by the table. So memory is used only for open and suspect messages,
however long the journal is. An id is a position (of a store), or a text `STORE-BOOT-NUMBER` (of an archive).
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from radiator.model.errors import count_text
from radiator.model.journal import ACCEPTED, COPIED, DEAD_LETTERED, DELETED, ENDS, EVENTS, MOVED, STARTED
from radiator.model.message import SEQUENCE_BITS
from radiator.tools.audit import table

HALF_FANNED = "half-fanned"
WRONG = (*table.WRONG, HALF_FANNED)

Id = Hashable
Columns = tuple[
    Sequence[int], Sequence[str], Sequence[str], Sequence[Id], Sequence[Id], Sequence[str | None], Sequence[int]
]
"""Events, column by column: seq, event, queue, message_id, other_id, other_queue, number."""

_BECAME = frozenset({DEAD_LETTERED, MOVED})
_OF_MESSAGES = frozenset(EVENTS) - {STARTED, DELETED}


@dataclass(slots=True)
class AuditReport:
    """counts: messages by verdict. wrong: those of WRONG, with the name of their queue (of half-fanned ones, how many
    of how many). stretches: of the journal, without a gap. cut: the offset up to which events count.
    """

    events: int = 0
    cut: int = 0
    has_snapshot: bool = False
    stretches: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    wrong: dict[str, list[tuple[Id, str]]] = field(default_factory=dict)

    @property
    def is_right(self) -> bool:
        """Whether no message has a wrong verdict."""
        return not self.wrong

    def judged(self, verdict: str, one: Id, queue: str) -> None:
        """Adds the verdict on one message."""
        self.counts[verdict] += 1
        if verdict in WRONG:
            self.wrong.setdefault(verdict, []).append((one, queue))


class Holes:
    """The stretches of a journal, and the places that were given out in each."""

    def __init__(self, place_of: Callable[[Id], int]) -> None:
        self.place_of = place_of
        self.ends: list[tuple[int, int]] = []  # lowest and highest place of each stretch that is over
        self.lowest = self.highest = -1
        self.next_seq = -1
        self.is_open_ended = False

    @property
    def stretch(self) -> int:
        """The number of the present one."""
        return len(self.ends)

    def begin(self, seq: int) -> bool:
        """Called when events from this offset on come next. Returns whether some are missing before it."""
        was, self.next_seq = self.next_seq, seq
        if was in (-1, seq):
            return False
        self.cut()
        return True

    def cut(self) -> None:
        """Called when what comes next is after a hole."""
        self.ends.append((self.lowest, self.highest))
        self.lowest = -1

    def given(self, place: int) -> None:
        """Called when that place was given out."""
        if self.lowest < 0 or place < self.lowest:
            self.lowest = place
        self.highest = max(self.highest, place)

    def started(self, place: int) -> bool:
        """Called when the broker has started. Returns whether it ran without the journal before."""
        boot, last = place >> SEQUENCE_BITS, self.highest >> SEQUENCE_BITS
        is_hole = self.highest >= 0 and boot not in (last, last + 1)
        if is_hole:
            self.cut()
        self.given(place)
        return is_hole

    def finish(self, boot: int | None) -> None:
        """boot: of the snapshot, if there is one."""
        self.is_open_ended = boot is not None and boot > self.highest >> SEQUENCE_BITS
        self.cut()

    def has(self, one: Id) -> bool:
        """Whether the journal has nothing of the time in which that id was given out."""
        place = self.place_of(one)
        above = -1
        for lowest, highest in self.ends:
            if lowest >= 0 and above < place < lowest:
                return True
            if lowest >= 0:
                above = highest
        return place > above and (self.is_open_ended or above < 0)


class Auditor:
    """The first pass: `feed` all events in their order, then `close`."""

    def __init__(self, place_of: Callable[[Id], int]) -> None:
        self.report = AuditReport()
        self.holes = Holes(place_of)
        self.suspects: set[Id] = set()
        self.fanouts: dict[Id, tuple[int, set[Id]]] = {}  # those of which some copies have no event
        self.spared: set[Id] = set()  # the last fanouts before holes
        self.stored: set[Id] = set()  # those of the suspects that the snapshot has
        self._open: dict[str, dict[Id, int]] = {}  # by queue -> the stretch in which it was accepted
        self._expected: set[Id] = set()
        self._last_fanout: Id = None

    def feed(self, columns: Columns) -> None:
        """Takes events that follow each other without a gap."""
        if not columns[0]:
            return
        holes, suspects, counts = self.holes, self.suspects, self.report.counts
        if holes.begin(columns[0][0]):
            self._hole()
        place_of = holes.place_of
        for _, event, queue, one, other, other_queue, number in zip(*columns, strict=True):
            if event == ACCEPTED:
                place = place_of(one)
                if place <= holes.highest:
                    suspects.add(one)
                holes.given(place)
                self._open.setdefault(queue, {})[one] = holes.stretch
                self._expected.discard(one)
            elif event in ENDS:
                if self._open.get(queue, _NONE).pop(one, None) is None:
                    suspects.add(one)
                else:
                    counts[event] += 1
                if event in _BECAME and other and other not in self._open.get(other_queue or "", _NONE):
                    self._expected.add(other)
            elif event == STARTED:
                if holes.started(place_of(one)):
                    self._hole()
            elif event == DELETED:
                counts[DELETED] += len(self._open.pop(queue, _NONE))
            elif event in _OF_MESSAGES:
                if event == COPIED:
                    self._copied(one, other, number)
                if one not in self._open.get(queue, _NONE):
                    suspects.add(one)
        self.report.events += len(columns[0])
        holes.next_seq += len(columns[0])

    def close(self, cut: int, boot: int | None, stored: Iterable[Id]) -> None:
        """Ends the pass. boot: of the snapshot, None: there is none. stored: what it has."""
        report, holes = self.report, self.holes
        holes.finish(boot)
        report.counts = +report.counts  # a deleted queue may have been empty
        report.cut, report.has_snapshot, report.stretches = cut, boot is not None, len(holes.ends)
        by_id = {one: (queue, at) for queue, there in self._open.items() for one, at in there.items()}
        self._open.clear()
        self.suspects |= self._expected
        for one in stored:
            if one in self.suspects or one not in by_id:
                self.suspects.add(one)
                self.stored.add(one)
            else:
                del by_id[one]
                report.counts[table.STORED] += 1
        last = len(holes.ends) - 1
        by_hole = {is_hole: _unended(report.has_snapshot, is_hole) for is_hole in (False, True)}
        for one, (queue, at) in by_id.items():
            if one not in self.suspects:
                report.judged(by_hole[at < last or holes.is_open_ended], one, queue)

    @property
    def has_suspects(self) -> bool:
        """Whether a second pass is needed."""
        return bool(self.suspects or self.fanouts)

    def _copied(self, one: Id, other: Id, copies: int) -> None:
        self._last_fanout = other
        most, there = self.fanouts.get(other, (0, set()))
        there.add(one)
        if len(there) == max(most, copies):
            self.fanouts.pop(other, None)
        else:
            self.fanouts[other] = max(most, copies), there

    def _hole(self) -> None:
        self.spared.add(self._last_fanout)


_NONE: dict[Id, int] = {}


def _unended(has_snapshot: bool, is_hole_after: bool) -> str:
    """Returns the verdict of a message that was accepted once, has no end, and is not known to be stored."""
    return table.verdict(
        table.Facts(
            accepted=1,
            ends=0,
            events=1,
            stored=0,
            is_in_hole=False,
            is_hole_after=is_hole_after,
            has_snapshot=has_snapshot,
        )
    )


@dataclass(slots=True)
class _Counts:
    """Counts of the events of one suspect. is_deleted: with its queue, after it was accepted. open_in: queues in which
    the first pass had it among those that are open.
    """

    accepted: int = 0
    events: int = 0
    ends: list[str] = field(default_factory=list)
    queue: str = ""
    stretch: int = 0
    is_deleted: bool = False
    open_in: set[str] = field(default_factory=set)


class Recount:
    """The second pass, where the first has suspects: `feed` all events again, then `close`."""

    def __init__(self, auditor: Auditor) -> None:
        self._auditor = auditor
        # anew: retention may have cut off a piece of the beginning since the first pass
        self._holes = Holes(auditor.holes.place_of)
        self._of = {one: _Counts() for one in auditor.suspects}
        self._fanouts: dict[Id, tuple[int, set[Id]]] = {one: (0, set()) for one in auditor.fanouts}

    def feed(self, columns: Columns) -> None:
        """Does what the first pass does with them."""
        if not columns[0]:
            return
        holes, of = self._holes, self._of
        holes.begin(columns[0][0])
        for _, event, queue, one, other, _, number in zip(*columns, strict=True):
            if event == STARTED:
                holes.started(holes.place_of(one))
            elif event == DELETED:
                self._deleted(queue)
            elif event in _OF_MESSAGES:
                if event == ACCEPTED:
                    holes.given(holes.place_of(one))
                elif event == COPIED and other in self._fanouts:
                    most, there = self._fanouts[other]
                    self._fanouts[other] = max(most, number), there | {one}
                if one in of:
                    self._count(of[one], event, queue)
        holes.next_seq += len(columns[0])

    def _count(self, of: _Counts, event: str, queue: str) -> None:
        of.events += 1
        if event == ACCEPTED:
            of.accepted += 1
            of.queue, of.stretch, of.is_deleted = queue, self._holes.stretch, False
            of.open_in.add(queue)
        elif event in ENDS:
            of.ends.append(event)
            if queue in of.open_in:
                of.open_in.discard(queue)
                self._auditor.report.counts[event] -= 1  # it is counted below
        of.queue = of.queue or queue

    def _deleted(self, queue: str) -> None:
        for of in self._of.values():
            if queue in of.open_in:
                of.open_in.discard(queue)
                self._auditor.report.counts[DELETED] -= 1
            if of.accepted and of.queue == queue:
                of.is_deleted = True

    def close(self, boot: int | None) -> None:
        """Ends the second pass: its report is complete then."""
        self._holes.finish(boot)
        auditor, report = self._auditor, self._auditor.report
        for one, of in self._of.items():
            report.judged(self._verdict(one, of), one, of.queue)
        for one, (copies, there) in self._fanouts.items():
            if len(there) != copies and one not in auditor.spared and not self._holes.has(one):
                report.judged(HALF_FANNED, one, f"{len(there)} of {count_text(copies, 'copy', 'copies')}")
        report.counts = +report.counts

    def _verdict(self, one: Id, of: _Counts) -> str:
        auditor, holes = self._auditor, self._holes
        ends = of.ends or ([DELETED] if of.is_deleted else [])
        verdict = table.verdict(
            table.Facts(
                accepted=of.accepted,
                ends=len(ends),
                events=of.events,
                stored=int(one in auditor.stored),
                is_in_hole=holes.has(one),
                is_hole_after=of.stretch < len(holes.ends) - 1 or holes.is_open_ended,
                has_snapshot=auditor.report.has_snapshot,
            )
        )
        return ends[0] if verdict == table.ITS_END else verdict
