"""One thing has one word wherever a user reads: a message that is delivered and not acked is `unacked`, one that is
delivered again `redelivered`, as the wire has it.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.house.sources import nodes_of

CHECKOUT = Path(__file__).resolve().parent.parent.parent
OTHER_WORDS = re.compile(r"\bin[ _-]flight\b|\b(?:came|has come|have come) back\b", re.IGNORECASE)
PAGES = [CHECKOUT / "README.md", CHECKOUT / "config.toml", *(CHECKOUT / "docs").rglob("*.md")]
PAGES += (CHECKOUT / "examples").rglob("*.md")
MODULES = sorted((CHECKOUT / "radiator").rglob("*.py"))


def texts(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Every text in it that can be shown: all but docstrings and the names of things."""
    unsaid = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in unsaid:
            yield node.value


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_the_words_of_the_wire(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [f"{page.name}:{at}: {line}" for at, line in enumerate(lines, 1) if OTHER_WORDS.search(line)] == []


def test_what_the_program_says_has_the_words_of_the_wire() -> None:
    found = [
        f"{module.relative_to(CHECKOUT)}: {text}"
        for module in MODULES
        for text in texts(nodes_of(module))
        if OTHER_WORDS.search(text)
    ]
    assert found == []


def return_nothing(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """The functions that return nothing, and whose docstring says that they do; "Returns once" says when."""
    for node in nodes:
        if not isinstance(node, ast.FunctionDef) or not isinstance(node.returns, ast.Constant):
            continue
        if node.returns.value is None and re.match(r"Returns (?!once\b)", ast.get_docstring(node) or ""):
            yield node.name


def test_what_returns_nothing_does_not_say_that_it_does() -> None:
    found = [
        f"{module.relative_to(CHECKOUT)}: {name}" for module in MODULES for name in return_nothing(nodes_of(module))
    ]
    assert found == []


def test_a_docstring_of_what_returns_nothing_is_found() -> None:
    texts_of = {"f() -> None": "Returns one.", "g() -> int": "Returns one.", "h() -> None": "Returns once it is over."}
    source = "\n".join(f"def {head}:\n    {text!r}" for head, text in texts_of.items())
    assert [*return_nothing([*ast.walk(ast.parse(source))])] == ["f"]


def test_other_words_are_found() -> None:
    source = '"""In flight."""\ntext = f"{1} came back"\nkey = {"in_flight": 1}\ndef f():\n    """Came back."""\n'
    nodes = [*ast.walk(ast.parse(source))]
    assert [text for text in texts(nodes) if OTHER_WORDS.search(text)] == [" came back", "in_flight"]
    assert OTHER_WORDS.search("is In-Flight") and not OTHER_WORDS.search("it comes back")
