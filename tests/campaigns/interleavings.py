"""T10b: ALL orders in which a tiny case can happen, on the real core: two producers, two consumers, three messages, one
power cut, and one lost consumer in the larger levels; every step of the disk apart from its report.

Breadth first; a state that was met before (its core, disk and clients print the same) is not gone on from. In each: what
was receipted is on the disk unless it was acked, nobody gets what another one holds or what was acked with receipt;
and where nothing more can happen, everything was acked. It sees no more than this case: chance goes further.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum
from types import FunctionType, MethodType

import pytest

from radiator.commands import Closed
from radiator.limits import Limits
from radiator.replies import Deliver, Receipt
from radiator.settings import Declarations, QueueSettings
from tests.broker.conftest import shrink
from tests.broker.node import Node
from tests.broker.words import ack, send, subscribe
from tests.campaigns.campaign import Campaign, Run
from tests.sim.disk import Platter

DECLARED = Declarations(queues={"q": QueueSettings()})
PRODUCERS = {1: (b"a", b"b"), 2: (b"c",)}
CONSUMERS = (3, 4)
NEVER_SAME = frozenset(["turn_number", "posted_turn", "turn", "inbox", "log", "notes"])  # says nothing of the future
PLAIN = (int, str, bytes, float, type(None), Enum, Limits, Declarations, QueueSettings)

Path = tuple[str, ...]


class World:
    """The case after some steps. `ways`: what can happen next. `mistakes` must stay empty."""

    def __init__(self, cuts: int, losses: int) -> None:
        self.mistakes: list[str] = []
        self.cuts, self.losses = cuts, losses
        self.said: dict[int, int] = dict.fromkeys(PRODUCERS, 0)  # how many of its messages, since the last start
        self.receipted: set[bytes] = set()
        self.acked: set[bytes] = set()  # bodies whose ACK was said, ever
        self.gone: set[bytes] = set()  # ids whose ACK was receipted
        self.start(None)

    def start(self, platter: Platter | None) -> None:
        self.node = Node(DECLARED, platter=platter, auto=False)
        self.is_on_the_disk = False  # the batch at sea, though nobody has been told
        self.holds: dict[int, Deliver] = {}
        self.said = dict.fromkeys(PRODUCERS, 0)
        self.alive = list(CONSUMERS)
        self.node.open(*PRODUCERS, *CONSUMERS)
        self.node.say(*(subscribe(consumer, "q") for consumer in CONSUMERS))
        self.hear()

    # ---- what can happen

    def ways(self) -> dict[str, Callable[[], None]]:
        node = self.node
        ways: dict[str, Callable[[], None]] = {}
        for producer, bodies in PRODUCERS.items():
            left = [body for body in bodies if body not in self.receipted][self.said[producer] :]
            if left:
                ways[f"{producer} sends"] = lambda p=producer, b=left[0]: self.send(p, b)
        for consumer, deliver in self.holds.items():
            ways[f"{consumer} acks"] = lambda c=consumer, d=deliver: self.ack(c, d)
        for consumer in self.alive if self.losses and len(self.alive) > 1 else ():
            ways[f"{consumer} is lost"] = lambda c=consumer: self.lose(c)
        if node.at_sea is None and node.broker.has_batch:
            ways["a batch is sealed"] = self.seal
        if node.at_sea is not None:
            if self.is_on_the_disk:
                ways["the commit is told"] = self.tell
            else:
                ways["the disk has it"] = self.reach
        if node.questions:
            ways["a load is answered"] = self.answer
        if self.cuts:
            ways["the power goes"] = self.crash
        return ways

    def send(self, producer: int, body: bytes) -> None:
        self.said[producer] += 1
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
        assert self.node.at_sea is not None
        self.node.disk.commit(self.node.at_sea.writes)
        self.is_on_the_disk = True

    def tell(self) -> None:
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
                for producer, bodies in PRODUCERS.items():
                    self.said[producer] -= reply.receipt in bodies
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
        if len(self.receipted) < 3 or self.node.disk.platter.messages:
            self.mistakes.append(f"stuck: receipted {self.receipted}, on the disk {self.node.disk.platter.messages}")

    @property
    def print(self) -> int:
        """The same for states that go on alike."""
        node = self.node
        mine = [self.cuts, self.losses, self.said, self.receipted, self.acked, self.gone, self.holds, self.alive]
        theirs = [node.broker, node.disk.platter, node.at_sea, node.questions, node.delivers, self.is_on_the_disk]
        return hash(print_of([mine, theirs], {}))


def print_of(thing: object, known: dict[int, int]) -> object:
    """Values, all the way down; a thing met before is named by the place where it was met."""
    if isinstance(thing, PLAIN):
        return thing if not isinstance(thing, Limits | Declarations | QueueSettings) else None
    if id(thing) in known:
        return known[id(thing)]
    known[id(thing)] = len(known)
    if isinstance(thing, dict):
        return tuple((print_of(key, known), print_of(value, known)) for key, value in thing.items())
    if isinstance(thing, list | tuple | deque):
        return tuple(print_of(one, known) for one in thing)
    if isinstance(thing, set | frozenset):
        return tuple(sorted(map(repr, thing)))
    if isinstance(thing, MethodType):
        return thing.__func__.__qualname__, print_of(thing.__self__, known)
    if isinstance(thing, FunctionType):
        cells = [cell.cell_contents for cell in thing.__closure__ or ()]
        return thing.__qualname__, print_of([cells, thing.__defaults__], known)
    names = getattr(thing, "__dict__", None) or [
        n for kind in type(thing).__mro__ for n in getattr(kind, "__slots__", ())
    ]
    kept = [(name, print_of(getattr(thing, name, None), known)) for name in names if name not in NEVER_SAME]
    return type(thing).__name__, tuple(kept)


def at(path: Path, cuts: int, losses: int) -> World:
    """The world after those steps: made anew, for a core cannot be copied."""
    world = World(cuts, losses)
    for way in path:
        world.do(way)
    return world


def explore(run: Run) -> None:
    """All of it; `cases` only bounds it. Raises AssertionError if that was too few."""
    losses = 0 if run.level == "quick" else 1
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch, {"WINDOW_MESSAGES": 1, "LOAD_MESSAGES": 1})
        met = set()
        waiting: deque[Path] = deque([()])
        steps = longest = 0
        while waiting and not run.is_over:
            path = waiting.popleft()
            world = at(path, 1, losses)
            run.case()
            longest = max(longest, len(path))
            ways = [*world.ways()]
            if not set(ways) - {"the power goes", "3 is lost", "4 is lost"}:
                world.judge_the_end()
                tell(run, path, world)
            for way in ways:
                steps += 1
                after = at((*path, way), 1, losses)
                tell(run, (*path, way), after)
                print_ = after.print
                if print_ not in met:
                    met.add(print_)
                    waiting.append((*path, way))
    run.figures |= {"steps": steps, "longest history": longest}
    assert run.is_hunt or not waiting, f"{run.done} states were not all of them"


def tell(run: Run, path: Path, world: World) -> None:
    for mistake in world.mistakes:
        run.violation(f"{mistake}, after: {', '.join(path)}")


CAMPAIGNS = (
    Campaign(
        number="T10b",
        name="interleavings",
        title="every order in which two producers, two consumers, three messages and a power cut can meet",
        unit="states",
        run=explore,
        cases=(1_000_000, 10_000_000, 10_000_000),
        mutants=(),
        mutant_cases=1_000_000,
        quick_mutants=0,
        limit_s=(120, 3600, 8 * 3600),
    ),
)
