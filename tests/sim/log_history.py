"""One random history of logs: who appends, groups that share the partitions, readers, and who reads range by range.

As history.py, of whose faults, bounds and clients it is made; judged by what each reader may see: an offset is the same
record for ever, none is left out, what a group has acked with receipt does not come again, and a partition has one
reader of a group at a time. Retention may only take what is too old or too much.
"""

import json
import traceback
from collections import defaultdict
from dataclasses import dataclass, field, replace
from random import Random
from zlib import crc32

import pytest

from radiator.core.turn import Batch
from radiator.model.commands import (
    AUTO,
    CLIENT,
    CLIENT_INDIVIDUAL,
    EARLIEST,
    END,
    OFFSET,
    TIME,
    Ack,
    Begin,
    Commit,
    Nack,
    Send,
    Subscribe,
    Unsubscribe,
)
from radiator.model.limits import Limits
from radiator.model.replies import Deliver, EndOfLog, RecordPlace
from radiator.model.settings import TOPIC, Binding, Declarations, ExchangeSettings, LogSettings, QueueSettings
from radiator.model.writes import DropSegment, KeepSegment
from tests.core.conftest import shrink
from tests.sim.bindings import Routes
from tests.sim.books import Books, Client
from tests.sim.faults import draw_ends, draw_slowness, end_the_faults
from tests.sim.history import drawn_bounds, drawn_limits
from tests.sim.simulation import Scheduler, SimNode

LOG, TAPPED, BRIEF = "l", "tapped", "brief"  # declared; brief has a short retention
GROUPS = ("g", "h")
KEYS = (b"k1", b"k2", b"k3", None)
ANSWERS = b"/temp-queue/answers"
END_S = 60.0
BRIEF_BYTES = 300

Record = tuple[str, int, int]  # log, partition, offset


def place_of(deliver: Deliver) -> tuple[int, int]:
    """The partition and offset that a MESSAGE of a log carries."""
    assert isinstance(deliver.log, RecordPlace), deliver
    return deliver.log.partition, deliver.log.offset


@dataclass
class Sent:
    """A body that is to be appended, and when it was said first and receipted."""

    log: str
    key: bytes | None
    writer: bytes
    first_s: float
    times: int = 1
    receipted_s: float | None = None


@dataclass
class Progress:
    """Of a group in one partition: which offsets it has acked, as said and as receipted, from 0 on.

    handed: by connection and message-id, offsets that were delivered in this boot.
    """

    boot: int = 0
    settled: set[int] = field(default_factory=set)
    receipted: set[int] = field(default_factory=set)
    handed: dict[tuple[int, bytes], int] = field(default_factory=dict)

    def begin(self, boot: int) -> None:
        """A start forgets what was acked beyond the first that was not."""
        if boot != self.boot:
            self.boot = boot
            self.receipted = {*range(self.surely())}
            self.handed = {}

    def surely(self) -> int:
        """The group does not go back behind this."""
        return first_not_in(self.receipted)

    def perhaps(self) -> int:
        """Nor can it have got further than this."""
        return first_not_in(self.settled)


def first_not_in(offsets: set[int]) -> int:
    found = 0
    while found in offsets:
        found += 1
    return found


class LogBooks:
    """What is known of the records of all logs. `mistakes` are those of the clients' books."""

    def __init__(self, mistakes: list[str]) -> None:
        self.mistakes = mistakes
        self.sent: dict[bytes, Sent] = {}
        self.content: dict[Record, bytes] = {}
        self.progress: dict[tuple[str, int], Progress] = defaultdict(Progress)  # by group and partition
        self.read = 0

    def saw(self, log: str, deliver: Deliver) -> tuple[int, int]:
        """Somebody is handed a record."""
        partition, offset = place_of(deliver)
        body = deliver.message.body
        self.read += 1
        known = self.content.setdefault((log, partition, offset), body)
        if known != body:
            self.mistakes.append(f"altered: {log}/{partition}/{offset} was {known!r}, and is {body!r}")
        if body not in self.sent:
            self.mistakes.append(f"unexpected: {body!r} in {log}/{partition}/{offset}")
        elif b"crc:%08x\n" % crc32(body) not in deliver.message.headers:
            self.mistakes.append(f"altered: {body!r} in {log}/{partition}/{offset}")
        return partition, offset


