"""A deterministic simulation: nodes, their disks, the network, the clock and the clients, all on one seeded scheduler.

One seed is one run, to the last word: nothing here asks the real clock or the real dice. Nodes have names and clients
say which one they talk to, so that several nodes share a run; cable.py links them. The clients' books are in books.py.
"""

import hashlib
import heapq
from collections.abc import Callable
from math import inf
from random import Random
from typing import Protocol

from radiator.core.authorization import Authorizer
from radiator.core.broker import Broker
from radiator.core.parts import Machine
from radiator.core.turn import Batch, Note
from radiator.model.commands import Closed, Command, Committed, Event, Open, Read, Stop, Tick, Written
from radiator.model.leases import Leased
from radiator.model.limits import GIB, Limits
from radiator.model.principal import ANYONE, Principal
from radiator.model.reads import ReadRequest
from radiator.model.replies import Bye, Deliver, Pause, Refuse, Reply, Resume, Scope, SendToPeer
from radiator.model.settings import Declarations, Node
from radiator.storage.contract import answer
from tests.core.words import as_read
from tests.sim.disk import Platter, SimDisk
from tests.sim.weights import idle_hold_nothing

STEPS_OF_A_MOMENT_MAX = 10_000
EPOCH_MS = 1_700_000_000_000


class Spins(Exception):
    """Somebody is busy without getting anywhere."""


class Scheduler:
    """What happens, and when. `trace` becomes the same hash for the same seed; is_traced False saves that time."""

    def __init__(self, seed: int, is_traced: bool = True) -> None:
        self.random = Random(seed)
        self.is_traced = is_traced
        self.now_s = 0.0
        self.steps = 0
        self._count = 0
        self._waiting: list[tuple[float, int, Callable[[], None]]] = []
        self._trace = hashlib.sha256()

    def at(self, moment_s: float, what: Callable[[], None]) -> None:
        """Things of one moment happen in the order in which they were said."""
        self._count += 1
        heapq.heappush(self._waiting, (moment_s, self._count, what))

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        self.at(self.now_s + seconds, what)

    def soon(self, mean_s: float, what: Callable[[], None]) -> None:
        """After a random time."""
        self.after(self.random.expovariate(1 / mean_s), what)

    def trace(self, *words: object) -> None:
        if self.is_traced:
            self._trace.update(repr((self.now_s, words)).encode())

    @property
    def hash(self) -> str:
        return self._trace.hexdigest()

    def run(self, until_s: float) -> None:
        """Raises Spins where something goes on and on while no time passes."""
        in_this_moment = 0
        while self._waiting and self._waiting[0][0] <= until_s:
            moment_s, _, what = heapq.heappop(self._waiting)
            in_this_moment = in_this_moment + 1 if moment_s == self.now_s else 0
            if in_this_moment > STEPS_OF_A_MOMENT_MAX:
                raise Spins(f"{in_this_moment} steps at {moment_s} s without an end")
            self.now_s = moment_s
            self.steps += 1
            what()
        self.now_s = until_s


class Line(Protocol):
    """What a node holds of one connection, whoever is at its other end. has_channels: as of a Session: it is given each
    reply, and ends by itself.
    """

    number: int
    has_channels: bool

    def reply(self, reply: Reply) -> None:
        """From this node to the other end."""

    def cut(self) -> None:
        """This node has closed it, or has lost its power."""


class Link:
    """One connection between a client and a node: words arrive in order, late, or never once it is cut."""

    has_channels = False

    def __init__(
        self, scheduler: Scheduler, node: "SimNode", number: int, hear: Callable[[Reply | None], None]
    ) -> None:
        self.scheduler = scheduler
        self.node = node
        self.number = number
        self.hear = hear
        self.is_cut = False
        self.latest_s = [0.0, 0.0]

    def carry(self, direction: int, what: Callable[[], None]) -> None:
        at_s = max(self.latest_s[direction], self.scheduler.now_s + self.scheduler.random.expovariate(1 / 0.002))
        self.latest_s[direction] = at_s
        self.scheduler.at(at_s, lambda: None if self.is_cut else what())

    def say(self, *commands: Command) -> None:
        """From the client to the node."""
        self.carry(0, lambda: self.node.read(self, [*commands]))

    def reply(self, reply: Reply) -> None:
        """From the node to the client."""
        self.carry(1, lambda: self.hear(reply))

    def cut(self, found_out_s: float = 0.01) -> None:
        """Both sides find out, each in its own time; what is on its way is lost."""
        if not self.is_cut:
            self.is_cut = True
            self.scheduler.soon(found_out_s, lambda: self.node.lost(self))
            self.scheduler.soon(found_out_s, lambda: self.hear(None))


