"""Whether an archive has what its manifest says: every file read, its rows counted, numbered and summed anew."""

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from radiator.model.errors import count_text
from radiator.storage.report import Progress, unheard
from radiator.tools.archive.manifest import ArchiveError, Gap, ManifestContents, NoArchive, Sealed, in_order, read
from radiator.tools.archive.rows import Checksum, offset_of
from radiator.tools.archive.sealing import finished_files, footer_of, misfit_of, rows_of, schema_of, sha256_of


@dataclass(slots=True)
class VerifyReport:
    """findings: what is wrong, a sentence each. notes: what is incomplete, and known to be so."""

    files: int = 0
    rows: int = 0
    bytes: int = 0
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def verify(directory: Path, progress: Progress = unheard) -> VerifyReport:
    """Verifies an archive. Raises NoArchive where there is none. progress: called with how many bytes of the files were
    read.
    """
    report = VerifyReport()
    try:
        contents = read(directory)
    except NoArchive:
        raise
    except ArchiveError as damaged:
        report.findings.append(str(damaged))
        return report
    listed = [*contents.files, *contents.snapshots]
    whole, done = sum(one.bytes for one in listed), 0
    for one in listed:
        _check_file(directory, one, report)
        done += one.bytes
        progress("verifying", "bytes", done, whole)
    report.bytes = done
    for (log, partition), there in in_order(contents):
        _check_order(f"{log}, partition {partition}", there, report)
    _check_others(directory, contents, report)
    return report


def _check_file(directory: Path, one: Sealed, report: VerifyReport) -> None:
    report.files += 1
    misfit = misfit_of(directory, one)
    if misfit:
        report.findings.append(misfit)
        return
    if sha256_of(directory / one.file) != one.sha256:
        report.findings.append(f"The bytes of {one.file} are not those that were written.")
    try:
        rows, checksum, wrong = _read_through(directory, one)
    except ArchiveError as error:
        report.findings.append(str(error))
        return
    report.rows += rows
    if rows != one.rows:
        report.findings.append(f"{one.file} has {count_text(rows, 'row')}; the manifest says {one.rows}.")
    elif checksum != one.checksum:
        report.findings.append(f"The rows of {one.file} are not those that were written: their checksum is another.")
    if wrong:
        report.findings.append(f"{one.file}: {wrong}")


def _read_through(directory: Path, one: Sealed) -> tuple[int, str, str]:
    """Rows, their checksum, and what is wrong with their offsets, or ""."""
    schema = schema_of(directory, one.file)
    numbered_by = offset_of(schema) if one.log else None
    checksum = Checksum(schema)
    at = one.first
    wrong = ""
    rows = 0
    for batch in rows_of(directory, one.file):
        checksum.feed(batch)
        rows += batch.num_rows
        if numbered_by is not None:
            expected = pa.array(range(at, at + batch.num_rows), pa.int64())
            if not wrong and not pc.all(pc.equal(batch.column(numbered_by), expected)).as_py():
                wrong = f"its offsets are not those from {one.first} to {one.next - 1}, one after the other."
            at += batch.num_rows
    if numbered_by is not None and not wrong and at != one.next:
        wrong = f"it ends before offset {at}; the manifest says {one.next}."
    return rows, checksum.text(), wrong


def _check_order(what: str, there: list[Sealed | Gap], report: VerifyReport) -> None:
    at = there[0].first
    for one in there:
        if one.first > at:
            report.findings.append(f"{what}: offsets {at} to {one.first - 1} are in no file (a gap).")
        elif one.first < at:
            report.findings.append(
                f"{what}: offsets {one.first} to {min(at, one.next) - 1} are there twice (an overlap)."
            )
        if isinstance(one, Gap):
            report.notes.append(
                f"{what}: offsets {one.first} to {one.next - 1} are missing, as the archiver found on "
                f"{one.found_at[:19]} ({one.reason})."
            )
        at = max(at, one.next)


def _check_others(directory: Path, contents: ManifestContents, report: VerifyReport) -> None:
    known = {one.file for one in (*contents.files, *contents.snapshots)}
    for file in finished_files(directory):
        if file in known:
            continue
        try:
            one = footer_of(directory, file)
        except ArchiveError as error:
            report.findings.append(str(error))
            continue
        if one.log and contents.next_of(one.log, one.partition) in (None, one.first):
            report.notes.append(f"{file} is finished, and not in the manifest yet: the next run adopts it.")
        elif one.log:
            report.findings.append(f"{file} is not in the manifest, and its rows are in other files, or out of order.")
