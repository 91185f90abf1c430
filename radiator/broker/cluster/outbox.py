"""The copies of fanouts that wait for one other node: a durable queue, handed over in order."""

from collections.abc import Callable

from radiator.broker.cluster.handover import Handover
from radiator.broker.cluster.peer import FANOUTS, Peer
from radiator.broker.entry import Entry
from radiator.broker.kinds.durable_queue import DurableQueue
from radiator.limits import PASSED_OVER_MAX


class Outbox:
    """given, credit: how many were handed over on this link, and how many more may be. is_lacking: the log has it."""

    __slots__ = ("credit", "given", "handover", "is_lacking", "peer", "queue", "tell_lacking")

    def __init__(
        self, queue: DurableQueue, peer: Peer, handover: Handover, tell_lacking: Callable[[Peer, str], None]
    ) -> None:
        self.queue = queue
        self.peer = peer
        self.handover = handover
        self.credit = self.given = 0
        self.is_lacking = False
        self.tell_lacking = tell_lacking
        queue.on_pumped = self.pumped

    def granted(self, through: int) -> None:
        """The other node takes so many on this link, in all."""
        self.credit = through - self.given
        self.pumped()

    def unlinked(self, peer: Peer) -> None:
        """Credit lasts as long as its link."""
        self.credit = self.given = 0
        self.is_lacking = False

    def is_taken(self, entry: Entry) -> bool:
        """Whether the other node has declared its fanout."""
        return entry.message.destination.removeprefix(FANOUTS) in self.peer.fanouts

    def pumped(self) -> None:
        """Hand over what is ready, in order; what the other node does not take is passed over."""
        queue, peer = self.queue, self.peer
        stays: list[Entry] = []
        while self.credit > 0 and len(stays) < PASSED_OVER_MAX and not queue.is_gone:
            if not self.handover.has_room(peer, self.pumped) or not queue.has_ready():
                break
            head = queue.peek_head()
            if (
                head is not None
                and self.is_taken(head)
                and not self.handover.fits(peer, head.message.destination, head.size, self.pumped)
            ):
                break
            entry = queue.take_head()
            if entry is None:
                continue
            if not self.is_taken(entry):
                stays.append(entry)
                continue
            queue.doubt(entry)
            self.credit -= 1
            self.given += 1
            self.handover.offer(peer, queue, entry, entry.message.destination, (), queue.ready_count)
        for entry in stays:
            queue.put_back(entry)
        if stays and not self.is_lacking:
            self.is_lacking = True
            self.tell_lacking(peer, stays[0].message.destination.removeprefix(FANOUTS))
