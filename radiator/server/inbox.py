"""Events that wait for the broker's next turn.

The commands of one client keep their order; clients take turns, COMMANDS_AT_ONCE each (the hub reads each socket once
between two turns): so a consumer's ACK does not wait for everything that producers sent. Nor does it if commands fill a
turn before all are carried out: the clients that sent them wait, and the others go on. All channels of an AMQP client
share its turn: four clients with 2,047 channels, each of which had a turn of its own, kept others waiting for two
seconds. The whole is bounded by INBOX_MAX_BYTES: readers must stop while `is_full`. The server's own reports
(Committed, Loaded, Written, Tick) are always taken, and go before clients' commands. However much arrives, the
dispatcher is woken once.
"""

from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice

from radiator.model.commands import Closed, Event, Open, Read, Stop
from radiator.model.limits import COMMANDS_AT_ONCE, COMMANDS_PER_TURN, INBOX_MAX_BYTES, READS_PER_TURN

_NOBODY: Mapping[int, int] = {}


class Inbox:
    """Used on the hub only. summon: makes the next turn happen soon; called once for each `take`."""

    def __init__(self) -> None:
        self.summon: Callable[[], object] = lambda: None
        self._is_awake = False
        self._reports: list[Event] = []
        # events that the next turn takes whole: if none is left from an earlier turn, and they are not too many
        self._fresh: list[Open | Read | Closed] = []
        self._fresh_sizes: list[int] = []
        self._fresh_clients: list[int] = []
        self._fresh_commands = 0
        # all others, by client (the number of its connection), with their sizes; the first client is next
        self._queued: dict[int, deque[tuple[Open | Read | Closed, int]]] = {}
        self._stop: Stop | None = None
        self._bytes = 0
        self._when_not_full: list[Callable[[], None]] = []
        self._when_taken: dict[int, Callable[[], None]] = {}

    @property
    def size_bytes(self) -> int:
        """The bytes that were read for the waiting events."""
        return self._bytes

    @property
    def is_full(self) -> bool:
        """Whether readers must wait."""
        return self._bytes >= INBOX_MAX_BYTES

    def when_not_full(self, call: Callable[[], None]) -> None:
        """Has `call` called once, when the inbox has room again."""
        self._when_not_full.append(call)

    def when_taken(self, client: int, call: Callable[[], None]) -> None:
        """Has `call` called once, when all commands of this client have been taken. Only for one that has put more than
        COMMANDS_AT_ONCE at once: at once if they are few enough for the next turn to take them whole.
        """
        if client in self._queued:
            self._when_taken[client] = call
        else:
            call()

    def put(self, event: Open | Read | Closed, size: int = 0, client: int = 0) -> None:
        """Adds a client's event. size: bytes that were read for it. client: of a channel, the number of the connection
        whose turn it shares; 0: the event's own.
        """
        commands = len(event.commands) if type(event) is Read else 0
        if (
            not self._queued
            and commands <= COMMANDS_AT_ONCE
            and self._fresh_commands + commands <= COMMANDS_PER_TURN
            and len(self._fresh) < READS_PER_TURN
        ):
            self._fresh.append(event)
            self._fresh_sizes.append(size)
            self._fresh_clients.append(client or event.connection)
            self._fresh_commands += commands
        else:
            client = client or event.connection
            queued = self._queued.get(client)
            if queued is None:
                queued = self._queued[client] = deque()
            queued.append((event, size))
        self._bytes += size
        if not self._is_awake:
            self.wake()

    def stop(self, at_once: bool = False) -> None:
        """Puts the last event: after everything that was put or, at_once, instead of what was not taken yet."""
        if at_once:
            self._queued.clear()
            self._fresh, self._fresh_sizes, self._fresh_clients = [], [], []
            self._fresh_commands = self._bytes = 0
        self._stop = Stop(at_once)
        self.wake()

    def report(self, event: Event, at_once: bool = True) -> None:
        """Adds a report of the server's own. at_once: False leaves it to whatever turn comes next."""
        self._reports.append(event)
        if at_once:
            self.wake()

    def wake(self) -> None:
        """Asks for a turn, even without an event."""
        if not self._is_awake:
            self._is_awake = True
            self.summon()

    def take(self, behind: Mapping[int, int] = _NOBODY) -> list[Event]:
        """Returns the events of the next turn: every report, and as many client commands as a turn may have. behind:
        how many commands of each connection the broker took in earlier turns and has not finished. They count towards
        this turn, and what else these connections sent stays here, where clients take turns and a bound holds.
        """
        self._is_awake = False
        events, self._reports = self._reports, []
        if behind:
            self._queue_fresh()
        left = COMMANDS_PER_TURN - self._fresh_commands - sum(behind.values())
        reads_left = READS_PER_TURN - len(self._fresh)
        if self._fresh:
            events += self._fresh
            self._bytes -= sum(self._fresh_sizes)
            self._fresh, self._fresh_sizes, self._fresh_clients = [], [], []
            self._fresh_commands = 0
        if self._queued:
            least = COMMANDS_AT_ONCE if behind else 1
            going_on = (one for one, queued in self._queued.items() if queued[0][0].connection not in behind)
            for client in list(islice(going_on, reads_left)):
                if left < least:
                    break
                left -= self._take_from(client, events, behind)
        if self._stop is not None and not self._queued and (self._stop.at_once or not behind):
            events.append(self._stop)
            self._stop = None
        if self._when_not_full and not self.is_full:
            waiting, self._when_not_full = self._when_not_full, []
            for call in waiting:
                call()
        return events

    def _queue_fresh(self) -> None:
        """Queues by client what was to be taken whole, before what is queued there already."""
        queued: dict[int, deque[tuple[Open | Read | Closed, int]]] = {}
        for event, size, client in zip(self._fresh, self._fresh_sizes, self._fresh_clients, strict=True):
            queued.setdefault(client, deque()).append((event, size))
        for client, events in self._queued.items():
            queued.setdefault(client, deque()).extend(events)
        self._queued = queued
        self._fresh, self._fresh_sizes, self._fresh_clients = [], [], []
        self._fresh_commands = 0

    def _take_from(self, client: int, events: list[Event], behind: Mapping[int, int]) -> int:
        """Takes up to COMMANDS_AT_ONCE commands of a client, which goes last if more are left. Returns how many: what
        opens or ends a channel counts as one.
        """
        queued = self._queued.pop(client)
        taken = 0
        while queued and taken < COMMANDS_AT_ONCE:
            event, size = queued[0]
            if event.connection in behind:
                break
            commands = event.commands if isinstance(event, Read) else []
            left = COMMANDS_AT_ONCE - taken
            if isinstance(event, Read) and len(commands) > left:
                events.append(Read(event.connection, commands[:left], event.buffered_bytes))
                queued[0] = (Read(event.connection, commands[left:], event.buffered_bytes), size)
                taken += left
            else:
                queued.popleft()
                events.append(event)
                self._bytes -= size
                taken += len(commands) if isinstance(event, Read) else 1
        if queued:
            self._queued[client] = queued
        elif client in self._when_taken:
            self._when_taken.pop(client)()
        return taken

    @property
    def has_more(self) -> bool:
        """Whether there is more than the last turn could take."""
        return bool(self._queued or self._fresh) or self._stop is not None
