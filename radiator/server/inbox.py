"""What has happened and waits for the next turn of the broker.

What one client says keeps its order; between clients it goes round, COMMANDS_AT_ONCE each (the hub reads each socket
once between two turns): a consumer's ACK does not wait behind all that the producers poured in. The whole is bounded by
INBOX_MAX_BYTES: `is_full` is for the readers to obey. Reports of our own (Committed, Loaded, Written, Tick) are always
taken, and go before what clients say. However much comes, the dispatcher is woken once.
"""

from collections import deque
from collections.abc import Callable
from itertools import islice

from radiator.model.commands import Closed, Event, Open, Read, Stop
from radiator.model.limits import COMMANDS_AT_ONCE, COMMANDS_PER_TURN, INBOX_MAX_BYTES, READS_PER_TURN


class Inbox:
    """Used on the hub only. summon: makes the next turn happen soon; called once for each `take`."""

    def __init__(self) -> None:
        self.summon: Callable[[], object] = lambda: None
        self._is_awake = False
        self._reports: list[Event] = []
        # what the next turn takes whole: while nothing waits from an earlier turn, and it is not too much
        self._fresh: list[Event] = []
        self._fresh_commands = 0
        self._fresh_bytes = 0
        # all else, of each connection, with its bytes; the first connection is the next
        self._queued: dict[int, deque[tuple[Event, int]]] = {}
        self._stop: Stop | None = None
        self._bytes = 0
        self._when_not_full: list[Callable[[], None]] = []
        self._when_taken: dict[int, Callable[[], None]] = {}

    @property
    def is_full(self) -> bool:
        """Whether readers must wait."""
        return self._bytes >= INBOX_MAX_BYTES

    def when_not_full(self, call: Callable[[], None]) -> None:
        """Calls it once, when the inbox is not full any more."""
        self._when_not_full.append(call)

    def when_taken(self, connection: int, call: Callable[[], None]) -> None:
        """Calls it once, when all that this connection has said was taken. It is asked
        only after more than COMMANDS_AT_ONCE at once: that always waits."""
        assert connection in self._queued
        self._when_taken[connection] = call

    def put(self, event: Open | Read | Closed, size: int = 0) -> None:
        """What a client did. size: bytes that were read for it."""
        commands = len(event.commands) if type(event) is Read else 0
        if (
            not self._queued
            and commands <= COMMANDS_AT_ONCE
            and self._fresh_commands + commands <= COMMANDS_PER_TURN
            and len(self._fresh) < READS_PER_TURN
        ):
            self._fresh.append(event)
            self._fresh_commands += commands
            self._fresh_bytes += size
        else:
            queued = self._queued.get(event.connection)
            if queued is None:
                queued = self._queued[event.connection] = deque()
            queued.append((event, size))
        self._bytes += size
        if not self._is_awake:
            self.wake()

    def stop(self, at_once: bool = False) -> None:
        """The last event: after everything that was said, or instead of what was not taken yet."""
        if at_once:
            self._queued.clear()
            self._fresh = []
            self._fresh_commands = self._fresh_bytes = self._bytes = 0
        self._stop = Stop(at_once)
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

    def take(self, is_behind: bool = False) -> list[Event]:
        """The events of the next turn: every report, and of what clients said as much as a turn may have. is_behind:
        the broker has not done all of the last turn's, so clients wait here, where they have turns and a bound.
        """
        self._is_awake = False
        events, self._reports = self._reports, []
        if is_behind:
            if self._stop is not None and self._stop.at_once:
                events.append(self._stop)
                self._stop = None
            return events
        left = COMMANDS_PER_TURN - self._fresh_commands
        reads_left = READS_PER_TURN - len(self._fresh)
        if self._fresh:
            events += self._fresh
            self._fresh = []
            self._bytes -= self._fresh_bytes
            self._fresh_commands = self._fresh_bytes = 0
        if self._queued:
            for connection in list(islice(self._queued, reads_left)):
                if left <= 0:
                    break
                left -= self._take_from(connection, events)
        if self._stop is not None and not self._queued:
            events.append(self._stop)
            self._stop = None
        if self._when_not_full and not self.is_full:
            waiting, self._when_not_full = self._when_not_full, []
            for call in waiting:
                call()
        return events

    def _take_from(self, connection: int, events: list[Event]) -> int:
        """Up to COMMANDS_AT_ONCE of what it said; it goes behind the others if there is more. How many commands."""
        queued = self._queued.pop(connection)
        taken = 0
        while queued and taken < COMMANDS_AT_ONCE:
            event, size = queued[0]
            commands = event.commands if isinstance(event, Read) else []
            left = COMMANDS_AT_ONCE - taken
            if isinstance(event, Read) and len(commands) > left:
                events.append(Read(connection, commands[:left], event.buffered_bytes))
                queued[0] = (Read(connection, commands[left:], event.buffered_bytes), size)
                taken += left
            else:
                queued.popleft()
                events.append(event)
                self._bytes -= size
                taken += len(commands)
        if queued:
            self._queued[connection] = queued
        elif connection in self._when_taken:
            self._when_taken.pop(connection)()
        return taken

    @property
    def has_more(self) -> bool:
        """Whether there is more than the last turn could take."""
        return bool(self._queued or self._fresh) or self._stop is not None
