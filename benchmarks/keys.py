"""What keys cost: `python -m benchmarks.keys`.

16 producers with 10 receipts outstanding each and 8 consumers, at a queue without keys and at one with 1,000, by turns
on one broker, with the window of one message and with one of 100. Then half of all messages have one key: how often the
others come against the same load without it. With --backlog N: N messages of N / 10 keys are stored, the broker is
killed, and started again: the time to the first message, the memory, and the rate at which they are taken out. Where
there are two cores or more, the broker has the first for itself.
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.longchecks import rss_anon_bytes
from radiator.tools.cli.load import Load, LoadProducer, Shape, StompWire, process_cpu_s
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


def write(text: str) -> None:
    sys.stdout.write(text + "\n")


class KeyedWire(StompWire):
    """STOMP, where SENDs have their keys by chance. hot: the share of messages that have one key."""

    is_varied = True

    def __init__(self, queue: str, hot: float, prefetch: int) -> None:
        super().__init__(f"/queue/{queue}", body_bytes=256)
        self.chance = random.Random(1)
        self.hot = hot
        self.prefetch = prefetch

    def hello(self, consumer: bool) -> tuple[bytes, bytes]:
        if not consumer:
            return self._connect, b"\0"
        window = b"prefetch-count:%d\n" % self.prefetch
        return self._connect + self.subscribe("client-individual", window), b"subscribed\n\n\0"

    def send(self) -> tuple[bytes, bytes]:
        head, tail = super().send()
        number = 0 if self.chance.random() < self.hot else self.chance.randrange(1, KEYS)
        return head.replace(b"SEND\n", b"SEND\ncustomer:%d\n" % number), tail


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


def measured(broker: BrokerProcess, queue: str, hot: float, prefetch: int, seconds: float) -> tuple[float, float]:
    """Messages received and acked a second, and the broker's CPU in microseconds for each."""
    shape = Shape(name=queue, producers=PRODUCERS, window=10, consumers=CONSUMERS)
    wire = KeyedWire(queue, hot, prefetch)
    load = KeyedLoad((broker.host, broker.port), wire, shape, lambda: process_cpu_s(broker.pid))
    found = load.measure(seconds)
    load.settle()
    load.close()
    return found.per_s, found.broker_cpu_s / found.messages * 1e6


def by_turns(broker: BrokerProcess, rounds: int, seconds: float) -> None:
    for prefetch in (1, 100):
        rates: dict[str, list[tuple[float, float]]] = {"plain": [], "keyed": [], "hot": []}
        for _ in range(rounds):
            for name, found in rates.items():
                queue, hot = ("keyed", 0.5) if name == "hot" else (name, 0.0)
                found.append(measured(broker, queue, hot, prefetch, seconds))
        for name, found in rates.items():
            rate, cpu_us = (statistics.median(column) for column in zip(*found, strict=True))
            plain = statistics.median(rate for rate, _ in rates["plain"])
            write(f"window {prefetch:3} {name:5} {rate:8,.0f}/s  {rate / plain:.2f} of plain  {cpu_us:.1f} us of CPU")


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
    parser.add_argument("--backlog", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, BrokerProcess(Path(directory), CONFIG) as broker:
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) > 1:
            os.sched_setaffinity(broker.pid, cores[:1])
            os.sched_setaffinity(0, cores[1:])
        if given.backlog:
            backlog(broker, given.backlog)
        else:
            by_turns(broker, given.rounds, given.seconds)


if __name__ == "__main__":
    main()
