"""The archive: what is in the logs is in the files, once, whatever kills the archiver, and what is missing is said."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason='the archive needs pyarrow: pip install ".[archive]"')

import pyarrow as pa
import pyarrow.parquet as pq

from radiator.model.amqp_properties import Properties, encode, stored_block
from radiator.model.amqp_tables import encode_table
from radiator.model.headers import ESCAPING_ALL, ESCAPING_NONE
from radiator.model.message import Message, position_of
from radiator.storage.codec.records import record_key
from radiator.storage.codec.tables import RECORDS
from radiator.tools.archive.archiver import DAMAGED_SHOWN, ArchivePlan, Archiver, locked
from radiator.tools.archive.history import History
from radiator.tools.archive.manifest import NAME, ArchiveError, read
from radiator.tools.archive.rows import JOURNAL, LOG, Checksum, of_events, of_messages
from radiator.tools.archive.sealing import sha256_of
from radiator.tools.archive.source import Source
from radiator.tools.archive.verify import VerifyReport, verify
from tests.storage.breaking import rewrite
from tests.tools.archive.logs import DAY_MS, NOON_MS, Writer, event_of, record

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def archive(writer: Writer, directory: Path, **settings: Any) -> tuple[Archiver, list[str]]:
    """One run; what it said."""
    sentence: list[str] = []
    writer.close()
    try:
        with locked(directory), Source(writer.path) as source:
            archiver = Archiver(source, ArchivePlan(directory=directory, **settings), sentence.append)
            archiver.run()
    finally:
        writer.open()
    return archiver, sentence


def rows_of(directory: Path, log: str) -> list[dict[str, Any]]:
    """All rows of a log, by partition and offset, read as anybody would read them."""
    files = sorted(directory.glob(f"log={log}/date=*/*.parquet"))
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return sorted(rows, key=lambda row: (row.get("partition", 0), row.get("offset", row.get("seq"))))


def is_whole(directory: Path) -> VerifyReport:
    report = verify(directory)
    assert report.findings == []
    return report


@pytest.fixture
def writer(tmp_path: Path) -> Any:
    made = Writer(tmp_path / "store")
    yield made
    made.close()


@pytest.fixture
def to(tmp_path: Path) -> Path:
    return tmp_path / "archive"


# ---- rows -----------------------------------------------------------------------------------------------------------


def test_a_record_is_a_row(writer: Writer, to: Path) -> None:
    log = writer.log("l")
    headers = b"partition-key:a\\cb\npartition-key:second\nx:1\n"
    writer.append(log, [Message("/fanout/f", headers, ESCAPING_ALL, b"\x00\xff", NOON_MS + 1)], 1)
    writer.append(log, [Message("/log/l", b"", ESCAPING_ALL, b"", NOON_MS)], 0)
    archive(writer, to)
    without_key, row = rows_of(to, "l")
    assert (without_key["key"], without_key["value"], without_key["headers"]) == (None, b"", [])
    assert (row["key"], row["value"], row["log"], row["partition"], row["offset"]) == (b"a:b", b"\x00\xff", "l", 1, 0)
    assert row["timestamp"].timestamp() * 1000 == NOON_MS + 1 and row["destination"] == "/fanout/f"
    assert [(one["key"], one["value"]) for one in row["headers"]] == [
        ("partition-key", "a:b"),
        ("partition-key", "second"),
        ("x", "1"),
    ]
    file = next((to / "log=l").glob("date=2026-11-17/*.parquet"))
    assert pq.read_schema(file).remove_metadata() == LOG


def test_a_1_0_header_is_not_unescaped() -> None:
    row = of_messages("l", 0, 0, [Message("/log/l", b"x:a\\cb\n", ESCAPING_NONE, b"", NOON_MS)]).to_pylist()[0]
    assert row["headers"] == [{"key": "x", "value": "a\\cb"}]


def test_a_message_from_amqp_has_its_properties_as_headers() -> None:
    table = encode_table({"partition-key": "k", "n": 5})
    block, _ = stored_block(encode(Properties(table=table, priority=3)))
    (row,) = of_messages("l", 0, 0, [Message("/log/l", block, ESCAPING_ALL, b"", NOON_MS)]).to_pylist()
    assert row["key"] == b"k"
    assert {one["key"]: one["value"] for one in row["headers"]} == {"priority": "3", "partition-key": "k", "n": "5"}


def test_an_event_is_a_row(writer: Writer, to: Path) -> None:
    log = writer.log("journal")
    event = event_of(7)._replace(event="moved", client="3/s", other=position_of(2, 9), other_queue="dead", number=5)
    event = event._replace(traceparent=TRACEPARENT, correlation_id="täsk")
    writer.add(log, [event_of(6), event])
    archive(writer, to, node="n1")
    first, row = rows_of(to, "journal")
    store_id = writer.store_id
    assert first["other_id"] is None and first["client"] is None and first["seq"] == 0
    assert (first["traceparent"], row["traceparent"]) == (None, TRACEPARENT)
    assert (first["correlation_id"], row["correlation_id"]) == (None, "täsk")
    assert row["message_id"] == f"{store_id}-1-7" and row["other_id"] == f"{store_id}-2-9"
    assert (row["event"], row["queue"], row["client"], row["other_queue"]) == ("moved", "orders", "3/s", "dead")
    assert (row["bytes"], row["attempt"], row["number"], row["node"]) == (200, 0, 5, "n1")


@pytest.mark.parametrize("cuts", [[500], [1, 499], [0, 250, 250], [499, 1]])
def test_the_checksum_of_rows_does_not_depend_on_batches(cuts: list[int]) -> None:
    for batch in (
        of_messages("l", 0, 3, [record(number) for number in range(500)]),
        of_events("s", "", 0, [event_of(number)._replace(client="c" * (number % 3)) for number in range(500)]),
    ):
        whole, parts = Checksum(batch.schema), Checksum(batch.schema)
        whole.feed(batch)
        at = 0
        for count in cuts:
            parts.feed(batch.slice(at, count))
            at += count
        assert parts.text() == whole.text()


@pytest.mark.parametrize("column", JOURNAL.names)
def test_any_other_value_has_another_checksum(column: str) -> None:
    batch = of_events("s", "n", 0, [event_of(number) for number in range(10)])
    values = batch.column(column).to_pylist()
    values[5] = {"ts": batch.column("ts")[9].as_py()}.get(column, 77 if isinstance(values[5], int) else "other")
    other = batch.set_column(
        batch.schema.get_field_index(column), batch.schema.field(column), pa.array(values, JOURNAL.field(column).type)
    )
    one, two = Checksum(JOURNAL), Checksum(JOURNAL)
    one.feed(batch)
    two.feed(other)
    assert one.text() != two.text()


def test_null_is_not_empty_and_bytes_do_not_run_together() -> None:
    def checksum(*values: bytes | None) -> str:
        schema = pa.schema([("v", pa.binary())])
        made = Checksum(schema)
        made.feed(pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], schema=schema))
        return made.text()

    assert len({checksum(None), checksum(b""), checksum(b"ab", b""), checksum(b"a", b"b"), checksum(b"", b"ab")}) == 5


# ---- files ----------------------------------------------------------------------------------------------------------


def test_a_run_goes_on_where_the_last_one_ended(writer: Writer, to: Path) -> None:
    log = writer.log("l")
    writer.append(log, [record(number) for number in range(10)])
    assert archive(writer, to)[0].rows == 10
    assert archive(writer, to)[0].rows == 0
    writer.append(log, [record(number) for number in range(10, 13)])
    assert archive(writer, to)[0].rows == 3
    assert [row["offset"] for row in rows_of(to, "l")] == [*range(13)]
    assert len(read(to).files) == 2 and is_whole(to).rows == 13


def test_a_file_ends_at_seal_rows_and_at_midnight(writer: Writer, to: Path) -> None:
    log = writer.log("l")
    midnight = NOON_MS + DAY_MS // 2
    times = [midnight - 2, midnight - 1, midnight, midnight - 1, midnight + DAY_MS]
    writer.append(log, [record(number, ms) for number, ms in enumerate(times)])
    for number in range(5, 11):
        writer.append(log, [record(number, midnight + DAY_MS)])
    archive(writer, to, seal_rows=3)
    # a clock that goes back opens no file of the day before
    assert [(one.file[6:21], one.first, one.next) for one in read(to).files] == [
        ("date=2026-11-17", 0, 2),
        ("date=2026-11-18", 2, 4),
        ("date=2026-11-19", 4, 7),
        ("date=2026-11-19", 7, 10),
        ("date=2026-11-19", 10, 11),
    ]
    assert is_whole(to).rows == 11


def test_logs_that_are_named_and_all_but_checkouts(writer: Writer, to: Path) -> None:
    for name in ("l", "a/b c", "$checkout/q/g"):
        writer.append(writer.log(name), [record(0)])
    archive(writer, to)
    assert sorted(path.name for path in to.glob("log=*")) == ["log=a%2Fb c", "log=l"]
    archive(writer, to, names=["$checkout/q/g"])
    assert sorted({one.log for one in read(to).files}) == ["$checkout/q/g", "a/b c", "l"]
    with pytest.raises(ArchiveError, match="There is no log 'nothing' in this store; there is"):
        archive(writer, to, names=["nothing"])


def test_what_is_not_of_this_archive_is_refused(writer: Writer, to: Path, tmp_path: Path) -> None:
    log = writer.log("l")
    writer.append(log, [record(0)])
    archive(writer, to)
    other = Writer(tmp_path / "other")
    with pytest.raises(ArchiveError, match="is the archive of store .*, and this is store"):
        archive(other, to)
    other.close()
    writer.drop(log)
    writer.append(writer.log("l"), [record(0)])
    writer.append(writer.log("other"), [record(0)])
    archiver, found = archive(writer, to)
    assert archiver.rows == 1 and len(archiver.passed_over) == 1 and "deleted and declared again" in found[0]
    assert len(rows_of(to, "l")) == 1 and len(rows_of(to, "other")) == 1
    with locked(to), pytest.raises(ArchiveError, match="Another process"), locked(to):
        pass


def test_nothing_is_archived_of_a_store_without_logs(writer: Writer, to: Path) -> None:
    assert archive(writer, to)[0].rows == 0 and is_whole(to).files == 0


# ---- what is missing ------------------------------------------------------------------------------------------------


def test_retention_that_is_faster_is_said_and_recorded(writer: Writer, to: Path) -> None:
    log = writer.log("l")
    writer.append(log, [record(number) for number in range(500)])
    archive(writer, to)
    for _ in range(3):
        writer.append(log, [record(number) for number in range(600)])
    writer.cut(log)
    writer.cut(log)
    archiver, found = archive(writer, to)
    assert archiver.gaps == 1 and "offsets 500 to 1099 (600 records) cannot be archived any more" in found[0]
    assert [(gap.first, gap.next, gap.reason) for gap in read(to).gaps] == [(500, 1100, "retention")]
    report = is_whole(to)
    assert len(report.notes) == 1 and "offsets 500 to 1099 are missing" in report.notes[0]
    assert archive(writer, to)[0].gaps == 0
    assert [row["offset"] for row in rows_of(to, "l")] == [*range(500), *range(1100, 2300)]


def test_what_was_before_the_first_run_is_no_gap(writer: Writer, to: Path) -> None:
    log = writer.log("l")
    for _ in range(2):
        writer.append(log, [record(number) for number in range(600)])
    writer.cut(log)
    archiver, found = archive(writer, to)
    assert archiver.gaps == 0 and found == ["l, partition 0: begins at offset 600; what was before is not there."]
    assert is_whole(to).rows == 600


def test_a_damaged_block_is_a_gap_and_the_others_are_there(writer: Writer, to: Path) -> None:
    log = writer.log("l")
    for number in range(4):
        writer.append(log, [record(number * 10 + one) for one in range(10)])
    writer.close()
    rewrite(writer.path, RECORDS, record_key(log, 0, 10), b"nonsense")
    writer.open()
    archiver, found = archive(writer, to)
    assert archiver.gaps == 1 and "damaged" in found[0]
    assert [row["offset"] for row in rows_of(to, "l")] == [*range(10), *range(20, 40)]
    assert [(gap.first, gap.next, gap.reason) for gap in read(to).gaps] == [(10, 20, "damaged")]


# ---- crashes --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.durability("D31")
def test_killed_at_every_step_no_row_is_twice_and_none_missing(writer: Writer, to: Path) -> None:
    log, journal = writer.log("l"), writer.log("journal")
    for number in range(0, 40, 10):
        writer.append(log, [record(number + one) for one in range(10)])
    writer.add(journal, [event_of(number) for number in range(30)])
    writer.queue("orders", [position_of(1, number) for number in range(30)])
    command = [sys.executable, str(Path(__file__).with_name("killed.py")), str(writer.path), str(to), "20"]
    writer.close()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    writer.open()
    outcomes = ended.stdout.split()
    assert outcomes[-1] == "0" and set(outcomes[:-1]) == {"killed"} and len(outcomes) > 40, ended.stderr
    for step in range(len(outcomes)):
        directory = to / str(step)
        archive(writer, directory, seal_rows=20)
        is_whole(directory)
        assert [row["offset"] for row in rows_of(directory, "l")] == [*range(40)], step
        assert [row["seq"] for row in rows_of(directory, "journal")] == [*range(30)], step
        stored = History(directory).stored()
        assert stored is not None and stored.offset == 30 and len([*stored.ids]) == 30
        assert not [*directory.rglob(".sealing-*")]


def test_a_finished_file_that_the_manifest_has_not_is_adopted(writer: Writer, to: Path) -> None:
    log = writer.log("l")
    for _ in range(2):
        writer.append(log, [record(number) for number in range(600)])
    archive(writer, to, seal_rows=600)
    file = file_of(to, 1)
    number = file.stat().st_ino
    manifest = to / NAME
    lines = manifest.read_text().splitlines(keepends=True)
    manifest.write_text("".join(lines[:-1]))
    writer.append(log, [record(number) for number in range(600)])
    writer.cut(log)
    writer.cut(log)
    archiver, found = archive(writer, to)
    assert found == [f"{file.relative_to(to)} was finished when the last run ended: adopted."] and archiver.gaps == 0
    assert file.stat().st_ino == number and is_whole(to).rows == 1800
    # one that is torn, or out of order, is not
    manifest.write_text("".join(lines[:-1]))
    file.write_bytes(file.read_bytes()[:-1])
    found = archive(writer, to)[1]
    assert "removed, it is copied once more" in found[0] and "does not belong" in found[1] and "GAP" in found[2]


def test_a_torn_line_of_the_manifest_is_cut_off(writer: Writer, to: Path) -> None:
    log = writer.log("l")
    writer.append(log, [record(number) for number in range(10)])
    archive(writer, to)
    whole = (to / NAME).read_bytes()
    for size in (len(whole) - 1, whole.rstrip(b"\n").rfind(b"\n") + 1, 5, 0):
        (to / NAME).write_bytes(whole[:size])
        archiver, found = archive(writer, to)
        assert archiver.rows == (0 if found else 10) and len(rows_of(to, "l")) == 10
        is_whole(to)


def test_a_damaged_line_is_refused(writer: Writer, to: Path) -> None:
    writer.append(writer.log("l"), [record(0)])
    archive(writer, to)
    (to / NAME).write_bytes(b"nonsense\n")
    with pytest.raises(ArchiveError, match="Line 1 of .* is damaged"):
        archive(writer, to)
    (finding,) = verify(to).findings
    assert finding.startswith("Line 1 of ") and "is damaged" in finding


def test_an_archive_of_another_version_is_refused(writer: Writer, to: Path) -> None:
    writer.append(writer.log("l"), [record(0)])
    archive(writer, to)
    text = (to / NAME).read_bytes()
    (to / NAME).write_bytes(text.replace(b'"version":1', b'"version":2', 1))
    with pytest.raises(ArchiveError, match="has version 2, this Radiator reads version 1: run the Radiator that wrote"):
        archive(writer, to)
    assert verify(to).findings and "has version 2" in verify(to).findings[0]
    (to / NAME).write_bytes(text + b'{"kind":"none"}\n')
    with pytest.raises(ArchiveError, match="is damaged"):
        archive(writer, to)


# ---- verify ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def whole(writer: Writer, to: Path) -> Path:
    log = writer.log("l")
    for number in range(3):
        writer.append(log, [record(number * 10 + one) for one in range(10)])
    archive(writer, to, seal_rows=10)
    assert is_whole(to).rows == 30
    return to


def file_of(directory: Path, number: int) -> Path:
    return directory / read(directory).files[number].file


def write_again(file: Path, table: pa.Table) -> None:
    """With the footer of the real one, and its size in the manifest, as somebody would who hides it."""
    was, hidden = file.stat().st_size, sha256_of(file)
    pq.write_table(table.replace_schema_metadata(pq.read_metadata(file).metadata), file)
    manifest = file.parents[2] / NAME
    text = manifest.read_text().replace(f'"bytes":{was}', f'"bytes":{file.stat().st_size}')
    manifest.write_text(text.replace(hidden, sha256_of(file)))


def test_each_run_finds_a_file_that_is_missing_or_cut_off(writer: Writer, to: Path) -> None:
    log, other = writer.log("l"), writer.log("m")
    for number in range(DAMAGED_SHOWN + 2):
        writer.append(log, [record(number)])
    writer.append(other, [record(0)])
    journal = writer.log("journal")
    writer.add(journal, [event_of(1)])
    archive(writer, to, seal_rows=1)
    files = {name: [one.file for one in read(to).files if one.log == name] for name in ("l", "m", "journal")}
    (to / files["l"][3]).unlink()
    cut = to / files["l"][5]
    cut.write_bytes(cut.read_bytes()[:-7])
    (to / files["m"][0]).unlink()
    (to / read(to).snapshots[0].file).unlink()
    # what a run does not append to, it does not look at
    assert archive(writer, to, names=["journal"])[0].damaged == 1
    archiver, found = archive(writer, to, names=["l"])
    size = cut.stat().st_size
    assert archiver.damaged == 2 and found[:2] == [
        f"DAMAGED: {files['l'][3]} is missing.",
        f"DAMAGED: {files['l'][5]} has {size} bytes; the manifest says {size + 7}.",
    ]
    assert found[2].startswith("2 files of the archive damaged, and not written again: `radiator archive --verify ")
    # it goes on all the same, and what cannot be seen without reading is left to --verify
    writer.append(log, [record(0)])
    sound = to / files["l"][7]
    sound.write_bytes(sound.read_bytes()[:-9] + b"x" + sound.read_bytes()[-8:])
    archiver, _ = archive(writer, to)
    assert (archiver.damaged, archiver.rows) == (4, 1)
    for file in files["l"]:
        (to / file).unlink(missing_ok=True)
    archiver, found = archive(writer, to, names=["l"])
    assert archiver.damaged == DAMAGED_SHOWN + 2 and len(found) == DAMAGED_SHOWN + 1


def test_verify_finds_a_missing_file(whole: Path) -> None:
    file_of(whole, 1).unlink()
    assert verify(whole).findings == [f"{read(whole).files[1].file} is missing."]


def test_verify_finds_every_changed_byte(whole: Path) -> None:
    file = file_of(whole, 1)
    data = file.read_bytes()
    missed = []
    for at in range(0, len(data), max(1, len(data) // 60)):
        file.write_bytes(data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :])
        if not verify(whole).findings:
            missed.append(at)
    file.write_bytes(data)
    assert missed == []
    is_whole(whole)


def test_verify_finds_a_changed_row_and_a_lost_one(whole: Path) -> None:
    file = file_of(whole, 1)
    table = pq.ParquetFile(file).read()
    rows = table.to_pylist()
    rows[4]["value"] = b"forged"
    write_again(file, pa.Table.from_pylist(rows, schema=table.schema))
    assert "not those that were written" in verify(whole).findings[0]
    write_again(file, table.slice(0, 9))
    assert "has 9 rows; the manifest says 10" in verify(whole).findings[0]
    write_again(file, pa.Table.from_pylist([*table.to_pylist()[1:], table.to_pylist()[0]], schema=table.schema))
    assert any("its offsets are not those from" in finding for finding in verify(whole).findings)


def test_verify_finds_gaps_and_overlaps(whole: Path) -> None:
    manifest = whole / NAME
    lines = manifest.read_text().splitlines()
    manifest.write_text("\n".join([*lines[:2], *lines[3:]]) + "\n")
    assert "offsets 10 to 19 are in no file (a gap)" in " ".join(verify(whole).findings)
    manifest.write_text("\n".join([*lines, lines[2]]) + "\n")
    assert "offsets 10 to 19 are there twice (an overlap)" in " ".join(verify(whole).findings)


def test_verify_finds_a_file_that_is_not_in_the_manifest(whole: Path) -> None:
    file = file_of(whole, 1)
    copy = file.with_name("0000-copy.parquet")
    copy.write_bytes(file.read_bytes())
    assert "is not in the manifest" in verify(whole).findings[0]
    manifest = whole / NAME
    copy.unlink()
    manifest.write_text("\n".join(manifest.read_text().splitlines()[:3]) + "\n")
    assert "the next run adopts it" in verify(whole).notes[0]


def test_no_archive_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="is not an archive"):
        verify(tmp_path)


# ---- what is stored -------------------------------------------------------------------------------------------------


def test_the_journal_comes_with_what_is_stored_and_two_snapshots_are_kept(writer: Writer, to: Path) -> None:
    journal = writer.log("journal")
    writer.queue("orders", [position_of(1, 1), position_of(1, 2)])
    writer.queue("$outbox/n2", [position_of(1, 3)])
    for number in range(4):
        writer.add(journal, [event_of(number)])
        archive(writer, to)
    stored = History(to).stored()
    store_id = writer.store_id
    assert stored is not None and (stored.offset, stored.boot) == (4, writer.boot - 1)
    assert [*stored.ids] == [f"{store_id}-1-1", f"{store_id}-1-2"]
    assert [one.next for one in read(to).snapshots] == [3, 4]
    assert len([*to.glob("_snapshots/*")]) == 2
    assert is_whole(to).files == 6


def test_the_manifest_is_one_json_object_a_line(whole: Path) -> None:
    rows = [json.loads(line) for line in (whole / NAME).read_text().splitlines()]
    assert [row["kind"] for row in rows] == ["store", "file", "file", "file"]
    assert {*rows[1]} >= {"file", "log", "incarnation", "partition", "first", "next", "rows", "checksum", "bytes"}
