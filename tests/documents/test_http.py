"""docs/HTTP.md has each resource that there is, and each code with the status that it has."""

import re

from radiator.protocols.http.administration import ANY, ASKINGS, Asking
from radiator.protocols.http.responses import STATUS_OF_CODE
from radiator.protocols.http.routes import ROUTES
from tests.documents.blocks import text_of

PAGE = text_of("docs/HTTP.md")
PLACES = {
    "group": "GROUP",
    "app": "ID",
    "peer": "NODE",
    "name": "CONSUMER",
    "number": "NUMBER",
    "user": "USER",
}  # NAME is that of a destination


def as_written(asking: Asking) -> str:
    """Its row."""
    names = iter(asking.names)
    path = "/".join(PLACES.get(next(names), "NAME") if part is None else part for part in asking.path)
    body = ["its settings"] if asking.body == ANY else [f"`{key}`" for key in asking.body or ()]
    cells = [f"`{asking.method} /{path}`", f"`{asking.do}`", ", ".join(f"`{name}`" for name, _ in asking.query)]
    return "|" + "|".join(f" {cell} " if cell else " " for cell in [*cells, ", ".join(body)]) + "|"


def test_each_resource_of_the_administration_has_its_row() -> None:
    table = PAGE.partition("| resource | request |")[2].partition("\n\n")[0].splitlines()[2:]
    assert table == [as_written(asking) for asking in ASKINGS]


def test_each_other_path_stands_there() -> None:
    for route in ROUTES[: -len(ASKINGS) - 1]:
        path = "/".join("NAME" if part is None else part for part in route.path)
        kind = route.path[1] if route.path[-1] == "messages" else None
        assert f"/{path}" in PAGE or (kind and f"`{kind}`" in PAGE) or route.is_websocket, path
    assert "POST /v1/admin" in PAGE


def test_each_code_has_its_status() -> None:
    table = PAGE.partition("| status | codes |")[2].partition("\n\n")[0].splitlines()[2:]
    found = {code: int(row.split("|")[1]) for row in table[:-1] for code in re.findall("`([a-z-]+)`", row)}
    assert found == STATUS_OF_CODE and table[-1] == "| 400 | all others |"


def test_each_code_is_explained_somewhere() -> None:
    pages = PAGE.partition("| status | codes |")[0] + text_of("docs/PROTOCOL.md") + text_of("docs/ADMINISTRATION.md")
    assert [code for code in STATUS_OF_CODE if f"`{code}`" not in pages] == []
