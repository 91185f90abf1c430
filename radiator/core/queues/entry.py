"""A message's place in one queue: what the broker keeps of it in memory. What is on the disk is `Message`,
unchanged.
"""

from dataclasses import dataclass

from radiator.core.states import State
from radiator.model.message import Message
from radiator.model.replies import MESSAGE_COST_BYTES


class Stub(Message):
    """What stays in memory of a message whose bytes are only on the disk: its times.

    Its other fields are not set: using one is a bug, and raises AttributeError. Its size is the entry's.
    """

    __slots__ = ()

    def __init__(self, message: Message) -> None:
        self.accepted_ms = message.accepted_ms
        self.expires_ms = message.expires_ms


@dataclass(slots=True, eq=False)
class Entry:
    """`position` orders the queue and makes the message id. size: the bytes that bounds and ledgers count. was_out: a
    consumer of this node has had it.
    """

    position: int
    message: Message
    state: State
    size: int
    redeliveries: int = 0
    redelivered: bool = False
    was_out: bool = False

    @property
    def since_ms(self) -> int:
        """Since when the message may be delivered, as far as this node knows, in milliseconds since the epoch."""
        return self.message.accepted_ms

    @property
    def is_over(self) -> bool:
        """Whether it may not be delivered once its time to live is over."""
        return True

    @property
    def is_stub(self) -> bool:
        """Whether its bytes must be read back before they can be used."""
        return type(self.message) is Stub


@dataclass(slots=True, eq=False)
class DelayedEntry(Entry):
    """An entry that is, or was, delayed until due_ms, milliseconds since the epoch."""

    due_ms: int = 0

    @property
    def since_ms(self) -> int:
        return self.due_ms


@dataclass(slots=True, eq=False)
class PassingEntry(Entry):
    """An entry that is delivered in the turn in which it becomes READY, or not at all (passing.py). is_fresh: that turn
    is not over.
    """

    is_fresh: bool = True

    @property
    def is_over(self) -> bool:
        return not self.is_fresh


def cost_of(messages: int, size: int) -> int:
    """Returns the memory that this number of messages, of `size` bytes in all, takes."""
    return messages * 2 * MESSAGE_COST_BYTES + size
