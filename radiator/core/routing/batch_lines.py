"""Who may add to the open batch, and who waits for the next one. A large COMMIT fills a batch, and a SEND behind ten of
them would wait for ten: so small and large additions each have a line of their own, and a share of each batch.
"""

from radiator.core.producer import Producer
from radiator.core.routing.waiting import WaitList
from radiator.core.turn import TurnContext
from radiator.model.limits import BATCH_BYTES, BATCH_WRITES, SMALL_BYTES


class BatchLines:
    """small, large: who waits to add at most SMALL_BYTES, and more; in each line first come, first served.

    number: of the last batch with something large. large_bytes, large_writes: how much of that batch it is.
    """

    __slots__ = ("context", "large", "large_bytes", "large_writes", "number", "small")

    def __init__(self, context: TurnContext) -> None:
        self.context = context
        self.small = WaitList("batch", is_brief=True)
        self.large = WaitList("batch", is_brief=True)
        self.number = self.large_bytes = self.large_writes = 0

    def wait_for(self, producer: Producer, size: int) -> WaitList | None:
        """Returns the line in which an addition of that many bytes must wait; None: it goes into the open batch."""
        batch = self.context.open
        has_large = self.number == batch.number
        large_bytes, large_writes = (self.large_bytes, self.large_writes) if has_large else (0, 0)
        fits = batch.size + size <= BATCH_BYTES
        if is_small(size):
            line, writes = self.small, len(batch.writes) - large_writes
            if self.large.waiters or (large_bytes and not fits):
                # as much as a batch may hold for the next large one to go into it
                fits = batch.size - large_bytes + size <= BATCH_BYTES // 8
        else:
            line, writes = self.large, large_writes
            # it takes a batch with little in it: waiting for an empty one, it would starve behind ACKs
            fits = fits or batch.size <= BATCH_BYTES // 8
        if line.waiters and line.waiters[0] is not producer:
            return line
        return None if fits and writes < BATCH_WRITES else line

    def added(self, size: int, batch_bytes: int, writes: int) -> None:
        """Called when what `wait_for` has let in is in the open batch, which it made that much larger."""
        if is_small(size):
            return
        if self.number != self.context.open.number:
            self.number, self.large_bytes, self.large_writes = self.context.open.number, 0, 0
        self.large_bytes += batch_bytes
        self.large_writes += writes

    @property
    def both(self) -> tuple[WaitList, WaitList]:
        return self.small, self.large

    @property
    def is_awaited(self) -> bool:
        """Whether anybody waits."""
        return bool(self.small.waiters or self.large.waiters)


def is_small(size: int) -> bool:
    """Whether an addition of that many bytes waits in the line of small ones."""
    return size <= min(SMALL_BYTES, BATCH_BYTES // 8)
