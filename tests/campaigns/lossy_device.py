"""A disk that loses what was not flushed when its power is cut, and tears it: for file systems that cannot be told to
lose their power (btrfs), and for a harder trial of those that can.

It is a FUSE file system with one file in it, the disk, over which a loop device is set up; the loop driver makes an
FSYNC of each flush of the file system above. What was written since the last FSYNC is kept beside what it replaced. At
the cut some of it is there and some is not: whole writes, or units of 512 bytes or 4 KiB of them. From then on every
read, write and flush fails. The disk is served by a process of its own, for its kernel requests may never be waited for
by whoever makes them.

It cannot see what a drive's own firmware does wrong, nor writes that reach a sector other than their own.
"""

import ctypes
import errno
import fcntl
import json
import math
import os
import select
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from pathlib import Path
from random import Random

FILE_NAME = "disk"
WAYS_TO_LOSE = ("all of it", "all but the first writes", "whole writes", "units of writes")
LEAVES_WITHIN_S = 10.0
UNFLUSHED_MAX, UNFLUSHED_WITHIN_S = 8, 0.1

# linux/fuse.h, of protocol 7.31: each is what stands behind the header of a request, or of its answer
PROTOCOL = 7, 31
HEAD, ANSWER = struct.Struct("=IIQQIIIHH"), struct.Struct("=IiQ")
INIT, TRANSFER = struct.Struct("=IIIIHHIIHH32x"), struct.Struct("=QQIIQII")  # TRANSFER: of READ and WRITE
ATTRIBUTES, ENTRY = struct.Struct("=QQQQQQIIIIIIIIII"), struct.Struct("=QQQQII")
BIG_WRITES, MAX_PAGES = 1 << 5, 1 << 22
WITHOUT_PAGE_CACHE = 1  # FOPEN_DIRECT_IO: each write of the loop driver comes here at once, each read too
TRANSFER_BYTES_MAX, PAGE_BYTES = 1 << 20, 4096
REQUEST_BYTES_MAX = TRANSFER_BYTES_MAX + PAGE_BYTES
ROOT_NODE, FILE_NODE = 1, 2
NO_SUID_DEV_EXEC = 2 | 4 | 8
MNT_DETACH, CLONE_NEWNS = 2, 0x20000
SET_IO_FLUSHER = 57
LIBC = ctypes.CDLL(None, use_errno=True)

# linux/loop.h
LOOP_CTL_GET_FREE, LOOP_CONFIGURE = 0x4C82, 0x4C0A
LOOP_CONFIG = struct.Struct("=II 40x 12xI 176x 64x")  # file, bytes of a sector, flags
AUTOCLEAR = 4


class Code(IntEnum):
    """Of a request."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    OPEN = 14
    READ = 15
    WRITE = 16
    RELEASE = 18
    FSYNC = 20
    FLUSH = 25
    INIT = 26
    INTERRUPT = 36
    BATCH_FORGET = 42


class Disk:
    """The file behind the device, with all that was written, and beside it what that has replaced since the last flush.

    unit_bytes: what is written whole or not at all. is_lying: it answers flushes, and loses what was flushed too.
    """

    def __init__(self, image: Path, unit_bytes: int, chance: Random) -> None:
        self.unit_bytes = unit_bytes
        self.chance = chance
        self.size = image.stat().st_size
        self.counts = {"writes": 0, "flushes": 0}
        self.is_lying = False
        self._opened = os.open(image, os.O_RDWR)
        self._unflushed: list[tuple[int, bytes, bytes]] = []  # where, what was there, what is there
        self._is_cut = False

    def read(self, offset: int, size: int) -> bytes:
        self._assert_on()
        return os.pread(self._opened, size, offset)

    def write(self, offset: int, new: bytes) -> None:
        self._assert_on()
        self.counts["writes"] += 1
        self._unflushed.append((offset, os.pread(self._opened, len(new), offset), new))
        os.pwrite(self._opened, new, offset)

    def flush(self) -> None:
        self._assert_on()
        self.counts["flushes"] += 1
        if not self.is_lying:
            self._unflushed.clear()

    @property
    def unflushed_count(self) -> int:
        return len(self._unflushed)

    def cut(self) -> dict[str, object]:
        """The power is gone: some of what was not flushed is lost. Returns what it was, in words."""
        self._is_cut = True
        for offset, old, _ in reversed(self._unflushed):
            os.pwrite(self._opened, old, offset)
        # what was flushed is lost as a whole: a state of an earlier moment, on which every file system can be mounted
        way = WAYS_TO_LOSE[0] if self.is_lying else self.chance.choice(WAYS_TO_LOSE)
        units = kept = 0
        for offset, new in self._units(way):
            units += 1
            if new is not None:
                os.pwrite(self._opened, new, offset)
                kept += 1
        os.close(self._opened)
        return {"lost": way, "unflushed": len(self._unflushed), "units": units, "kept": kept, **self.counts}

    def _units(self, way: str) -> Iterator[tuple[int, bytes | None]]:
        """Each unit of each unflushed write, in their order; None: it is lost."""
        first = self.chance.randint(0, len(self._unflushed))
        share = self.chance.random()
        for number, (offset, _, new) in enumerate(self._unflushed):
            is_kept = self.chance.random() < share
            for at in range(0, len(new), self.unit_bytes):
                match way:
                    case "all but the first writes":  # and that one is torn, which was being written
                        is_kept = number < first or (number == first and self.chance.random() < share)
                    case "units of writes":
                        is_kept = self.chance.random() < share
                    case "all of it":
                        is_kept = False
                yield offset + at, new[at : at + self.unit_bytes] if is_kept else None

    def _assert_on(self) -> None:
        if self._is_cut:
            raise OSError(errno.EIO, "the power is cut")


def mounted(place: Path) -> int:
    """The file from which requests for a new file system, mounted there, are read; once it is closed they fail."""
    fuse = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0".encode()
    if LIBC.mount(b"lossy", os.fsencode(place), b"fuse", NO_SUID_DEV_EXEC, options) != 0:
        failed = ctypes.get_errno()
        os.close(fuse)
        raise OSError(failed, os.strerror(failed))
    return fuse


def unmount(place: Path) -> None:
    """For this process's mounts, however it is used."""
    if LIBC.umount2(os.fsencode(place), MNT_DETACH) != 0:
        raise OSError(ctypes.get_errno(), "umount")


