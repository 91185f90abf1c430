"""Who carries out a request sees its own part of the broker, by a port that it names itself."""

import ast
from pathlib import Path

import pytest

import radiator.core.admin

FILES = sorted(Path(radiator.core.admin.__file__).parent.glob("[a-z]*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_handler_names_a_narrow_port(path: Path) -> None:
    ports = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.arg) and node.arg == "request":
            assert isinstance(node.annotation, ast.Subscript), f"line {node.lineno}"
            ports.add(ast.unparse(node.annotation.slice))
        assert not (isinstance(node, ast.Name) and node.id in ("AdminPort", "Parts"))
    assert ports and "Any" not in ports