# ---- clients --------------------------------------------------------------------------------------------------------


class Writer(Client):
    """Appends each of its bodies until it is receipted: alone, by a fanout or an exchange, or in a transaction."""

    WAYS = ("/log/l", "/log/l", "/log/brief", "/fanout/f", "/exchange/tap/k", "both")

    def __init__(
        self, scheduler: Scheduler, node: SimNode, books: Books, logs: LogBooks, name: bytes, count: int
    ) -> None:
        self.logs = logs
        self.todo = [(b"%b:%d" % (name, number), scheduler.random.choice(self.WAYS)) for number in range(count)]
        self.waiting: dict[bytes, str] = {}
        super().__init__(scheduler, node, books, name)

    @property
    def is_done(self) -> bool:
        return not self.todo and not self.waiting

    def connected(self) -> None:
        self.todo = [*self.waiting.items(), *self.todo]
        self.waiting = {}
        self.go_on()

    def go_on(self) -> None:
        while self.link is not None and self.todo and len(self.waiting) < 4:
            body, way = self.todo.pop(0)
            self.waiting[body] = way
            self.append(body, way)

    def append(self, body: bytes, way: str) -> None:
        assert self.link is not None
        reported = self.logs.sent.get(body)
        if reported is None:
            log = {"/log/brief": BRIEF, "/fanout/f": TAPPED, "/exchange/tap/k": TAPPED}.get(way, LOG)
            key = self.random.choice(KEYS)
            reported = self.logs.sent[body] = Sent(log, key, self.name, self.scheduler.now_s)
        else:
            reported.times += 1
        headers = b"crc:%08x\n" % crc32(body)
        if reported.key is not None:
            headers += b"partition-key:%b\n" % reported.key
        number, receipt = self.link.number, self.ask(body)
        if way == "both":
            sends = [Send(number, to, headers, 2, body, None, body) for to in ("/log/l", "/queue/q")]
            self.say(Begin(number, body), *sends, Commit(number, body, receipt))
        else:
            self.say(Send(number, way, headers, 2, body, receipt))

    def receipted(self, what: object) -> None:
        assert isinstance(what, bytes)
        self.logs.sent[what].receipted_s = self.scheduler.now_s
        self.waiting.pop(what, None)
        self.scheduler.soon(0.003, self.go_on)


class Member(Client):
    """One of a group that reads the log from its beginning on. It thinks, ACKs, and now and then gives one back."""

    def __init__(
        self, scheduler: Scheduler, node: SimNode, books: Books, logs: LogBooks, name: bytes, group: str
    ) -> None:
        self.logs = logs
        self.group = group
        self.is_careful = False
        super().__init__(scheduler, node, books, name)

    def connected(self) -> None:
        assert self.link is not None
        self.mode = self.random.choice([CLIENT, CLIENT_INDIVIDUAL])
        self.got_here: list[tuple[int, int]] = []  # of this subscription, in order
        prefetch = self.random.choice([None, 1, 3, 20])
        number, group = self.link.number, self.group
        start = (EARLIEST, 0)
        self.say(Subscribe(number, group.encode(), f"/log/{LOG}", self.mode, prefetch, start=start, group=group))
        if not self.is_careful and self.random.random() < 0.3:
            self.scheduler.soon(0.2, lambda link=self.link: self.leave() if self.link is link else None)  # type: ignore[misc]

    def leave(self) -> None:
        """Its subscription ends, and another begins."""
        assert self.link is not None
        self.say(Unsubscribe(self.link.number, self.group.encode()))
        self.link.cut()

    def got(self, deliver: Deliver) -> None:
        link = self.link
        place = place_of(deliver)
        self.got_here.append(place)
        self.scheduler.soon(0.004, lambda: self.answer(deliver, place) if self.link is link else None)

    def answer(self, deliver: Deliver, place: tuple[int, int]) -> None:
        assert self.link is not None
        number = self.link.number
        if place not in self.got_here:
            return  # an ACK of a later one has been its answer
        if not self.is_careful and self.random.random() < 0.15:
            if self.mode == CLIENT_INDIVIDUAL and self.random.random() < 0.7:
                self.got_here.remove(place)
                self.say(Nack(number, deliver.message_id, receipt=self.ask()))
            else:  # it thinks for longer
                link = self.link
                self.scheduler.soon(0.1, lambda: self.answer(deliver, place) if self.link is link else None)
            return
        count = 1 + self.got_here.index(place) if self.mode == CLIENT else 0
        acked = self.got_here[:count] if count else [place]
        for partition, offset in acked:
            self.got_here.remove((partition, offset))
            self.logs.progress[self.group, partition].settled.add(offset)
        self.say(Ack(number, deliver.message_id, receipt=self.ask(*acked)))

    def receipted(self, what: object) -> None:
        partition, offset = what  # type: ignore[misc]
        self.logs.progress[self.group, partition].receipted.add(offset)


