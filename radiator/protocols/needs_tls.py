"""What a client is told in its own words that speaks without TLS to a listener with it."""

import re

from radiator.protocols.http.responses import encoded, problem
from radiator.protocols.stomp.frame import encode_error

SENTENCE = "This port speaks TLS: use stomps:// for STOMP or https:// for HTTP, or another port."
_REQUEST = re.compile(rb"[A-Z]{1,16} [^ \r\n]{1,4096} HTTP/")
_CONNECT = re.compile(rb"[\r\n]{0,64}(CONNECT|STOMP)\r?\n")


def needs_tls(data: bytes) -> bytes:
    """The answer to what it has sent first: a response of HTTP to what begins as a request, an ERROR of STOMP to what
    begins as its CONNECT; b"" to all else.
    """
    if _REQUEST.match(data):
        return encoded(problem(400, "protocol", SENTENCE), (), is_head=False, is_last=True)
    return encode_error("protocol", SENTENCE, None, None) if _CONNECT.match(data) else b""
