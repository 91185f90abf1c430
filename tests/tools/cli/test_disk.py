"""How fast a disk syncs: what is measured, and where it is called not credible."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from radiator.model.errors import EXIT_USAGE
from radiator.storage.report import unheard
from radiator.tools.cli import disk, main
from radiator.tools.cli.disk import CREDIBLE_US, DiskMeasured, file_system_of, is_credible, text_of

Printed = pytest.CaptureFixture[str]
MEASURED = DiskMeasured("/data", "ext4", "/dev/sda1", 1000, 4096, 100.0, 200.0, 1_300.0, True)
MOUNTS = """\
22 27 0:20 / /proc rw shared:12 - proc proc rw
27 1 253:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 27 0:25 / /dev/shm rw,nosuid shared:4 master:1 - tmpfs tmpfs rw
31 27 8:1 / /srv/with\\040blank rw - xfs /dev/sd\\040a rw
32 27 8:2 / /srv rw - btrfs /dev/sdb rw
33 27 8:3 / /srv rw - zfs pool rw
torn
"""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "APPENDS", 20)


def test_appends_are_timed_and_nothing_stays(tmp_path: Path, few: None) -> None:
    measured = disk.measure(tmp_path, unheard)
    assert (measured.directory, measured.appends, measured.append_bytes) == (str(tmp_path), 20, 4096)
    assert 0 < measured.p50_us <= measured.p99_us <= measured.p999_us
    assert measured.is_credible == is_credible(measured.file_system, measured.p50_us)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("file_system", "p50_us", "expected"),
    [
        ("ext4", CREDIBLE_US - 0.1, False),
        ("ext4", CREDIBLE_US, True),
        ("xfs", 8_000.0, True),
        ("unknown", CREDIBLE_US, True),
        ("tmpfs", 8_000.0, False),
        ("ramfs", 1.0, False),
    ],
)
def test_what_is_faster_than_a_flush_and_what_is_memory_by_name_is_not_credible(
    file_system: str, p50_us: float, expected: bool
) -> None:
    assert is_credible(file_system, p50_us) is expected


def test_the_text_has_the_figures_the_verdict_and_how_to_be_sure() -> None:
    first, second, verdict, sure = text_of(MEASURED).splitlines()
    assert first == "/data is on ext4 (/dev/sda1)."
    assert "1,000 appends of 4 KiB, each with fdatasync: p50 100 us, p99 200 us, p99.9 1,300 us" in second
    assert "about 10,000 commits a second" in second
    assert verdict == "That is credible for a disk that really flushes, and no proof that this one does."
    assert "No program can measure" in sure and "pull the plug" in sure


@pytest.mark.parametrize(
    ("file_system", "credible", "expected"),
    [("ext4", False, "NOT CREDIBLE"), ("tmpfs", False, "tmpfs is memory"), ("nfs4", True, "nfs4 is not a local file")],
)
def test_the_verdict_says_what_is_wrong(file_system: str, credible: bool, expected: str) -> None:
    text = text_of(replace(MEASURED, file_system=file_system, is_credible=credible))
    assert expected in text and "pull the plug" in text


@pytest.mark.parametrize(
    ("directory", "expected"),
    [
        ("/", ("ext4", "/dev/vda")),
        ("/var/lib/radiator", ("ext4", "/dev/vda")),
        ("/dev/shm", ("tmpfs", "tmpfs")),
        ("/dev/shm/data", ("tmpfs", "tmpfs")),
        ("/dev/shmem", ("ext4", "/dev/vda")),
        ("/srv/data", ("zfs", "pool")),
        ("/srv/with blank/data", ("xfs", "/dev/sd a")),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(directory: str, expected: tuple[str, str]) -> None:
    assert file_system_of(Path(directory), MOUNTS) == expected


def test_without_a_list_of_mounts_the_file_system_is_unknown() -> None:
    assert file_system_of(Path("/data"), "") == ("unknown", "unknown")


def test_this_machine_says_what_it_has(tmp_path: Path) -> None:
    assert file_system_of(tmp_path)[0] != "unknown"


def test_the_command_needs_no_broker(tmp_path: Path, few: None, capsys: Printed) -> None:
    assert main(["bench", "--disk", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith(f"{tmp_path} is on ")
    assert main(["bench", "--disk", str(tmp_path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer) == set(DiskMeasured.__slots__) and answer["directory"] == str(tmp_path)


def test_a_directory_that_cannot_be_used_is_one_sentence(tmp_path: Path, capsys: Printed) -> None:
    (tmp_path / "file").touch()
    for name, expected in (("missing", "No such file or directory."), ("file", "Not a directory.")):
        assert main(["bench", "--disk", str(tmp_path / name)]) == 1
        printed = capsys.readouterr()
        assert printed.out == "" and printed.err.count("\n") == 1 and printed.err.endswith(f"{expected}\n")
        assert str(tmp_path / name) in printed.err


def test_a_queue_beside_a_disk_is_a_mistake(tmp_path: Path, capsys: Printed) -> None:
    assert main(["bench", "orders", "--disk", str(tmp_path)]) == EXIT_USAGE
    assert "leave /queue/orders out" in capsys.readouterr().err


def test_seconds_beside_a_disk_are_a_mistake(tmp_path: Path, capsys: Printed) -> None:
    assert main(["bench", "--disk", str(tmp_path), "--seconds", "3"]) == EXIT_USAGE
    assert "--disk makes 1,000 appends, however long they take: leave --seconds out." in capsys.readouterr().err


def test_a_write_that_finds_no_space_is_an_error() -> None:

    opened = os.open("/dev/full", os.O_WRONLY)
    try:
        with pytest.raises(OSError, match="No space left"):
            disk._write(opened, b"x" * disk.APPEND_BYTES, 0)
    finally:
        os.close(opened)
