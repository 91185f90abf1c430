"""The files of the package, parsed once: several rules of the house look at all of them."""

import ast
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent.parent / "radiator"


@cache
def tree_of(path: Path) -> ast.Module:
    """What Python makes of that file. It is shared: nobody may change it."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All that is in it, as ast.walk gives it."""
    return tuple(ast.walk(tree_of(path)))
