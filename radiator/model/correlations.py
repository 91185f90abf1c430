"""The name that an application has for a message, or for some that belong together, as its header `correlation-id`
says; Celery's task id is one. What `explain` is asked about it: see administration.py.
"""

from dataclasses import dataclass

from radiator.model.limits import CORRELATION_MAX_BYTES

CORRELATION_LINE_BYTES = 17  # of a header block that has one: no shorter block needs to be searched


@dataclass(slots=True)
class ExplainCorrelation:
    """As ExplainTrace, for the messages that were accepted with that `correlation-id`, whole."""

    correlation_id: str
    after: int
    limit: int


def valid_correlation_id(value: bytes) -> str:
    """The value of a header `correlation-id` where it has up to CORRELATION_MAX_BYTES, and is UTF-8; else "": the
    journal has no other.
    """
    if len(value) > CORRELATION_MAX_BYTES:  # cut, it would be found as another's
        return ""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return ""


def correlation_id_in(text: str) -> str:
    """The text, if it is a correlation-id that the journal may have. Raises ValueError with a sentence."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if not text or size > CORRELATION_MAX_BYTES:
        raise ValueError(
            f"{text!r:.100} has {size} bytes; the journal keeps a correlation-id of 1 to {CORRELATION_MAX_BYTES} bytes"
        )
    if not text.isascii() and any("\ud800" <= one <= "\udfff" for one in text):
        raise ValueError(f"{text!r:.100} is not a correlation-id: that is UTF-8, and this has bytes of something else")
    return text