class Since(Client):
    """A group that begins at a time. It ACKs little, and is given nothing older, whatever crashes."""

    def __init__(self, scheduler: Scheduler, node: SimNode, books: Books, logs: LogBooks, name: bytes) -> None:
        self.logs = logs
        self.since_ms: int | None = None
        super().__init__(scheduler, node, books, name)

    def connected(self) -> None:
        assert self.link is not None
        if self.since_ms is None:
            self.since_ms = self.node.now_ms - self.random.choice([0, 1, 30, 300])
        start, group, partition = (TIME, self.since_ms), self.name.decode(), self.random.choice([None, 0])
        subscribe = Subscribe(self.link.number, b"since", f"/log/{LOG}", CLIENT_INDIVIDUAL, 3, start=start)
        self.say(replace(subscribe, group=group, partition=partition))

    def got(self, deliver: Deliver) -> None:
        assert self.link is not None and self.since_ms is not None
        if deliver.message.accepted_ms < self.since_ms:
            self.books.mistakes.append(f"too old: {self.name!r} begins at {self.since_ms}, and was given {deliver}")
        if self.random.random() < 0.3:
            self.say(Ack(self.link.number, deliver.message_id))


class Drain(Client):
    """Consumes the queue that stands beside the logs: what comes there is judged elsewhere."""

    def connected(self) -> None:
        assert self.link is not None
        self.say(Subscribe(self.link.number, b"q", "/queue/q", AUTO))


class Reader(Client):
    """Reads a log from its beginning to the end that it has then, again and again; the short one too."""

    def __init__(
        self, scheduler: Scheduler, node: SimNode, books: Books, logs: LogBooks, name: bytes, log: str
    ) -> None:
        self.logs = logs
        self.log = log
        self.lives = 0
        self.is_over = False
        super().__init__(scheduler, node, books, name)

    def connected(self) -> None:
        assert self.link is not None
        self.lives += 1
        self.next: dict[int, int] = {}
        self.has_ended = False
        # what is receipted now must come, where nothing is let go of
        self.must = {
            body for body, reported in self.logs.sent.items() if reported.receipted_s and reported.log == self.log
        }
        mode, prefetch = self.random.choice([AUTO, CLIENT_INDIVIDUAL]), self.random.choice([1, 3, 50])
        name = b"read:%b" % self.log.encode()
        self.say(
            Subscribe(self.link.number, name, f"/log/{self.log}", mode, prefetch, start=(EARLIEST, 0), until=(END, 0))
        )

    def got(self, deliver: Deliver) -> None:
        assert self.link is not None
        if isinstance(deliver.log, EndOfLog):
            self.ended()
            return
        partition, offset = place_of(deliver)
        where = f"{self.name!r} in {self.log}/{partition}"
        first = 0 if self.log != BRIEF else offset
        wanted = self.next.get(partition, first)
        if offset != wanted:
            self.books.mistakes.append(f"gap: {where} was given {offset}, and {wanted} is next")
        if self.has_ended:
            self.books.mistakes.append(f"behind the end: {where} was given {offset}")
        self.next[partition] = offset + 1
        self.must.discard(deliver.message.body)
        if deliver.ack_due:
            self.say(Ack(self.link.number, deliver.message_id))

    def ended(self) -> None:
        if self.has_ended:
            self.books.mistakes.append(f"ended twice: {self.name!r}")
        self.has_ended = True
        if self.must and self.log != BRIEF:
            self.books.mistakes.append(f"left out: {self.name!r} was at the end of {self.log}, without {self.must}")
        link = self.link
        if not self.is_over:
            self.scheduler.soon(0.1, lambda: link.cut() if link is not None and self.link is link else None)


