"""Cut the power after every step of a scenario, start again on what the disk has, and compare with the promises.

A step is a turn, a batch that is sealed, a batch that has reached the disk though nobody knows it yet, and one that
was told. Each scenario runs at several paces of the disk, from "at once" to "at the end".
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest

from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.queues.entry import Entry
from radiator.core.states import AFTER_A_CRASH, State
from radiator.model.commands import (
    AUTO,
    CLIENT,
    Ack,
    Closed,
    Command,
    Commit,
    Committed,
    Event,
    Nack,
    Open,
    Read,
    Send,
    Stop,
    Tick,
)
from radiator.model.limits import GIB
from radiator.model.replies import Deliver, Receipt
from radiator.model.settings import Declarations, QueueSettings
from tests.core.conftest import SMALL, shrink
from tests.core.node import Node
from tests.core.words import ack, begin, commit, header, nack, send, subscribe
from tests.sim.disk import Platter

Place = tuple[str, bytes]  # queue, body
Step = Command | Event | Callable[["Run"], Command | None]

S = QueueSettings
QUEUES = {
    "q": S(dead_letter="dead", max_redeliveries=1),
    "dead": S(),
    "a": S(),
    "b": S(),
    "c": S(),
    "once": S(dedup_window_s=100),
    "oldest": S(max_messages=2, overflow="drop-oldest"),
    "bury": S(max_messages=2, overflow="dead-letter", dead_letter_exchange="", dead_letter_key="dead"),
    "late": S(ack_timeout_s=5),
    "slow": S(redelivery_delay_ms=1000, dead_letter="dead", max_redeliveries=2),
    "tmp": S(auto_delete=True),
    "m": S(persistent=False),
}
DECLARED = Declarations(queues=QUEUES, fanouts={"f": ("a", "b", "c", "m")}, create_queues=True, create_topics=True)
PAIRS = (("q", "dead"), ("bury", "dead"), ("a", "moved"))  # a message is in at most one of the two


@dataclass
class Group:
    """What must be on the disk whole or not at all."""

    puts: list[Place] = field(default_factory=list)
    removes: list[Place] = field(default_factory=list)


@dataclass
class Run:
    """One run of a scenario; `books` are what clients know, `entries` what the core believes."""

    node: Node
    delivered: dict[bytes, Deliver] = field(default_factory=dict)
    entries: dict[tuple[int, int], Entry] = field(default_factory=dict)
    promised: dict[bytes, Callable[[], None]] = field(default_factory=dict)  # what a receipt adds to the books
    stored: set[Place] = field(default_factory=set)
    gone: set[Place] = field(default_factory=set)
    counted: dict[Place, int] = field(default_factory=dict)
    touched: set[Place] = field(default_factory=set)
    groups: list[Group] = field(default_factory=list)
    open: dict[bytes, list[Command]] = field(default_factory=dict)
    accepted: list[bytes] = field(default_factory=list)
    kept: tuple[bytes, ...] = ()  # bodies, each of which an operator's word leaves in exactly one queue
    is_loose: bool = False  # a purge, delete or expiry may have taken anything
    cuts: int = 0

    # ---- what was said, in the books

    def targets(self, command: Send) -> list[Place]:
        kind, _, name = command.destination[1:].partition("/")
        names = DECLARED.fanouts[name] if kind == "fanout" else (name,) if kind == "queue" else ()
        return [(n, command.body) for n in names if DECLARED.queue_settings(n).persistent]

    def sources(self, command: Ack | Nack) -> list[Place]:
        """Where the messages are that it settles: in `client` mode also those sent before."""
        delivery = self.node.broker.connections[command.connection].unacked[command.message_id]
        subscription = delivery.subscription
        earlier = list(subscription.unacked.values()) if subscription.ack == CLIENT else [delivery]
        meant = earlier[: earlier.index(delivery) + 1]
        return [(subscription.queue.name, d.entry.message.body) for d in meant]

    def note(self, command: Command) -> None:
        if isinstance(command, Send | Ack | Nack) and command.transaction is not None:
            self.open.setdefault(command.transaction, []).append(command)
            if isinstance(command, Send):
                self.accepted.append(command.body)
            else:
                self.touched.update(self.sources(command))
        elif isinstance(command, Commit):
            group = Group()
            for one in self.open.pop(command.transaction, []):
                if isinstance(one, Send):
                    group.puts += self.targets(one)
                elif isinstance(one, Ack):
                    group.removes += self.sources(one)
            self.groups.append(group)
            self.promise(command.receipt, group)
        elif isinstance(command, Send):
            if command.dedup_id is None or command.body not in self.accepted:
                self.accepted.append(command.body)
            group = Group(self.targets(command))
            self.groups.append(group)
            if command.destination == "/admin":
                self.is_loose = True
            else:
                self.promise(command.receipt, group)
        elif isinstance(command, Ack | Nack):
            places = self.sources(command)
            self.touched.update(places)
            place = places[-1]
            if isinstance(command, Ack):
                self.promise(command.receipt, Group(removes=places))
            elif command.requeue and command.receipt is not None:
                count = self.delivered[place[1]].redeliveries + 1
                self.promised[command.receipt] = lambda: self.counted.__setitem__(place, count)

    def promise(self, receipt: bytes | None, group: Group) -> None:
        def keep() -> None:
            self.stored.update(group.puts)
            self.gone.update(group.removes)

        if receipt is not None:
            self.promised[receipt] = keep

    # ---- steps

    def turn(self, *events: Event) -> None:
        self.node._one([*events])
        for reply in self.node.log:
            if isinstance(reply, Receipt):
                self.promised.pop(reply.receipt, lambda: None)()
            elif isinstance(reply, Deliver) and not reply.message_id.endswith(b"t"):
                self.delivered[reply.message.body] = reply
                self.seen_on_the_disk(reply)
                if reply.written_due:
                    self.touched.update((name, reply.message.body) for name in QUEUES)
        self.node.log.clear()
        self.look()
        self.cut()

    def seen_on_the_disk(self, deliver: Deliver) -> None:
        """D2: no consumer sees a message that a power cut can unsend."""
        if deliver.message.destination in ("/queue/m", "/reply-queue/x") or b"json" in deliver.message.headers:
            return
        boot, sequence = (int(part) for part in deliver.message_id.split(b"-")[1:])
        found = {position for _, position in self.node.disk.platter.messages}
        assert boot << 64 | sequence in found or deliver.subscription == b"m", deliver

    def look(self) -> None:
        """Remember every entry that the core holds, to ask for its state at each later cut."""
        broker = self.node.broker
        queues = [q for q in broker.destinations.queues.all.values() if isinstance(q, DurableQueue)]
        for queue in queues:
            for entry in [*queue.in_memory(), *queue.window.storing.values()]:
                self.entries[queue.number, entry.position] = entry
        for batch in (broker.context.open, broker.context.being_committed):
            for stored, part in batch.parts.items() if batch is not None else ():
                assert isinstance(stored, DurableQueue)
                for entry in part.storing + part.due + part.removing:
                    self.entries[stored.number, entry.position] = entry

    def commit(self) -> None:
        """What is being committed reaches the disk; a moment later the broker hears it."""
        batch, self.node.being_committed = self.node.being_committed, None
        assert batch is not None
        self.cut()
        self.node.disk.commit(batch.writes)
        self.cut()
        self.turn(Committed(batch.number))

    def idle(self) -> None:
        """All that needs no commit."""
        node = self.node
        while node.read_requests or node.again or node.broker.wants_turn or node.due():
            if node.read_requests:
                node.answer()
                self.turn()
            else:
                self.turn()

    # ---- the cut

    def cut(self) -> None:
        self.cuts += 1
        platter = self.node.disk.platter.copy()
        found: dict[str, list[bytes]] = {}
        for (number, _), message in sorted(platter.messages.items()):
            if number in platter.queues:
                found.setdefault(platter.queues[number][0], []).append(message.body)
        there = {(name, body) for name, bodies in found.items() for body in bodies}
        delayed = {
            (platter.queues[n][0], row.message.body) for (n, *_), row in platter.delayed.items() if n in platter.queues
        }
        assert not there & delayed, "in one of the two places"
        self.check_table(platter)
        self.check_books(found, there | delayed, platter)
        self.check_restart(platter, found, delayed)

    def check_table(self, platter: Platter) -> None:
        for (number, position), entry in self.entries.items():
            if number not in platter.queues:
                continue  # deleted with its queue
            state = State.READY if (number, position) in platter.messages else State.GONE
            if (number, position) in platter.delayed_at:
                state = State.DELAYED
            assert state in AFTER_A_CRASH[entry.state][0], f"{entry} was found {state.name}"

    def check_books(self, found: dict[str, list[bytes]], there: set[Place], platter: Platter) -> None:
        for bodies in found.values():
            assert len(bodies) == len(set(bodies)), "found once"
            ranks = [self.accepted.index(body) for body in bodies]
            assert ranks == sorted(ranks) or self.is_loose or "dead" in found, "found in order"
        assert not there & self.gone, "acked with receipt, and there again"
        for one, other in PAIRS:
            both = {body for name, body in there if name == one} & {body for name, body in there if name == other}
            assert not both, f"{both} are in {one} and in {other}"
        for body in self.kept:
            assert sum(body == one for _, one in there) == 1, f"{body!r} is in one queue, whatever is moved"
        for name, body in self.stored - self.gone:
            elsewhere = {(other, body) for one, other in PAIRS if one == name}
            if (name, body) not in self.touched and not self.is_loose:
                assert there & ({(name, body)} | elsewhere), f"{body!r} was receipted, and {name} has lost it"
        for group in self.groups:
            if self.is_loose or any(place in self.touched for place in group.puts):
                continue
            here = [
                place in there or any((o, place[1]) in there for n, o in PAIRS if n == place[0]) for place in group.puts
            ]
            here += [place not in there for place in group.removes]
            assert all(here) or not any(here), f"{group} is on the disk in part: {here}"
        counts = {
            (platter.queues[number][0], platter.messages[number, position].body): count
            for (number, position), (count, _) in platter.counts.items()
            if number in platter.queues
        }
        for (number, *_), row in platter.delayed.items():
            if number in platter.queues:
                counts[platter.queues[number][0], row.message.body] = row.redeliveries
        for place, count in self.counted.items():
            assert place not in there or counts.get(place, 0) >= count, f"the count of {place} is lost"

    def check_restart(self, platter: Platter, found: dict[str, list[bytes]], delayed: set[Place]) -> None:
        """It starts, its ledgers add up (SimDisk and Node assert that), and everything comes out, marked; what is
        delayed in its time, which for one that expires never comes.
        """
        # at a time when nothing has expired and nothing is due
        node = Node(DECLARED, platter=platter, now_ms=1, trust_clock=True)
        node.open(1)
        assert node.disk.recovery.boot == platter.boot + 1
        for name in found.keys() | {name for name, _ in delayed}:
            node.numbers(name)
            node.say(subscribe(1, name, AUTO))
            out = node.messages(1)
            assert [d.message.body for d in out] == found.get(name, [])
            assert platter.is_clean or all(d.redelivered for d in out)
        rows = [row for (n, *_), row in platter.delayed.items() if n in platter.queues]
        node.now_ms = max((row.due_ms for row in rows), default=1)
        node.wait(0)
        lasting = {row.message.body for row in rows if not 0 < row.message.expires_ms <= node.now_ms}
        bodies = [d.message.body for d in node.messages(1) if header(d.message, b"dead-letter-reason") != b"expired"]
        assert sorted(bodies) == sorted(body for _, body in delayed if body in lasting), "each once, in its time"
        node.say(subscribe(1, "dead", AUTO, name=b"again"))
        left = [name for name, ledger in node.disk.platter.queues.values() if ledger.stored]
        there = node.disk.platter
        assert not left and not there.messages and not there.delayed and not there.retired


@dataclass
class Scenario:
    """setup is carried out and committed before the first cut counts."""

    steps: list[Step]
    setup: list[Step] = field(default_factory=list)


def on(body: bytes, answer: Callable[..., Command], **more: object) -> Callable[[Run], Command]:
    """ACK or NACK of the delivered message with that body."""
    return lambda run: answer(run.delivered[body], **more)


def admin(text: bytes) -> Send:
    return Send(9, "/admin", b"", 2, text, reply_to="x")


def sends(to: str, count: int, **more: object) -> list[Step]:
    return [send(1, to, b"%b%d" % (to.encode(), n), b"%b%d" % (to.encode(), n), **more) for n in range(count)]


def loosen(run: Run) -> None:
    """From here on messages may leave by the operator's word or their own time."""
    run.is_loose = True


