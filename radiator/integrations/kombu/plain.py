"""The headers of a message of kombu as headers of its SEND: what an exchange of type headers looks at.

They are text there, as those of AMQP's clients are; a program gets back the JSON beside them.
"""

import json
from collections.abc import Mapping
from typing import Any

from radiator.model.header_bindings import ARGUMENTS_MAX_BYTES
from radiator.model.headers import ADDED, AMQP_PROPERTIES

LINES_MAX_BYTES = 16 * 1024  # more is left out: escaped it may be twice as long, and a broker takes 64 KiB

# what the broker takes a SEND's headers for; a program's own of such a name has amqp- before it
_TAKEN = frozenset(
    [
        *(field.name.decode() for field in (*ADDED, AMQP_PROPERTIES)),
        *("ack", "app-id", "cluster-id", "content-encoding", "content-length", "content-type", "correlation-id"),
        *("dedup-id", "delay", "deliver-at", "destination", "expiration", "expires", "immediate", "kombu"),
        *("kombu-length", "mandatory", "message-id", "on-refusal", "partition-key", "persistent", "priority"),
        *("receipt", "redelivered", "reply-to", "subscription", "timestamp", "traceparent", "tracestate"),
        *("transaction", "type", "user-id"),
    ]
)


def lines(headers: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A header for each, but none for what STOMP cannot carry. A value that is too long for any binding to name is cut:
    a binding can still ask whether it exists.
    """
    found: list[tuple[str, str]] = []
    left_bytes = LINES_MAX_BYTES
    for name, value in headers.items():
        text = _text(value)
        if not isinstance(name, str) or not name or text is None:
            continue
        line = f"amqp-{name}" if name in _TAKEN else name, text[:ARGUMENTS_MAX_BYTES]
        size_bytes = _size_bytes("".join(line))
        if 0 <= size_bytes <= left_bytes:
            left_bytes -= size_bytes
            found.append(line)
    return found


def _text(value: Any) -> str | None:
    """The value as text; None: STOMP cannot carry it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    if isinstance(value, list | tuple | dict):
        try:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError):
            return None
    return str(value) if isinstance(value, int | float) else None


def _size_bytes(text: str) -> int:
    """The size in UTF-8; -1: it cannot be encoded."""
    try:
        return -1 if "\0" in text else len(text.encode())
    except UnicodeEncodeError:
        return -1