class Poller(Client):
    """As an engine that replays batches: it asks for the end, and reads range by range, some of them twice."""

    def __init__(
        self, scheduler: Scheduler, node: SimNode, books: Books, logs: LogBooks, name: bytes, partitions: int
    ) -> None:
        self.logs = logs
        self.done = [0] * partitions
        self.range: tuple[int, int, int] | None = None  # partition, first, end
        self.left: list[int] = []
        self.polls = 0
        super().__init__(scheduler, node, books, name)

    def connected(self) -> None:
        self.poll()

    def poll(self) -> None:
        assert self.link is not None
        self.range = None
        self.polls += 1
        asked = {"do": "await", "log": LOG, "next": self.done, "timeout_ms": self.random.choice([0, 100, 2000])}
        body = json.dumps(asked).encode()
        self.say(Send(self.link.number, "/admin", b"", 2, body, reply_to="answers", correlation_id=b"%d" % self.polls))

    def got(self, deliver: Deliver) -> None:
        assert self.link is not None
        if deliver.subscription == ANSWERS:
            if b"correlation-id:%d\n" % self.polls in deliver.message.headers:
                self.delivered(json.loads(deliver.message.body))
            return
        if isinstance(deliver.log, EndOfLog):
            self.read_all()
            return
        _, offset = place_of(deliver)
        if not self.left or self.left.pop(0) != offset:
            self.books.mistakes.append(f"gap: {self.name!r} was given {offset} of {self.range}, {self.left} are left")

    def delivered(self, answer: dict[str, object]) -> None:
        nexts = answer.get("next")
        if not isinstance(nexts, list):
            self.books.mistakes.append(f"refused: {self.name!r} was answered {answer}")
            return
        if any(now < before for now, before in zip(nexts, self.done, strict=True)):
            self.books.mistakes.append(
                f"went back: {self.name!r} had read up to {self.done}, and the log ends at {nexts}"
            )
        grown = [index for index, now in enumerate(nexts) if now > self.done[index]]
        if not grown:
            self.scheduler.soon(0.05, lambda link=self.link: self.poll() if self.link is link else None)  # type: ignore[misc]
            return
        partition = self.random.choice(grown)
        first = self.random.choice([self.done[partition], self.random.randrange(self.done[partition] + 1)])
        self.range = partition, first, nexts[partition]
        self.left = [*range(first, nexts[partition])]
        self.say(
            Subscribe(
                self.link.number,  # type: ignore[union-attr]
                b"range",
                f"/log/{LOG}",
                AUTO,
                self.random.choice([None, 50]),
                start=(OFFSET, first),
                until=(OFFSET, nexts[partition]),
                partition=partition,
            )
        )

    def read_all(self) -> None:
        assert self.link is not None and self.range is not None
        partition, _, end = self.range
        if self.left:
            self.books.mistakes.append(f"left out: {self.name!r} was at the end of {self.range} without {self.left}")
        self.done[partition] = max(self.done[partition], end)
        self.say(Unsubscribe(self.link.number, b"range"))
        self.poll()


# ---- the history ----------------------------------------------------------------------------------------------------


