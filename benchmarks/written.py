"""`--written`: how many bytes reach the disk for each byte of body that a broker accepts.

Each measurement has a file system of its own, in a file behind a loop device, and the sectors that the device was told
to write are what is counted: the broker's data, the file system's own books and its journal, and nobody else's. What
Linux tells of a process (`write_bytes` in /proc/PID/io) is another thing; benchmarks/METHODS.md says why.

It ends with a sync once the broker is quiet, so what it does behind its answers is in the figure too.
"""

import contextlib
import copy
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.host import host
from benchmarks.peers import Peer
from benchmarks.processes import Running, fresh, running
from benchmarks.report import data_of, launch_data, preface, spread
from benchmarks.shapes import END_TO_END, WINDOW_16, Case
from radiator.model.limits import GIB, KIB, MIB
from radiator.tools.cli.load import Load, LoadFailed, Shape, Wire
from radiator.tools.cli.text import bytes_text, table
from tests.campaigns.disks import mount_for_this_process_only

LOADS = {"consumed at once": END_TO_END, "kept": WINDOW_16}
MESSAGES, BODIES_BYTES = 51_200, 256 * MIB  # of one load: so many, or so many bytes where that is less
BEFORE_BYTES, BEFORE_BODY_BYTES = 256 * MIB, 64 * KIB  # pass through before it counts: a new store makes its files
DISK_BYTES, JOURNAL_BYTES, BLOCK_BYTES = 4 * GIB, 64 * MIB, 4 * KIB
SECTOR_BYTES = 512  # of /proc/diskstats, whatever those of the device have
QUIET_BYTES, QUIET_TIMES = 64 * KIB, 3  # a broker is quiet that has written no more in so many pauses in a row
QUIET_MAX_S = 60.0
UNMOUNT_MAX_S = 20.0
WIDE_SHARE = 0.1  # rounds that differ by more are told

Data = dict[str, Any]


