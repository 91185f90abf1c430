"""Request and reply at speed: rates and latencies, and what 10,000 reply queues cost.

    python -m benchmarks.request_reply [--seconds 2] [--rounds 3] [--count 10000] [--only rates|queues]

rates: requests to a queue in memory, each answered by one of the servers, with 1 and 16 requesters that have one
request out each. The generator is radiator/tools/cli/load.py: one thread, next to nothing parsed. queues: so many reply
queues that are made, used once each, and gone, of each kind; the rate of each step, and the broker's memory before,
with them and afterwards. docs/TOPOLOGIES.md has figures.
"""

import argparse
import contextlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.longchecks import rss_anon_bytes
from benchmarks.raw import await_answers, connected
from benchmarks.wires import StompRequestWire
from radiator.model.limits import KIB, MIB
from radiator.tools.cli.load import Load, Measured, Shape, body_tail, process_cpu_s
from radiator.tools.cli.text import table
from tests.broker_process import BrokerProcess

CONFIG = """\
[server]
listen = ["stomp://127.0.0.1:0"]
data_dir = "data"

[limits]
max_destinations = 20000

[queue."requests"]
persistent = false
"""
REQUESTS = "/queue/requests"
BODY_BYTES = 100
REQUESTERS = ((1, 1), (16, 4))  # and how many servers
PER_CONNECTION = 1000  # reply queues of one connection: max_subscriptions bounds them
CHUNK = 200  # frames on their way before answers are awaited
SECONDS_MAX = 60.0
EXPIRES_MS = 2000
SETTLE_S = 1.5  # memory is looked at when nothing has been said for so long


# ---- rates


class DeclaredReplyWire(StompRequestWire):
    """Replies go to a declared queue of the requester's own."""

    _made = 0

    def connection(self) -> "DeclaredReplyWire":
        DeclaredReplyWire._made += 1
        wire = DeclaredReplyWire(REQUESTS, body_bytes=self.body_bytes)
        wire.name = b"reply.%d" % DeclaredReplyWire._made
        return wire

    name = b""

    def hello(self, consumer: bool) -> tuple[bytes, bytes]:
        sent, last = super().hello(consumer)
        if consumer:
            return sent, last
        return sent + declaration(self.name.decode()) + subscribing(self.name, b"0"), b"subscribed\n\n\0"

    def send(self) -> tuple[bytes, bytes]:
        head, tail = super().send()
        return head.replace(b"reply-to:/temp-queue/r", b"reply-to:/amq/queue/%b" % self.name), tail


def declaration(name: str, **settings: bool | int) -> bytes:
    """A frame that declares a reply queue; nobody hears the answer."""
    given = settings or {"auto_delete": True, "exclusive": True}
    asked = {"do": "declare", "queue": name, "persistent": False, **given}
    return b"SEND\ndestination:/admin\n\n%b\0" % json.dumps(asked).encode()


def subscribing(name: bytes, subscription: bytes) -> bytes:
    return b"SUBSCRIBE\ndestination:/queue/%b\nid:%b\nack:auto\nreceipt:subscribed\n\n\0" % (name, subscription)


def rates(broker: BrokerProcess, wire: StompRequestWire, requesters: int, servers: int, seconds: float) -> Measured:
    shape = Shape(name="request and reply", producers=requesters, window=1, consumers=servers, are_requests=True)
    load = Load((broker.host, broker.port), wire, shape, lambda: process_cpu_s(broker.pid))
    try:
        return load.measure(seconds)
    finally:
        load.close()


# ---- queues


@dataclass(kw_only=True)
class Cost:
    """Of so many reply queues. *_per_s: queues made, requests answered. gone_s: from the end of their use until the
    last has gone. Memory (RssAnon): all of the process's while they were there, what it had grown by then, and what of
    that it still has afterwards."""

    made_per_s: float
    answered_per_s: float
    gone_s: float
    peak_bytes: int
    with_bytes: int
    left_bytes: int