class LogHistory:
    """Runs as it is made. `books.mistakes` must be empty then."""

    def __init__(self, seed: int) -> None:
        self.scheduler = Scheduler(seed, is_traced=False)
        self.books = Books(Routes(), lambda: self.scheduler.now_s)
        self.logs = LogBooks(self.books.mistakes)
        random = self.scheduler.random
        self.partitions = random.choice([1, 1, 2, 3])
        self.declarations = self.drawn_declarations(random)
        with pytest.MonkeyPatch.context() as patch:
            shrink(patch, drawn_bounds(random) | drawn_segments(random))
            try:
                self.node = self.drawn_node(random)
                self.segments: dict[tuple[int, int], dict[int, KeepSegment]] = {}
                self.clients = self.drawn_clients(random)
                draw_ends(self.scheduler, self.node, self.clients, 4)
                self.play()
            except Exception:  # noqa: BLE001 - whatever leaves the core ends the broker
                self.books.mistakes.append(f"the broker would have ended: {traceback.format_exc()}")
            else:
                self.judge()

    def drawn_declarations(self, random: Random) -> Declarations:
        keep = LogSettings(partitions=self.partitions, retention_ms=None)
        brief_ms = random.choice([None, 200])
        return Declarations(
            queues={"q": QueueSettings()},
            fanouts={"f": ("q", f"/log/{TAPPED}")},
            exchanges={"tap": ExchangeSettings(type=TOPIC)},
            bindings=[Binding("tap", "k.#", f"/log/{TAPPED}"), Binding("tap", "k", "q")],
            logs={
                LOG: keep,
                TAPPED: keep,
                BRIEF: LogSettings(retention_ms=brief_ms, retention_bytes=BRIEF_BYTES),
            },
        )

    def drawn_node(self, random: Random) -> SimNode:
        limits: Limits = drawn_limits(random)
        node = SimNode(self.scheduler, "one", self.declarations, limits)
        draw_slowness(random, node)
        node.on_deliver = self.handed
        node.on_commit = self.committed
        return node

    def drawn_clients(self, random: Random) -> list[Client]:
        scheduler, node, books, logs = self.scheduler, self.node, self.books, self.logs
        self.writers = [Writer(scheduler, node, books, logs, b"w%d" % n, random.randrange(5, 25)) for n in range(2)]
        self.members = [
            Member(scheduler, node, books, logs, b"m%d" % n, random.choice(GROUPS))
            for n in range(random.randrange(1, 5))
        ]
        self.readers = [
            Reader(scheduler, node, books, logs, b"r%d" % n, random.choice([LOG, TAPPED, BRIEF]))
            for n in range(random.randrange(3))
        ]
        pollers = [Poller(scheduler, node, books, logs, b"e", self.partitions)] if random.random() < 0.5 else []
        since = [Since(scheduler, node, books, logs, b"s%d" % n) for n in range(random.randrange(3))]
        return [*self.writers, *self.members, *self.readers, *pollers, *since]

    def play(self) -> None:
        scheduler = self.scheduler
        end_the_faults(scheduler, self.node)
        for member in self.members:
            member.is_careful = True
        for reader in self.readers:
            reader.is_over = True
        self.rest = []
        for group in GROUPS:  # whatever they do not get to, these do
            self.rest.append(Member(scheduler, self.node, self.books, self.logs, b"rest-%b" % group.encode(), group))
            self.rest[-1].is_careful = True
        Drain(scheduler, self.node, self.books, b"drain")
        while scheduler.now_s < END_S and not self.is_done:
            scheduler.run(scheduler.now_s + 1)

    # ---- as it goes

    def handed(self, deliver: Deliver) -> None:
        """As the node hands it over: what was receipted before is known."""
        name = deliver.subscription or b""
        if name.startswith(ANSWERS) or name == b"q" or isinstance(deliver.log, EndOfLog):
            return
        if name.startswith(b"read:"):
            self.logs.saw(name[5:].decode(), deliver)
            return
        partition, offset = self.logs.saw(LOG, deliver)
        if name in (b"range", b"since"):
            return
        group = name.decode()
        progress = self.logs.progress[group, partition]
        progress.begin(self.node.boots)
        where = f"{group} in {LOG}/{partition}, connection {deliver.connection}"
        if offset < progress.surely():
            self.books.mistakes.append(
                f"acked and given again: {offset} of {where}, which has acked {progress.surely()}"
            )
        held = {
            key: held_offset
            for key, held_offset in progress.handed.items()
            if key[0] in self.node.broker.connections and key[1] in self.node.broker.connections[key[0]].unacked
        }
        others = [key for key in held if key[0] != deliver.connection]
        if others:
            self.books.mistakes.append(f"shared: {offset} of {where}, while {others} have {held}")
        before = [at for (connection, _), at in progress.handed.items() if connection == deliver.connection]
        most = max(before, default=None)
        if most is None and offset > progress.perhaps():
            self.books.mistakes.append(
                f"left out: {where} begins at {offset}, and nobody has acked {progress.perhaps()}"
            )
        elif most is not None and not progress.settled.issuperset(range(most + 1, offset)):
            self.books.mistakes.append(f"gap: {where} is given {offset} after {most}")
        progress.handed[deliver.connection, deliver.message_id] = offset

    def committed(self, batch: Batch) -> None:
        """Nothing goes before its time, and what is over goes from the beginning on."""
        platter = self.node.disk.platter
        settings = self.declarations.logs[BRIEF]
        before_ms = self.node.now_ms + 1 - (settings.retention_ms or 0)
        dropped = [write for write in batch.writes if isinstance(write, DropSegment)]
        for write in dropped:
            if platter.logs.get(write.log) != BRIEF:
                self.books.mistakes.append(f"let go of: {write} of {platter.logs.get(write.log)}")
                continue
            row = self.segments[write.log, write.partition][write.first]
            at_once = [one for one in dropped if one.log == write.log and one.first >= row.first]
            later = [self.segments[one.log, one.partition][one.first] for one in at_once]
            kept = [*platter.segments[write.log, write.partition].values(), *later]
            size = sum(one.size for one in kept)  # as it was then, at least
            is_old = settings.retention_ms is not None and row.last_ms <= before_ms
            if not is_old and size <= BRIEF_BYTES:
                self.books.mistakes.append(f"let go of too early: {row}, of {size} bytes at {self.node.now_ms}")
        self.segments = {key: dict(rows) for key, rows in platter.segments.items()}

    # ---- at the end

    def number_of(self, log: str) -> int:
        return next(number for number, name in self.node.disk.platter.logs.items() if name == log)

    @property
    def is_done(self) -> bool:
        if not all(writer.is_done for writer in self.writers):
            return False
        platter, number = self.node.disk.platter, self.number_of(LOG)
        ends = [len(platter.records.get((number, partition), {})) for partition in range(self.partitions)]
        return all(self.position_of(group) == ends for group in GROUPS) or not any(ends)

    def position_of(self, group: str) -> list[int] | None:
        return self.node.disk.platter.positions.get((self.number_of(LOG), group))

    def judge(self) -> None:
        mistakes = self.books.mistakes
        for writer in self.writers:
            if not writer.is_done:
                mistakes.append(f"stuck: {writer.name!r} has {len(writer.waiting)} without receipt")
        if not self.is_done:
            mistakes.append(f"not read: {[(group, self.position_of(group)) for group in GROUPS]}")
        platter = self.node.disk.platter
        for log in (LOG, TAPPED):
            found: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
            for (number, partition), rows in platter.records.items():
                if platter.logs.get(number) == log:
                    for offset, row in rows.items():
                        found[row.body].append((partition, offset))  # type: ignore[union-attr]
                        known = self.logs.content.get((log, partition, offset))
                        if known not in (None, row.body):  # type: ignore[union-attr]
                            mistakes.append(f"altered on the disk: {log}/{partition}/{offset} was {known!r}: {row}")
            self.judge_bodies(log, found)

    def judge_bodies(self, log: str, found: dict[bytes, list[tuple[int, int]]]) -> None:
        mistakes = self.books.mistakes
        last: dict[tuple[bytes, int], list[tuple[float, float, int, bytes]]] = defaultdict(list)
        for body, reported in self.logs.sent.items():
            places = found.pop(body, [])
            if reported.log != log:
                continue
            if reported.receipted_s is not None and not places:
                mistakes.append(f"lost: {body!r} was receipted, and is not in {log}")
            if len(places) > reported.times:
                mistakes.append(f"doubled: {body!r} was said {reported.times} times, and is at {places} of {log}")
            if reported.key is not None:
                wanted = crc32(reported.key) % self.partitions
                if any(partition != wanted for partition, _ in places):
                    mistakes.append(
                        f"partition: {body!r} with the key {reported.key!r} is at {places}, not in {wanted}"
                    )
            for partition, offset in places:
                receipted_s = reported.receipted_s if reported.receipted_s is not None else END_S
                last[reported.writer, partition].append((reported.first_s, receipted_s, offset, body))
        for rows in last.values():
            for first_s, _, offset, body in rows:
                later = [other for _, receipted_s, at, other in rows if receipted_s < first_s and at > offset]
                if later and self.logs.sent[body].times == 1:
                    mistakes.append(f"order: {body!r} at {offset} of {log} was said after {later} were receipted")
        if any(body not in self.logs.sent for body in found):
            mistakes.append(f"unexpected in {log}: {[body for body in found if body not in self.logs.sent]}")


def drawn_segments(random: Random) -> dict[str, int]:
    """Bounds of logs, so small that segments come and go."""
    return {"SEGMENT_RECORDS": random.choice([1, 3, 10]), "SEGMENT_BYTES": random.choice([100, 1 << 20])}
