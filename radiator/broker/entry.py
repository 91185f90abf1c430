"""A message's place in one queue: what the broker keeps of it in memory. What is on the disk is `Message`,
unchanged.
"""

from dataclasses import dataclass

from radiator.broker.states import State
from radiator.message import Message


@dataclass(slots=True, eq=False)
class Entry:
    """`position` orders the queue and is the message id. size: bytes that bounds and ledgers count. was_out: a consumer
    of this node had it.
    """

    position: int
    message: Message
    state: State
    size: int
    redeliveries: int = 0
    redelivered: bool = False
    was_out: bool = False


@dataclass(slots=True, eq=False)
class DelayedEntry(Entry):
    """One that is, or was, delayed until due_ms, milliseconds since the epoch."""

    due_ms: int = 0
