"""The disk that loses what was not flushed: what it may lose, what it may not, and that nothing is left of it."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from tests.broker_process import environment
from tests.campaigns import disks
from tests.campaigns.disks import KINDS, Kind, kernel_has, lacking
from tests.campaigns.lossy_device import Disk
from tests.campaigns.needs import CannotRun, NotInstalled, loop_mount, own_mounts

UNIT = 512
IMAGE_BYTES = 64 * UNIT
OLD, NEW, NEWER = (bytes([byte]) * 8 * UNIT for byte in b"onN")
LOSSY = [kind for kind in KINDS if kind.torn_bytes]
LEAVES_WITHIN_S = 20.0


def disk(image: Path, seed: int = 0) -> Disk:
    image.write_bytes(OLD * 8)
    return Disk(image, UNIT, Random(seed))


def units(image: Path, count: int) -> list[bytes]:
    """Those with which it begins."""
    content = image.read_bytes()
    return [content[at : at + UNIT] for at in range(0, count * UNIT, UNIT)]


def test_what_was_flushed_is_there_whatever_is_lost(tmp_path: Path) -> None:
    for seed in range(50):
        lossy = disk(tmp_path / "image", seed)
        lossy.write(0, NEW)
        lossy.flush()
        lossy.write(8 * UNIT, NEWER)
        lossy.cut()
        assert units(tmp_path / "image", 8) == [NEW[:UNIT]] * 8


def test_of_what_was_not_flushed_each_unit_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    found = set()
    for seed in range(50):
        lossy = disk(tmp_path / "image", seed)
        lossy.write(0, NEW)
        lossy.cut()
        there = units(tmp_path / "image", 8)
        assert {*there} <= {OLD[:UNIT], NEW[:UNIT]}
        found.add(there.count(NEW[:UNIT]))
    assert {0, 8} < found  # and torn ones


def test_a_later_write_may_be_there_without_the_one_before_it(tmp_path: Path) -> None:
    found = set()
    for seed in range(100):
        lossy = disk(tmp_path / "image", seed)
        lossy.write(0, NEW)
        lossy.write(8 * UNIT, NEWER)
        lossy.cut()
        there = units(tmp_path / "image", 16)
        found.add((there[0] == NEW[:UNIT], there[8] == NEWER[:UNIT]))
    assert len(found) == 4


def test_of_two_writes_to_one_place_either_may_be_there_or_neither(tmp_path: Path) -> None:
    found = set()
    for seed in range(100):
        lossy = disk(tmp_path / "image", seed)
        lossy.write(0, NEW)
        lossy.write(0, NEWER)
        lossy.cut()
        found |= {*units(tmp_path / "image", 8)}
    assert found == {OLD[:UNIT], NEW[:UNIT], NEWER[:UNIT]}


def test_one_that_lies_loses_what_was_flushed_since_and_nothing_else(tmp_path: Path) -> None:
    lossy = disk(tmp_path / "image")
    lossy.write(0, NEW)
    lossy.flush()
    lossy.is_lying = True
    lossy.write(0, NEWER)
    lossy.flush()
    lossy.cut()
    assert units(tmp_path / "image", 9) == [NEW[:UNIT]] * 8 + [OLD[:UNIT]]


def test_until_the_cut_all_is_read_as_it_was_written_and_then_everything_fails(tmp_path: Path) -> None:
    lossy = disk(tmp_path / "image")
    lossy.write(UNIT, NEW)
    assert lossy.read(0, 2 * UNIT) == OLD[:UNIT] + NEW[:UNIT]
    lossy.cut()
    for call in (lambda: lossy.read(0, UNIT), lambda: lossy.write(0, NEW), lossy.flush):
        with pytest.raises(OSError) as failed:
            call()
        assert failed.value.errno == errno.EIO


def skip_without(kind: Kind) -> None:
    try:
        loop_mount()
        own_mounts()
    except (CannotRun, NotInstalled) as why:
        pytest.skip(f"file systems are mounted: {why}")
    if why_not := lacking(kind):
        pytest.skip(f"{kind.file_system} on a device of its own is mounted: {why_not}")


def test_what_the_machine_lacks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert lacking(Kind("xfs")) == "mkfs.xfs is not here; on Debian or Ubuntu: apt install xfsprogs"
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(disks, "kernel_has", lambda file_system: file_system == "btrfs")
    assert lacking(Kind("xfs")) == "the kernel has no xfs"
    assert lacking(Kind("btrfs", torn_bytes=4096)) == "the kernel has no fuse"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may ask for a mount")
def test_whether_the_kernel_has_a_file_system() -> None:
    assert kernel_has("ext4")
    assert not kernel_has("radiator")


SYNC_AND_CUT = """
import errno, os, sys
from pathlib import Path
from tests.campaigns.disks import KINDS, disk_of, mount_for_this_process_only

