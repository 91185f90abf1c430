"""Blocks: what one commit appends to a partition of a log, in one row. Pure; docs/FORMAT.md draws it.

A block has messages, or events of the journal (events.py). Its key is that of its first record; one checksum covers all
of it, and the key.
"""

import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from radiator.model.errors import DamagedRecord
from radiator.model.headers import ESCAPING_ALL
from radiator.model.journal import JournalEvent
from radiator.model.limits import BLOCK_BYTES, BLOCK_RECORDS, EVENT_BYTES
from radiator.model.message import Message
from radiator.storage.codec import events, records

Entries = Sequence[Message] | Sequence[JournalEvent]

MESSAGES, EVENTS = 0, 1  # what a block has

_EVENTS_VERSIONS = range(records.RECORD_VERSION, records.EVENTS_VERSION + 1)
_EVENTS_MAX = min(BLOCK_RECORDS, BLOCK_BYTES // EVENT_BYTES)
_HEAD = struct.Struct(">BBH")  # version, what it has, how many
HEAD_BYTES = _HEAD.size
_CRC_BYTES = 4
_MESSAGE_HEAD = struct.Struct(">BHIQQ")  # escaping, length of destination, of header block, accepted, expires


def cut(first: int, entries: Entries, cuts: set[int]) -> Iterator[tuple[int, Entries]]:
    """Splits into one stretch for each block, with their first offsets. A new one begins at each offset of `cuts`."""
    if not cuts and isinstance(entries[0], JournalEvent) and len(entries) <= _EVENTS_MAX:
        yield first, entries  # as most commits have it for the journal
        return
    start = size = 0
    for nth, entry in enumerate(entries):
        entry_bytes = entry.size if isinstance(entry, Message) else EVENT_BYTES
        is_full = nth - start == BLOCK_RECORDS or size + entry_bytes > BLOCK_BYTES
        if nth > start and (is_full or first + nth in cuts):
            yield first + start, entries[start:nth]
            start, size = nth, 0
        size += entry_bytes
    if len(entries) > start:
        yield first + start, entries[start:]


def pack(key: bytes, entries: Entries) -> tuple[bytes, bytes]:
    """Returns the row of a block: at least one record, all of one kind."""
    more = 0
    if isinstance(entries[0], Message):
        kind, content = MESSAGES, _packed_messages(entries)  # type: ignore[arg-type]
    else:
        kind = EVENTS
        content, more = events.pack(entries)  # type: ignore[arg-type]
    version = records.RECORD_VERSION + more
    return key, records.seal(key, _HEAD.pack(version, kind, len(entries)) + content)


def _packed_messages(messages: Sequence[Message]) -> bytes:
    """Returns the length of each, and then each."""
    parts: list[bytes] = []
    sizes: list[int] = []
    for message in messages:
        destination, headers, body = message.destination.encode(), message.headers, message.body
        head = _MESSAGE_HEAD.pack(
            message.escaping, len(destination), len(headers), message.accepted_ms, message.expires_ms
        )
        parts += (head, destination, headers, body)
        sizes.append(_MESSAGE_HEAD.size + len(destination) + len(headers) + len(body))
    return b"".join((struct.pack(f">{len(sizes)}I", *sizes), *parts))


def count_of(value: bytes | memoryview) -> int:
    """Returns the number of records that a block claims: from its head alone, unchecked."""
    return int(_HEAD.unpack_from(value)[2]) if len(value) >= _HEAD.size else 0


def checked(key: bytes, value: bytes) -> tuple[int, int]:
    """Returns the kind of a block's records, and their number, every byte checked. Raises DamagedRecord."""
    version = records.RECORD_VERSION + more_of(value)
    records.check(key, value, _HEAD.size, "block", is_longer=True, version=version)
    _, kind, count = _HEAD.unpack_from(value)
    if len(key) != records.RECORD_KEY_BYTES or kind not in (MESSAGES, EVENTS) or count == 0:
        raise _damaged(key)
    return kind, count


def messages_in(key: bytes, value: bytes, start: int = 0) -> Iterator[Message]:
    """Yields the messages of a `checked` block, from the `start`-th on. Raises DamagedRecord."""
    count = count_of(value)
    at = _HEAD.size + 4 * count
    if at > len(value) - _CRC_BYTES:
        raise _damaged(key)
    sizes = struct.unpack_from(f">{count}I", value, _HEAD.size)
    ends = [*accumulate(sizes, initial=at)]
    if ends[-1] != len(value) - _CRC_BYTES or min(sizes) < _MESSAGE_HEAD.size:
        raise _damaged(key)
    for begin, end in pairwise(ends[start:]):
        escaping, destination_bytes, headers_bytes, accepted_ms, expires_ms = _MESSAGE_HEAD.unpack_from(value, begin)
        destination_at = begin + _MESSAGE_HEAD.size
        headers_at = destination_at + destination_bytes
        body_at = headers_at + headers_bytes
        if body_at > end or escaping > ESCAPING_ALL:
            raise _damaged(key)
        yield Message(
            value[destination_at:headers_at].decode(),
            value[headers_at:body_at],
            escaping,
            value[body_at:end],
            accepted_ms,
            expires_ms,
        )


def events_in(key: bytes, value: bytes) -> list[JournalEvent]:
    """Returns the events of a `checked` block. Raises DamagedRecord."""
    try:
        content = memoryview(value)[_HEAD.size : -_CRC_BYTES]
        return events.unpack(content, count_of(value), more_of(value))
    except ValueError:
        raise _damaged(key) from None


def records_in(key: bytes, value: bytes) -> list[Message] | list[JournalEvent]:
    """Returns all records of a block, every byte checked. Raises DamagedRecord."""
    kind, _ = checked(key, value)
    return events_in(key, value) if kind == EVENTS else [*messages_in(key, value)]


def more_of(value: bytes) -> int:
    """Returns how many columns a block of events has besides those that all have: from its head alone, unchecked."""
    if len(value) < _HEAD.size or value[1] != EVENTS or value[0] not in _EVENTS_VERSIONS:
        return 0
    return value[0] - records.RECORD_VERSION


def _damaged(key: bytes) -> DamagedRecord:
    return DamagedRecord(f"The block under key {key.hex()} is damaged: its key, lengths or numbers are impossible.")
