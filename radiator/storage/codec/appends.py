"""The appends of a batch to logs, as blocks (blocks.py). Pure."""

from collections.abc import Iterable

from radiator.model.journal import JournalEvent
from radiator.model.message import Message
from radiator.model.writes import Append, AppendEvent, KeepSegments, Write
from radiator.storage.codec import blocks, records
from radiator.storage.codec.operations import Row

Partition = tuple[int, int]
"""A log, and the number of its partition."""


def appended(appends: Iterable[Append | AppendEvent], others: Iterable[Write]) -> list[Row]:
    """Returns the blocks, in the order of their keys. No block is in two segments: those that begin in this batch are
    among its other writes.
    """
    firsts: dict[Partition, set[int]] = {}
    for write in others:
        if isinstance(write, KeepSegments):
            for segment in write.segments:
                firsts.setdefault((segment.log, segment.partition), set()).add(segment.first)
    rows = [
        blocks.pack(records.record_key(*partition, offset), entries)
        for partition, (first, messages, events) in _runs(appends).items()
        for offset, entries in blocks.cut(first, messages or events, firsts.get(partition, set()))
    ]
    rows.sort()
    return rows


def _runs(appends: Iterable[Append | AppendEvent]) -> dict[Partition, tuple[int, list[Message], list[JournalEvent]]]:
    """Returns, for each partition, the first offset, and what follows it. Raises AssertionError if there is a gap."""
    runs: dict[Partition, tuple[int, list[Message], list[JournalEvent]]] = {}
    for write in appends:
        partition = (write.log, write.partition)
        first, messages, events = runs.setdefault(partition, (write.offset, [], []))
        following = first + len(messages) + len(events)
        assert write.offset == following, f"{partition} goes on with offset {write.offset} instead of {following}"
        if isinstance(write, Append):
            messages.append(write.message)
        else:
            events.extend(write.events)
        assert not (messages and events), f"{partition} gets both messages and events"
    return runs
