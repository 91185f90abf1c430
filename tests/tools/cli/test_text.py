"""What a terminal gets to see: nothing that it could obey, and columns that stand straight."""

import pytest

from radiator.model.errors import count_text
from radiator.tools.cli.text import bytes_text, cut, duration_text, printable, table, width_of


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("plain", "plain"),
        ("größe 漢字", "größe 漢字"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\rc\td", "a\\nb\\rc\\td"),
        ("\x00\x7f\x85\x9b", "\\x00\\x7f\\x85\\x9b"),
        ("\u202eabc", "\\u202eabc"),
        ("\U000e0001", "\\U000e0001"),
        ("\udc80", "\\udc80"),
    ],
)
def test_printable_escapes_what_a_terminal_obeys(text: str, wanted: str) -> None:
    assert printable(text) == wanted


def test_printable_keeps_what_it_is_told_to() -> None:
    assert printable("a\n\tb\x1b", keep="\n\t") == "a\n\tb\\x1b"


def test_table_aligns_text_left_and_numbers_right() -> None:
    assert table(["queue", "n"], [["a", 5], ["long-name", 12345]]) == (
        "queue          n\n"
        "a              5\n"
        "long-name  12345"
    )  # fmt: skip


def test_table_escapes_before_it_aligns() -> None:
    assert table(["queue", "n"], [["\x1b[2J", 1], ["b", 22]]) == (
        "queue     n\n"
        "\\x1b[2J   1\n"
        "b        22"
    )  # fmt: skip


def test_table_without_rows_has_its_heads() -> None:
    assert table(["queue", "messages"], []) == "queue  messages"


@pytest.mark.parametrize(
    ("text", "columns", "wanted"),
    [
        ("orders", 6, "orders"),
        ("orders.eu.late", 9, "orde…late"),
        ("orders.eu.late", 8, "orde…ate"),
        ("漢字漢字漢字", 12, "漢字漢字漢字"),
        ("漢字漢字漢字", 9, "漢字…漢字"),
        ("漢字漢字漢字", 8, "漢字…字"),
        ("e\u0301" * 4, 4, "e\u0301" * 4),
    ],
)
def test_cut_keeps_beginning_and_end(text: str, columns: int, wanted: str) -> None:
    assert cut(text, columns) == wanted
    assert width_of(wanted) <= columns


def test_table_is_cut_to_its_columns_at_the_widest_text() -> None:
    rows = [["q" * 255, "short", 7], ["b", "remark " * 20, 123456]]
    lines = table(["queue", "remark", "n"], rows, columns=60).split("\n")
    assert [len(line) for line in lines] == [60, 60, 60]
    assert "…" in lines[1] and "…" in lines[2] and lines[2].endswith("  123456")
    assert table(["queue", "remark", "n"], [["a", "b", 1]], columns=60) == "queue  remark  n\na      b       1"


def test_table_cuts_no_number_however_narrow_it_is() -> None:
    line = table(["queue", "a", "b"], [["q" * 99, 10**12, 10**12]], columns=20).split("\n")[1]
    assert line == "qqqqqq…qqqqq  1000000000000  1000000000000"


def test_table_cuts_no_sentence_in_its_last_column() -> None:
    why = "a sentence that says why, and what to do about it"
    lines = table(["node", "because"], [["n" * 99, why]], columns=40).split("\n")
    assert lines[1].endswith("  " + why) and len(lines[1]) == 26 + 2 + len(why)


def test_table_leaves_out_what_matters_least_where_it_is_too_narrow() -> None:
    heads, rows = ["queue", "ready", "kind", "storing"], [["q" * 99, 10**6, "persistent", 0]]
    wide, narrow = table(heads, rows, 60, ["storing", "kind"]), table(heads, rows, 30, ["storing", "kind"])
    assert wide.split("\n")[0].split() == heads and narrow.split("\n")[0].split() == ["queue", "ready"]
    assert all(len(line) <= 30 for line in narrow.split("\n"))


def test_table_that_is_no_terminals_is_not_cut() -> None:
    assert table(["queue"], [["q" * 255]]).endswith("q" * 255)


def test_table_counts_wide_characters() -> None:
    assert table(["queue", "n"], [["漢字", 1], ["ab", 2]]) == "queue  n\n漢字   1\nab     2"


@pytest.mark.parametrize(
    ("count", "wanted"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536 * 1024, "1.5 MiB"), (64 * 2**30, "64.0 GiB")],
)
def test_bytes_text_chooses_its_unit(count: int, wanted: str) -> None:
    assert bytes_text(count) == wanted


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [(0.4, "0 s"), (59, "59 s"), (62, "1 min 2 s"), (3600, "1 h"), (86400 * 3 + 7201, "3 d 2 h"), (86401, "1 d 1 s")],
)
def test_duration_text_tells_two_units(seconds: float, wanted: str) -> None:
    assert duration_text(seconds) == wanted


def test_count_text_knows_one_from_many() -> None:
    assert [count_text(count, "message") for count in (0, 1, 2)] == ["0 messages", "1 message", "2 messages"]
    assert [count_text(count, "copy is", "copies are") for count in (1, 2)] == ["1 copy is", "2 copies are"]
