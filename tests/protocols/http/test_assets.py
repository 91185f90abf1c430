"""The files for pages: what they are served as. What client.js does: tests/acceptance/test_client_js.py."""

import pytest

from radiator.protocols.http.assets import asset
from radiator.protocols.http.head import BadRequest
from radiator.protocols.http.responses import Response
from tests.protocols.http.asking import a_request


@pytest.mark.parametrize(("name", "kind", "words"), [
    ("client.js", b"text/javascript; charset=utf-8", b"export function connect("),
    ("client.d.ts", b"text/plain; charset=utf-8", b"export function connect("),
])  # fmt: skip
def test_a_file_is_served_as_what_it_is(name: str, kind: bytes, words: bytes) -> None:
    found = asset(name)(a_request("GET", f"/{name}"))
    assert isinstance(found, Response)
    assert (found.status, found.content_type) == (200, kind) and words in found.body
    with pytest.raises(BadRequest, match="is not a parameter"):
        asset(name)(a_request("GET", f"/{name}?v=1"))


def test_only_those_files_are_there() -> None:
    for name in ("../routes.py", "client", ""):
        with pytest.raises(KeyError):
            asset(name)


def test_what_is_exported_has_its_types() -> None:
    code, types = (asset(name)(a_request("GET", "/x")) for name in ("client.js", "client.d.ts"))
    assert isinstance(code, Response) and isinstance(types, Response)
    for name in (b"class RadiatorError", b"function connect"):
        assert b"export " + name in code.body and b"export " + name in types.body
    for method in (b"publish", b"publishAll", b"receive", b"settle", b"events", b"stats"):
        assert b"\n  async " + method + b"(" in code.body and b"\n  " + method + b"(" in types.body
