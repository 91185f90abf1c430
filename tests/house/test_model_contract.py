"""Each public class and function of the model says what it is, and what it raises."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent.parent
MODULES = sorted((CHECKOUT / "radiator" / "model").rglob("*.py"))

Described = ast.ClassDef | ast.FunctionDef


def public_in(tree: ast.Module) -> Iterator[Described]:
    """Classes and functions of the module, and methods of the classes."""
    for node in tree.body:
        if isinstance(node, Described) and not node.name.startswith("_"):
            yield node
            for inner in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                    yield inner


def raised_in(node: Described) -> Iterator[str]:
    """The classes of errors that its own text raises, but of its methods."""
    for inner in ast.walk(node) if isinstance(node, ast.FunctionDef) else ():
        if isinstance(inner, ast.Raise) and isinstance(inner.exc, ast.Call):
            error = ast.unparse(inner.exc.func)
            if error[0].isupper():
                yield error


def mistakes(source: str) -> list[str]:
    """What a public class or function of that source does not say."""
    found = []
    for node in public_in(ast.parse(source)):
        text = ast.get_docstring(node) or ""
        if "." not in text:
            found.append(f"{node.name} has no sentence that says what it is")
        found += [
            f"{node.name} does not say that it raises {error}" for error in set(raised_in(node)) if error not in text
        ]
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_each_public_thing_says_what_it_is_and_what_it_raises(module: Path) -> None:
    assert mistakes(module.read_text(encoding="utf-8")) == []


def test_what_says_nothing_is_found() -> None:
    source = 'class A:\n    def b(self):\n        """Words."""\n        raise ValueError("c")\n'
    source += "\n    def _d(self):\n        pass\n"
    assert mistakes(source) == [
        "A has no sentence that says what it is",
        "b does not say that it raises ValueError",
    ]
    assert (
        mistakes(source.replace("class A:", 'class A:\n    """One."""').replace("Words.", "Raises ValueError.")) == []
    )
