"""The answer to a client that speaks plain HTTP to a listener with TLS."""

import re

from radiator.protocols.http.responses import encoded, problem

SENTENCE = "This port speaks TLS: use https://, or another port."
_REQUEST = re.compile(rb"[A-Z]{1,16} [^ \r\n]{1,4096} HTTP/")


def needs_tls(data: bytes) -> bytes:
    """Returns the answer to a client's first bytes, if they begin an HTTP request; else b""."""
    return encoded(problem(400, "protocol", SENTENCE), (), is_head=False, is_last=True) if _REQUEST.match(data) else b""
