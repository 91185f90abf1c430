"""Bytes written: what the disk was told to write is counted, all of it, and shown with what it was written for."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.peers import Radiator
from benchmarks.shapes import END_TO_END
from benchmarks.written import Disk, Written, _run, case_of, own_disk, written_by, written_report
from radiator.model.limits import KIB, MIB
from radiator.tools.cli.load import LoadFailed
from tests.campaigns.needs import CannotRun, NotInstalled, loop_mount

WRITES = 100
PAGE_BYTES = 4 * KIB
HOST = {"cpu": "Cpu", "cpus": 2, "memory_gib": 4, "kernel": "6", "system": "Debian", "file_system": "ext4 (rw; rw)",
        "load_before": 0.1, "flush_ms": {"median": 0.4, "p99": 1.0}}  # fmt: skip


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    try:
        loop_mount()
    except (CannotRun, NotInstalled) as why:
        pytest.skip(f"a file system is made and mounted: {why}")
    with own_disk(tmp_path / "own", 512 * MIB, pause_s=0.3) as made:
        yield made
    assert not (tmp_path / "own").exists()


def test_a_page_that_is_synced_twice_is_counted_twice_and_no_page_more(disk: Disk) -> None:
    """The file is written in large pieces before: then `write_bytes` of the process has a whole piece for each."""
    opened = os.open(disk.place / "file", os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(opened, bytes(4 * MIB), 0)
        os.fsync(opened)
        disk.sync()
        before = disk.written()
        for number in range(WRITES):
            os.pwrite(opened, b"x" * KIB, number * KIB)
            os.fdatasync(opened)
        disk.sync()
        found = disk.written().since(before)
    finally:
        os.close(opened)
    assert WRITES * PAGE_BYTES <= found.data <= 1.2 * WRITES * PAGE_BYTES


def test_the_journal_is_counted_by_itself(disk: Disk) -> None:
    before = disk.written()
    for number in range(WRITES):
        opened = os.open(disk.place / str(number), os.O_WRONLY | os.O_CREAT)
        os.fsync(opened)
        os.close(opened)
    found = disk.written().since(before)
    assert found.journal >= WRITES * 2 * PAGE_BYTES, "each sync of a new file writes what was changed, and its end"


@pytest.mark.slow
def test_what_radiator_writes_is_counted(disk: Disk) -> None:
    messages = 2000
    case = case_of(END_TO_END, KIB)
    written, took_s = written_by(Radiator(), case, messages, disk, before_bytes=MIB)
    # each body is in the log once; the bound above is for a batch with nothing but one message
    assert 1 < written.data / (messages * KIB) < 20
    assert 0 <= written.journal < written.data
    assert took_s > 0


def test_the_difference_of_both() -> None:
    assert Written(10, 5).since(Written(3, 1)) == (7, 4)


def test_what_does_not_work_is_quoted() -> None:
    with pytest.raises(LoadFailed, match=r"`mount /nowhere` failed, and .* takes it, and root: mount: .*/nowhere"):
        _run("mount", "/nowhere")
    with pytest.raises(LoadFailed, match="no-such-program is not here"):
        _run("no-such-program")


def row(name: str, **more: object) -> dict[str, object]:
    return {"name": name, "body_bytes": KIB, "messages": 10, "results": {}, "failed": {}, "lacks": {}, **more}


def spread_of(least: float, most: float) -> dict[str, float]:
    return {"median": (least + most) / 2, "min": least, "max": most}


def test_the_report_has_every_peer_and_says_what_failed_and_what_differed() -> None:
    figures = {"written": spread_of(2.0, 3.0), "journal": spread_of(0.25, 0.25), "per_s": spread_of(12345, 12345)}
    peers = {name: {"version": "1", "confirms": "Yes.", "started": {}} for name in ("radiator", "redis", "nats")}
    data = {
        "taken": "today", "host": HOST, "settings": {"rounds": 2}, "peers": peers, "missing": {},
        "written": [row("kept", results={"radiator": figures}, failed={"redis": "No."}, lacks={"nats": "Too old"})],
    }  # fmt: skip
    text = written_report(data)
    assert "Taken today: 2 rounds, medians." in text
    lines = [line.split() for line in text.splitlines()]
    assert ["load", "body", "radiator", "redis", "nats"] in lines
    for cell in ("2.50", "0.25", "12,345"):
        assert ["kept", "1.0", "KiB", cell, "failed", "-"] in lines
    assert "kept, 1.0 KiB, redis: No." in text
    assert "kept, 1.0 KiB, nats: Too old" in text
    assert "kept, 1.0 KiB, radiator: between 2.00 and 3.00 bytes" in text
