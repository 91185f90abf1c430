"""What keys cost: `python -m benchmarks.keys`.

16 producers with 10 receipts outstanding each and 8 consumers, at a queue without keys and at one with 1,000, by turns
on one broker, with the window of one message and with one of 100; and once more where half of all messages have one
key: how often the others come then, and how often as many come where no key is hot. With --rate N: N messages a second
in all, and of those whose key is not the hot one the time from SEND to consumer. With --backlog N: N messages of N / 10
keys are stored, the broker is killed, and started again: the time to the first message, the memory, and the rate at
which they are taken out. Where there are two cores or more, the broker has the first for itself.
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from dataclasses import astuple, dataclass
from pathlib import Path

from benchmarks.longchecks import rss_anon_bytes
from radiator.tools.cli.load import WARM_UP_MAX_S, Load, LoadProducer, Shape, StompWire, process_cpu_s
from tests.acceptance.wire import Wire
from tests.broker_process import SERVER, BrokerProcess

CONFIG = (
    SERVER
    + """
[queue."plain"]
[queue."keyed"]
partition_key = "header:customer"
"""
)
PRODUCERS, CONSUMERS, KEYS = 16, 8, 1000
HOT = b"\ncustomer:0\n"
WAIT_S = 0.001  # how long a load that sends at a rate waits for an answer before it looks at its clock


def write(text: str) -> None:
    sys.stdout.write(text + "\n")


class KeyedWire(StompWire):
    """STOMP, where SENDs have their keys by chance. hot: the share of messages that have one key, HOT. others_ms: how
    long those took that have another one.
    """

    is_varied = True

    def __init__(self, queue: str, hot: float, prefetch: int) -> None:
        super().__init__(f"/queue/{queue}", body_bytes=256)
        self.chance = random.Random(1)
        self.hot = hot
        self.prefetch = prefetch
        self.others_ms: list[float] = []

    def hello(self, consumer: bool) -> tuple[bytes, bytes]:
        if not consumer:
            return self._connect, b"\0"
        window = b"prefetch-count:%d\n" % self.prefetch
        return self._connect + self.subscribe("client-individual", window), b"subscribed\n\n\0"

    def send(self) -> tuple[bytes, bytes]:
        head, tail = super().send()
        number = 0 if self.chance.random() < self.hot else self.chance.randrange(1, KEYS)
        return head.replace(b"SEND\n", b"SEND\ncustomer:%d\n" % number), tail

    def next_message(self, data: bytes) -> tuple[bytes, bytes, int] | None:
        found = super().next_message(data)
        if found is not None and HOT not in data[: found[2]]:
            self.others_ms.append((time.perf_counter_ns() - int(found[1])) / 1e6)
        return found


class KeyedProducer(LoadProducer):
    """Each of its SENDs has a key of its own."""

    def write(self, data: bytes) -> bool:
        count = data.count(b"SEND\n")
        if count < 2:
            return super().write(data)
        body = data[len(self.head) : len(data) // count]
        return super().write(b"".join(self.wire.send()[0] + body for _ in range(count)))


class KeyedLoad(Load):
    make_producer = KeyedProducer


class PacedLoad(KeyedLoad):
    """Its producers send what is due at a rate, whatever is answered."""

    def begin(self, per_s: float) -> None:
        """per_s: how many a second, of all producers."""
        self.began_s, self.per_s = time.perf_counter(), per_s
        for producer in self._producers:
            producer.limit = 0

    def _turn(self, timeout_s: float, must_answer: bool = True) -> None:
        due = int((time.perf_counter() - self.began_s) * self.per_s / PRODUCERS)
        for producer in self._producers:
            producer.limit = due
            self._watch(producer, producer.fill())
        super()._turn(min(timeout_s, WAIT_S), must_answer=False)


@dataclass(slots=True)
class Found:
    """per_s: messages received and acked a second; others_per_s: of those that have not the hot key. cpu_us: the
    broker's for each. p50_ms, p99_ms: of the others, from SEND to consumer.
    """

    per_s: float
    others_per_s: float
    cpu_us: float
    p50_ms: float
    p99_ms: float


def measured(
    broker: BrokerProcess, queue: str, hot: float, prefetch: int, seconds: float, per_s: float | None = None
) -> Found:
    """per_s: how many are sent a second; None: as many as are answered."""
    shape = Shape(name=queue, producers=PRODUCERS, window=10 if per_s is None else 10_000, consumers=CONSUMERS)
    wire = KeyedWire(queue, hot, prefetch)
    make = KeyedLoad if per_s is None else PacedLoad
    load = make((broker.host, broker.port), wire, shape, lambda: process_cpu_s(broker.pid))
    if isinstance(load, PacedLoad):
        load.begin(per_s or 0.0)
    found = load.measure(seconds)
    took_s = found.messages / found.per_s
    others_ms = sorted(wire.others_ms[-int(len(wire.others_ms) * took_s / (took_s + WARM_UP_MAX_S)) :])
    load.settle()
    load.close()
    p50_ms, p99_ms = (others_ms[len(others_ms) * part // 100] for part in (50, 99))
    cpu_us = found.broker_cpu_s / found.messages * 1e6
    return Found(found.per_s, len(others_ms) / took_s, cpu_us, p50_ms, p99_ms)


def medians(found: list[Found]) -> Found:
    return Found(*(statistics.median(column) for column in zip(*map(astuple, found), strict=True)))


def by_turns(broker: BrokerProcess, rounds: int, seconds: float) -> None:
    for prefetch in (1, 100):
        all_found: dict[str, list[Found]] = {"plain": [], "keyed": [], "hot": []}
        for _ in range(rounds):
            for name, found in all_found.items():
                queue, hot = ("keyed", 0.5) if name == "hot" else (name, 0.0)
                found.append(measured(broker, queue, hot, prefetch, seconds))
        of = {name: medians(found) for name, found in all_found.items()}
        for name, one in of.items():
            line = f"window {prefetch:3} {name:5} {one.per_s:8,.0f}/s  {one.per_s / of['plain'].per_s:.2f} of plain"
            line += f"  {one.cpu_us:5.1f} us of CPU"
            if name == "hot":
                even = of["keyed"].others_per_s / 2
                line += f"  others {one.others_per_s:,.0f}/s, {one.others_per_s / even:.2f} of those without a hot key"
            write(line)


def at_a_rate(broker: BrokerProcess, rounds: int, seconds: float, per_s: float) -> None:
    all_found: dict[str, list[Found]] = {"keyed": [], "hot": []}
    for _ in range(rounds):
        for name, found in all_found.items():
            found.append(measured(broker, "keyed", 0.5 if name == "hot" else 0.0, 100, seconds, per_s))
    for name, found in all_found.items():
        one = medians(found)
        write(
            f"{per_s:,.0f}/s {name:5} others {one.others_per_s:,.0f}/s, from SEND to consumer p50 {one.p50_ms:.2f} ms, "
            f"p99 {one.p99_ms:.2f} ms"
        )


def backlog(broker: BrokerProcess, count: int) -> None:
    wire = KeyedWire("keyed", 0.0, 100)
    keys, chance = count // 10, random.Random(2)
    head, tail = StompWire.send(wire)
    began_s = time.monotonic()
    with Wire((broker.host, broker.port)) as client:
        client.connect()
        for first in range(0, count, 1000):
            frames = []
            for number in range(first, min(count, first + 1000)):
                key = b"SEND\ncustomer:%d\n" % chance.randrange(keys)
                frames.append(b"%b%020d%b" % (head.replace(b"SEND\n", key), number, tail))
            client.send_raw(b"".join(frames))
            for _ in frames:
                client.read_frame()
    write(
        f"{count:,} messages of {keys:,} keys: stored in {time.monotonic() - began_s:.0f} s, memory "
        f"{rss_anon_bytes(broker.pid) >> 20} MiB"
    )
    broker.kill()
    began_s = time.monotonic()
    broker.start()
    started_s = time.monotonic() - began_s
    with Wire((broker.host, broker.port)) as client:
        client.connect()
        client.subscribe("/queue/keyed", ack="client-individual", headers={"prefetch-count": "1000"})
        client.message()
        first_s = time.monotonic() - began_s
    write(
        f"start after kill -9: {started_s:.2f} s, first message after {first_s:.2f} s, "
        f"memory {rss_anon_bytes(broker.pid) >> 20} MiB"
    )
    shape = Shape(name="drain", producers=0, window=0, consumers=CONSUMERS)
    load = Load((broker.host, broker.port), wire, shape, lambda: process_cpu_s(broker.pid))
    found = load.measure(10.0)
    load.close()
    write(
        f"taken out at {found.per_s:,.0f}/s, {found.broker_cpu_s / found.messages * 1e6:.1f} us of CPU each, memory "
        f"{rss_anon_bytes(broker.pid) >> 20} MiB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.keys", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--backlog", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, BrokerProcess(Path(directory), CONFIG) as broker:
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) > 1:
            os.sched_setaffinity(broker.pid, cores[:1])
            os.sched_setaffinity(0, cores[1:])
        if given.backlog:
            backlog(broker, given.backlog)
        elif given.rate:
            at_a_rate(broker, given.rounds, given.seconds, given.rate)
        else:
            by_turns(broker, given.rounds, given.seconds)


if __name__ == "__main__":
    main()
