"""The cookie in which a browser keeps its login (RFC 6265), in requests and responses.

Over TLS its name begins with `__Host-`: browsers accept and send such a cookie only if this very host has set it.
Without TLS no browser would accept that name, so the cookie has another one there.
"""

import hashlib
import re

from radiator.protocols.http.head import BadRequest, RequestHead

NAME, SECURE_NAME = b"radiator", b"__Host-radiator"
_VALUE = re.compile(rb"[A-Za-z0-9_-]{43}")  # 32 random bytes in URL-safe base64, without padding
_NOT_OF_FORMS = (b"application/json", b"application/octet-stream", b"avro/binary")


def has_cookie(head: RequestHead) -> bool:
    """Whether the request has a cookie of this broker, valid or not."""
    pairs = _pairs(head)
    return any(b";%b=" % name in pairs for name in (NAME, SECURE_NAME))


def key_of(head: RequestHead, is_encrypted: bool) -> bytes | None:
    """Returns the SHA-256 of the cookie's value, by which the broker finds the session. None: there is no cookie, there
    are two, or its form is not that of the broker's cookies. is_encrypted: the listener has TLS.
    """
    pairs = _pairs(head)
    if NAME not in pairs:
        return None
    # behind a proxy with TLS a browser may send either name; if it sends both, the stricter one counts
    begin = b";%b=" % (SECURE_NAME if is_encrypted or b";%b=" % SECURE_NAME in pairs else NAME)
    if pairs.count(begin) != 1:
        return None
    value = pairs.partition(begin)[2].partition(b";")[0]
    return hashlib.sha256(value).digest() if _VALUE.fullmatch(value) else None


def _pairs(head: RequestHead) -> bytes:
    """Returns all cookies, each as `;NAME=VALUE`. Searching 16 KiB of them takes some microseconds."""
    return b";" + head.headers.get(b"cookie", b"").replace(b"; ", b";")


def key_of_value(value: bytes) -> bytes:
    """Returns the SHA-256 of a cookie's value."""
    return hashlib.sha256(value).digest()


def is_secure(head: RequestHead, is_encrypted: bool) -> bool:
    """Whether the browser speaks TLS: to this listener or, by the Origin of its page, to a proxy before it."""
    return is_encrypted or head.headers.get(b"origin", b"").lower().startswith(b"https://")


def given_cookie(value: bytes, is_secure: bool) -> tuple[bytes, bytes]:
    """Returns the response header that sets the cookie. The browser keeps it until it is closed."""
    return b"Set-Cookie", _text(value, b"", is_secure)


def dropped_cookie(is_secure: bool) -> tuple[bytes, bytes]:
    """Returns the response header that has the browser drop the cookie."""
    return b"Set-Cookie", _text(b"", b"; Max-Age=0", is_secure)


def check_form(head: RequestHead) -> None:
    """Refuses a POST that a page can send without a preflight, by a form or a script: the browser adds the cookie to
    it, whatever site the page is of. Raises BadRequest.
    """
    if head.method == "POST" and head.content_type not in _NOT_OF_FORMS:
        kinds = ", ".join(one.decode() for one in _NOT_OF_FORMS)
        raise BadRequest(415, f"A POST that a cookie logs in has a Content-Type that no form has: one of {kinds}.")


def _text(value: bytes, more: bytes, is_secure: bool) -> bytes:
    name = SECURE_NAME if is_secure else NAME
    return b"%b=%b; Path=/%b%b; HttpOnly; SameSite=Strict" % (name, value, more, b"; Secure" if is_secure else b"")