class Server:
    """Answers the kernel's requests for the one file."""

    def __init__(self, disk: Disk, place: Path) -> None:
        self.disk = disk
        self._request = memoryview(bytearray(REQUEST_BYTES_MAX))
        # what this process writes may not wait for pages whose writing waits for this process
        LIBC.prctl(SET_IO_FLUSHER, 1, 0, 0, 0)
        self.fuse = mounted(place)
        # Into mounts of its own, without this one: whoever is the last of those that share some mounts unmounts them
        # in its end, before its files are closed. That must not be who answers for the disk.
        if LIBC.unshare(CLONE_NEWNS) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        unmount(place)

    def serve_one(self) -> bool:
        """One request; False: it was unmounted."""
        try:
            os.readv(self.fuse, [self._request])
        except OSError as failed:
            if failed.errno == errno.ENODEV:
                return False
            if failed.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN):  # it was taken back meanwhile
                return True
            raise
        length, code, unique, node, *_ = HEAD.unpack_from(self._request)
        if code in (Code.FORGET, Code.BATCH_FORGET, Code.INTERRUPT):  # which have no answer
            return True
        try:
            error, answer = 0, self._answer(code, node, self._request[HEAD.size : length])
        except OSError as failed:
            error, answer = failed.errno or errno.EIO, b""
        with suppress(FileNotFoundError):  # whoever asked is gone
            os.writev(self.fuse, [ANSWER.pack(ANSWER.size + len(answer), -error, unique), answer])
        return True

    def _answer(self, code: int, node: int, request: memoryview) -> bytes:
        match code:
            case Code.READ:
                _, offset, size, *_ = TRANSFER.unpack_from(request)
                return self.disk.read(offset, size)
            case Code.WRITE:
                _, offset, size, *_ = TRANSFER.unpack_from(request)
                self.disk.write(offset, bytes(request[TRANSFER.size : TRANSFER.size + size]))
                return struct.pack("=II", size, 0)
            case Code.FSYNC:
                self.disk.flush()
                return b""
            case Code.INIT:
                return INIT.pack(*PROTOCOL, 0, BIG_WRITES | MAX_PAGES, 16, 12, TRANSFER_BYTES_MAX, 1, 256, 0)
            case Code.LOOKUP if bytes(request).rstrip(b"\0") == FILE_NAME.encode():
                return ENTRY.pack(FILE_NODE, 0, 1, 1, 0, 0) + self._attributes(FILE_NODE)
            case Code.LOOKUP:
                raise OSError(errno.ENOENT, "there is one file only")
            case Code.GETATTR:
                return struct.pack("=QII", 1, 0, 0) + self._attributes(node)
            case Code.OPEN:
                return struct.pack("=QII", 0, WITHOUT_PAGE_CACHE, 0)
            case Code.RELEASE | Code.FLUSH:  # a close, which flushes nothing
                return b""
        raise OSError(errno.ENOSYS, f"request {code}")

    def _attributes(self, node: int) -> bytes:
        size, mode = (self.disk.size, stat.S_IFREG | 0o600) if node == FILE_NODE else (0, stat.S_IFDIR | 0o700)
        return ATTRIBUTES.pack(node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, PAGE_BYTES, 0)


