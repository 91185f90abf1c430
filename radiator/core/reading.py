"""Reads back unacked messages whose bytes are on the disk alone, before they are settled."""

from collections import deque
from collections.abc import Callable, Sequence

from radiator.core.connections import Delivery
from radiator.core.routing.waiting import WaitList
from radiator.model.limits import LOAD_BYTES, LOAD_MESSAGES
from radiator.model.reads import Loaded


class Reading(WaitList):
    """Commands that need the messages wait here. then: called when the last was read, or is known to be damaged."""

    __slots__ = ("asked", "left", "then")

    def __init__(self, deliveries: Sequence[Delivery], then: "Callable[[Reading], None]") -> None:
        super().__init__("the disk, which messages are read back from,", is_timed=False)
        self.left = deque(sorted(deliveries, key=_place))
        self.asked: list[Delivery] = []
        self.then = then
        self.ask()

    def ask(self) -> None:
        """Asks for the next slice, of one queue."""
        queue = self.left[0].subscription.queue
        self.asked = [self.left.popleft()]
        bytes_left = LOAD_BYTES - self.asked[0].entry.size
        while self.left and self.left[0].subscription.queue is queue and len(self.asked) < LOAD_MESSAGES:
            bytes_left -= self.left[0].entry.size
            if bytes_left < 0:
                break
            self.asked.append(self.left.popleft())
        queue.read([delivery.entry.position for delivery in self.asked], self.answered)

    def answered(self, answer: Loaded) -> None:
        """Called when a slice was read. Its deliveries have their bytes again; a damaged one is no longer unacked."""
        found = {stored.position: stored.message for stored in answer.messages}
        for delivery in self.asked:
            delivery.subscription.queue.out_read(delivery, found)
        if self.left:
            self.ask()
        else:
            self.then(self)


def one_slice(deliveries: Sequence[Delivery]) -> list[Delivery]:
    """Returns the first of them, as many as should be in memory at once."""
    size = count = 0
    for delivery in deliveries[:LOAD_MESSAGES]:
        size += delivery.entry.size
        if count and size > LOAD_BYTES:
            break
        count += 1
    return list(deliveries[:count])


def _place(delivery: Delivery) -> tuple[int, int]:
    queue = delivery.subscription.queue
    return queue.number, delivery.entry.position