class Pipe:
    """A connection that has many frames on their way at a time."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.socket = connected(broker.port)

    def say(self, frames: list[bytes], answer: bytes, answers: int | None = None) -> bytes:
        """All of it, awaiting so many answers (one for each frame), a chunk at a time."""
        heard = bytearray()
        for start in range(0, len(frames), CHUNK):
            chunk = frames[start : start + CHUNK]
            self.socket.sendall(b"".join(chunk))
            heard += await_answers(self.socket, answer, len(chunk) if answers is None else answers)
        return bytes(heard)

    def close(self) -> None:
        self.socket.close()


class Server:
    """Answers whatever is requested, on one connection, between two steps of the requesters."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.pipe = Pipe(broker)
        wire = StompRequestWire(REQUESTS, body_bytes=BODY_BYTES)
        self.wire = wire
        sent, last = wire.hello(consumer=True)
        sent = sent[sent.index(b"SUBSCRIBE") :].replace(b"prefetch-count:1\n", b"prefetch-count:%d\n" % CHUNK)
        self.pipe.say([sent], last)

    def answer(self, count: int) -> None:
        heard, done = b"", 0
        while done < count:
            data = self.pipe.socket.recv(65536)
            assert data, "the broker has closed the server's connection"
            heard += data
            sent = b""
            while (found := self.wire.next_message(heard)) is not None:
                key, _, end = found
                heard = heard[end:]
                sent += self.wire.ack(key, False)
                done += 1
            self.pipe.socket.sendall(sent)


def request_frame(reply_to: str) -> bytes:
    head = b"SEND\ndestination:%b\nreply-to:%b\ncontent-length:%d\n\n" % (
        REQUESTS.encode(), reply_to.encode(), BODY_BYTES,
    )  # fmt: skip
    return b"%b%020d%b\0" % (head, 0, body_tail(BODY_BYTES))


def ask_all(server: Server, pipe: Pipe, reply_addresses: list[str]) -> None:
    """One request and its reply for each address."""
    for start in range(0, len(reply_addresses), CHUNK):
        chunk = [request_frame(address) for address in reply_addresses[start : start + CHUNK]]
        pipe.socket.sendall(b"".join(chunk))
        server.answer(len(chunk))
        await_answers(pipe.socket, b"~\0", len(chunk))


Make = Callable[[Pipe, range], list[str]]  # so many queues on that connection; the addresses that reach them


def temp_queues(pipe: Pipe, numbers: range) -> list[str]:
    """SUBSCRIBE to /temp-queue/N makes each; they go as their connections do."""
    subscribing = b"SUBSCRIBE\ndestination:/temp-queue/%d\nid:%d\nreceipt:s\n\n\0"
    pipe.say([subscribing % (number, number) for number in numbers], b"receipt-id:s")
    return [f"/temp-queue/{number}" for number in numbers]


def auto_delete_queues(pipe: Pipe, numbers: range) -> list[str]:
    """Declared at run time; they go as their connections do."""
    return declare(pipe, numbers, auto_delete=True, exclusive=True)


def expiring_queues(pipe: Pipe, numbers: range) -> list[str]:
    """Declared at run time; they go when nobody has used them for so long."""
    return declare(pipe, numbers, expires_ms=EXPIRES_MS)


KINDS: dict[str, Make] = {
    "temp queues": temp_queues,
    "declared, auto_delete": auto_delete_queues,
    f"declared, expires_ms {EXPIRES_MS}": expiring_queues,
}


def declare(pipe: Pipe, numbers: range, **settings: bool | int) -> list[str]:
    """Each is declared and subscribed to. Returns their addresses for replies."""
    names = [f"reply.{number}" for number in numbers]
    frames = [
        declaration(name, **settings) + subscribing(name.encode(), b"%d" % number)
        for name, number in zip(names, numbers, strict=True)
    ]
    pipe.say(frames, b"receipt-id:subscribed")
    return [f"/amq/queue/{name}" for name in names]


def queue_cost(broker: BrokerProcess, make: Make, count: int, settle_s: float = SETTLE_S) -> Cost:
    server, watch = Server(broker), Watch(broker)
    before = settled_bytes(broker, settle_s)
    pipes = [Pipe(broker) for _ in range(0, count, PER_CONNECTION)]
    shares = [range(start, min(start + PER_CONNECTION, count)) for start in range(0, count, PER_CONNECTION)]
    began_s = time.perf_counter()
    addresses = [make(pipe, share) for pipe, share in zip(pipes, shares, strict=True)]
    made_s = time.perf_counter() - began_s
    watch.check(count)
    began_s = time.perf_counter()
    for pipe, reply_to in zip(pipes, addresses, strict=True):
        ask_all(server, pipe, reply_to)
    answered_s = time.perf_counter() - began_s
    peak_bytes = settled_bytes(broker, settle_s)
    began_s = time.perf_counter()
    for pipe in pipes:
        pipe.close()
    watch.await_none()
    gone_s = time.perf_counter() - began_s
    left_bytes = settled_bytes(broker, settle_s) - before
    server.pipe.close()
    watch.pipe.close()
    return Cost(
        made_per_s=count / made_s,
        answered_per_s=count / answered_s,
        gone_s=gone_s,
        peak_bytes=peak_bytes,
        with_bytes=peak_bytes - before,
        left_bytes=left_bytes,
    )


