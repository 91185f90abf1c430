"""T10b: ALL orders in which a tiny case can happen, on the real core: two producers with a message each, one or two
consumers, a power cut and perhaps a lost consumer; what the disk does apart from its report (CASES says how many).

Breadth first; a state that was met before (its core, disk and clients print the same) is not gone on from. In each:
what was receipted is on the disk unless it was acked, nobody gets what another holds or what was acked with receipt;
and where nothing more can happen, everything was acked. It sees no more than this case: chance goes further.
"""

import re
import traceback
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from types import FunctionType, MethodType, NoneType
from typing import Any

import pytest

from radiator.model.commands import Closed
from radiator.model.limits import Limits
from radiator.model.replies import Deliver, Receipt
from radiator.model.settings import Declarations, QueueSettings
from tests.campaigns.campaign import Campaign, Run
from tests.core.conftest import shrink
from tests.core.node import Node
from tests.core.words import ack, send, subscribe
from tests.sim.disk import Platter

DECLARED = Declarations(queues={"q": QueueSettings()})
SAYS_NOTHING = frozenset(  # of the future: counters, and what was said
    ["turn_number", "posted_turn", "turn", "sequence", "batches", "counters", "deliveries", "commits", "written",
     "store_used_bytes", "disk_free_bytes", "disk_left_bytes", "remembered",
     "_commands", "_handlers", "kinds"]  # tables that never change
)  # fmt: skip
BATCH_NUMBERS = frozenset(["number", "committed", "held_batch", "asked_at"])
MESSAGE_ID = re.compile(rb"-(\d+)-(\d+)$")
FAULTS = ("the power goes", "3 is lost", "4 is lost")
POSITION_MIN = 1 << 64  # an int above it is a position: only their order counts

Path = tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """messages: what each producer says. cuts, losses: how often the power and a consumer may go."""

    messages: dict[int, tuple[bytes, ...]]
    consumers: tuple[int, ...]
    cuts: int
    losses: int


CASES = {
    "quick": Case({1: (b"a",), 2: (b"c",)}, (3,), 1, 0),
    "nightly": Case({1: (b"a",), 2: (b"c",)}, (3, 4), 1, 0),
    "release": Case({1: (b"a",), 2: (b"c",)}, (3, 4), 1, 1),
}


