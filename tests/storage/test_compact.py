"""A compacted store is the same store in a smaller file, whoever reads it meanwhile and whenever it is killed."""

import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from radiator.model.errors import StoreError
from radiator.storage.backup import backup, restore
from radiator.storage.check import check
from radiator.storage.codec import records
from radiator.storage.codec.tables import FORMAT, META
from radiator.storage.compact import compact
from radiator.storage.lmdb.datafile import checked_head, write_meta
from radiator.storage.lmdb.reader import Reader
from radiator.storage.lmdb.store import open_store
from radiator.tools.cli import main
from tests.broker_process import environment
from tests.storage.breaking import rewrite, run_forked
from tests.storage.scribe import MAP_BYTES, Scribe, filled

FORMATS = Path(__file__).with_name("formats")
OF_A_STORE = ["data.mdb", "lock.mdb", "radiator.lock", "wal"]


def with_room(path: Path, commits: int = 0) -> Path:
    """A store with something in every table, and 2 MB of free pages. commits: more of one message than one."""
    filled(path)
    scribe = Scribe(path)
    puts = scribe.fill(1, 200, b"x" * 10_000)
    scribe.commit(*[scribe.remove(1, put.position) for put in puts])
    for _ in range(1 + commits):
        scribe.fill(1, 1)
    scribe.store.close()
    return path


def everything(path: Path) -> dict[bytes, list[tuple[bytes, bytes]]]:
    with Reader(path) as reader, reader.snapshot() as snapshot:
        return {table: [(key, bytes(value)) for key, value in snapshot.rows(table)] for table in snapshot.tables()}


def test_compacted_store_has_every_row_in_a_smaller_file(tmp_path: Path) -> None:
    path = with_room(tmp_path / "data")
    before, transaction = everything(path), checked_head(path / "data.mdb").transaction
    before_bytes = (path / "data.mdb").stat().st_size
    done = compact(path)
    assert everything(path) == before
    assert done.rows == sum(map(len, before.values()))
    assert (done.before_bytes, done.after_bytes) == (before_bytes, (path / "data.mdb").stat().st_size)
    assert done.before_bytes > 2_000_000 > 500_000 > done.after_bytes
    assert done.removed_bytes is None
    assert checked_head(path / "data.mdb").transaction == transaction
    assert check(path).findings == []
    assert sorted(os.listdir(path)) == OF_A_STORE
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.iterdir() if file.is_file()} == {0o600}


def test_size_is_known_before(tmp_path: Path) -> None:
    path = with_room(tmp_path / "data")
    with Reader(path) as reader, reader.snapshot() as snapshot:
        used_bytes = snapshot.used_bytes()
    assert compact(path).after_bytes == used_bytes
    assert compact(path).after_bytes == used_bytes, "there is nothing more to gain"


def test_start_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    path = with_room(tmp_path / "data")
    before = Scribe(path)
    before.store.close()
    compact(path)
    after = Scribe(path)
    expected, found = before.store.recovery, after.store.recovery
    assert (found.store_id, found.boot, found.was_clean) == (expected.store_id, expected.boot + 1, expected.was_clean)
    assert (found.queues, found.logs, found.doubts) == (expected.queues, expected.logs, expected.doubts)
    after.fill(1, 50, b"x" * 5_000)
    after.store.close()
    assert check(path).findings == []


READ = """
import sys
from pathlib import Path
from radiator.model.errors import StoreError
from radiator.storage.lmdb.reader import Reader
with Reader(Path("data")) as reader:
    for line in sys.stdin:
        try:
            with reader.snapshot() as snapshot:
                print(sum(1 for table in snapshot.tables() for _ in snapshot.rows(table)), flush=True)
        except StoreError as error:
            print(-1 if "was replaced" in str(error) else error, flush=True)
"""


