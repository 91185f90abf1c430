"""A disk that cannot be read is told as that, with status 74, by all that read a store; and never as damage."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest

from radiator.model.errors import DiskFailed
from radiator.model.limits import KIB
from radiator.model.writes import StoppedClean
from radiator.storage.backup import backup, restore
from radiator.storage.check import check
from radiator.storage.compact import compact
from radiator.storage.lmdb.datafile import structure_mistakes
from radiator.storage.lmdb.store import open_store
from radiator.storage.rename import rename
from tests.acceptance.wire import Gone, Wire
from tests.broker_process import BrokerProcess
from tests.storage.broken_logs import killed_copy
from tests.storage.scribe import MAP_BYTES, Scribe

PRINTED = "could not be read"
HEADS_BYTES = 2 * 4096


def filled(path: Path) -> Path:
    scribe = Scribe(path)
    queue = scribe.declare("orders")
    for _ in range(20):
        scribe.fill(queue, 50, b"x" * 500)
    scribe.store.commit([StoppedClean()])
    scribe.store.close()
    return path


class FailingFile:
    """An open file of a disk that gives back its first bytes, the heads of data.mdb, say, and nothing else."""

    def __init__(self, real: IO[bytes], sound_bytes: int = HEADS_BYTES) -> None:
        self.real = real
        self.sound_bytes = sound_bytes

    def __enter__(self) -> "FailingFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.real.close()

    def __getattr__(self, name: str) -> object:
        return getattr(self.real, name)

    def read(self, *size: int) -> bytes:
        if self.real.tell() >= self.sound_bytes:
            raise OSError(5, "Input/output error")
        return self.real.read(*size)


@pytest.mark.parametrize("part", ["opening", "entries", "large entry"])
@pytest.mark.parametrize("use", ["start", "check", "backup", "compact", "rename"])
def test_a_log_that_cannot_be_read_is_the_disk_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: str, part: str
) -> None:
    """Of a killed broker: its last entries are in no table, so that each use reads them."""
    scribe = Scribe(tmp_path / "data")
    queue, scribe.keeps_up = scribe.declare("orders"), False
    scribe.fill(queue, 1, b"x" * (400 * KIB if part == "large entry" else 100))
    data_dir = killed_copy(tmp_path / "data", tmp_path / "killed")
    before = (data_dir / "data.mdb").read_bytes()
    uses: dict[str, Callable[[], object]] = {
        "start": lambda: open_store(data_dir, MAP_BYTES),
        "check": lambda: check(data_dir),
        "backup": lambda: backup(data_dir, tmp_path / "backup"),
        "compact": lambda: compact(data_dir),
        "rename": lambda: rename(data_dir, "other"),
    }
    opened, call = Path.open, "preadv" if part == "entries" else "pread"
    real_call = getattr(os, call)

    def failing(opened_file: int, *more: Any) -> Any:
        if os.readlink(f"/proc/self/fd/{opened_file}").endswith(".wal"):
            raise OSError(5, "Input/output error")
        return real_call(opened_file, *more)

    def fails(self: Path, *more: Any, **named: Any) -> Any:
        real: Any = opened(self, *more, **named)
        return FailingFile(real, 0) if self.suffix == ".wal" else real

    sentence = rf"killed/wal/\d+\.wal {PRINTED} \(Input/output error\)"
    with monkeypatch.context() as patch, pytest.raises(DiskFailed, match=sentence):
        if part == "opening":
            patch.setattr(Path, "open", fails)
        else:
            patch.setattr(os, call, failing)
        uses[use]()
    assert (data_dir / "data.mdb").read_bytes() == before
    assert check(data_dir).findings == []
    open_store(data_dir, MAP_BYTES).close()


@pytest.mark.parametrize("use", ["start", "check", "structure", "restore"])
def test_plain_reads_that_fail_are_the_disk_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: str) -> None:
    data_dir = filled(tmp_path / "data")
    backup(data_dir, tmp_path / "backup")
    before = (data_dir / "data.mdb").read_bytes()
    uses: dict[str, Callable[[], object]] = {
        "start": lambda: open_store(data_dir, MAP_BYTES),
        "check": lambda: check(data_dir),
        "structure": lambda: structure_mistakes(data_dir / "data.mdb"),
        "restore": lambda: restore(tmp_path / "backup", tmp_path / "new"),
    }
    opened = Path.open

    def fails(self: Path, *more: Any, **named: Any) -> Any:
        real: Any = opened(self, *more, **named)
        return FailingFile(real) if self.name in ("data.mdb", "backup") else real

    with monkeypatch.context() as patch, pytest.raises(DiskFailed, match=rf"{PRINTED} \(Input/output error\)"):
        patch.setattr(Path, "open", fails)
        uses[use]()
    assert (data_dir / "data.mdb").read_bytes() == before
    open_store(data_dir, MAP_BYTES).close()


@pytest.mark.parametrize("name", ["check", "audit", "backup"])
def test_the_command_says_so_and_ends_with_74(tmp_path: Path, name: str) -> None:
    """The system itself says that a read has failed."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed: nothing here can let a read fail")
    data_dir = filled(tmp_path / "data")
    words = {"check": ["check", data_dir], "audit": ["audit", "--data", data_dir], "backup": ["backup", data_dir, "b"]}
    traced = ["strace", "-f", "-o", "/dev/null", "-P", data_dir / "data.mdb", "-e", "inject=read:error=EIO:when=1+"]
    done = subprocess.run(
        [*traced, sys.executable, "-m", "radiator", *words[name]], capture_output=True, text=True, cwd=tmp_path
    )
    if "attach" in done.stderr or "PTRACE" in done.stderr:
        pytest.skip("strace may not look at processes here")
    assert (done.returncode, done.stdout) == (74, "")
    assert done.stderr.startswith("radiator: ") and PRINTED in done.stderr and done.stderr.count("\n") == 1


