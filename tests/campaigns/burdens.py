"""T7c: clients of every kind that can hold something, laid at once on one broker against small bounds.

Consumers that never ack, are killed, or stall; silent transactions and endless ones; halves of frames, and frames byte
by byte; connections that never say CONNECT; memory queues and temp queues that nobody reads; receipts, and answers of
/admin, that nobody reads; producers that wait; readers of logs that ack nothing; delayed messages; queues and
subscriptions up to their bounds. Meanwhile two bystanders, one with a queue on the disk and one with a queue in memory,
send, get and ack: each of these rounds takes less than ROUND_MAX_MS. Then what is counted and what the process has in
memory are judged, and that nothing of it is left when all have gone.

Not here: a full disk, which by design keeps every SEND to it waiting (T5), and other nodes (B2b and the like).
"""

import contextlib
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack

from radiator.model.limits import INBOX_MAX_BYTES, MIB
from tests.acceptance.conftest import stats
from tests.acceptance.wire import Gone, Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess
from tests.campaigns.bystander import Bystander, Meter, upright
from tests.campaigns.campaign import Run

MEMORY_BYTES = 32 * MIB
CONFIG = f"""{SERVER}
{EVERYTHING_MAY_BE_CREATED}
[limits]
max_memory_bytes = "{MEMORY_BYTES // MIB}MiB"
max_frame_bytes = "1MiB"
max_batch_bytes = "8MiB"
outbox_max_bytes = "2MiB"
max_connections = 300
max_half_open = 50
max_destinations = 400
max_subscriptions = 200
connect_timeout_s = 2
frame_timeout_s = 3
transaction_max_s = 3
block_timeout_s = 3
[queue."memory"]
persistent = false
[queue."large-memory"]
persistent = false
max_bytes = "1GiB"
[queue."memory-bystander"]
persistent = false
[queue."full"]
max_messages = 3
[queue."bystander"]
[queue."held"]
[queue."stalled"]
[queue."t"]
[queue."large"]
[queue."asked"]
[queue."late"]
[log."records"]
"""
ROUND_MAX_MS = 1000.0
HELD_S = {"quick": 4.0, "nightly": 6.0, "release": 10.0}  # longer than every timeout of CONFIG
PARKED_S = 8.0
WRITING_MAX_S = 0.15  # a client whose frames are not taken for so long says no more
GROWTH_MAX_BYTES = 2 * MEMORY_BYTES + 64 * MIB  # frames are copied once; of the disk, batches, loads, 300 connections
KEPT_OF_THE_DISK_BYTES = 20 * MIB  # windows 4, in flight 2, of logs in flight 2, read ahead 3 and last records 8
COUNTED_MAX_BYTES = MEMORY_BYTES + KEPT_OF_THE_DISK_BYTES + INBOX_MAX_BYTES  # which may come in between two Ticks
LEFT_MAX_BYTES = 48 * MIB  # which the allocator has not given back
BODY = b"x" * 50_000
CONNECT = b"CONNECT\naccept-version:1.2\nhost:bounds\n\n\0"


class Hold:
    """One case: a broker, and who is on it. errors: codes that somebody was told, as `listen` has found them."""

    def __init__(self, broker: BrokerProcess, stack: ExitStack) -> None:
        self.broker = broker
        self.stack = stack
        self.wires: list[Wire] = []
        self.errors: set[str] = set()

    def wire(self) -> Wire:
        wire = self.stack.enter_context(Wire((self.broker.host, self.broker.port)))
        wire.connect()
        self.wires.append(wire)
        return wire

    def mute(self) -> socket.socket:
        """One that has said CONNECT, and reads nothing."""
        one = self.raw()
        one.sendall(CONNECT)
        one.recv(4096)
        one.settimeout(WRITING_MAX_S)
        return one

    def raw(self) -> socket.socket:
        """One that has said nothing."""
        one = self.stack.enter_context(socket.socket())
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(5)
        one.connect((self.broker.host, self.broker.port))
        return one

    def say(self, wire: Wire | socket.socket, *frames: bytes) -> bool:
        """As far as it is heard. Whether all of it was."""
        one = wire.socket if isinstance(wire, Wire) else wire
        one.settimeout(WRITING_MAX_S)
        try:
            for frame in frames:
                one.sendall(frame)
        except (TimeoutError, ConnectionError):
            return False
        return True

    def take(self, wire: Wire, count: int) -> None:
        """So many MESSAGEs, and no ACK; fewer where it holds most, and is closed for that."""
        for _ in range(count):
            found = wire.read_frame()
            if found.command == "ERROR":
                self.errors.add(found["code"])
                assert found["code"] == "memory", found
                return
            assert found.command == "MESSAGE", found

    def listen(self) -> None:
        """What everybody was told last."""
        for wire in self.wires:
            with contextlib.suppress(Gone, TimeoutError, ConnectionError, ValueError):
                while (frame := wire.read_frame(0.01)).command != "ERROR":
                    pass
                self.errors.add(frame["code"])


