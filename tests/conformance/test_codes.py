"""docs/PROTOCOL.md and docs/ADMINISTRATION.md list every stable code that an ERROR or an answer of /admin can carry."""

import ast
import re
from pathlib import Path

from tests.house.sources import nodes_of

HERE = Path(__file__).parents[2]


def codes_in_the_code() -> set[str]:
    """The code given to each Refusal(...), Refuse(...) and .refuse(...) of the broker and the server."""
    codes = set()
    for folder in ("core", "server", "protocols"):
        for path in (HERE / "radiator" / folder).rglob("*.py"):
            for node in nodes_of(path):
                if not isinstance(node, ast.Call):
                    continue
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                place = {"Refusal": 0, "Refuse": 1, "refuse": 1}.get(name)
                if place is not None and len(node.args) > place and isinstance(node.args[place], ast.Constant):
                    codes.add(str(ast.literal_eval(node.args[place])))
    return codes


def test_every_code_is_listed() -> None:
    pages = "".join((HERE / "docs" / name).read_text() for name in ("PROTOCOL.md", "ADMINISTRATION.md", "HTTP.md"))
    listed = set(re.findall(r"`([a-z]+(?:-[a-z]+)*)`", pages))
    codes = codes_in_the_code()
    assert "queue-full" in codes
    assert codes - listed == set()