def serve(image: Path, place: Path, unit_bytes: int, seed: int) -> None:
    """Until it is unmounted, or whoever started it is gone. Each line of its input is an order, and is answered.

    It cuts when some writes wait for a flush, which is when there is something to lose, or when none came in time.
    """
    disk = Disk(image, unit_bytes, Random(seed))
    server = Server(disk, place)
    print("{}", flush=True)
    cut_at_s = math.inf  # at the latest
    wanted = 0
    while True:
        wait_s = None if cut_at_s == math.inf else max(0.0, cut_at_s - time.monotonic())
        for opened in select.select([server.fuse, sys.stdin], [], [], wait_s)[0]:
            if opened == server.fuse:
                if not server.serve_one():
                    return
                continue
            match sys.stdin.readline():
                case "cut\n":
                    wanted = disk.chance.randint(1, UNFLUSHED_MAX)
                    cut_at_s = time.monotonic() + (0 if disk.is_lying else UNFLUSHED_WITHIN_S)
                case "lie\n":
                    disk.is_lying = True
                    print("{}", flush=True)
                case "count\n":
                    print(json.dumps(disk.counts), flush=True)
                case _:
                    return  # with the file, and so with every request that waits
        if disk.unflushed_count >= wanted > 0 or time.monotonic() >= cut_at_s:
            cut_at_s, wanted = math.inf, 0
            print(json.dumps(disk.cut()), flush=True)


class LossyDevice:
    """The device of one image, from here: `file` is what a loop device may be set up over."""

    def __init__(self, image: Path, place: Path, unit_bytes: int, seed: int) -> None:
        place.mkdir(exist_ok=True)
        self.place = place
        self.file = place / FILE_NAME
        words = [str(image), str(place), str(unit_bytes), str(seed)]
        self._server = subprocess.Popen(
            [sys.executable, "-m", __name__, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def count(self) -> dict[str, int]:
        return {name: int(str(count)) for name, count in self._ask("count").items()}

    def lie(self) -> None:
        """From here on flushes are answered, and do nothing."""
        self._ask("lie")

    def cut(self) -> dict[str, object]:
        """The power is gone: what was lost."""
        return self._ask("cut")

    def end(self) -> None:
        """Once nothing is mounted from it. Nothing in the kernel's memory is left of it."""
        deadline_s = time.monotonic() + LEAVES_WITHIN_S
        while subprocess.run(["umount", self.place], capture_output=True).returncode != 0:
            assert time.monotonic() < deadline_s, f"{self.place} is still in use"
            time.sleep(0.01)
        self._server.wait(LEAVES_WITHIN_S)
        self._close()

    def abandon(self) -> None:
        """Whatever still waits for it fails."""
        self._server.kill()
        self._server.wait()
        self._close()
        subprocess.run(["umount", "-l", self.place], capture_output=True)

    def _ask(self, order: str) -> dict[str, object]:
        assert self._server.stdin is not None
        self._server.stdin.write(order + "\n")
        self._server.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, object]:
        assert self._server.stdout is not None
        answer = self._server.stdout.readline()
        if not answer:
            raise RuntimeError(f"the server of {self.file} has ended with {self._server.wait(LEAVES_WITHIN_S)}")
        found = json.loads(answer)
        assert isinstance(found, dict)
        return found

    def _close(self) -> None:
        for pipe in (self._server.stdin, self._server.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def loop_device(file: Path, sector_bytes: int) -> Iterator[str]:
    """The name of a loop device over it; it goes when nobody has it open or mounted, however this process ends."""
    with open("/dev/loop-control", "rb") as control, file.open("r+b") as backing:
        while True:
            name = f"/dev/loop{fcntl.ioctl(control, LOOP_CTL_GET_FREE)}"
            device = os.open(name, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(device, LOOP_CONFIGURE, LOOP_CONFIG.pack(backing.fileno(), sector_bytes, AUTOCLEAR))
            except OSError as failed:
                os.close(device)
                if failed.errno != errno.EBUSY:  # another one was quicker
                    raise
            else:
                break
    # not for writing: some kernels mount nothing that somebody may write to
    held = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    os.close(device)
    try:
        yield name
    finally:
        os.close(held)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
