"""One random history of prepared transactions and checkouts: each message comes once, whatever crashes.

A driver prepares the parts of a version, each under a name, and commits them all: again, and with other attempts, until
it has its answer; now and then it commits an old version once more. An engine takes messages out of a queue, and reads
their numbers as often as it likes until it has acked them. As history.py, of whose faults, bounds and books it is made.
"""

import json
import traceback
from collections import Counter, defaultdict
from random import Random
from zlib import crc32

import pytest

from radiator.model.commands import AUTO, OFFSET, Begin, Commit, Send, Subscribe, Unsubscribe
from radiator.model.limits import GIB, MIB, Limits
from radiator.model.replies import Deliver, EndOfLog, Refuse, Reply
from radiator.model.settings import JOURNAL, TOPIC, Binding, Declarations, ExchangeSettings, LogSettings, QueueSettings
from tests.core.conftest import shrink
from tests.sim.bindings import ANSWERS, Routes
from tests.sim.books import Books, Client, Consumer, Producer, Sent
from tests.sim.faults import draw_ends, draw_slowness, end_the_faults
from tests.sim.history import drawn_bounds
from tests.sim.log_history import drawn_segments, place_of
from tests.sim.simulation import Scheduler, SimNode

TIGHT_MESSAGES = 2
QUEUES = {
    "a": QueueSettings(),
    "tight": QueueSettings(max_messages=TIGHT_MESSAGES),
    "once": QueueSettings(dedup_window_s=10_000),
    "x": QueueSettings(),
    "y": QueueSettings(),
}
TAKEN = "c"  # the queue that is checked out
LOG = "l"
WAYS = ("/queue/a", "/queue/a", "/queue/tight", "/queue/once", "/fanout/f", "/exchange/tap/k", "/log/l")
QUEUES_OF = {
    "/queue/a": ("a",),
    "/queue/tight": ("tight",),
    "/queue/once": ("once",),
    "/fanout/f": ("x", "y"),
    "/exchange/tap/k": ("a",),
}
END_S = 90.0
SHORT_S = 1.0  # how long a prepared transaction is kept in some histories


class Asking(Client):
    """A client that asks /admin, one request after the other."""

    def connected(self) -> None:
        self.requests = 0

    def request(self, **asked: object) -> None:
        assert self.link is not None
        self.requests += 1
        body = json.dumps(asked).encode()
        name = b"%d" % self.requests
        self.say(Send(self.link.number, "/admin", b"", 2, body, reply_to="answers", correlation_id=name))

    def answer_of(self, deliver: Deliver) -> dict[str, object] | None:
        """If that is one: to the last request."""
        if deliver.subscription != ANSWERS:
            return None
        found: dict[str, object] = json.loads(deliver.message.body)
        return found

    def later(self, mean_s: float, what) -> None:  # type: ignore[no-untyped-def]
        """Unless the connection ends before."""
        link = self.link
        self.scheduler.soon(mean_s, lambda: what() if self.link is link and link is not None else None)


