"""The copies of fanouts and topics that wait for one other node: a durable queue, handed over in order."""

from collections.abc import Callable

from radiator.core.cluster.handover import Handover
from radiator.core.cluster.peer import FANOUTS, Peer
from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.queues.entry import Entry
from radiator.model.limits import PASSED_OVER_MAX


class Outbox:
    """given: how many copies were handed over on this link; credit: how many more may be. is_lacking: it was logged
    that the other node lacks a fanout.
    """

    __slots__ = ("credit", "given", "handover", "is_lacking", "peer", "queue", "note_lacking")

    def __init__(
        self, queue: DurableQueue, peer: Peer, handover: Handover, note_lacking: Callable[[Peer, str], None]
    ) -> None:
        self.queue = queue
        self.peer = peer
        self.handover = handover
        self.credit = self.given = 0
        self.is_lacking = False
        self.note_lacking = note_lacking
        queue.observe(self.pumped)

    def granted(self, through: int) -> None:
        """Called when the other node takes `through` copies on this link, in all."""
        self.credit = through - self.given
        self.pumped()

    def unlinked(self, peer: Peer) -> None:
        """Ends the credit, which lasts as long as its link."""
        self.credit = self.given = 0
        self.is_lacking = False

    def is_taken(self, entry: Entry) -> bool:
        """Whether the other node takes the copy: it has declared its fanout, or has said on this link what its durable
        subscriptions want.
        """
        address = entry.message.destination
        if address.startswith(FANOUTS):
            return address.removeprefix(FANOUTS) in self.peer.fanouts
        return self.peer.has_stood

    def left(self, address: str) -> int:
        """Returns, for a copy of a fanout, how many copies wait here; for one of a topic, how often the other node is
        expected to store it.
        """
        return self.queue.ready_count if address.startswith(FANOUTS) else self.peer.times(address)

    def pumped(self) -> None:
        """Hands over copies that are ready, in order. Copies that the other node does not take are passed over; while
        the bytes of a large copy go ahead, later copies of other fanouts go first.
        """
        queue, peer, handover = self.queue, self.peer, self.handover
        stays: list[Entry] = []
        # ahead: fanouts whose large copy goes ahead; "" stands for all topics, whose copies keep their order
        lacking, ahead = "", set()
        while self.credit > 0 and len(stays) < PASSED_OVER_MAX and not queue.is_gone:
            if not handover.may_offer(peer, self.pumped) or not queue.has_ready():
                break
            entry = queue.take_head()
            if entry is None:
                continue
            address = entry.message.destination
            is_of_fanout = address.startswith(FANOUTS)
            order = address if is_of_fanout else ""
            if not self.is_taken(entry):
                lacking = lacking or (address.removeprefix(FANOUTS) if is_of_fanout else "")
                stays.append(entry)
            elif order in ahead or not handover.is_carried(queue, entry):
                stays.append(entry)
            elif not handover.fits(peer, address, entry.size, self.pumped):
                stays.append(entry)
                break
            elif not handover.has_gone_ahead(peer, address, entry, self.pumped):
                stays.append(entry)
                ahead.add(order)
            else:
                queue.in_doubt.offer(entry)
                self.credit -= 1
                self.given += 1
                handover.offer(peer, queue, entry, address, (), self.left(address))
        for entry in stays:
            queue.window.put_back(entry)
        if lacking and not self.is_lacking:
            self.is_lacking = True
            self.note_lacking(peer, lacking)
