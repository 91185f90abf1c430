"""The core against the reference model (tests/sim/model.py) over random histories, with commits, crashes and stops.

RADIATOR_EXAMPLES=5000 runs more of them; `scripts/prove model` runs many, each time others.
"""

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from radiator.broker.consumers import Connection
from radiator.broker.intake import Resource
from radiator.commands import (
    AUTO,
    CLIENT,
    CLIENT_INDIVIDUAL,
    Abort,
    Closed,
    Command,
    Committed,
    Event,
    Open,
    Read,
    Stop,
    Tick,
)
from radiator.limits import GIB
from radiator.replies import Deliver, Receipt, Reply
from radiator.settings import Declarations, QueueSettings
from tests.broker.conftest import SMALL, shrink
from tests.broker.node import Node
from tests.broker.words import ack, begin, commit, nack, send, subscribe, unsubscribe
from tests.sim.disk import Platter
from tests.sim.model import OUT, STORING, Conn, Item, Model, Said, Sub

QUEUES = {
    "a": QueueSettings(),
    "b": QueueSettings(dead_letter="d", max_redeliveries=1),
    "d": QueueSettings(),
    "m": QueueSettings(persistent=False, dead_letter="md", max_redeliveries=2),
    "md": QueueSettings(persistent=False),
    "o": QueueSettings(max_messages=3, overflow="drop-oldest"),
    "u": QueueSettings(dedup_window_s=10_000),
    "x": QueueSettings(max_messages=3, overflow="reject"),
}
FANOUTS = {"f": ("a", "m", "b")}
DECLARED = Declarations(queues=QUEUES, fanouts=FANOUTS, create_topics=True)
TARGETS = ["a", "a", "a", "b", "b", "m", "o", "o", "o", "u", "x", "/fanout/f", "/topic/t"]
SOURCES = ["a", "a", "b", "d", "m", "md", "o", "u", "x", "/topic/t", "/topic/#"]


