"""Accepts what other nodes hand over, if it was granted, and puts it into its queues."""

from dataclasses import replace

from radiator.core.cluster.capacity import Capacities
from radiator.core.cluster.gossip import Gossip
from radiator.core.cluster.handover import Handover
from radiator.core.cluster.link import Link
from radiator.core.cluster.links import Links
from radiator.core.cluster.neighbour import Neighbourhood
from radiator.core.cluster.peer import Peer
from radiator.core.cluster.shares import Shares
from radiator.core.cluster.standing import StandingPatterns
from radiator.core.queues.target import Target
from radiator.core.routing.admission import Admission
from radiator.core.routing.destinations import Destinations
from radiator.core.routing.plan import with_ttl
from radiator.core.turn import TurnContext
from radiator.model.addresses import FANOUT, QUEUE, TOPIC, split
from radiator.model.errors import LinkError, Refusal, shown
from radiator.model.headers import with_node_path
from radiator.model.limits import LINK_CAPACITY_BYTES, LINK_CREDIT_MAX, LINK_WINDOW, REDELIVERIES_MAX
from radiator.model.message import Message
from radiator.model.peer import Credit, Transfer, Want, cost_bytes
from radiator.model.settings import BLOCK, REJECT, Declarations


class Arrivals:
    """full: queues of durable subscriptions that had no room when a copy arrived. standing: None: this node takes no
    copies.
    """

    __slots__ = (
        "admission", "around", "context", "declarations", "destinations", "full", "gossip", "handover", "links",
        "capacities", "shares", "standing",
    )  # fmt: skip

    def __init__(
        self,
        context: TurnContext,
        declarations: Declarations,
        destinations: Destinations,
        admission: Admission,
        handover: Handover,
        links: Links,
        shares: Shares,
        gossip: Gossip,
        around: Neighbourhood,
    ) -> None:
        self.context = context
        self.declarations = declarations
        self.destinations = destinations
        self.admission = admission
        self.around = around
        self.links = links
        self.handover = handover
        self.shares = shares
        self.gossip = gossip
        self.standing: StandingPatterns | None = None
        self.capacities = Capacities(context, admission)
        self.full: dict[Target, None] = {}

    # ---- messages ---------------------------------------------------------------------------------------------------

    def transfer(self, peer: Peer, word: Transfer) -> None:
        """ON RECEIVE Transfer. Raises LinkError."""
        if word.parcel:
            assert peer.link is not None
            body = self.handover.parcels.body(peer.link, word.parcel)
            if word.message.body:
                raise LinkError(f"A message with {len(word.message.body)} bytes of body, which has come already.")
            word = replace(word, message=replace(word.message, body=body))
        self.count(peer, word)
        self.handover.transfer(peer, word)

    def count(self, peer: Peer, word: Transfer) -> None:
        """Counts an arrival, whatever becomes of it. Raises LinkError for one beyond what was granted."""
        try:
            kind, name = split(word.destination)
        except Refusal as refusal:
            raise LinkError(str(refusal)) from None
        link = peer.link
        assert link is not None, "a word is heard on a link only"
        is_fanout = kind == FANOUT and name in self.declarations.cluster_fanouts
        if is_fanout or (kind == TOPIC and self.standing is not None):
            if peer.copies >= peer.copies_granted:
                raise LinkError(f"Copy {peer.copies + 1} on this link, where {peer.copies} were granted.")
            times = len(self.destinations.fanouts.get(name).children) if is_fanout else max(1, word.left)
            self.capacities.take(link, True, cost_bytes(word.message.size, times))
            self.top_up(link, is_copies=True)
            peer.copies += 1
        elif kind == QUEUE:
            count = link.arrived.get(name, 0)
            if count >= link.allowed.get(name, 0):
                raise LinkError(f"Message {count + 1} of /queue/{name} on this link, where {count} were granted.")
            self.capacities.take(link, False, cost_bytes(word.message.size))
            link.arrived[name] = count + 1
            self.top_up(link, is_copies=False)
        else:
            raise LinkError(f'{shown(word.destination.encode())} is not of scope "cluster" here.')

    def accept(self, peer: Peer, word: Transfer) -> bool:
        """Stores a message that another node hands over, in the open batch. Returns False if its queue does not exist
        here (any more).
        """
        kind, name = split(word.destination)
        if kind == QUEUE:
            return self.accept_message(peer, name, word)
        if kind == FANOUT:
            self.destinations.fanouts.all[name].accepted += 1
            children = self.destinations.fanouts.get(name).children
            self.accept_copy(peer, word, [self.destinations.target(child) for child in children])
        else:
            self.accept_copy(peer, word, self.durable_at(name))
        return True

    def accept_message(self, peer: Peer, name: str, word: Transfer) -> bool:
        share, old = self.shares.of(name), word.message
        if share is None:
            return False
        headers = with_node_path(old.headers, word.path)
        message = Message(old.destination, headers, old.escaping, old.body, old.accepted_ms, old.expires_ms)
        redeliveries = min(word.redeliveries, REDELIVERIES_MAX // 2)  # so that one more can still be handed on
        share.queue.put_handed_over(message, redeliveries, word.redelivered, peer.name)
        share.came(peer, word.left)
        share.pumped()
        return True

    def durable_at(self, topic: str) -> list[Target]:
        """Returns the queues of the durable subscriptions that want what is sent to that topic at another node."""
        if not self.gossip.is_cluster(topic):
            return []
        queues: list[Target] = [*self.destinations.topics.durable.matching(topic)]
        self.full.update({queue: None for queue in queues if not self.capacity_for(queue)})
        return queues

    def accept_copy(self, peer: Peer, word: Transfer, queues: list[Target]) -> None:
        """Puts one copy into each of these queues, all in one batch with the sequence."""
        old = word.message
        if not queues:
            self.context.count("topic_copies_unwanted")
        for queue in queues:
            if queue.settings.overflow not in (BLOCK, REJECT):
                self.evict_for(queue, old.size)
            copy = with_ttl(old, queue.settings.message_ttl_ms, self.context.now_ms)
            queue.put_handed_over(copy, 0, word.redelivered, peer.name)
            queue.pump()
        if peer.copies_granted - peer.copies <= LINK_WINDOW // 2:
            self.grant_copies(peer)

    def evict_for(self, queue: Target, size: int) -> None:
        """Makes room by dropping the oldest messages. If that is refused, the copy exceeds the bound, as a dead letter
        may.
        """
        try:
            if queue.judge(1, size):
                queue.evict(1, size)
        except Refusal:
            pass

    # ---- how much more may come -------------------------------------------------------------------------------------

    def want(self, peer: Peer, word: Want) -> None:
        """ON RECEIVE Want."""
        assert peer.link is not None
        durable = self.standing.most if self.standing is not None else 0
        fanouts = our_fanouts(self.declarations, self.destinations)
        children = max(durable, 1, *fanouts.values()) if word.is_copies else 1
        self.capacities.want(peer.link, word, children)
        self.top_up(peer.link, word.is_copies)

    def unlinked(self, link: Link) -> None:
        """Called when nothing more arrives on that link."""
        self.capacities.unlinked(link)

    def top_up(self, link: Link, is_copies: bool) -> None:
        """Grants the other node more bytes, as far as there is room; none while this node is being drained."""
        lane = link.takes[is_copies]
        if lane.left < max(lane.wanted, LINK_CAPACITY_BYTES // 2) and not self.around.is_draining:
            self.capacities.top_up(link, is_copies, max(1, len(self.links.up)))

    def grant_copies(self, peer: Peer) -> None:
        """Grants credit for copies, while all children and the disk have room."""
        if peer.link is None or self.around.is_draining or self.standing is None:
            return
        if self.full:
            self.full = {queue: None for queue in self.full if not queue.is_gone and not self.capacity_for(queue)}
            if any(queue.settings.overflow in (BLOCK, REJECT) for queue in self.full):
                return
        if self.admission.disk_wait_list.is_tight or self.admission.memory_wait_list.is_tight:
            return
        for name in sorted(self.declarations.cluster_fanouts):
            for child in self.destinations.fanouts.get(name).children:
                queue = self.destinations.target(child)
                if queue.settings.overflow in (BLOCK, REJECT) and not self.capacity_for(queue):
                    return
        through = peer.copies + LINK_WINDOW
        if through > peer.copies_granted:
            peer.copies_granted = through
            peer.link.send(Credit("", through))

    def capacity_for(self, queue: Target) -> int:
        """Returns how many messages the disk, the memory and the queue's bounds let in, at most LINK_CREDIT_MAX."""
        is_memory_tight = self.admission.memory_wait_list.is_tight and not queue.is_persistent
        if self.admission.disk_wait_list.is_tight or is_memory_tight or not queue.has_capacity(1, 0):
            return 0
        most = queue.settings.max_messages
        held = queue.ledger.stored - queue.uncounted()[0] + queue.reserved
        return LINK_CREDIT_MAX if most is None else min(LINK_CREDIT_MAX, most - held)


def our_fanouts(declarations: Declarations, destinations: Destinations) -> dict[str, int]:
    """Returns the fanouts of scope "cluster", and how often a copy of each is stored here."""
    return {name: len(destinations.fanouts.get(name).children) for name in sorted(declarations.cluster_fanouts)}
