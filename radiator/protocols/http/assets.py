"""`GET /client.js`, `GET /client.d.ts`: the client for web pages. Both files are read when the broker starts, so no
request opens a file.
"""

from pathlib import Path

from radiator.protocols.http.exchange import HttpRequest, Resource
from radiator.protocols.http.responses import TEXT, Response

JAVASCRIPT = b"text/javascript; charset=utf-8"
_CONTENT_TYPES = {"client.js": JAVASCRIPT, "client.d.ts": TEXT}
_FOLDER = Path(__file__).resolve().parent / "pages"
_RESPONSES = {name: Response(200, (_FOLDER / name).read_bytes(), kind) for name, kind in _CONTENT_TYPES.items()}


def asset(name: str) -> Resource:
    """Returns the resource that serves this file."""
    response = _RESPONSES[name]

    def resource(request: HttpRequest) -> Response:
        request.query()
        return response

    return resource
