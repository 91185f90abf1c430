"""What a check has read, and what is wrong with it."""

import pytest

from radiator.model.limits import CHECK_FINDINGS_MAX
from radiator.storage.codec import records
from radiator.storage.report import Report, unheard


def test_report_of_endless_damage_is_bounded() -> None:
    report = Report()
    for number in range(CHECK_FINDINGS_MAX + 5):
        report.find(str(number))
    assert (len(report.findings), report.findings_left_out) == (CHECK_FINDINGS_MAX, 5)


@pytest.mark.parametrize(("count", "left_out"), [(CHECK_FINDINGS_MAX, 0), (CHECK_FINDINGS_MAX + 1, 1)])
def test_so_many_findings_are_kept_and_the_rest_is_counted(count: int, left_out: int) -> None:
    report = Report()
    for number in range(count):
        report.find(f"Finding {number}.")
    assert (len(report.findings), report.findings_left_out) == (CHECK_FINDINGS_MAX, left_out)
    assert report.findings[-1] == f"Finding {CHECK_FINDINGS_MAX - 1}."


def test_a_damaged_row_is_a_finding_and_none_and_a_sound_one_its_value() -> None:
    report, key = Report(), b"k"
    row = records.encode_text(key, "ä")
    assert report.decoded(records.decode_text, key, memoryview(row)) == "ä" and report.findings == []
    assert report.decoded(records.decode_text, key, row[:-1]) is None
    assert len(report.findings) == 1


def test_progress_is_no_part_of_what_was_found() -> None:
    unheard("reading", "rows", 1, 0)
    assert Report() == Report(progress=print) and "progress" not in repr(Report())
