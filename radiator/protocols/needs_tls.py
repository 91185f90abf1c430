"""What a client is told in its own words that speaks without TLS to a listener with it."""

import re

from radiator.protocols.http.responses import encoded, problem
from radiator.protocols.stomp.frame import encode_error

SENTENCE = "This port speaks TLS: use stomps:// for STOMP or https:// for HTTP, or another port."
_REQUEST = re.compile(rb"[A-Z]{1,16} [^ \r\n]{1,4096} HTTP/")


def needs_tls(data: bytes) -> bytes:
    """The answer to what it has sent first: a response of HTTP to what begins as a request, else an ERROR of STOMP."""
    if _REQUEST.match(data):
        return encoded(problem(400, "protocol", SENTENCE), (), is_head=False, is_last=True)
    return encode_error("protocol", SENTENCE, None, None)
