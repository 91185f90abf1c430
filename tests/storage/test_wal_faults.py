"""What may have happened to the files of a log: each fault has its sentence, and a way out. Nothing waits, or guesses.

A start refuses, and leaves data.mdb alone; `check` finds it and goes on; `backup` refuses, and with `--despite-damage`
makes a backup that a store can be restored from.
"""

import os
import re
import shutil
import signal
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import pytest

from radiator.model.errors import StoreError
from radiator.model.writes import StoppedClean
from radiator.storage import wal as wal_module
from radiator.storage.check import check
from radiator.storage.codec.tables import APPLIED, META, STORE_ID
from radiator.storage.lmdb import store as store_module
from radiator.storage.lmdb.reader import Reader
from radiator.storage.lmdb.store import open_store
from radiator.tools.cli import main
from tests.storage.breaking import refusal, rewrite, run_forked
from tests.storage.broken_logs import flip, killed_copy, last_index, segments, standing_in
from tests.storage.scribe import MAP_BYTES, Scribe

NOBODY = 65534
IN_LOG = 40  # batches of one message each that the tables do not have


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal_module, "WAL_SEGMENT_FIRST_BYTES", 4096)
    monkeypatch.setattr(store_module, "WAL_SEGMENT_FIRST_BYTES", 4096)
    monkeypatch.setattr(store_module, "WAL_SEGMENT_BYTES", 4096)


@pytest.fixture(autouse=True)
def nothing_hangs() -> Iterator[None]:
    signal.alarm(60)  # ends this process: a start that waits for a pipe would wait for ever
    yield
    signal.alarm(0)


@pytest.fixture
def scribe(tmp_path: Path) -> Scribe:
    scribe = Scribe(tmp_path / "whole")
    scribe.declare("orders")
    scribe.fill(1, 2, b"in the tables")
    scribe.keeps_up = False
    return scribe


@pytest.fixture
def killed(scribe: Scribe, tmp_path: Path) -> Path:
    """A store that was killed: its log has some segments that the tables have nothing of."""
    for number in range(IN_LOG):
        scribe.fill(1, 1, b"body %d" % number)
    path = killed_copy(scribe.path, tmp_path / "killed")
    assert len([one for one in segments(path) if standing_in(one)]) >= 4
    return path


def begun(path: Path) -> list[Path]:
    """The segments that have entries."""
    return [one for one in segments(path) if standing_in(one)]


def rewrite_opening(file: Path, at: int, value: bytes) -> None:
    """With a checksum that is right again."""
    data = bytearray(file.read_bytes())
    data[at : at + len(value)] = value
    size = wal_module._SEGMENT.size
    data[size : size + 4] = struct.pack(">I", crc32(data[:size]))
    file.write_bytes(data)


# ---- each fault


def missing(path: Path) -> None:
    begun(path)[1].unlink()


def first_missing(path: Path) -> None:
    begun(path)[0].unlink()


def last_missing(path: Path) -> None:
    begun(path)[-1].unlink()


def all_missing(path: Path) -> None:
    for file in segments(path):
        file.unlink()


def cut_in_the_middle(path: Path) -> None:
    where = standing_in(begun(path)[1])[1]
    os.truncate(where.path, where.begin + 30)


def cut_last(path: Path) -> None:
    """Within its last entry: a torn end, but for its length."""
    where = standing_in(begun(path)[-1])[-1]
    os.truncate(where.path, where.begin + 60)


def cut_last_between(path: Path) -> None:
    where = standing_in(begun(path)[-1])[-1]
    os.truncate(where.path, where.begin)


def cut_last_behind(path: Path) -> None:
    """All entries are whole, but there is no room for what may close it."""
    where = standing_in(begun(path)[-1])[-1]
    os.truncate(where.path, where.end + 71)


def emptied_last(path: Path) -> None:
    os.truncate(begun(path)[-1], 0)


def emptied_first(path: Path) -> None:
    os.truncate(begun(path)[0], 0)


def swapped(path: Path) -> None:
    first, second, *_ = begun(path)
    first.rename(path / "aside")
    second.rename(first)
    (path / "aside").rename(second)