def frame(command: str, body: bytes = b"", **headers: object) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}:{value}\n" for name, value in headers.items())
    return f"{command}\n{lines}content-length:{len(body)}\n\n".encode() + body + b"\0"


def send(to: str, body: bytes = BODY, **headers: object) -> bytes:
    return frame("SEND", body, destination=to, **headers)


def subscribe(to: str, **headers: object) -> bytes:
    return frame("SUBSCRIBE", id=0, destination=to, **{"ack": "client-individual", **headers})


# ---- the burdens -----------------------------------------------------------------------------------------------------


def consumers_that_never_ack(hold: Hold) -> None:
    """More than max_memory_bytes, all of it on the disk; one of two is gone in the middle."""
    producer = hold.wire()
    for _ in range(16):
        producer.send_raw(send("/queue/held") * 50)
        producer.fence()
    for count in (300, 500):
        consumer = hold.wire()
        consumer.send_raw(subscribe("/queue/held", prefetch_count=65_535))
        hold.take(consumer, count)
        if count == 300:
            consumer.close()
            hold.wires.remove(consumer)


def consumers_that_stall(hold: Hold) -> None:
    producer = hold.wire()
    producer.send_raw(send("/queue/stalled") * 100)
    producer.fence()
    for number in range(12):
        hold.say(
            hold.mute(), subscribe("/queue/stalled", prefetch_count=65_535, ack="auto" if number % 2 else "client")
        )


def subscribers_that_stall(hold: Hold) -> None:
    for _ in range(12):
        hold.say(hold.mute(), subscribe("/topic/news", ack="auto"))
    hold.say(hold.mute(), subscribe("/exchange/amq.topic/a.#", ack="client"))
    publisher = hold.wire()
    hold.say(publisher, *[send("/topic/news") * 10] * 12)
    hold.say(publisher, *[send("/exchange/amq.topic/a.b") * 10] * 12)


def silent_transactions(hold: Hold) -> None:
    """Five hold most of the memory, and say nothing more."""
    for _ in range(5):
        wire = hold.wire()
        hold.say(wire, frame("BEGIN", transaction="t"), *[send("/queue/t", transaction="t") * 10] * 11)


def endless_transactions(hold: Hold) -> None:
    for _ in range(4):
        hold.say(hold.wire(), frame("BEGIN", transaction="t"), *[send("/queue/t", transaction="t") * 10] * 30)


def unfinished_frames(hold: Hold) -> None:
    for _ in range(20):
        hold.say(hold.wire(), send("/queue/large", b"l" * 1_000_000)[:-1])


def silent_connections(hold: Hold) -> None:
    for number in range(100):
        hold.say(hold.raw(), b"" if number % 2 else CONNECT[:20])


def full_memory_queues(hold: Hold) -> None:
    for queue in ("memory", "large-memory", "large-memory"):
        hold.say(hold.wire(), *[send(f"/queue/{queue}") * 10] * 80)


def temp_queues_that_nobody_reads(hold: Hold) -> None:
    asker, worker = hold.wire(), hold.wire()
    asker.send_raw(send("/queue/asked", b"?", reply_to="/temp-queue/answers"))
    worker.subscribe("/queue/asked")
    to = worker.message()["reply-to"]
    hold.say(worker, *[send(to) * 10] * 40)


def receipts_that_nobody_reads(hold: Hold) -> None:
    for _ in range(4):
        hold.say(hold.mute(), *[send("/topic/none", b"", receipt="r" * 900) * 100] * 100)


def answers_that_nobody_reads(hold: Hold) -> None:
    for _ in range(4):
        asked = [send("/admin", b'{"do": "stats"}', reply_to="/temp-queue/a", correlation_id=n) for n in range(100)]
        hold.say(hold.mute(), *asked)


def producers_that_wait(hold: Hold) -> None:
    for _ in range(10):
        hold.say(hold.wire(), send("/queue/full") * 10)


def readers_of_logs_that_ack_nothing(hold: Hold) -> None:
    producer = hold.wire()
    for _ in range(6):
        producer.send_raw(send("/log/records") * 50)
        producer.fence()
    for number in range(3):
        reader = hold.wire()
        reader.send_raw(subscribe("/log/records", prefetch_count=65_535, group=f"g{number}", **{"from": "earliest"}))
        hold.take(reader, 300)


def delayed_messages(hold: Hold) -> None:
    producer = hold.wire()
    for delay in (3_600_000, 1500):
        hold.say(producer, *[send("/queue/late", delay=delay) * 20] * 10)


def queues_and_subscriptions_to_their_bounds(hold: Hold) -> None:
    """What is one too many is refused."""
    hold.say(hold.wire(), *(send(f"/queue/many-{number}", b"m" * 20_000) for number in range(500)))
    hold.say(hold.wire(), *(frame("SUBSCRIBE", id=n, destination=f"/topic/of.{n}") for n in range(300)))
    hold.say(hold.wire(), *(frame("BEGIN", transaction=n) for n in range(30)))


