"""The JSON of a message, in answers and in events."""

import base64
from typing import Any

from radiator.model.amqp_properties import expanded_pairs
from radiator.model.message import Message


def members(message: Message) -> dict[str, Any]:
    """Returns `destination`, `timestamp` (ms since the epoch), `headers` (the first of repeated names), and `body` if
    that is UTF-8, else `body_base64`.
    """
    found = {
        "destination": message.destination,
        "timestamp": message.accepted_ms,
        "headers": headers_of(message, {}),
    }
    try:
        return {**found, "body": message.body.decode()}
    except UnicodeDecodeError:
        return {**found, "body_base64": base64.b64encode(message.body).decode()}


def headers_of(message: Message, found: dict[str, str]) -> dict[str, str]:
    """Adds a message's own headers to `found`, whose names are kept; the first of repeated names counts."""
    for name, value in expanded_pairs(message.headers, message.escaping):
        found.setdefault(name.decode("utf-8", "replace"), value.decode("utf-8", "replace"))
    return found