class Watched(Node):
    """A Node whose model hears everything, in the order in which the core does."""

    def __init__(self, model: Model, platter: Platter | None = None) -> None:
        self.model: Model | None = None
        super().__init__(DECLARED, platter=platter, now_ms=model.now_ms)
        self.auto = False
        self.heard = 0  # of the replies of this turn
        self.speaker: int | None = None  # whose Read this turn carries out
        self.carry_out = self.broker.carry_out
        self.broker.carry_out = self.carry_out_parked  # type: ignore[method-assign]
        self.log.clear()
        self.model = model
        model.batch = self.broker.desk.open.number
        model.committed = self.broker.desk.committed

    def _one(self, events: list[Event]) -> None:
        if self.model is not None:
            self.model.written()
            for event in events:
                if isinstance(event, Committed):
                    self.model.reached_the_disk(event.number)
                    self.model.told_committed(event.number)
        self.speaker = next((event.connection for event in events if isinstance(event, Read)), None)
        super()._one(events)
        if self.model is not None:
            self.hear(self.model, self.log)
            self.log.clear()
            self.heard = 0
            stored = self.broker.destinations.queues["a"].ledger.stored
            self.model.expired("a", len(self.model.queues["a"]) - stored)

    def carry_out_parked(self, connection: Connection, command: Command) -> Resource | None:
        """What has waited is tried again. What it does comes behind all that this turn has said so far."""
        replies = self.broker.desk.turn.replies
        said_before = len(replies)
        room = self.carry_out(connection, command)
        if room is None and self.model is not None:
            self.hear(self.model, replies[:said_before])
            self.model.carried_out(connection.number)
        return room

    def hear(self, model: Model, replies: list[Reply]) -> None:
        """What the Read of this turn did, unless it waits; then the replies that are new."""
        if self.speaker in model.asked and self.speaker not in self.broker.parked:
            model.carried_out(self.speaker)
        for reply in replies[self.heard :]:
            if isinstance(reply, Deliver) and reply.connection in model.conns:
                model.delivered(reply.connection, reply)
        self.heard = len(replies)

    def seal(self) -> bool:
        was_at_sea = self.at_sea is not None
        is_at_sea = super().seal()
        if self.model is not None and not was_at_sea:
            if is_at_sea:
                self.model.sealed()
            else:
                assert not self.model.effects.get(self.model.batch), "something should have been written"
        return is_at_sea

    def settle(self) -> None:
        """All that needs no commit."""
        while self.questions or self.again or self.broker.wants_turn or self.due():
            if self.questions:
                self.answer()
            else:
                self._one([])


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.model = Model(QUEUES, FANOUTS, 1_700_000_000_000)
        self.node = Watched(self.model)
        self.bodies = 0
        self.connections = 0
        self.holds_commits = False

    # ---- helpers

    def tell(self, *events: Event) -> None:
        self.node._one([*events])
        self.node.settle()
        while not self.holds_commits and (self.node.seal() or self.node.at_sea):
            self.commit_one()
        self.lose_refused()

    def lose_refused(self) -> None:
        """Who got an ERROR is who should have."""
        assert {n for n, c in self.node.broker.connections.items() if c.is_closing} == self.model.refused
        while self.model.refused:
            self.lose(self.model.refused.pop())

    def say(self, command: Command) -> None:
        self.tell(Read(command.connection, [command]))

    def commit_one(self) -> None:
        self.node.commit()
        self.node.settle()

    def body(self) -> bytes:
        self.bodies += 1
        return b"%d" % self.bodies

    def receipt(self, data: st.DataObject) -> bytes | None:
        return b"r" + self.body() if data.draw(st.booleans()) else None

    @property
    def free(self) -> dict[int, Conn]:
        """Connections that are read: they wait for nothing."""
        return {number: conn for number, conn in self.model.conns.items() if number not in self.model.asked}

    def conn(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.free)))

    def lose(self, c: int) -> None:
        self.model.written()
        self.model.closed(c)
        self.tell(Closed(c))
        self.node.inbox.pop(c)

    def transaction(self, data: st.DataObject, c: int) -> bytes | None:
        return data.draw(st.sampled_from([None, *sorted(self.model.conns[c].sends)]))

    # ---- connections and subscriptions

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        self.holds_commits = data.draw(st.booleans())
        self.connect(data)
        self.connect(data)

    @rule(data=st.data())
    def one_thing(self, data: st.DataObject) -> None:
        """What happens most is drawn most often."""
        conns, free = self.model.conns, self.free.values()
        ways = [self.send] * 8 + [self.subscribe] * 2 + [self.begin] * 2 if free else []
        ways += [self.tick] + [self.connect] * (3 * (len(conns) < 3)) + [self.close] * (2 * (len(conns) > 1))
        ways += [self.unsubscribe] * any(c.subs or c.topics for c in free)
        ways += [self.answer] * (10 * any(c.unacked() for c in free)) + [self.end] * (3 * any(c.sends for c in free))
        ways += [self.seal] * (3 * self.holds_commits) + [self.commit] * (3 * (self.node.at_sea is not None))
        ways += [self.restart]
        if not conns:
            ways = [self.connect]
        data.draw(st.sampled_from(ways))(data)

    def connect(self, data: st.DataObject) -> None:
        self.connections += 1
        c = self.connections
        self.model.conns[c] = Conn()
        self.node.inbox[c], self.node.delivers[c] = [], 0
        self.tell(Open(c))
        for _ in range(data.draw(st.integers(0, 3))):
            self.subscribe(data, c)

    def close(self, data: st.DataObject) -> None:
        self.lose(data.draw(st.sampled_from(sorted(self.model.conns))))

    def subscribe(self, data: st.DataObject, c: int | None = None) -> None:
        c = self.conn(data) if c is None else c
        source = data.draw(st.sampled_from(SOURCES))
        mode = data.draw(st.sampled_from([AUTO, CLIENT, CLIENT, CLIENT_INDIVIDUAL, CLIENT_INDIVIDUAL]))
        prefetch = data.draw(st.sampled_from([None, None, 1, 2, 3]))
        name = data.draw(st.sampled_from([b"1", b"2", b"3", b"4"]))
        conn = self.model.conns[c]
        if name in conn.subs or name in conn.topics:
            return
        self.model.written()
        receipt = self.receipt(data)
        self.model.receipt(c, receipt)
        if source.startswith("/topic/"):
            conn.topics.add(name)
        else:
            conn.subs[name] = Sub(name, source, mode, prefetch)
        self.say(subscribe(c, source, mode, name=name, prefetch_count=prefetch, receipt=receipt))

    def unsubscribe(self, data: st.DataObject) -> None:
        c = self.conn(data)
        conn = self.model.conns[c]
        if not conn.subs and not conn.topics:
            return
        name = data.draw(st.sampled_from(sorted([*conn.subs, *conn.topics])))
        self.model.written()
        receipt = self.receipt(data)
        self.model.receipt(c, receipt)
        if name in conn.topics:
            conn.topics.remove(name)
        else:
            conn.ended.append(conn.subs.pop(name))
        self.say(unsubscribe(c, name.decode(), receipt))

    # ---- messages

    def send(self, data: st.DataObject) -> None:
        to = data.draw(st.sampled_from(TARGETS))
        lives_ms = data.draw(st.sampled_from([None, None, None, 0, 1, 1000]))
        dedup_id = data.draw(st.sampled_from([None, b"i", b"j", b"k"]))
        c = self.conn(data)
        conn = self.model.conns[c]
        self.model.written()
        expires_ms = self.model.now_ms + lives_ms if lives_ms is not None and to == "a" else None
        address = to if to.startswith("/") else f"/queue/{to}"
        said = Said(address, self.body(), dedup_id, expires_ms or 0)
        receipt = self.receipt(data)
        transaction = self.transaction(data, c)
        if transaction is not None:
            conn.sends[transaction].append(said)
            self.model.receipt(c, receipt)
        else:
            self.model.ask(c, [said], [], receipt)
        self.say(send(c, to, said.body, receipt, transaction=transaction, dedup_id=dedup_id, expires_ms=expires_ms))

    def answer(self, data: st.DataObject) -> None:
        verb = data.draw(st.sampled_from(["ack", "ack", "nack", "nack", "reject"]))
        c = data.draw(st.sampled_from(sorted(n for n, conn in self.free.items() if conn.unacked())))
        conn = self.model.conns[c]
        free = [item for item in conn.unacked() if item.transaction is None]
        if not free:
            return
        item: Item = data.draw(st.sampled_from(free))
        self.model.written()
        items = self.model.means(item)
        receipt = self.receipt(data)
        transaction = self.transaction(data, c)
        if transaction is not None:
            for one in items:
                one.transaction = transaction
            conn.settled[transaction] += [(verb, one) for one in items]
            self.model.receipt(c, receipt)
        else:
            self.model.receipt(c, receipt, self.model.batch if self.model.is_persistent(item.queue) else 0)
            for one in items:
                self.model.settle(verb, one)
        deliver = Deliver(c, None, item.message_id, None, True)  # type: ignore[arg-type]
        if verb == "ack":
            self.say(ack(deliver, receipt, transaction))
        else:
            self.say(nack(deliver, receipt, transaction, requeue=verb == "nack"))

    # ---- transactions

    def begin(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([b"t", b"u"]))
        c = self.conn(data)
        conn = self.model.conns[c]
        if name not in conn.sends:
            conn.sends[name], conn.settled[name] = [], []
            self.say(begin(c, name))

    def end(self, data: st.DataObject) -> None:
        commits = data.draw(st.sampled_from([True, True, False]))
        c = data.draw(st.sampled_from(sorted(n for n, conn in self.free.items() if conn.sends)))
        conn = self.model.conns[c]
        name = data.draw(st.sampled_from(sorted(conn.sends)))
        self.model.written()
        sends, settled = conn.sends.pop(name), conn.settled.pop(name)
        receipt = self.receipt(data)
        if commits:
            self.model.ask(c, sends, settled, receipt)
            self.say(commit(c, name, receipt))
        else:
            for _, item in settled:
                item.transaction = None
            self.model.receipt(c, receipt)
            self.say(Abort(c, name, receipt))

    # ---- the shell

    def seal(self, data: st.DataObject) -> None:
        self.node.seal()
        self.node.settle()

    def commit(self, data: st.DataObject) -> None:
        self.commit_one()
        self.lose_refused()

    def tick(self, data: st.DataObject) -> None:
        ms = data.draw(st.sampled_from([1, 500, 1000]))
        self.node.now_s += ms / 1000
        self.node.now_ms += ms
        self.model.now_ms += ms
        for _ in range(8):
            self.tell(Tick(GIB, 0))
        head = next((item for item in self.model.queues["a"] if item.state != OUT), None)
        assert head is None or head.state == STORING or not self.model.is_expired(head), "expired at the head"

    def restart(self, data: st.DataObject) -> None:
        way = data.draw(st.sampled_from(["crash", "crash", "stop"]))
        if way == "stop":
            self.stop()
        elif self.node.at_sea is not None and data.draw(st.booleans()):
            self.node.disk.commit(self.node.at_sea.writes)
            self.model.reached_the_disk(self.node.at_sea.number)
        self.model.crashed(clean=way == "stop")
        self.node = Watched(self.model, self.node.disk.platter)
        self.holds_commits = data.draw(st.booleans())
        self.connect(data)

    def stop(self) -> None:
        self.node._one([Stop()])
        while self.node.seal() or self.node.at_sea:
            self.model.thens.clear()
            self.node.commit()
        assert self.node.stopped
        for c in self.model.conns:
            self.check_receipts(c)
            assert self.model.conns[c].receipts == []

    # ---- what must hold after each of these

    def check_receipts(self, c: int) -> None:
        told = self.node.inbox[c]
        came = [r.receipt for r in told if isinstance(r, Receipt)]
        self.node.inbox[c] = []
        self.model.receipted(c, came)

    @invariant()
    def core_agrees_with_the_model(self) -> None:
        for c, conn in self.model.conns.items():
            self.check_receipts(c)
            assert conn.due_topics == []
            core = self.node.broker.connections[c]
            assert sorted(core.unacked) == sorted(i.message_id for i in conn.unacked())
        assert [*self.node.broker.parked] == [*self.model.asked]
        assert self.model.waiting_for_nothing() == []
        assert self.model.idle_consumers() == []
        for name, items in self.model.queues.items():
            numbers = self.node.numbers(name)
            states = [item.state for item in items]
            assert (numbers["messages"], numbers["in_flight"]) == (len(items), states.count("out")), name
            if QUEUES[name].persistent:
                assert self.node.stored(name) == [*self.model.disk[name]], name
        counts = {}
        platter = self.node.disk.platter
        for (number, position), (count, _) in platter.counts.items():
            counts[platter.queues[number][0], platter.messages[number, position].body] = count
        expected = {(q, body): n for q, there in self.model.disk.items() for body, n in there.items()}
        assert {key: n for key, n in counts.items() if n} == {key: n for key, n in expected.items() if n}

    def teardown(self) -> None:
        """Whatever happened: a consumer on each queue now drains it, in order, and the disk is empty."""
        self.holds_commits = False
        self.tell()
        assert not self.model.asked, "all is on the disk, and somebody still waits"
        self.model.crashed(clean=False)
        self.node = Watched(self.model, self.node.disk.platter)
        self.connections = c = self.connections + 1
        self.model.conns[c] = Conn()
        self.node.inbox[c], self.node.delivers[c] = [], 0
        self.tell(Open(c))
        for name in QUEUES:
            self.model.conns[c].subs[name.encode()] = Sub(name.encode(), name, AUTO, None)
            self.say(subscribe(c, name, AUTO))
        self.tell()
        self.core_agrees_with_the_model()
        assert not self.node.disk.platter.messages and not self.node.disk.platter.counts


EXAMPLES = int(os.environ.get("RADIATOR_EXAMPLES", "100"))


def small_bounds(patch: pytest.MonkeyPatch) -> None:
    """The model knows no slices: a long work is one step here."""
    shrink(patch, SMALL | {"CHORE_MESSAGES": 100})


def test_core_agrees_with_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    small_bounds(monkeypatch)
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=50,
            suppress_health_check=list(HealthCheck),
            deadline=None,
            report_multiple_bugs=False,
        ),
    )