class Written(NamedTuple):
    """Bytes. journal: those of the file system's journal; data: all others."""

    data: int
    journal: int

    def since(self, before: "Written") -> "Written":
        return Written(self.data - before.data, self.journal - before.journal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A file system that nobody else uses. place: where it is mounted. devices: of its data and of its journal, as
    `loop0`. pause_s: between two looks whether the broker is quiet.
    """

    place: Path
    devices: tuple[str, str]
    pause_s: float = 1.0

    def written(self) -> Written:
        """Since the devices are there."""
        return Written(*(_sectors_written(device) * SECTOR_BYTES for device in self.devices))

    def sync(self) -> None:
        """What was written is on the disk when this returns; other file systems are left alone."""
        _run("sync", "-f", str(self.place))

    def when_quiet(self) -> Written:
        """What was written once nothing is pending, and nobody goes on to write. Raises LoadFailed."""
        end_s = time.monotonic() + QUIET_MAX_S
        quiet, written = 0, self.written()
        while quiet < QUIET_TIMES:
            if time.monotonic() > end_s:
                raise LoadFailed(f"The broker still writes {QUIET_MAX_S:.0f} s after the load.")
            time.sleep(self.pause_s)
            self.sync()
            before, written = written, self.written()
            quiet = quiet + 1 if sum(written.since(before)) <= QUIET_BYTES else 0
        return written


@dataclass
class Result:
    """Of one peer under one load, round by round: for each byte of body, and in messages a second. failed: the sentence
    of a round in which it did not get through.
    """

    written: list[float] = field(default_factory=list)
    journal: list[float] = field(default_factory=list)
    per_s: list[float] = field(default_factory=list)
    failed: str = ""


def measure_written(
    peers: Sequence[Peer], missing: dict[str, str], bodies: Sequence[int], directory: Path, rounds: int
) -> Data:
    """The figures as data. What it mounts ends with this process. Raises LoadFailed."""
    if os.geteuid() != 0:
        raise LoadFailed("--written mounts a file system of its own, which takes root.")
    mount_for_this_process_only()
    with own_disk(directory) as disk:
        machine = host(disk.place)
    found = data_of([], peers, missing, machine, {"rounds": rounds})
    cases = {(name, body): case_of(shape, body) for name, shape in LOADS.items() for body in bodies}
    rows = [_row(name, case, peers, directory, rounds) for (name, _), case in cases.items()]
    for peer in peers:
        started = launch_data(peer.launch(case_of(WINDOW_16, KIB)))
        found["peers"][peer.name]["started"] = {"persistent": started}
    return {**found, "written": rows}


def case_of(shape: Shape, body_bytes: int) -> Case:
    return Case(kind="queue", shape=shape, is_persistent=True, body_bytes=body_bytes)


def _row(name: str, case: Case, peers: Sequence[Peer], directory: Path, rounds: int) -> Data:
    lacks = {peer.name: reason for peer in peers if (reason := peer.lacks(case))}
    results = {peer.name: Result() for peer in peers if peer.name not in lacks}
    messages = min(MESSAGES, BODIES_BYTES // case.body_bytes)
    for number, peer in itertools.product(range(rounds), peers):
        result = results.get(peer.name)
        if result is None or result.failed:
            continue
        what = f"{name}, {bytes_text(case.body_bytes)}, {peer.name}, round {number + 1}"
        try:
            with own_disk(directory) as disk:
                written, took_s = written_by(peer, case, messages, disk)
        except (LoadFailed, OSError) as failed:
            result.failed = str(failed)
            _progress(f"{what}: {failed}")
            continue
        accepted_bytes = messages * case.body_bytes
        result.written.append(sum(written) / accepted_bytes)
        result.journal.append(written.journal / accepted_bytes)
        result.per_s.append(messages / took_s)
        _progress(f"{what}: {result.written[-1]:.2f}, {result.per_s[-1]:,.0f}/s, load {os.getloadavg()[0]:.1f}")
    return {
        "name": name,
        "body_bytes": case.body_bytes,
        "messages": messages,
        "results": {peer: _result_data(result) for peer, result in results.items() if result.written},
        "failed": {peer: result.failed for peer, result in results.items() if result.failed},
        "lacks": lacks,
    }


def _result_data(result: Result) -> Data:
    return {name: spread(getattr(result, name)) for name in ("written", "journal", "per_s")}


def written_by(
    peer: Peer, case: Case, messages: int, disk: Disk, before_bytes: int = BEFORE_BYTES
) -> tuple[Written, float]:
    """What a fresh broker has the disk write for a load of so many messages, and how long the load took. before_bytes:
    of bodies that pass through it before.
    """
    with running(peer.launch(case), disk.place / peer.name) as broker:
        wire = peer.prepare(broker, case)
        passing = copy.copy(wire)
        passing.body_bytes = BEFORE_BODY_BYTES
        _run_load(broker, passing, END_TO_END, before_bytes // BEFORE_BODY_BYTES, disk)
        before = disk.written()
        after, took_s = _run_load(broker, wire, case.shape, messages, disk)
        return after.since(before), took_s


def _run_load(broker: Running, wire: Wire, shape: Shape, messages: int, disk: Disk) -> tuple[Written, float]:
    """What was written in all once the broker is quiet again, and how long the load took."""
    load = Load(("127.0.0.1", broker.port), wire, shape)
    try:
        began_s = time.monotonic()
        load.fill(messages)
        load.settle()
        took_s = time.monotonic() - began_s
        # connections are closed only then: what is unread at a close may be dropped, and acks are part of the load
        return disk.when_quiet(), took_s
    finally:
        load.close()


# ---- a disk of its own


@contextlib.contextmanager
def own_disk(directory: Path, size: int = DISK_BYTES, pause_s: float = 1.0) -> Iterator[Disk]:
    """A new ext4 in `directory`, and nothing of it afterwards. Its journal is on a device of its own, so that the two
    can be told apart. Raises LoadFailed where this system lets us make none.
    """
    with fresh(directory):
        place = directory / "disk"
        place.mkdir()
        devices: list[str] = []
        try:
            devices.append(_loop(directory / "data", size))
            devices.append(_loop(directory / "journal", JOURNAL_BYTES))
            data, journal = devices
            _run("mkfs.ext4", "-q", "-b", str(BLOCK_BYTES), "-O", "journal_dev", journal)
            # all of its tables are written now, not by the kernel during the measurement
            _run("mkfs.ext4", "-q", "-b", str(BLOCK_BYTES), "-J", f"device={journal}",
                 "-E", "nodiscard,lazy_itable_init=0", data)  # fmt: skip
            _run("mount", data, str(place))
        finally:
            for device in devices:
                _run("losetup", "--detach", device)  # which waits until it is not mounted any more
        try:
            yield Disk(place=place.resolve(), devices=(Path(data).name, Path(journal).name), pause_s=pause_s)
        finally:
            _unmount(place)


def _loop(image: Path, size: int) -> str:
    """Makes a block device of that file, as `/dev/loop0`."""
    with image.open("wb") as made:
        os.posix_fallocate(made.fileno(), 0, size)  # so a full disk is told now, not during the measurement
    return _run("losetup", "--find", "--show", "--direct-io=on", str(image))


def _unmount(place: Path) -> None:
    """Processes that were killed may have files open there for a moment."""
    end_s = time.monotonic() + UNMOUNT_MAX_S
    while True:
        try:
            _run("umount", str(place))
        except LoadFailed:
            if time.monotonic() > end_s:
                raise
            time.sleep(0.1)
        else:
            return


def _sectors_written(device: str) -> int:
    for line in Path("/proc/diskstats").read_text().splitlines():
        _, _, name, *numbers = line.split()
        if name == device:
            return int(numbers[6])
    raise LoadFailed(f"/proc/diskstats has no line of {device}.")


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise LoadFailed(f"{command[0]} is not here, and a file system of its own takes it.") from None
    if done.returncode:
        raise LoadFailed(f"`{' '.join(command)}` failed, and a file system of its own takes it, and root: "
                         f"{done.stderr.strip()}")  # fmt: skip
    return done.stdout.strip()


# ---- shown


def written_report(data: Data) -> str:
    """Made from the data alone."""
    tables = (
        ("Bytes written for each byte of body", "written", "{:.2f}"),
        ("Of them by the file system's journal", "journal", "{:.2f}"),
        ("Messages a second meanwhile", "per_s", "{:,.0f}"),
    )
    found = [preface(data)]
    for head, figure, form in tables:
        rows = [[row["name"], bytes_text(row["body_bytes"]),
                 *(_cell(row, peer, figure, form) for peer in data["peers"])] for row in data["written"]]  # fmt: skip
        found.append(f"{head}:\n\n{table(('load', 'body', *data['peers']), rows)}")
    return "\n\n".join([*found, *_remarks(data)])


def _cell(row: Data, peer: str, figure: str, form: str) -> str:
    if peer in row["failed"]:
        return "failed"
    return form.format(row["results"][peer][figure]["median"]) if peer in row["results"] else "-"


def _remarks(data: Data) -> Iterator[str]:
    for row in data["written"]:
        what = f"{row['name']}, {bytes_text(row['body_bytes'])}"
        for peer, why in (row["failed"] | row["lacks"]).items():
            yield f"{what}, {peer}: {why}"
        for peer, result in row["results"].items():
            least, most = result["written"]["min"], result["written"]["max"]
            if most - least > WIDE_SHARE * result["written"]["median"]:
                yield f"{what}, {peer}: between {least:.2f} and {most:.2f} bytes"


def _progress(text: str) -> None:
    sys.stderr.write(f"  {text}\n")
