"""This node among the others: who is linked, and each word to whom it concerns.

The broker has one of these where [node] is configured (or where an earlier run has left messages in doubt, which stay
so). What a word may do to the store it does through the turn's open batch, as any command does.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from radiator.core.cluster.agreement import Agreement
from radiator.core.cluster.copies import KIND as NO_COPIES
from radiator.core.cluster.copies import Copies
from radiator.core.cluster.gossip import Gossip
from radiator.core.cluster.handover import Handover
from radiator.core.cluster.link import Link
from radiator.core.cluster.node_state import incarnation_of
from radiator.core.cluster.outbox import Outbox
from radiator.core.cluster.parcels import Parcels
from radiator.core.cluster.peer import Peer, PendingTransfer
from radiator.core.cluster.room import Rooms
from radiator.core.cluster.standing import KIND as DURABLE_AT
from radiator.core.cluster.standing import Standing
from radiator.core.cluster.work_sharing import Share
from radiator.core.connections import Connection
from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.queues.queue import Queue
from radiator.core.queues.target import Target
from radiator.core.routing.admission import Admission
from radiator.core.routing.destinations import Destinations
from radiator.core.routing.queue_settings import OUTBOX_PREFIX
from radiator.core.routing.topic import PEERS_TOPIC
from radiator.core.routing.waiting import FLUSH, Waitable
from radiator.core.turn import TurnContext
from radiator.model.addresses import FANOUT, QUEUE, TOPIC, split
from radiator.model.commands import NotLinked
from radiator.model.errors import LinkError, Refusal, shown
from radiator.model.headers import CONTENT_TYPE, ESCAPING_ALL, JSON, block_of, with_node_path
from radiator.model.limits import (
    LAG_EVERY_S,
    LINK_CREDIT_MAX,
    LINK_ROOM_BYTES,
    LINK_WINDOW,
    NODES_MAX,
    PARTS_KEPT_S,
    REDELIVERIES_MAX,
    REPLIES_PER_TURN,
    SHARES_PER_TURN,
    TOPIC_HOPS_MAX,
    UNLIKE_TOLD,
)
from radiator.model.message import Message, expires_by
from radiator.model.peer import (
    Answer,
    Capacity,
    Credit,
    Declared,
    Demand,
    Digest,
    Hello,
    Identity,
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
    cost_bytes,
)
from radiator.model.peer import Standing as StandingWord
from radiator.model.recovery import Recovery
from radiator.model.settings import BLOCK, CLUSTER, REJECT, Declarations, Node


class Cluster:
    """peers: every node of the list, every one that has ever been linked and left something, by name.

    due: shares that time, or a change of links, concerns (then True): some each turn.
    """

    __slots__ = (
        "agreement", "copies", "declarations", "context", "destinations", "due", "handover", "admission", "is_draining",
        "full", "known", "lag_s", "link_of", "name", "node", "outboxes", "parcels", "peers", "rooms", "shares",
        "gossip", "standing",
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
        self.link_of: dict[Connection, Link] = {}
        self.lag_s = 0.0
        self.known = dict.fromkeys(node.peers) if node is not None else {}
        self.parcels = Parcels(context, admission, incarnation_of(recovery.boot, context.now_ms))
        self.handover = Handover(context, admission.limits, self.name, self.parcels, self.accept)
        fanouts = self.our_fanouts
        rows = {row.peer: row for row in recovery.peers}
        self.rooms = Rooms(context, admission)
        self.peers = {name: Peer(context, name, fanouts, rows.get(name)) for name in (*rows, *self.known)}
        self.recover_doubts(recovery)
        self.agreement = Agreement(context, self.name, destinations, admission.limits, self.peers)
        self.shares: dict[str, Share] = {}
        self.due: OrderedDict[Share, bool] = OrderedDict()
        self.outboxes: dict[str, Outbox] = {}
        self.copies: Copies | None = None
        self.standing: Standing | None = None
        self.full: dict[Target, None] = {}  # of durable subscriptions, when a copy came
        if node is None:
            self.gossip = Gossip(context, "", 0, declarations, "", self.deliver, self.say)
            return
        advertise = node.advertise or node.listen
        address = str(advertise) if advertise is not None and node.discover else ""
        self.gossip = Gossip(context, node.name, recovery.boot, declarations, address, self.deliver, self.say)
        for queue in destinations.queues.values():
            self.share(queue)
        destinations.on_new = self.share
        destinations.temp_queues.at_node = f"@{node.name}"
        has_copies = bool(fanouts or declarations.cluster_topics)
        for name in [*destinations.outboxes, *(node.peers if has_copies else ())]:
            peer = self.peers.get(name)
            if peer is not None and name not in self.outboxes:
                self.outboxes[name] = Outbox(destinations.outbox(name), peer, self.handover, self.lacking)
        if has_copies:
            rows_kept = [row.name for row in recovery.declared if row.kind == DURABLE_AT]
            self.standing = Standing(context, declarations, self.peers, node.peers, rows_kept)
            for peer in self.peers.values():
                peer.topic_times = self.standing.times
            dropped = {row.name for row in recovery.declared if row.kind == NO_COPIES}
            self.copies = Copies(context, destinations, admission.limits, node, dropped)

    def recover_doubts(self, recovery: Recovery) -> None:
        """What was in doubt when the last run ended is in doubt now."""
        queues = {q.number: q for q in self.destinations.stored_queues()}
        for doubt in recovery.doubts:
            peer, queue = self.peers[doubt.peer], queues[doubt.queue]
            peer.doubts[doubt.sequence] = PendingTransfer(
                queue, doubt.position, doubt.size, doubt.expires, self.context.now_ms, doubt.redeliveries
            )
            peer.doubt_bytes += doubt.size
            queue.in_doubt.recover(doubt.position, doubt.size)

    def share(self, queue: Queue) -> None:
        """A queue exists: one of scope "cluster" is shared."""
        if queue.settings.scope == CLUSTER and isinstance(queue, DurableQueue):
            self.shares[queue.name] = Share(queue, self.context, self.handover, self)
            self.tell_declared(queue)
        self.agreement.made(queue)

    def tell_declared(self, queue: Queue) -> None:
        """To everybody who is linked, and has not heard it."""
        for peer in self.peers.values():
            if peer.link is not None and peer.is_welcome:
                self.agreement.say(peer.link, queue.name, queue.settings)

    # ---- links ------------------------------------------------------------------------------------------------------

    def opened(self, connection: Connection, identity: Identity) -> None:
        """ON LINK UP. One link for each pair of nodes; the newest wins, but see `is_surplus`."""
        name = identity.name
        peer = self.peers.get(name)
        if self.node is None or name == self.name or (name not in self.known and not self.node.discover):
            self.turn_away(connection, name, "unknown-node", f"{name!r} is none of the nodes that {self.name!r} knows.")
            return
        if peer is None:
            if len(self.peers) >= NODES_MAX:
                self.turn_away(connection, name, "unknown-node", f"{self.name!r} knows {NODES_MAX} nodes already.")
                return
            peer = self.peers[name] = Peer(self.context, name, self.our_fanouts)
        if peer.link is not None and peer.link.identity.store_id != identity.store_id:
            sentence = (
                f"{name!r} is linked already, with the store {peer.link.identity.store_id}; this is "
                f"{identity.store_id}: is the name used twice?"
            )
            self.turn_away(connection, name, "other-store", sentence)
            return
        if peer.link is not None and self.is_surplus(peer.link.identity, identity):
            connection.refuse(self.context, "duplicate-link", f"{name!r} and {self.name!r} are linked already.")
            return
        if peer.store_id != identity.store_id:
            mistake = self.meet(peer, identity)
            if mistake:
                self.turn_away(connection, name, "other-store", mistake)
                return
        if peer.link is not None:
            old = peer.link
            self.unlink(peer)
            # D16: what an earlier connection still brings is not heard
            old.connection.refuse(self.context, "superseded", f"{name!r} has made a newer link.")
        connection.is_link = True
        self.link_of[connection] = link = Link(connection, identity, self.context)
        peer.linked(link)
        self.gossip.linked(link)
        if self.copies is not None:
            self.copies.keep(name)
        self.say("linked", node=name, store_id=identity.store_id)

    def turn_away(self, connection: Connection, name: str, code: str, sentence: str) -> None:
        connection.refuse(self.context, code, sentence)
        self.not_linked(NotLinked(name, f"{code}: {sentence}", is_refused=True))
        self.say("refused", node=name, code=code)

    def not_linked(self, event: NotLinked) -> None:
        """A try has failed. What it says of a node that is linked meanwhile is of no interest."""
        peer = self.peers.get(event.peer)
        if peer is not None and peer.link is None:
            peer.not_linked(event.cause, event.is_refused)

    def is_surplus(self, current: Identity, new: Identity) -> bool:
        """Both may dial at once: then both ends keep the link that the node of the lesser name has dialled."""
        lesser = min(self.name, new.name)

        def is_lessers(identity: Identity) -> bool:
            return (self.name if identity.is_dialled else identity.name) == lesser

        return is_lessers(current) and not is_lessers(new)

    def meet(self, peer: Peer, identity: Identity) -> str:
        """A node comes with another store than last time, or for the first time: what is known of that store, under
        whichever name, holds. Returns why it may not come; "" where it may.

        Copies in doubt with the store of before are sent again; messages of queues wait for the operator.
        """
        name, store_id = identity.name, identity.store_id
        holder = next((other for other in self.peers.values() if other.store_id == store_id), None)
        if holder is not None and holder.link is not None:
            return f"The store {store_id} of {name!r} is linked already, as {holder.name!r}: is a copy of it in use?"
        if peer.store_id:
            self.alarm(peer, identity)
        for other in filter(None, (peer, holder)):
            if any(not doubtful.queue.name.startswith(OUTBOX_PREFIX) for doubtful in other.doubts.values()):
                return (
                    f"{name!r} comes with the store {store_id}, while messages of queues are in doubt with "
                    f"{other.name!r}, whose store is {other.store_id}: bring {other.name!r} back with that store, or "
                    f"say `radiator peer release {other.name} --force` at {self.name}; what is in doubt there may then "
                    "be processed twice (redelivered:true)."
                )
        known = None
        for other in filter(None, (peer, holder)):
            self.handover.release(other)
        for other in self.peers.values():
            known = other.let_go(store_id) or known
        peer.meet(store_id, known)
        return ""

    def alarm(self, peer: Peer, identity: Identity) -> None:
        was, now = peer.store_id, identity.store_id
        self.context.note(
            "error" if peer.doubts else "warning",
            "peer_store_changed" if peer.doubts else "peer_has_other_store",
            node=peer.name,
            was=was,
            now=now,
            in_doubt=len(peer.doubts),
        )
        self.say("store-changed", node=peer.name, was=was, now=now)

    def closed(self, connection: Connection, cause: str, is_refused: bool = False) -> None:
        """ON LINK DOWN."""
        link = self.link_of.pop(connection, None)
        peer = self.peers.get(link.name) if link is not None else None
        self.handover.is_wary |= is_refused and cause.startswith("protocol:")
        if peer is not None and peer.link is link:
            self.unlink(peer)
            peer.not_linked(cause, is_refused)

    def refused(self, connection: Connection, code: str, sentence: str) -> None:
        """ON LINK DOWN, by the other side's word, or since it broke a rule of the link."""
        link = self.link_of.get(connection)
        peer = self.peers.get(link.name) if link is not None else None
        if code == "superseded" and peer is not None and peer.link is link:
            peer.superseded()
        self.closed(connection, f"{code}: {sentence}", is_refused=True)

    def unlink(self, peer: Peer) -> None:
        link = peer.link
        assert link is not None
        peer.unlinked()
        self.gossip.unlinked(link)
        self.rooms.unlinked(link)
        self.parcels.unlinked(link)
        for share in self.shares.values():
            share.unlinked(peer)
        outbox = self.outboxes.get(peer.name)
        if outbox is not None:
            outbox.unlinked(peer)
        self.say("unlinked", node=peer.name)

    # ---- words ------------------------------------------------------------------------------------------------------

    def heard(self, connection: Connection, word: PeerFrame) -> Waitable | None:
        """ON RECEIVE. A broken rule is told, and ends the link; nothing that was in doubt is touched by that."""
        link = self.link_of.get(connection)
        peer = self.peers.get(link.name) if link is not None else None
        if link is None or peer is None or peer.link is not link:
            return None  # D16: not the link of now
        # a word of a few bytes may ask for thousands of answers
        if len(self.context.turn.replies) >= REPLIES_PER_TURN or (isinstance(word, Publish) and self.must_flush(word)):
            return FLUSH
        if isinstance(word, Answer) and word.node != self.name and self.gossip.must_flush_to(word.node):
            return FLUSH
        if isinstance(word, Publish) and self.must_wait(connection, word):
            return self.admission.batch_room
        if isinstance(word, Transfer) and self.admission.is_batch_full(connection):
            return self.admission.batch_room
        try:
            _HEARD[type(word)](self, peer, word)
        except LinkError as broken:
            sentence = f"{broken} {broken.advice}"
            self.context.note("error", "link_error", node=peer.name, sentence=str(broken), advice=broken.advice)
            connection.refuse(self.context, "link-error", sentence)
            self.closed(connection, f"link-error: {sentence}", is_refused=True)
        except Refusal as refusal:
            connection.refuse(self.context, refusal.code, str(refusal))
            self.closed(connection, f"{refusal.code}: {refusal}", is_refused=True)
        return None

    def must_flush(self, word: Publish) -> bool:
        """Whether this turn's replies must be written first, so that nobody seems slow who is not."""
        name, size, topics = (
            word.message.destination.removeprefix("/topic/"),
            word.message.size,
            self.destinations.topics,
        )
        if topics.must_flush(topics.matching(name), size):
            return True
        return self.gossip.must_flush(name, size, word.origin)

    def must_wait(self, connection: Connection, word: Publish) -> bool:
        """Whether a durable subscription here wants it, while the open batch is full."""
        durable = self.destinations.topics.durable
        if not durable or not self.admission.is_batch_full(connection):
            return False
        return bool(durable.matching(word.message.destination.removeprefix("/topic/")))

    def end_turn(self) -> None:
        """What has changed in this turn is told as one."""
        if self.gossip.is_rerouted:
            self.reconsider()
        self.gossip.end_turn()
        if self.standing is not None:
            self.standing.end_turn()
        if self.due:
            self.step_shares()

    def reconsider(self) -> None:
        """Who is linked, or whether this node is being drained, has changed: that concerns every share."""
        self.due.update(dict.fromkeys(self.shares.values(), True))

    def step_shares(self) -> None:
        """Some of what is due: thousands of queues must not hold up the turn."""
        for _ in range(min(len(self.due), SHARES_PER_TURN)):
            if len(self.context.turn.replies) >= REPLIES_PER_TURN:
                return
            share, is_changed = self.due.popitem(last=False)
            if is_changed:
                if not share.queue.is_gone:
                    self.tell_declared(share.queue)
                share.reconsider()
            else:
                share.ticked()

    def on_hello(self, peer: Peer, word: Hello) -> None:
        self.handover.hello(peer, word)
        if peer.name in self.outboxes:
            for fanout in sorted(self.declarations.cluster_fanouts - peer.fanouts.keys()):
                self.lacking(peer, fanout)
        self.grant_copies(peer)
        assert peer.link is not None
        self.top_up(peer.link, is_copies=False)
        self.top_up(peer.link, is_copies=True)

    def on_welcome(self, peer: Peer, word: Welcome) -> None:
        self.handover.welcome(peer, word)
        if self.standing is not None:
            self.standing.linked(peer)
        self.reconsider()
        outbox = self.outboxes.get(peer.name)
        if outbox is not None:
            outbox.pumped()

    def on_transfer(self, peer: Peer, word: Transfer) -> None:
        if word.parcel:
            assert peer.link is not None
            body = self.parcels.body(peer.link, word.parcel)
            if word.message.body:
                raise LinkError(f"A message with {len(word.message.body)} bytes of body, which has come already.")
            word = replace(word, message=replace(word.message, body=body))
        self.count(peer, word)
        self.handover.transfer(peer, word)

    def on_taken(self, peer: Peer, word: Taken) -> None:
        self.handover.taken(peer, word)

    def on_untaken(self, peer: Peer, word: Untaken) -> None:
        """What was not said yet is not counted there, and what that node has said of the queue is over."""
        self.handover.untaken(peer, word)
        assert peer.link is not None, "a word is heard on a link only"
        outbox = self.outboxes.get(peer.name)
        for sequence, doubtful in peer.doubts.items():
            entry = doubtful.queue.in_doubt.entries[doubtful.position]
            if sequence <= peer.out_said or entry is None:
                continue
            is_copy = outbox is not None and doubtful.queue is outbox.queue
            if outbox is not None and is_copy:
                outbox.given -= 1
            else:
                peer.link.given[doubtful.queue.name] -= 1
            destination = entry.message.destination if is_copy else f"/queue/{doubtful.queue.name}"
            peer.link.gives[is_copy].used -= peer.cost_of(destination, doubtful.size)
        share = self.shares.get(word.queue)
        if share is not None:
            share.unlinked(peer)
        self.context.note("info", "queue_gone_elsewhere", node=peer.name, queue=word.queue)

    def on_ask(self, peer: Peer, word: Demand) -> None:
        share = self.share_of(word.queue)
        if share is not None:
            share.asked(peer, word)

    def on_offer(self, peer: Peer, word: Supply) -> None:
        share = self.share_of(word.queue)
        if share is not None:
            share.offered_by(peer, word)

    def on_answer(self, peer: Peer, word: Answer) -> None:
        """To who has asked here; or on."""
        if not 1 <= word.hops <= TOPIC_HOPS_MAX:
            raise LinkError(f"A reply has crossed {word.hops} links: 1 to {TOPIC_HOPS_MAX} can be.")
        if word.node == self.name:
            name = word.message.destination.removeprefix("/reply-queue/")
            self.admission.answer(self.destinations.replies.get(name), word.message)
        elif word.hops == TOPIC_HOPS_MAX or not self.gossip.answer(replace(word, hops=word.hops + 1)):
            self.admission.lose_answer(word.node)

    def on_standing(self, peer: Peer, word: StandingWord) -> None:
        if self.standing is not None:
            self.standing.hear(peer, word)
            peer.has_stood = True
            if peer.name in self.outboxes:
                self.outboxes[peer.name].pumped()

    def on_declared(self, peer: Peer, word: Declared) -> None:
        self.agreement.hear(peer, word)

    def on_grant(self, peer: Peer, word: Credit) -> None:
        if not word.queue:
            outbox = self.outboxes.get(peer.name)
            if outbox is not None:
                outbox.granted(word.through)
            return
        share = self.share_of(word.queue)
        if share is not None:
            share.granted_by(peer, word.through)

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
        share = self.shares.get(peer.link.incoming.destination.removeprefix("/queue/")) if peer.link.incoming else None
        if share is not None:
            share.hoped_s = self.context.now_s  # something comes

    def written(self, connection: Connection) -> None:
        """A link's outgoing buffer got smaller: the next pieces may go."""
        link = self.link_of.get(connection)
        peer = self.peers.get(link.name) if link is not None else None
        if link is not None and link.outgoing is not None and peer is not None and peer.link is link:
            self.parcels.carry(link)

    def on_room(self, peer: Peer, word: Capacity) -> None:
        assert peer.link is not None
        self.handover.room(peer.link, word)

    def on_want(self, peer: Peer, word: Want) -> None:
        assert peer.link is not None
        durable = self.standing.most if self.standing is not None else 0
        children = max(durable, 1, *self.our_fanouts.values()) if word.is_copies else 1
        self.rooms.want(peer.link, word, children)
        self.top_up(peer.link, word.is_copies)

    def on_news(self, peer: Peer, word: Digest | NodeState | Publish) -> None:
        assert peer.link is not None
        self.gossip.hear(peer.link, word)

    def share_of(self, name: str) -> Share | None:
        """The queue of that name, if it is, or would be, of scope "cluster" here."""
        share = self.shares.get(name)
        if share is None or share.queue.is_gone:
            if self.declarations.queue_settings(name).scope != CLUSTER:
                return None
            try:
                self.destinations.queue(name)
            except Refusal:
                return None
            share = self.shares.get(name)
        return None if share is None or share.queue.is_gone else share

    def share_here(self, queue: Queue) -> Share | None:
        """How that very queue is shared with other nodes."""
        share = self.shares.get(queue.name)
        return share if share is not None and share.queue is queue else None

    # ---- messages that come in --------------------------------------------------------------------------------------

    def count(self, peer: Peer, word: Transfer) -> None:
        """It has come, whatever becomes of it. Raises LinkError for what was not granted."""
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
            times = len(self.destinations.all_fanouts.get(name).children) if is_fanout else max(1, word.left)
            self.rooms.take(link, True, cost_bytes(word.message.size, times))
            self.top_up(link, is_copies=True)
            peer.copies += 1
        elif kind == QUEUE:
            count = link.arrived.get(name, 0)
            if count >= link.allowed.get(name, 0):
                raise LinkError(f"Message {count + 1} of /queue/{name} on this link, where {count} were granted.")
            self.rooms.take(link, False, cost_bytes(word.message.size))
            link.arrived[name] = count + 1
            self.top_up(link, is_copies=False)
        else:
            raise LinkError(f'{shown(word.destination.encode())} is not of scope "cluster" here.')

    def accept(self, peer: Peer, word: Transfer) -> bool:
        """Store what another node hands over, in the open batch. Whether there is such a queue (still)."""
        kind, name = split(word.destination)
        if kind == QUEUE:
            return self.accept_message(peer, name, word)
        if kind == FANOUT:
            self.destinations.fanouts[name].accepted += 1
            children = self.destinations.all_fanouts.get(name).children
            self.accept_copy(peer, word, [self.destinations.target(child) for child in children])
        else:
            self.accept_copy(peer, word, self.durable_at(name))
        return True

    def accept_message(self, peer: Peer, name: str, word: Transfer) -> bool:
        share, old = self.share_of(name), word.message
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
        """Of the durable subscriptions that want what is sent to that topic at another node."""
        if not self.gossip.is_cluster(topic):
            return []
        queues: list[Target] = [*self.destinations.topics.durable.matching(topic)]
        self.full.update({queue: None for queue in queues if not self.room_for(queue)})
        return queues

    def accept_copy(self, peer: Peer, word: Transfer, queues: list[Target]) -> None:
        """One copy into each child, or each durable subscription, all in one batch with the sequence."""
        old = word.message
        if not queues:
            self.context.count("topic_copies_unwanted")
        for queue in queues:
            expires_ms = old.expires_ms
            if queue.settings.message_ttl_ms is not None:
                expires_ms = expires_by(expires_ms, queue.settings.message_ttl_ms, self.context.now_ms)
            if queue.settings.overflow not in (BLOCK, REJECT):
                self.make_room(queue, old.size)
            copy = Message(old.destination, old.headers, old.escaping, old.body, old.accepted_ms, expires_ms)
            queue.put_handed_over(copy, 0, word.redelivered, peer.name)
            queue.pump()
        if peer.copies_granted - peer.copies <= LINK_WINDOW // 2:
            self.grant_copies(peer)

    def make_room(self, queue: Target, size: int) -> None:
        """Drop the oldest where the queue is declared so; else it passes its bound, as a dead letter may."""
        try:
            if queue.judge(1, size):
                queue.evict(1, size)
        except Refusal:
            pass

    @property
    def our_fanouts(self) -> dict[str, int]:
        """Those of scope "cluster", and how often a copy of each is stored here."""
        destinations = self.destinations
        return {
            name: len(destinations.all_fanouts.get(name).children) for name in sorted(self.declarations.cluster_fanouts)
        }

    @property
    def links(self) -> list[Link]:
        """Those that are up, and on which the other node has said Hello."""
        peers = self.peers.values()
        return [peer.link for peer in peers if peer.link is not None and (peer.is_heard or peer.is_answered)]

    def top_up(self, link: Link, is_copies: bool) -> None:
        """It may hand over more bytes, as far as there is room; where this node is being drained, none."""
        lane = link.takes[is_copies]
        if lane.left < max(lane.wanted, LINK_ROOM_BYTES // 2) and not self.is_draining:
            self.rooms.top_up(link, is_copies, max(1, len(self.links)))

    def grant_copies(self, peer: Peer) -> None:
        """Credit for copies, while all children and the disk have room."""
        if peer.link is None or self.is_draining or self.standing is None:
            return
        if self.full:
            self.full = {queue: None for queue in self.full if not queue.is_gone and not self.room_for(queue)}
            if any(queue.settings.overflow in (BLOCK, REJECT) for queue in self.full):
                return
        if self.admission.disk_room.is_tight or self.admission.memory_room.is_tight:
            return
        for name in sorted(self.declarations.cluster_fanouts):
            for child in self.destinations.all_fanouts.get(name).children:
                queue = self.destinations.target(child)
                if queue.settings.overflow in (BLOCK, REJECT) and not self.room_for(queue):
                    return
        through = peer.copies + LINK_WINDOW
        if through > peer.copies_granted:
            peer.copies_granted = through
            peer.link.tell(Credit("", through))

    def room_for(self, queue: Target) -> int:
        """How many messages disk, memory and the queue's bounds let come in, LINK_CREDIT_MAX at most."""
        is_memory_tight = self.admission.memory_room.is_tight and not queue.is_persistent
        if self.admission.disk_room.is_tight or is_memory_tight or not queue.has_room(1, 0):
            return 0
        most = queue.settings.max_messages
        return LINK_CREDIT_MAX if most is None else min(LINK_CREDIT_MAX, most - queue.ledger.stored - queue.reserved)

    def lacking(self, peer: Peer, fanout: str) -> None:
        """It does not take copies of that fanout: they wait."""
        self.context.note("error", "peer_lacks_fanout", node=peer.name, fanout=fanout)

    # ---- topics -----------------------------------------------------------------------------------------------------

    def deliver(self, name: str, message: Message, message_id: bytes, is_copied: bool) -> None:
        """What was published elsewhere, to our own subscribers; to durable ones where they get no copy of it."""
        topics = self.destinations.topics
        topics.publish(message, topics.matching(name), message_id)
        if is_copied:
            return
        for queue in topics.durable.matching(name):
            self.admission.collect(queue, message)

    def are_neighbours(self, one: str, other: str) -> bool:
        """Whether the two are linked, as far as is known."""
        return self.gossip.are_neighbours(one, other)

    def say(self, event: str, **fields: Any) -> None:
        """To whoever watches /topic/system.peers."""
        if event == "learned":
            self.learned(str(fields["node"]), str(fields["address"]))
            return
        topics = self.destinations.topics
        watchers = topics.matching(PEERS_TOPIC)
        if watchers:
            headers = block_of(ESCAPING_ALL, (CONTENT_TYPE, JSON))
            body = json.dumps({"event": event, **fields}).encode()
            message = Message(f"/topic/{PEERS_TOPIC}", headers, ESCAPING_ALL, body, self.context.now_ms)
            topics.publish(message, watchers, topics.new_id())

    def learned(self, name: str, address: str) -> None:
        """A node that others are linked with: dialled too, where `discover` says so."""
        if (
            self.node is not None
            and self.node.discover
            and name != self.name
            and name not in self.known
            and address
            and len(self.known) < NODES_MAX
        ):
            self.known[name] = None
            self.context.turn.dials = [*self.context.turn.dials, (name, address)]

    # ---- time, and the operator -------------------------------------------------------------------------------------

    def ticked(self) -> None:
        """ON TICK."""
        for share in [*self.shares.values()]:
            if share.queue.is_gone:
                del self.shares[share.queue.name]
            elif share.is_busy or self.is_draining:
                self.due.setdefault(share, False)
        for name in [name for name, outbox in self.outboxes.items() if outbox.queue.is_gone]:
            del self.outboxes[name]
        if self.copies is not None:
            self.copies.bound(self.admission.disk_left_bytes)
        is_due = self.context.now_s - self.lag_s >= LAG_EVERY_S
        for peer in self.peers.values():
            if peer.link is None:
                continue
            if is_due:
                self.grant_copies(peer)
            self.parcels.look(peer.link)
            for lane in peer.link.gives:
                if lane.waiting:
                    self.handover.retry(lane)
        for link in self.parcels.ticked():
            sentence = f"No more of a message's bytes came for {PARTS_KEPT_S:g} s, though they were asked for."
            link.connection.refuse(self.context, "link-error", sentence)
            self.closed(link.connection, f"link-error: {sentence}", is_refused=True)
        if not self.is_draining:
            self.rooms.grant_all(self.links)
        if is_due:
            self.lag_s = self.context.now_s
            for numbers in self.numbers():
                if numbers["lag_ms"]:
                    self.say("lag", node=numbers["name"], **{k: numbers[k] for k in ("lag_ms", "in_doubt", "outbox")})

    def stop(self) -> None:
        """Nothing more is handed over: what is in doubt stays so until the next start has a link."""
        for peer in self.peers.values():
            peer.is_welcome = False

    def release(self, name: str) -> int:
        """The operator's word that a node will not come back with what it has: see Handover.release."""
        peer = self.peers.get(name)
        if peer is None:
            raise Refusal("unknown-node", f"{name!r:.80} is none of the nodes known here: {', '.join(self.peers)}.")
        if peer.link is not None and peer.is_welcome:
            raise Refusal("linked", f"{name!r} is linked: what is in doubt with it is being settled.")
        peer.not_linked("", is_refused=False)
        return self.handover.release(peer)

    def drop_copies(self, name: str, done: Callable[[int], None]) -> None:
        """The operator's word that a node need not get copies while it is away: see Copies.drop."""
        copies, peer = self.copies, self.peers.get(name)
        if copies is None or self.node is None or name not in self.node.peers or peer is None:
            raise Refusal("unknown-node", f"{name!r:.80} is none of the nodes that copies wait for here.")
        if peer.link is not None:
            raise Refusal("linked", f"{name!r} is linked: it is handed what waits, or `radiator purge` drops it.")
        copies.drop(name, done)

    def keep_copies(self, name: str) -> bool:
        """The operator's word that copies are kept for that node again. Whether they were not."""
        return self.copies is not None and self.copies.keep(name)

    def drain(self, is_draining: bool) -> tuple[int, int]:
        """Hand everything to the others, or no longer. How many messages are left, and how many stay (delayed ones, and
        those that no link can carry)."""
        if is_draining != self.is_draining:
            self.is_draining = is_draining
            self.context.note("info", "draining" if is_draining else "not_draining")
            self.say("draining", node=self.name, draining=is_draining)
            self.reconsider()
        queues = self.destinations.stored_queues()
        shared = {*self.shares, *(OUTBOX_PREFIX + name for name in self.destinations.outboxes)}
        left = sum(
            queue.ledger.stored - queue.ledger.stored_delayed - queue.aside_count
            for queue in queues
            if queue.name in shared
        )
        return left, sum(queue.ledger.stored for queue in queues) - left

    def hops(self) -> dict[str, int]:
        """How many links away each other node is that is reached."""
        return {str(node["name"]): int(node["hops"]) for node in self.gossip.nodes()}

    def numbers(self) -> list[dict[str, Any]]:
        """Each peer as `radiator peers` shows it."""
        hops = self.hops()
        return [{"name": name, **self.numbers_of(peer, hops)} for name, peer in sorted(self.peers.items())]

    def numbers_of(self, peer: Peer, hops: Mapping[str, int]) -> dict[str, Any]:
        """What is shown of one peer."""
        address = self.node.peers.get(peer.name) if self.node is not None else None
        outbox = self.destinations.outboxes.get(peer.name)
        head = outbox.head() if outbox is not None else None
        waiting_ms = [doubtful.since_ms for doubtful in islice(peer.doubts.values(), 1)]
        waiting_ms += [head.message.accepted_ms] if head is not None else []
        return {
            "address": str(address or ""),
            "state": peer.state,
            "cause": peer.cause,
            "since_s": round(self.context.now_s - peer.since_s, 3),
            "in_doubt": len(peer.doubts),
            "outbox": outbox.ledger.stored if outbox is not None else 0,
            "outbox_bytes": outbox.ledger.stored_bytes if outbox is not None else 0,
            "outbox_max_bytes": outbox.settings.max_bytes if outbox is not None else None,
            "outbox_blocked": len(outbox.waiters) if outbox is not None else 0,
            "outbox_dropped": outbox.ledger.dropped + outbox.ledger.purged if outbox is not None else 0,
            "copies_kept": self.copies is None or not self.copies.is_dropped(peer.name),
            "lag_ms": max(0, self.context.now_ms - min(waiting_ms)) if waiting_ms else 0,
            "out_epoch": peer.out_epoch,
            "in_epoch": peer.in_epoch,
            "handed_over": peer.handed_over,
            "taken_in": peer.taken_in,
            "hops": hops.get(peer.name, 0),
            "store_id": peer.store_id,
            "declared_otherwise": dict(islice(sorted(peer.unlike.items()), UNLIKE_TOLD)),
        }


_HEARD: dict[type, Callable[[Cluster, Peer, Any], None]] = {
    Hello: Cluster.on_hello,
    Welcome: Cluster.on_welcome,
    Transfer: Cluster.on_transfer,
    Taken: Cluster.on_taken,
    Untaken: Cluster.on_untaken,
    Demand: Cluster.on_ask,
    Supply: Cluster.on_offer,
    Credit: Cluster.on_grant,
    Declared: Cluster.on_declared,
    Parcel: Cluster.on_parcel,
    Proceed: Cluster.on_proceed,
    Piece: Cluster.on_piece,
    Capacity: Cluster.on_room,
    Want: Cluster.on_want,
    Digest: Cluster.on_news,
    NodeState: Cluster.on_news,
    Publish: Cluster.on_news,
    StandingWord: Cluster.on_standing,
    Answer: Cluster.on_answer,
}
