"""The cookie in which a browser keeps its login (RFC 6265), as requests and answers have it.

Over TLS its name begins with `__Host-`: a browser takes and sends such a one only where nothing but this very host can
have made it. Without TLS no browser would take it, so its name is another one there.
"""

import hashlib
import re

from radiator.protocols.http.head import BadRequest, RequestHead

NAME, SECURE_NAME = b"radiator", b"__Host-radiator"
_VALUE = re.compile(rb"[A-Za-z0-9_-]{43}")  # 32 bytes in base64, as the broker gives them
_NOT_OF_FORMS = (b"application/json", b"application/octet-stream", b"avro/binary")


def has_cookie(head: RequestHead) -> bool:
    """Whether the request has one of ours, whatever it is worth."""
    pairs = _pairs(head)
    return any(b";%b=" % name in pairs for name in (NAME, SECURE_NAME))


def key_of(head: RequestHead, is_encrypted: bool) -> bytes | None:
    """The SHA-256 of the cookie's value, by which the broker knows it. None: there is none, it has a form that the
    broker gives to none, or it is there twice. is_encrypted: the listener has TLS.
    """
    pairs = _pairs(head)
    if NAME not in pairs:
        return None
    # behind a proxy with TLS there is the one name or the other; where both are, the stricter one counts
    begin = b";%b=" % (SECURE_NAME if is_encrypted or b";%b=" % SECURE_NAME in pairs else NAME)
    if pairs.count(begin) != 1:
        return None
    value = pairs.partition(begin)[2].partition(b";")[0]
    return hashlib.sha256(value).digest() if _VALUE.fullmatch(value) else None


def _pairs(head: RequestHead) -> bytes:
    """All cookies, each as `;NAME=VALUE`: 16 KiB of them are searched in some microseconds."""
    return b";" + head.headers.get(b"cookie", b"").replace(b"; ", b";")


def key_of_value(value: bytes) -> bytes:
    """The same of a value that is given."""
    return hashlib.sha256(value).digest()


def is_secure(head: RequestHead, is_encrypted: bool) -> bool:
    """Whether the browser speaks TLS: with this listener, or, as its page says, with a proxy before it."""
    return is_encrypted or head.headers.get(b"origin", b"").lower().startswith(b"https://")


def given_cookie(value: bytes, is_secure: bool) -> tuple[bytes, bytes]:
    """The header of an answer that has the browser keep it until it is closed."""
    return b"Set-Cookie", _text(value, b"", is_secure)


def dropped_cookie(is_secure: bool) -> tuple[bytes, bytes]:
    """The header of an answer that has the browser forget it."""
    return b"Set-Cookie", _text(b"", b"; Max-Age=0", is_secure)


def check_form(head: RequestHead) -> None:
    """Refuses what the form of a page could send, or its script without asking first: a browser adds the cookie to it,
    whosever page that is. Raises BadRequest.
    """
    if head.method == "POST" and head.content_type not in _NOT_OF_FORMS:
        kinds = ", ".join(one.decode() for one in _NOT_OF_FORMS)
        raise BadRequest(415, f"A POST that a cookie logs in has a Content-Type that no form has: one of {kinds}.")


def _text(value: bytes, more: bytes, is_secure: bool) -> bytes:
    name = SECURE_NAME if is_secure else NAME
    return b"%b=%b; Path=/%b%b; HttpOnly; SameSite=Strict" % (name, value, more, b"; Secure" if is_secure else b"")
