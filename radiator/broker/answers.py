"""Answers that may be long: made row by row, one slice of them in a turn, whoever asks for however many.

A row is of one moment; two rows may be of different turns. ANSWERS_AT_ONCE are made at once, of each connection one at
a time; others wait, and beyond ANSWERS_WAITING_MAX of one connection it waits itself: nothing more is read from it. An
answer is begun only where its asker reads what it is sent, and dropped once the asker has gone.
"""

import heapq
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from itertools import islice
from typing import Any

from radiator.broker.consumers import Connection
from radiator.broker.intake import Resource, Room
from radiator.broker.kinds.queue import Queue
from radiator.errors import Refusal
from radiator.limits import (
    ANSWER_MAX_BYTES,
    ANSWER_ROWS,
    ANSWER_SLICE_BYTES,
    ANSWERS_AT_ONCE,
    ANSWERS_WAITING_MAX,
    LOOKED_AT_ONCE,
)

Answer = dict[str, Any]
Told = Answer | Iterator[Any]  # an iterator: PAUSEs and Waits, and then the Answer
PAUSE = object()  # in place of a row: enough was looked at for one slice, and the next goes on here


@dataclass(slots=True, eq=False)
class Wait:
    """In place of a row: the answer goes on when `end` was called. found: what it was called with."""

    found: Any = None
    then: Callable[[], None] | None = None

    def end(self, found: Any) -> None:
        self.found = found
        if self.then is not None:
            self.then()


_text = json.JSONEncoder().encode  # what json.dumps is, without looking at its arguments each time


@dataclass(slots=True)
class Part:
    """A value of an answer that is made row by row. brackets: "[]" for a list; "{}" for an object, whose rows are
    pairs of name and value; "" for one value, which is the last row.
    """

    rows: Iterator[Any]
    brackets: str = "[]"

    def pieces(self) -> Iterator[str]:
        """Its JSON; "" where a slice ends."""
        if not self.brackets:
            value: Any = None
            for row in self.rows:
                if row is PAUSE:
                    yield ""
                else:
                    value = row
            yield _text(value)
            return
        between, closing = self.brackets[0], self.brackets[1]
        for row in self.rows:
            if row is PAUSE:
                yield ""
                continue
            if closing == "}":
                name, row = row
                between += _text(name) + ": "
            if type(row) is Nested:
                yield between
                yield from pieces(row)
            else:
                yield between + _text(row)
            between = ", "
        yield closing if between == ", " else self.brackets


class Nested(Answer):
    """A row that has Parts itself."""


def whole(told: Told) -> Iterator[Any]:
    """The JSON of an answer that is there, or comes after PAUSEs and Waits."""
    if not isinstance(told, dict):
        for row in told:
            if row is PAUSE:
                yield ""
            elif isinstance(row, Wait):
                yield row
            else:
                yield from pieces({"ok": True, **row})
        return
    yield from pieces({"ok": True, **told})


def pieces(answer: Answer) -> Iterator[str]:
    """The JSON of an answer, some of whose values are Parts."""
    between = "{"
    for name, value in answer.items():
        yield f"{between}{_text(name)}: "
        between = ", "
        if isinstance(value, Part):
            yield from value.pieces()
        else:
            yield _text(value)
    yield "}"


# ---- rows -----------------------------------------------------------------------------------------------------------


def rested(items: Iterable[Any], between: int = LOOKED_AT_ONCE) -> Iterator[Any]:
    """The same, with a PAUSE after so many: for what is looked at and makes no row."""
    for count, item in enumerate(items, 1):
        yield item
        if count % between == 0:
            yield PAUSE


def total(counts: Iterable[int]) -> Part:
    """The sum of so many numbers that it takes several slices."""

    def rows() -> Iterator[Any]:
        found = 0
        for count in rested(counts):
            if count is PAUSE:
                yield PAUSE
            else:
                found += count
        yield found

    return Part(rows(), "")


def in_order(names: Iterable[str], after: str | None = None, limit: int | None = None) -> Iterator[Any]:
    """Names in their order; of those that come after one of them, at most so many."""
    all_of_them = [*names]
    runs = []
    for begin in range(0, len(all_of_them), LOOKED_AT_ONCE):
        run = all_of_them[begin : begin + LOOKED_AT_ONCE]
        runs.append(sorted(run if after is None else [name for name in run if name > after])[:limit])
        yield PAUSE
    yield from islice(heapq.merge(*runs), limit)


# ---- making them ----------------------------------------------------------------------------------------------------


class Turnstile(Room):
    """Where a connection waits that has asked for too much. It needs no room, so it is not refused for waiting long."""


