"""T13: while one part of the broker is busy, is everybody else served in time?

Two quiet clients, one that only hears heart-beats and one that sends to a memory queue and waits for the RECEIPT, are
timed while something heavy goes on: floods, bursts, deep queues that are purged or expire, logs that are read or go,
transactions of many messages, a slow disk. The 99th percentile must stay below P99_MS and the worst below MAX_MS.

A machine can hiccup by itself, so a load that was too slow is tried again, up to TRIES times; one that is too
slow every time is a violation. It times this process too, whose threads share a lock: it sees more than there is.
"""

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from radiator.model.limits import KIB, MIB
from tests.acceptance.wire import Gone, Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, BrokerProcess
from tests.campaigns import trace
from tests.campaigns.campaign import Campaign, Run

P99_MS = 100.0
MAX_MS = 250.0
TRIES = 3
BEAT_MS = 100
PAUSE_S = 0.002
PRODUCERS = 3  # of a flood
SECONDS = {"quick": 1.0, "nightly": 4.0, "release": 10.0}
SUBSCRIBERS = {"quick": 1_000, "nightly": 9_000, "release": 9_000}
DEEP = {"quick": 10_000, "nightly": 50_000, "release": 90_000}
END_MAX_S = 60.0
GIVEN_BACK = 20_000  # by one command
FEW = 6  # beats, and SENDs
SLOW_SYNC_S = 0.5

CONFIG = f"""\
[limits]
heart_beat_ms = [{BEAT_MS}, 10000]
max_memory_bytes = "2GiB"
{EVERYTHING_MAY_BE_CREATED}
[queue."memory.*"]
persistent = false
max_messages = 100000
max_bytes = "1GiB"
overflow = "drop-oldest"
[queue."memory.expiring"]
persistent = false
max_messages = 1000000
max_bytes = "1GiB"
dead_letter = "memory.dead"
[queue."expiring"]
dead_letter = "dead"
[queue."dead"]
[queue."memory.dead"]
persistent = false
max_messages = 1000000
max_bytes = "1GiB"
[log."short"]
partitions = 2
retention_bytes = "2MiB"
[log."long"]
"""