def renamed(path: Path) -> None:
    begun(path)[0].rename(path / "wal" / "0000000000.wal")


def of_another_store(path: Path) -> None:
    rewrite_opening(begun(path)[1], 16, b"f" * 16)


def of_a_newer_format(path: Path) -> None:
    rewrite_opening(begun(path)[-1], 12, struct.pack(">H", wal_module.FORMAT + 1))


def pipe(path: Path) -> None:
    file = begun(path)[1]
    file.unlink()
    os.mkfifo(file, 0o600)


def pipe_behind(path: Path) -> None:
    os.mkfifo(path / "wal" / "0000009999.wal", 0o600)


def directory(path: Path) -> None:
    file = begun(path)[-1]
    file.unlink()
    file.mkdir()


def link(path: Path) -> None:
    file = begun(path)[1]
    file.rename(path.parent / "elsewhere")
    file.symlink_to(path.parent / "elsewhere")


def dangling_link(path: Path) -> None:
    file = begun(path)[1]
    file.unlink()
    file.symlink_to(path / "nowhere")


def foreign_file(path: Path) -> None:
    (path / "wal" / "notes.txt").write_text("rotate me")


def log_missing(path: Path) -> None:
    shutil.rmtree(path / "wal")


def log_is_a_link(path: Path) -> None:
    (path / "wal").rename(path.parent / "elsewhere")
    (path / "wal").symlink_to(path.parent / "elsewhere")


def log_is_a_file(path: Path) -> None:
    log_missing(path)
    (path / "wal").touch()


def log_is_a_pipe(path: Path) -> None:
    log_missing(path)
    os.mkfifo(path / "wal")


def gap_before_a_blank(path: Path) -> None:
    last = int(segments(path)[-1].stem)
    (path / "wal" / f"{last + 2:010}.wal").write_bytes(bytes(4096))


def damaged_closing(path: Path) -> None:
    where = standing_in(begun(path)[0])[-1]
    assert where.is_closing
    flip(where.path, where.begin + 60)


def damaged_opening(path: Path) -> None:
    flip(begun(path)[1], 50)


FAULTS: dict[Callable[[Path], None], str] = {
    missing: r"goes on in segment \d+, which is missing",
    first_missing: r"begins with entry \d+, and entry \d+ is missing",
    last_missing: r"goes on in segment \d+, which is missing",
    all_missing: r"no segment in .*wal from number 1 on has a sound opening",
    cut_in_the_middle: r"\.wal was cut off: it has \d+ bytes, and had at least \d+",
    cut_last: r"\.wal was cut off: it has \d+ bytes, and had at least \d+",
    cut_last_between: r"\.wal was cut off: it has \d+ bytes, and had at least \d+",
    cut_last_behind: r"\.wal was cut off: it has \d+ bytes, and had at least \d+",
    emptied_last: r"\.wal was cut off: it has 0 bytes, and had at least 200",
    emptied_first: r"begins with entry \d+, and entry \d+ is missing",
    swapped: r"was renamed, its opening says that it is segment",
    renamed: r"wal begins with entry \d+, and entry \d+ is missing",
    of_another_store: r"is of the store f{16}, and",
    of_a_newer_format: r"has format 2, this Radiator reads format 1: run the Radiator that wrote it, or a newer one",
    pipe: r"is not a regular file: a store is not opened through links or devices",
    pipe_behind: r"0000009999\.wal is not a regular file",
    directory: r"is not a regular file",
    link: r"is not a regular file: a store is not opened through links",
    dangling_link: r"is not a regular file",
    foreign_file: r"holds 'notes.txt', which is not a segment of a log: move it elsewhere",
    log_missing: r"wal is missing, and the broker was not stopped cleanly",
    log_is_a_link: r"wal is not a directory: the log of a store is not opened through links",
    log_is_a_file: r"wal is not a directory",
    log_is_a_pipe: r"wal is not a directory",
    gap_before_a_blank: r"segment \d+ is missing in .*wal, and there is \d+\.wal",
    damaged_closing: r"entry \d+ in .* is damaged, and .* follows it",
    damaged_opening: r"0000000002\.wal is damaged at its beginning",
}


