"""Lines of prose fit into a terminal."""

from pathlib import Path

import pytest

from tests.documents.wrap import COLUMNS, pages, wrapped

LONG = "word " * 40 + "end"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_no_line_of_prose_is_too_long(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert wrapped(text) == text, "`python -m tests.documents.wrap` breaks its long lines"


@pytest.mark.parametrize("beginning", ["", "- ", "12. ", "> ", "  - "])
def test_a_long_line_is_broken_and_says_the_same(beginning: str) -> None:
    text = wrapped(f"{beginning}{LONG}")
    lines = text.split("\n")
    assert len(lines) == 2 and max(map(len, lines)) <= COLUMNS
    assert lines[1].startswith("> word" if beginning == "> " else " " * len(beginning) + "word")
    assert text.replace("\n>", "\n").split() == f"{beginning}{LONG}".split()
    assert wrapped(text) == text


@pytest.mark.parametrize(
    "kept",
    [
        f"```text\n{LONG}\n```",
        f"| {LONG} |",
        f"# {LONG}",
        f"<!-- not run: {LONG} -->",
        f"<!-- states\n{LONG}\n-->",
        f"[name]: {LONG}",
        f"`{LONG}`",
        f"[{LONG}](PAGE.md)",
        "a short line\nand another one",
    ],
)
def test_what_a_break_would_change_stays(kept: str) -> None:
    assert wrapped(kept) == kept


def test_no_line_begins_with_what_means_a_list_a_heading_or_a_table() -> None:
    for sign in ("-", "+", "#", ">", "|", "1.", "---"):
        for length in range(COLUMNS - 4, COLUMNS + 3):
            first, *others = wrapped(f"{'x' * length} {sign} {'y' * 30} z").split("\n")
            assert first.startswith("x") and not any(line.startswith(sign) for line in others)


def test_a_break_that_is_meant_stays() -> None:
    text = wrapped(f"{LONG}  \nnext")
    assert text.split("\n")[1].endswith("end  ") and text.endswith("\nnext")