class Watch:
    """Both quiet clients, each in a thread, within `with`. late_ms: of each heart-beat. times_ms: of each SEND."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.late_ms: list[float] = []
        self.times_ms: list[float] = []
        self._is_over = threading.Event()
        self._wrong: list[BaseException] = []
        self._listener = Wire((broker.host, broker.port))
        self._listener.connect({"heart-beat": f"0,{BEAT_MS}"})
        self._sender = Wire((broker.host, broker.port))
        self._sender.connect()
        self._threads = [threading.Thread(target=self._work, args=(work,)) for work in (self._hear, self._send)]

    def __enter__(self) -> "Watch":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()
        self._sender.close()
        if self._wrong and error[0] is None:
            raise AssertionError(f"a quiet client was lost: {self._wrong[0]!r}")

    def _work(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as wrong:  # noqa: BLE001 - told by __exit__
            self._wrong.append(wrong)

    def _hear(self) -> None:
        came_s = time.monotonic()
        while not self._is_over.is_set():
            data = self._listener.socket.recv(100)
            if not data:
                raise Gone("it was closed")
            now_s = time.monotonic()
            self.late_ms.append(max(0.0, (now_s - came_s) * 1000 - BEAT_MS))
            came_s = now_s

    def _send(self) -> None:
        while not self._is_over.wait(PAUSE_S):
            began_s = time.monotonic()
            self._sender.send("/queue/memory.quiet", "x")
            self.times_ms.append((time.monotonic() - began_s) * 1000)

    def await_few(self) -> None:
        """Until there are enough to judge by."""
        deadline_s = time.monotonic() + END_MAX_S
        while min(len(self.late_ms), len(self.times_ms)) < FEW and time.monotonic() < deadline_s:
            time.sleep(0.01)

    def complaint(self) -> str:
        """What was too slow; "": nothing."""
        wrong = []
        for what, some in (("a heart-beat is late by", self.late_ms), ("a SEND takes", self.times_ms)):
            if p99(some) > P99_MS or max(some) > MAX_MS:
                wrong.append(f"{what} {p99(some):.0f} ms at the 99th percentile and {max(some):.0f} ms at most")
        return ", ".join(wrong)


def p99(times_ms: list[float]) -> float:
    """Of a few, the worst but one: 20 heart-beats have no 99th percentile."""
    assert len(times_ms) >= FEW, f"only {len(times_ms)} were timed"
    return sorted(times_ms)[min(len(times_ms) - 2, int(len(times_ms) * 0.99))]


# ---- loads: each prepares, then yields what is to be done while the clients are timed ------------------------------

Act = Callable[[], object]


class Place:
    """The broker, and connections that end with it."""

    def __init__(self, run: Run, broker: BrokerProcess, stack: ExitStack) -> None:
        self.broker = broker
        self.level = run.level
        self.seconds = SECONDS[run.level]
        self.deep = DEEP[run.level]
        self._stack = stack

    def client(self) -> Wire:
        wire = self._stack.enter_context(Wire((self.broker.host, self.broker.port)))
        wire.connect()
        return wire

    def pour(self, data: bytes) -> None:
        """The same bytes again and again, as fast as they are taken, by each of PRODUCERS."""
        end_s = time.monotonic() + self.seconds

        def go_on(wire: Wire) -> None:
            while time.monotonic() < end_s:
                wire.send_raw(data)

        threads = [threading.Thread(target=go_on, args=(self.client(),)) for _ in range(PRODUCERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def fill(self, queue: str, count: int, headers: dict[str, str] | None = None) -> None:
        """Receipted at its end."""
        wire = self.client()
        data = wire.frame("SEND", {"destination": queue, **(headers or {})}, b"x" * 100) * 500
        for _ in range(count // 500):
            wire.send_raw(data)
        wire.send(queue, "the last")

    def prepare(self, queue: str, count: int, names: list[str]) -> None:
        """So many SENDs are prepared under each of these names."""
        wire = self.client()
        for name in names:
            wire.ask("BEGIN", {"transaction": name})
            data = wire.frame("SEND", {"destination": queue, "transaction": name}, b"x" * 100) * 500
            for _ in range(count // 500):
                wire.send_raw(data)
            wire.ask("COMMIT", {"transaction": name, "prepare": name})

    def ask(self, **request: object) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.client().admin(json.dumps(request).encode()))
        assert answer["ok"], answer
        return answer

    def await_prepared(self, at_most: int) -> None:
        deadline_s = time.monotonic() + END_MAX_S
        while self.ask(do="prepared")["count"] > at_most:
            assert time.monotonic() < deadline_s, "what was prepared does not go"
            time.sleep(0.05)

    def await_stored(self, queue: str, at_most: int) -> None:
        wire = self.client()
        deadline_s = time.monotonic() + END_MAX_S
        while json.loads(wire.admin(b'{"do": "stats"}'))["queues"][queue]["stored"] > at_most:
            assert time.monotonic() < deadline_s, f"{queue} does not get empty"
            time.sleep(0.05)


def flood_of_small_frames(place: Place) -> Act:
    data = place.client().frame("SEND", {"destination": "/queue/memory.flood"}) * 20_000
    return lambda: place.pour(data)


def flood_of_64_kib(place: Place) -> Act:
    data = place.client().frame("SEND", {"destination": "/queue/memory.flood"}, bytes(64 * KIB)) * 16
    return lambda: place.pour(data)


def flood_of_big_frames(place: Place) -> Act:
    data = place.client().frame("SEND", {"destination": "/queue/memory.flood"}, bytes(15 * MIB))
    return lambda: place.pour(data)


def flood_of_headers(place: Place) -> Act:
    headers = {"destination": "/topic/nobody", **{f"header-{number}": "value" for number in range(200)}}
    data = place.client().frame("SEND", headers) * 200
    return lambda: place.pour(data)


def topic_burst(place: Place) -> Act:
    """What they get fits the buffers of the system, so nobody needs to read it."""
    for number in range(SUBSCRIBERS[place.level]):
        wire = place.client()
        wire.send_frame("SUBSCRIBE", {"id": "0", "destination": "/topic/burst"})
        if number % 500 == 0:
            wire.fence()
    publisher = place.client()
    count = {"quick": 40, "nightly": 40, "release": 100}[place.level]

    def publish() -> None:
        publisher.send_raw(publisher.frame("SEND", {"destination": "/topic/burst"}, b"x" * 1024) * count)
        publisher.fence()

    return publish


def purge_in_memory(place: Place) -> Act:
    place.fill("/queue/memory.deep", place.deep)
    return lambda: place.ask(do="purge", queue="memory.deep")


def purge_on_disk(place: Place) -> Act:
    place.fill("/queue/deep", place.deep)
    return lambda: place.ask(do="purge", queue="deep")


def delete_and_sweep(place: Place) -> Act:
    place.fill("/queue/deep", place.deep)

    def delete() -> None:
        place.ask(do="delete", queue="deep")
        time.sleep(place.seconds)  # it is swept in slices, of which nothing is told

    return delete


def expiry(count: int, filled_a_second: int) -> dict[str, str]:
    """When all will be there, or most."""
    return {"expires": str(int((time.time() + 2 + count / filled_a_second) * 1000))}


def expire_to_dead_letters(place: Place) -> Act:
    """All within a moment."""
    place.fill("/queue/expiring", place.deep, expiry(place.deep, 7_500))
    return lambda: place.await_stored("expiring", 1)


def expire_in_memory(place: Place) -> Act:
    place.fill("/queue/memory.expiring", 4 * place.deep, expiry(4 * place.deep, 20_000))
    return lambda: place.await_stored("memory.expiring", 1)


def lost_with_all_unacked(place: Place) -> Act:
    """Of two queues, one of each kind, and all of it comes back at once."""
    holders = []
    for queue in ("/queue/memory.held", "/queue/held"):
        place.fill(queue, 10_000)
        holder = place.client()
        holder.subscribe(queue, headers={"prefetch-count": "10000"})
        holder.messages(9_900)
        holders.append(holder)

    def lose() -> None:
        for holder in holders:
            holder.close()
        time.sleep(place.seconds)

    return lose


def given_back_by_one_command(place: Place) -> Act:
    """All that is unacked, with SENDs behind the NACK that wait for it."""
    place.fill("/queue/held", GIVEN_BACK)
    holder = place.client()
    holder.subscribe("/queue/held", ack="client", headers={"prefetch-count": str(GIVEN_BACK)})
    last = holder.messages(GIVEN_BACK)[-1]

    def give_back() -> None:
        holder.nack(last)
        holder.send_raw(b"SEND\ndestination:/queue/memory.behind\n\nx\0" * 100)
        holder.fence()
        time.sleep(place.seconds)

    return give_back


def numbers_of_many_queues(place: Place) -> Act:
    wire = place.client()
    names = (f"/queue/memory.many{number}" for number in range(1_000 if place.level == "quick" else 9_000))
    for name in names:
        wire.send_frame("SEND", {"destination": name}, b"x")
    wire.fence()

    def look() -> None:
        end_s = time.monotonic() + place.seconds
        while time.monotonic() < end_s:
            place.ask(do="stats")

    return look


def everybody_leaves(place: Place) -> Act:
    """Connections with subscriptions, all lost at once."""
    stack = ExitStack()
    for _ in range(1_000 if place.level == "quick" else 5_000):
        wire = stack.enter_context(Wire((place.broker.host, place.broker.port)))
        wire.send_raw(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
        wire.send_raw(
            b"SUBSCRIBE\nid:0\ndestination:/topic/a.*\n\n\0SUBSCRIBE\nid:1\ndestination:/queue/memory.a\n\n\0"
        )

    def leave() -> None:
        stack.close()
        time.sleep(place.seconds)

    return leave


def log_of_which_segments_go_all_the_time(place: Place) -> Act:
    data = place.client().frame("SEND", {"destination": "/log/short"}, bytes(KIB)) * 2_000
    place.fill("/log/short", 1_000)

    def append() -> None:
        place.pour(data)
        first = place.ask(do="describe", log="short")["partitions"]["first"]
        assert min(first) > 1_000, f"nothing has gone: {first}"

    return append


def log_read_through(place: Place) -> Act:
    """By several at once, none of whom waits for anything."""
    place.fill("/log/long", 2 * place.deep)
    wires = [place.client() for _ in range(PRODUCERS)]

    def read() -> None:
        def go_on(wire: Wire) -> None:
            end_s = time.monotonic() + place.seconds
            while time.monotonic() < end_s:
                headers = {"from": "earliest", "until": "end"}
                wire.send_frame("SUBSCRIBE", {"id": "0", "destination": "/log/long", **headers})
                data = b""
                while b"\nend:true\n" not in data:
                    data = data[-20:] + (more := wire.socket.recv(1 << 20))
                    assert more, f"it was closed: {data!r}"
                wire.send_frame("UNSUBSCRIBE", {"id": "0"})

        with ThreadPoolExecutor(PRODUCERS) as pool:
            list(pool.map(go_on, wires))

    return read


def log_deleted(place: Place) -> Act:
    place.ask(do="declare", log="deep")
    place.fill("/log/deep", 2 * place.deep)

    def delete() -> None:
        place.ask(do="delete", log="deep")
        time.sleep(place.seconds)  # it goes in slices, of which nothing is told

    return delete


def checkout_and_release(place: Place) -> Act:
    """All that there is, and back again."""
    place.fill("/queue/deep", place.deep)

    def take() -> None:
        place.ask(do="checkout", queue="deep", group="g", max_messages=place.deep)
        place.ask(do="checkout-release", queue="deep", group="g")

    return take


def prepared_and_committed(place: Place) -> Act:
    names = [f"t{number}" for number in range(4)]
    place.prepare("/queue/deep", place.deep, names)

    def commit() -> None:
        place.ask(do="commit", prepared=names, app="a", version=1)
        place.await_prepared(0)

    return commit


def prepared_and_aborted(place: Place) -> Act:
    names = [f"t{number}" for number in range(4)]
    place.prepare("/queue/deep", place.deep, names)

    def abort() -> None:
        place.ask(do="abort", prepared=names)
        place.await_prepared(0)
        time.sleep(place.seconds)

    return abort


def senders_to_a_slow_disk(place: Place) -> Act:
    """Persistent messages, each with its RECEIPT, while every sync takes half a second."""
    wires = [place.client() for _ in range(4)]

    def send() -> None:
        end_s = time.monotonic() + max(2.0, place.seconds)
        for wire in itertools.cycle(wires):
            began_s = time.monotonic()
            wire.send("/queue/slow", "x")
            assert time.monotonic() - began_s > SLOW_SYNC_S / 2, "the disk was not slow: this proves nothing"
            if time.monotonic() > end_s:
                return

    return send


Load = Callable[[Place], Act]
LOADS: tuple[Load, ...] = (
    flood_of_small_frames, flood_of_64_kib, topic_burst, flood_of_big_frames, flood_of_headers, purge_in_memory,
    given_back_by_one_command, log_of_which_segments_go_all_the_time, log_read_through, purge_on_disk, delete_and_sweep,
    expire_to_dead_letters, expire_in_memory, lost_with_all_unacked, numbers_of_many_queues, everybody_leaves,
    log_deleted, checkout_and_release, prepared_and_committed, prepared_and_aborted,
)  # fmt: skip


def timed(run: Run, load: Load, directory: Path, is_disk_slow: bool = False) -> Watch:
    """The clients' times while the load goes on."""
    directory.mkdir()
    with BrokerProcess(directory, CONFIG) as broker, ExitStack() as stack:
        act = load(Place(run, broker, stack))
        with slow_disk(broker.pid) if is_disk_slow else ExitStack(), Watch(broker) as watch:
            act()
            watch.await_few()
        assert broker.is_running, broker.log[-2000:]
    return watch


