"""The verdicts of docs/ARCHIVE.md: what is injected is found, and the streaming auditor agrees with the table, read as
it stands, over histories that were torn in every way.
"""

from collections.abc import Iterator
from random import Random

import pytest

from radiator.model.journal import (
    ACCEPTED,
    ACKED,
    CHECKED_OUT,
    COPIED,
    DEAD_LETTERED,
    DELETED,
    DELIVERED,
    DROPPED,
    EXPIRED,
    MOVED,
    NACKED,
    PURGED,
    STARTED,
)
from radiator.model.message import SEQUENCE_BITS, position_of
from radiator.tools.audit.verdicts import ENDS, HALF_FANNED, Auditor, AuditReport, Columns, Recount

Event = tuple[int, str, str, int, int, str, int]  # seq, event, queue, id, other, other_queue, number


class Tale:
    """A journal that is being told; `stored`: what its queues hold at the end."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.stored: set[int] = set()
        self.queue_of: dict[int, str] = {}
        self.boot = 0
        self.number = 0
        self.start()

    def start(self, boots: int = 1) -> None:
        self.boot += boots
        self.number = 0
        self.add(STARTED, "", position_of(self.boot, 0))

    def add(self, event: str, queue: str, one: int, other: int = 0, other_queue: str = "", number: int = 0) -> None:
        self.events.append((len(self.events), event, queue, one, other, other_queue, number))

    def accept(self, queue: str = "q") -> int:
        one = self.take()
        self.add(ACCEPTED, queue, one)
        self.stored.add(one)
        self.queue_of[one] = queue
        return one

    def take(self) -> int:
        self.number += 1
        return position_of(self.boot, self.number)

    def end(self, one: int, event: str = ACKED, other: int = 0, other_queue: str = "") -> None:
        self.stored.remove(one)
        self.add(event, self.queue_of[one], one, other, other_queue)

    def become(self, one: int, event: str = DEAD_LETTERED) -> int:
        other = self.accept("dead")
        self.end(one, event, other, "dead")
        return other

    def fan(self, *queues: str) -> int:
        common = self.take()
        for queue in queues:
            self.add(COPIED, queue, self.accept(queue), common, "", len(queues))
        return common

    def delete(self, queue: str) -> None:
        self.stored -= {one for one in self.stored if self.queue_of[one] == queue}
        self.add(DELETED, queue, 0)


def columns_of(events: list[Event]) -> Iterator[Columns]:
    """In pieces without a gap."""
    piece: list[Event] = []
    for event in events:
        if piece and (event[0] != piece[-1][0] + 1 or len(piece) == 7):
            yield tuple(zip(*piece, strict=True))
            piece = []
        piece.append(event)
    if piece:
        yield tuple(zip(*piece, strict=True))


def audited(tale: Tale, boot: int | None = 0) -> AuditReport:
    """boot: 0: of the tale; None: there is no snapshot."""
    boot = tale.boot if boot == 0 else boot
    auditor = Auditor(lambda one: one)
    for columns in columns_of(tale.events):
        auditor.feed(columns)
    auditor.close(len(tale.events), boot, tale.stored if boot is not None else ())
    if auditor.has_suspects:
        recount = Recount(auditor)
        for columns in columns_of(tale.events):
            recount.feed(columns)
        recount.close(boot)
    return auditor.report


def judged_by_the_table(tale: Tale, boot: int | None) -> tuple[dict[str, int], dict[str, set[int]]]:
    """The same, row by row as docs/ARCHIVE.md has it, with everything in memory. Counts, and what is wrong."""
    stretches: list[list[Event]] = []
    highest = -1
    for event in tale.events:
        is_new = not stretches or stretches[-1][-1][0] + 1 != event[0]
        if event[1] == STARTED and highest >= 0:
            is_new = is_new or event[3] >> SEQUENCE_BITS not in (
                highest >> SEQUENCE_BITS,
                (highest >> SEQUENCE_BITS) + 1,
            )
        if is_new:
            stretches.append([])
        stretches[-1].append(event)
        if event[1] in (ACCEPTED, STARTED):
            highest = max(highest, event[3])
    has_tail = boot is not None and boot > highest >> SEQUENCE_BITS
    bounds: list[tuple[int, int | None]] = []
    above = -1
    for stretch in stretches:
        places = [event[3] for event in stretch if event[1] in (ACCEPTED, STARTED)]
        if places:
            bounds.append((above, min(places)))
            above = max(above, *places)
    if has_tail or above < 0:
        bounds.append((above, None))

    def in_hole(one: int) -> bool:
        return any(low < one and (high is None or one < high) for low, high in bounds)

    stored = tale.stored if boot is not None else set()
    own: dict[int, list[Event]] = {}
    named: set[int] = set()
    for event in tale.events:
        if event[1] not in (STARTED, DELETED):
            own.setdefault(event[3], []).append(event)
        if event[1] in (DEAD_LETTERED, MOVED) and event[4]:
            named.add(event[4])
    counts: dict[str, int] = {}
    wrong: dict[str, set[int]] = {}

    def judge(verdict: str, one: int) -> None:
        counts[verdict] = counts.get(verdict, 0) + 1
        if verdict in ("lost", "doubled", "ghost", HALF_FANNED):
            wrong.setdefault(verdict, set()).add(one)

    for one in {*own, *named, *stored}:
        events = own.get(one, [])
        accepted = [event for event in events if event[1] == ACCEPTED]
        ends = [event[1] for event in events if event[1] in ENDS]
        if not ends and accepted:
            queue, seq = accepted[-1][2], accepted[-1][0]
            ends = [DELETED for event in tale.events if event[1] == DELETED and event[2] == queue and event[0] > seq][
                :1
            ]
        if len(accepted) >= 2 or len(ends) + (one in stored) >= 2:
            judge("doubled", one)
        elif not accepted and in_hole(one):
            judge("unknown-beginning", one)
        elif not accepted and one not in stored and not events:
            judge("lost", one)
        elif not accepted:
            judge("ghost", one)
        elif ends:
            judge(ends[0], one)
        elif one in stored:
            judge("stored", one)
        elif has_tail or accepted[-1] not in stretches[-1]:
            judge("unknown-end", one)
        else:
            judge("open" if boot is None else "lost", one)
    spared = set()
    for stretch in stretches[:-1]:
        spared |= {event[4] for event in [event for event in stretch if event[1] == COPIED][-1:]}
    for common in {event[4] for event in tale.events if event[1] == COPIED}:
        copies = [event for event in tale.events if event[1] == COPIED and event[4] == common]
        number = max(event[6] for event in copies)
        if len({event[3] for event in copies}) != number and common not in spared and not in_hole(common):
            judge(HALF_FANNED, common)
    return counts, wrong


# ---- one thing at a time --------------------------------------------------------------------------------------------


def test_every_end_is_named() -> None:
    tale = Tale()
    for event in (ACKED, EXPIRED, DROPPED, PURGED, CHECKED_OUT):
        tale.end(tale.accept(), event)
    tale.become(tale.accept(), DEAD_LETTERED)
    tale.become(tale.accept(), MOVED)
    tale.fan("a", "b", "c")
    tale.delete("c")
    report = audited(tale)
    assert report.is_right and report.counts == {
        ACKED: 1, EXPIRED: 1, DROPPED: 1, PURGED: 1, CHECKED_OUT: 1, DEAD_LETTERED: 1, MOVED: 1, DELETED: 1,
        "stored": 4,
    }  # fmt: skip


def test_a_queue_made_anew_under_its_name_is_another() -> None:
    tale = Tale()
    tale.accept("q")
    tale.delete("q")
    tale.accept("q")
    assert audited(tale).counts == {DELETED: 1, "stored": 1}


def test_lost() -> None:
    tale = Tale()
    one = tale.accept()
    tale.stored.remove(one)
    assert audited(tale).wrong == {"lost": [(one, "q")]}
    assert audited(tale, boot=None).counts == {"open": 1}


def test_lost_on_the_way_to_the_dead_letters() -> None:
    tale = Tale()
    other = tale.become(tale.accept())
    tale.stored.remove(other)
    tale.events = [event for event in tale.events if event[3] != other]
    tale.events = [(seq, *event[1:]) for seq, event in enumerate(tale.events)]
    assert audited(tale).wrong == {"lost": [(other, "")]}


@pytest.mark.parametrize("again", [ACKED, EXPIRED, ACCEPTED])
def test_doubled(again: str) -> None:
    tale = Tale()
    one = tale.accept()
    tale.end(one)
    tale.accept()
    tale.add(again, "q", one)
    report = audited(tale)
    assert report.wrong == {"doubled": [(one, "q")]} and report.counts == {"doubled": 1, "stored": 1}


def test_ended_and_still_there_is_doubled() -> None:
    tale = Tale()
    one = tale.accept()
    tale.end(one)
    tale.stored.add(one)
    assert audited(tale).wrong == {"doubled": [(one, "q")]}


@pytest.mark.parametrize("event", [ACKED, DELIVERED, NACKED])
def test_ghost(event: str) -> None:
    tale = Tale()
    one = tale.take()
    tale.accept()
    tale.add(event, "q", one)
    assert audited(tale).wrong == {"ghost": [(one, "q")]}


def test_stored_and_never_accepted_is_a_ghost() -> None:
    tale = Tale()
    one = tale.take()
    tale.accept()
    tale.stored.add(one)
    assert audited(tale).wrong == {"ghost": [(one, "")]}


def test_half_fanned() -> None:
    tale = Tale()
    tale.fan("a", "b")
    common = tale.fan("a", "b", "c")
    copy = tale.events[-1][3]
    tale.stored.remove(copy)
    tale.events = tale.events[:-2]
    tale.accept()
    tale.events = [(seq, *event[1:]) for seq, event in enumerate(tale.events)]
    assert audited(tale).wrong == {HALF_FANNED: [(common, "2 of 3 copies")]}


def test_before_the_journal_nothing_is_known() -> None:
    tale = Tale()
    ones = [tale.accept() for _ in range(4)]
    tale.end(ones[0])
    tale.events = tale.events[3:]  # the first two were accepted before
    assert audited(tale).counts == {"unknown-beginning": 2, "stored": 2}


def test_a_boot_without_the_journal_is_a_hole() -> None:
    tale = Tale()
    before = tale.accept()
    tale.stored.remove(before)  # it ended where nothing was told
    tale.start(boots=2)
    tale.boot -= 1
    tale.number = 5
    within = tale.take()
    tale.boot += 1
    tale.number = 0
    tale.stored.add(within)
    after = tale.accept()
    assert audited(tale).counts == {"unknown-end": 1, "unknown-beginning": 1, "stored": 1}
    tale.stored.remove(after)
    assert audited(tale).wrong == {"lost": [(after, "q")]}
    assert audited(tale, boot=tale.boot + 1).is_right  # it runs without the journal now


def test_a_gap_is_a_hole() -> None:
    tale = Tale()
    ones = [tale.accept() for _ in range(5)]
    tale.end(ones[0])
    tale.end(ones[3])
    tale.accept()
    gap = {3, 4, 6}  # the accepts of the third and fourth, and the end of the first
    tale.events = [event for event in tale.events if event[0] not in gap]
    report = audited(tale)
    assert report.is_right and report.stretches == 3
    assert report.counts == {"unknown-end": 1, "unknown-beginning": 2, "stored": 3}


def test_the_last_fanout_before_a_gap_is_not_half_fanned() -> None:
    tale = Tale()
    tale.fan("a", "b")
    tale.accept()
    tale.accept()
    tale.events = [event for event in tale.events if event[0] not in (3, 4, 5)]
    assert audited(tale).is_right


# ---- all of it ------------------------------------------------------------------------------------------------------


def random_tale(random: Random) -> Tale:
    tale = Tale()
    for _ in range(random.randrange(5, 60)):
        step = random.random()
        one = random.choice(sorted(tale.stored)) if tale.stored else 0
        if step < 0.35 or not one:
            tale.accept(random.choice("ab"))
        elif step < 0.55:
            tale.add(DELIVERED, tale.queue_of[one], one)
            tale.end(one, random.choice([ACKED, ACKED, EXPIRED, DROPPED, PURGED, CHECKED_OUT]))
        elif step < 0.7:
            tale.become(one, random.choice([DEAD_LETTERED, MOVED]))
        elif step < 0.8:
            tale.add(random.choice([DELIVERED, NACKED]), tale.queue_of[one], one)
        elif step < 0.9:
            tale.fan(*"abc"[: random.randrange(2, 4)])
        elif step < 0.94:
            tale.delete(random.choice("abc"))
        else:
            tale.start(random.choice([1, 1, 2]))
    return tale


def tear(tale: Tale, random: Random) -> None:
    """Events are lost, told twice, swapped, of another message; offsets are missing; the snapshot is wrong."""
    for _ in range(random.randrange(4)):
        at = random.randrange(len(tale.events))
        kind = random.randrange(8)
        event = tale.events[at]
        if kind == 0:
            del tale.events[at]
        elif kind == 1:
            tale.events.insert(random.randrange(at, len(tale.events)) + 1, event)
        elif kind == 2 and event[3]:
            tale.events[at] = (*event[:3], event[3] + random.choice([-1, 1, 3]), *event[4:])
        elif kind == 3 and tale.stored:
            tale.stored.remove(random.choice(sorted(tale.stored)))
        elif kind == 4:
            tale.stored.add(position_of(random.randrange(tale.boot + 1), random.randrange(1, 40)))
        elif kind == 5:
            tale.events[at] = (*event[:2], random.choice("abq"), *event[3:])
        elif kind == 6:
            tale.events[at] = (event[0], random.choice([ACCEPTED, ACKED, MOVED, DELIVERED, COPIED]), *event[2:])
        tale.events = tale.events or [(0, STARTED, "", position_of(1, 0), 0, "", 0)]
    first = random.choice([0, 0, random.randrange(len(tale.events))])
    gap = range(0)
    if random.random() < 0.4:
        begin = random.randrange(len(tale.events))
        gap = range(begin, begin + random.randrange(1, 6))
    # offsets are those of the places, so what was torn out is no gap, but what is left out now is
    events = [(seq, *event[1:]) for seq, event in enumerate(tale.events)]
    kept = [event for event in events[first:] if event[0] not in gap]
    tale.events = kept or events


@pytest.mark.parametrize("is_torn", [False, True])
def test_the_auditor_agrees_with_the_table(is_torn: bool) -> None:
    verdicts: set[str] = set()
    for seed in range(3000):
        random = Random(seed)
        tale = random_tale(random)
        if is_torn:
            tear(tale, random)
        boot = random.choice([None, tale.boot, tale.boot, tale.boot + 1])
        report = audited(tale, boot)
        counts, wrong = judged_by_the_table(tale, boot)
        assert dict(report.counts) == counts, seed
        assert {verdict: {one for one, _ in those} for verdict, those in report.wrong.items()} == wrong, seed
        verdicts |= {*counts}
        if not is_torn:
            assert report.is_right, seed
    if is_torn:
        assert verdicts >= {"lost", "doubled", "ghost", HALF_FANNED, "unknown-beginning", "unknown-end", "open", *ENDS}
