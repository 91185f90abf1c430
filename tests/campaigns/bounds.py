"""T7: burdens of every kind are laid on a broker, and each may take so much of its memory, and no more.

Idle connections, a long queue, very many delayed messages, durable subscriptions to which nobody comes, subscribers of
a topic or an exchange that do not read, frames of 4 MiB that are never finished, clients that ask for receipts and
never read them, full transactions. What a burden takes is the highest RssAnon seen
while it lasts, less what it was before; the broker must answer meanwhile, and be as small again when it is gone.

It cannot see what the system's own buffers take, nor peaks shorter than a look, 5 ms.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from radiator.model.limits import KIB, MIB
from tests.acceptance.conftest import stats
from tests.acceptance.wire import Gone, Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess
from tests.campaigns import burdens
from tests.campaigns.campaign import Campaign, Run
from tests.campaigns.growth import anonymous_bytes

OUTBOX_MAX_BYTES = 256 * KIB
CONFIG = f"""{SERVER}
{EVERYTHING_MAY_BE_CREATED}
[limits]
outbox_max_bytes = "{OUTBOX_MAX_BYTES // KIB}KiB"
max_frame_bytes = "4MiB"
max_batch_bytes = "4MiB"
"""
LOOK_S = 0.005
SMALL_BYTES = 8 * MIB  # whatever the burden: what the allocator rounds up and keeps
QUEUE_BYTES = 32 * MIB  # a window, the batches that are being committed and filled, loads: however long the queue is
RELEASED_SHARE = 0.6  # of what a burden took; Python's allocator gives back whole arenas only
FRAME_BYTES = 4 * MIB - 1000
SCALE = {"quick": 1, "nightly": 4, "release": 10}


class Load:
    """A burden on a broker. bound_bytes: what it may take beside SMALL_BYTES."""

    def __init__(self, broker: BrokerProcess, scale: int, stack: ExitStack) -> None:
        self.broker, self.scale, self.stack = broker, scale, stack
        self.before_bytes = self.peak_bytes = anonymous_bytes(broker.pid)
        self.bound_bytes = 0

    def wire(self) -> Wire:
        wire = Wire((self.broker.host, self.broker.port))
        self.stack.enter_context(wire)
        wire.connect()
        return wire

    @property
    def is_too_much(self) -> bool:
        return self.peak_bytes - self.before_bytes > self.bound_bytes + SMALL_BYTES

    def await_(self, is_so: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + 20
        while not is_so() and not self.is_too_much:
            assert time.monotonic() < deadline_s, f"{what}: not within 20 s"
            time.sleep(LOOK_S)


def idle_connections(load: Load) -> None:
    count = 250 * load.scale
    load.bound_bytes = count * 24 * KIB
    for _ in range(count):
        load.wire()


def long_queue(load: Load) -> None:
    """Only a stretch of it is in memory, however long it is."""
    load.bound_bytes = QUEUE_BYTES
    wire = load.wire()
    frames = b"".join(wire.frame("SEND", {"destination": "/queue/long"}, b"x" * 1000) for _ in range(500))
    for _ in range(80 * load.scale):
        wire.send_raw(frames)
    wire.fence()
    reader = load.wire()
    reader.subscribe("/queue/long", headers={"prefetch-count": "1000"})
    for _ in range(3000):
        reader.send_frame("ACK", {"id": reader.message()["ack"]})
    reader.fence()


def delayed_messages(load: Load) -> None:
    """They are on the disk alone until they are due, and then no more than a window of them comes."""
    load.bound_bytes = QUEUE_BYTES
    wire = load.wire()
    later, soon = (
        b"".join(wire.frame("SEND", {"destination": "/queue/late", "delay": delay}, b"x" * 1000) for _ in range(500))
        for delay in ("3600000", "1500")
    )
    for _ in range(40 * load.scale):
        wire.send_raw(later + soon)
    wire.fence()
    load.await_(lambda: stats(load.broker)["queues"]["late"]["delayed"] == 20_000 * load.scale, "waking")


def durable_subscriptions_of_nobody(load: Load) -> None:
    """What is collected for them is on the disk but for a window each."""
    load.bound_bytes = QUEUE_BYTES
    subscriber = load.wire()
    for number in range(20):
        headers = {"id": str(number), "destination": "/topic/news", "durable": "true", "auto-delete": "false"}
        subscriber.ask("SUBSCRIBE", {**headers, "ack": "client-individual", "prefetch-count": "1"})
    subscriber.close()
    publisher = load.wire()
    frames = b"".join(publisher.frame("SEND", {"destination": "/topic/news"}, b"n" * 1000) for _ in range(100))
    for _ in range(20 * load.scale):
        publisher.send_raw(frames)
    publisher.fence()
    queues = stats(load.broker)["queues"]
    left = {name: numbers["stored"] for name, numbers in queues.items() if name.startswith("$durable/")}
    assert [*left.values()] == [2000 * load.scale] * 20, left


def exchange_subscribers_that_do_not_answer(load: Load) -> None:
    """Each has a queue in memory, and is closed when too much waits in it: 64 MiB are for the one, not for all."""
    load.bound_bytes = 80 * MIB
    load.wire().subscribe("/exchange/amq.topic/a.#", ack="client")
    publisher = load.wire()
    for _ in range(1400):
        publisher.send("/exchange/amq.topic/a.b", b"n" * 64 * KIB)
        if load.is_too_much:
            return
    load.await_(lambda: load.broker.log.count("slow_subscriber") == 1, "dropping a subscriber that does not answer")


def subscribers_that_do_not_read(load: Load) -> None:
    """Each is dropped once its outbox is full; whoever reads gets everything."""
    count = 20 * load.scale
    load.bound_bytes = count * 2 * OUTBOX_MAX_BYTES
    for _ in range(count):
        load.wire().subscribe("/topic/news", ack="auto")
    publisher = load.wire()
    for _ in range(1500):
        publisher.send("/topic/news", b"n" * 64 * KIB)
        if load.is_too_much:
            return
    # beside the publisher and who asks; the log tells of the first few of one client only
    load.await_(lambda: stats(load.broker)["connections"] == 2, "dropping subscribers that do not read")
    load.broker.wait_for_log("slow_subscriber")


def unfinished_frames(load: Load) -> None:
    """A frame is held whole while it comes, and may be copied once."""
    count = 16 * load.scale
    load.bound_bytes = count * 2 * FRAME_BYTES
    for _ in range(count):
        wire = load.wire()
        wire.send_raw(wire.frame("SEND", {"destination": "/queue/large"}, b"l" * FRAME_BYTES)[:-1])
    load.wire().fence()


def receipts_that_nobody_reads(load: Load) -> None:
    """Whose outbox is full is not read from any more: the sender comes to a stand."""
    count = 4 * load.scale
    load.bound_bytes = count * 8 * OUTBOX_MAX_BYTES
    for _ in range(count):
        wire = load.wire()
        frames = b"".join(wire.frame("SEND", {"destination": "/topic/none", "receipt": "r" * 900}) for _ in range(200))
        wire.socket.settimeout(1)
        try:
            for _ in range(2000):
                wire.socket.sendall(frames)
            raise AssertionError("a client that reads nothing could send 400,000 frames, and was still read from")
        except (TimeoutError, ConnectionError):
            pass
    load.wire().fence()


def full_transactions(load: Load) -> None:
    """Up to max_batch_bytes each; what is more is refused."""
    count = 4 * load.scale
    load.bound_bytes = count * 3 * 4 * MIB
    for _ in range(count):
        wire = load.wire()
        wire.ask("BEGIN", {"transaction": "t"})
        frame = wire.frame("SEND", {"destination": "/queue/t", "transaction": "t"}, b"t" * 100 * KIB)
        try:
            for _ in range(60):
                wire.send_raw(frame)
            error = wire.read("ERROR")
            assert error["message"], error
        except (Gone, ConnectionError):
            pass  # the ERROR was lost to the reset


LOADS = (
    exchange_subscribers_that_do_not_answer,
    subscribers_that_do_not_read,
    idle_connections,
    long_queue,
    delayed_messages,
    durable_subscriptions_of_nobody,
    unfinished_frames,
    receipts_that_nobody_reads,
    full_transactions,
)


@contextmanager
def watched(load: Load) -> Iterator[None]:
    """Keeps its peak, from beside."""
    is_over = threading.Event()

    def look() -> None:
        while not is_over.wait(LOOK_S):
            load.peak_bytes = max(load.peak_bytes, anonymous_bytes(load.broker.pid))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield
    finally:
        is_over.set()
        looking.join()


def lay(burden: Callable[[Load], None], run: Run, directory: Path) -> None:
    directory.mkdir()
    name = burden.__name__.replace("_", " ")
    with BrokerProcess(directory, CONFIG) as broker:
        with ExitStack() as stack:
            load = Load(broker, SCALE[run.level], stack)
            with watched(load):
                burden(load)
        took_bytes = load.peak_bytes - load.before_bytes
        run.figures[f"MiB for {name}"] = round(took_bytes / MIB, 1)
        if load.is_too_much:
            bound = f"{load.bound_bytes / MIB:.1f} + {SMALL_BYTES // MIB} MiB"
            run.violation(f"{name} took {took_bytes / MIB:.1f} MiB of memory, of {bound} at most")
        elif not is_small_again(load):
            left = (anonymous_bytes(broker.pid) - load.before_bytes) / MIB
            run.violation(f"{name} are gone, and of {took_bytes / MIB:.1f} MiB that they took {left:.1f} are not free")
        if broker.stop() != 0 or "Traceback" in broker.log:
            run.violation(f"no clean end after {name}: {broker.log[-3000:]}")


def is_small_again(load: Load) -> bool:
    large_bytes = max(0, load.peak_bytes - load.before_bytes - SMALL_BYTES - QUEUE_BYTES)
    left_max_bytes = SMALL_BYTES + QUEUE_BYTES + (1 - RELEASED_SHARE) * large_bytes
    deadline_s = time.monotonic() + 5
    while (
        stats(load.broker)["connections"] > 1 or anonymous_bytes(load.broker.pid) - load.before_bytes > left_max_bytes
    ):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.1)
    return True


def bound_memory(run: Run) -> None:
    while not run.is_over:
        burden = LOADS[run.done % len(LOADS)]
        lay(burden, run, run.directory / f"load-{run.done}")
        run.case()


CAMPAIGNS = (
    Campaign(
        number="T7b",
        name="bounded-memory",
        title="lays burdens of every kind on a broker, and measures what each takes of its memory",
        unit="burdens",
        run=bound_memory,
        cases=(len(LOADS), 3 * len(LOADS), 10 * len(LOADS)),
        mutants=("kept-queue-circle", "unbounded-outbox"),
        mutant_cases=2,
        quick_mutants=2,
        needs=("linux",),
    ),
    Campaign(
        number="T7c",
        name="bounds",
        title="lays clients of every kind that can hold something on small bounds, with bystanders who must not notice",
        unit="burdens",
        run=burdens.lay_all,
        cases=(1, 32, 200),
        mutants=("small-holders-wait-too", "transactions-open-for-ever", "unacked-bytes-stay"),
        quick_mutants=1,
        needs=("linux",),
        is_timed=True,
    ),
)