def bodies_in(path: Path) -> list[bytes | None]:
    """Of the first queue, as a start finds them."""
    scribe = Scribe(path)
    found = scribe.bodies(1)
    scribe.store.close()
    return found


@pytest.mark.durability("D35")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_each_fault_is_refused_and_has_its_sentence(
    killed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: Callable[[Path], None]
) -> None:
    fault(killed)
    sentence = refusal(killed)
    assert re.search(FAULTS[fault], sentence), sentence
    assert sentence.endswith(".") and "\n" not in sentence and str(killed) in sentence

    assert main(["check", str(killed)]) == 1
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert sentence.startswith(lines[0])
    assert f"radiator: {len(lines)} things wrong in {killed} (" in printed.err

    copy = tmp_path / "copy"
    assert main(["backup", str(killed), str(copy)]) == 1
    assert not copy.exists() and "Traceback" not in capsys.readouterr().err
    assert main(["backup", "--despite-damage", str(killed), str(copy)]) == 1
    of_what_is_needed = [line for line in lines if not line.startswith("log_keep keeps ")]
    assert capsys.readouterr().out.splitlines()[:-1] == of_what_is_needed
    assert main(["restore", str(copy), str(tmp_path / "new")]) == 0
    bodies = bodies_in(tmp_path / "new")
    assert bodies == [b"in the tables"] * 2 + [b"body %d" % number for number in range(len(bodies) - 2)]


# ---- what is no fault


def blank(path: Path) -> None:
    """One that is prepared."""
    next_blank(path).write_bytes(bytes(4096))


def blank_cut(path: Path) -> None:
    """It is prepared again."""
    next_blank(path).touch()


def next_blank(path: Path) -> Path:
    return path / "wal" / f"{int(segments(path)[-1].stem) + 1:010}.wal"


def zeros_cut(path: Path) -> None:
    """Room for what closes the segment is left."""
    where = standing_in(begun(path)[-1])[-1]
    os.truncate(where.path, where.end + 72)


def unfinished(path: Path) -> None:
    (path / "wal" / "next.new").write_bytes(b"half made")


def mode_nothing(path: Path) -> None:
    for file in segments(path):
        file.chmod(0)
    (path / "wal").chmod(0)


@pytest.mark.parametrize(
    "harmless", [blank, blank_cut, zeros_cut, unfinished, mode_nothing], ids=lambda one: one.__name__
)
def test_what_takes_no_entry_refuses_no_start(killed: Path, harmless: Callable[[Path], None]) -> None:
    harmless(killed)
    if harmless is not mode_nothing or os.geteuid() == 0:
        assert check(killed).findings == []
    scribe = Scribe(killed)
    assert len(scribe.bodies(1)) == 2 + IN_LOG
    for _ in range(IN_LOG):
        scribe.fill(1, 1, b"and it goes on in new segments")
    scribe.store.close()
    assert len(bodies_in(killed)) == 2 + 2 * IN_LOG
    assert {file.stat().st_mode & 0o777 for file in segments(killed)} == {0o600}


def test_a_clean_stop_needs_no_log(scribe: Scribe) -> None:
    scribe.store.commit([StoppedClean()])
    scribe.store.close()
    shutil.rmtree(scribe.path / "wal")
    assert check(scribe.path).findings == []
    for _ in range(2):
        again = Scribe(scribe.path)
        again.fill(1, 1)
        again.store.close()
    assert len(bodies_in(scribe.path)) == 4
    assert check(scribe.path).findings == []


@pytest.mark.durability("D8")
def test_a_log_that_is_lost_after_the_start_behind_a_clean_stop_is_missed(scribe: Scribe, tmp_path: Path) -> None:
    """The tables say so before anything is served: else its boot would be used again, and what it stored be lost."""
    scribe.store.commit([StoppedClean()])
    scribe.store.close()
    again = Scribe(scribe.path)
    path = killed_copy(scribe.path, tmp_path / "killed")
    again.store.close()
    shutil.rmtree(path / "wal")
    assert "wal is missing, and the broker was not stopped cleanly" in refusal(path)