@dataclass(slots=True, eq=False)
class Asker:
    """A connection's long answers that were not given yet, in order. is_aside: it does not read what it is sent."""

    turnstile: Turnstile = field(default_factory=lambda: Turnstile("answers"))
    answers: "deque[Making]" = field(default_factory=deque)
    is_aside: bool = False


@dataclass(slots=True, eq=False)
class Making:
    """One answer. tell: makes it, once it is begun; give: gets its text; refuse: what is said instead. wait: what it
    waits for.
    """

    connection: Connection
    queue: Queue
    tell: Callable[[], Told]
    give: Callable[[bytes], None]
    refuse: Callable[[Refusal], None]
    rest: Iterator[Any] | None = None
    wait: Wait | None = None
    text: BytesIO = field(default_factory=BytesIO)  # whose bytes need no copy in the end

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for it any more."""
        return self.connection.is_closing or self.queue.is_gone

    def make_more(self) -> bool:
        """A slice of it. Whether it has been given, or refused."""
        text = self.text
        begun = text.tell()
        try:
            if self.rest is None:
                self.rest = whole(self.tell())
            for _ in range(ANSWER_ROWS):
                piece = next(self.rest, None)
                if piece is None:
                    self.give(text.getvalue())
                    return True
                if isinstance(piece, Wait):
                    self.wait = piece
                    return False
                text.write(piece.encode())
                if not piece or text.tell() - begun > ANSWER_SLICE_BYTES:
                    break
            if text.tell() > ANSWER_MAX_BYTES:
                raise Refusal("too-large", f"The answer passes {ANSWER_MAX_BYTES} bytes: ask for less at once.")
        except Refusal as refusal:
            self.refuse(refusal)
            return True
        self.connection.answer_bytes = text.tell()
        return False


class Answers:
    """All that are made, or wait to be: a chore, of one slice in a turn. wake: has it done; freed: rooms whose waiters
    are to be tried again. waiting: how many have been begun and wait for the disk.
    """

    __slots__ = ("freed", "is_awake", "line", "under_way", "waiting", "wake")

    def __init__(self, wake: Callable[["Answers"], None], freed: dict[Resource, None]) -> None:
        self.wake = wake
        self.freed = freed
        self.is_awake = False
        self.line: deque[Connection] = deque()  # whose next may begin
        self.under_way: deque[Making] = deque()
        self.waiting = 0

    def full(self, connection: Connection) -> Turnstile | None:
        """Where the connection must wait before it asks for more."""
        asker = connection.asker
        return None if asker is None or len(asker.answers) < ANSWERS_WAITING_MAX else asker.turnstile

    def begin(self, making: Making) -> None:
        """It is made when its turn comes."""
        connection = making.connection
        asker = connection.asker
        if asker is None:
            asker = connection.asker = Asker()
        asker.answers.append(making)
        if len(asker.answers) == 1:
            self.queue_up(connection)

    def queue_up(self, connection: Connection) -> None:
        self.line.append(connection)
        self.go_on()

    def go_on(self) -> None:
        if not self.is_awake:
            self.is_awake = True
            self.wake(self)

    def has_room(self, connection: Connection) -> None:
        """Its outgoing buffer has."""
        asker = connection.asker
        if asker is not None and asker.is_aside:
            asker.is_aside = False
            self.queue_up(connection)

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to do, or only once one that waits has what it waits for."""
        return not self.under_way and (not self.line or self.waiting >= ANSWERS_AT_ONCE)

    @property
    def can_go_on(self) -> bool:
        return not self.is_done

    def step(self) -> None:
        for _ in range(LOOKED_AT_ONCE):
            if not self.line or len(self.under_way) + self.waiting >= ANSWERS_AT_ONCE:
                break
            self.start(self.line.popleft())
        if self.under_way:
            making = self.under_way.popleft()
            if making.is_over or making.make_more():
                self.end(making)
            elif making.wait is not None:
                self.waiting += 1
                making.wait.then = partial(self.waited, making)
            else:
                self.under_way.append(making)
        self.is_awake = not self.is_done

    def waited(self, making: Making) -> None:
        """It has what it waited for."""
        self.waiting -= 1
        making.wait = None
        self.under_way.append(making)
        self.go_on()

    def start(self, connection: Connection) -> None:
        """The next of that connection, if it reads what it is sent."""
        asker = connection.asker
        assert asker is not None
        if connection.is_closing or connection.takes_more:
            self.under_way.append(asker.answers[0])
        else:
            asker.is_aside = True

    def end(self, making: Making) -> None:
        """It is over: the next of the same connection, behind all others."""
        connection = making.connection
        asker = connection.asker
        assert asker is not None
        connection.answer_bytes = 0
        asker.answers.popleft()
        if asker.answers:
            self.queue_up(connection)
        if asker.turnstile.waiters:
            self.freed[asker.turnstile] = None
