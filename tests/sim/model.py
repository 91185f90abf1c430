"""What the broker must do, said with lists and dicts: slow, small, obviously right.

It knows nothing of windows, loads, rings or slices. It is told what a client says and what the shell reports, and
judges what the broker replies: a delivery must be the head of its queue, for a consumer that has room; receipts must
come as soon as they may, in order, and not before; the disk must hold exactly what was committed.

A SEND or COMMIT that must drop something may wait until that is on the disk. Whether it does is the broker's to say;
the model judges whether it may, and carries it out when the broker does.

Bodies are unique, so (queue, body) names a message.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from radiator.commands import AUTO, CLIENT
from radiator.replies import Deliver
from radiator.settings import DROP_OLDEST, QueueSettings

STORING, READY, OUT = "storing", "ready", "out"


@dataclass(eq=False)
class Item:
    """A message in a queue. A queue lists its items in the order of acceptance, until they leave."""

    queue: str
    body: bytes
    state: str
    expires_ms: int = 0
    count: int = 0
    marked: bool = False
    message_id: bytes = b""
    out_with: "Sub | None" = None
    handed: int = 0
    transaction: bytes | None = None


@dataclass(eq=False)
class Sub:
    name: bytes
    queue: str
    mode: str
    prefetch: int | None
    out: list[Item] = field(default_factory=list)


@dataclass
class Said:
    """A SEND as it was said."""

    to: str
    body: bytes
    dedup_id: bytes | None = None
    expires_ms: int = 0


@dataclass
class Conn:
    subs: dict[bytes, Sub] = field(default_factory=dict)
    ended: list[Sub] = field(default_factory=list)
    topics: set[bytes] = field(default_factory=set)
    due_topics: list[tuple[bytes, bytes]] = field(default_factory=list)
    sends: dict[bytes, list[Said]] = field(default_factory=dict)
    settled: dict[bytes, list[tuple[str, Item]]] = field(default_factory=dict)
    # due: each with the batch that it must wait for, and the one that it may wait for
    receipts: list[tuple[bytes, int, int]] = field(default_factory=list)
    must: int = 0
    may: int = 0

    def all_subs(self) -> list[Sub]:
        return [*self.subs.values(), *self.ended]

    def unacked(self) -> list[Item]:
        return [item for sub in self.all_subs() if sub.mode != AUTO for item in sub.out]


@dataclass
class Asked:
    """A SEND, or a COMMIT with all that its transaction holds."""

    sends: list[Said]
    settled: list[tuple[str, Item]]
    receipt: bytes | None


class Refused(Exception):
    """The broker must answer with an ERROR."""


class Model:
    """`disk`: queue -> body -> redelivery count, as committed. `batch`: the number of the open batch."""

    def __init__(self, settings: dict[str, QueueSettings], fanouts: dict[str, tuple[str, ...]], now_ms: int) -> None:
        self.settings = settings
        self.fanouts = fanouts
        self.now_ms = now_ms
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

    def told_committed(self, number: int) -> None:
        self.committed = number
        for items in self.queues.values():
            for item in items:
                if item.state == STORING and item.body in self.disk[item.queue]:
                    item.state = READY
        for then in self.thens.pop(number, []):
            then()

    def crashed(self, clean: bool) -> None:
        """Only what is on the disk is there; all of it is marked, or, after a clean stop, what was out."""
        out = {(i.queue, i.body) for items in self.queues.values() for i in items if i.state == OUT or i.marked}
        for name in self.queues:
            self.queues[name] = [
                Item(name, body, READY, self.expiry.get((name, body), 0), count, not clean or (name, body) in out)
                for body, count in self.disk[name].items()
            ]
        self.remembered = dict.fromkeys(self.on_disk_remembered, 0)
        self.conns, self.effects, self.thens = {}, {}, {}
        self.asked, self.refused = {}, set()
        self.batch, self.committed = 1, 0

    # ---- messages in and out ----------------------------------------------------------------------------------------

    def is_persistent(self, queue: str) -> bool:
        return self.settings[queue].persistent

    def put(self, queue: str, body: bytes, expires_ms: int = 0) -> None:
        persistent = self.is_persistent(queue)
        self.queues[queue].append(Item(queue, body, STORING if persistent else READY, expires_ms))
        if persistent:
            self.expiry[queue, body] = expires_ms
            self.on_commit(lambda: self.disk[queue].__setitem__(body, 0))

    def leave(self, item: Item) -> None:
        self.queues[item.queue].remove(item)
        if item.out_with is not None:
            item.out_with.out.remove(item)
        if self.is_persistent(item.queue):
            self.on_commit(lambda: self.disk[item.queue].__delitem__(item.body))

    def dead(self, item: Item) -> None:
        self.leave(item)
        target = self.settings[item.queue].dead_letter
        if target is not None:
            self.put(target, item.body)

    def is_expired(self, item: Item) -> bool:
        return 0 < item.expires_ms <= self.now_ms

    def back(self, item: Item) -> None:
        settings = self.settings[item.queue]
        if self.is_expired(item) or (settings.dead_letter and item.count >= settings.max_redeliveries):
            self.dead(item)
            return
        assert item.out_with is not None
        item.out_with.out.remove(item)
        item.state, item.out_with, item.transaction = READY, None, None
        item.count, item.marked = item.count + 1, True
        if self.is_persistent(item.queue):
            count = item.count
            self.on_commit(lambda: self.disk[item.queue].__setitem__(item.body, count))

    def settle(self, verb: str, item: Item) -> None:
        {"ack": self.leave, "nack": self.back, "reject": self.dead}[verb](item)

    # ---- what clients say -------------------------------------------------------------------------------------------

    def receipt(self, c: int, receipt: bytes | None, batch: int = 0) -> None:
        conn = self.conns[c]
        conn.may = max(conn.may, batch)
        if receipt is not None:
            conn.must = max(conn.must, batch)
            conn.receipts.append((receipt, conn.must, conn.may))

    def ask(self, c: int, sends: list[Said], settled: list[tuple[str, Item]], receipt: bytes | None) -> None:
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
            if not lines & full and all(item.state != STORING for item in dropped):
                wrong.append(c)
            lines |= full
        return wrong

    def arrivals(self, sends: list[Said]) -> tuple[list[tuple[str, Said]], int]:
        """What goes into queues, without duplicates; and the batch that these wait for."""
        puts: list[tuple[str, Said]] = []
        waits_for = 0
        for said in sends:
            kind, _, name = said.to[1:].partition("/")
            if kind == "topic":
                continue
            for queue in self.fanouts[name] if kind == "fanout" else (name,):
                key = (queue, said.dedup_id or b"")
                counts = said.dedup_id is not None and self.settings[queue].dedup_window_s > 0
                is_here = any(q == queue and s.dedup_id == said.dedup_id for q, s in puts)
                if counts and (key in self.remembered or is_here):
                    waits_for = max(waits_for, self.remembered.get(key, 0))
                    continue
                puts.append((queue, said))
        return puts, waits_for

    def take(self, c: int, sends: list[Said], settled: list[tuple[str, Item]], receipt: bytes | None) -> None:
        """A SEND, or a whole transaction: judged first, then all of it happens. Raises Refused."""
        puts, waits_for = self.arrivals(sends)
        for queue in {queue for queue, _ in puts}:
            self.judge(queue, sum(q == queue for q, _ in puts))
        durable = any(self.is_persistent(q) for q, _ in puts) or any(self.is_persistent(i.queue) for _, i in settled)
        for queue in {queue for queue, _ in puts}:
            for item in self.oldest(queue, sum(q == queue for q, _ in puts)):
                self.leave(item)
        for queue, said in puts:
            if self.is_persistent(queue):
                self.put(queue, said.body, said.expires_ms)
                if said.dedup_id is not None and self.settings[queue].dedup_window_s:
                    key = (queue, said.dedup_id)
                    self.remembered[key] = self.batch
                    self.on_commit(lambda key=key: self.on_disk_remembered.add(key))  # type: ignore[misc]
        for verb, item in settled:
            item.transaction = None
            if self.is_persistent(item.queue):
                self.settle(verb, item)
            elif durable and item.out_with is not None:
                item.out_with.out.remove(item)  # its window is open, and no lost connection reaches it
                item.out_with = Sub(b"", item.queue, CLIENT, 1, [item])

        def rest() -> None:
            for verb, item in settled:
                if not self.is_persistent(item.queue):
                    self.settle(verb, item)
            for queue, said in puts:
                if not self.is_persistent(queue):
                    self.put(queue, said.body, said.expires_ms)
            for said in sends:
                for conn in self.conns.values():
                    conn.due_topics += [(sub, said.body) for sub in conn.topics if said.to.startswith("/topic/")]

        if durable:
            self.thens.setdefault(self.batch, []).append(rest)
        else:
            rest()
        self.receipt(c, receipt, self.batch if durable else waits_for)

    def judge(self, queue: str, count: int) -> None:
        most = self.settings[queue].max_messages
        if most is not None and len(self.queues[queue]) + count > most:
            out = sum(item.state == OUT for item in self.queues[queue])
            if self.settings[queue].overflow != DROP_OLDEST or out + count > most:
                raise Refused

    def oldest(self, queue: str, count: int) -> list[Item]:
        """Those that must be dropped so that so many fit."""
        most = self.settings[queue].max_messages
        too_many = 0 if most is None else max(0, len(self.queues[queue]) + count - most)
        return [item for item in self.queues[queue] if item.state != OUT][:too_many]

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
        for item in sorted((i for sub in conn.all_subs() for i in sub.out), key=lambda i: i.handed):
            self.back(item)

    def expired(self, queue: str, count: int) -> None:
        """So many have left by expiry: the foremost, and no others."""
        gone = [i for i in self.queues[queue] if i.state == READY and self.is_expired(i)][:count]
        assert len(gone) == count, f"{queue} has lost {count} messages, of which only {len(gone)} are expired"
        for item in gone:
            self.leave(item)

    # ---- what the broker says ---------------------------------------------------------------------------------------

    def has_room(self, conn: Conn, sub: Sub) -> bool:
        if sub.mode == AUTO:
            return True
        if sub.prefetch is not None:
            return len(sub.out) < sub.prefetch
        return not any(s.out for s in conn.all_subs() if s.mode != AUTO and s.prefetch is None)

    def head(self, queue: str) -> Item | None:
        return next((i for i in self.queues[queue] if i.state == READY and not self.is_expired(i)), None)

    def delivered(self, c: int, deliver: Deliver) -> None:
        conn, name, body = self.conns[c], deliver.subscription or b"", deliver.message.body
        if deliver.message_id.endswith(b"t"):
            conn.due_topics.remove((name, body))
            return
        sub = conn.subs[name]
        assert self.has_room(conn, sub), f"{name!r} has no room for {body!r}"
        item = self.head(sub.queue)
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

    def idle_consumers(self) -> list[bytes]:
        """Consumers that have room although their queue has a message for them: there must be none."""
        return [
            sub.name
            for conn in self.conns.values()
            for sub in conn.subs.values()
            if self.has_room(conn, sub) and self.head(sub.queue) is not None
        ]
