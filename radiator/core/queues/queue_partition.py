"""The messages of one key in a partitioned queue, as far as memory knows them."""

from dataclasses import dataclass, field

from radiator.core.connections import Subscription
from radiator.core.queues.assignments import Assignee

KEY_COST_BYTES = 600  # what a key takes in memory besides its own bytes, while it is known


@dataclass(slots=True, eq=False)
class QueuePartition:
    """Is kept while any of its messages is in memory, with a consumer, delayed after it came back, or known to be on
    the disk.

    key: None: this is a single message without a key. hash: of the key, as the store has it; b"": no key. line: a heap
    of the positions of those that are READY in memory; some may have left. out: how many are with `holder`. held:
    positions of those that came back and are delayed, in order: nothing after the first is delivered. coming: how many
    are in memory and on their way to READY. behind: how many are only on the disk, after all of these, and after the
    position `after`; behind_from, behind_in: the first and the last batch that put one of them there. free_at: the
    position under which it is listed as free, 0: it is not. assignee: the consumer that gets its messages if it has
    room. last: the consumer of the last delivery.
    """

    key: bytes | None
    hash: bytes
    line: list[int] = field(default_factory=list)
    out: int = 0
    holder: Subscription | None = None
    held: list[int] = field(default_factory=list)
    coming: int = 0
    behind: int = 0
    after: int = 0
    behind_from: int = 0
    behind_in: int = 0
    free_at: int = 0
    assignee: Assignee | None = None
    last: Assignee | None = None

    @property
    def held_cost_bytes(self) -> int:
        """The memory that the partition takes for each delayed message that holds its key."""
        return KEY_COST_BYTES + len(self.key or b"")

    @property
    def is_empty(self) -> bool:
        """Whether nothing of the partition is left, so that a message that comes now has no other before it."""
        return not (self.line or self.out or self.held or self.coming or self.behind)