class OtherReader:
    """Another process that has the store open. Within: it reads on."""

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", READ],
            cwd=directory,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def rows(self) -> int:
        """As many as it sees; -1: another store is in its place."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def __enter__(self) -> "OtherReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


BOTH_HEADS = pytest.mark.parametrize("commits", [0, 1])  # one of both makes the last transaction an even one


@pytest.mark.durability("D33")
@BOTH_HEADS
def test_who_reads_it_meanwhile_disturbs_nobody_and_reads_on_what_was_there(tmp_path: Path, commits: int) -> None:
    """Its table of readers stays in use: LMDB takes the number of the last transaction from there."""
    path = with_room(tmp_path / "data", commits)
    before = everything(path)
    rows = sum(map(len, before.values()))
    with OtherReader(tmp_path) as reader:
        assert reader.rows() == rows
        compact(path)
        scribe = Scribe(path)
        for _ in range(3):
            scribe.fill(1, 20, b"x" * 3_000)
            seen = reader.rows()
            assert seen == -1 or -2 <= seen - rows <= 60, "what was there, or with what has come since"
        scribe.store.close()
    assert check(path).findings == []
    assert len(everything(path)[b"messages"]) == len(before[b"messages"]) + 60


@BOTH_HEADS
@pytest.mark.parametrize("is_restored", [False, True])
def test_who_reads_a_removed_store_disturbs_no_new_one_in_its_place(
    tmp_path: Path, commits: int, is_restored: bool
) -> None:
    """The same table: the new store's transactions are other ones than those that the reader knows."""
    path = with_room(tmp_path / "data", commits)
    backup(path, tmp_path / "copy", compact=True)
    with OtherReader(tmp_path) as reader:
        reader.rows()
        (path / "data.mdb").unlink()
        shutil.rmtree(path / "wal")
        if is_restored:
            assert restore(tmp_path / "copy", path).findings == []
        for boot in range(2):
            scribe = Scribe(path)
            scribe.fill(1 if is_restored else scribe.declare(f"queue{boot}"), 5)
            scribe.store.close()
        assert reader.rows() == -1
    assert check(path).findings == []


@pytest.mark.durability("D33")
def test_killed_at_any_step_it_leaves_a_whole_store_and_the_next_start_clears_up(tmp_path: Path) -> None:
    """The child dies at its n-th system call that Python tells of, for every n until it lives."""
    expected = everything(with_room(tmp_path / "model"))
    model = (tmp_path / "model" / "data.mdb").read_bytes()
    sizes = set()
    for steps in count():
        path = tmp_path / f"data{steps}"
        path.mkdir()
        (path / "data.mdb").write_bytes(model)
        shutil.copytree(tmp_path / "model" / "wal", path / "wal")

        def run(path: Path = path, last: int = steps) -> None:
            seen = 0

            def die_at_last(event: str, arguments: tuple[object, ...]) -> None:
                nonlocal seen
                if event.startswith(("os.", "open", "fcntl.")):
                    if seen == last:
                        os._exit(42)
                    seen += 1

            sys.addaudithook(die_at_last)
            compact(path)

        status = run_forked(run)
        assert status in (0, 42)
        assert everything(path) == expected
        sizes.add((path / "data.mdb").stat().st_size)
        open_store(path, MAP_BYTES).close()
        assert sorted(os.listdir(path)) == OF_A_STORE
        if status == 0:
            break
    assert len(sizes) == 2, "some were killed before the rename, some behind it"
    assert steps > 20, "too few steps were seen for this to say anything"


def test_what_a_killed_one_left_is_removed_and_told(tmp_path: Path) -> None:
    path = with_room(tmp_path / "data")
    (path / "data.mdb.compact").write_bytes(b"half a store")
    assert compact(path).removed_bytes == 12
    assert sorted(os.listdir(path)) == OF_A_STORE


def refusal(path: Path) -> str:
    """The sentence; and the data file is not touched."""
    before = (path / "data.mdb").read_bytes()
    with pytest.raises(StoreError) as caught:
        compact(path)
    assert (path / "data.mdb").read_bytes() == before
    assert not (path / "data.mdb.compact").exists()
    return str(caught.value)


