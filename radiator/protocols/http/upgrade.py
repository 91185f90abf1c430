"""The handshake of a WebSocket for STOMP (RFC 6455, section 4.2)."""

import base64
import binascii

from websockets.utils import accept_key

from radiator.model.errors import shown
from radiator.protocols.http.head import BadRequest, RequestHead
from radiator.protocols.http.responses import switched

SUBPROTOCOLS = (b"v12.stomp", b"v11.stomp", b"v10.stomp")
"""The names of STOMP's versions. CONNECT negotiates which one is spoken."""

_KEY_BYTES = 16


def accepted(head: RequestHead, is_open: bool) -> bytes:
    """Returns the response that opens the WebSocket. is_open: the connection has been used for other requests. Raises
    BadRequest.
    """
    if b"websocket" not in head.tokens(b"upgrade") or b"upgrade" not in head.tokens(b"connection"):
        sentence = f"{head.path.decode()} is for WebSockets: ask for it with Upgrade: websocket."
        raise BadRequest(426, sentence, ((b"Upgrade", b"websocket"),))
    if head.headers.get(b"sec-websocket-version") != b"13":
        raise BadRequest(
            426, "Only version 13 of the WebSocket protocol is supported.", ((b"Sec-WebSocket-Version", b"13"),)
        )
    if head.version != "1.1" or head.method != "GET":
        raise BadRequest(400, "A WebSocket is opened with GET and HTTP/1.1.")
    if is_open:
        raise BadRequest(400, "A WebSocket needs a connection of its own: this one has been used for other requests.")
    key = head.headers.get(b"sec-websocket-key", b"")
    if not _is_key(key):
        raise BadRequest(400, f"Sec-WebSocket-Key is {shown(key)}; it must be 16 bytes in base64.")
    offered = head.tokens(b"sec-websocket-protocol")
    chosen = next((one for one in offered if one in SUBPROTOCOLS), None)
    if offered and chosen is None:
        names = ", ".join(one.decode() for one in SUBPROTOCOLS)
        raise BadRequest(400, f"Sec-WebSocket-Protocol has none of {names}.")
    headers = [
        (b"Upgrade", b"websocket"),
        (b"Connection", b"Upgrade"),
        (b"Sec-WebSocket-Accept", accept_key(key.decode()).encode()),
    ]
    return switched(headers if chosen is None else [*headers, (b"Sec-WebSocket-Protocol", chosen)])


def _is_key(key: bytes) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == _KEY_BYTES
    except binascii.Error:
        return False
