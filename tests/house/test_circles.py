"""No file imports, by any way round, a file that imports it: imports for types and within functions count too."""

import ast
from pathlib import Path

from tests.house.sources import PACKAGE, nodes_of


def imports_in(root: Path) -> dict[str, set[str]]:
    """The files of the package below `root`, as Python names them, and which of them each imports."""
    paths = {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted(root.glob("radiator/**/*.py"))
    }
    found: dict[str, set[str]] = {}
    for module, path in paths.items():
        found[module] = set()
        for node in nodes_of(path):
            if isinstance(node, ast.Import):
                names = {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                # a name may be a file of that folder, or something in the folder's own file
                names = {f"{node.module}.{alias.name}" for alias in node.names}
                names = {name if name in paths else str(node.module) for name in names}
            else:
                continue
            found[module].update(names & paths.keys() - {module})
    return found


def circles(imports: dict[str, set[str]]) -> list[set[str]]:
    """The largest sets of files each of which leads to all others, two or more."""
    reached = {module: _reached(module, imports) for module in imports}
    found: list[set[str]] = []
    for module in imports:
        circle = {other for other in reached[module] if module in reached[other]}
        if circle and circle not in found:
            found.append(circle)
    return found


def _reached(module: str, imports: dict[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    left = [module]
    while left:
        for other in imports[left.pop()] - reached:
            reached.add(other)
            left.append(other)
    return reached


def test_no_file_is_in_a_circle_of_imports() -> None:
    assert circles(imports_in(PACKAGE.parent)) == []


def test_a_circle_is_seen_whoever_closes_it(tmp_path: Path) -> None:
    texts = {
        "a": "from radiator.b import B",
        "b": "def f():\n    from radiator import c\n",
        "c": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import radiator.a\n",
        "d": "from radiator.a import A\nfrom radiator.e import E\n",
        "e": "import os\n",
    }
    (tmp_path / "radiator").mkdir()
    for name, text in texts.items():
        (tmp_path / "radiator" / f"{name}.py").write_text(text)
    assert circles(imports_in(tmp_path)) == [{"radiator.a", "radiator.b", "radiator.c"}]
