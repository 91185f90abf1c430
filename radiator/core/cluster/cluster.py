"""This node among the others: knows which nodes are linked, and passes each frame of theirs to the part that it is for.

The broker has one Cluster where [node] is configured, or where an earlier run has left messages in doubt, which stay in
doubt. A frame changes the store through the open batch of the turn, as any command does.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Any

from radiator.core.cluster.agreement import Agreement
from radiator.core.cluster.arrivals import Arrivals, our_fanouts
from radiator.core.cluster.copies import KIND as NO_COPIES
from radiator.core.cluster.copies import Copies
from radiator.core.cluster.figures import Figures
from radiator.core.cluster.gossip import Gossip
from radiator.core.cluster.handover import Handover
from radiator.core.cluster.link import Link
from radiator.core.cluster.links import Links
from radiator.core.cluster.node_state import incarnation_of
from radiator.core.cluster.outbox import Outbox
from radiator.core.cluster.parcels import Parcels
from radiator.core.cluster.peer import Peer, PendingTransfer
from radiator.core.cluster.peer_events import PeerEvents
from radiator.core.cluster.shares import Shares
from radiator.core.cluster.standing import KIND as DURABLE_AT
from radiator.core.cluster.standing import StandingPatterns
from radiator.core.connections import Connection
from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.routing.admission import Admission
from radiator.core.routing.destinations import Destinations
from radiator.core.routing.queue_settings import OUTBOX_PREFIX
from radiator.core.routing.waiting import FLUSH, Waitable
from radiator.core.turn import TurnContext
from radiator.model.errors import LinkError, Refusal
from radiator.model.limits import (
    LAG_EVERY_S,
    PARTS_KEPT_S,
    REPLIES_PER_TURN,
    TOPIC_HOPS_MAX,
)
from radiator.model.message import Message
from radiator.model.peer import (
    Answer,
    Capacity,
    Credit,
    Declared,
    Demand,
    Digest,
    Hello,
    NodeState,
    Parcel,
    PeerFrame,
    Piece,
    Proceed,
    Publish,
    Supply,
    Taken,
    Transfer,
    Untaken,
    Want,
    Welcome,
)
from radiator.model.peer import Standing as StandingWord
from radiator.model.recovery import Recovery
from radiator.model.settings import Declarations, Node


class Cluster:
    """peers: by name, every node of the list, and every node that was linked once and has left something. outboxes: the
    copies that wait for each node. is_draining: this node hands everything to the others. lag_s: when lags were last
    reported.
    """

    __slots__ = (
        "admission", "agreement", "arrivals", "context", "copies", "declarations", "destinations", "events", "figures",
        "gossip", "handlers", "handover", "is_draining", "lag_s", "links", "name", "node", "outboxes", "parcels",
        "peers", "shares", "standing",
    )  # fmt: skip

    def __init__(
        self,
        node: Node | None,
        declarations: Declarations,
        recovery: Recovery,
        context: TurnContext,
        destinations: Destinations,
        admission: Admission,
    ) -> None:
        self.node = node
        self.name = node.name if node is not None else ""
        self.declarations = declarations
        self.context = context
        self.destinations = destinations
        self.admission = admission
        self.is_draining = False
        self.lag_s = 0.0
        fanouts_here = partial(our_fanouts, declarations, destinations)
        fanouts = fanouts_here()
        rows = {row.peer: row for row in recovery.peers}
        names = (*rows, *(node.peers if node is not None else ()))
        self.peers = {name: Peer(context, name, fanouts, rows.get(name)) for name in names}
        self.parcels = Parcels(context, admission, incarnation_of(recovery.boot, context.now_ms))
        self.handover = Handover(context, admission.limits, self.name, self.parcels, self.accept)
        self.recover_doubts(recovery)
        self.agreement = Agreement(context, self.name, destinations, admission.limits, self.peers)
        self.shares = Shares(context, declarations, destinations, self.handover, self.agreement, self)
        self.outboxes: dict[str, Outbox] = {}
        self.copies: Copies | None = None
        self.standing: StandingPatterns | None = None
        self.events = PeerEvents(context, destinations)
        self.gossip = Gossip(
            context,
            self.name,
            recovery.boot if node else 0,
            declarations,
            address_of(node),
            self.deliver,
            self.note_event,
        )
        if node is not None:
            self.take_part(node, recovery, has_copies=bool(fanouts or declarations.cluster_topics))
        self.links = Links(
            context, node, self.peers, self.handover, self.events, fanouts_here, self.linked, self.unlinked
        )
        self.arrivals = Arrivals(
            context, declarations, destinations, admission, self.handover, self.links, self.shares, self.gossip, self
        )
        self.arrivals.standing = self.standing
        self.figures = Figures(context, node, destinations, self.peers, self.gossip, self.copies)
        self.handlers = self.table_of_handlers()

    def table_of_handlers(self) -> dict[type, Callable[[Peer, Any], None]]:
        """Returns the handler of each word of a link."""
        return {
            Hello: self.on_hello,
            Welcome: self.on_welcome,
            Transfer: self.arrivals.transfer,
            Taken: self.handover.taken,
            Untaken: self.on_untaken,
            Demand: self.shares.asked,
            Supply: self.shares.offered,
            Credit: self.on_credit,
            Declared: self.agreement.hear,
            Parcel: self.on_parcel,
            Proceed: self.on_proceed,
            Piece: self.on_piece,
            Capacity: self.on_capacity,
            Want: self.arrivals.want,
            Digest: self.on_gossip,
            NodeState: self.on_gossip,
            Publish: self.on_gossip,
            StandingWord: self.on_standing,
            Answer: self.on_answer,
        }

    def take_part(self, node: Node, recovery: Recovery, *, has_copies: bool) -> None:
        """Makes this node part of a cluster: shared queues, and copies for the others."""
        destinations = self.destinations
        for queue in destinations.queues.all.values():
            self.shares.add(queue)
        destinations.queues.on_new = self.shares.add
        destinations.temp_queues.at_node = f"@{node.name}"
        for name in [*destinations.queues.outboxes, *(node.peers if has_copies else ())]:
            peer = self.peers.get(name)
            if peer is not None and name not in self.outboxes:
                self.outboxes[name] = Outbox(destinations.queues.outbox(name), peer, self.handover, self.lacking)
        if has_copies:
            rows_kept = [row.name for row in recovery.declared if row.kind == DURABLE_AT]
            self.standing = StandingPatterns(self.context, self.declarations, self.peers, node.peers, rows_kept)
            for peer in self.peers.values():
                peer.topic_times = self.standing.times
            dropped = {row.name for row in recovery.declared if row.kind == NO_COPIES}
            self.copies = Copies(self.context, destinations, self.admission.limits, node, dropped)

    def recover_doubts(self, recovery: Recovery) -> None:
        """Restores what was in doubt when the last run ended."""
        queues = self.destinations.queues.stored
        for doubt in recovery.doubts:
            peer, queue = self.peers[doubt.peer], queues[doubt.queue]
            peer.doubts[doubt.sequence] = PendingTransfer(
                queue, doubt.position, doubt.size, doubt.expires, self.context.now_ms, doubt.redeliveries
            )
            peer.doubt_bytes += doubt.size
            queue.in_doubt.recover(doubt.position, doubt.size)

    def accept(self, peer: Peer, word: Transfer) -> bool:
        """Accepts a message that another node hands over; called by `Handover`."""
        return self.arrivals.accept(peer, word)

    # ---- links ------------------------------------------------------------------------------------------------------

    def linked(self, link: Link) -> None:
        """Called when the link begins to count."""
        self.gossip.linked(link)
        if self.copies is not None:
            self.copies.keep(link.name)

    def unlinked(self, peer: Peer, link: Link) -> None:
        """Called when the link no longer counts."""
        self.gossip.unlinked(link)
        self.arrivals.unlinked(link)
        self.parcels.unlinked(link)
        self.shares.unlinked(peer)
        outbox = self.outboxes.get(peer.name)
        if outbox is not None:
            outbox.unlinked(peer)

    def written(self, connection: Connection) -> None:
        """Called when a link's outgoing buffer got smaller: the next pieces may be sent."""
        peer = self.links.peer_of(connection)
        if peer is not None and peer.link is not None and peer.link.outgoing is not None:
            self.parcels.carry(peer.link)

    # ---- words ------------------------------------------------------------------------------------------------------

    def heard(self, connection: Connection, word: PeerFrame) -> Waitable | None:
        """ON RECEIVE. A broken rule is reported and ends the link; messages in doubt stay in doubt."""
        peer = self.links.peer_of(connection)
        if peer is None:
            return None  # D16: a link that no longer counts
        # a word of a few bytes may ask for thousands of answers
        if len(self.context.turn.replies) >= REPLIES_PER_TURN or (isinstance(word, Publish) and self.must_flush(word)):
            return FLUSH
        if isinstance(word, Answer) and word.node != self.name and self.gossip.must_flush_to(word.node):
            return FLUSH
        if isinstance(word, Publish) and self.must_wait(connection, word):
            return self.admission.batch_lines.small
        if isinstance(word, Transfer) and (line := self.admission.batch_lines.wait_for(connection, 0)) is not None:
            return line
        try:
            self.handlers[type(word)](peer, word)
        except LinkError as broken:
            sentence = f"{broken} {broken.advice}"
            self.context.note("error", "link_error", node=peer.name, sentence=str(broken), advice=broken.advice)
            connection.refuse(self.context, "link-error", sentence)
            self.links.closed(connection, f"link-error: {sentence}", is_refused=True)
        except Refusal as refusal:
            connection.refuse_on(self.context, refusal)
            self.links.closed(connection, f"{refusal.code}: {refusal}", is_refused=True)
        return None

    def must_flush(self, word: Publish) -> bool:
        """Whether this turn's replies must be written first, so that a node whose buffer they fill does not seem
        slow.
        """
        name, topics = word.message.destination.removeprefix("/topic/"), self.destinations.topics
        if topics.must_flush(topics.matching(name), word.message.size):
            return True
        return self.gossip.must_flush(name, word.origin)

    def must_wait(self, connection: Connection, word: Publish) -> bool:
        """Whether a durable subscription here wants the message while the open batch is full."""
        durable = self.destinations.topics.durable
        if not durable or self.admission.batch_lines.wait_for(connection, 0) is None:
            return False
        return bool(durable.matching(word.message.destination.removeprefix("/topic/")))

    def end_turn(self) -> None:
        """Sends all that has changed in this turn in one go."""
        if self.gossip.is_rerouted:
            self.shares.reconsider()
        self.gossip.end_turn()
        if self.standing is not None:
            self.standing.end_turn()
        if self.shares.due:
            self.shares.step()

    def on_hello(self, peer: Peer, word: Hello) -> None:
        self.handover.hello(peer, word)
        if peer.name in self.outboxes:
            for fanout in sorted(self.declarations.cluster_fanouts - peer.fanouts.keys()):
                self.lacking(peer, fanout)
        self.arrivals.grant_copies(peer)
        assert peer.link is not None
        self.arrivals.top_up(peer.link, is_copies=False)
        self.arrivals.top_up(peer.link, is_copies=True)

    def on_welcome(self, peer: Peer, word: Welcome) -> None:
        self.handover.welcome(peer, word)
        if self.standing is not None:
            self.standing.linked(peer)
        self.shares.reconsider()
        outbox = self.outboxes.get(peer.name)
        if outbox is not None:
            outbox.pumped()

    def on_untaken(self, peer: Peer, word: Untaken) -> None:
        """Messages that were not sent yet do not count for that node, and what it has said about the queue no longer
        holds.
        """
        self.handover.untaken(peer, word)
        assert peer.link is not None, "a word is heard on a link only"
        outbox = self.outboxes.get(peer.name)
        for sequence, pending in peer.doubts.items():
            entry = pending.queue.in_doubt.entries[pending.position]
            if sequence <= peer.out_sent or entry is None:
                continue
            is_copy = outbox is not None and pending.queue is outbox.queue
            if outbox is not None and is_copy:
                outbox.given -= 1
            else:
                peer.link.given[pending.queue.name] -= 1
            destination = entry.message.destination if is_copy else f"/queue/{pending.queue.name}"
            peer.link.gives[is_copy].used -= peer.cost_of(destination, pending.size)
        share = self.shares.all.get(word.queue)
        if share is not None:
            share.unlinked(peer)
        self.context.note("info", "queue_gone_elsewhere", node=peer.name, queue=word.queue)

    def on_answer(self, peer: Peer, word: Answer) -> None:
        """Delivers an answer to the client that asked here, or passes it on."""
        if not 1 <= word.hops <= TOPIC_HOPS_MAX:
            raise LinkError(f"A reply has crossed {word.hops} links: 1 to {TOPIC_HOPS_MAX} can be.")
        if word.node == self.name:
            name = word.message.destination.removeprefix("/reply-queue/")
            self.admission.answer(self.destinations.temp_queues.by_id.get(name), word.message)
        elif word.hops == TOPIC_HOPS_MAX or not self.gossip.answer(replace(word, hops=word.hops + 1)):
            self.admission.lose_answer(word.node)

    def on_standing(self, peer: Peer, word: StandingWord) -> None:
        if self.standing is not None:
            self.standing.hear(peer, word)
            peer.has_stood = True
            if peer.name in self.outboxes:
                self.outboxes[peer.name].pumped()

    def on_credit(self, peer: Peer, word: Credit) -> None:
        if not word.queue:
            outbox = self.outboxes.get(peer.name)
            if outbox is not None:
                outbox.granted(word.through)
            return
        self.shares.granted(peer, word.queue, word.through)

    def on_parcel(self, peer: Peer, word: Parcel) -> None:
        assert peer.link is not None
        if not peer.is_answered:
            raise LinkError(f"{peer.name} says Parcel before its Hello is answered.")
        self.parcels.begin(peer.link, word)

    def on_proceed(self, peer: Peer, word: Proceed) -> None:
        assert peer.link is not None
        self.parcels.proceed(peer.link, word)

    def on_piece(self, peer: Peer, word: Piece) -> None:
        assert peer.link is not None
        self.parcels.piece(peer.link, word)
        incoming = peer.link.incoming
        share = self.shares.all.get(incoming.destination.removeprefix("/queue/")) if incoming is not None else None
        if share is not None:
            share.hoped_s = self.context.now_s  # something comes

    def on_capacity(self, peer: Peer, word: Capacity) -> None:
        assert peer.link is not None
        self.handover.capacity(peer.link, word)

    def on_gossip(self, peer: Peer, word: Digest | NodeState | Publish) -> None:
        assert peer.link is not None
        self.gossip.hear(peer.link, word)

    # ---- copies, topics ---------------------------------------------------------------------------------------------

    def lacking(self, peer: Peer, fanout: str) -> None:
        """Called when a node does not take copies of that fanout: its copies wait."""
        self.context.note("error", "peer_lacks_fanout", node=peer.name, fanout=fanout)

    def deliver(self, name: str, message: Message, message_id: bytes, is_copied: bool) -> None:
        """Delivers a message published at another node to local subscribers; to durable ones only if no copy comes for
        them.
        """
        topics = self.destinations.topics
        topics.publish(message, topics.matching(name), message_id)
        if is_copied:
            return
        for queue in topics.durable.matching(name):
            self.admission.collect(queue, message)

    def note_event(self, event: str, **fields: Any) -> None:
        """Called by gossip when a node joins, leaves, or is learned of."""
        if event == "learned":
            self.links.learned(str(fields["node"]), str(fields["address"]))
        else:
            self.events.say(event, **fields)

    # ---- what a share must know -------------------------------------------------------------------------------------

    def are_neighbours(self, one: str, other: str) -> bool:
        """Whether the two nodes are linked, as far as this node knows."""
        return self.gossip.are_neighbours(one, other)

    def capacity_for(self, queue: DurableQueue) -> int:
        """Returns how many messages the disk, the memory and the queue's bounds let in."""
        return self.arrivals.capacity_for(queue)

    # ---- time, and the operator -------------------------------------------------------------------------------------

    def ticked(self) -> None:
        """ON TICK."""
        self.shares.ticked()
        for name in [name for name, outbox in self.outboxes.items() if outbox.queue.is_gone]:
            del self.outboxes[name]
        if self.copies is not None:
            self.copies.bound(self.admission.disk_left_bytes)
        is_due = self.context.now_s - self.lag_s >= LAG_EVERY_S
        for peer in self.peers.values():
            if peer.link is None:
                continue
            if is_due:
                self.arrivals.grant_copies(peer)
            self.parcels.look(peer.link)
            for lane in peer.link.gives:
                if lane.waiting:
                    self.handover.retry(lane)
        for link in self.parcels.ticked():
            sentence = f"No more of a message's bytes came for {PARTS_KEPT_S:g} s, though they were asked for."
            link.connection.refuse(self.context, "link-error", sentence)
            self.links.closed(link.connection, f"link-error: {sentence}", is_refused=True)
        if not self.is_draining:
            self.arrivals.capacities.grant_all(self.links.up)
        if is_due:
            self.lag_s = self.context.now_s
            for numbers in self.figures.all():
                if numbers["lag_ms"]:
                    lag = {name: numbers[name] for name in ("lag_ms", "in_doubt", "outbox")}
                    self.events.say("lag", node=numbers["name"], **lag)

    def stop(self) -> None:
        """Called when the broker stops: hands nothing more over. Messages in doubt stay in doubt until the next start
        has a link.
        """
        for peer in self.peers.values():
            peer.is_welcome = False

    def release(self, name: str) -> int:
        """Carries out the operator's word that a node will not come back with what it has: see Handover.release."""
        peer = self.peers.get(name)
        if peer is None:
            raise _unknown(name, "nodes known here", self.peers)
        if peer.link is not None and peer.is_welcome:
            raise Refusal("linked", f"{name!r} is linked: what is in doubt with it is being settled.")
        peer.not_linked("", is_refused=False)
        return self.handover.release(peer)

    @property
    def listed(self) -> Collection[str]:
        """Returns the nodes for which config.toml has a [peer.NAME]."""
        return () if self.node is None else self.node.peers

    def drop_copies(self, name: str, done: Callable[[int], None]) -> None:
        """Carries out the operator's word that a node need not get copies while it is away: see Copies.drop."""
        copies, listed = self.copies, self.listed
        if copies is None or name not in listed:
            raise _unknown(name, "nodes that copies wait for here", () if copies is None else listed)
        if self.peers[name].link is not None:
            raise Refusal("linked", f"{name!r} is linked: it is handed what waits, or `radiator purge` drops it.")
        copies.drop(name, done)

    def keep_copies(self, name: str) -> bool:
        """Carries out the operator's word that copies are kept for that node again. Returns whether they were not kept
        before.
        """
        if name not in self.listed:
            raise _unknown(name, "nodes in the list", self.listed)
        return self.copies is not None and self.copies.keep(name)

    def drain(self, is_draining: bool) -> tuple[int, int]:
        """Begins or ends a drain, which hands everything to the other nodes. Returns how many messages are left to be
        handed over, and how many stay: those of queues that are not shared, delayed ones, and those that no link can
        carry.
        """
        if is_draining != self.is_draining:
            self.is_draining = is_draining
            self.context.note("info", "draining" if is_draining else "not_draining")
            self.events.say("draining", node=self.name, draining=is_draining)
            self.shares.reconsider()
        queues = self.destinations.queues.stored.values()
        shared = {*self.shares.all, *(OUTBOX_PREFIX + name for name in self.destinations.queues.outboxes)}
        left = sum(
            queue.ledger.stored - queue.ledger.stored_delayed - queue.aside_count
            for queue in queues
            if queue.name in shared
        )
        return left, sum(queue.ledger.stored for queue in queues) - left


def _unknown(name: str, what: str, names: Collection[str]) -> Refusal:
    """Returns the refusal of a node that is not among `names`."""
    there = f": {', '.join(names)}" if names else "; there are none"
    return Refusal("unknown-node", f"{name!r:.80} is not one of the {what}{there}.")


def address_of(node: Node | None) -> str:
    """Returns the address that other nodes are told to dial this node at; "": they are told none."""
    if node is None or not node.discover:
        return ""
    advertise = node.advertise or node.listen
    return str(advertise) if advertise is not None else ""
