"""The head of an HTTP/1.1 request (RFC 9112, sections 2 to 5), read strictly.

llhttp parses it, through httptools. Anything that two readers could understand differently is refused, and so is
anything that this broker has no use for: a proxy before the broker must see the same requests as the broker does.
"""

from dataclasses import dataclass, field

import httptools

from radiator.model.errors import Violation, shown
from radiator.model.limits import HTTP_HEAD_BYTES, HTTP_HEADERS, HTTP_TARGET_BYTES

_LINE_END = b"\r\n"
END = 2 * _LINE_END

_VERSIONS = ("1.0", "1.1")
_ONCE = frozenset(
    (
        b"authorization",
        b"connection",
        b"content-length",
        b"content-type",
        b"cookie",
        b"expect",
        b"host",
        b"origin",
        b"sec-websocket-key",
        b"sec-websocket-version",
        b"transfer-encoding",
        b"upgrade",
    )
)


_CODES = {403: "forbidden", 404: "no-such-resource", 413: "too-large"}

_OTHER_PROTOCOLS = (
    ((b"\x16\x03",), "This is TLS, and this listener is http://; use http, or the port of an https:// listener."),
    (
        (b"CONNECT\n", b"CONNECT\r\n", b"STOMP\n", b"STOMP\r\n"),
        "This is STOMP, and this listener is for HTTP; use the port of a stomp:// listener, or a WebSocket on /ws.",
    ),
)
"""The first bytes of other protocols, and the sentence for each: their clients would wait in vain for a response, as no
end of a head ever comes.
"""


class BadRequest(Violation):
    """A request that is answered with this status. If it is raised before the request is complete, nothing behind it is
    read. headers: further headers of the response.
    """

    def __init__(self, status: int, sentence: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(sentence)
        self.status = status
        self.code = _CODES.get(status, "protocol")
        self.headers = headers


@dataclass(slots=True, frozen=True)
class RequestHead:
    """path: of the target, as it was sent, without the query. headers: by name in lower case; the values of a header
    that came several times are joined with commas.
    """

    method: str
    path: bytes
    query: bytes
    headers: dict[bytes, bytes] = field(repr=False)  # may hold a password or a cookie
    version: str

    @property
    def content_type(self) -> bytes:
        """The media type in lower case, without parameters; b"": not given."""
        return self.headers.get(b"content-type", b"").partition(b";")[0].strip(b" \t").lower()

    @property
    def keeps_alive(self) -> bool:
        """Whether another request may follow on the connection."""
        return self.version == "1.1" and (
            b"connection" not in self.headers or b"close" not in self.tokens(b"connection")
        )

    @property
    def expects_continue(self) -> bool:
        """Whether the client waits for `100 Continue` before it sends the body."""
        return b"expect" in self.headers

    @property
    def has_body(self) -> bool:
        """Whether a body follows."""
        return b"transfer-encoding" in self.headers or self.headers.get(b"content-length", b"0") != b"0"

    def tokens(self, name: bytes) -> list[bytes]:
        """Returns the comma-separated values of this header, in lower case."""
        return [one for each in self.headers.get(name, b"").split(b",") if (one := each.strip(b" \t").lower())]


def head_bytes(data: bytes) -> int:
    """Returns the size of the request's head at the beginning of `data`, with its empty line, and with an empty line
    before it, which older clients send behind a body (RFC 9112, section 2.2). 0: the end of the head has not arrived.
    Raises BadRequest if the head is too long, or is that of another protocol.
    """
    for beginning, sentence in _OTHER_PROTOCOLS:
        if data.startswith(beginning):
            raise BadRequest(400, sentence)
    at = data.find(END, len(_LINE_END) if data.startswith(_LINE_END) else 0)
    if at < 0 and len(data) < HTTP_HEAD_BYTES:
        return 0
    size = at + len(END)
    if at < 0 or size > HTTP_HEAD_BYTES:
        if b"\r\n" not in data[:HTTP_TARGET_BYTES]:
            raise BadRequest(414, f"The request's target has more than {HTTP_TARGET_BYTES} bytes.")
        raise BadRequest(431, f"The request's line and headers have more than {HTTP_HEAD_BYTES} bytes.")
    return size


def parse_head(data: bytes) -> RequestHead:
    """Parses a head. data: the bytes that `head_bytes` has counted. Raises BadRequest."""
    data = data.removeprefix(_LINE_END)
    found = _Found()
    parser = httptools.HttpRequestParser(found)
    try:
        parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        pass  # llhttp stops at Upgrade; whether it is granted is decided by the route
    except httptools.HttpParserInvalidMethodError:
        raise BadRequest(501, f"The method {shown(data[:16].split(b' ')[0])} is not supported.") from None
    except httptools.HttpParserError as error:
        raise BadRequest(400, f"This is not an HTTP/1.1 request: {error}.") from None
    if not found.is_complete:
        raise BadRequest(400, "This is not an HTTP/1.1 request: its head has no end.")
    line = data[: data.index(_LINE_END)]
    method, version = parser.get_method(), parser.get_http_version()
    is_line = line.startswith(method + b" ") and line.endswith(b" HTTP/" + version.encode()) and line.count(b" ") == 2
    if version not in _VERSIONS or not is_line:  # llhttp skips line ends before the first line
        raise BadRequest(400, "The first line of a request must be METHOD /TARGET HTTP/1.1, with one space between.")
    path, _, query = found.target.partition(b"?")
    if len(found.target) > HTTP_TARGET_BYTES:
        raise BadRequest(414, f"The request's target has more than {HTTP_TARGET_BYTES} bytes.")
    if not path.startswith(b"/") or b"#" in found.target:
        raise BadRequest(400, f"The request's target {shown(found.target)} must be a path that begins with `/`.")
    if len(found.headers) > HTTP_HEADERS:
        raise BadRequest(431, f"The request has more than {HTTP_HEADERS} headers.")
    headers = _by_name(found.headers)
    if version == "1.1" and not headers.get(b"host"):
        raise BadRequest(400, "The request has no Host.")
    if b"transfer-encoding" in headers and (version == "1.0" or headers[b"transfer-encoding"].lower() != b"chunked"):
        raise BadRequest(501, "The only transfer coding that is supported is `chunked`, in HTTP/1.1.")
    if headers.get(b"expect", b"100-continue").lower() != b"100-continue":
        raise BadRequest(417, f"Expect is {shown(headers[b'expect'])}; only 100-continue is supported.")
    return RequestHead(method.decode(), path, query, headers, version)


def _by_name(lines: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    for name, value in lines:
        name = name.lower()
        if name not in headers:
            headers[name] = value.strip(b" \t")
        elif name in _ONCE:
            raise BadRequest(400, f"The request has the header {name.decode()} twice.")
        else:
            headers[name] += b", " + value.strip(b" \t")
    return headers


class _Found:
    """Receives what llhttp finds: the parser calls these methods."""

    def __init__(self) -> None:
        self.target = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_complete = False

    def on_url(self, part: bytes) -> None:
        self.target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self.is_complete = True
