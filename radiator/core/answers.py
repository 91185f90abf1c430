"""Answers that may be long: made row by row, one slice a turn, however many connections ask for however many.

A row shows one moment; two rows may show different turns. Connections take turns, one answer each, and short answers do
not wait for long ones: see ANSWER_LINES. A connection with ANSWERS_WAITING_MAX answers outstanding is blocked: it is
not read from. An answer is begun only while its connection reads, and is dropped when the connection closes.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from itertools import islice
from typing import Any, Protocol, TypeVar

from radiator.core.connections import Connection
from radiator.core.queues.queue import Queue
from radiator.core.routing.waiting import Waitable, WaitList
from radiator.model.answers import AdminAnswer
from radiator.model.errors import Refusal
from radiator.model.limits import (
    ANSWER_LINES,
    ANSWER_MAX_BYTES,
    ANSWER_PART_BYTES,
    ANSWER_ROWS,
    ANSWER_SLICE_BYTES,
    ANSWERS_AT_ONCE,
    ANSWERS_WAITING_MAX,
    LOOKED_AT_ONCE,
    MATCH_STEPS,
)
from radiator.model.numbers import PAUSE, Later, PauseRow
from radiator.model.patterns import matches
from radiator.model.rendering import Rendering

Item = TypeVar("Item")


@dataclass(slots=True, eq=False)
class AwaitedRow:
    """Stands in place of a row: the answer continues once `end` is called. found: what `end` was called with."""

    found: Any = None
    then: Callable[[], None] | None = None

    def end(self, found: Any) -> None:
        self.found = found
        if self.then is not None:
            self.then()


Made = (
    AdminAnswer | Iterator[AdminAnswer | PauseRow | AwaitedRow]
)  # an iterator: what the answer waits for, and then it


def _steps(made: Made, rendering: Rendering) -> Iterator[str | AwaitedRow]:
    """Yields the pieces of an answer as the protocol writes it: "" for a PAUSE, and each AwaitedRow as it is."""
    if not isinstance(made, Iterator):
        yield from rendering.pieces(made)
        return
    for step in made:
        if step is PAUSE:
            yield ""
        elif isinstance(step, AwaitedRow):
            yield step
        else:
            yield from rendering.pieces(step)


# ---- rows -----------------------------------------------------------------------------------------------------------


def rested(items: Iterable[Item], between: int = LOOKED_AT_ONCE) -> Iterator[Item | PauseRow]:
    """Yields the items, with a PAUSE after each `between` of them: for items that are looked at and make no row."""
    for count, item in enumerate(items, 1):
        yield item
        if count % between == 0:
            yield PAUSE


def total(counts: Iterable[int]) -> Later[int]:
    """Returns the sum of numbers that may be too many for one slice."""

    def rows() -> Iterator[int | PauseRow]:
        found = 0
        for count in rested(counts):
            if count is PAUSE:
                yield PAUSE
            else:
                found += count
        yield found

    return Later(rows())


def in_order(
    names: Iterable[str], after: str | None = None, limit: int | None = None, match: str | None = None
) -> Iterator[str | PauseRow]:
    """Yields names in order, with PAUSEs: at most `limit` of those that come after `after` and that `match` matches."""
    all_of_them = [*names]
    runs = []
    for begin in range(0, len(all_of_them), LOOKED_AT_ONCE):
        run = all_of_them[begin : begin + LOOKED_AT_ONCE]
        if after is not None:
            run = [name for name in run if name > after]
        if match is not None:
            matching = []
            for name in _matching(run, match):
                if name is PAUSE:
                    yield PAUSE
                else:
                    matching.append(name)
            run = matching
        runs.append(sorted(run)[:limit])
        yield PAUSE
    yield from islice(heapq.merge(*runs), limit)


def _matching(names: Iterable[str], pattern: str) -> Iterator[str | PauseRow]:
    """Yields the names that the pattern matches, and a PAUSE after each MATCH_STEPS comparisons of two words: a name
    may have 128 words.
    """
    words, steps = pattern.count(".") + 1, 0
    for name in names:
        if matches(pattern, name):
            yield name
        steps += words * (name.count(".") + 1)
        if steps >= MATCH_STEPS:
            steps = 0
            yield PAUSE


# ---- making them ----------------------------------------------------------------------------------------------------


class Give(Protocol):
    """Takes the text of an answer. code: of the refusal, if it is one, else "". more: its further parts."""

    def __call__(self, body: bytes, code: str = "", more: tuple[bytes, ...] = ()) -> None: ...


@dataclass(slots=True, eq=False)
class AnswerQueue:
    """A connection's long answers that are not given yet, in order. is_aside: they wait until the connection reads."""

    turnstile: WaitList = field(default_factory=lambda: WaitList("answers", is_timed=False))
    answers: "deque[Making]" = field(default_factory=deque)
    is_aside: bool = False


