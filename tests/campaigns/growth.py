"""T19: whatever comes and goes leaves nothing behind, and the store's files stay as large as what they have to hold.

Connections come and go in every way, with subscriptions, transactions, temp queues and messages in hand; messages go
through queues that stay short. After each round of it, at rest, the broker is counted: files, threads, memory, its
own numbers, each class of its objects, each of its containers, what its event loop waits for. What grows with every
round is a leak, however small.

It cannot see what leaks less than once in a life of its kind, or only in a state that no life here comes to.
"""

import json
import os
import signal
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median

from tests.acceptance.conftest import queues_that_do_not_add_up
from tests.acceptance.wire import Gone, Wire
from tests.broker_process import SERVER, BrokerProcess
from tests.campaigns.campaign import Campaign, Run
from tests.crash.books import body_of

CONFIG = """
[create]
queues = true
topics = true

[queue."narrow.*"]
persistent = false
max_messages = 1

[queue."short.#"]
max_messages = 3
overflow = "drop-oldest"

[queue."fleeting.#"]
auto_delete = true

[log."events"]
partitions = 2
retention_bytes = "4KiB"

[journal]
enabled = true
retention_bytes = "64KiB"

[limits]
connect_timeout_s = 0.5
block_timeout_s = 0.5
tcp_timeout_s = 1
heart_beat_ms = [200, 200]
"""
LIVES = 12  # of each kind in a round
WARM_ROUNDS = 2
JUDGED_ROUNDS = 3
COUNT_EVERY_S = 0.6  # longer than connect_timeout_s
SETTLE_MAX_S = 4.0
AT_A_TIME = 32
STREAMS = {"quick": (2000, 100), "nightly": (5000, 1000), "release": (5000, 1000)}  # messages of a round, depth
SIZES = (50, 500, 3000, 20_000)
FILE_FACTOR, FILE_CONSTANT_BYTES = 3, 8 << 20
MAP_MIB = 128
WAL_BYTES_MAX = 4 * MAP_MIB * (1 << 20) // 16  # segments: a 16th of the map each, and three of them at rest
MEMORY_BYTES_OF_A_LIFE = {"quick": 2000, "nightly": 200, "release": 50}

THE_SAME_AT_REST = {
    "watchers of the event loop", "open files", "threads", "connections", "subscriptions", "transactions", "parked",
    "unacked of the queues", "storing of the queues", "consumers of the queues", "blocked of the queues",
}  # fmt: skip

Life = Callable[[Wire, Random, int], None]
LIFE_KINDS: list[Life] = []


def life(kind: Life) -> Life:
    """One life of a connection, from its socket on. Whoever has not closed it at the end loses it then."""
    LIFE_KINDS.append(kind)
    return kind


def reset(wire: Wire) -> None:
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


# ---- connections ----------------------------------------------------------------------------------------------------


@life
def says_goodbye(wire: Wire, chance: Random, place: int) -> None:
    wire.connect()
    wire.ask("DISCONNECT")


@life
def is_reset(wire: Wire, chance: Random, place: int) -> None:
    wire.connect()
    reset(wire)


@life
def is_lost_in_a_frame(wire: Wire, chance: Random, place: int) -> None:
    wire.connect()
    frame = wire.frame("SEND", {"destination": "/queue/half"}, b"x" * 1000)
    wire.send_raw(frame[: chance.randrange(1, len(frame))])
    if chance.random() < 0.5:
        reset(wire)


@life
def is_lost_before_it_is_connected(wire: Wire, chance: Random, place: int) -> None:
    frame = wire.frame("CONNECT", {"accept-version": "1.2", "host": "test"})
    wire.send_raw(frame[: chance.randrange(len(frame))])
    if chance.random() < 0.5:
        reset(wire)


@life
def says_nothing(wire: Wire, chance: Random, place: int) -> None:
    """Closed by connect_timeout_s; or later, in the middle of a frame."""
    if chance.random() < 0.5:
        wire.connect()
        wire.send_raw(b"SEND\ndest")
    assert wire.is_closed()