class SimNode:
    """The shell around one broker: inbox, commits and loads that take their time, and crashes.

    commit_s, load_s, write_s: what each takes, in the mean. stall_share: of commits that take a hundred times as long.
    load_fails_share: of loads that end the broker, as a read error does. on_commit: called with what the disk now has.
    on_turn: called before each turn. settings: what it knows of other nodes. clock_s: what its monotonic clock showed
    when the run began. authorizer: None: there are no users.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        name: str,
        declarations: Declarations,
        limits: Limits,
        settings: Node | None = None,
        platter: Platter | None = None,
        clock_s: float = 0.0,
        authorizer: Authorizer | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.name = name
        self.authorizer = authorizer
        self.declarations = declarations
        self.limits = limits
        self.settings = settings
        self.platter = Platter() if platter is None else platter
        self.connections = 0
        self.is_up = False
        self.boots = 0
        self.commit_s = 0.003
        self.load_s = 0.002
        self.write_s = 0.001
        self.stall_share = 0.0
        self.load_fails_share = 0.0
        self.wall_ahead_ms = 0
        self.clock_s = clock_s
        self.on_deliver: Callable[[Deliver], None] = lambda deliver: None
        self.on_leased: Callable[[Leased], None] = lambda leased: None
        self.on_commit: Callable[[Batch], None] = lambda batch: None
        self.on_note: Callable[[Note], None] = lambda note: None
        self.on_turn: Callable[[], None] = lambda: None
        self.start()

    # ---- up and down ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.boots += 1
        self.disk = SimDisk(self.platter, self.declarations.has_journal)
        self.platter = self.disk.platter
        self.links: dict[int, Line] = {}
        self.delivers: dict[int, int] = {}
        self.taken: dict[int, int] = {}
        self.paused: dict[int, list[list[Command]]] = {}
        self.closes_at: dict[int, Scope] = {}
        self.being_committed: Batch | None = None
        self.is_on_the_disk = False  # though the broker has not been told
        self.wake_at_s = inf
        self.is_up = True
        self.is_stopping = False
        self.broker = Broker(
            self.declarations,
            self.limits,
            self.disk.recovery,
            Machine(
                map_size=GIB,
                disk_free_min=0,
                entropy=self.scheduler.random.randbytes,
                version="sim",
                now_s=self.now_s,
                now_ms=self.now_ms,
            ),
            self.settings,
            self.authorizer,
        )
        self.scheduler.trace(self.name, "start", self.boots)
        self.turn()
        self._at_this_boot(0.25, self.tick)

    def crash(self) -> None:
        """The power goes. What was on its way to the disk may have reached it."""
        self.scheduler.trace(self.name, "crash")
        if self.being_committed is not None and not self.is_on_the_disk and self.scheduler.random.random() < 0.5:
            self.disk.commit(self.being_committed.writes)
            self.on_commit(self.being_committed)
        self.down()

    def stop(self) -> None:
        """SIGTERM."""
        self.scheduler.trace(self.name, "stop")
        self.is_stopping = True
        self.turn(Stop())

    def down(self) -> None:
        self.is_up = False
        self.platter = self.disk.platter.copy()
        for link in self.links.values():
            link.cut()
        self.links = {}
        self.scheduler.soon(0.05, self.start)

    @property
    def now_s(self) -> float:
        return self.clock_s + self.scheduler.now_s

    @property
    def now_ms(self) -> int:
        return EPOCH_MS + self.wall_ahead_ms + int(self.scheduler.now_s * 1000)

    def set_clock(self, ahead_ms: int) -> None:
        """Somebody, or NTP, sets the wall clock."""
        self.scheduler.trace(self.name, "clock", ahead_ms)
        self.wall_ahead_ms = ahead_ms

    def _at_this_boot(self, seconds: float, what: Callable[[], None]) -> None:
        boot = self.boots
        self.scheduler.after(seconds, lambda: what() if self.is_up and self.boots == boot else None)

    # ---- connections ------------------------------------------------------------------------------------------------

    def connect(
        self,
        hear: Callable[[Reply | None], None],
        principal: Principal = ANYONE,
        closes_at: Scope = Scope.COMMAND,
    ) -> Link | None:
        """None: it takes none now. closes_at: as of Open."""
        if not self.takes_connections:
            return None
        link = Link(self.scheduler, self, self.next_number(), hear)
        self.attach(link, Open(link.number, principal=principal, closes_at=closes_at))
        return link

    @property
    def takes_connections(self) -> bool:
        return self.is_up and not self.is_stopping

    def next_number(self) -> int:
        self.connections += 1
        return self.connections

    def attach(self, line: Line, opened: Open) -> None:
        """Whoever is at the other end has said, and proved, who it is."""
        self.links[line.number] = line
        self.delivers[line.number] = self.taken[line.number] = 0
        self.closes_at[line.number] = opened.closes_at
        self.turn(opened)

    def read(self, link: Line, commands: list[Command]) -> None:
        if link.number not in self.links or self.is_stopping:
            return
        if link.number in self.paused:
            self.paused[link.number].append(commands)
        else:
            self.turn(Read(link.number, commands))

    def lost(self, link: Line) -> None:
        if self.links.pop(link.number, None) is not None:
            self.paused.pop(link.number, None)
            self.turn(Closed(link.number))

    # ---- the loop ---------------------------------------------------------------------------------------------------

    def turn(self, *events: Event) -> None:
        self.on_turn()
        turn = self.broker.turn([*map(as_read, events)], self.now_s, self.now_ms)
        for reply in turn.replies:
            self.post(reply)
        for note in turn.notes:
            self.on_note(note)
        for read_request in turn.read_requests:
            delay_s = self.scheduler.random.expovariate(1 / self.load_s)
            self._at_this_boot(delay_s / 2, lambda q=read_request: self.read_back(q))  # type: ignore[misc]
        if turn.stopped:
            self.down()
        elif turn.again or self.broker.wants_turn:
            self._at_this_boot(0.0, self.turn)
        if turn.wake_in_s is not None and self.wake_at_s > (wake_at_s := self.scheduler.now_s + turn.wake_in_s):
            self.wake_at_s = wake_at_s
            self._at_this_boot(turn.wake_in_s, self.wake)
        if self.is_up and self.being_committed is None:
            self.being_committed = self.broker.seal()
            if self.being_committed is not None:
                self.is_on_the_disk = False
                self._at_this_boot(self.drawn_commit_s(), self.on_the_disk)

    def wake(self) -> None:
        """The time for which a turn has asked."""
        self.wake_at_s = inf
        self.turn()

    def drawn_commit_s(self) -> float:
        random = self.scheduler.random
        mean_s = self.commit_s * (100 if random.random() < self.stall_share else 1)
        return min(2.0, random.expovariate(1 / mean_s))

    def read_back(self, read_request: ReadRequest) -> None:
        """The disk is read now; the answer comes a little later, perhaps after other news."""
        if self.scheduler.random.random() < self.load_fails_share:
            self.crash()
            return
        delay_s = self.scheduler.random.expovariate(1 / self.load_s) / 2
        found = answer(self.disk, read_request)
        self._at_this_boot(delay_s, lambda: self.turn(found))

    def on_the_disk(self) -> None:
        batch = self.being_committed
        assert batch is not None
        self.disk.commit(batch.writes)
        self.on_commit(batch)
        self.is_on_the_disk = True
        self.scheduler.trace(self.name, "commit", batch.number, len(batch.writes))
        self.scheduler.soon(0.0005, lambda boot=self.boots: self.committed(batch, boot))  # type: ignore[misc]

    def committed(self, batch: Batch, boot: int) -> None:
        if self.is_up and self.boots == boot:
            self.being_committed = None
            self.turn(Committed(batch.number))

    def post(self, reply: Reply) -> None:
        self.scheduler.trace(self.name, reply)
        link = self.links.get(reply.connection)
        if link is None:
            return
        if link.has_channels:
            self.count(link, reply)
            link.reply(reply)
        elif isinstance(reply, Pause):
            self.paused[link.number] = []
        elif isinstance(reply, Resume):
            for commands in self.paused.pop(link.number, []):
                self._at_this_boot(0.0, lambda c=commands: self.read(link, c))  # type: ignore[misc]
        else:
            self.count(link, reply)
            if isinstance(reply, Leased):
                self.on_leased(reply)
            if not isinstance(reply, Bye):
                link.reply(reply)
            if isinstance(reply, Bye) or (isinstance(reply, Refuse) and reply.scope >= self.closes_at[link.number]):
                self._at_this_boot(0.02, link.cut)

    def count(self, link: Line, reply: Reply) -> None:
        """A MESSAGE, or a word to a node, is written some time later."""
        if isinstance(reply, Deliver | SendToPeer):
            if isinstance(reply, Deliver):
                self.on_deliver(reply)
            self.delivers[link.number] += 1
            written_s = self.scheduler.random.expovariate(1 / self.write_s)
            self._at_this_boot(written_s, lambda n=self.delivers[link.number]: self.written(link, n))  # type: ignore[misc]

    def written(self, link: Line, delivers: int) -> None:
        """The operating system has taken so many MESSAGEs, or words to a node, of this connection."""
        if link.number in self.links and delivers > self.taken[link.number]:
            self.taken[link.number] = delivers
            self.turn(Written(link.number, delivers))

    def tick(self) -> None:
        self.turn(Tick(GIB, self.disk.used_bytes()))
        if self.is_up:
            idle_hold_nothing(self.broker.parts)
            self._at_this_boot(0.25, self.tick)