# ---- rows of meta


@pytest.mark.parametrize("key", [APPLIED, STORE_ID])
@pytest.mark.parametrize("value", [None, b"rubbish and a lot more of it"])
def test_tables_that_do_not_say_what_they_have_of_the_log_are_checked_alone(
    killed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], key: bytes, value: bytes | None
) -> None:
    rewrite(killed, META, key, value)
    refusal(killed)
    first, second, *_ = check(killed).findings
    if key == APPLIED and value is None:
        assert "has entries, and data.mdb does not say which of them it has" in first
    assert second == (
        "It is not known which entries the tables have, so that none can be carried out. Everything else is checked as"
        " the tables have it."
    )
    copy = tmp_path / "copy"
    assert main(["backup", str(killed), str(copy)]) == 1
    assert main(["backup", "--despite-damage", str(killed), str(copy)]) == 1
    assert second in capsys.readouterr().out
    assert main(["restore", str(copy), str(tmp_path / "new")]) == 0
    assert bodies_in(tmp_path / "new") == [b"in the tables"] * 2


# ---- two times in one directory


def test_an_older_log_beside_newer_tables_is_refused(scribe: Scribe, tmp_path: Path) -> None:
    """In the segment where the tables are, and whatever the log had behind them: it may have been receipted."""
    scribe.fill(1, 1)
    older = shutil.copytree(scribe.path / "wal", tmp_path / "older")
    scribe.fill(1, 1)
    scribe.store.catch_up()
    applied = last_index(scribe.path)
    scribe.fill(1, 1)
    path = killed_copy(scribe.path, tmp_path / "killed")
    shutil.rmtree(path / "wal")
    older.rename(path / "wal")
    sentence = refusal(path)
    assert f"lacks entry {applied}, which data.mdb has: it is damaged, or of another time." in sentence
    assert f"Nothing shows whether anything was receipted after entry {applied}." in sentence
    assert sentence.startswith(check(path).findings[0])


def test_an_older_log_of_other_segments_beside_newer_tables_is_refused(scribe: Scribe, tmp_path: Path) -> None:
    older = shutil.copytree(scribe.path / "wal", tmp_path / "older")
    for _ in range(IN_LOG):
        scribe.fill(1, 1)
        scribe.store.catch_up()
    path = killed_copy(scribe.path, tmp_path / "killed")
    shutil.rmtree(path / "wal")
    older.rename(path / "wal")
    assert f"and data.mdb has entry {last_index(scribe.path)}" in refusal(path)
    assert "and data.mdb has entry" in check(path).findings[0]


def test_older_tables_beside_a_newer_log_get_what_they_lack(scribe: Scribe, tmp_path: Path) -> None:
    older = shutil.copy(scribe.path / "data.mdb", tmp_path / "data.mdb")
    for _ in range(3):
        scribe.fill(1, 1)
    scribe.store.catch_up()
    scribe.fill(1, 1)
    path = killed_copy(scribe.path, tmp_path / "killed")
    shutil.copy(older, path / "data.mdb")
    assert check(path).findings == []
    assert len(bodies_in(path)) == 2 + 4


def test_older_tables_beside_a_log_that_has_used_its_segments_again_are_refused(scribe: Scribe, tmp_path: Path) -> None:
    older = shutil.copy(scribe.path / "data.mdb", tmp_path / "data.mdb")
    at = last_index(scribe.path)
    for _ in range(IN_LOG):
        scribe.fill(1, 1)
        scribe.store.catch_up()
    last = last_index(scribe.path)
    path = killed_copy(scribe.path, tmp_path / "killed")
    shutil.copy(older, path / "data.mdb")
    sentence = refusal(path)
    assert f"and entry {at + 1} is missing." in sentence
    assert f"Entries {at + 1} to {last} were receipted and cannot be read in order." in sentence
    findings = check(path).findings
    assert f"can be read one by one, {last - at - len(behind(path))} cannot." in findings[1]
    assert any(f"By its last ledger, {IN_LOG} messages came to the queue 'orders'" in one for one in findings)