BURDENS: tuple[Callable[[Hold], None], ...] = (
    consumers_that_never_ack,
    silent_transactions,
    full_memory_queues,
    consumers_that_stall,
    subscribers_that_stall,
    endless_transactions,
    unfinished_frames,
    silent_connections,
    temp_queues_that_nobody_reads,
    receipts_that_nobody_reads,
    answers_that_nobody_reads,
    producers_that_wait,
    readers_of_logs_that_ack_nothing,
    delayed_messages,
    queues_and_subscriptions_to_their_bounds,
)
EXPECTED_ERRORS = {
    producers_that_wait: {"blocked"},
    queues_and_subscriptions_to_their_bounds: {"too-many-destinations", "too-many-subscriptions"},
}
"""What somebody must have been told in the end: one of these at least."""


# ---- a case ----------------------------------------------------------------------------------------------------------


def lay_all(run: Run) -> None:
    """First each alone (nightly and release), then all at once, in any order."""
    while not run.is_over:
        alone = run.level != "quick" and run.done % (len(BURDENS) + 1)
        burdens = [BURDENS[alone - 1]] if alone else run.chance.sample(BURDENS, len(BURDENS))
        lay(run, burdens)
        run.case()


def lay(run: Run, burdens: list[Callable[[Hold], None]]) -> None:
    directory = run.directory / f"held-{run.done}"
    directory.mkdir()
    what = burdens[0].__name__.replace("_", " ") if len(burdens) == 1 else "all at once"
    with BrokerProcess(directory, CONFIG) as broker, upright(run, broker), ExitStack() as bystanders:
        there = {
            kind: bystanders.enter_context(Bystander(broker, queue))
            for kind, queue in (("disk", "/queue/bystander"), ("memory", "/queue/memory-bystander"))
        }
        meter, counted, began = Meter(broker.pid), 0, {}
        with ExitStack() as stack:
            hold = Hold(broker, stack)
            for burden in burdens:
                began[burden.__name__] = len(there["disk"].times_ms)
                with contextlib.suppress(Gone, TimeoutError, ConnectionError):  # somebody is closed, and who is matters
                    burden(hold)
                meter.look()
            until_s = time.monotonic() + HELD_S[run.level]
            numbers = stats(broker)
            # the clock of a transaction stands still while its connection waits for room
            while (now_s := time.monotonic()) < until_s or (numbers["transactions"] and now_s < until_s + PARKED_S):
                numbers = stats(broker)
                counted = max(counted, numbers["memory_bytes"])
                meter.look()
                time.sleep(0.1)
            hold.listen()
            if left := numbers["transactions"]:
                run.violation(f"{what}: {left} transactions are open for longer than transaction_max_s")
        for kind, bystander in there.items():
            slowest_ms = max(bystander.times_ms, default=float("inf"))
            note(run, f"slowest round of the bystander ({kind}), ms", round(slowest_ms))
            if slowest_ms > ROUND_MAX_MS:
                at = bystander.times_ms.index(slowest_ms)
                since = [name for name, rounds in began.items() if rounds <= at] if kind == "disk" else []
                run.violation(f"{what}: a bystander's SEND, delivery and ACK took {slowest_ms:.0f} ms, {since[-1:]}")
        note(run, "MiB counted", counted // MIB)
        note(run, "MiB grown", meter.growth_bytes // MIB)
        if counted > COUNTED_MAX_BYTES:
            run.violation(f"{what}: {counted} bytes are held, of {COUNTED_MAX_BYTES} at most")
        if meter.growth_bytes > GROWTH_MAX_BYTES:
            run.violation(f"{what}: the broker grew by {meter.growth_bytes} bytes, of {GROWTH_MAX_BYTES} at most")
        for burden in burdens:
            answer = EXPECTED_ERRORS.get(burden, set())
            if answer and not answer & hold.errors:
                run.violation(f"{what}: nobody was told any of {sorted(answer)}, but {sorted(hold.errors)}")
        await_nothing_left(run, broker, what)


def await_nothing_left(run: Run, broker: BrokerProcess, what: str) -> None:
    """All have gone but the bystanders; what is on the disk stays."""
    deadline_s = time.monotonic() + 10
    while True:
        numbers = stats(broker)
        in_queues = sum(
            one["bytes"] + 512 * one["messages"] for one in numbers["queues"].values() if not one["persistent"]
        )
        left = numbers["memory_bytes"] - in_queues
        here = {name: numbers[name] for name in ("connections", "transactions", "parked")}
        if here["connections"] <= 3 and not here["transactions"] and not here["parked"] and left < MEMORY_BYTES // 2:
            return
        if time.monotonic() > deadline_s:
            run.violation(f"{what}: all have gone, and there are {here} and {left} bytes")
            return
        time.sleep(0.1)


def note(run: Run, key: str, value: float) -> None:
    """The largest of all."""
    run.figures[key] = max(float(run.figures.get(key, 0)), value)
