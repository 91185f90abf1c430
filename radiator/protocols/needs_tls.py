"""What a client over HTTP is told that speaks without TLS to a listener with it."""

import re

from radiator.protocols.http.responses import encoded, problem

SENTENCE = "This port speaks TLS: use https://, or another port."
_REQUEST = re.compile(rb"[A-Z]{1,16} [^ \r\n]{1,4096} HTTP/")


def needs_tls(data: bytes) -> bytes:
    """The answer to what it has sent first, where that begins as a request; b"" to all else."""
    return encoded(problem(400, "protocol", SENTENCE), (), is_head=False, is_last=True) if _REQUEST.match(data) else b""
