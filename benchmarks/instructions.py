"""`--instructions`: what a message costs the broker, counted instead of timed, beside an earlier version.

The whole broker runs under valgrind's callgrind, which counts the instructions of all its threads outside the kernel.
Clients are raw sockets that go in steps: while they write, the broker is stopped, so what they have written is there
at once, and turns and batches hold nearly the same on every run. What the broker does each second though nobody says
anything is measured first and left out: under valgrind all takes fifty times as long, so it would weigh as much more.
Two runs differ by one or two percent while a core is free. With ten busy processes for each core the rows with one
outstanding differ by a tenth, since more of a message's time is the clock's: run it on a quiet machine too. The figures
say nothing of system calls, the disk, or waiting: these are in the CPU's time of the other tables.
"""

import contextlib
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.before import Before
from benchmarks.peers import Peer, Radiator
from benchmarks.processes import Running, running
from benchmarks.raw import ANSWER_MAX_S, connected
from benchmarks.shapes import CASES
from radiator.tools.cli.load import LoadFailed
from radiator.tools.cli.text import table

BODY = b"x" * 300
RATIO_MAX = 1.03
READ_BYTES = 1 << 20
IDLE_S = 6.0
MAP_SIZE = "4GiB"  # valgrind has no address space for the default
COUNTING = ("valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=DIR/callgrind.%p")

_ACK = re.compile(rb"\nack:([^\n]+)\n")

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Counted:
    """A row: in each of its steps every producer sends `burst` SENDs, and consumers ack what they receive of them.

    has_backlog: the SENDs are not counted, only what their consumers cost.
    """

    name: str
    queue: str = "persistent"
    producers: int
    burst: int
    consumers: int = 0
    steps: int
    has_backlog: bool = False

    @property
    def share(self) -> int:
        """Of one consumer in one step."""
        return self.producers * self.burst // self.consumers


COUNTED = (
    Counted(name="persistent 16 producers, window 100", producers=16, burst=100, steps=2),
    Counted(name="persistent 1 producer, window 100", producers=1, burst=100, steps=20),
    Counted(name="persistent 16 producers, one outstanding", producers=16, burst=1, steps=40),
    Counted(name="persistent 1 producer, one outstanding", producers=1, burst=1, steps=300),
    Counted(name="persistent end to end, 1 + 1, window 100", producers=1, burst=100, consumers=1, steps=10),
    Counted(name="persistent end to end, 8 + 8, window 100", producers=8, burst=100, consumers=8, steps=2),
    Counted(name="persistent end to end, 8 + 8", producers=8, burst=1, consumers=8, steps=60),
    Counted(name="memory end to end, 1 + 1, window 100", queue="memory", producers=1, burst=100, consumers=1, steps=20),
    Counted(name="memory end to end, 8 + 8", queue="memory", producers=8, burst=1, consumers=8, steps=60),
    Counted(name="deliver and ack", producers=1, burst=100, consumers=1, steps=10, has_backlog=True),
)


class _Client:
    """A socket that says frames, and keeps what comes until it is asked for."""

    def __init__(self, port: int) -> None:
        self._socket = connected(port)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, READ_BYTES)
        self._frames: dict[bytes, list[bytes]] = {}
        self._unfinished = b""

    def say(self, frames: bytes) -> None:
        self._socket.sendall(frames)

    def take(self, command: bytes, count: int) -> list[bytes]:
        """The next frames of this command, once there are so many. What it looks for in them is not its business."""
        while len(self._frames.get(command, ())) < count:
            data = self._socket.recv(READ_BYTES)
            *frames, self._unfinished = (self._unfinished + data).split(b"\0")  # no body here has a zero
            for frame in frames:
                self._frames.setdefault(frame.lstrip(b"\n").partition(b"\n")[0], []).append(frame)
            if not data or b"ERROR" in self._frames:
                raise LoadFailed(f"the broker has closed: {self._frames.get(b'ERROR')}")
        found = self._frames[command]
        self._frames[command] = found[count:]
        return found[:count]

    def close(self) -> None:
        self._socket.close()


class _Broker:
    """One that runs under callgrind, and what it has spent since it was asked the last time."""

    def __init__(self, process: Running, directory: Path) -> None:
        self._process = process
        self._directory = directory
        self.port = process.port
        self._began_s = 0.0
        self._idle_per_s = 0.0
        self._control("-i", "on")
        for seconds in (IDLE_S / 2, IDLE_S):  # the first time, code is made ready that is used later
            self._idle_per_s = 0.0
            self.start()
            time.sleep(seconds)
            self._idle_per_s = self.spent() / (time.monotonic() - self._began_s)

    def _control(self, *words: str) -> None:
        command = ["callgrind_control", *words, str(self._process.pids[0])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_MAX_S)
        if done.returncode or "OK" not in done.stdout:
            raise LoadFailed(f"{' '.join(command)}: {done.stdout}{done.stderr}")

    def start(self) -> None:
        self._control("-z")
        self._began_s = time.monotonic()

    def spent(self) -> float:
        """Without what an idle one spends in the same time."""
        self._control("-d")
        took_s = time.monotonic() - self._began_s
        report = max(self._directory.glob("callgrind.*"), key=lambda path: path.stat().st_mtime_ns)
        return instructions_in(report.read_text()) - took_s * self._idle_per_s

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """What clients write meanwhile it finds at once."""
        self._process.pause()
        try:
            yield
        finally:
            self._process.resume()