class Watch:
    """Asks the broker how many reply queues there are: those with a name, and subscriptions for those without one."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.pipe = Pipe(broker)
        self.others = self.there()

    def there(self) -> int:
        self.pipe.socket.sendall(b'SEND\ndestination:/admin\nreply-to:/temp-queue/a\n\n{"do": "stats"}\0')
        heard = await_answers(self.pipe.socket, b"}\0", 1)
        stats = json.loads(heard.partition(b"\n\n")[2].rstrip(b"\n\0"))
        return max(len(stats["queues"]), int(stats["subscriptions"]))

    def check(self, count: int) -> None:
        there = self.there() - self.others
        assert there >= count, f"only {there} of {count} reply queues are there"

    def await_none(self) -> None:
        end_s = time.perf_counter() + SECONDS_MAX
        while (there := self.there() - self.others) > 0:
            assert time.perf_counter() < end_s, f"{there} reply queues are left after {SECONDS_MAX:.0f} s"
            time.sleep(0.05)


def settled_bytes(broker: BrokerProcess, settle_s: float) -> int:
    time.sleep(settle_s)
    return rss_anon_bytes(broker.pid)


# ---- the command


@contextlib.contextmanager
def broker_alone(config: str = CONFIG) -> Iterator[BrokerProcess]:
    with TemporaryDirectory(prefix="radiator-") as directory, BrokerProcess(Path(directory), config) as broker:
        yield broker


def rates_table(seconds: float, rounds: int) -> str:
    rows: list[list[str | int]] = []
    for name, wire in (("/temp-queue/", StompRequestWire), ("/amq/queue/, declared", DeclaredReplyWire)):
        for requesters, servers in REQUESTERS:
            found = []
            for _ in range(rounds):
                with broker_alone() as broker:
                    found.append(rates(broker, wire(REQUESTS, body_bytes=BODY_BYTES), requesters, servers, seconds))
            middle = sorted(found, key=lambda one: one.per_s)[len(found) // 2]
            cpu_us = statistics.median(1e6 * one.broker_cpu_s / one.messages for one in found)
            rows.append([
                f"{requesters} + {servers}", name, f"{middle.per_s:,.0f}", f"{middle.p50_ms:.2f}",
                f"{middle.p99_ms:.2f}", f"{cpu_us:.0f}", f"{middle.generator_share:.0%}",
            ])  # fmt: skip
    titles = ("requesters + servers", "replies by", "requests/s", "p50 ms", "p99 ms", "CPU us", "generator")
    return table(titles, rows)


def queues_table(count: int, rounds: int) -> str:
    rows: list[list[str | int]] = []
    for kind, make in KINDS.items():
        with broker_alone() as broker:
            found = [queue_cost(broker, make, count) for _ in range(rounds)]
        first, last = found[0], found[-1]
        rows.append([
            kind, f"{statistics.median(one.made_per_s for one in found):,.0f}",
            f"{statistics.median(one.answered_per_s for one in found):,.0f}",
            f"{statistics.median(one.gone_s for one in found):.2f}",
            f"{first.with_bytes / count / KIB:.1f}", f"{first.left_bytes / MIB:.1f}", f"{last.left_bytes / MIB:.1f}",
        ])  # fmt: skip
    titles = (
        f"{count:,} reply queues",
        "made/s",
        "answered/s",
        "gone in s",
        "KiB each",
        "MiB kept",
        "by the last round",
    )
    return table(titles, rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--only", choices=("rates", "queues"))
    wanted = parser.parse_args()
    if wanted.only != "queues":
        sys.stdout.write(rates_table(wanted.seconds, wanted.rounds) + "\n")
    if wanted.only != "rates":
        sys.stdout.write(queues_table(wanted.count, wanted.rounds) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
