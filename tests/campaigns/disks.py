"""File systems of one's own that can lose their power: ext4, xfs and btrfs, each in a loop mount.

ext4 and xfs can be told to shut down (FS_IOC_SHUTDOWN, as xfstests do it): from that moment nothing reaches the image
any more, neither data nor journal. Any of them can stand on a device that loses, and tears, what was not flushed.
"""

import ctypes
import errno
import fcntl
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.campaigns.lossy_device import CLONE_NEWNS, LIBC, LossyDevice, loop_device, mounted, unmount

FS_IOC_SHUTDOWN, WITHOUT_JOURNAL = 0x8004587D, 2  # of xfs: XFS_IOC_GOINGDOWN, the same numbers
IMAGE_BYTES = 512 << 20  # xfs needs 300 MiB
NEEDED = {"ext4": "e2fsprogs", "xfs": "xfsprogs", "btrfs": "btrfs-progs"}  # by whom mkfs is brought
# sectors as the device has them: a file system may count on a sector being written whole
MKFS: dict[str, tuple[str, ...]] = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-b", "4096"),
    "xfs": ("mkfs.xfs", "-q", "-K", "-s", "size={sector_bytes}"),
    "btrfs": ("mkfs.btrfs", "-q", "-K"),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A file system, how it is mounted and how it loses its power: it is told to shut down, or, where torn_bytes are
    given, it stands on a device that loses what was not flushed, in such units.
    """

    file_system: str
    options: str = "defaults"
    torn_bytes: int = 0

    @property
    def name(self) -> str:
        return f"{self.file_system} on a device" if self.torn_bytes else self.file_system

    def __str__(self) -> str:
        how = f"on a device that tears at {self.torn_bytes} bytes" if self.torn_bytes else "shut down"
        return f"{self.file_system} ({self.options}) {how}"


# commit: the interval of the journal: at once, or never by itself; writeback: file sizes may be there before the bytes;
# nodatacow: a file is written in place, without a checksum. No option weakens a flush. Any three that stand together
# are of three file systems, as far as that goes.
KINDS = (
    Kind("ext4", "commit=1000"),
    Kind("xfs", torn_bytes=512),
    Kind("btrfs", "commit=300", 4096),
    Kind("ext4", "commit=1"),
    Kind("xfs"),
    Kind("btrfs", "commit=1", 4096),
    Kind("ext4", "commit=1000,data=writeback"),
    Kind("xfs", torn_bytes=4096),
    Kind("btrfs", "commit=300,nodatacow", 4096),
    Kind("ext4", "commit=1,data=writeback"),
    Kind("ext4", "commit=1000", 512),
    Kind("ext4", "commit=1,data=writeback", 512),
)


class Disk:
    """One file system, mounted at `place`."""

    def __init__(self, directory: Path, kind: Kind, seed: int) -> None:
        self.kind = kind
        self.directory = directory
        self.image, self.place, self._behind = directory / "image", directory / "disk", directory / "device"
        self._seed = seed
        self._device: LossyDevice | None = None
        self.lost = ""  # by the last cut of its device, in words
        self.unflushed = 0  # writes that it had to lose some of
        self.place.mkdir()
        with self.image.open("wb") as image:
            image.truncate(IMAGE_BYTES)
        command(*(word.format(sector_bytes=kind.torn_bytes or 512) for word in MKFS[kind.file_system]), self.image)
        self.mount()
        if self._device is not None:
            self._assert_flushed(self._device)

    def __str__(self) -> str:
        return f"{self.kind}{self.lost}"

    def mount(self) -> None:
        """What the image has, and nothing of what the kernel remembers."""
        words = ("mount", "-t", self.kind.file_system, "-o")
        if not self.kind.torn_bytes:
            command(*words, f"loop,{self.kind.options}", self.image, self.place)
            return
        self._seed += 1
        self._device = LossyDevice(self.image, self._behind, self.kind.torn_bytes, self._seed)
        with loop_device(self._device.file, self.kind.torn_bytes) as loop:
            command(*words, self.kind.options, loop, self.place)

    def _assert_flushed(self, device: LossyDevice) -> None:
        """That a sync of a file is a flush of the device."""
        before = device.count()["flushes"]
        probe = self.place / "probe"
        with probe.open("wb") as file:
            file.write(bytes(4096))
            file.flush()
            os.fdatasync(file.fileno())
        probe.unlink()
        if device.count()["flushes"] == before:
            raise RuntimeError(f"fdatasync in {self.kind} flushes no device: what it loses proves nothing.")

    def lie(self) -> None:
        """From here on its device answers flushes and loses all that comes."""
        assert self._device is not None, self.kind
        self._device.lie()

    def cut(self) -> None:
        """From here on every write to it fails, and nothing more reaches the image."""
        if self._device is not None:
            lost = self._device.cut()
            if not lost["flushes"]:
                raise RuntimeError(f"The device of {self.kind} was never flushed: what it loses proves nothing.")
            self.unflushed = int(str(lost["unflushed"]))
            self.lost = f"; lost: {lost['lost']}, {lost['kept']} of {lost['units']} units kept"
            return
        opened = os.open(self.place, os.O_RDONLY)
        try:
            fcntl.ioctl(opened, FS_IOC_SHUTDOWN, struct.pack("I", WITHOUT_JOURNAL))
        finally:
            os.close(opened)

    def unmount(self) -> None:
        """So that nothing in the kernel's memory is left of it."""
        command("umount", self.place)
        if self._device is not None:
            self._device.end()
            self._device = None

    def remove(self) -> None:
        """Whatever has become of it."""
        subprocess.run(["umount", "-l", self.place], capture_output=True)
        if self._device is not None:
            self._device.abandon()
        self.image.unlink()
        self.place.rmdir()


@contextmanager
def disk_of(directory: Path, kind: Kind, seed: int) -> Iterator[Disk]:
    disk = Disk(directory, kind, seed)
    try:
        yield disk
    finally:
        disk.remove()


def lacking(kind: Kind) -> str:
    """Why this machine cannot have it, in a sentence; "" where it can."""
    program = MKFS[kind.file_system][0]
    if shutil.which(program) is None:
        return f"{program} is not here; on Debian or Ubuntu: apt install {NEEDED[kind.file_system]}"
    for file_system in (kind.file_system, "fuse") if kind.torn_bytes else (kind.file_system,):
        if not kernel_has(file_system):
            return f"the kernel has no {file_system}"
    if kind.torn_bytes:
        with tempfile.TemporaryDirectory() as place:
            try:
                os.close(mounted(Path(place)))
                unmount(Path(place))
            except OSError as failed:
                return f"/dev/fuse does not work here: {failed.strerror}"
    return ""


def kernel_has(file_system: str) -> bool:
    """Whether it knows that type, or has a module that does: asked for a mount of nothing, it says that or something
    else.
    """
    is_mounted = LIBC.mount(b"none", b"/", file_system.encode(), 0, None) == 0
    assert not is_mounted, f"{file_system} was mounted from nothing"
    return ctypes.get_errno() != errno.ENODEV


def mount_for_this_process_only() -> None:
    """Mounts made from now on end with this process and its children, however they end."""
    if LIBC.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    command("mount", "--make-rprivate", "/")


def command(*words: str | Path) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))} ended with {done.returncode}: {done.stdout}{done.stderr}")