class _Load:
    """The clients of one row."""

    def __init__(self, broker: _Broker, counted: Counted) -> None:
        self._broker = broker
        self._counted = counted
        name = "".join(filter(str.isalnum, counted.name))
        self._destination = f"/queue/{counted.queue}.{name}".encode()
        self._producers = [_Client(broker.port) for _ in range(counted.producers)]
        self._consumers = [_Client(broker.port) for _ in range(counted.consumers)]
        if not counted.has_backlog:
            self._subscribe()

    def _subscribe(self) -> None:
        for client in self._consumers:
            client.say(b"SUBSCRIBE\nid:0\ndestination:%b\nack:client-individual\nprefetch-count:%d\nreceipt:s\n\n\0"
                       % (self._destination, self._counted.share))  # fmt: skip
            client.take(b"RECEIPT", 1)

    def instructions(self) -> float:
        """For each message."""
        counted = self._counted
        if counted.has_backlog:
            for _ in range(counted.steps + 1):
                self._send()
            self._subscribe()
            return self._measured(self._ack)
        return self._measured(self._step)

    def _measured(self, step: Callable[[], None]) -> float:
        step()
        self._broker.start()
        for _ in range(self._counted.steps):
            step()
        return self._broker.spent() / (self._counted.steps * self._counted.producers * self._counted.burst)

    def _step(self) -> None:
        self._send()
        if self._consumers:
            self._ack()

    def _send(self) -> None:
        frame = b"SEND\ndestination:%b\nreceipt:%%d\ncontent-length:%d\n\n%b\0" % (self._destination, len(BODY), BODY)
        burst = b"".join(frame % number for number in range(self._counted.burst))
        with self._broker.stopped():
            for client in self._producers:
                client.say(burst)
        for client in self._producers:
            client.take(b"RECEIPT", self._counted.burst)

    def _ack(self) -> None:
        """Each consumer acks its share of a step at once; the last ACK has a receipt."""
        acks: list[bytes] = []
        for client in self._consumers:
            *most, last = (_ACK.search(message)[1] for message in client.take(b"MESSAGE", self._counted.share))
            acks.append(b"".join(b"ACK\nid:%b\n\n\0" % one for one in most) + b"ACK\nid:%b\nreceipt:a\n\n\0" % last)
        with self._broker.stopped():
            for client, frames in zip(self._consumers, acks, strict=True):
                client.say(frames)
        for client in self._consumers:
            client.take(b"RECEIPT", 1)

    def close(self) -> None:
        for client in (*self._producers, *self._consumers):
            client.close()


def count_instructions(before: Before | None, directory: Path, counted: Sequence[Counted] = COUNTED) -> list[Row]:
    """These rows, of this version and of `before`. Raises LoadFailed where one does not get through."""
    for program in ("valgrind", "callgrind_control"):
        if shutil.which(program) is None:
            raise LoadFailed(f"{program} is not here, and counts the instructions: apt install valgrind")
    peers: list[Peer] = [Radiator(), *([before] if before else [])]
    found = {peer.name: _counts(peer, directory / peer.name, counted) for peer in peers}
    return [{"name": row.name, **{peer.name: round(found[peer.name][row.name]) for peer in peers}} for row in counted]


def _counts(peer: Peer, directory: Path, counted: Sequence[Counted]) -> dict[str, float]:
    launch = peer.launch(CASES[0])
    launch.commands[-1][:0] = COUNTING
    launch.environment |= {"PYTHONHASHSEED": "0"}
    config = launch.files["config.toml"].replace('"memory"', '"memory.#"')
    launch.files["config.toml"] = config.replace("data_dir", f'map_size = "{MAP_SIZE}"\ndata_dir')
    found: dict[str, float] = {}
    with running(launch, directory) as process:
        broker = _Broker(process, directory)
        for row in counted:
            with contextlib.closing(_Load(broker, row)) as load:
                found[row.name] = load.instructions()
            sys.stderr.write(f"  {row.name}, {peer.name}: {found[row.name]:,.0f}\n")
    return found


def instructions_table(rows: list[Row]) -> str:
    if "before" not in rows[0]:
        return table(("instructions a message", "now"), [[row["name"], f"{row['radiator']:,}"] for row in rows])
    return table(("instructions a message", "now", "before", "ratio"), [
        [row["name"], f"{row['radiator']:,}", f"{row['before']:,}", _ratio(row["radiator"] / row["before"])]
        for row in rows
    ])  # fmt: skip


def _ratio(ratio: float) -> str:
    return f"{ratio:.3f}" + ("" if ratio <= RATIO_MAX else " MISSED")


def instructions_in(report: str) -> int:
    """All of one dump of callgrind's. Raises LoadFailed where it is none."""
    found = re.search(r"^totals: (\d+)$", report, re.MULTILINE)
    if found is None:
        raise LoadFailed(f"callgrind has reported no totals: {report[:300]!r}")
    return int(found[1])