MAPPED = """
import os, sys
from pathlib import Path
from radiator.storage.lmdb.reader import Reader
from radiator.storage.lmdb.unreadable import last_words
path = Path(sys.argv[1])
last_words(path)
with Reader(path) as reader, reader.snapshot() as snapshot:
    os.truncate(path / "data.mdb", 8 * 4096)
    print(sum(len(value) for _, value in snapshot.rows(b"messages")))
"""


def test_a_page_of_the_map_that_cannot_be_read_leaves_a_line_and_74(tmp_path: Path) -> None:
    data_dir = filled(tmp_path / "data")
    done = subprocess.run([sys.executable, "-c", MAPPED, data_dir], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (74, "")
    assert done.stderr.startswith(f"radiator: {data_dir} {PRINTED}") and done.stderr.count("\n") == 1


def test_a_broker_under_which_a_page_cannot_be_read_leaves_a_line_and_goes_on_when_it_can(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    filled(broker.data_dir)
    file = broker.data_dir / "data.mdb"
    broker.start()
    whole = file.read_bytes()
    with Wire((broker.host, broker.port)) as wire:
        wire.connect()
        with file.open("r+b") as cut:
            cut.truncate(8 * 4096)
        with pytest.raises((Gone, OSError)):
            wire.subscribe("/queue/orders", headers={"prefetch-count": "10"})
            wire.message(30)
    assert broker.wait(30) == 74
    [halted] = [line for line in broker.log.splitlines() if " halted " in line]
    assert f'status=74 sentence="{file} {PRINTED}: its disk failed, or the file was cut.' in halted
    assert "Traceback" not in broker.log
    file.write_bytes(whole)
    broker.start()
    with Wire((broker.host, broker.port)) as wire:
        wire.connect()
        wire.subscribe("/queue/orders", headers={"prefetch-count": "10"})
        assert wire.message(30).body
    assert broker.stop() == 0
