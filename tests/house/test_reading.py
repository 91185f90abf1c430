"""What docs/READING.md says in numbers and names is so."""

import ast
import re
import typing
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from radiator.core.turn import Batch
from radiator.model import writes
from radiator.model.limits import KIB, READ_BYTES
from radiator.model.writes import Ledger
from tests.broker_process import CHECKOUT
from tests.core.node import Node
from tests.core.words import ack, nack, send, subscribe
from tests.house.sources import PACKAGE, nodes_of, tree_of

PAGE = (CHECKOUT / "docs/READING.md").read_text(encoding="utf-8")
TEXT = " ".join(PAGE.split())
NUMBERS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
SOURCES = sorted(PACKAGE.rglob("*.py"))


def states_assigned(tree: ast.Module) -> Iterator[int]:
    """Lines where an attribute `state` gets a value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "state" and isinstance(node.ctx, ast.Store):
            yield node.lineno


def names_of(nodes: Iterable[ast.AST]) -> set[str]:
    """Each class in it, and `Class.method` of all of them."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
            found |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return found


def test_it_counts_the_writes() -> None:
    assert f"the {len(typing.get_args(writes.Write))} things that may be asked of the disk" in TEXT


def test_it_says_what_one_read_takes() -> None:
    assert f"Bytes are read, at most {READ_BYTES // KIB} KiB at a time" in TEXT


def test_the_ledger_has_the_columns_that_it_names() -> None:
    (named,) = re.findall(r"which must balance: accepted = ([^|]*) \|", TEXT)
    columns = {field.name for field in fields(Ledger) if not field.name.endswith("_bytes")}
    aside = {"accepted", "stored_expiring", "stored_delayed"}  # of what is stored
    assert {name.strip().replace("-", "_") for name in named.split("+")} == columns - aside


def test_the_life_of_a_message_needs_the_writes_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    count, named = re.findall(r"in the table below needs (\w+) of them: ([^.]*)\.", TEXT)[0]
    node = Node()
    node.open(1, 2)
    node.say(subscribe(2, "orders"))
    batches: list[Batch] = []
    seal = node.broker.seal

    def sealed() -> Batch | None:
        batch = seal()
        if batch is not None:
            batches.append(batch)
        return batch

    monkeypatch.setattr(node.broker, "seal", sealed)
    node.say(send(1, "orders", receipt=b"r"))
    node.say(nack(node.message(2)))
    node.say(ack(node.message(2), b"a"))
    asked = {type(write).__name__ for batch in batches for write in batch.writes}
    assert set(re.findall(r"`(\w+)`", named)) == asked
    assert NUMBERS.index(count) == len(asked)


def test_move_alone_changes_a_state() -> None:
    assert "`move` is the only function that changes one" in TEXT
    found = {path: list(states_assigned(tree_of(path))) for path in SOURCES if PACKAGE / "core" in path.parents}
    place = PACKAGE / "core/states.py"
    assert [str(path) for path, lines in found.items() if lines] == [str(place)]
    (move,) = (node for node in tree_of(place).body if isinstance(node, ast.FunctionDef) and node.name == "move")
    assert [move.lineno < line <= (move.end_lineno or 0) for line in found[place]] == [True]


def test_another_place_that_changes_a_state_is_noticed() -> None:
    source = "def move(e):\n    e.state = 1\ndef f(e):\n    e.state: int = 2\n    e.state, x = 3, e.state\n"
    assert sorted(states_assigned(ast.parse(source))) == [2, 4, 5]


def test_it_names_every_file_of_the_model() -> None:
    (row,) = re.findall(r"(?m)^\| ground \| `model/`: ([^|]*) \|", PAGE)
    files = {path.stem for path in (PACKAGE / "model").glob("*.py")} - {"__init__"}
    assert set(re.findall(r"`(\w+)`", row)) == files


def test_it_counts_the_paragraphs_of_the_essay_in_front() -> None:
    essay = ast.get_docstring(tree_of(PACKAGE / "core/__init__.py")) or ""
    assert f"the life of one message in {NUMBERS[essay.count(chr(10) * 2)]} paragraphs" in TEXT


def test_each_file_that_it_names_is_there() -> None:
    named = set(re.findall(r"`([\w/]+\.py)`", PAGE))
    there = {str(path.relative_to(CHECKOUT)) for folder in ("radiator", "tests", "examples") for path in
             (CHECKOUT / folder).rglob("*.py")}  # fmt: skip
    assert [name for name in sorted(named) if not any(f"/{path}".endswith(f"/{name}") for path in there)] == []
    folders = set(re.findall(r"`([a-z_/]+/)`", PAGE))
    within = [PACKAGE, PACKAGE / "tools", PACKAGE / "integrations", CHECKOUT]
    assert [name for name in sorted(folders) if not any((folder / name).is_dir() for folder in within)] == []


def test_each_function_that_it_names_is_there() -> None:
    there = {name for path in SOURCES for name in names_of(nodes_of(path))}
    assert set(re.findall(r"`([A-Z]\w+\.[a-z_]+)`", PAGE)) - there == set()
    for path, name in re.findall(r"`([\w/]+\.py)`, `(\w+)`", PAGE):
        assert any(re.search(rf"\b(def|class) {name}\b", one.read_text(encoding="utf-8")) for one in _called(path)), (
            path,
            name,
        )


def _called(name: str) -> list[Path]:
    return [path for path in SOURCES if f"/{path.relative_to(PACKAGE)}".endswith(f"/{name}")]


def test_each_file_that_the_code_names_is_there() -> None:
    named = {
        (name, str(path.relative_to(CHECKOUT)))
        for path in sorted((CHECKOUT / "radiator").rglob("*.py"))
        for name in re.findall(r"\b[a-z_]+\.py\b", path.read_text(encoding="utf-8"))
    }
    there = {path.name for folder in ("radiator", "tests", "examples") for path in (CHECKOUT / folder).rglob("*.py")}
    assert len(named) > 100 and {one for one in named if one[0] not in there} == set()
