"""All queues of scope "cluster", as this node shares them. Each turn handles some of them, so that thousands do not
hold it up.
"""

from collections import OrderedDict

from radiator.core.cluster.agreement import Agreement
from radiator.core.cluster.handover import Handover
from radiator.core.cluster.neighbour import Neighbourhood
from radiator.core.cluster.peer import Peer
from radiator.core.cluster.work_sharing import Share
from radiator.core.queues.queue import Queue
from radiator.core.routing.destinations import Destinations
from radiator.core.turn import TurnContext
from radiator.model.errors import Refusal
from radiator.model.limits import REPLIES_PER_TURN, SHARES_PER_TURN
from radiator.model.peer import Demand, Supply
from radiator.model.settings import CLUSTER, Declarations


class Shares:
    """all: by the name of the queue. due: the shares to be looked at: True: since links have changed; False: since time
    has passed.
    """

    __slots__ = ("agreement", "all", "around", "context", "declarations", "destinations", "due", "handover")

    def __init__(
        self,
        context: TurnContext,
        declarations: Declarations,
        destinations: Destinations,
        handover: Handover,
        agreement: Agreement,
        around: Neighbourhood,
    ) -> None:
        self.context = context
        self.declarations = declarations
        self.destinations = destinations
        self.handover = handover
        self.agreement = agreement
        self.around = around
        self.all: dict[str, Share] = {}
        self.due: OrderedDict[Share, bool] = OrderedDict()

    def add(self, queue: Queue) -> None:
        """Called for a new queue: one of scope "cluster" is shared."""
        stored = self.destinations.queues.stored.get(queue.number)
        if queue.settings.scope == CLUSTER and stored is not None:
            self.all[queue.name] = Share(stored, self.context, self.handover, self.around)
            self.announce_declared(queue)
        self.agreement.made(queue)

    def announce_declared(self, queue: Queue) -> None:
        """Sends the queue's declaration to every linked node that has not got it."""
        for peer in self.around.peers.values():
            if peer.link is not None and peer.is_welcome:
                self.agreement.say(peer.link, queue.name, queue.settings)

    def of(self, name: str) -> Share | None:
        """Returns the share of the queue of that name, if the queue is, or would be, of scope "cluster" here."""
        share = self.all.get(name)
        if share is None or share.queue.is_gone:
            if self.declarations.queue_settings(name).scope != CLUSTER:
                return None
            try:
                self.destinations.queues.get(name)
            except Refusal:
                return None
            share = self.all.get(name)
        return None if share is None or share.queue.is_gone else share

    def here(self, queue: Queue) -> Share | None:
        """Returns the share of that very queue."""
        share = self.all.get(queue.name)
        return share if share is not None and share.queue is queue else None

    # ---- words of other nodes ---------------------------------------------------------------------------------------

    def asked(self, peer: Peer, word: Demand) -> None:
        """ON RECEIVE Demand."""
        share = self.of(word.queue)
        if share is not None:
            share.asked(peer, word)

    def offered(self, peer: Peer, word: Supply) -> None:
        """ON RECEIVE Supply."""
        share = self.of(word.queue)
        if share is not None:
            share.supply_from(peer, word)

    def granted(self, peer: Peer, name: str, through: int) -> None:
        """ON RECEIVE Credit, of that queue."""
        share = self.of(name)
        if share is not None:
            share.credit_from(peer, through)

    def unlinked(self, peer: Peer) -> None:
        """Forgets all that the node has sent about any queue."""
        for share in self.all.values():
            share.unlinked(peer)

    # ---- over time --------------------------------------------------------------------------------------------------

    def ticked(self) -> None:
        """Makes shares due that depend on the time, and removes those whose queue is gone."""
        for share in [*self.all.values()]:
            if share.queue.is_gone:
                del self.all[share.queue.name]
            elif share.is_busy or self.around.is_draining:
                self.due.setdefault(share, False)

    def reconsider(self) -> None:
        """Makes every share due: a link, or the drain of this node, has changed."""
        self.due.update(dict.fromkeys(self.all.values(), True))

    def step(self) -> None:
        """Handles some shares that are due: thousands of queues must not hold up the turn."""
        for _ in range(min(len(self.due), SHARES_PER_TURN)):
            if len(self.context.turn.replies) >= REPLIES_PER_TURN:
                return
            share, is_changed = self.due.popitem(last=False)
            if is_changed:
                if not share.queue.is_gone:
                    self.announce_declared(share.queue)
                share.reconsider()
            else:
                share.ticked()
