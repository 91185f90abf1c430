"""The core against the reference model (tests/sim/model.py) over random histories, with commits, crashes and stops.

Queues, exchanges and bindings come and go; messages are delayed, as they are sent and as they come back.

RADIATOR_EXAMPLES=5000 runs more of them; `scripts/prove model` runs many, each time others.
"""

import json
import os
from dataclasses import replace
from math import inf

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from radiator.core.connections import Connection
from radiator.core.kinds.queue import of_queue
from radiator.core.routing.admission import Waitable
from radiator.model.commands import (
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
    Send,
    Stop,
    Tick,
    Unsubscribe,
)
from radiator.model.limits import GIB
from radiator.model.replies import Deliver, Receipt, Reply
from radiator.model.settings import (
    DIRECT,
    JOURNAL,
    MEMORY_BYTES_MAX,
    MEMORY_MESSAGES_MAX,
    TOPIC,
    Binding,
    Declarations,
    ExchangeSettings,
    LogSettings,
    QueueSettings,
)
from radiator.model.writes import Declare, Delay, MakeDue, Put, Remove
from tests.core.conftest import SMALL, shrink
from tests.core.node import Node
from tests.core.words import ack, begin, commit, nack, send, subscribe, unsubscribe
from tests.sim.disk import Platter
from tests.sim.model import DELAYED, OUT, STORING, TOPICS, Bound, Conn, Due, Item, Model, SentMessage, Sub

QUEUES = {
    "a": QueueSettings(),
    "b": QueueSettings(dead_letter_exchange="", dead_letter_key="d", max_redeliveries=1),
    "d": QueueSettings(),
    "m": QueueSettings(persistent=False, dead_letter="md", max_redeliveries=2),
    "md": QueueSettings(persistent=False),
    "l": QueueSettings(redelivery_delay_ms=400, redelivery_delay_factor=2, redelivery_delay_max_ms=700),
    "o": QueueSettings(max_messages=2, overflow="drop-oldest"),
    "u": QueueSettings(dedup_window_s=10_000),
    "x": QueueSettings(
        max_messages=3, overflow="reject", dead_letter_exchange="", dead_letter_key="x", max_redeliveries=0
    ),
}
FANOUTS = {"f": ("a", "m", "b")}
MADE = {  # at run time: as JSON says it
    "e": {"expires_ms": 900},
    "n": {"persistent": False},
    "r": {"redelivery_delay_ms": 300, "redelivery_delay_factor": 1},
}
MADE_SETTINGS = {
    "e": QueueSettings(expires_ms=900),
    "n": QueueSettings(persistent=False, max_messages=MEMORY_MESSAGES_MAX, max_bytes=MEMORY_BYTES_MAX),
    "r": QueueSettings(redelivery_delay_ms=300, redelivery_delay_factor=1),
}
EXCHANGES = {"amq.direct": DIRECT, "amq.topic": TOPIC, "t": TOPIC}
MADE_EXCHANGES = {"s": True, "v": False}  # direct ones, and whether they are durable
BOUND = [Bound("t", "k.#", "b", False)]
KEYS = {DIRECT: ["k.a", "j"], TOPIC: ["k.a", "k.*", "#", "*.b"]}
DECLARED = Declarations(
    queues=QUEUES,
    fanouts=FANOUTS,
    create_topics=True,
    exchanges={"t": ExchangeSettings(type=TOPIC)},
    bindings=[Binding(one.exchange, one.key, one.queue) for one in BOUND],
)
WITH_JOURNAL = replace(DECLARED, logs={JOURNAL: LogSettings(retention_ms=None)}, has_journal=True)
TARGETS = ["a", "a", "a", "b", "b", "l", "m", "o", "o", "o", "u", "x", "/fanout/f", "/topic/t", *MADE]
EXCHANGED = ["/exchange/t/k.a", "/exchange/t/j", "/exchange/amq.topic/k.b", "/exchange/amq.direct/k.a",
             "/exchange/s/k.a", "/exchange/v/j"]  # fmt: skip