@dataclass(slots=True, eq=False)
class Making:
    """One answer. queue: the queue that it goes to, if any. make: begins it, and may be called again; rendering: writes
    it; give: takes its text; refuse: takes the refusal instead. held_bytes: the memory of what it is made from, until
    it is given. wait: what it waits for. slices: how many were made since it was begun.
    """

    connection: Connection
    queue: Queue | None
    make: Callable[[], Made]
    rendering: Rendering
    give: Give
    refuse: Callable[[Refusal], None]
    held_bytes: int = 0
    rest: Iterator[str | AwaitedRow] | None = None
    wait: AwaitedRow | None = None
    text: BytesIO = field(default_factory=BytesIO)  # the last part; taking its bytes copies nothing
    parts: list[bytes] = field(default_factory=list)  # those before it
    before_bytes: int = 0  # the bytes of those parts
    slices: int = 0

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for it any more."""
        return self.connection.is_closing or (self.queue is not None and self.queue.is_gone)

    def make_more(self) -> bool:
        """Make one slice. Returns whether the answer has been given, or refused."""
        self.slices += 1
        text = self._part()
        begun = text.tell()
        try:
            if self.rest is None:
                self.rest = _steps(self.make(), self.rendering)
            for _ in range(ANSWER_ROWS):
                piece = next(self.rest, None)
                if piece is None:
                    first, *more = [*self.parts, text.getvalue()]
                    self.give(first, more=tuple(more))
                    return True
                if isinstance(piece, AwaitedRow):
                    self.wait = piece
                    return False
                text.write(piece.encode())
                if not piece or text.tell() - begun > ANSWER_SLICE_BYTES:
                    break
            if self.before_bytes + text.tell() > ANSWER_MAX_BYTES:
                raise Refusal("too-large", f"The answer passes {ANSWER_MAX_BYTES} bytes: ask for less at once.")
        except Refusal as refusal:
            self.refuse(refusal)
            return True
        connection = self.connection
        if connection.is_idle:
            connection.wake()
        connection.answer_bytes = self.before_bytes + text.tell()
        return False

    def _part(self) -> BytesIO:
        """Returns the buffer of the next slice. A message has one part, which grows in place: joining 60 MiB takes 36
        ms.
        """
        if self.queue is None and self.text.tell() >= ANSWER_PART_BYTES:
            self.parts.append(self.text.getvalue())
            self.before_bytes += len(self.parts[-1])
            self.text = BytesIO()
        return self.text

    def let_go(self) -> None:
        """Drops what was made: the answer begins anew."""
        self.rest = self.wait = None
        self.text = BytesIO()
        self.parts = []
        self.before_bytes = self.slices = 0
        self.connection.answer_bytes = 0


@dataclass(slots=True)
class Line:
    """At most ANSWERS_AT_ONCE answers that were begun and go on in turns, and those that wait for a place. An answer
    that needs more than `slices` goes on to the next line; if it has to wait there, it begins anew. away: how many of
    those that were begun wait for the disk.
    """

    slices: float
    next: "Line | None"
    waiting: deque[Making] = field(default_factory=deque)
    begun: deque[Making] = field(default_factory=deque)
    away: int = 0

    @property
    def has_place(self) -> bool:
        return len(self.begun) + self.away < ANSWERS_AT_ONCE


class Answers:
    """All answers that are being made or wait: a background task that makes one slice a turn. schedule: begins the
    task; unblocked: what may have room again since its waiters were last tried.
    """

    __slots__ = ("askers", "unblocked", "is_awake", "lines", "turn", "schedule")

    def __init__(self, schedule: Callable[["Answers"], None], unblocked: dict[Waitable, None]) -> None:
        self.schedule = schedule
        self.unblocked = unblocked
        self.is_awake = False
        self.askers: dict[Connection, AnswerQueue] = {}  # connections with an answer that was begun, or waits
        self.lines: list[Line] = []
        for slices in reversed(ANSWER_LINES):
            self.lines.insert(0, Line(slices, self.lines[0] if self.lines else None))
        self.turn = 0  # the index of the line whose turn it is

    def full(self, connection: Connection) -> WaitList | None:
        """Returns where the connection must wait before it may ask for more; None: it need not wait."""
        asker = self.askers.get(connection)
        return None if asker is None or len(asker.answers) < ANSWERS_WAITING_MAX else asker.turnstile

    def begin(self, making: Making) -> None:
        """Adds an answer, which is made when its turn comes."""
        connection = making.connection
        if connection.is_idle:
            connection.wake()
        connection.found_bytes += making.held_bytes
        asker = self.askers.get(connection)
        if asker is None:
            asker = self.askers[connection] = AnswerQueue()
        asker.answers.append(making)
        if len(asker.answers) == 1:
            self.queue_up(asker)

    def queue_up(self, asker: AnswerQueue) -> None:
        """Puts its next answer behind those of all other connections."""
        self.lines[0].waiting.append(asker.answers[0])
        self.go_on()

    def go_on(self) -> None:
        if not self.is_awake:
            self.is_awake = True
            self.schedule(self)

    def closed(self, connection: Connection) -> None:
        """Called when the connection is closed. Its answers are dropped now if they are aside, else when their turn
        comes.
        """
        asker = self.askers.get(connection)
        if asker is not None and asker.is_aside:
            del self.askers[connection]

    def outbox_drained(self, connection: Connection) -> None:
        """Called when the connection's outgoing buffer has drained."""
        asker = self.askers.get(connection)
        if asker is not None and asker.is_aside:
            asker.is_aside = False
            self.queue_up(asker)

    @property
    def is_done(self) -> bool:
        """Whether nothing can be made until an answer has what it waits for."""
        return not any(line.begun or (line.waiting and line.has_place) for line in self.lines)

    @property
    def can_go_on(self) -> bool:
        return not self.is_done

    def step(self) -> None:
        for _ in self.lines:
            line = self.lines[self.turn]
            self.turn = (self.turn + 1) % len(self.lines)
            self.fill(line)
            if line.begun:
                self.make(line.begun.popleft(), line)
                break
        self.is_awake = not self.is_done

    def fill(self, line: Line) -> None:
        """Fill the line's free places, passing over connections that do not read."""
        for _ in range(LOOKED_AT_ONCE):
            if not line.waiting or not line.has_place:
                break
            making = line.waiting.popleft()
            connection = making.connection
            if connection.is_closing or connection.takes_more:
                line.begun.append(making)
            else:
                self.askers[connection].is_aside = True

    def make(self, making: Making, line: Line) -> None:
        """Make one slice, and put the answer into the line where it goes on."""
        if making.is_over or making.make_more():
            self.end(making)
            return
        if making.wait is not None:
            line.away += 1
            making.wait.then = partial(self.waited, making, line)
            return
        if making.slices >= line.slices:
            assert line.next is not None
            line = line.next
            if line.waiting or not line.has_place:
                making.let_go()
                line.waiting.append(making)
                return
        line.begun.append(making)

    def waited(self, making: Making, line: Line) -> None:
        """Called when an answer has what it waited for."""
        line.away -= 1
        making.wait = None
        line.begun.append(making)
        self.go_on()

    def end(self, making: Making) -> None:
        """Removes an answer that is over, and puts the connection's next one behind those of all other connections."""
        connection = making.connection
        asker = self.askers[connection]
        connection.answer_bytes = 0
        connection.found_bytes -= making.held_bytes
        asker.answers.popleft()
        if asker.answers:
            self.queue_up(asker)
        else:
            del self.askers[connection]
        if asker.turnstile.waiters:
            self.unblocked[asker.turnstile] = None
