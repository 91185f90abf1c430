"""How fast a log is read, and what that does to others: `python -m benchmarks.log_read`.

A log of a million records is read by one subscriber in several ways; then one of a hundredth of that by many at once,
while a bystander sends to a queue and waits for each RECEIPT. The raw sockets check that no record is missing: by their
number, and by the offset of the last. Each round has a fresh broker with fresh data; at the end there are the medians.
"""

import argparse
import selectors
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.peers import CHECKOUT
from benchmarks.processes import Launch, Running, running
from benchmarks.raw import connected
from benchmarks.rounds import Figures, number_of_rounds, rounded, spreads
from radiator.client import Client
from tests.ports import free_port

CONFIG = """\
[server]
listen = ["stomp://127.0.0.1:{port}"]
data_dir = "data"
[create]
queues = true
[log."long"]
[log."short"]
"""
READ_BYTES = 1024 * 1024
TARGET_PER_S = 50_000
RATE = "records/s read"
SUBSCRIBE = b"SUBSCRIBE\nid:0\ndestination:/log/%b\nfrom:earliest\nuntil:end\nack:%b\nprefetch-count:1000\n\n\0"


def append(port: int, log: bytes, records: int, size: int) -> float:
    """SENDs without receipts but for the last; records a second."""
    frame = b"SEND\ndestination:/log/%b\ncontent-length:%d\n\n%b\0" % (log, size, b"x" * size)
    last = frame.replace(b"SEND\n", b"SEND\nreceipt:last\n")
    with connected(port) as one:
        began_s = time.perf_counter()
        for _ in range((records - 1) // 500):
            one.sendall(frame * 500)
        one.sendall(frame * ((records - 1) % 500) + last)
        while b"\0" not in one.recv(READ_BYTES):
            pass
        return records / (time.perf_counter() - began_s)


class Reading:
    """A raw socket that reads to the end. ack: `auto`, or `client`: one ACK for some 500 records."""

    def __init__(self, port: int, log: bytes, ack: bytes) -> None:
        self.socket = connected(port)
        self.ack = ack
        self.records = 0
        self.unacked = 0
        self.rest = b""
        self.socket.sendall(SUBSCRIBE % (log, ack))

    def step(self, records: int) -> bool:
        """Reads what is there; whether that was all."""
        data = self.rest + self.socket.recv(READ_BYTES)
        end = data.rfind(b"\0") + 1
        self.rest = data[end:]
        count = data.count(b"\0")
        self.records += count
        self.unacked += count
        at = data.rfind(b"\nack:", 0, end)
        if self.ack != b"auto" and self.unacked >= 500 and at >= 0:
            self.unacked = 0
            self.socket.sendall(b"ACK\nid:%b\n\n\0" % data[at + 5 : data.index(b"\n", at + 5)])
        if self.records <= records:
            return False
        assert b"\nend:true\n" in data[:end] and self.records == records + 1, f"{self.records} frames of {records}"
        assert b"\noffset:%d\n" % (records - 1) in data or records < 2, "the last offset is another"
        self.socket.close()
        return True


def by_raw(ack: bytes) -> Callable[[int, int], None]:
    def read(port: int, records: int) -> None:
        reading = Reading(port, b"long", ack)
        while not reading.step(records):
            pass

    return read


def by_client(ack: str) -> Callable[[int, int], None]:
    def read(port: int, records: int) -> None:
        with Client(f"stomp://127.0.0.1:{port}") as client:
            headers = {"from": "earliest", "until": "end"}
            client.subscribe("/log/long", ack=ack, prefetch=1000, headers=headers)
            for number in range(records):
                message = client.receive(30)
                assert message is not None, "a record did not come within 30 s"
                if ack == "client" and number % 500 == 499:
                    client.ack(message, confirm=False)

    return read


WAYS: dict[str, Callable[[int, int], None]] = {
    "raw socket, ack:auto": by_raw(b"auto"),
    "raw socket, ack:client, prefetch 1000, an ACK for 500": by_raw(b"client"),
    "radiator.client, ack:auto": by_client("auto"),
    "radiator.client, ack:client, prefetch 1000, an ACK for 500": by_client("client"),
}


class Bench:
    """One round. figures: by what they tell, as they are taken."""

    def __init__(self, broker: Running) -> None:
        self.figures: Figures = {}
        self._broker = broker

    def append(self, records: int, size: int) -> None:
        self._note(f"{size} B appended: records/s", append(self._broker.port, b"long", records, size))

    def one_by_one(self, records: int) -> None:
        """Each way, with the broker's CPU."""
        for way, read in WAYS.items():
            began_s, cpu_s = time.perf_counter(), self._broker.cpu_s()
            read(self._broker.port, records)
            self._note(f"{way}: {RATE}", records / (time.perf_counter() - began_s))
            self._note(f"{way}: µs of the broker's CPU for each", (self._broker.cpu_s() - cpu_s) / records * 1e6)

    def many(self, readers: int, records: int, size: int) -> None:
        """All at once, each the whole log; what a bystander waits for a RECEIPT meanwhile, and without them."""
        port = self._broker.port
        append(port, b"short", records, size)
        alone = waits(port, lambda sent: sent >= 300)
        reading = [Reading(port, b"short", b"auto") for _ in range(readers)]
        is_over = False
        found: list[list[float]] = []
        bystander = threading.Thread(target=lambda: found.append(waits(port, lambda sent: is_over)))
        began_s = time.perf_counter()
        bystander.start()
        with selectors.DefaultSelector() as selector:
            for one in reading:
                selector.register(one.socket, selectors.EVENT_READ, one)
            while selector.get_map():
                for key, _ in selector.select():
                    if key.data.step(records):
                        selector.unregister(key.fileobj)
        seconds = time.perf_counter() - began_s
        is_over = True
        bystander.join()
        self._note(
            f"{readers} readers at once, {records:,} records each: records/s in all", readers * records / seconds
        )
        for name, reported in (("without them", alone), ("meanwhile", found[0])):
            reported.sort()
            waited = f"a bystander's SEND waits for its RECEIPT, {name}: ms"
            self._note(f"{waited}, p50", statistics.median(reported) * 1e3)
            self._note(f"{waited}, p99", reported[len(reported) * 99 // 100] * 1e3)

    def _note(self, name: str, figure: float) -> None:
        self.figures[name] = rounded(figure)
        say(f"{self.figures[name]:12,.12g}  {name}")


def waits(port: int, is_over: Callable[[int], bool]) -> list[float]:
    """Seconds from each SEND to its RECEIPT."""
    seen: list[float] = []
    with connected(port) as one:
        while not seen or not is_over(len(seen)):
            began_s = time.perf_counter()
            one.sendall(b"SEND\ndestination:/queue/bystander\nreceipt:r\n\nx\0")
            while b"\0" not in one.recv(READ_BYTES):
                pass
            seen.append(time.perf_counter() - began_s)
    return seen


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.log_read", description=__doc__)
    parser.add_argument("--rounds", type=number_of_rounds, default=3)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--bytes", type=int, default=200)
    parser.add_argument("--readers", type=int, default=200, help="of those that read at once; 0: none")
    arguments = parser.parse_args()
    port = free_port()
    launch = Launch(
        commands=[[sys.executable, "-m", "radiator", "serve", "--config", "config.toml"]],
        port=port,
        environment={"PYTHONPATH": str(CHECKOUT)},
        files={"config.toml": CONFIG.format(port=port)},
    )
    rounds: list[Figures] = []
    with tempfile.TemporaryDirectory() as directory:
        for number in range(1, arguments.rounds + 1):
            say(f"round {number} of {arguments.rounds}")
            with running(launch, Path(directory) / "broker") as broker:
                bench = Bench(broker)
                bench.append(arguments.records, arguments.bytes)
                bench.one_by_one(arguments.records)
                if arguments.readers:
                    bench.many(arguments.readers, arguments.records // 100, arguments.bytes)
            rounds.append(bench.figures)
    found = spreads(rounds)
    say(f"{arguments.rounds} rounds of {arguments.records:,} records: median (least to most)")
    for name, spread in found.items():
        say(f"{spread}  {name}")
    sys.exit(0 if all(found[f"{way}: {RATE}"].median >= TARGET_PER_S for way in WAYS) else 1)


if __name__ == "__main__":
    main()
