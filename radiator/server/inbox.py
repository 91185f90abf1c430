"""The door of the broker: what has happened and was not told yet, in order.

What clients say is bounded by INBOX_MAX_BYTES: `is_full` is for their readers to obey, and `has_room` is called once
they may go on. Reports of our own (Committed, Loaded, Written, Tick) are always taken, and go before what clients say.
However much comes, the dispatcher is woken once.
"""

from collections import deque
from collections.abc import Callable

from radiator.commands import Closed, Event, Open, Read, Stop
from radiator.limits import INBOX_MAX_BYTES, READS_PER_TURN


class Inbox:
    """Used on the hub only. summon: makes the next turn happen soon; called once for each `take`."""

    def __init__(self) -> None:
        self.summon: Callable[[], object] = lambda: None
        self._is_awake = False
        self._reports: list[Event] = []
        self._said: deque[tuple[Event, int]] = deque()
        self._bytes = 0
        self._waiting: list[Callable[[], None]] = []

    @property
    def is_full(self) -> bool:
        """Whether readers must wait."""
        return self._bytes >= INBOX_MAX_BYTES

    def when_room(self, has_room: Callable[[], None]) -> None:
        """Calls it once, when the inbox is not full any more."""
        self._waiting.append(has_room)

    def say(self, event: Open | Read | Closed | Stop, size: int = 0) -> None:
        """What a client did, or the operator: these keep their order. size: bytes that were read for it."""
        self._said.append((event, size))
        self._bytes += size
        self.wake()

    def report(self, event: Event, at_once: bool = True) -> None:
        """What we have done for the broker. Not at_once: with whatever turn comes next."""
        self._reports.append(event)
        if at_once:
            self.wake()

    def wake(self) -> None:
        """There shall be a turn, even without an event."""
        if not self._is_awake:
            self._is_awake = True
            self.summon()

    def take(self) -> list[Event]:
        """The events of the next turn: every report, and as many Reads as a turn may have."""
        self._is_awake = False
        events, self._reports = self._reports, []
        said = self._said
        for _ in range(min(len(said), READS_PER_TURN)):
            event, size = said.popleft()
            events.append(event)
            self._bytes -= size
        if self._waiting and not self.is_full:
            waiting, self._waiting = self._waiting, []
            for has_room in waiting:
                has_room()
        return events

    @property
    def has_more(self) -> bool:
        """Whether clients said more than the last turn could take."""
        return bool(self._said)
