"""Every durability claim has its place in the code and its test, and no tag stands elsewhere."""

from pathlib import Path

import pytest

from tests.house.claims import broken_claims

CHECKOUT = Path(__file__).resolve().parent.parent.parent

CODE = """
class Store:
    def commit(self):
        # D1 the receipt waits
        return 1  # D2, D3

def other():
    pass
"""
TESTS = """
import pytest

@pytest.mark.durability("D1")
def test_one(): ...

@pytest.mark.durability("D2", "D3")
class TestMore: ...
"""
ROWS = [
    "| tag | claim | code | test |",
    "|---|---|---|---|",
    "| D1 | it is kept | `radiator/store.py` `Store.commit` | `tests/test_store.py::test_one` |",
    "| D2 | it is kept | `radiator/store.py` `Store.commit` | `tests/test_store.py::TestMore` |",
    "| D3 | it is kept | `radiator/store.py` `Store.commit` | `tests/test_store.py::TestMore` |",
]


def broken(tmp_path: Path, code: str = CODE, tests: str = TESTS, rows: list[str] = ROWS) -> list[str]:
    (tmp_path / "radiator").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "radiator/store.py").write_text(code)
    (tmp_path / "tests/test_store.py").write_text(tests)
    return broken_claims(tmp_path, "\n".join(rows))


def test_every_claim_is_kept() -> None:
    document = CHECKOUT / "docs/DURABILITY.md"
    assert document.is_file(), "docs/DURABILITY.md is not there: the claims, their code and their tests stand in it."
    found = broken_claims(CHECKOUT, document.read_text(encoding="utf-8"))
    assert not found, "\n" + "\n".join(found)


def test_a_map_that_is_right_is_let_be(tmp_path: Path) -> None:
    assert broken(tmp_path) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("# D1 the", "# the", ["D1: there is no comment `# D1` in Store.commit"]),
        ("# D1 the", "# D1 D1 the", ["D1: there is a comment `# D1` in Store.commit"]),
        ("    pass", "    pass  # D4", ["D4: there is a comment `# D4` in other"]),
        ("def other", "# D4\ndef other", ["D4: there is a comment `# D4` outside any symbol"]),
        ("def commit", "def sync", ["in Store.commit of", "in Store.sync of"]),
    ],
)
def test_a_tag_of_the_code_that_is_missing_doubled_or_moved_is_seen(
    tmp_path: Path, old: str, new: str, expected: list[str]
) -> None:
    sentences = broken(tmp_path, code=CODE.replace(old, new))
    assert sentences
    assert all(any(words in sentence for sentence in sentences) for words in expected)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('@pytest.mark.durability("D1")', "", "D1: there is no test tests/test_store.py::test_one"),
        (
            '@pytest.mark.durability("D1")',
            '@pytest.mark.durability("D1", "D9")',
            "D9: docs/DURABILITY.md does not know",
        ),
        ("test_one", "test_two", "D1: there is no test tests/test_store.py::test_one"),
    ],
)
def test_a_mark_of_a_test_that_is_missing_or_unknown_is_seen(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert any(expected in sentence for sentence in broken(tmp_path, tests=TESTS.replace(old, new)))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], "has no row"),
        ([*ROWS, ROWS[2]], "D1 is the tag of 2 claims"),
        ([*ROWS, "| D7 | it is kept | | `tests/test_store.py::test_one` |"], "D7 names no `file.py` `symbol`"),
        ([*ROWS, "| D7 | it is kept | `radiator/store.py` `other` | |"], "D7 names no `file.py::test`"),
        (
            ROWS[:4],
            "D3: there is a comment `# D3` in Store.commit of radiator/store.py that docs/DURABILITY.md does not",
        ),
    ],
)
def test_a_row_that_is_missing_doubled_or_empty_is_seen(tmp_path: Path, rows: list[str], expected: str) -> None:
    assert any(expected in sentence for sentence in broken(tmp_path, rows=rows))
