"""The console: the page for operators at `GET /`, and its files. All are read when the broker starts, so no request
opens a file.

Browsers do not cache the page. They cache the files for long, under a path with a digest of all files: another version
of the broker has another path, so a page never runs with files of two versions. None of the files says anything about
the broker, so they need no login. The page asks for its data in the name of the user who has logged in.
"""

import hashlib
import zlib
from pathlib import Path

from radiator.protocols.http.exchange import HttpRequest, Resource, Route
from radiator.protocols.http.head import BadRequest
from radiator.protocols.http.responses import Headers, Response

_FOLDER = Path(__file__).resolve().parent.parent.parent / "web"
_PAGE_NAME = "index.html"
_CONTENT_TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
}
_KEPT_S = 365 * 24 * 3600
_GZIP = 16 + zlib.MAX_WBITS  # zlib's `wbits` for the format of gzip
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    # the browser lets no script turn text into markup or code
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
_OF_PAGES: Headers = (
    (b"Referrer-Policy", b"no-referrer"),
    (b"Cross-Origin-Opener-Policy", b"same-origin"),
    (b"Cross-Origin-Resource-Policy", b"same-origin"),
)
_SQUEEZED: Headers = ((b"Content-Encoding", b"gzip"), (b"Vary", b"Accept-Encoding"))
_AS_IT_IS: Headers = ((b"Vary", b"Accept-Encoding"),)


def _all_of() -> dict[str, bytes]:
    """Returns the files of the folder, by their paths in it."""
    return {
        str(file.relative_to(_FOLDER)): file.read_bytes()
        for file in sorted(_FOLDER.rglob("*"))
        if file.suffix in _CONTENT_TYPES
    }


_FOUND = _all_of()
DIGEST = hashlib.sha256(b"".join(name.encode() + b"\0" + body for name, body in _FOUND.items())).hexdigest()[:16]


def _served(name: str, body: bytes, max_age_s: int) -> Resource:
    """Returns the resource of a file. It is compressed once, for clients that accept gzip."""
    kind, squeezed = _CONTENT_TYPES[Path(name).suffix], zlib.compress(body, wbits=_GZIP)
    plain = Response(200, body, kind, (*_OF_PAGES, *_AS_IT_IS), max_age_s, policy=_POLICY)
    small = Response(200, squeezed, kind, (*_OF_PAGES, *_SQUEEZED), max_age_s, policy=_POLICY)

    def resource(request: HttpRequest) -> Response:
        request.query()
        return small if _takes_gzip(request.head.headers.get(b"accept-encoding", b"")) else plain

    return resource


def _takes_gzip(accepted: bytes) -> bool:
    """Whether Accept-Encoding names gzip (RFC 9110, section 12.5.3). A client that gives weights is sent the file
    uncompressed.
    """
    return b"gzip" in (one.strip() for one in accepted.split(b","))


_PAGE = _FOUND.pop(_PAGE_NAME).replace(b"{digest}", DIGEST.encode())
PAGE = Route("GET", ("",), _served(_PAGE_NAME, _PAGE, 0), is_free=True, is_console=True)
_BY_PATH = {tuple(name.split("/")): _served(name, body, _KEPT_S) for name, body in _FOUND.items()}


def file(request: HttpRequest) -> Response:
    """Serves one of the files. Raises BadRequest if the path is not that of this version."""
    digest, *path = request.names
    resource = _BY_PATH.get(tuple(path))
    if digest != DIGEST or resource is None:
        raise BadRequest(404, "This broker's console has no such file: reload the page.")
    found = resource(request)
    assert isinstance(found, Response)
    return found


FILES = tuple(
    Route("GET", ("console", None, *[None] * parts), file, is_free=True, is_console=True)
    for parts in sorted({len(path) for path in _BY_PATH})
)
