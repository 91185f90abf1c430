"""The dedup-ids of one queue that a look-up on the disk may not see yet. The others are only on the disk."""

from radiator.core.turn import WRITE_COST_BYTES, TurnContext
from radiator.model.reads import DedupLookup
from radiator.model.writes import Remember


class Dedup:
    """pending: ids written lately -> the batch that stores their first SEND, and the end of their window.
    lookups: look-ups whose answers are not used yet, in order -> the last batch on the disk when they were asked.
    """

    __slots__ = ("context", "lookups", "number", "pending")

    def __init__(self, number: int, context: TurnContext) -> None:
        self.number = number
        self.context = context
        self.pending: dict[bytes, tuple[int, int]] = {}
        self.lookups: dict[int, int] = {}

    def batch_of(self, dedup_id: bytes) -> int | None:
        """Returns the number of the batch that stores the id's first SEND; None: the id is not in memory."""
        number, until_ms = self.pending.get(dedup_id, (0, 0))
        return number if until_ms >= self.context.now_ms else None

    def look_up(self, dedup_id: bytes) -> int:
        """Asks the disk; returns the number of the request. What is pending stays until the answer has been used."""
        context = self.context
        request = context.next_position()
        self.lookups[request] = context.committed
        context.turn.read_requests.append(DedupLookup(request, self.number, dedup_id, context.now_ms))
        return request

    def used(self, request: int) -> None:
        """Called when the answer has been used, or nobody waits for it any longer."""
        del self.lookups[request]

    def remember(self, dedup_id: bytes, window_s: float) -> None:
        """Remembers the id for that long: a SEND with the same id is a duplicate."""
        context = self.context
        until_ms = context.now_ms + int(window_s * 1000)
        # D14: in the batch that holds the message's Put
        context.write(Remember(self.number, dedup_id, until_ms), 2 * WRITE_COST_BYTES + len(dedup_id))
        self.pending[dedup_id] = (context.open.number, until_ms)

    def committed(self) -> None:
        """Called after a commit: forgets what every look-up that is asked from now on will find on the disk."""
        seen = next(iter(self.lookups.values()), self.context.committed)
        self.pending = {i: (number, end) for i, (number, end) in self.pending.items() if number > seen}
