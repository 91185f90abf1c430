"""The properties of a message on its way to another broker: the bytes that came, but for what would be read anew.

A message is published a second time here, to the one queue that it was in. What told the old broker where it goes, who
has sent it, and how often it was delivered is no order to the new one.
"""

from collections import Counter

from radiator.model.amqp_properties import Properties, encode, parse
from radiator.model.amqp_tables import encode_table
from radiator.model.errors import Violation
from radiator.model.headers import PARTITION_KEY
from radiator.model.traces import TRACEPARENT

RENAMED = {"CC": "x-migrated-cc", "BCC": "x-migrated-bcc"}
"""They had their effect when the message was sent first; a second time they would make copies."""
USER_ID = "x-migrated-user-id"
REMOVED = ("x-delivery-count", "redelivery-count")
"""What the old broker has put in: how often it has delivered the message (RabbitMQ's quorum queues; Radiator)."""
BIG_BYTES = 256 * 1024
"""A message above it, or with properties that the broker might refuse, goes alone: then it is known what is refused."""
BIG_PROPERTIES_BYTES = 4096

_HAS_USER_ID, _HAS_EXPIRATION = 1 << 4, 1 << 8
_HAS_HEADERS = 1 << 13
_WORDS = tuple(word.encode() for word in (*RENAMED, *REMOVED))
_TO_BE_SEEN_ALONE = (PARTITION_KEY.name, TRACEPARENT.name)


def adapted(data: bytes, user: str | None, notes: Counter[str]) -> tuple[bytes, bool]:
    """Flags and list for the new broker, and whether it may refuse them. user: whom a message may name as its sender
    there. notes: how many messages were changed, or will be other than they were, by how.
    """
    flags = int.from_bytes(data[:2])
    if flags & _HAS_EXPIRATION:
        notes["expiration"] += 1
    has_words = flags & _HAS_HEADERS and any(word in data for word in _WORDS)
    if not has_words and not flags & _HAS_USER_ID:
        return data, len(data) > BIG_PROPERTIES_BYTES or _is_odd(data, flags)
    try:
        properties = parse(data)
    except Violation:
        return data, True
    if _changed(properties, user, notes):
        data = encode(properties)
    return data, len(data) > BIG_PROPERTIES_BYTES


def _is_odd(data: bytes, flags: int) -> bool:
    """Whether the new broker may find something to say about them."""
    if not flags & _HAS_HEADERS:
        return False
    if any(word in data for word in _TO_BE_SEEN_ALONE):
        return True
    try:
        parse(data)
    except Violation:
        return True
    return False


def _changed(properties: Properties, user: str | None, notes: Counter[str]) -> bool:
    headers = properties.headers
    was = len(notes), notes.total()
    if properties.user_id is not None and properties.user_id != user:
        headers.setdefault(USER_ID, properties.user_id)
        properties.user_id = None
        notes["user-id"] += 1
    for name, other in RENAMED.items():
        if name in headers:
            headers[other] = headers.pop(name)
            notes[name] += 1
    for name in REMOVED:
        if name in headers:
            del headers[name]
            notes[name] += 1
    if (len(notes), notes.total()) == was:
        return False
    properties.table = encode_table(headers) if headers else None
    return True