SOURCES = ["a", "a", "b", "d", "l", "m", "md", "o", "u", "x", "/topic/t", "/topic/#", *MADE]
SOURCES += ["/exchange/t/k.*", "/exchange/amq.direct/k.a", "/exchange/v/j"]  # a queue of one's own each
DURABLE = ["/topic/t", "/topic/#", "/exchange/t/k.*", "/exchange/amq.direct/k.a"]


def durable_queue(address: str, name: bytes) -> str:
    return f"$durable{address}/{name.decode()}"


class Watched(Node):
    """A Node whose model hears everything, in the order in which the core does."""

    def __init__(self, model: Model, platter: Platter | None = None, has_journal: bool = False) -> None:
        self.model: Model | None = None
        self.written_before = 0  # of the writes of the open batch: those that the model knows of
        self.batch_before = 0
        super().__init__(WITH_JOURNAL if has_journal else DECLARED, platter=platter, now_ms=model.now_ms)
        self.names = {number: name for number, (name, _) in self.disk.platter.queues.items()}
        self.auto = False
        self.heard = 0  # of the replies of this turn
        self.speaker: int | None = None  # whose Read this turn carries out
        self.carry_out = self.broker.blocking.carry_out
        self.broker.blocking.carry_out = self.carry_out_blocked  # type: ignore[method-assign]
        self.log.clear()
        self.model = model
        for key in [*self.disk.platter.messages, *((queue, at) for queue, _, at in self.disk.platter.delayed)]:
            if key[0] in self.names:
                message = self.disk.platter.messages.get(key)
                due_ms = self.disk.platter.delayed_at.get(key, 0)
                message = message or self.disk.platter.delayed[key[0], due_ms, key[1]].message
                model.places[key] = self.names[key[0]], message.body
        self.watch(model)
        model.batch = self.broker.context.open.number
        model.committed = self.broker.context.committed

    def _one(self, events: list[Event]) -> None:
        if self.model is not None:
            self.model.written()
            for event in events:
                if isinstance(event, Committed):
                    self.model.reached_the_disk(event.number)
                    self.model.batch_committed(event.number)
        self.speaker = next((event.connection for event in events if isinstance(event, Read)), None)
        super()._one(events)
        if self.model is not None:
            self.hear(self.model, self.log)
            self.log.clear()
            self.heard = 0
            stored = self.broker.destinations.queues.all["a"].ledger.stored
            self.model.expired("a", len(self.model.queues["a"]) - stored)

    def carry_out_blocked(self, connection: Connection, command: Command) -> Waitable | None:
        """What has waited is tried again. What it does comes behind all that this turn has said so far."""
        replies = self.broker.context.turn.replies
        replies_before = len(replies)
        room = self.carry_out(connection, command)
        if room is None and self.model is not None:
            self.hear(self.model, replies[:replies_before])
            self.model.carried_out(connection.number)
        return room

    def watch(self, model: Model) -> None:
        """What the open batch writes: places, and what it wakes."""
        batch = self.broker.context.open
        if batch.number != self.batch_before:
            self.batch_before, self.written_before = batch.number, 0
        new = batch.writes[self.written_before :]
        self.written_before = len(batch.writes)
        put = {(write.queue, write.position) for write in new if isinstance(write, Put)}
        for write in new:
            if isinstance(write, Declare):
                self.names[write.queue] = write.name
            elif isinstance(write, Put | Delay):
                model.places[write.queue, write.position] = self.names[write.queue], write.message.body
            elif isinstance(write, MakeDue):
                place = write.queue, write.position
                model.woke(*model.places[place], to_its_place=place in put)
            elif isinstance(write, Remove):
                model.removed(*model.places[write.queue, write.position])

    def hear(self, model: Model, replies: list[Reply]) -> None:
        """What the Read of this turn did, unless it waits; then the replies that are new."""
        self.watch(model)
        if self.speaker in model.asked and self.speaker not in self.broker.blocking.connections:
            model.carried_out(self.speaker)
        for reply in replies[self.heard :]:
            if isinstance(reply, Deliver) and reply.connection in model.conns:
                model.delivered(reply.connection, reply)
        self.heard = len(replies)

    def seal(self) -> bool:
        was_at_sea = self.being_committed is not None
        is_at_sea = super().seal()
        if self.model is not None and not was_at_sea:
            if is_at_sea:
                self.model.sealed()
            else:
                assert not self.model.effects.get(self.model.batch), "something should have been written"
        return is_at_sea

    def settle(self) -> None:
        """All that needs no commit."""
        while self.read_requests or self.again or self.broker.wants_turn or self.due():
            if self.read_requests:
                self.answer()
            else:
                self._one([])


