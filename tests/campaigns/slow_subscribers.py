"""S8: subscribers of a topic that never read: each is dropped at its bound, and nobody else pays for them.

A publisher sends messages of 1 KiB; one subscriber reads everything and must get it in order; many read nothing.
The broker may grow by GROWTH_MAX_BYTES; all who read nothing are counted as dropped; and when they are gone the
publisher is at least RATE_SHARE_MIN as fast as one of a broker that had none of them. Both are measured in turns: a
machine that has become slower meanwhile is slower for both (tried up to TRIES times: machines hiccup).

While they fill up, each message costs one delivery for each of them: that this phase ends is judged, not its speed.
"""

import socket
import threading
import time
from contextlib import ExitStack

from radiator.model.limits import KIB, MIB
from tests.acceptance.wire import Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, BrokerProcess
from tests.campaigns.bystander import Operator, memory_bytes
from tests.campaigns.campaign import Campaign, Run

AT_ONCE = {"quick": 100, "nightly": 500, "release": 500}
OUTBOX = {"quick": "256KiB", "nightly": "4MiB", "release": "4MiB"}
DROPPED_AFTER = {"quick": 3_000, "nightly": 12_000, "release": 12_000}  # messages: twice what all buffers hold
MEASURED = {"quick": 4_000, "nightly": 20_000, "release": 20_000}
GROWTH_MAX_BYTES = {"quick": 100 * MIB, "nightly": 300 * MIB, "release": 300 * MIB}
ENOUGH_MEMORY = 'max_memory_bytes = "4GiB"\n'  # else many are closed for that, which is counted elsewhere
RATE_SHARE_MIN = 0.8
TRIES_MIN, TRIES = 3, 16
REST_S = 0.2  # between two tries
BODY_BYTES = KIB
WARM = 1_000  # messages
BLOCK = 100
READ_MAX_S = 30.0


class Reader:
    """Reads all that is published, in a thread, within `with`. seen: how many, each with its number in its body."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.seen = 0
        self.wrong = ""
        self._wire = Wire((broker.host, broker.port))
        self._wire.connect()
        self._wire.subscribe("/topic/news", ack="auto")
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            while True:
                number = int(self._wire.message(READ_MAX_S).body[:10])
                if number != self.seen:
                    raise AssertionError(f"message {number} came where {self.seen} was due")
                self.seen += 1
        except Exception as wrong:  # noqa: BLE001 - told by `await_all`
            self.wrong = repr(wrong)

    def await_all(self, count: int) -> None:
        deadline_s = time.monotonic() + READ_MAX_S
        while self.seen < count and not self.wrong and time.monotonic() < deadline_s:
            time.sleep(0.002)
        assert self.seen == count, f"who reads got {self.seen} of {count} messages: {self.wrong}"

    def close(self) -> None:
        self._wire.close()


class Publisher:
    """Publishes in blocks, each carried out, and read by the one who reads, before the next. sent: how many."""

    def __init__(self, broker: BrokerProcess, reader: Reader) -> None:
        self.sent = 0
        self.peak_bytes = 0
        self._broker = broker
        self._reader = reader
        self._wire = Wire((broker.host, broker.port))
        self._wire.connect()

    def block(self) -> None:
        frames = [
            self._wire.frame(
                "SEND", {"destination": "/topic/news"}, b"%010d" % (self.sent + number) + bytes(BODY_BYTES)
            )
            for number in range(BLOCK)
        ]
        self._wire.send_raw(b"".join(frames))
        try:
            self._wire.fence()
        except TimeoutError:
            raise AssertionError(f"the publisher stands still: {self._broker.log[-1000:]}") from None
        self.sent += BLOCK
        self._reader.await_all(self.sent)
        self.peak_bytes = max(self.peak_bytes, memory_bytes(self._broker.pid))

    def rate(self, count: int) -> float:
        """Messages a second, over so many."""
        began_s = time.monotonic()
        for _ in range(count // BLOCK):
            self.block()
        return count / (time.monotonic() - began_s)


def who_never_reads(broker: BrokerProcess) -> socket.socket:
    """A subscriber with the smallest buffer that the system gives."""
    wire = socket.socket()
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    wire.connect((broker.host, broker.port))
    wire.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0SUBSCRIBE\nid:0\ndestination:/topic/news\n\n\0")
    return wire


def try_slow_ones(run: Run, count: int) -> None:
    level = run.level
    directory = run.directory / f"{run.done}"
    directory.mkdir()
    config = f'[limits]\noutbox_max_bytes = "{OUTBOX[level]}"\n{ENOUGH_MEMORY}{EVERYTHING_MAY_BE_CREATED}'
    with BrokerProcess(directory, config) as broker, ExitStack() as stack:
        reader = Reader(broker)
        publisher, operator = Publisher(broker, reader), Operator(broker)
        publisher.rate(WARM)
        before_bytes = memory_bytes(broker.pid)
        for _ in range(count):
            stack.enter_context(who_never_reads(broker))
        began_s, began_at = time.monotonic(), publisher.sent
        while dropped(operator) < count and publisher.sent - began_at < DROPPED_AFTER[level]:
            publisher.block()
        run.figures["messages/s while they fill up"] = round((publisher.sent - began_at) / (time.monotonic() - began_s))
        gone = dropped(operator)
        if gone != count:
            run.violation(f"of {count} who never read {gone} were dropped after {publisher.sent - began_at} messages")
        grown = publisher.peak_bytes - before_bytes
        run.figures["MiB for those who never read"] = max(
            int(run.figures.get("MiB for those who never read", 0)), grown // MIB
        )
        if grown > GROWTH_MAX_BYTES[level]:
            run.violation(f"{count} who never read: the broker grew by {grown // MIB} MiB")
        (directory / "reference").mkdir()
        reference = stack.enter_context(BrokerProcess(directory / "reference", config))
        judge_rate(run, publisher, Publisher(reference, Reader(reference)))
        reader.close()
        operator.close()


def dropped(operator: Operator) -> int:
    return int(operator.stats()["counters"].get("slow_topic_subscribers", 0))


def judge_rate(run: Run, publisher: Publisher, reference: Publisher) -> None:
    """reference: publishes to a broker that only ever had who reads. The best of each counts."""
    reference.rate(WARM)
    best = whole = 0.0
    for number in range(TRIES):
        whole = max(whole, reference.rate(MEASURED[run.level]))
        best = max(best, publisher.rate(MEASURED[run.level]))
        if number + 1 >= TRIES_MIN and best >= RATE_SHARE_MIN * whole:
            break
        time.sleep(REST_S)
    share = round(100 * best / whole)
    run.figures["% of the rate afterwards"] = share
    if best < RATE_SHARE_MIN * whole:
        run.violation(f"when they were gone, a publisher had {share} % of the {whole:.0f} messages/s beside it")


def drop_slow_ones(run: Run) -> None:
    while not run.is_over:
        count = min(AT_ONCE[run.level], run.cases - run.done)
        try_slow_ones(run, count)
        run.case(count)


CAMPAIGNS = (
    Campaign(
        number="S8",
        name="slow-subscribers",
        title="subscribers of a topic that never read, beside one that does",
        unit="slow subscribers",
        run=drop_slow_ones,
        cases=(100, 1_500, 15_000),
        mutants=("slow-subscriber-never-dropped", "slow-subscriber-loses-messages"),
        mutant_cases=100,
        needs=("linux",),
        is_timed=True,
    ),
)