class World:
    """The case after some steps. `ways`: what can happen next. `mistakes` must stay empty."""

    def __init__(self, case: Case) -> None:
        self.messages, self.consumers = case.messages, case.consumers
        self.mistakes: list[str] = []
        self.cuts, self.losses = case.cuts, case.losses
        self.sent: dict[int, int] = dict.fromkeys(case.messages, 0)  # how many of its messages, since the last start
        self.receipted: set[bytes] = set()
        self.acked: set[bytes] = set()  # bodies whose ACK was said, ever
        self.gone: set[bytes] = set()  # ids whose ACK was receipted
        self.start(None)

    def start(self, platter: Platter | None) -> None:
        self.node = Node(DECLARED, platter=platter, auto=False)
        self.is_on_the_disk = False  # the batch that is being committed, before the broker hears it
        self.holds: dict[int, Deliver] = {}
        self.sent = dict.fromkeys(self.messages, 0)
        self.alive = list(self.consumers)
        self.node.open(*self.messages, *self.consumers)
        self.node.say(*(subscribe(consumer, "q") for consumer in self.consumers))
        self.hear()

    # ---- what can happen

    def ways(self) -> dict[str, Callable[[], None]]:
        node = self.node
        ways: dict[str, Callable[[], None]] = {}
        for producer, bodies in self.messages.items():
            left = [body for body in bodies if body not in self.receipted][self.sent[producer] :]
            if left:
                ways[f"{producer} sends"] = lambda p=producer, b=left[0]: self.send(p, b)
        for consumer, deliver in self.holds.items():
            ways[f"{consumer} acks"] = lambda c=consumer, d=deliver: self.ack(c, d)
        for consumer in self.alive if self.losses and len(self.alive) > 1 else ():
            ways[f"{consumer} is lost"] = lambda c=consumer: self.lose(c)
        if node.being_committed is None and node.broker.has_batch:
            ways["a batch is sealed"] = self.seal
        if node.being_committed is not None:
            if self.is_on_the_disk:
                ways["the commit is told"] = self.commit
            else:
                ways["the disk has it"] = self.reach
        if node.read_requests:
            ways["a load is answered"] = self.answer
        if self.cuts:
            ways["the power goes"] = self.crash
        return ways

    def send(self, producer: int, body: bytes) -> None:
        self.sent[producer] += 1
        self.node.say(send(producer, "q", body, receipt=body))

    def ack(self, consumer: int, deliver: Deliver) -> None:
        del self.holds[consumer]
        self.acked.add(deliver.message.body)
        self.node.say(ack(deliver, receipt=b"acked " + deliver.message_id))

    def lose(self, consumer: int) -> None:
        self.losses -= 1
        self.alive.remove(consumer)
        self.holds.pop(consumer, None)
        del self.node.inbox[consumer]
        self.node.turn([Closed(consumer)])

    def seal(self) -> None:
        self.node.seal()

    def reach(self) -> None:
        assert self.node.being_committed is not None
        self.node.disk.commit(self.node.being_committed.writes)
        self.is_on_the_disk = True

    def commit(self) -> None:
        node = self.node
        self.is_on_the_disk = False
        committed, node.disk.commit = node.disk.commit, lambda writes: None  # type: ignore[method-assign]
        node.commit()
        node.disk.commit = committed  # type: ignore[method-assign]

    def answer(self) -> None:
        self.node.answer()

    def crash(self) -> None:
        self.cuts -= 1
        self.start(self.node.disk.platter)

    # ---- one step, judged

    def do(self, way: str) -> None:
        self.ways()[way]()
        while self.node.again or self.node.broker.wants_turn or self.node.due():
            self.node.turn([])
        self.hear()
        on_disk = {message.body for message in self.node.disk.platter.messages.values()}
        lost = self.receipted - on_disk - self.acked
        if lost:
            self.mistakes.append(f"{lost} was receipted, never acked, and is not on the disk")

    def hear(self) -> None:
        """What the broker has said since the last step."""
        for reply in self.node.log:
            if isinstance(reply, Deliver):
                self.delivered(reply)
            elif isinstance(reply, Receipt) and reply.receipt.startswith(b"acked "):
                self.gone.add(reply.receipt.removeprefix(b"acked "))
            elif isinstance(reply, Receipt):
                self.receipted.add(reply.receipt)
                for producer, bodies in self.messages.items():
                    self.sent[producer] -= reply.receipt in bodies
            else:
                self.mistakes.append(f"nobody expected {reply}")
        self.node.log.clear()

    def delivered(self, deliver: Deliver) -> None:
        name = f"{deliver.message.body!r} ({deliver.message_id!r})"
        if deliver.connection in self.holds:
            self.mistakes.append(f"{name} came to {deliver.connection}, which had a message already")
        if any(held.message_id == deliver.message_id for held in self.holds.values()):
            self.mistakes.append(f"{name} is with two consumers")
        if deliver.message_id in self.gone:
            self.mistakes.append(f"{name} came again although it was acked")
        places = {message_of.body for message_of in self.node.disk.platter.messages.values()}
        if deliver.message.body not in places:
            self.mistakes.append(f"{name} was delivered, and is not on the disk")
        self.holds[deliver.connection] = deliver

    def judge_the_end(self) -> None:
        """Nothing more can happen but a fault."""
        if (
            self.receipted != {body for bodies in self.messages.values() for body in bodies}
            or self.node.disk.platter.messages
        ):
            self.mistakes.append(f"stuck: receipted {self.receipted}, on the disk {self.node.disk.platter.messages}")

    @property
    def print(self) -> int:
        """The same for states that go on alike."""
        node = self.node
        context = node.broker.context
        mine = [self.cuts, self.losses, self.sent, self.receipted, self.acked, self.gone, self.holds, self.alive]
        theirs = [node.broker, node.disk.platter, node.being_committed, node.read_requests, self.is_on_the_disk]
        made = Print(context.open.number, context.committed)
        made.of([mine, theirs])
        return hash(made.done())


