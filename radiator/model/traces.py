"""The trace that a message belongs to, as its header `traceparent` says (W3C Trace Context)."""

import re

from radiator.model.headers import Field

TRACEPARENT = Field(b"traceparent")
TRACEPARENT_LINE_BYTES = 68  # of a header block that has a valid one: no shorter block needs to be searched

_TRACE_ID = rb"(?!0{32})[0-9a-f]{32}"
_VALID = re.compile(rb"00-(%b)-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}" % _TRACE_ID)
_ID = re.compile(_TRACE_ID)


def valid_traceparent(value: bytes) -> str:
    """The value of a header `traceparent` where it is valid and of version 00, which has 55 characters; else ""."""
    return value.decode() if _VALID.fullmatch(value) else ""


def trace_id_in(text: str) -> str:
    """The trace id that a text is, or that it has as a `traceparent`: 32 hexadecimal digits, in lower case whatever the
    text has. Raises ValueError with a sentence.
    """
    low = text.lower().encode()
    found = _VALID.fullmatch(low)
    trace_id = found[1] if found else low
    if not _ID.fullmatch(trace_id):
        raise ValueError(
            f"{text!r:.100} is not a trace id; one is 32 hexadecimal digits, not all 0, like "
            "4bf92f3577b34da6a3ce929d0e0e4736, or is in a traceparent, like "
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        )
    return trace_id.decode()