def keep(*bodies: bytes) -> Callable[[Run], None]:
    """From here on each of these must be somewhere, and nowhere else."""
    return lambda run: setattr(run, "kept", bodies)


def catch_up(run: Run) -> None:
    """Everything reaches the disk, and everybody is told."""
    while run.node.being_committed is not None or run.node.seal():
        run.commit()
        run.idle()


LATER = Tick(GIB, 0)  # time passes: see `play`
SCENARIOS = {
    "send": Scenario(sends("a", 4)),
    "ack": Scenario(
        [on(b"a0", ack, receipt=b"x0"), on(b"a1", ack, receipt=b"x1"), on(b"a2", ack)],
        [*sends("a", 3), subscribe(2, "a", prefetch_count=9)],
    ),
    "ack cumulative": Scenario(
        [on(b"a1", ack, receipt=b"x1"), send(1, "a", b"new", b"new"), on(b"a3", ack, receipt=b"x3")],
        [*sends("a", 4), subscribe(2, "a", CLIENT, prefetch_count=9)],
    ),
    "auto": Scenario([subscribe(2, "a", AUTO), *sends("a", 3)]),
    "nack": Scenario(
        [on(b"a0", nack, receipt=b"x0"), on(b"a0", nack, receipt=b"x1"), on(b"a0", ack, receipt=b"x2")],
        [*sends("a", 2), subscribe(2, "a")],
    ),
    "lost": Scenario(
        [Closed(2), subscribe(3, "a", prefetch_count=9)], [*sends("a", 4), subscribe(2, "a", prefetch_count=3)]
    ),
    "overdue": Scenario([LATER, subscribe(3, "late")], [*sends("late", 2), subscribe(2, "late", prefetch_count=2)]),
    "commit": Scenario(
        [
            begin(2),
            send(2, "a", b"t1", transaction=b"t"),
            send(2, "b", b"t2", transaction=b"t"),
            on(b"c0", ack, transaction=b"t"),
            send(2, "a", b"t3", transaction=b"t"),
            send(2, "m", b"t4", transaction=b"t"),
            send(2, "/topic/x", b"t5", transaction=b"t"),
            commit(2, receipt=b"commit"),
            send(1, "a", b"after", b"after"),
        ],
        [*sends("c", 1), subscribe(2, "c")],
    ),
    "abort": Scenario(
        [begin(2), send(2, "a", b"t1", transaction=b"t"), on(b"c0", ack, transaction=b"t"), Closed(2)],
        [*sends("c", 1), subscribe(2, "c")],
    ),
    "fanout": Scenario([send(1, "/fanout/f", b"%d" % n, b"%d" % n) for n in range(3)]),
    "dead letter by redeliveries": Scenario(
        [on(b"q0", nack), on(b"q0", nack, receipt=b"x"), on(b"q1", nack), on(b"q1", nack)],
        [*sends("q", 2), subscribe(2, "q")],
    ),
    "dead letter by a lost connection": Scenario(
        [on(b"q0", nack), on(b"q1", nack), Closed(2), subscribe(3, "dead", AUTO)],
        [*sends("q", 2), subscribe(2, "q", prefetch_count=2)],
    ),
    "dead letter by rejection": Scenario(
        [on(b"q0", nack, requeue=False, receipt=b"x"), on(b"q1", nack, requeue=False)],
        [*sends("q", 2), subscribe(2, "q")],
    ),
    "dead letter by expiry": Scenario([*sends("q", 3, expiration_ms=1000), LATER]),
    "dead letter by overflow": Scenario(sends("bury", 6)),
    "dead letter consumed": Scenario(
        [subscribe(3, "dead"), on(b"q0", nack, requeue=False), catch_up, on(b"q0", ack, receipt=b"x")],
        [*sends("q", 1), subscribe(2, "q")],
    ),
    "drop-oldest": Scenario([*sends("oldest", 2), loosen, *sends("oldest", 6)[2:]]),
    "expiry": Scenario([*sends("a", 3, expiration_ms=1000), loosen, LATER]),
    "purge": Scenario([admin(b'{"do":"purge","queue":"a"}'), *sends("a", 7)[5:]], sends("a", 5)),
    "delete": Scenario([admin(b'{"do":"delete","queue":"new"}'), *sends("new", 7)[5:]], sends("new", 5)),
    "move": Scenario(
        [keep(*(b"a%d" % n for n in range(5))), admin(b'{"do":"move","from":"a","to":"moved"}')], sends("a", 5)
    ),
    "return": Scenario(
        [keep(b"q0", b"q1", b"q2", b"dead0", b"dead1", b"dead2"), admin(b'{"do":"return","queue":"dead"}')],
        [
            *sends("dead", 3),
            *sends("q", 3),
            subscribe(2, "q", prefetch_count=3),
            *(on(b"q%d" % n, nack, requeue=False) for n in range(3)),
            Closed(2),
        ],
    ),
    "return while some die again": Scenario(
        [
            admin(b'{"do":"return","queue":"dead","count":2}'),
            admin(b'{"do":"return","queue":"dead"}'),
            subscribe(3, "q", prefetch_count=9),
            catch_up,
            on(b"q1", nack, requeue=False, receipt=b"x"),
            admin(b'{"do":"return","queue":"dead"}'),
        ],
        [*sends("q", 4), subscribe(2, "q", prefetch_count=4)]
        + [on(b"q%d" % n, nack, requeue=False) for n in range(4)]
        + [Closed(2)],
    ),
    "auto_delete": Scenario([loosen, Closed(2), *sends("tmp", 5)[3:]], [*sends("tmp", 3), subscribe(2, "tmp")]),
    "dedup": Scenario(
        [
            send(1, "once", b"first", b"1", dedup_id=b"i"),
            send(2, "once", b"first", b"2", dedup_id=b"i"),
            send(1, "once", b"other", b"3", dedup_id=b"j"),
            send(1, "once", b"first", b"4", dedup_id=b"i"),
        ]
    ),
    "delayed": Scenario(
        [*sends("a", 2, delay_ms=1000), send(1, "a", b"a2", b"a2"), LATER, catch_up, on(b"a0", ack, receipt=b"x0")],
        [subscribe(2, "a", prefetch_count=9)],
    ),
    "delayed for the second time": Scenario(
        [
            on(b"a0", nack, receipt=b"x0", delay_ms=1000),
            LATER,
            catch_up,
            on(b"a0", nack, receipt=b"x1", delay_ms=1),
            LATER,
        ],
        [*sends("a", 2, delay_ms=1), LATER, catch_up, subscribe(2, "a", prefetch_count=9)],
    ),
    "delayed and settled": Scenario(
        [
            *(on(b"%d" % n, nack, receipt=b"n%d" % n, delay_ms=1000) for n in range(4)),
            LATER,
            catch_up,
            *(on(b"%d" % n, ack, receipt=b"a%d" % n) for n in range(4)),
        ],
        [*(send(1, "a", b"%d" % n, b"%d" % n) for n in range(4)), subscribe(2, "a", prefetch_count=9)],
    ),
    "delayed by a lost connection": Scenario(
        [Closed(2), subscribe(3, "slow", prefetch_count=9), LATER, catch_up, on(b"slow0", nack, receipt=b"x"), LATER],
        [*sends("slow", 3), subscribe(2, "slow", prefetch_count=2)],
    ),
    "delayed and dead at last": Scenario(
        [step for n in range(3) for step in (on(b"slow0", nack, receipt=b"x%d" % n), LATER, catch_up)],
        [*sends("slow", 1), subscribe(2, "slow")],
    ),
    "delayed fanout": Scenario([send(1, "/fanout/f", b"%d" % n, b"%d" % n, delay_ms=500) for n in range(2)] + [LATER]),
    "delayed in a transaction": Scenario(
        [
            begin(2),
            send(2, "a", b"t1", transaction=b"t", delay_ms=1000),
            send(2, "b", b"t2", transaction=b"t"),
            on(b"c0", nack, transaction=b"t", delay_ms=1000),
            commit(2, receipt=b"commit"),
            LATER,
        ],
        [*sends("c", 1), subscribe(2, "c")],
    ),
    "delayed longer than it lives": Scenario([*sends("q", 3, expiration_ms=1000, delay_ms=5000), LATER]),
    "delayed and purged": Scenario(
        [admin(b'{"do":"purge","queue":"a"}'), *sends("a", 7, delay_ms=1000)[5:], LATER], sends("a", 5, delay_ms=1000)
    ),
    "delayed and deleted": Scenario(
        [LATER, admin(b'{"do":"delete","queue":"new"}'), *sends("new", 7)[5:]], sends("new", 5, delay_ms=1000)
    ),
    "stop while some wake": Scenario([LATER, Stop()], [*sends("a", 3, delay_ms=1000), subscribe(2, "a")]),
    "stop": Scenario([*sends("a", 5)[3:], Stop()], [*sends("a", 3), subscribe(2, "a")]),
}