class Machine(RuleBasedStateMachine):
    """has_journal: what is committed is held against the journal too."""

    has_journal = False

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(QUEUES, FANOUTS, EXCHANGES, BOUND, 1_700_000_000_000)
        self.node = Watched(self.model, has_journal=self.has_journal)
        self.bodies = 0
        self.connections = 0
        self.holds_commits = False
        self.started: object = None  # what a start was last tried on

    # ---- helpers

    def take_turn(self, *events: Event) -> None:
        self.node._one([*events])
        self.node.settle()
        while not self.holds_commits and (self.node.seal() or self.node.being_committed):
            self.commit_one()
        self.lose_refused()

    def lose_refused(self) -> None:
        """Who got an ERROR is who should have."""
        assert {n for n, c in self.node.broker.connections.items() if c.is_closing} == self.model.refused
        while self.model.refused:
            self.lose(self.model.refused.pop())

    def say(self, command: Command) -> None:
        self.take_turn(Read(command.connection, [command]))

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
        self.take_turn(Closed(c))
        self.node.inbox.pop(c)

    def transaction(self, data: st.DataObject, c: int) -> bytes | None:
        return data.draw(st.sampled_from([None, *sorted(self.model.conns[c].sends)]))

    # ---- connections and subscriptions

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        self.holds_commits = data.draw(st.booleans())
        self.connect(data)
        for name in data.draw(st.sampled_from([[], ["e"], ["e", "s"], ["n", "r"]])):
            self.declare(data, self.conn(data), name)
        self.connect(data)

    @rule(data=st.data())
    def one_thing(self, data: st.DataObject) -> None:
        """What happens most is drawn most often."""
        conns, free = self.model.conns, self.free.values()
        ways = [self.send] * 8 + [self.subscribe] * 2 + [self.begin] * 2 if free else []
        ways += [self.tick] + [self.connect] * (3 * (len(conns) < 3)) + [self.close] * (2 * (len(conns) > 1))
        ways += [self.unsubscribe] * any(c.subs or c.topics for c in free)
        ways += [self.answer] * (10 * any(c.unacked() for c in free)) + [self.end] * (3 * any(c.sends for c in free))
        ways += [self.seal] * (3 * self.holds_commits) + [self.commit] * (3 * (self.node.being_committed is not None))
        ways += [self.restart] + [self.administer] * (4 * bool(free)) + [self.subscribe_durable] * (2 * bool(free))
        ways += [self.unsubscribe_durable] * bool(free)
        if not conns:
            ways = [self.connect]
        data.draw(st.sampled_from(ways))(data)

    def connect(self, data: st.DataObject) -> None:
        self.connections += 1
        c = self.connections
        self.model.conns[c] = Conn()
        self.node.inbox[c], self.node.delivers[c] = [], 0
        self.take_turn(Open(c))
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
        if not source.startswith("/") and source not in self.model.queues:
            return
        exchange, _, pattern = source.removeprefix("/exchange/").partition("/")
        is_own = source.startswith("/exchange/")
        if is_own and exchange not in self.model.exchanges:
            return
        self.model.written()
        receipt = self.receipt(data)
        self.model.receipt(c, receipt)
        if source.startswith("/topic/"):
            conn.topics.add(name)
        elif is_own:
            conn.subs[name] = Sub(name, self.model.make_private(c, name, exchange, pattern), mode, prefetch)
        else:
            conn.subs[name] = Sub(name, source, mode, prefetch)
            self.model.used(source)
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
            conn.ended.append(sub := conn.subs.pop(name))
            self.model.ended(sub)
        self.say(unsubscribe(c, name.decode(), receipt))

    def subscribe_durable(self, data: st.DataObject) -> None:
        c = self.conn(data)
        every = [(address, name) for address in DURABLE for name in (b"1", b"2")]
        young = [one for one in every if self.made_in(durable_queue(*one))]  # on no disk yet
        address, name = data.draw(st.sampled_from(young or every))
        mode = data.draw(st.sampled_from([AUTO, CLIENT, CLIENT_INDIVIDUAL]))
        prefetch = data.draw(st.sampled_from([None, 2]))
        model, conn, queue = self.model, self.model.conns[c], durable_queue(address, name)
        if name in conn.subs or name in conn.topics:
            return
        model.written()
        receipt = b"r" + self.body() if young else self.receipt(data)
        if queue not in model.queues:
            model.make(queue, QueueSettings())
            kind, _, pattern = address[1:].partition("/")
            exchange, _, key = pattern.partition("/")
            model.bind(Bound(TOPICS, pattern, queue, True) if kind == "topic" else Bound(exchange, key, queue, True))
        must = self.made_in(queue)
        model.receipt(c, receipt, must)
        conn.may = model.batch
        if receipt is not None:
            conn.receipts[-1] = (receipt, conn.receipts[-1][1], model.batch)  # it may wait longer
        conn.subs[name] = Sub(name, queue, mode, prefetch)
        model.used(queue)
        self.say(subscribe(c, address, mode, name=name, prefetch_count=prefetch, receipt=receipt, durable=True))

    def unsubscribe_durable(self, data: st.DataObject) -> None:
        """Its end, by somebody who is subscribed or not, where nobody else is."""
        c = self.conn(data)
        model, conn = self.model, self.model.conns[c]
        there = [
            (address, name)
            for address in DURABLE
            for name in (b"1", b"2")
            if durable_queue(address, name) in model.queues
        ]
        if not there:
            return
        address, name = data.draw(st.sampled_from(there))
        queue = durable_queue(address, name)
        ours = conn.subs.get(name)
        others = [sub for sub in model.subs_of(queue) if sub is not ours]
        if others or (name in conn.topics) or (ours is not None and ours.queue != queue):
            return
        model.written()
        receipt = self.receipt(data)
        if ours is not None:
            conn.ended.append(conn.subs.pop(name))
        model.delete(queue)
        model.receipt(c, receipt, model.batch)
        self.say(Unsubscribe(c, name, receipt, durable=True, destination=address))

    # ---- /admin

    def ask(self, c: int, expected: dict[str, object], must: int, **request: object) -> None:
        """expected: what the answer has, `ok` too. must: the batch that it waits for."""
        granted = bool(expected["ok"])
        self.model.conns[c].answers.append(Due(expected, must, self.model.batch if granted else 0))
        body = json.dumps(request).encode()
        self.say(Send(c, "/admin", b"", 2, body, reply_to="answers", correlation_id=b"c"))

    def made_in(self, what: object) -> int:
        """The batch that something is made in, if it is on no disk yet."""
        number = self.model.made_in.get(what, 0)
        return number if number > self.model.committed else 0

    def administer(self, data: st.DataObject) -> None:
        way = data.draw(st.sampled_from([self.declare, self.delete, self.bind, self.bind, self.bind, self.purge]))
        c = self.conn(data)
        self.model.written()
        way(data, c)

    def declare(self, data: st.DataObject, c: int, name: str | None = None) -> None:
        model = self.model
        name = name or data.draw(st.sampled_from([*MADE, *MADE_EXCHANGES]))
        is_new = name not in model.queues and name not in model.exchanges
        if name in MADE:
            if is_new:
                model.make(name, MADE_SETTINGS[name])
            model.used(name)
            must = self.made_in(name) if model.is_persistent(name) else 0
            self.ask(c, {"ok": True, "created": is_new}, must, do="declare", queue=name, **MADE[name])
        else:
            is_durable = MADE_EXCHANGES[name]
            if is_new:
                model.make_exchange(name, DIRECT, is_durable)
            must = self.made_in(name) if is_durable else 0
            more = {"type": DIRECT, "durable": is_durable}
            self.ask(c, {"ok": True, "created": is_new}, must, do="declare", exchange=name, **more)

    def delete(self, data: st.DataObject, c: int) -> None:
        model = self.model
        name = data.draw(st.sampled_from([*MADE, *MADE_EXCHANGES]))
        kind = "queue" if name in MADE else "exchange"
        if name not in model.queues and name not in model.exchanges:
            self.ask(c, {"ok": False, "code": "no-such-destination"}, 0, do="delete", **{kind: name})
        elif name in MADE_EXCHANGES:
            is_durable = MADE_EXCHANGES[name]
            model.delete_exchange(name, is_durable)
            self.ask(c, {"ok": True, "deleted": 1}, model.batch if is_durable else 0, do="delete", exchange=name)
        elif model.is_in_use(name):
            self.ask(c, {"ok": False, "code": "in-use"}, 0, do="delete", queue=name)
        else:
            must = model.batch if model.is_persistent(name) else 0
            self.ask(c, {"ok": True, "deleted": model.delete(name)}, must, do="delete", queue=name)

    def purge(self, data: st.DataObject, c: int) -> None:
        queue = data.draw(st.sampled_from([q for q in ("a", "a", "b", "l", "m", "u", "e") if q in self.model.queues]))
        if any(item.is_doomed for item in self.model.queues[queue]):
            return
        due = Due({}, 0, inf)
        self.model.conns[c].answers.append(due)
        self.model.purge(queue, due)
        body = json.dumps({"do": "purge", "queue": queue}).encode()
        self.say(Send(c, "/admin", b"", 2, body, reply_to="answers", correlation_id=b"c"))

    def bind(self, data: st.DataObject, c: int) -> None:
        """Or unbind."""
        model = self.model
        exchange = data.draw(st.sampled_from(sorted(model.exchanges)))
        key = data.draw(st.sampled_from(KEYS[model.exchanges[exchange]]))
        queue = data.draw(
            st.sampled_from([q for q in model.queues if q[0] != "$" and q not in ("d", "md", *model.own)])
        )
        is_stored = model.is_persistent(queue) and MADE_EXCHANGES.get(exchange, True)
        one = Bound(exchange, key, queue, is_stored)
        request = {"exchange": exchange, "key": key, "queue": queue}
        is_there = one in model.bound
        if data.draw(st.booleans()):
            if not is_there:
                model.bind(one)
            must = self.made_in(one) if is_stored else 0
            self.ask(c, {"ok": True, "created": not is_there}, must, do="bind", **request)
        else:
            if is_there:
                model.unbind(one)
            must = model.batch if is_there and is_stored else 0
            self.ask(c, {"ok": True, "deleted": int(is_there)}, must, do="unbind", **request)

    # ---- messages

    def send(self, data: st.DataObject) -> None:
        to = data.draw(st.sampled_from(TARGETS if data.draw(st.integers(0, 3)) else EXCHANGED))
        delay_ms = data.draw(st.sampled_from([None] * 6 + [0, 400, 1000]))
        deliver_at_ms = data.draw(st.sampled_from([None] * 9 + [self.model.now_ms - 1, self.model.now_ms + 700]))
        mandatory, immediate = (data.draw(st.integers(0, 9)) == 0 for _ in range(2))
        lives_ms = data.draw(st.sampled_from([None, None, None, 0, 1, 1000]))
        dedup_id = data.draw(st.sampled_from([None, b"i", b"j", b"k"]))
        c = self.conn(data)
        conn = self.model.conns[c]
        self.model.written()
        expires_ms = self.model.now_ms + lives_ms if lives_ms is not None and to == "a" else None
        address = to if to.startswith("/") else f"/queue/{to}"
        found = SentMessage(
            address, self.body(), dedup_id, expires_ms or 0, delay_ms, deliver_at_ms, mandatory, immediate
        )
        receipt = self.receipt(data)
        transaction = self.transaction(data, c)
        if transaction is not None:
            conn.sends[transaction].append(found)
            self.model.receipt(c, receipt)
        else:
            self.model.ask(c, [found], [], receipt)
        more = {"delay_ms": delay_ms, "deliver_at_ms": deliver_at_ms, "mandatory": mandatory, "immediate": immediate}
        more |= {"transaction": transaction, "dedup_id": dedup_id, "expires_ms": expires_ms}
        self.say(send(c, to, found.body, receipt, **more))

    def answer(self, data: st.DataObject) -> None:
        verb = data.draw(st.sampled_from(["ack", "ack", "nack", "nack", "reject", "later:0", "later:600"]))
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
            self.model.receipt(c, receipt, self.model.batch if item.is_persistent else 0)
            for one in items:
                self.model.settle(verb, one)
        deliver = Deliver(c, None, item.message_id, None, True)  # type: ignore[arg-type]
        if verb == "ack":
            self.say(ack(deliver, receipt, transaction))
        else:
            found = nack(deliver, receipt, transaction, requeue=verb != "reject")
            found.delay_ms = int(verb.removeprefix("later:")) if verb.startswith("later:") else None
            self.say(found)

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
        self.pass_time(data.draw(st.sampled_from([1, 500, 1000])))

    def pass_time(self, ms: int) -> None:
        self.node.now_s += ms / 1000
        self.node.now_ms += ms
        self.model.now_ms += ms
        self.model.now_s = self.node.now_s
        for _ in range(8):
            self.model.written()
            self.model.ticked()
            self.take_turn(Tick(GIB, 0))
        if not self.holds_commits:
            assert self.model.late_ones() == [], "due, and not handed to a consumer that has room"
        head = next((item for item in self.model.queues["a"] if item.state not in (OUT, DELAYED)), None)
        if self.model.released_in.get("a", 0) <= self.model.committed:  # else nothing is read back
            assert head is None or head.state == STORING or not self.model.is_expired(head), "expired at the head"

    def restart(self, data: st.DataObject) -> None:
        way = data.draw(st.sampled_from(["crash", "crash", "stop"]))
        if way == "stop":
            self.stop()
        elif self.node.being_committed is not None and data.draw(st.booleans()):
            self.node.disk.commit(self.node.being_committed.writes)
            self.model.reached_the_disk(self.node.being_committed.number)
        self.model.crashed(clean=way == "stop")
        self.node = Watched(self.model, self.node.disk.platter, self.has_journal)
        self.holds_commits = data.draw(st.booleans())
        self.connect(data)

    def stop(self) -> None:
        self.node._one([Stop()])
        while self.node.seal() or self.node.being_committed:
            self.model.thens.clear()
            self.node.commit()
        assert self.node.stopped
        for c in self.model.conns:
            self.check_receipts(c)
            assert self.model.conns[c].receipts == []

    # ---- what must hold after each of these

    def check_receipts(self, c: int) -> None:
        replies = self.node.inbox[c]
        came = [r.receipt for r in replies if isinstance(r, Receipt)]
        self.node.inbox[c] = []
        self.model.receipted(c, came)

    @invariant()
    def a_start_takes_what_is_on_the_disk(self) -> None:
        """Whatever was said until now."""
        disk = self.node.disk
        if self.started != (disk, disk.commits):
            self.started = disk, disk.commits
            Node(self.node.declarations, self.node.limits, disk.platter)

    @invariant()
    def core_agrees_with_the_model(self) -> None:
        for c, conn in self.model.conns.items():
            self.check_receipts(c)
            assert conn.due_topics == []
            overdue = [due.wanted for due in conn.answers if due.may <= self.model.committed]
            assert not overdue, f"{overdue} should have been answered"
            core = self.node.broker.connections[c]
            assert sorted(core.unacked) == sorted(i.message_id for i in conn.unacked())
        assert [*self.node.broker.blocking.connections] == [*self.model.asked]
        assert self.model.waiting_for_nothing() == []
        assert self.model.idle_consumers() == []
        destinations = self.node.broker.destinations
        assert {*destinations.queues.all, *destinations.queues.durables} == {*self.model.queues} - self.model.own
        assert len(destinations.exchanges.private) == len(self.model.own)
        for name, items in self.model.queues.items():
            if name in self.model.own:
                continue
            numbers = of_queue(destinations.queues.find(name))
            states = [item.state for item in items]
            found = numbers.messages, numbers.unacked, numbers.delayed
            assert found == (len(items), states.count("out"), states.count("delayed")), name
            if self.model.is_persistent(name):
                wanted = sorted(self.model.disk[name], key=lambda body, name=name: self.model.serials[name, body])
                assert self.node.stored(name) == wanted, name
        counts, late = {}, {}
        platter = self.node.disk.platter
        names = {number: name for number, (name, _) in platter.queues.items()}
        for (number, position), (count, _) in platter.counts.items():
            if number in names:
                counts[names[number], platter.messages[number, position].body] = count
        for (number, due_ms, _), row in platter.delayed.items():
            if number in names:
                late[names[number], row.message.body] = due_ms, row.redeliveries
        assert late == {(q, body): found for q, there in self.model.late.items() for body, found in there.items()}
        bound = {(exchange, key, names[number]) for exchange, key, number in platter.bindings}
        assert bound == {(one.exchange, one.key, one.queue) for one in self.model.on_disk_bound}
        assert {name for kind, name in platter.declared} == {*self.model.on_disk_exchanges}
        expected = {(q, body): n for q, there in self.model.disk.items() for body, n in there.items()}
        assert {key: n for key, n in counts.items() if n} == {key: n for key, n in expected.items() if n}

    def teardown(self) -> None:
        """Whatever happened: a consumer on each queue now drains it, in order, and the disk is empty."""
        self.holds_commits = False
        self.take_turn()
        assert not self.model.asked, "all is on the disk, and somebody still waits"
        self.model.crashed(clean=False)
        self.node = Watched(self.model, self.node.disk.platter, self.has_journal)
        for name in [*self.model.queues]:
            if name in self.model.queues:
                self.drain(name)
        self.core_agrees_with_the_model()
        self.pass_time(3000)
        platter = self.node.disk.platter
        assert not platter.messages and not platter.counts and not platter.delayed

    def drain(self, queue: str) -> None:
        """A consumer on a connection of its own."""
        self.connections = c = self.connections + 1
        self.model.conns[c] = Conn()
        self.node.inbox[c], self.node.delivers[c] = [], 0
        self.take_turn(Open(c))
        address, name, is_durable = f"/queue/{queue}", queue.encode(), queue.startswith("$durable")
        if is_durable:
            address, _, id = queue.removeprefix("$durable").rpartition("/")
            name = id.encode()
        self.model.conns[c].subs[name] = Sub(name, queue, AUTO, None)
        self.say(subscribe(c, address, AUTO, name=name, durable=is_durable))


EXAMPLES = int(os.environ.get("RADIATOR_EXAMPLES", "100"))


def small_bounds(patch: pytest.MonkeyPatch) -> None:
    """The model knows no slices: a long work is one step here."""
    shrink(patch, SMALL | {"STEP_MESSAGES": 100})


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
