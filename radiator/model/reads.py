"""Reads that the broker may ask for; the answers come as events (Loaded, Found in commands.py).

A read sees the last committed state, nothing of a batch that is open or being committed.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class ReadQueue:
    """The queue's messages after a position (0: from its head), in order, up to either limit, at least one if there is
    any. With `positions`, ascending: those of them that are there, whatever the limits.
    """

    request: int
    queue: int
    after: int
    messages_max: int
    bytes_max: int
    positions: Sequence[int] = ()


@dataclass(slots=True)
class ReadDelayed:
    """The queue's delayed messages that are due before a time, in the order of time and then position, up to either
    limit, at least one if there is any; damaged ones count for no limit. Only those after a time and a position (0 and
    0: from the first).
    """

    request: int
    queue: int
    before_ms: int
    messages_max: int
    bytes_max: int
    after_ms: int = 0
    after: int = 0


@dataclass(slots=True)
class DedupLookup:
    """Whether a dedup-id is remembered for the queue, and not past its time at `now_ms`."""

    request: int
    queue: int
    dedup_id: bytes
    now_ms: int


@dataclass(slots=True)
class ReadLog:
    """Records of a partition from that offset on, in order, up to either limit, at least one if any is there."""

    request: int
    log: int
    partition: int
    offset: int
    messages_max: int
    bytes_max: int


@dataclass(slots=True)
class ReadPrepared:
    """SENDs of a prepared transaction from that number on, in order, up to either limit; if any is there, one."""

    request: int
    transaction: int
    first: int
    messages_max: int
    bytes_max: int


ReadRequest = ReadQueue | ReadDelayed | DedupLookup | ReadLog | ReadPrepared
