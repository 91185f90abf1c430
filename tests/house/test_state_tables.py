"""The tables of states in docs/DURABILITY.md and docs/STATES.md are those of the code."""

from tests.house.state_tables import DOCUMENTS, TABLES, rendered

TEXT = "".join(document.read_text(encoding="utf-8") for document in DOCUMENTS)


def test_tables_in_the_documents_are_those_of_the_code() -> None:
    assert rendered(TEXT) == TEXT, "run: python -m tests.house.state_tables"


def test_every_table_stands_in_the_documents_once() -> None:
    assert all(TEXT.count(f"<!-- states: {name} -->") == 1 for name in TABLES)


def test_stale_table_is_seen() -> None:
    stale = "<!-- states: crash -->\n\n| GONE | READY |\n\n<!-- end -->"
    assert rendered(stale) != stale and rendered(rendered(stale)) == rendered(stale)