class Driver(Asking):
    """Commits its versions one after the other, each prepared in some parts, or at once on its own connection."""

    def __init__(
        self, scheduler: Scheduler, node: SimNode, books: Books, name: bytes, versions: int, is_let_go: bool
    ) -> None:
        self.app = name.decode()
        self.is_let_go = is_let_go  # what is prepared may be gone before it is committed
        self.version = 1
        self.versions = versions
        self.attempts = 0
        self.is_committing = False
        self.names: dict[int, str] = {}  # by part: as receipted
        self.old: list[tuple[int, list[str]]] = []
        self.parts = self.drawn_parts(scheduler.random)
        self.is_at_once = self.drawn_at_once(scheduler.random)
        super().__init__(scheduler, node, books, name)

    def drawn_parts(self, random: Random) -> list[list[tuple[str, bytes]]]:
        return [
            [
                (random.choice(WAYS), b"%b:%d:%d:%d" % (self.app.encode(), self.version, part, number))
                for number in range(random.randrange(0, 7))
            ]
            for part in range(random.randrange(1, 4))
        ]

    def drawn_at_once(self, random: Random) -> bool:
        """Not what could never have room."""
        tight = sum(to == "/queue/tight" for part in self.parts for to, _ in part)
        return tight <= TIGHT_MESSAGES and random.random() < 0.3

    @property
    def is_done(self) -> bool:
        return self.version > self.versions

    def connected(self) -> None:
        super().connected()
        if not self.is_committing and self.random.random() < 0.3:
            self.names = {}  # another attempt at all of it
        self.go_on()

    def go_on(self) -> None:
        if self.link is None or self.is_done:
            return
        if self.is_at_once:
            self.commit_at_once()
        elif self.is_committing or len(self.names) == len(self.parts):
            self.commit()
        else:
            for part in range(len(self.parts)):
                if part not in self.names:
                    self.prepare(part)

    def sends(self, part: int, transaction: bytes) -> list[Send]:
        assert self.link is not None
        now_s = self.scheduler.now_s
        found = []
        for to, body in self.parts[part]:
            self.books.sent.setdefault(body, Sent((to,), None, None, now_s, now_s))
            headers = b"crc:%08x\n" % crc32(body)
            dedup_id = body if to == "/queue/once" else None
            found.append(Send(self.link.number, to, headers, 2, body, None, transaction, dedup_id=dedup_id))
        return found

    def prepare(self, part: int) -> None:
        assert self.link is not None
        self.attempts += 1
        name = f"{self.app}.{self.version}.{part}.{self.attempts}"
        number, transaction = self.link.number, b"t%d" % part
        receipt = self.ask(("prepared", self.version, part, name))
        self.say(Begin(number, transaction), *self.sends(part, transaction))
        self.say(Commit(number, transaction, receipt, prepare=name))
        if self.random.random() < 0.1:  # one that nobody will commit
            receipt = self.ask(("forgotten",))
            self.say(Begin(number, b"f"), *self.sends(part, b"f"), Commit(number, b"f", receipt, prepare=name + "-f"))

    def commit_at_once(self) -> None:
        assert self.link is not None
        number, transaction = self.link.number, b"once"
        receipt = self.ask(("committed", self.version))
        sends = [send for part in range(len(self.parts)) for send in self.sends(part, transaction)]
        self.say(Begin(number, transaction), *sends)
        self.say(Commit(number, transaction, receipt, app=self.app, version=self.version))

    def commit(self) -> None:
        """All parts, by a request; a single one also by COMMIT."""
        assert self.link is not None
        if self.is_committing and self.random.random() < 0.2 and not self.is_let_go:
            # it has forgotten what it knew, and prepares all once more: the version counts once all the same
            self.is_committing = False
            self.names = {}
            self.go_on()
            return
        self.is_committing = True
        names = list(self.names.values())
        if len(names) == 1 and self.random.random() < 0.5:
            receipt = self.ask(("committed", self.version))
            self.say(Commit(self.link.number, names[0].encode(), receipt, app=self.app, version=self.version))
        else:
            self.request(do="commit", prepared=names, app=self.app, version=self.version)

    def commit_an_old_one(self) -> None:
        version, names = self.random.choice(self.old)
        self.request(do="commit", prepared=names, app=self.app, version=version)

    def hear(self, reply: Reply | None) -> None:
        if isinstance(reply, Refuse) and reply.code == "not-prepared":
            self.prepare_again(reply.sentence)
        super().hear(reply)

    def prepare_again(self, why: str) -> None:
        """What it wanted to commit is not there any more."""
        if not self.is_let_go:
            self.books.mistakes.append(f"not prepared: {self.name!r} had a RECEIPT for {self.names}: {why}")
        self.is_committing = False
        self.names = {}

    def got(self, deliver: Deliver) -> None:
        answer = self.answer_of(deliver)
        assert answer is not None
        if not self.is_committing:
            if answer.get("committed") is not False:
                self.books.mistakes.append(f"committed twice: {self.name!r} was answered {answer} of an old version")
            self.later(0.01, self.go_on)
        elif answer["ok"]:
            self.committed(self.version)
        elif answer["code"] == "not-prepared":
            self.prepare_again(str(answer))
            self.later(0.01, self.go_on)
        else:
            self.books.mistakes.append(f"refused: {self.name!r} was answered {answer}")

    def receipted(self, what: object) -> None:
        verb, *about = what  # type: ignore[misc]
        if verb == "prepared":
            version, part, name = about
            if version == self.version and not self.is_committing:
                self.names[part] = name
                if len(self.names) == len(self.parts):
                    self.go_on()
        elif verb == "committed":
            self.committed(about[0])

    def committed(self, version: int) -> None:
        if version != self.version:
            return
        for part in self.parts:
            for _, body in part:
                self.books.sent[body].receipted_s = self.scheduler.now_s
        if self.names:
            self.old.append((version, [*self.names.values()]))
        self.version += 1
        self.is_committing = False
        self.names = {}
        self.parts = self.drawn_parts(self.random)
        self.is_at_once = self.drawn_at_once(self.random)
        if self.old and self.random.random() < 0.2:
            self.later(0.01, self.commit_an_old_one)
        else:
            self.later(0.01, self.go_on)