def behind(path: Path) -> list[int]:
    return [one.index for file in segments(path) for one in standing_in(file) if not one.is_closing]


def test_tables_of_another_branch_of_time_are_refused(scribe: Scribe, tmp_path: Path) -> None:
    """Two machines have gone on from one copy: the entries have the same numbers."""
    scribe.store.catch_up()
    branch = killed_copy(scribe.path, tmp_path / "branch")
    scribe.fill(1, 1, b"here")
    scribe.store.catch_up()
    other = Scribe(branch)
    other._sequence = scribe._sequence
    other.fill(1, 1, b"there")
    other.fill(1, 1, b"there")
    other.store.close()
    path = killed_copy(scribe.path, tmp_path / "killed")
    shutil.rmtree(path / "wal")
    shutil.copytree(branch / "wal", path / "wal")
    assert "which data.mdb has: it is damaged, or of another time." in refusal(path)


# ---- rights


def as_nobody(step: Callable[[], None]) -> int:
    """Runs it in a child that has no rights but those of modes and owners."""

    def child() -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        step()

    return run_forked(child)


@pytest.fixture
def owned(killed: Path) -> Iterator[Path]:
    """The same store, of somebody who is not root, where that one can come."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        path = shutil.copytree(killed, Path(made) / "data")
        if os.geteuid() == 0:
            for one in [path, *path.rglob("*")]:
                os.chown(one, NOBODY, NOBODY)
        yield path


def sentence_of(act: Callable[[], object]) -> str:
    with pytest.raises(StoreError) as refused:
        act()
    return str(refused.value)


@pytest.mark.parametrize("what", ["wal", "segment"])
def test_the_owner_may_not_read_until_a_start_gives_the_modes_back(owned: Path, what: str) -> None:
    taken = owned / "wal" if what == "wal" else begun(owned)[1]
    taken.chmod(0)

    def step() -> None:
        report = check(owned)
        assert f"may not read {taken}: run this as the user that the data directory belongs to" in report.findings[0]
        assert report.messages >= 2
        assert len(bodies_in(owned)) == 2 + IN_LOG
        assert check(owned).findings == []

    assert as_nobody(step) == 0


def test_a_directory_that_may_only_be_read_is_read(owned: Path) -> None:
    """And a start of its owner gives it the modes back."""
    owned.chmod(0o500)
    (owned / "wal").chmod(0o500)

    def step() -> None:
        assert check(owned).findings == []
        assert len(bodies_in(owned)) == 2 + IN_LOG

    assert as_nobody(step) == 0


@pytest.mark.parametrize("what", ["wal", "segment"])
def test_what_belongs_to_somebody_else_is_refused(owned: Path, what: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    given = owned / "wal" if what == "wal" else begun(owned)[1]
    os.chown(given, 0, 0)

    def step() -> None:
        sentence = sentence_of(lambda: open_store(owned, MAP_BYTES))
        assert sentence == (
            f"{given} belongs to user 0, this program runs as user {NOBODY}: run it as that user, or change the owner."
        )
        assert f"may not read {given}" in check(owned).findings[0]

    assert as_nobody(step) == 0


# ---- the clock


def test_a_clock_that_goes_backwards_changes_nothing(
    scribe: Scribe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times_ms = [1_900_000_000_000, 1_800_000_000_000, 5, 0, 1_900_000_000_001, 2**63]
    for now_ms in times_ms:
        monkeypatch.setattr(store_module.time, "time_ns", lambda now_ms=now_ms: now_ms * 1_000_000)
        scribe.fill(1, 1)
    monkeypatch.undo()
    path = killed_copy(scribe.path, tmp_path / "killed")
    with Reader(path) as reader, reader.snapshot() as snapshot:
        assert [entry.ms for entry in snapshot.entries_behind] == times_ms
    assert check(path).findings == []
    assert main(["backup", str(path), str(tmp_path / "copy")]) == 0
    assert main(["restore", str(tmp_path / "copy"), str(tmp_path / "new")]) == 0
    assert len(bodies_in(tmp_path / "new")) == len(bodies_in(path)) == 2 + len(times_ms)