class Print:
    """What a thing is, all the way down, as one flat row of plain values in which only order counts for positions and
    batches. A thing that was met before is named by the place where it was met.
    """

    def __init__(self, open_number: int, committed: int) -> None:
        self.open_number = open_number
        self.committed = committed
        self.known: dict[int, int] = {}
        self.row: list[object] = []
        self.places: list[int] = []  # in the row, of positions

    def of(self, thing: object) -> None:
        """Adds the thing to the row."""
        kind = type(thing)
        adds = HOW.get(kind)
        if adds is None:
            adds = HOW[kind] = how_of(thing)
        adds(self, thing)

    def done(self) -> tuple[object, ...]:
        """The row; it has the place of each position among all of them instead of the position."""
        positions = [self.row[place] for place in self.places]
        order = {position: number for number, position in enumerate(sorted(set(positions)))}  # type: ignore[type-var]
        for place, position in zip(self.places, positions, strict=True):
            self.row[place] = ("place", order[position])
        return tuple(self.row)

    def _is_known(self, thing: object) -> bool:
        number = self.known.setdefault(id(thing), len(self.known))
        if number == len(self.known) - 1:
            return False
        self.row.append(number)
        return True

    def _plain(self, thing: object) -> None:
        self.row.append(thing)

    def _int(self, thing: int) -> None:
        if thing > POSITION_MIN:
            self.places.append(len(self.row))
        self.row.append(thing)

    def _bytes(self, thing: bytes) -> None:
        if found := MESSAGE_ID.search(thing):
            self._int((int(found[1]) << 64) + int(found[2]))
        else:
            self.row.append(thing)

    def _settings(self, thing: object) -> None:
        """They are the same in every state."""

    def _table(self, thing: type) -> None:
        self.row.append(thing.__qualname__)  # a table of handlers is kept by class, and no class changes

    def _set(self, things: set[Any]) -> None:
        self.row.append(len(things))
        for thing in sorted(things):
            self.of(thing)

    def _dict(self, things: dict[object, object]) -> None:
        if not self._is_known(things):
            self.row.append(len(things))
            for key, value in things.items():
                self.of(key)
                self.of(value)

    def _list(self, things: Collection[object]) -> None:
        if not self._is_known(things):
            self.row.append(len(things))
            for thing in things:
                self.of(thing)

    def _method(self, thing: MethodType) -> None:
        self.row.append(thing.__func__.__qualname__)
        self.of(thing.__self__)

    def _function(self, thing: FunctionType) -> None:
        self.row.append(thing.__qualname__)
        for cell in thing.__closure__ or ():
            self.of(cell.cell_contents)
        self.of(thing.__defaults__)

    def _object(self, thing: object) -> None:
        if self._is_known(thing):
            return
        fields = fields_of(thing)
        self.row.append((type(thing).__name__, len(fields)))
        for name, value in fields:
            if name not in SAYS_NOTHING:
                if name in BATCH_NUMBERS and isinstance(value, int):
                    self.row.append(value - self.open_number if value > self.committed else "committed")
                else:
                    self.of(value)


HOW: dict[type, Callable[[Print, Any], None]] = {}


def how_of(thing: object) -> Callable[[Print, Any], None]:
    """How things of its type are added."""
    ways: tuple[tuple[Any, Callable[[Print, Any], None]], ...] = (
        (Limits | Declarations | QueueSettings, Print._settings),
        (str | float | bool | NoneType | Enum, Print._plain),
        (int, Print._int),
        (bytes, Print._bytes),
        (type, Print._table),
        (set | frozenset, Print._set),
        (dict, Print._dict),
        (list | tuple | deque, Print._list),
        (MethodType, Print._method),
        (FunctionType, Print._function),
    )
    return next((way for kinds, way in ways if isinstance(thing, kinds)), Print._object)


def fields_of(thing: object) -> Collection[tuple[str, object]]:
    if hasattr(thing, "__dict__"):
        return vars(thing).items()
    names = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    return [(name, getattr(thing, name, None)) for name in names]


def at(path: Path, case: Case) -> World:
    """The world after those steps: made anew, for a core cannot be copied."""
    world = World(case)
    for way in path:
        world.do(way)
    return world


def explore(run: Run) -> None:
    """All of it; `cases` only bounds it. Raises AssertionError if that was too few."""
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch, {"WINDOW_MESSAGES": 1, "LOAD_MESSAGES": 1})
        met: set[int] = set()
        waiting: deque[tuple[Path, list[str]]] = deque()
        steps = longest = 0

        def meet(path: Path) -> None:
            nonlocal longest
            try:
                world = at(path, CASES[run.level])
            except Exception:  # noqa: BLE001 - whatever leaves the core ends the broker
                run.violation(f"{traceback.format_exc()}, after: {', '.join(path)}")
                return
            print_of = world.print
            if print_of not in met:
                met.add(print_of)
                ways = [*world.ways()]
                waiting.append((path, ways))
                if all(way in FAULTS for way in ways):
                    world.judge_the_end()
                longest = max(longest, len(path))
            for mistake in world.mistakes:
                run.violation(f"{mistake}, after: {', '.join(path)}")

        meet(())
        while waiting and not run.is_over:
            path, ways = waiting.popleft()
            run.case()
            for way in ways:
                steps += 1
                meet((*path, way))
    run.figures |= {"steps": steps, "longest history": longest}
    assert run.is_hunt or not waiting, f"{run.done} states were not all of them"


CAMPAIGNS = (
    Campaign(
        number="T10b",
        name="interleavings",
        title="every order in which a few messages, producers, consumers and a power cut can meet",
        unit="states",
        run=explore,
        cases=(1_000_000, 10_000_000, 10_000_000),
        mutants=(
            "receipt-before-commit",
            "ack-not-committed",
            "deliverable-before-commit",
            "remove-not-written",
        ),
        mutant_cases=1_000_000,
        quick_mutants=4,
        # a watchdog (campaign.py), no bound: its interleavings are counted in cases, and none is judged by its time
        limit_s=(240, 3600, 8 * 3600),
    ),
)