def play(scenario: Scenario, pace: Callable[[int], str]) -> int:
    """Run it; `pace` says after each step how far the disk gets. Returns how often it was cut."""
    node = Node(DECLARED)
    node.auto = False
    run = Run(node)
    for connection in (1, 2, 3, 8, 9):
        node.inbox[connection], node.delivers[connection] = [], 0
        run.turn(Open(connection))
    for number, step in enumerate([*scenario.setup, catch_up, *scenario.steps]):
        if number == len(scenario.setup):
            run.cuts = 0
        if step is LATER:
            node.now_s += 10
            node.now_ms += 10_000
        commands = step(run) if callable(step) else step
        if commands is None:
            continue
        step = commands
        if isinstance(step, Closed | Tick | Stop):
            run.turn(step)
        else:
            run.note(step)
            run.turn(Read(step.connection, [step]))
        run.idle()
        advance(run, "all" if number < len(scenario.setup) else pace(number))
    catch_up(run)
    return run.cuts


def advance(run: Run, how: str) -> None:
    if how in ("commit", "all") and run.node.being_committed is not None:
        run.commit()
        run.idle()
    if how in ("seal", "all") and run.node.being_committed is None and run.node.seal():
        run.cut()
    if how == "all":
        catch_up(run)


PACES: dict[str, Callable[[], Callable[[int], str]]] = {
    "at once": lambda: lambda number: "all",
    "at the end": lambda: lambda number: "nothing",
    "one behind": lambda: lambda number: "commit" if number % 2 else "seal",
    "every third": lambda: lambda number: ("seal", "nothing", "commit")[number % 3],
    "at random": lambda: (lambda random: lambda number: random.choice(["seal", "commit", "nothing"]))(Random(7)),
}


@pytest.mark.durability("D1", "D5", "D6", "D9", "D20")
@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_receipted_means_found(scenario: str, pace: str) -> None:
    assert play(SCENARIOS[scenario], PACES[pace]()) >= 3


FAR = ["send", "auto", "ack cumulative", "lost", "purge", "move", "return", "delete", "fanout"]
FAR += [name for name in SCENARIOS if name.startswith("delayed")]


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("scenario", FAR)
def test_receipted_means_found_far_beyond_the_window(scenario: str, pace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, SMALL | {"WINDOW_MESSAGES": 2, "LOAD_MESSAGES": 2, "STEP_MESSAGES": 2})
    play(SCENARIOS[scenario], PACES[pace]())
