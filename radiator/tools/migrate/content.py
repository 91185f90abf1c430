"""The properties of a message on its way to another broker: the bytes that came, except for what would take effect
again.

A message is published a second time here, to the one queue that it was in. What told the old broker where it goes, who
sent it, and how often it was delivered must not tell the new one.
"""

from radiator.model.amqp_properties import Properties, encode, parse, stored_block
from radiator.model.amqp_tables import encode_table
from radiator.model.errors import Violation
from radiator.model.headers import PARTITION_KEY
from radiator.model.traces import TRACEPARENT

RENAMED = {"CC": "x-migrated-cc", "BCC": "x-migrated-bcc"}
"""They had their effect when the message was first sent; a second time they would make copies."""
USER_ID = "x-migrated-user-id"
REMOVED = ("x-delivery-count", "redelivery-count")
"""What the old broker has put in: how often it has delivered the message (RabbitMQ's quorum queues; Radiator)."""
BIG_BYTES = 256 * 1024
"""A message above it, or with properties that the broker might refuse, goes alone: then it is known what is refused."""
BIG_PROPERTIES_BYTES = 4096

_HAS_USER_ID, _HAS_EXPIRATION = 1 << 4, 1 << 8
_HAS_HEADERS = 1 << 13
_WORDS = tuple(word.encode() for word in (*RENAMED, *REMOVED))
_READ_BY_RADIATOR = (PARTITION_KEY.name, TRACEPARENT.name)


def adapted(data: bytes, user: str | None) -> tuple[bytes, bool, tuple[str, ...]]:
    """Flags and list for the new broker, whether it may refuse them, and how the message has changed. user: whom a
    message may name as its sender there; None: nobody.
    """
    flags = int.from_bytes(data[:2])
    notes = ("expiration",) if flags & _HAS_EXPIRATION else ()
    has_words = flags & _HAS_HEADERS and any(word in data for word in _WORDS)
    if not has_words and not flags & _HAS_USER_ID:
        return data, _is_odd(data, flags), notes
    try:
        properties = parse(data)
    except Violation:
        return data, True, notes
    changes = _changed(properties, user)
    if changes:
        data = encode(properties)
    return data, _is_odd(data, flags), (*notes, *changes)


def _is_odd(data: bytes, flags: int) -> bool:
    """Whether the new broker may refuse them."""
    if len(data) > BIG_PROPERTIES_BYTES:
        return True
    if not flags & _HAS_HEADERS:
        return False
    try:
        # what Radiator does with each; without these words it looks at the table alone
        (stored_block if any(word in data for word in _READ_BY_RADIATOR) else parse)(data)
    except Violation:
        return True
    return False


def _changed(properties: Properties, user: str | None) -> list[str]:
    headers = properties.headers
    changes = []
    if properties.user_id is not None and properties.user_id != user:
        headers.setdefault(USER_ID, properties.user_id)
        properties.user_id = None
        changes.append("user-id")
    for name, other in RENAMED.items():
        if name in headers:
            headers[other] = headers.pop(name)
            changes.append(name)
    for name in REMOVED:
        if headers.pop(name, None) is not None:
            changes.append(name)
    if changes:
        properties.table = encode_table(headers) if headers else None
    return changes