def test_store_that_is_served_is_refused(tmp_path: Path) -> None:
    path = with_room(tmp_path / "data")
    scribe = Scribe(path)
    assert "A broker serves" in refusal(path) and "`--stop-service radiator`" in refusal(path)
    scribe.store.close()


def test_what_is_no_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(StoreError, match="is not a data directory: it has no data.mdb"):
            compact(path)
    assert [*tmp_path.iterdir()] == []


def test_too_little_room_is_told_before_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = with_room(tmp_path / "data")
    real = os.statvfs(path)
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result([4096, 4096, 9, 9, 9, *real[5:]]))
    assert refusal(path).endswith("bytes next to the old one, and the file system has 36864 free.")


def test_room_that_ends_meanwhile_leaves_the_old_one(tmp_path: Path) -> None:
    path = with_room(tmp_path / "data")

    def without_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
        assert "File too large" in refusal(path)

    assert run_forked(without_room) == 0
    assert check(path).findings == []


@pytest.mark.parametrize("number", range(1, records.FORMAT + 1))
def test_store_of_each_format_keeps_it(tmp_path: Path, number: int) -> None:
    path = tmp_path / "data"
    path.mkdir()
    (path / "data.mdb").write_bytes((FORMATS / f"format-{number}.mdb").read_bytes())
    assert "is a backup" in refusal(path)
    write_meta(path / "data.mdb", {b"backup": None, b"applied": None}, MAP_BYTES)
    before = everything(path)
    compact(path)
    assert everything(path) == before
    assert records.decode_number(FORMAT, dict(before[META])[FORMAT]) == number


def test_newer_format_is_refused(tmp_path: Path) -> None:
    path = with_room(tmp_path / "data")
    rewrite(path, META, FORMAT, records.encode_number(FORMAT, records.FORMAT + 1))
    assert "this Radiator reads formats" in refusal(path)


def test_damaged_row_stays_as_it_is(tmp_path: Path) -> None:
    """Compacting judges no message: `radiator check` says the same before and after."""
    path = with_room(tmp_path / "data")
    rewrite(path, b"doubts", records.doubt_key("node.b", 4), b"rubbish that is no doubt")
    findings = check(path).findings
    compact(path)
    assert findings and check(path).findings == findings


@pytest.mark.parametrize("other", ["row", "table"])
def test_copy_that_is_not_the_same_is_never_put_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """The disk, or LMDB, gave back something else than there is."""
    path = with_room(tmp_path / "data")
    shutil.copytree(path, tmp_path / "other")
    if other == "row":
        rewrite(tmp_path / "other", b"doubts", records.doubt_key("node.b", 4), b"rubbish that is no doubt")
    else:
        rewrite(tmp_path / "other", b"more", b"key", b"value")
    backup(tmp_path / "other", tmp_path / "copy", compact=True)
    write_meta(tmp_path / "copy", {b"backup": None}, MAP_BYTES)
    content = (tmp_path / "copy").read_bytes()
    monkeypatch.setattr(Reader, "copy_to", lambda self, opened, *_: os.write(opened, content))
    assert "cannot be compacted, and is as it was: in the copy the table" in refusal(path)


def test_command_says_what_it_has_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = with_room(tmp_path / "data")
    (path / "data.mdb.compact").write_bytes(b"half a store")
    assert main(["compact", str(path)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert re.fullmatch(rf"{path}: 3\.\d MiB became \d+\.\d KiB in \d+\.\d s; all \d+ rows are the same\.", first)
    assert second == "Before that, what a killed compact had left was removed: 12 B."
    assert main(["compact", "--json", "--data", str(path)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["before_bytes"] == answer["after_bytes"] and answer["removed_bytes"] is None
    scribe = Scribe(path)
    assert main(["compact", str(path)]) == 1
    assert capsys.readouterr().err.startswith(f"radiator: A broker serves {path}: stop it first")
    scribe.store.close()
