"""Searches of the journal for `explain`: one slice of one of them is read at a time, and they take turns. Other reads
go between two slices.

A search sees the journal as it was when all that had been decided before it began was on the disk; events that come
later do not make it longer.
"""

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from radiator.core.logs.log import Log
from radiator.core.queues.windows import Windows
from radiator.core.turn import TurnContext
from radiator.model.errors import Refusal
from radiator.model.journal import JournalEvent
from radiator.model.limits import SEARCH_WORK, SEARCHES_AT_ONCE
from radiator.model.reads import LoadedEvents, ReadEvents


@dataclass(slots=True)
class Wanted:
    """The events that are looked for: of messages, by their positions, or of a trace, or of a correlation-id."""

    positions: frozenset[int] = frozenset()
    trace_id: str = ""
    correlation_id: str = ""


class Seeker(Protocol):
    """The client for whom the journal is searched."""

    @property
    def is_gone(self) -> bool:
        """Whether nobody waits for it any more: then nothing but `ended` is called."""

    def next_wanted(self) -> Wanted | None:
        """Returns what to look for next, from the journal's beginning on. None: it has all that it needs."""

    def take(self, events: list[tuple[int, JournalEvent]]) -> bool:
        """Takes what was found, with its offsets, in order. Returns whether more of it is of use."""

    def ended(self) -> None:
        """Called when the search is over."""


@dataclass(slots=True, eq=False)
class JournalSearch:
    """at: the next offset to look at; end: the first one that is not."""

    seeker: Seeker
    log: Log
    wanted: Wanted | None = None
    at: int = 0
    end: int = 0


class Searches:
    """count: of all that were begun and are not over. waiting: those whose next slice is to be read, the next one
    first.
    """

    __slots__ = ("context", "count", "is_reading", "waiting", "windows")

    def __init__(self, context: TurnContext, windows: Windows) -> None:
        self.context = context
        self.windows = windows
        self.count = 0
        self.waiting: deque[JournalSearch] = deque()
        self.is_reading = False

    def begin(self, log: Log, seeker: Seeker) -> None:
        """Begins a search, once all that was decided up to now is on the disk. Raises Refusal."""
        if self.count >= SEARCHES_AT_ONCE:
            raise Refusal(
                "blocked",
                f"{SEARCHES_AT_ONCE} searches of the journal are running, which is the limit: try again later.",
            )
        self.count += 1
        self.context.open.then.append(partial(self.synced, JournalSearch(seeker, log)))

    def synced(self, search: JournalSearch) -> None:
        """Called when all that it is to see is on the disk."""
        search.end = search.log.partitions[0].committed
        self.look_for_next(search)

    def look_for_next(self, search: JournalSearch) -> None:
        """Begins anew, with what is wanted next; retention may have moved the beginning."""
        search.wanted = None if search.seeker.is_gone else search.seeker.next_wanted()
        search.at = search.log.partitions[0].first
        if search.wanted is None:
            self.over(search)
            return
        self.waiting.append(search)
        self.go_on()

    def over(self, search: JournalSearch) -> None:
        self.count -= 1
        search.seeker.ended()

    def go_on(self) -> None:
        """Has the next slice read, if none is being read."""
        while self.waiting and not self.is_reading:
            search = self.waiting.popleft()
            if search.seeker.is_gone:
                self.over(search)
            else:
                self.ask(search)

    def ask(self, search: JournalSearch) -> None:
        wanted = search.wanted
        assert wanted is not None, "a search that is over does not wait"
        self.is_reading = True
        request, number = self.context.next_position(), search.log.number
        self.windows.waiting[request] = partial(self.read, search)
        self.context.turn.read_requests.append(
            ReadEvents(
                request,
                number,
                search.at,
                search.end,
                wanted.positions,
                wanted.trace_id,
                SEARCH_WORK,
                wanted.correlation_id,
            )
        )

    def read(self, search: JournalSearch, answer: LoadedEvents) -> None:
        """Called when a slice was read."""
        self.is_reading = False
        search.at = answer.next
        if not search.seeker.is_gone and search.seeker.take(answer.events) and search.at < search.end:
            self.waiting.append(search)
        else:
            self.look_for_next(search)
        self.go_on()
