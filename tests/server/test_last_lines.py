"""The last lines of the log: how many are kept, and which of them are given."""

import pytest

from radiator.model.limits import LOG_KEPT_BYTES, LOG_KEPT_LINES
from radiator.model.log_lines import KeptLines, LogLine
from radiator.server.last_lines import _LINE_COST_BYTES, LastLines


def filled(count: int, size_bytes: int = 0) -> LastLines:
    """Every second one is a warning."""
    lines = LastLines()
    for number in range(1, count + 1):
        lines.add("info" if number % 2 else "warning", "came", {"n": number}, number / 1000, size_bytes)
    return lines


def numbers(found: KeptLines) -> list[int]:
    return [line.number for line in found.lines]


def test_a_line_is_kept_as_it_was_logged() -> None:
    lines = LastLines()
    lines.add("error", "broke", {"of": "x", "n": 1}, 1_700_000_000.123, 9)
    assert lines.read(None, 1, "debug") == KeptLines(
        [LogLine(1, 1_700_000_000_123, "error", "broke", {"of": "x", "n": 1})], 1, 1
    )


def test_there_was_none_yet() -> None:
    assert LastLines().read(None, 5, "debug") == LastLines().read(7, 5, "debug") == KeptLines([], 0, 0)


@pytest.mark.parametrize(
    ("after", "limit", "level", "found", "following"),
    [
        (None, 3, "debug", [8, 9, 10], 10),
        (None, 100, "debug", [*range(1, 11)], 10),
        (None, 2, "warning", [8, 10], 10),
        (None, 2, "error", [], 10),
        (0, 3, "debug", [1, 2, 3], 3),
        (3, 3, "info", [4, 5, 6], 6),
        (7, 3, "debug", [8, 9, 10], 10),
        (8, 3, "debug", [9, 10], 10),
        (10, 3, "debug", [], 10),
        (3, 2, "warning", [4, 6], 6),
        (6, 2, "warning", [8, 10], 10),
        (8, 1, "warning", [10], 10),
        (11, 3, "debug", [8, 9, 10], 10),  # that of an earlier start
        (10**15 - 1, 1, "warning", [10], 10),
    ],
)
def test_those_are_given_that_are_asked_for(
    after: int | None, limit: int, level: str, found: list[int], following: int
) -> None:
    answer = filled(10).read(after, limit, level)
    assert (numbers(answer), answer.first, answer.next) == (found, 1, following)


def test_only_so_many_are_kept() -> None:
    assert filled(LOG_KEPT_LINES).read(None, 1, "debug").first == 1
    lines = filled(LOG_KEPT_LINES + 1)
    answer = lines.read(0, LOG_KEPT_LINES, "debug")
    assert (answer.first, len(answer.lines), answer.next) == (2, LOG_KEPT_LINES, LOG_KEPT_LINES + 1)
    assert lines.size_bytes == LOG_KEPT_LINES * _LINE_COST_BYTES


def test_only_so_many_bytes_are_kept() -> None:
    each = 10_000 - _LINE_COST_BYTES
    most = LOG_KEPT_BYTES // 10_000
    assert filled(most, each).read(None, 1, "debug").first == 1
    lines = filled(most + 1, each)
    assert lines.read(None, 1, "debug").first == 2 and lines.size_bytes == most * 10_000
    lines.add("info", "long", {}, 0, LOG_KEPT_BYTES * 2)
    assert numbers(lines.read(None, 9, "debug")) == [most + 2], "the last one is there, however long it is"