@contextmanager
def slow_disk(pid: int) -> Iterator[None]:
    """Every fdatasync takes half a second."""
    delay = f"inject=fdatasync:delay_enter={int(SLOW_SYNC_S * 1e6)}"
    with trace.attached(pid, ["-e", "trace=fdatasync", "-e", delay, "-o", "/dev/null"]):
        yield


def judge(run: Run, load: Load, is_disk_slow: bool = False) -> None:
    complaints = []
    for number in range(TRIES):
        try:
            watch = timed(run, load, run.directory / f"{load.__name__}-{run.done}-{number}", is_disk_slow)
            complaint = watch.complaint()
        except TimeoutError as late:
            complaint = f"nothing came for {late!r}"
        if not complaint:
            name = load.__name__.replace("_", " ")
            worst_ms = max(max(watch.late_ms), max(watch.times_ms))
            run.figures[f"{name}, worst ms"] = max(int(run.figures.get(f"{name}, worst ms", 0)), round(worst_ms))
            return
        complaints.append(complaint)
    run.violation(f"{load.__name__}: {'; again: '.join(complaints)}")


def time_quiet_clients(run: Run) -> None:
    while not run.is_over:
        for load in LOADS:
            judge(run, load)
            run.case()
            if run.is_over:
                return


def time_beside_a_slow_disk(run: Run) -> None:
    while not run.is_over:
        judge(run, senders_to_a_slow_disk, is_disk_slow=True)
        run.case()


CAMPAIGNS = (
    Campaign(
        number="T13",
        name="latency",
        title="times quiet clients while others flood, burst, purge, expire, read logs, die",
        unit="loads",
        run=time_quiet_clients,
        cases=(9, 3 * len(LOADS), 20 * len(LOADS)),
        mutants=("no-read-quantum", "long-works-in-one-slice"),
        mutant_cases=len(LOADS),
        is_timed=True,
    ),
    Campaign(
        number="T13b",
        name="slow-disk",
        title="times quiet clients while every sync of the disk takes half a second",
        unit="runs",
        run=time_beside_a_slow_disk,
        cases=(1, 10, 100),
        mutants=("inline-commit",),
        mutant_cases=1,
        needs=("strace",),
        is_timed=True,
    ),
)