class Engine(Asking):
    """Takes messages out of the queue, reads them, and acks them; whatever it has not acked it may read again."""

    def __init__(self, scheduler: Scheduler, node: SimNode, books: Books, name: bytes, releases: bool) -> None:
        self.releases = releases
        self.is_careful = False
        self.found: dict[tuple[str, int], bytes] = {}  # what the incarnation's number was
        self.acked: dict[str, int] = {}  # of an incarnation: surely, all before that
        self.unsure: dict[str, int] = {}  # and perhaps all before that
        self.incarnation = ""
        self.asked = ""
        self.range = (0, 0)
        self.left: list[int] = []
        super().__init__(scheduler, node, books, name)

    def connected(self) -> None:
        super().connected()
        self.check_out()

    def check_out(self) -> None:
        self.asked = "checkout"
        count = self.random.choice([0, 1, 2, 5]) if not self.is_careful else 5
        self.request(do="checkout", queue=TAKEN, group="g", max_messages=count, max_bytes=1 << 20)

    def got(self, deliver: Deliver) -> None:
        answer = self.answer_of(deliver)
        if answer is not None:
            if answer.get("code") == "in-use" and self.releases:
                self.later(0.05, self.check_out)  # what it has released is on its way back
            elif not answer["ok"]:
                self.books.mistakes.append(f"refused: {self.name!r} asked for {self.asked}, and was answered {answer}")
            elif self.asked == "checkout":
                self.checked_out(answer)
            elif self.asked == "checkout-ack":
                self.was_acked(answer)
            else:
                self.later(0.02, self.check_out)
        elif isinstance(deliver.log, EndOfLog):
            self.read_all()
        else:
            self.read(deliver)

    def checked_out(self, answer: dict[str, object]) -> None:
        assert self.link is not None
        first, end, self.incarnation = answer["first"], answer["next"], str(answer["incarnation"])
        assert isinstance(first, int) and isinstance(end, int)
        surely, perhaps = self.acked.get(self.incarnation, 0), self.unsure.get(self.incarnation, 0)
        if not surely <= first <= max(surely, perhaps):
            self.books.mistakes.append(
                f"acked: {self.name!r} has acked all before {surely}, perhaps {perhaps}, and {answer} begins elsewhere"
            )
        self.acked[self.incarnation] = self.unsure[self.incarnation] = first
        seen = [number for name, number in self.found if name == self.incarnation]
        if end < max(seen, default=-1) + 1:
            self.books.mistakes.append(f"left out: {self.name!r} has read {max(seen)}, and {answer} ends before")
        if first == end:
            self.later(0.05, self.check_out)
            return
        self.range = first, end
        self.left = [*range(first, end)]
        self.say(
            Subscribe(
                self.link.number,
                b"range",
                "/log/" + str(answer["log"]).removeprefix("/log/"),
                AUTO,
                start=(OFFSET, first),
                until=(OFFSET, end),
            )
        )

    def read(self, deliver: Deliver) -> None:
        _, number = place_of(deliver)
        body = deliver.message.body
        if not self.left or self.left.pop(0) != number:
            self.books.mistakes.append(f"gap: {self.name!r} was given {number} of {self.range}; {self.left} are left")
        known = self.found.setdefault((self.incarnation, number), body)
        if known != body:
            self.books.mistakes.append(f"another: {number} of {self.name!r} was {known!r}, and is {body!r}")
        if b"crc:%08x\n" % crc32(body) not in deliver.message.headers:
            self.books.mistakes.append(f"altered: {body!r}")

    def read_all(self) -> None:
        assert self.link is not None
        if self.left:
            self.books.mistakes.append(f"left out: {self.name!r} was at the end of {self.range} without {self.left}")
        self.say(Unsubscribe(self.link.number, b"range"))
        self.later(0.01, self.go_on)

    def go_on(self) -> None:
        first, end = self.range
        chance = self.random.random()
        if self.is_careful or chance < 0.6:
            before = end if self.is_careful else self.random.randint(first, end)
            self.unsure[self.incarnation] = before
            self.asked = "checkout-ack"
            self.request(do="checkout-ack", queue=TAKEN, group="g", before=before)
        elif self.releases and chance < 0.7:
            self.asked = "checkout-release"
            self.request(do="checkout-release", queue=TAKEN, group="g")
        else:
            self.check_out()

    def was_acked(self, answer: dict[str, object]) -> None:
        if answer["first"] != self.unsure[self.incarnation]:
            self.books.mistakes.append(
                f"acked: {self.name!r} acked {self.unsure[self.incarnation]}, and it is {answer}"
            )
        self.acked[self.incarnation] = self.unsure[self.incarnation]
        self.later(0.01, self.check_out)

    def taken(self) -> tuple[Counter[bytes], set[bytes]]:
        """How often each body was surely acked, and those that perhaps were."""
        surely = Counter(body for (name, at), body in self.found.items() if at < self.acked[name])
        perhaps = {body for (name, at), body in self.found.items() if at < self.unsure[name]}
        return surely, perhaps