mount_for_this_process_only()
kind = next(kind for kind in KINDS if str(kind) == sys.argv[2])
with disk_of(Path(sys.argv[1]), kind, 1) as disk:
    for count in range(5):
        file = disk.place / "file"
        with file.open("ab") as opened:
            opened.write(b"synced" * 5000)
            opened.flush()
            os.fdatasync(opened.fileno())
            opened.write(b"not synced")
            opened.flush()
            disk.cut()
            try:
                os.fdatasync(opened.fileno())
            except OSError as failed:
                print(failed.errno in (errno.EIO, errno.EROFS))  # btrfs may have noticed, and allow no more writes
        disk.unmount()
        disk.mount()
        print(file.read_bytes()[count * 30_000 :][:30_000] == b"synced" * 5000)
        os.truncate(file, (count + 1) * 30_000)
        os.sync()
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", LOSSY, ids=str)
def test_a_synced_file_is_found_after_each_cut(tmp_path: Path, kind: Kind) -> None:
    skip_without(kind)
    done = subprocess.run(
        [sys.executable, "-c", SYNC_AND_CUT, tmp_path, str(kind)],
        env=environment(), capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["True", "True"] * 5, done.stderr


WITHOUT_FLUSHES = """
import sys
from pathlib import Path
from tests.campaigns.disks import Disk, Kind, mount_for_this_process_only

mount_for_this_process_only()
Disk(Path(sys.argv[1]), Kind("ext4", "barrier=0", 512), 1)
"""


@pytest.mark.slow
def test_a_file_system_that_flushes_nothing_is_no_trial(tmp_path: Path) -> None:
    skip_without(next(kind for kind in LOSSY if kind.file_system == "ext4"))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_FLUSHES, tmp_path], env=environment(), capture_output=True, text=True
    )
    assert "what it loses proves nothing" in done.stderr


def backing_files() -> list[str]:
    """Of all loop devices there are."""
    files = []
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):  # a device that is being detached has none any more
            files.append(path.read_text().strip())
    return files


@pytest.mark.slow
@pytest.mark.skipif(not Path("/sys/block").is_dir(), reason="/sys is not mounted: it tells the file of a loop device")
def test_a_campaign_that_is_killed_leaves_no_device(tmp_path: Path) -> None:
    for kind in LOSSY:
        skip_without(kind)
    command = [sys.executable, "-m", "tests.campaigns.one", "power-cuts", "--cases", "100", "--seed", "1"]
    campaign = subprocess.Popen(
        command, env=environment() | {"TMPDIR": str(tmp_path)}, stdout=subprocess.DEVNULL, start_new_session=True
    )
    deadline_s = time.monotonic() + LEAVES_WITHIN_S
    try:
        while not any(str(tmp_path) in file and file.endswith("device/disk") for file in backing_files()):
            assert time.monotonic() < deadline_s, f"no loop device over a device of {tmp_path}: {backing_files()}"
            time.sleep(0.01)
    finally:
        os.killpg(campaign.pid, signal.SIGKILL)
        campaign.wait()
    deadline_s = time.monotonic() + LEAVES_WITHIN_S
    while any(str(tmp_path) in file for file in backing_files()):
        assert time.monotonic() < deadline_s, f"it has left {backing_files()}"
        time.sleep(0.01)
