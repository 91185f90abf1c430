"""`--long`: promises that take minutes to check, of Radiator alone.

A backlog of a million messages must cost no memory, no speed and no time at a start after kill -9; an idle subscribed
connection little memory. `--starts`: the starts alone.
"""

import contextlib
import os
import resource
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.processes import fresh
from benchmarks.shapes import END_TO_END, WINDOW_16
from radiator.model.limits import KIB, MIB
from radiator.tools.cli.load import Load, LoadFailed, Shape, StompWire, process_cpu_s
from radiator.tools.cli.text import table
from tests.broker_process import BrokerProcess

CONFIG = """\
[server]
listen = ["stomp://127.0.0.1:0"]
data_dir = "data"

[limits]
max_connections = 20000

[queue."persistent"]
"""

QUEUE = "/queue/persistent"
BACKLOG_MESSAGES = 1_000_000
START_BACKLOGS = (0, 1_000_000, 10_000_000)
START_BODY_BYTES = 100
STARTS = 3
START_MAX_S = 2.0
LOADED_S = 1.0  # before the kill: several batches are in the log that the tables do not have
IDLE_CONNECTIONS = 10_000
CONNECT_MAX_S = 10.0


Judged = Callable[[str, str, str, bool], None]


class _Checks:
    """The rows of the table: what was checked, what was measured and wanted, and whether it was missed."""

    def __init__(self) -> None:
        self._rows: list[list[str | int]] = []

    def judged(self, what: str, value: str, wanted: str, good: bool) -> None:
        self._rows.append([what, value, wanted, "" if good else "MISSED"])
        _progress(f"{what}: {value}")

    def text(self) -> str:
        return table(("long check", "measured", "wanted", ""), self._rows)


def long_checks(directory: Path, rounds: int, seconds: float, backlog_max: int) -> str:
    """The table. backlog_max: no start is tried on more messages."""
    checks = _Checks()
    judged = checks.judged
    with fresh(directory / "full"), BrokerProcess(directory / "full", CONFIG) as broker:
        before_bytes = rss_anon_bytes(broker.pid)
        _fill(broker, BACKLOG_MESSAGES)
        time.sleep(1)  # what the last batches held is given back
        grown = rss_anon_bytes(broker.pid) - before_bytes
        what = f"RssAnon grown by {BACKLOG_MESSAGES:,} messages"
        judged(what, f"{grown / MIB:.1f} MiB", "< 64 MiB", grown < 64 * MIB)
        for shape in (WINDOW_16, END_TO_END):
            kept = _rate_kept(broker, directory / "empty", shape, rounds, seconds)
            judged(f"rate with that backlog / rate when empty: {shape.name}", f"{kept:.2f}", ">= 0.9", kept >= 0.9)
    _judge_starts(directory / "starts", backlog_max, judged)
    with fresh(directory / "idle"), BrokerProcess(directory / "idle", CONFIG) as broker:
        each = _idle_connections(broker) / IDLE_CONNECTIONS
        judged(f"RssAnon of each of {IDLE_CONNECTIONS:,} idle subscribed connections",
               f"{each / KIB:.1f} KiB", "< 20 KiB", each < 20 * KIB)  # fmt: skip
    return checks.text()


def starts(directory: Path, backlog_max: int) -> str:
    """The table of the starts alone."""
    checks = _Checks()
    _judge_starts(directory / "starts", backlog_max, checks.judged)
    return checks.text()


def _judge_starts(directory: Path, backlog_max: int, judged: Judged) -> None:
    """From exec to the line `listening`: the interpreter and the imports are part of it."""
    with fresh(directory), BrokerProcess(directory, CONFIG) as broker:
        stored = 0
        for messages in (count for count in START_BACKLOGS if count <= backlog_max):
            _fill(broker, messages - stored, START_BODY_BYTES)
            stored = messages
            took_s = [_start_after_kill(broker) for _ in range(STARTS)]
            middle_s = statistics.median(took_s)
            judged(f"start after kill -9 under load, {messages:,} messages of {START_BODY_BYTES} B stored before",
                   f"{middle_s:.2f} s ({min(took_s):.2f} to {max(took_s):.2f}), load {os.getloadavg()[0]:.1f}",
                   f"< {START_MAX_S:.0f} s", middle_s < START_MAX_S)  # fmt: skip


def _start_after_kill(broker: BrokerProcess) -> float:
    """Kills it while producers keep it busy, and starts it again on what is there: how long that takes, in seconds."""
    load = Load((broker.host, broker.port), StompWire(QUEUE, body_bytes=START_BODY_BYTES), WINDOW_16)

    def until_killed() -> None:
        with contextlib.suppress(LoadFailed, OSError):
            load.measure(60.0)

    producing = threading.Thread(target=until_killed)
    producing.start()
    time.sleep(LOADED_S)
    broker.kill()
    producing.join()
    load.close()
    began_s = time.monotonic()
    broker.start()
    return time.monotonic() - began_s


def rss_anon_bytes(pid: int) -> int:
    """Anonymous memory: what the process holds itself, without the pages of LMDB's file (proc_pid_status(5))."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * KIB
    raise LoadFailed("This kernel tells no RssAnon: the long checks need Linux 4.5 or newer.")


def _rate(broker: BrokerProcess, shape: Shape, seconds: float) -> float:
    load = Load((broker.host, broker.port), StompWire(QUEUE), shape, lambda: process_cpu_s(broker.pid))
    try:
        return load.measure(seconds).per_s
    finally:
        load.close()


def _rate_kept(full: BrokerProcess, directory: Path, shape: Shape, rounds: int, seconds: float) -> float:
    """The median rate on the full broker, compared with that on fresh ones, measured in turns."""
    fulls, empties = [], []
    for _ in range(rounds):
        fulls.append(_rate(full, shape, seconds))
        with fresh(directory), BrokerProcess(directory, CONFIG) as empty:
            empties.append(_rate(empty, shape, seconds))
    return statistics.median(fulls) / statistics.median(empties)


def _fill(broker: BrokerProcess, messages: int, body_bytes: int = KIB) -> None:
    load = Load((broker.host, broker.port), StompWire(QUEUE, body_bytes=body_bytes), WINDOW_16)
    try:
        took_s = load.fill(messages)
    finally:
        load.close()
    _progress(f"{messages:,} messages stored in {took_s:.0f} s")


def _idle_connections(broker: BrokerProcess) -> int:
    """How much RssAnon grows by connections that are subscribed and silent."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < IDLE_CONNECTIONS + 100:
        raise LoadFailed(f"{IDLE_CONNECTIONS} connections need more open files than {soft}: `ulimit -n` raises that.")
    sent, last_answer = StompWire(QUEUE).hello(consumer=True)
    before = rss_anon_bytes(broker.pid)
    sockets = []
    try:
        for _ in range(IDLE_CONNECTIONS):
            one = socket.create_connection((broker.host, broker.port), CONNECT_MAX_S)
            sockets.append(one)
            one.sendall(sent)
            answer = b""
            while last_answer not in answer:
                data = one.recv(4096)
                if not data:
                    raise LoadFailed(f"The broker refused connection {len(sockets)}: {answer!r}.")
                answer += data
        time.sleep(1)
        return rss_anon_bytes(broker.pid) - before
    finally:
        for one in sockets:
            one.close()


def _progress(text: str) -> None:
    sys.stderr.write(f"  {text}\n")
