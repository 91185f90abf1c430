"""The tables of states in docs/DURABILITY.md are those of the code."""

from tests.house.state_tables import DOCUMENT, TABLES, rendered


def test_tables_in_the_document_are_those_of_the_code() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == rendered(text), "run: python -m tests.house.state_tables"


def test_every_table_stands_in_the_document_once() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert all(text.count(f"<!-- states: {name} -->") == 1 for name in TABLES)


def test_stale_table_is_seen() -> None:
    stale = "<!-- states: crash -->\n\n| GONE | READY |\n\n<!-- end -->"
    assert rendered(stale) != stale and rendered(rendered(stale)) == rendered(stale)