@life
def is_refused(wire: Wire, chance: Random, place: int) -> None:
    kind = chance.randrange(4)
    if kind == 0:
        wire.send_raw(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
    elif kind == 1:
        wire.send_frame("CONNECT", {"accept-version": "9.9", "host": "test"})
    elif kind == 2:
        wire.connect()
        wire.send_frame("SUBSCRIBE", {"id": "0", "destination": "/fanout/none", "receipt": "r"})
    else:
        wire.connect()
        wire.send_frame("ACK", {"id": "never-given"})
    end(wire)


def end(wire: Wire) -> None:
    """Reads until the broker has hung up."""
    try:
        while True:
            wire.read_frame()
    except Gone:
        pass


@life
def misses_its_heart_beats(wire: Wire, chance: Random, place: int) -> None:
    wire.connect({"heart-beat": "200,200"})
    wire.subscribe("/queue/half")
    end(wire)


# ---- what a connection has open -------------------------------------------------------------------------------------


@life
def leaves_subscriptions(wire: Wire, chance: Random, place: int) -> None:
    wire.connect()
    for number, destination in enumerate(("/queue/many", "/topic/a.b", "/topic/a.*", "/topic/#", "/queue/fleeting.a")):
        wire.subscribe(destination, id=str(number), ack=chance.choice(("auto", "client", "client-individual")))
    if chance.random() < 0.5:
        for number in range(5):
            wire.ask("UNSUBSCRIBE", {"id": str(number)})


@life
def leaves_messages_unacked(wire: Wire, chance: Random, place: int) -> None:
    wire.connect()
    wire.subscribe(f"/queue/short.held.{place}")
    wire.send(f"/queue/short.held.{place}", "held")
    first = wire.message()
    if chance.random() < 0.3:
        wire.nack(first)
        first = wire.message()
    if chance.random() < 0.8:
        wire.ack(first)


@life
def leaves_transactions(wire: Wire, chance: Random, place: int) -> None:
    wire.connect()
    wire.send(f"/queue/short.bought.{place}", "b")
    wire.subscribe(f"/queue/short.bought.{place}")
    message = wire.message()
    for number in range(3):
        wire.ask("BEGIN", {"transaction": str(number)})
        wire.ask("SEND", {"destination": "/queue/short.sold", "transaction": str(number)}, b"s")
    wire.ask("ACK", {"id": message["ack"], "transaction": "0"})
    wire.ask(chance.choice(("COMMIT", "ABORT")), {"transaction": "0"})


@life
def leaves_temp_queues(wire: Wire, chance: Random, place: int) -> None:
    wire.connect()
    wire.send_frame("SEND", {"destination": f"/queue/questions.{place}", "reply-to": "/temp-queue/answers"}, b"?")
    wire.subscribe(f"/queue/questions.{place}", ack="auto")
    read_request = wire.message()
    wire.send(read_request["reply-to"], "!")
    if chance.random() < 0.5:
        assert wire.message().body == b"!"
    wire.subscribe("/temp-queue/more", id="more")


@life
def is_lost_while_it_waits_for_room(wire: Wire, chance: Random, place: int) -> None:
    wire.connect()
    for _ in range(3):
        wire.send_frame("SEND", {"destination": f"/queue/narrow.{place}"}, b"n" * 100)
    if chance.random() < 0.5:
        assert wire.read("ERROR")["message"]  # by block_timeout_s


@life
def asks_the_admin(wire: Wire, chance: Random, place: int) -> None:
    wire.connect()
    wire.send(f"/queue/short.brief.{place}", "b")
    for do in ("peek", "purge", chance.choice(("delete", "rubbish"))):
        wire.admin(json.dumps({"do": do, "queue": f"short.brief.{place}"}).encode())


@life
def publishes(wire: Wire, chance: Random, place: int) -> None:
    wire.connect()
    wire.subscribe("/topic/news.*", ack="auto")
    for _ in range(3):
        wire.send("/topic/news.today", body_of("news"))
    wire.messages(3)


@life
def reads_a_log(wire: Wire, chance: Random, place: int) -> None:
    wire.connect()
    headers = {"from": "latest", "group": f"group-{place}", "prefetch-count": "5"}
    wire.subscribe("/log/events", id="group", headers=headers)
    for _ in range(3):
        wire.send("/log/events", body_of("event"), {"partition-key": str(chance.randrange(9))})
    for message in wire.messages(2):
        if chance.random() < 0.7:
            wire.ack(message)
    waiting = json.dumps({"do": "await", "log": "events", "next": [1 << 40] * 2, "timeout_ms": 60_000})
    wire.send_frame("SEND", {"destination": "/admin", "reply-to": "/temp-queue/more"}, waiting.encode())
    if chance.random() < 0.5:
        wire.subscribe("/log/events", id="all", ack="auto", headers={"from": "earliest", "until": "end"})
        frame = wire.read_frame()
        while frame.command == "MESSAGE" and frame.get("end") is None:
            frame = wire.read_frame()
        # the log keeps little: retention may have overtaken it
        assert frame.command == "MESSAGE" or frame["code"] == "no-such-offset", frame


@life
def prepares_and_checks_out(wire: Wire, chance: Random, place: int) -> None:
    wire.connect()

    def ask(**request: object) -> dict[str, object]:
        return dict(json.loads(wire.admin(json.dumps(request).encode())))

    name = f"prepared-{place}"
    wire.ask("BEGIN", {"transaction": "t"})
    wire.ask("SEND", {"destination": f"/queue/short.placed.{place}", "transaction": "t"}, b"p")
    wire.ask("COMMIT", {"transaction": "t", "prepare": name})
    if chance.random() < 0.7:
        ask(do="commit", prepared=[name], app=f"app-{place}", version=time.monotonic_ns())
    else:
        ask(do="abort", prepared=[name])
    taken = {"queue": f"taken.{place}", "group": "g"}
    for _ in range(2):
        wire.send(f"/queue/taken.{place}", "t")
    found = ask(do="checkout", max_messages=10, **taken)
    ask(do="checkout-ack", before=found["next"], **taken)
    if chance.random() < 0.3:
        ask(do="checkout-release", **taken)


# ---- messages -------------------------------------------------------------------------------------------------------


def stream(wire: Wire, chance: Random, count: int, depth: int) -> None:
    """Messages of many sizes through a queue that is never deeper than that."""
    waiting = 0
    wire.subscribe("/queue/stream", headers={"prefetch-count": str(depth)})
    while count or waiting:
        batch = min(count, depth - waiting)
        bodies = [b"x" * chance.choice(SIZES) for _ in range(batch)]
        last = wire.frame("BEGIN", {"transaction": "t", "receipt": "fence"}) + wire.frame("ABORT", {"transaction": "t"})
        wire.send_raw(b"".join(wire.frame("SEND", {"destination": "/queue/stream"}, body) for body in bodies) + last)
        wire.await_receipt("fence")
        count, waiting = count - batch, waiting + batch
        taken = wire.messages(chance.randint(1, waiting) if count else waiting)
        wire.send_raw(b"".join(wire.frame("ACK", {"id": message["ack"]}) for message in taken))
        waiting -= len(taken)
    wire.ask("UNSUBSCRIBE", {"id": "0"})


# ---- counting -------------------------------------------------------------------------------------------------------


class Counted:
    """A broker that is counted after each round."""

    def __init__(self, directory: Path) -> None:
        server = SERVER.replace('"8GiB"', f'"{MAP_MIB}MiB"')
        self.broker = BrokerProcess(directory, f"{server}\n{CONFIG}", ("-m", "tests.campaigns.census"))
        self.rounds: list[Counter[str]] = []
        self.memory_bytes: list[int] = []
        self.file_bytes: list[int] = []
        self.wal_bytes: list[int] = []

    def count(self) -> None:
        """At rest: once nothing becomes less any more. What is over stands in the timetable for a moment."""
        deadline_s = time.monotonic() + SETTLE_MAX_S
        before, counted = self.counted(), self.counted()
        while counted.total() < before.total() and time.monotonic() < deadline_s:
            before, counted = counted, self.counted()
        self.rounds.append(counted)
        self.memory_bytes.append(anonymous_bytes(self.broker.pid))
        self.file_bytes.append((self.broker.data_dir / "data.mdb").stat().st_size)
        self.wal_bytes.append(sum(file.stat().st_size for file in (self.broker.data_dir / "wal").iterdir()))

    def counted(self) -> Counter[str]:
        file = self.broker.directory / "census.json"
        file.unlink(missing_ok=True)
        time.sleep(COUNT_EVERY_S)  # time is what is waited for
        os.kill(self.broker.pid, signal.SIGUSR2)
        deadline_s = time.monotonic() + 10
        while not file.exists():
            assert self.broker.is_running and time.monotonic() < deadline_s, self.broker.log
            time.sleep(0.02)
        counted = Counter(json.loads(file.read_text()))
        process = Path(f"/proc/{self.broker.pid}")
        counted["open files"] = len(list((process / "fd").iterdir()))
        counted["threads"] = len(list((process / "task").iterdir()))
        return counted

    def leaks(self) -> list[str]:
        """What has grown in every judged round: by half of what one kind of life would leave in it, or more; what is
        always the same at rest, at all.
        """
        judged = self.rounds[-JUDGED_ROUNDS - 1 :]
        names = sorted({name for counted in judged for name in counted})
        least = {name: 1.0 if name in THE_SAME_AT_REST else LIVES / 2 for name in names}
        return [
            f"{name} grows with each round of {LIVES} lives of each kind: {[counted[name] for counted in judged]}"
            for name in names
            if all(later[name] - earlier[name] >= least[name] for earlier, later in pairwise(judged))
        ]


def anonymous_bytes(pid: int) -> int:
    """What its memory is without mapped files; the pages of the store come and go as the system likes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the system does not tell RssAnon")


def slope(values: list[int]) -> float:
    """A round's growth: the median of the slopes of all pairs, so that no single jump counts (Theil and Sen)."""
    pairs = [(here, there) for here in range(len(values)) for there in range(here + 1, len(values))]
    return median((values[there] - values[here]) / (there - here) for here, there in pairs) if pairs else 0.0


# ---- the campaign ---------------------------------------------------------------------------------------------------


def come_to_rest(wire: Wire) -> None:
    """No message is left, and the last batches are small and alike: what they did is kept until the next."""
    for queue in json.loads(wire.admin(b'{"do": "queues"}'))["queues"]:
        if queue["stored"]:
            wire.admin(json.dumps({"do": "purge", "queue": queue["name"]}).encode())
    wire.subscribe("/queue/rest")
    for _ in range(3):
        wire.send("/queue/rest", "r")
        wire.ack(wire.message())


def live(broker: BrokerProcess, chance: Random) -> int:
    """A round: LIVES of every kind, some at a time, each at a place of its own. How many."""
    lives = [(kind, place, chance.randrange(1 << 60)) for kind in LIFE_KINDS for place in range(LIVES)]
    chance.shuffle(lives)

    def one(what: tuple[Life, int, int]) -> None:
        kind, place, seed = what
        with Wire((broker.host, broker.port)) as wire:
            kind(wire, Random(seed), place)

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for _ in pool.map(one, lives):
            pass
    return len(lives)


def grow(run: Run) -> None:
    messages, depth = STREAMS[run.level]
    counted = Counted(run.directory)
    broker = counted.broker
    bytes_max = FILE_FACTOR * depth * max(SIZES) + FILE_CONSTANT_BYTES
    with broker:
        while not run.is_over or len(counted.rounds) <= WARM_ROUNDS + JUDGED_ROUNDS:
            run.case(live(broker, run.chance))
            with Wire((broker.host, broker.port)) as wire:
                wire.connect()
                stream(wire, run.chance, messages, depth)
                come_to_rest(wire)
            counted.count()
            if len(counted.rounds) > WARM_ROUNDS + JUDGED_ROUNDS:
                for leak in counted.leaks():
                    run.violation(leak)
            if counted.file_bytes[-1] > bytes_max:
                run.violation(f"data.mdb has {counted.file_bytes} bytes after each round, of {bytes_max} at most")
            if counted.wal_bytes[-1] > WAL_BYTES_MAX:
                run.violation(f"wal/ has {counted.wal_bytes} bytes after each round, of {WAL_BYTES_MAX} at most")
        judge_the_end(run, counted)
        if queues_that_do_not_add_up(broker) or broker.stop() != 0 or "Traceback" in broker.log:
            run.violation(f"no clean end: {broker.log[-3000:]}")


def judge_the_end(run: Run, counted: Counted) -> None:
    lives_of_a_round = LIVES * len(LIFE_KINDS)
    grown_bytes = slope(counted.memory_bytes[max(WARM_ROUNDS, len(counted.memory_bytes) // 2) :]) / lives_of_a_round
    run.figures["bytes of memory a life leaves"] = round(grown_bytes)
    run.figures["MiB of memory"] = round(counted.memory_bytes[-1] / (1 << 20), 1)
    run.figures["MiB of wal/"] = round(counted.wal_bytes[-1] / (1 << 20), 1)
    run.figures["MiB of data.mdb"] = round(counted.file_bytes[-1] / (1 << 20), 1)
    if grown_bytes > MEMORY_BYTES_OF_A_LIFE[run.level]:
        run.violation(f"each life leaves {grown_bytes:.0f} bytes of memory: {counted.memory_bytes}")


CAMPAIGNS = (
    Campaign(
        number="T19",
        name="growth",
        title="lets connections come and go in every way, and messages pass, and counts what is left",
        unit="lives",
        run=grow,
        cases=(1300, 60_000, 400_000),
        mutants=(
            "reader-leak",
            "connection-leak",
            "temp-queue-leak",
            "subscription-leak",
            "timer-leak",
            "segments-never-used-again",
        ),
        mutant_cases=1300,
        needs=("linux",),
        limit_s=(120, 3600, 4 * 3600),
    ),
)
