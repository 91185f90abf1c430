"""`--flushes`: does an answer really wait for a flush? strace counts the calls of each peer.

One producer with one SEND outstanding leaves nothing to share a flush with, so a peer that syncs before it answers
makes at least one for each SEND. End to end, eight producers share flushes, and what a peer need not wait for counts
too. The flushes of a file opened with O_DSYNC are not counted (LMDB's second of each commit).
"""

import contextlib
import itertools
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.peers import Peer
from benchmarks.processes import Running, running, tree
from benchmarks.shapes import END_TO_END, Case
from radiator.tools.cli.load import Load, LoadFailed, Shape
from radiator.tools.cli.text import bytes_text, table

CALLS = "fsync,fdatasync,msync,sync_file_range,syncfs,sync"
ALONE = Shape(name="1 producer, one outstanding", producers=1, window=1)
ATTACH_S = 1.0  # strace does not say when it has attached to every thread


def count_flushes(peers: Sequence[Peer], bodies: Sequence[int], directory: Path, seconds: float) -> str:
    if shutil.which("strace") is None:
        raise LoadFailed("strace is not here, and counts the flushes: apt install strace")
    rows: list[list[str | int]] = []
    for shape, body_bytes, peer in itertools.product((ALONE, END_TO_END), bodies, peers):
        case = Case(kind="queue", shape=shape, is_persistent=True, body_bytes=body_bytes)
        names: list[str | int] = [shape.name, bytes_text(body_bytes), peer.name]
        if reason := peer.lacks(case):
            rows.append([*names, reason, "", ""])
            continue
        with running(peer.launch(case), directory / peer.name) as broker:
            sent, flushes = _counted(peer, broker, case, directory / "strace.txt", seconds)
        rows.append([*names, f"{sent:,}", f"{flushes:,}", f"{flushes / sent:.2f}"])
        sys.stderr.write(f"  {shape.name}, {bytes_text(body_bytes)}, {peer.name}: {flushes / sent:.2f}\n")
    return table(("load", "body", "peer", "confirmed SENDs", "flushes", "flushes for each"), rows)


def _counted(peer: Peer, broker: Running, case: Case, report: Path, seconds: float) -> tuple[int, int]:
    load = Load(("127.0.0.1", broker.port), peer.prepare(broker, case), case.shape)
    try:
        with _traced(broker, report):
            load.measure(seconds)
            load.settle()
    finally:
        load.close()
    return load.sent, flushes_in(report.read_text())


@contextlib.contextmanager
def _traced(broker: Running, report: Path) -> Iterator[None]:
    pids = [word for pid in tree(broker.pids) for word in ("-p", str(pid))]
    tracer = subprocess.Popen(["strace", "-f", "-qq", "-c", "-e", f"trace={CALLS}", "-o", str(report), *pids],
                              stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        time.sleep(ATTACH_S)
        if tracer.poll() is not None:
            raise LoadFailed("strace may not attach to the peers here; root may.")
        yield
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait(10)


def flushes_in(report: str) -> int:
    """The calls in strace's summary, of which some may have failed."""
    found = re.findall(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", report, re.MULTILINE)
    return sum(int(calls) for calls, name in found if name in CALLS.split(","))