class PreparedHistory:
    """Runs as it is made. `books.mistakes` must be empty then."""

    def __init__(self, seed: int) -> None:
        self.scheduler = Scheduler(seed, is_traced=False)
        self.books = Books(Routes(), lambda: self.scheduler.now_s)
        random = self.scheduler.random
        self.is_let_go = random.random() < 0.2
        has_journal = random.random() < 0.5
        logs = {LOG: LogSettings(partitions=2, retention_ms=None)}
        if has_journal:
            logs[JOURNAL] = LogSettings(retention_ms=None)
        self.declarations = Declarations(
            queues={**QUEUES, TAKEN: QueueSettings()},
            fanouts={"f": ("x", "y", f"/log/{LOG}")},
            exchanges={"tap": ExchangeSettings(type=TOPIC)},
            bindings=[Binding("tap", "k.#", f"/log/{LOG}"), Binding("tap", "k", "a")],
            logs=logs,
            has_journal=has_journal,
        )
        with pytest.MonkeyPatch.context() as patch:
            shrink(patch, drawn_bounds(random) | drawn_segments(random))
            try:
                self.node = self.drawn_node(random)
                self.clients = self.drawn_clients(random)
                draw_ends(self.scheduler, self.node, self.clients, 4)
                self.play()
            except Exception:  # noqa: BLE001 - whatever leaves the core ends the broker
                self.books.mistakes.append(f"the broker would have ended: {traceback.format_exc()}")
            else:
                self.judge()

    def drawn_node(self, random: Random) -> SimNode:
        limits = Limits(
            outbox_max_bytes=random.choice([1, 4000, 4 * MIB]),
            max_memory_bytes=random.choice([20_000, GIB, GIB]),
            prepared_max_s=SHORT_S if self.is_let_go else 86_400,
        )
        node = SimNode(self.scheduler, "one", self.declarations, limits)
        draw_slowness(random, node)
        return node

    def drawn_clients(self, random: Random) -> list[Client]:
        scheduler, node, books = self.scheduler, self.node, self.books
        self.drivers = [
            Driver(scheduler, node, books, b"app%d" % n, random.randrange(2, 8), self.is_let_go) for n in range(2)
        ]
        self.producer = Producer(scheduler, node, books, b"p", [(f"/queue/{TAKEN}",)] * random.randrange(0, 20))
        self.engine = Engine(scheduler, node, books, b"e", random.random() < 0.3)
        self.consumers = [Consumer(scheduler, node, books, b"c", sorted(QUEUES))]
        return [*self.drivers, self.producer, self.engine, *self.consumers]

    def play(self) -> None:
        scheduler = self.scheduler
        end_the_faults(scheduler, self.node)
        self.engine.is_careful = True
        for consumer in self.consumers:
            consumer.is_careful = True
        Consumer(scheduler, self.node, self.books, b"rest", sorted(QUEUES)).is_careful = True
        while scheduler.now_s < END_S and not self.is_done:
            scheduler.run(scheduler.now_s + 1)

    @property
    def left(self) -> dict[str, int]:
        return {name: ledger.stored for name, ledger in self.node.disk.platter.queues.values()}

    @property
    def is_done(self) -> bool:
        platter = self.node.disk.platter
        is_sent = self.producer.is_done and all(driver.is_done for driver in self.drivers)
        if not is_sent or any(self.left.values()) or any(not row.name for row in platter.transactions.values()):
            return False
        surely, _ = self.engine.taken()
        return all(surely[body] for body, reported in self.books.sent.items() if reported.job == (f"/queue/{TAKEN}",))

    def judge(self) -> None:
        books, platter = self.books, self.node.disk.platter
        for driver in self.drivers:
            if not driver.is_done:
                books.mistakes.append(f"stuck: {driver.name!r} at version {driver.version} of {driver.versions}")
        going_on = [row for row in platter.transactions.values() if not row.name]
        if going_on:
            books.mistakes.append(f"not applied: {going_on}")
        for driver in self.drivers:
            version = platter.apps[driver.app].version if driver.app in platter.apps else None
            if driver.is_done and version != driver.versions:
                books.mistakes.append(
                    f"version: {driver.name!r} has committed {driver.versions}, the disk has {version}"
                )
        taken = {body: reported for body, reported in books.sent.items() if reported.job == (f"/queue/{TAKEN}",)}
        for body in taken:
            del books.sent[body]
        books.judge(QUEUES_OF, self.left, may_expire=set())
        self.judge_log()
        self.judge_taken(taken)

    def judge_log(self) -> None:
        """What was committed is in the log as often as it is to be: once, where it was sent there at all."""
        platter = self.node.disk.platter
        found: Counter[bytes] = Counter()
        for (number, _), rows in platter.records.items():
            if platter.logs.get(number) == LOG:
                found.update(row.body for row in rows.values())  # type: ignore[union-attr]
        for body, reported in self.books.sent.items():
            wanted = int(
                reported.receipted_s is not None and reported.job[0] in ("/log/l", "/fanout/f", "/exchange/tap/k")
            )
            if found.pop(body, 0) != wanted:
                self.books.mistakes.append(f"log: {body!r} to {reported.job} is not {wanted} times in the log")
        if found:
            self.books.mistakes.append(f"log: {found} was never said")

    def judge_taken(self, taken: dict[bytes, Sent]) -> None:
        surely, perhaps = self.engine.taken()
        times: dict[bytes, int] = defaultdict(int, surely)
        for body, reported in taken.items():
            if reported.receipted_s is not None and not times[body] and body not in perhaps:
                self.books.mistakes.append(f"lost: {body!r} was receipted, and nobody has acked it")
            if times[body] > reported.times:
                self.books.mistakes.append(
                    f"doubled: {body!r} was said {reported.times} times, acked {times[body]} times"
                )
