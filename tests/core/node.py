"""A whole broker on a simulated disk and clock: words in, words out, no sockets. Time moves only when a test says so.

By default each `say` runs until nothing more happens (commits and loads included); with `auto=False` a test commits by
itself, so that it sees what is held.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import Any

from radiator.core import stats
from radiator.core.authorization import Authorizer
from radiator.core.broker import Broker
from radiator.core.kinds.exchange import ExchangeKind
from radiator.core.kinds.fanout import FanoutKind
from radiator.core.kinds.queue import of_queue
from radiator.core.memory import Weighing
from radiator.core.parts import Machine
from radiator.core.server_view import ServerView
from radiator.core.turn import Batch, Note
from radiator.model import settings
from radiator.model.addresses import EXCHANGE, FANOUT
from radiator.model.commands import Closed, Command, Committed, Event, Open, Read, Reread, Send, Stop, Tick, Written
from radiator.model.limits import GIB, Limits
from radiator.model.reads import ReadRequest
from radiator.model.replies import Answered, Bye, Deliver, Pause, Receipt, Refuse, Reply, Resume, SendToPeer
from radiator.model.settings import Declarations, ExchangeSettings
from radiator.protocols.administration import JSON
from radiator.storage.contract import answer
from tests.core.words import as_read
from tests.sim.disk import Platter, SimDisk
from tests.sim.weights import idle_hold_nothing


class Node:
    """`inbox[connection]`: what each connection was told, in order. `log`: all of it, in order."""

    def __init__(
        self,
        declarations: Declarations | None = None,
        limits: Limits | None = None,
        platter: Platter | None = None,
        *,
        auto: bool = True,
        now_ms: int = 1_700_000_000_000,
        seed: int = 0,
        node: settings.Node | None = None,
        disk: Any = None,
        trust_clock: bool = False,
        authorizer: Authorizer | None = None,
        view: ServerView | None = None,
    ) -> None:
        """disk: another store than a simulated one. view: of the server; None: there is none."""
        self.declarations = declarations or Declarations(create_queues=True, create_topics=True)
        self.limits = limits or Limits()
        self.node = node
        self.disk = disk or SimDisk(platter, self.declarations.has_journal)
        self.now_s = 100.0
        self.now_ms = now_ms
        self.auto = auto
        random = Random(seed)
        self.broker = Broker(
            self.declarations,
            self.limits,
            self.disk.recovery,
            Machine(
                map_size=GIB,
                disk_free_min=0,
                entropy=random.randbytes,
                version="test",
                now_s=self.now_s,
                now_ms=self.now_ms,
                trust_clock=trust_clock,
                view=view or ServerView(),
            ),
            node,
            authorizer,
        )
        self.inbox: dict[int, list[Reply]] = {}
        self.paused: set[int] = set()
        self.delivers: dict[int, int] = {}
        self.reads_slowly: set[int] = set()
        self.notes: list[Note] = []
        self.log: list[Reply] = []
        self.read_requests: list[ReadRequest] = []
        self.being_committed: Batch | None = None
        self.stopped = False
        self.asked_to_reread = False
        self.reread: Callable[[], Reread] | None = self.unchanged
        self.turn([])

    def declare_exchange(self, name: str, settings: ExchangeSettings) -> bool:
        """By its kind: whether it was made. Raises Refusal."""
        kind = self.broker.parts.kinds[EXCHANGE]
        assert isinstance(kind, ExchangeKind)
        return kind.make(name, settings)

    def declare_fanout(self, name: str, children: tuple[str, ...]) -> bool:
        """The same of a fanout."""
        kind = self.broker.parts.kinds[FANOUT]
        assert isinstance(kind, FanoutKind)
        return kind.make(name, children)

    # ---- one step ---------------------------------------------------------------------------------------------------

    def turn(self, events: list[Event]) -> None:
        """One turn, and with `auto` all that follows from it."""
        self._one(events)
        while self.auto and self.step():
            pass

    def step(self) -> bool:
        """Let the shell do one thing that is due; False when nothing is."""
        if self.read_requests:
            self.answer()
        elif self.asked_to_reread and self.reread is not None:
            self.asked_to_reread = False
            self._one([self.reread()])
        elif self.seal() or self.being_committed is not None:
            self.commit()
        elif self.again or self.broker.wants_turn:
            self._one([])
        else:
            return False
        return True

    def _one(self, events: list[Event]) -> None:
        turn = self.broker.turn(self.written() + [*map(as_read, events)], self.now_s, self.now_ms)
        if any(type(event) is Tick for event in events):
            idle_hold_nothing(self.broker.parts)
        self.again, self.wake_in_s = turn.again, turn.wake_in_s
        self.asked_to_reread = self.asked_to_reread or turn.reread
        self.stopped = turn.stopped
        self.notes.extend(turn.notes)
        self.log.extend(turn.replies)
        self.read_requests.extend(turn.read_requests)
        for reply in turn.replies:
            number = reply.connection
            if number not in self.inbox:
                continue
            if isinstance(reply, Pause):
                self.paused.add(number)
            elif isinstance(reply, Resume):
                self.paused.discard(number)
            else:
                self.inbox[number].append(reply)
            if isinstance(reply, Deliver | SendToPeer) or (isinstance(reply, Answered) and reply.is_again):
                self.delivers[number] += 1
        if self.auto and self.due():
            self._one([])

    def due(self) -> bool:
        """Whether a Written is due."""
        return any(
            c.written < self.delivers.get(n, 0) and n not in self.reads_slowly
            for n, c in self.broker.connections.items()
        )

    def written(self) -> list[Event]:
        """The operating system takes everything at once, but for those that read slowly."""
        return [
            Written(n, self.delivers[n])
            for n, c in self.broker.connections.items()
            if c.written < self.delivers.get(n, 0) and n not in self.reads_slowly
        ]

    def unchanged(self) -> Reread:
        """What is read again says what is in force."""
        declarations = replace(self.broker.destinations.declarations)
        limits = replace(self.limits)
        config = settings.Config(data_dir=Path("/d"), disk_free_min=0, declarations=declarations, limits=limits)
        return Reread(config)

    def seal(self) -> bool:
        """Hand the open batch to the disk."""
        if self.being_committed is None:
            self.being_committed = self.broker.seal()
        return self.being_committed is not None

    def commit(self) -> None:
        """What is being committed reaches the disk."""
        batch, self.being_committed = self.being_committed, None
        assert batch is not None
        self.disk.commit(batch.writes)
        self._one([Committed(batch.number)])

    def answer(self) -> None:
        """The oldest question is answered."""
        read_request = self.read_requests.pop(0)
        self._one([answer(self.disk, read_request)])

    # ---- what a test says -------------------------------------------------------------------------------------------

    def open(self, *connections: int) -> None:
        for number in connections:
            self.inbox[number] = []
            self.delivers[number] = 0
            self.turn([Open(number)])

    def say(self, *commands: Command) -> None:
        """One read each."""
        for command in commands:
            self.turn([Read(command.connection, [command])])

    def close(self, connection: int) -> None:
        self.turn([Closed(connection)])
        self.delivers.pop(connection)

    def wait(self, seconds: float) -> None:
        """Time passes; the clock ticks once."""
        self.now_s += seconds
        self.now_ms += int(seconds * 1000)
        self.turn([Tick(GIB, self.disk.used_bytes())])

    def wake(self) -> None:
        """Time passes until the turn that the last one has asked for; the clock does not tick."""
        assert self.wake_in_s is not None, "nothing is due soon"
        self.now_s += self.wake_in_s
        self.now_ms += round(self.wake_in_s * 1000)
        self.turn([])

    def stop(self) -> None:
        """SIGTERM; the platter is then that of a clean stop."""
        self.auto = True
        self.turn([Stop()])
        assert self.stopped

    def crashed(self, **changes: object) -> "Node":
        """The node after a power cut now: what was not committed is gone."""
        return self.again_on(self.disk.platter, **changes)

    def again_on(self, platter: Platter, **changes: object) -> "Node":
        declarations = changes.get("declarations", self.declarations)
        assert isinstance(declarations, Declarations)
        declared = replace(declarations)
        return Node(declared, self.limits, platter, auto=True, now_ms=self.now_ms, node=self.node)

    # ---- what a test looks at ---------------------------------------------------------------------------------------

    def take(self, connection: int) -> list[Reply]:
        """Everything new for a connection."""
        replies, self.inbox[connection] = self.inbox[connection], []
        return replies

    def messages(self, connection: int) -> list[Deliver]:
        """The new MESSAGEs; everything else new stays."""
        replies = self.inbox[connection]
        self.inbox[connection] = [r for r in replies if not isinstance(r, Deliver)]
        return [r for r in replies if isinstance(r, Deliver)]

    def message(self, connection: int) -> Deliver:
        """The one new MESSAGE."""
        (message,) = self.messages(connection)
        return message

    def bodies(self, connection: int) -> list[bytes]:
        """Bodies of the new MESSAGEs."""
        return [deliver.message.body for deliver in self.messages(connection)]

    def receipts(self, connection: int) -> list[bytes]:
        return [r.receipt for r in self.inbox[connection] if isinstance(r, Receipt)]

    def refusal(self, connection: int) -> Refuse:
        """The one ERROR that this connection got."""
        refusals = [r for r in self.take(connection) if isinstance(r, Refuse)]
        assert len(refusals) == 1, refusals
        return refusals[0]

    def got_bye(self, connection: int) -> bool:
        return any(isinstance(r, Bye) for r in self.inbox[connection])

    def is_refused(self, connection: int) -> bool:
        return any(isinstance(r, Refuse) for r in self.inbox[connection])

    def numbers(self, queue: str) -> dict[str, Any]:
        """What `stats` says of a queue; its ledger adds up, and each message of it stands somewhere."""
        numbers = asdict(of_queue(self.broker.destinations.queues.all[queue]))
        assert numbers["adds_up"], numbers
        standing = (
            numbers["ready"]
            + numbers["unacked"]
            + numbers["storing"]
            + numbers["delayed"]
            + numbers["damaged"]
            + numbers["in_doubt"]
        )
        assert standing == numbers["messages"], numbers
        return numbers

    def stats(self) -> dict[str, Any]:
        """What `stats` would say, made at once."""
        found: dict[str, Any] = json.loads(JSON.whole(stats.of(self.broker.parts)))
        return found

    def in_use_bytes(self) -> int:
        """All that is held in memory now, what is on the disk too included."""
        parts = self.broker.parts
        weighing = Weighing(parts.memory)
        for queue in parts.destinations.queues.all.values():
            if not queue.is_persistent:
                weighing.queue(queue)
        weighing.begin_connections()
        for connection in parts.connections.values():
            if not connection.is_closing:
                weighing.connection(connection)
        return weighing.bytes + parts.memory.on_disk_too

    def has(self, queue: str) -> bool:
        return queue in self.broker.destinations.queues.all

    def stored(self, queue: str) -> list[bytes]:
        """Bodies that are on the disk for a queue, in order."""
        numbers = [number for number, (name, _) in self.disk.platter.queues.items() if name == queue]
        return [m.body for (number, _), m in sorted(self.disk.platter.messages.items()) if number in numbers]

    def admin(self, connection: int, **request: object) -> dict[str, Any]:
        """Ask `/admin` and take the answer."""
        body = json.dumps(request).encode()
        self.say(Send(connection, "/admin", b"", 2, body, reply_to="admin", correlation_id=b"1"))
        (answer,) = (d for d in self.messages(connection) if d.subscription == b"/temp-queue/admin")
        found: dict[str, Any] = json.loads(answer.message.body)
        return found
