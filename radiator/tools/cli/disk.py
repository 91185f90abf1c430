"""`radiator bench --disk DIRECTORY`: how long a commit of the write-ahead log takes there, and whether that can be.

Each append is written into a file that was filled before, and synced by fdatasync, as the log does. A device that
answers faster than a disk can has only noted what it was given: no program can measure that a flush was done.
"""

import errno
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from radiator.model.limits import KIB
from radiator.storage.report import Progress
from radiator.tools.cli.text import printable

APPENDS = 1000
APPEND_BYTES = 4 * KIB
CREDIBLE_US = 20.0
"""Drives with a cache that a capacitor backs answer in about that time, and no disk without one is as fast."""

_WARM_UP = 20  # not counted: the first ones find the drive asleep, or wait for what others wrote
_BODIES = 64  # different ones: a drive may skip what it has already
_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs", "fuse.sshfs", "afs", "virtiofs")
_MOUNTS = Path("/proc/self/mountinfo")
_PROGRESS_EVERY = 50


@dataclass(frozen=True, slots=True)
class DiskMeasured:
    """device: as the system calls it, or "unknown". is_credible: a disk that really flushes may be as fast."""

    directory: str
    file_system: str
    device: str
    appends: int
    append_bytes: int
    p50_us: float
    p99_us: float
    p999_us: float
    is_credible: bool


def measure(directory: Path, progress: Progress) -> DiskMeasured:
    """Appends to a file of its own in that directory, which is removed again. Raises OSError."""
    file = directory / f".radiator-bench-{os.getpid()}"
    opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        took_us = sorted(_appended(opened, progress))
    finally:
        os.close(opened)
        file.unlink()
    file_system, device = file_system_of(directory.resolve())
    p50, p99, p999 = (took_us[len(took_us) * part // 1000] for part in (500, 990, 999))
    return DiskMeasured(
        directory=str(directory),
        file_system=file_system,
        device=device,
        appends=len(took_us),
        append_bytes=APPEND_BYTES,
        p50_us=p50,
        p99_us=p99,
        p999_us=p999,
        is_credible=is_credible(file_system, p50),
    )


def _appended(opened: int, progress: Progress) -> list[float]:
    """Returns how long each append took, in microseconds."""
    count = _WARM_UP + APPENDS
    for at in range(count):
        _write(opened, bytes(APPEND_BYTES), at)
    os.fsync(opened)
    bodies = [os.urandom(APPEND_BYTES) for _ in range(_BODIES)]
    took = []
    for at in range(count):
        begin = time.perf_counter_ns()
        _write(opened, bodies[at % _BODIES], at)
        os.fdatasync(opened)
        took.append((time.perf_counter_ns() - begin) / 1000)
        if at % _PROGRESS_EVERY == 0:
            progress("appending", "appends", at, count)
    return took[_WARM_UP:]


def _write(opened: int, body: bytes, at: int) -> None:
    if os.pwrite(opened, body, at * APPEND_BYTES) != APPEND_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def is_credible(file_system: str, p50_us: float) -> bool:
    """Whether a disk that really flushes may be that fast."""
    return file_system not in _MEMORY and p50_us >= CREDIBLE_US


def file_system_of(directory: Path, mounts: str | None = None) -> tuple[str, str]:
    """Returns the type of the file system that the directory is on, and its device. mounts: as /proc has it."""
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            mounts = ""
    found, depth = ("unknown", "unknown"), -1
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        words, of_type = before.split(" "), after.split(" ")
        if len(words) < 5 or len(of_type) < 2:
            continue
        point = Path(_unescaped(words[4]))
        # of two that are mounted at one place, the later one hides the other
        if directory.is_relative_to(point) and len(point.parts) >= depth:
            found, depth = (of_type[0], _unescaped(of_type[1])), len(point.parts)
    return found


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)


def text_of(measured: DiskMeasured) -> str:
    """Returns what was measured, and what it means, in sentences."""
    times = [measured.p50_us, measured.p99_us, measured.p999_us]
    per_s = round(1e6 / max(measured.p50_us, 0.001))
    lines = [
        f"{printable(measured.directory)} is on {printable(measured.file_system)} ({printable(measured.device)}).",
        f"{measured.appends:,} appends of {measured.append_bytes // KIB} KiB, each with fdatasync: "
        f"{_times_text(times)}: about {per_s:,} commits a second, one after another.",
        _verdict(measured),
        "No program can measure that a flush is one. To be sure, pull the plug: from another machine send with "
        "receipts, and write each down; cut this one's power (no reset, no reboot); start it, and look whether "
        "everything is there that was receipted.",
    ]
    return "\n".join(lines)


def _times_text(times_us: Sequence[float]) -> str:
    named = zip(("p50", "p99", "p99.9"), times_us, strict=True)
    return ", ".join(f"{name} {took_us:,.0f} us" for name, took_us in named)


def _verdict(measured: DiskMeasured) -> str:
    if measured.file_system in _MEMORY:
        return (
            f"{measured.file_system} is memory: nothing in it outlives a power cut or a reboot, whatever was synced. "
            "It is not a place for a store."
        )
    if not measured.is_credible:
        return (
            f"That is NOT CREDIBLE for a disk that really flushes: a median below {CREDIBLE_US:.0f} us says that a "
            "memory has answered, be it of a virtual machine's host, a controller, or a drive that acknowledges before "
            "it has written. Then a power cut loses what was receipted, unless that memory has a battery or capacitors "
            "of its own: ask who runs the machine, or look into the drive's data sheet for power-loss protection."
        )
    credible = "That is credible for a disk that really flushes, and no proof that this one does."
    if measured.file_system in _NETWORK:
        return f"{credible} {measured.file_system} is not a local file system: a store must be on one."
    return credible
