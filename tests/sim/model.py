"""What the broker must do, said with lists and dicts: slow, small, obviously right.

It knows nothing of windows, loads, rings or slices. It is told what a client says and what the shell reports, and
judges what the broker replies: a delivery must be the head of its queue, for a consumer that has room; receipts must
come as soon as they may, in order, and not before; the disk must hold exactly what was committed.

A SEND or COMMIT that must drop something may wait until that is on the disk. Whether it does is the broker's to say;
the model judges whether it may, and carries it out when the broker does. Just so the broker says when it wakes a
delayed message of a persistent queue, by its Wake: the model judges whether that is due.

Bodies are unique, so (queue, body) names a message.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from radiator.model.commands import AUTO, CLIENT
from radiator.model.patterns import matches
from radiator.model.replies import Deliver
from radiator.model.settings import DIRECT, DROP_OLDEST, FANOUT, QueueSettings

STORING, READY, OUT, DELAYED, DUE = "storing", "ready", "out", "delayed", "waking"
START_S = 100.0  # what a node's monotonic clock shows as it starts
TOPICS = ""  # in the place of an exchange: what is sent to topics


@dataclass(eq=False)
class Item:
    """A message in a queue. A queue lists its items in the order of acceptance (`serial`), until they leave."""

    queue: str
    body: bytes
    state: str
    serial: int = 0
    due_ms: int = 0
    expires_ms: int = 0
    count: int = 0
    marked: bool = False
    message_id: bytes = b""
    out_with: "Sub | None" = None
    handed: int = 0
    transaction: bytes | None = None
    is_persistent: bool = True
    is_gone: bool = False  # its queue was deleted while it was out: its answer means nothing any more
    is_doomed: bool = False  # a purge has said so: nobody is given it, and it goes as soon as it is read back
    may_pass: bool = False  # its time was over when it came: who has room as it becomes ready gets it, once, or nobody


@dataclass(eq=False)
class Due:
    """An answer of /admin: what it must have, the batch that it must wait for, and the one that it may wait for."""

    wanted: dict[str, object]
    must: int
    may: float


@dataclass(eq=False)
class Sub:
    name: bytes
    queue: str
    mode: str
    prefetch: int | None
    out: list[Item] = field(default_factory=list)


@dataclass
class SentMessage:
    """A SEND as it was said. until_ms: it is kept back till then, 0: it is not."""

    to: str
    body: bytes
    dedup_id: bytes | None = None
    expires_ms: int = 0
    delay_ms: int | None = None
    deliver_at_ms: int | None = None
    mandatory: bool = False
    immediate: bool = False


@dataclass(frozen=True)
class Bound:
    """A binding. is_stored: it outlives a crash."""

    exchange: str
    key: str
    queue: str
    is_stored: bool


@dataclass
class Conn:
    subs: dict[bytes, Sub] = field(default_factory=dict)
    ended: list[Sub] = field(default_factory=list)
    topics: set[bytes] = field(default_factory=set)
    due_topics: list[tuple[bytes, bytes]] = field(default_factory=list)
    sends: dict[bytes, list[SentMessage]] = field(default_factory=dict)
    settled: dict[bytes, list[tuple[str, Item]]] = field(default_factory=dict)
    # due: each with the batch that it must wait for, and the one that it may wait for
    receipts: list[tuple[bytes, int, int]] = field(default_factory=list)
    answers: list[Due] = field(default_factory=list)
    rest_batch: int = 0  # the last whose commit does what a plan of this connection does outside the disk
    must: int = 0
    may: int = 0

    def all_subs(self) -> list[Sub]:
        return [*self.subs.values(), *self.ended]

    def unacked(self) -> list[Item]:
        return [item for sub in self.all_subs() if sub.mode != AUTO for item in sub.out]


@dataclass
class Asked:
    """A SEND, or a COMMIT with all that its transaction holds."""

    sends: list[SentMessage]
    settled: list[tuple[str, Item]]
    receipt: bytes | None


class Refused(Exception):
    """The broker must answer with an ERROR."""


class Model:
    """`disk`: queue -> body -> redelivery count, as committed. `late`: the same of what is delayed, with its time.
    `batch`: the number of the open batch. exchanges: name -> type. Those in `declared` are of the configuration.
    """

    def __init__(
        self,
        settings: dict[str, QueueSettings],
        fanouts: dict[str, tuple[str, ...]],
        exchanges: dict[str, str],
        bound: list[Bound],
        now_ms: int,
    ) -> None:
        self.declared_settings, self.declared_exchanges, self.declared_bound = settings, exchanges, bound
        self.settings = dict(settings)
        self.exchanges = dict(exchanges)
        self.bound = [*bound]
        # of what is made at run time: on the disk
        self.on_disk_settings: dict[str, QueueSettings] = {}
        self.on_disk_exchanges: dict[str, str] = {}
        self.on_disk_bound: list[Bound] = []
        self.fanouts = fanouts
        self.now_ms = now_ms
        self.now_s = START_S
        self.unused_since_s: dict[str, float] = dict.fromkeys(settings, START_S)
        self.released_in: dict[str, int] = {}  # queue -> the last batch that has a Wake of it
        self.made_in: dict[object, int] = {}  # of what is made at run time, and of each binding: its batch
        self.reserved: dict[str, int] = {}
        self.purges: dict[str, Due] = {}  # queue -> the answer to the purge of it that goes on
        self.own: set[str] = set()  # queues of those who subscribe to an exchange, each for one subscription alone
        self.serial = 0
        self.serials: dict[tuple[str, bytes], int] = {}
        self.places: dict[tuple[int, int], tuple[str, bytes]] = {}  # queue's number, position -> name, body
        self.late: dict[str, dict[bytes, tuple[int, int]]] = {name: {} for name in settings}
        self.expiry: dict[tuple[str, bytes], int] = {}
        self.handed = 0
        self.queues: dict[str, list[Item]] = {name: [] for name in settings}
        self.disk: dict[str, dict[bytes, int]] = {name: {} for name in settings}
        self.remembered: dict[tuple[str, bytes], int] = {}
        self.on_disk_remembered: set[tuple[str, bytes]] = set()
        self.conns: dict[int, Conn] = {}
        # SENDs and COMMITs that are not carried out yet, first come first; and who must be answered with an ERROR
        self.asked: dict[int, Asked] = {}
        self.refused: set[int] = set()
        self.batch = 1
        self.committed = 0
        self.effects: dict[int, list[Callable[[], None]]] = {}  # what a commit does to the disk
        self.thens: dict[int, list[Callable[[], None]]] = {}  # and what happens at that moment otherwise

    # ---- the disk -------------------------------------------------------------------------------------------------

    def on_commit(self, effect: Callable[[], None]) -> None:
        self.effects.setdefault(self.batch, []).append(effect)

    def sealed(self) -> None:
        self.batch += 1

    def reached_the_disk(self, number: int) -> None:
        for effect in self.effects.pop(number, []):
            effect()

    def batch_committed(self, number: int) -> None:
        self.committed = number
        for items in self.queues.values():
            for item in items:
                if item.state in (STORING, DUE) and item.body in self.disk.get(item.queue, {}):
                    item.state = READY
        for then in self.thens.pop(number, []):
            then()
        self.make_due_in_memory()  # what a transaction puts there may have become due on the way to the disk

    def crashed(self, clean: bool) -> None:
        """Only what is on the disk is there; all of it is marked, or, after a clean stop, what was out."""
        out = {(i.queue, i.body) for items in self.queues.values() for i in items if i.state == OUT or i.marked}
        self.now_s = START_S
        self.settings = self.declared_settings | self.on_disk_settings
        self.exchanges = self.declared_exchanges | self.on_disk_exchanges
        self.bound = [*self.declared_bound, *self.on_disk_bound]
        self.places = {}
        self.queues = {}
        for name, settings in self.settings.items():
            self.unused_since_s[name] = self.now_s
            disk, late = self.disk.setdefault(name, {}), self.late.setdefault(name, {})
            assert settings.persistent or not disk
            found = [(body, READY, 0, count) for body, count in disk.items()]
            found += [(body, DELAYED, due_ms, count) for body, (due_ms, count) in late.items()]
            items = []
            for body, state, due_ms, count in found:
                key = name, body
                items.append(
                    Item(name, body, state, self.serials[key], due_ms, self.expiry.get(key, 0), count,
                         not clean or key in out)
                )  # fmt: skip
            self.queues[name] = sorted(items, key=lambda item: item.serial)
        self.remembered = dict.fromkeys(self.on_disk_remembered, 0)
        self.conns, self.effects, self.thens = {}, {}, {}
        self.asked, self.refused = {}, set()
        self.batch, self.committed = 1, 0
        self.made_in, self.reserved, self.released_in = {}, {}, {}
        self.own, self.purges = set(), {}

    # ---- messages in and out ----------------------------------------------------------------------------------------

    def is_persistent(self, queue: str) -> bool:
        return self.settings[queue].persistent

    def put(self, queue: str, body: bytes, expires_ms: int = 0, due_ms: int = 0) -> None:
        persistent = self.is_persistent(queue)
        self.serial += 1
        state = DELAYED if due_ms else STORING if persistent else READY
        if due_ms and expires_ms:
            due_ms = min(due_ms, expires_ms)  # then it is let go of
        item = Item(queue, body, state, self.serial, due_ms, expires_ms, is_persistent=persistent)
        item.may_pass = not due_ms and self.is_expired(item)
        self.queues[queue].append(item)
        self.serials[queue, body] = self.serial
        if persistent:
            self.expiry[queue, body] = expires_ms
            if due_ms:
                self.on_commit(lambda: self.late[queue].__setitem__(body, (due_ms, 0)))
            else:
                self.on_commit(lambda: self.disk[queue].__setitem__(body, 0))

    def leave(self, item: Item) -> None:
        if item.is_gone:
            self.let_go(item)
            return
        self.queues[item.queue].remove(item)
        if item.out_with is not None:
            item.out_with.out.remove(item)
        if self.is_persistent(item.queue):
            there = self.late if item.state == DELAYED else self.disk
            self.on_commit(lambda: there[item.queue].__delitem__(item.body))

    def let_go(self, item: Item) -> None:
        """Of a queue that is gone: its consumer has answered, or is gone too."""
        if item.out_with is not None:
            item.out_with.out.remove(item)
            item.out_with = None

    def hold(self, item: Item, until_ms: int) -> None:
        """It has come back, and is kept until then."""
        if item.expires_ms:
            until_ms = min(until_ms, item.expires_ms)
        item.state, item.due_ms = DELAYED, until_ms
        if self.is_persistent(item.queue):
            queue, body, count = item.queue, item.body, item.count
            self.on_commit(lambda: self.disk[queue].__delitem__(body))
            self.on_commit(lambda: self.late[queue].__setitem__(body, (until_ms, count)))

    def purge(self, queue: str, due: Due) -> None:
        """All that is not out goes: in memory now, from the disk as it is read back."""
        items = [item for item in self.queues[queue] if item.state != OUT]
        due.wanted = {"ok": True, "purged": len(items)}
        for item in items:
            if item.is_persistent:
                item.is_doomed = True
            else:
                self.leave(item)
        self.purges[queue] = due

    def removed(self, queue: str, body: bytes) -> None:
        """The broker has written that it goes: what a purge has doomed goes when it says so."""
        item = next((i for i in self.queues.get(queue, ()) if i.body == body and i.is_doomed), None)
        if item is not None:
            self.leave(item)
            self.purges[queue].must = self.batch

    def woke(self, queue: str, body: bytes, to_its_place: bool) -> None:
        """The broker has written a Wake: of something that is due, for its place or, if it is expired, for good."""
        self.released_in[queue] = self.batch
        item = next(i for i in self.queues[queue] if i.body == body)
        if item.is_doomed and not to_its_place:
            self.removed(queue, body)
            return
        assert item.state == DELAYED, f"{body!r} of {queue} is woken, and it is {item.state}"
        assert item.due_ms <= self.now_ms, f"{body!r} of {queue} is woken {item.due_ms - self.now_ms} ms early"
        if not to_its_place:
            assert self.is_expired(item), f"{body!r} of {queue} has left as it was due, and has not expired"
            self.leave(item)
            return
        assert not self.is_expired(item), f"{body!r} of {queue} has expired, and is woken for its place"
        item.state = DUE
        count = item.count
        self.on_commit(lambda: self.late[queue].__delitem__(body))
        self.on_commit(lambda: self.disk[queue].__setitem__(body, count))

    def ticked(self) -> None:
        """What is due in memory queues is ready; an unused queue is gone."""
        self.make_due_in_memory()
        for name in [*self.queues]:
            expires_ms = self.settings[name].expires_ms if name in self.settings else None
            if expires_ms is None:
                continue
            if self.is_in_use(name):
                self.used(name)
            elif self.now_s - self.unused_since_s[name] >= expires_ms / 1000:
                self.delete(name)

    def make_due_in_memory(self) -> None:
        there = [item for name, items in self.queues.items() if not self.is_persistent(name) for item in items]
        for item in [item for item in there if item.state == DELAYED and item.due_ms <= self.now_ms]:
            if self.is_expired(item):
                self.leave(item)
            else:
                item.state = READY

    def late_ones(self) -> list[tuple[str, bytes]]:
        """Due, and with a consumer that has room and nothing else to be given: there must be none when all is quiet."""
        found = []
        for conn in self.conns.values():
            for sub in conn.subs.values():
                due = [i for i in self.queues[sub.queue] if i.state in (DELAYED, DUE) and i.due_ms <= self.now_ms]
                due = [item for item in due if not item.is_doomed]
                if due and self.can_take(conn, sub) and self.head(sub.queue) is None:
                    found.append((sub.queue, due[0].body))
        return found

    # ---- what is made and unmade ------------------------------------------------------------------------------------

    def subs_of(self, queue: str) -> list[Sub]:
        return [sub for conn in self.conns.values() for sub in conn.subs.values() if sub.queue == queue]

    def is_in_use(self, queue: str) -> bool:
        """Whether it has a consumer, or something unacked."""
        return bool(self.subs_of(queue)) or any(item.state == OUT for item in self.queues[queue])

    def used(self, queue: str) -> None:
        self.unused_since_s[queue] = self.now_s

    def make(self, queue: str, settings: QueueSettings) -> None:
        self.settings[queue] = settings
        self.queues[queue] = []
        self.disk.setdefault(queue, {})  # an earlier one of that name may be there still
        self.late.setdefault(queue, {})
        self.used(queue)
        self.made_in[queue] = self.batch
        if settings.persistent:
            self.on_commit(lambda: self.on_disk_settings.__setitem__(queue, settings))

    def delete(self, queue: str) -> int:
        """With what is in it, and its bindings. How many messages that were."""
        items = self.queues.pop(queue)
        due = self.purges.pop(queue, None)
        for conn in self.conns.values():
            conn.answers = [other for other in conn.answers if other is not due]  # nobody hears of that purge any more
        for item in items:
            item.is_gone = True
        settings = self.settings.pop(queue)
        for one in [one for one in self.bound if one.queue == queue]:
            self.unbind(one)
        if settings.persistent:

            def gone() -> None:
                del self.on_disk_settings[queue]
                self.disk[queue], self.late[queue] = {}, {}
                for key in [key for key in self.on_disk_remembered if key[0] == queue]:
                    self.on_disk_remembered.discard(key)

            self.on_commit(gone)
        for key in [key for key in self.remembered if key[0] == queue]:
            del self.remembered[key]
        return len(items)

    def make_private(self, c: int, name: bytes, exchange: str, pattern: str) -> str:
        """The queue of one's own of that subscription."""
        queue = f"own {c} {name.decode()}"
        self.make(queue, QueueSettings(persistent=False))
        self.own.add(queue)
        self.bind(Bound(exchange, pattern, queue, False))
        return queue

    def make_exchange(self, name: str, kind: str, is_durable: bool) -> None:
        self.exchanges[name] = kind
        self.made_in[name] = self.batch
        if is_durable:
            self.on_commit(lambda: self.on_disk_exchanges.__setitem__(name, kind))

    def delete_exchange(self, name: str, is_durable: bool) -> None:
        del self.exchanges[name]
        for one in [one for one in self.bound if one.exchange == name]:
            self.unbind(one)
        if is_durable:
            self.on_commit(lambda: self.on_disk_exchanges.__delitem__(name))

    def bind(self, one: Bound) -> None:
        self.bound.append(one)
        self.made_in[one] = self.batch
        if one.is_stored:
            self.on_commit(lambda: self.on_disk_bound.append(one))

    def unbind(self, one: Bound) -> None:
        self.bound.remove(one)
        if one.is_stored:
            self.on_commit(lambda: self.on_disk_bound.remove(one))

    def routed(self, exchange: str, key: str) -> list[str]:
        """The queues that something sent there goes to, each once."""
        kind = self.exchanges.get(exchange)
        found = {}
        for one in self.bound:
            if one.exchange == exchange:
                is_match = one.key == key if kind == DIRECT else kind == FANOUT or matches(one.key, key)
                found |= {one.queue: None} if is_match else {}
        return [*found]

    def dead(self, item: Item, is_rejected: bool = False) -> None:
        self.leave(item)
        settings = self.settings[item.queue]
        target = settings.dead_letter if settings.dead_letter_exchange is None else settings.dead_letter_key
        if target is not None and (is_rejected or target != item.queue):  # what dies by itself goes round in no circle
            self.put(target, item.body)

    def rejected(self, item: Item) -> None:
        self.dead(item, is_rejected=True)

    def is_expired(self, item: Item) -> bool:
        return 0 < item.expires_ms <= self.now_ms

    def back(self, item: Item, delay_ms: int | None = None) -> None:
        settings = self.settings[item.queue]
        if self.is_expired(item) or (settings.has_dead_letters and item.count >= settings.redeliveries_most):
            self.dead(item)
            return
        assert item.out_with is not None
        item.out_with.out.remove(item)
        item.state, item.out_with, item.transaction = READY, None, None
        item.count, item.marked = item.count + 1, True
        if delay_ms is None and settings.redelivery_delay_ms:
            growth = settings.redelivery_delay_factor ** (item.count - 1)
            delay_ms = int(min(settings.redelivery_delay_max_ms, settings.redelivery_delay_ms * growth))
        if delay_ms:
            self.hold(item, self.now_ms + delay_ms)
        elif self.is_persistent(item.queue):
            count = item.count
            self.on_commit(lambda: self.disk[item.queue].__setitem__(item.body, count))

    def settle(self, verb: str, item: Item) -> None:
        """verb: ack, nack, reject, or `later:MS`."""
        if item.is_gone:
            self.let_go(item)
        elif verb.startswith("later:"):
            self.back(item, int(verb.removeprefix("later:")))
        else:
            {"ack": self.leave, "nack": self.back, "reject": self.rejected}[verb](item)

    # ---- what clients say -------------------------------------------------------------------------------------------

    def receipt(self, c: int, receipt: bytes | None, batch: int = 0) -> None:
        conn = self.conns[c]
        conn.may = max(conn.may, batch)
        if receipt is not None:
            conn.must = max(conn.must, batch)
            conn.receipts.append((receipt, conn.must, conn.may))

    def ask(self, c: int, sends: list[SentMessage], settled: list[tuple[str, Item]], receipt: bytes | None) -> None:
        """A SEND, or a COMMIT: the broker is about to hear it."""
        self.asked[c] = Asked(sends, settled, receipt)

    def carried_out(self, c: int) -> None:
        """The broker has let it in, or refused it: it waits no longer."""
        asked = self.asked.pop(c)
        try:
            self.take(c, asked.sends, asked.settled, asked.receipt)
        except Refused:
            self.refused.add(c)

    def waiting_for_nothing(self) -> list[int]:
        """Connections that wait although all that must be dropped for them is on the disk, and nobody waits there that
        came first: there must be none.
        """
        wrong = []
        lines: set[str] = set()
        for c, asked in self.asked.items():
            puts, _ = self.arrivals(asked.sends)
            full = {q for q, _ in puts if self.settings[q].overflow == DROP_OLDEST}
            dropped = [item for q in full for item in self.oldest(q, sum(to == q for to, _ in puts))]
            reads_back = all(self.released_in.get(queue, 0) <= self.committed for queue in full)
            if not lines & full and reads_back and all(item.state not in (STORING, DUE) for item in dropped):
                wrong.append(c)
            lines |= full
        return wrong

    def arrivals(self, sends: list[SentMessage]) -> tuple[list[tuple[str, SentMessage]], int]:
        """What goes into queues, without duplicates; and the batch that these wait for."""
        puts: list[tuple[str, SentMessage]] = []
        waits_for = 0
        for found in sends:
            for queue in self.leads_to(found):
                key = (queue, found.dedup_id or b"")
                counts = found.dedup_id is not None and self.settings[queue].dedup_window_s > 0
                is_here = any(q == queue and s.dedup_id == found.dedup_id for q, s in puts)
                if counts and (key in self.remembered or is_here):
                    waits_for = max(waits_for, self.remembered.get(key, 0))
                    continue
                puts.append((queue, found))
        return puts, waits_for

    def leads_to(self, found: SentMessage) -> list[str]:
        """The queues that it goes to. Raises Refused."""
        kind, _, name = found.to[1:].partition("/")
        if kind == "topic":
            return self.routed(TOPICS, name)
        if kind == "exchange":
            exchange, _, key = name.partition("/")
            if exchange not in self.exchanges:
                raise Refused
            return self.routed(exchange, key)
        queues = [*self.fanouts[name]] if kind == "fanout" else [name]
        if any(queue not in self.queues for queue in queues):
            raise Refused
        return queues

    def due_ms(self, found: SentMessage) -> int:
        if found.delay_ms is None and found.deliver_at_ms is None:
            return 0
        due_ms = max(self.now_ms + (found.delay_ms or 0), found.deliver_at_ms or 0)
        return due_ms if due_ms > self.now_ms else 0

    def judge_wishes(self, found: SentMessage, puts: list[tuple[str, SentMessage]]) -> None:
        """`mandatory` and `immediate`. Raises Refused."""
        queues = self.leads_to(found)
        is_topic = found.to.startswith("/topic/")
        is_heard = is_topic and any(conn.topics for conn in self.conns.values())
        if found.mandatory and not queues and not is_heard and not found.to.startswith("/queue/"):
            raise Refused
        if not found.immediate:
            return
        if is_topic:
            if not is_heard and not any(self.could_take_now(queue, 1) for queue in queues):
                raise Refused
        elif (
            not queues
            or self.due_ms(found)
            or not all(self.could_take_now(queue, sum(q == queue for q, _ in puts)) for queue in queues)
        ):
            raise Refused

    def is_plain(self, found: SentMessage) -> bool:
        """A SEND to one queue that asks for nothing more: what it does is never held back."""
        has_wishes = found.delay_ms is not None or found.deliver_at_ms is not None or found.immediate
        return found.to.startswith("/queue/") and not has_wishes

    def could_take_now(self, queue: str, count: int) -> bool:
        """Whether its consumers have room for so many beside all that is there for them already."""
        if not count:
            return True  # a duplicate
        wanted = sum(item.state in (READY, STORING, DUE) for item in self.queues[queue])
        wanted += self.reserved.get(queue, 0) + count
        for conn in self.conns.values():
            for sub in conn.subs.values():
                if sub.queue == queue and self.can_take(conn, sub):
                    if sub.mode == AUTO:
                        return True
                    wanted -= 1 if sub.prefetch is None else sub.prefetch - len(sub.out)
                    if wanted <= 0:
                        return True
        return False

    def take(self, c: int, sends: list[SentMessage], settled: list[tuple[str, Item]], receipt: bytes | None) -> None:
        """A SEND, or a whole transaction: judged first, then all of it happens. Raises Refused."""
        is_plan = len(sends) != 1 or bool(settled) or not self.is_plain(sends[0])
        puts, waits_for = self.arrivals(sends)
        for found in sends:
            self.judge_wishes(found, puts)
            if (found.delay_ms is not None or found.deliver_at_ms is not None) and found.to.startswith("/topic/"):
                raise Refused
        for queue in {queue for queue, _ in puts}:
            self.judge(queue, sum(q == queue for q, _ in puts))
        durable = any(self.is_persistent(q) for q, _ in puts) or any(item.is_persistent for _, item in settled)
        due = [self.due_ms(found) for _, found in puts]
        in_memory = [item for _, item in settled if not item.is_persistent]
        conn = self.conns[c]
        outside = [queue for queue, _ in puts if not self.is_persistent(queue)]
        promised = [queue for queue in outside if queue not in self.own]
        has_rest = bool(outside or in_memory or any(found.to.startswith("/topic/") for found in sends))
        must_wait = has_rest and (durable or (is_plan and conn.rest_batch > self.committed))
        for queue in {queue for queue, _ in puts}:
            for item in self.oldest(queue, sum(q == queue for q, _ in puts)):
                self.leave(item)
        for queue, found in puts:
            if self.is_persistent(queue):
                self.put(queue, found.body, found.expires_ms, self.due_ms(found))
                if found.dedup_id is not None and self.settings[queue].dedup_window_s:
                    key = (queue, found.dedup_id)
                    self.remembered[key] = self.batch
                    self.on_commit(lambda key=key: self.on_disk_remembered.add(key))  # type: ignore[misc]
        for verb, item in settled:
            item.transaction = None
            if item.is_persistent:
                self.settle(verb, item)
            elif must_wait and item.out_with is not None:
                item.out_with.out.remove(item)  # its window is open, and no lost connection reaches it
                item.out_with = Sub(b"", item.queue, CLIENT, 1, [item])

        def rest() -> None:
            for queue in promised if must_wait else ():
                self.reserved[queue] -= 1
            for verb, item in settled:
                if item in in_memory:
                    self.settle(verb, item)
            for (queue, found), due_ms in zip(puts, due, strict=True):
                if queue in self.queues and not self.is_persistent(queue):
                    self.put(queue, found.body, found.expires_ms, due_ms)
            for found in sends:
                for conn in self.conns.values():
                    conn.due_topics += [(sub, found.body) for sub in conn.topics if found.to.startswith("/topic/")]

        if must_wait:
            self.thens.setdefault(self.batch, []).append(rest)
            conn.rest_batch = self.batch
            for queue in promised:
                self.reserved[queue] = self.reserved.get(queue, 0) + 1
        else:
            rest()
        self.receipt(c, receipt, self.batch if durable or must_wait else waits_for)

    def judge(self, queue: str, count: int) -> None:
        most = self.settings[queue].max_messages
        if most is not None and len(self.queues[queue]) + count > most:
            out = sum(item.state in (OUT, DELAYED) for item in self.queues[queue])
            if self.settings[queue].overflow != DROP_OLDEST or out + count > most:
                raise Refused

    def oldest(self, queue: str, count: int) -> list[Item]:
        """Those that must be dropped so that so many fit."""
        most = self.settings[queue].max_messages
        too_many = 0 if most is None else max(0, len(self.queues[queue]) + count - most)
        return [item for item in self.queues[queue] if item.state not in (OUT, DELAYED)][:too_many]

    def written(self) -> None:
        """Everything posted so far is with the operating system."""
        for conn in self.conns.values():
            for sub in conn.all_subs():
                if sub.mode == AUTO:
                    for item in [*sub.out]:
                        self.leave(item)

    def means(self, item: Item) -> list[Item]:
        """What an ACK or NACK of this one settles."""
        sub = item.out_with
        assert sub is not None
        if sub.mode != CLIENT:
            return [item]
        return [i for i in sub.out[: sub.out.index(item) + 1] if i.transaction is None]

    def closed(self, c: int) -> None:
        conn = self.conns.pop(c)
        self.asked.pop(c, None)
        for sub in conn.subs.values():
            self.ended(sub)
        for item in sorted((i for sub in conn.all_subs() for i in sub.out), key=lambda i: i.handed):
            if not item.is_gone:
                self.back(item)

    def ended(self, sub: Sub) -> None:
        """A subscription is over, and its connection has forgotten it."""
        if sub.queue in self.own:
            self.own.remove(sub.queue)
            self.delete(sub.queue)
        elif sub.queue in self.queues:
            self.used(sub.queue)

    def expired(self, queue: str, count: int) -> None:
        """So many have left by expiry: the foremost, and no others."""
        gone = [i for i in self.queues[queue] if i.state == READY and self.is_expired(i)][:count]
        assert len(gone) == count, f"{queue} has lost {count} messages, of which only {len(gone)} are expired"
        for item in gone:
            self.leave(item)

    # ---- what the broker says ---------------------------------------------------------------------------------------

    def can_take(self, conn: Conn, sub: Sub) -> bool:
        if sub.mode == AUTO:
            return True
        if sub.prefetch is not None:
            return len(sub.out) < sub.prefetch
        return not any(s.out for s in conn.all_subs() if s.mode != AUTO and s.prefetch is None)

    def head(self, queue: str, body: bytes | None = None) -> Item | None:
        """What is delivered next. body: of what was delivered, if anything was: it may be one that may not wait."""
        ready = (i for i in self.queues[queue] if i.state == READY and not i.is_doomed)
        return next((i for i in ready if not self.is_expired(i) or (i.may_pass and i.body == body)), None)

    def delivered(self, c: int, deliver: Deliver) -> None:
        conn, name, body = self.conns[c], deliver.subscription or b"", deliver.message.body
        if name.startswith(b"/temp-queue/"):
            self.answered(conn, json.loads(body))
            return
        if deliver.message_id.endswith(b"t"):
            conn.due_topics.remove((name, body))
            return
        sub = conn.subs[name]
        assert self.can_take(conn, sub), f"{name!r} has no room for {body!r}"
        if not self.is_persistent(sub.queue) and any(
            item.body == body and item.state == DELAYED for item in self.queues[sub.queue]
        ):
            self.make_due_in_memory(self.queues[sub.queue])  # at the latest at a Tick: it may be sooner
        item = self.head(sub.queue, body)
        assert item is not None and item.body == body, f"{body!r} is not the head of {sub.queue}: {item}"
        assert (deliver.redeliveries, deliver.redelivered) == (item.count, item.marked), (deliver, item)
        item.state, item.out_with, item.message_id = OUT, sub, deliver.message_id
        sub.out.append(item)
        self.handed += 1
        item.handed = self.handed

    def receipted(self, c: int, came: list[bytes]) -> None:
        """These have come: in order, none before its time, and all whose time has come."""
        conn = self.conns[c]
        due, conn.receipts = conn.receipts[: len(came)], conn.receipts[len(came) :]
        assert came == [receipt for receipt, _, _ in due]
        assert all(must <= self.committed for _, must, _ in due), f"{came} came before the disk had it"
        assert all(may > self.committed for _, _, may in conn.receipts), f"{conn.receipts} should have come"

    def answered(self, conn: Conn, answer: dict[str, object]) -> None:
        """By /admin: as something that was asked must be answered, and not before it is on the disk."""
        fitting = [due for due in conn.answers if due.wanted.items() <= answer.items()]
        in_time = [due for due in fitting if due.must <= self.committed]
        if in_time:
            conn.answers.remove(in_time[0])
            return
        assert not fitting, f"{answer} came before the disk had it"
        raise AssertionError(f"{answer} is none of {conn.answers}")

    def idle_consumers(self) -> list[bytes]:
        """Consumers that have room although their queue has a message for them: there must be none. Nothing is read
        back while some wake, until that is on the disk.
        """
        return [
            sub.name
            for conn in self.conns.values()
            for sub in conn.subs.values()
            if self.can_take(conn, sub)
            and self.head(sub.queue) is not None
            and self.released_in.get(sub.queue, 0) <= self.committed
        ]
