"""The linked nodes that share a queue: which of them has most of it, and whom a Demand is passed on to."""

from collections.abc import Sequence

from radiator.core.cluster.neighbour import Neighbour, Neighbourhood
from radiator.core.cluster.peer import Peer
from radiator.core.turn import TurnContext
from radiator.model.limits import DEMAND_EVERY_S, NODES_MAX, QUEUE_HOPS_MAX
from radiator.model.peer import Demand


class Neighbours:
    """all: by name, the node that was served longest ago first. queue: the queue's name. passed_s: for each asking
    node, when its Demand was last passed on.
    """

    __slots__ = ("all", "around", "context", "passed_s", "queue")

    def __init__(self, queue: str, context: TurnContext, around: Neighbourhood) -> None:
        self.queue = queue
        self.context = context
        self.around = around
        self.all: dict[str, Neighbour] = {}
        self.passed_s: dict[str, float] = {}

    def of(self, peer: Peer) -> Neighbour:
        """Returns what is known of that node."""
        known = self.all.get(peer.name)
        if known is None:
            assert peer.link is not None, "only who is linked says something, or is told"
            known = self.all[peer.name] = Neighbour(peer, peer.link)
        return known

    def remove(self, peer: Peer) -> Neighbour | None:
        """Forgets a node whose link is gone, with all that it has sent. Returns it."""
        return self.all.pop(peer.name, None)

    def was_served(self, name: str) -> None:
        """Moves the node behind the others."""
        self.all[name] = self.all.pop(name)

    @property
    def have_credit(self) -> bool:
        """Whether any neighbour takes more messages from this node."""
        return any(taker.credit > 0 for taker in self.all.values())

    def best_giver(self, path: Sequence[str] = ()) -> Neighbour | None:
        """Returns a giver: one that is being drained, else the one with most messages, and of equal ones the nearest;
        never one that wants messages itself.

        path: that of the Demand to be answered. A node that is near to a node in the path, or too far away, is no
        giver.
        """
        best, best_rank = None, (True, 0, 0, "")
        for name, giver in self.all.items():
            if giver.ready <= 0 or giver.credit:
                continue
            if path and (giver.hops >= QUEUE_HOPS_MAX or self.is_near(path, name)):
                continue
            rank = (not giver.is_draining, -giver.ready, giver.hops, name)
            if best is None or rank < best_rank:
                best, best_rank = giver, rank
        return best

    def best_for_takers(self) -> Neighbour | None:
        """Returns the fullest giver for a taker that has granted us credit and cannot ask that giver itself."""
        found = (self.best_giver((name,)) for name, taker in self.all.items() if taker.credit)
        return next((giver for giver in found if giver is not None), None)

    def credit_beyond(self, giver: Neighbour) -> int:
        """Returns the credit of all but that giver and those who can ask it themselves."""
        return sum(t.credit for name, t in self.all.items() if t.credit and not self.is_near((name,), giver.peer.name))

    def pass_demand(self, path: Sequence[str]) -> None:
        """Passes a Demand on to nodes that the asking node cannot ask itself, at most once in DEMAND_EVERY_S."""
        asker, now_s = path[0], self.context.now_s
        if self.around.is_draining or len(path) >= QUEUE_HOPS_MAX:
            return
        if now_s - self.passed_s.get(asker, -DEMAND_EVERY_S) < DEMAND_EVERY_S:
            return
        if len(self.passed_s) >= NODES_MAX:
            self.passed_s.clear()
        self.passed_s[asker] = now_s
        for name, peer in self.around.peers.items():
            if peer.link is not None and peer.is_welcome and not self.is_near(path, name):
                peer.link.send(Demand(self.queue, [*path, self.around.name]))

    def is_near(self, path: Sequence[str], name: str) -> bool:
        """Whether that node is in the path of a Demand, or a node in the path can ask it without this node."""
        return any(name == other or self.around.are_neighbours(name, other) for other in path)
