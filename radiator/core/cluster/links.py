"""The links of this node: which nodes may be linked, which of two links counts, and whose store is at the other end."""

from collections.abc import Callable

from radiator.core.cluster.handover import Handover
from radiator.core.cluster.link import Link
from radiator.core.cluster.peer import Peer
from radiator.core.cluster.peer_events import PeerEvents
from radiator.core.connections import Connection
from radiator.core.routing.queue_settings import OUTBOX_PREFIX
from radiator.core.turn import TurnContext
from radiator.model.commands import NotLinked
from radiator.model.limits import NODES_MAX
from radiator.model.peer import Identity
from radiator.model.settings import Node


class Links:
    """peers: by name, every node of the list, and every node that was linked once and has left something. known: nodes
    that may be linked: those of the list, and with `discover` those that others have named. of: the link of each
    connection that is one. our_fanouts: as in arrivals.py. on_linked, on_unlinked: called when a link begins and ceases
    to count.
    """

    __slots__ = (
        "context", "events", "handover", "known", "name", "node", "of", "on_linked", "on_unlinked", "our_fanouts",
        "peers",
    )  # fmt: skip

    def __init__(
        self,
        context: TurnContext,
        node: Node | None,
        peers: dict[str, Peer],
        handover: Handover,
        events: PeerEvents,
        our_fanouts: Callable[[], dict[str, int]],
        on_linked: Callable[[Link], None],
        on_unlinked: Callable[[Peer, Link], None],
    ) -> None:
        self.context = context
        self.node = node
        self.name = node.name if node is not None else ""
        self.known = dict.fromkeys(node.peers) if node is not None else {}
        self.peers = peers
        self.handover = handover
        self.events = events
        self.our_fanouts = our_fanouts
        self.on_linked = on_linked
        self.on_unlinked = on_unlinked
        self.of: dict[Connection, Link] = {}

    def peer_of(self, connection: Connection) -> Peer | None:
        """Returns the peer at the other end; None: the connection is no link, or one that does not count any more."""
        link = self.of.get(connection)
        peer = self.peers.get(link.name) if link is not None else None
        return peer if peer is not None and peer.link is link else None

    @property
    def up(self) -> list[Link]:
        """Returns the links that are up, and on which the other node has sent Hello."""
        peers = self.peers.values()
        return [peer.link for peer in peers if peer.link is not None and (peer.is_heard or peer.is_answered)]

    # ---- up ---------------------------------------------------------------------------------------------------------

    def opened(self, connection: Connection, identity: Identity) -> None:
        """ON LINK UP. One link for each pair of nodes; the newest wins, but see `is_surplus`."""
        name = identity.name
        peer = self.peers.get(name)
        if self.node is None or name == self.name or (name not in self.known and not self.node.discover):
            self.turn_away(connection, name, "unknown-node", f"{self.name!r} does not know a node {name!r}.")
            return
        if peer is None:
            if len(self.peers) >= NODES_MAX:
                self.turn_away(connection, name, "unknown-node", f"{self.name!r} knows {NODES_MAX} nodes already.")
                return
            peer = self.peers[name] = Peer(self.context, name, self.our_fanouts())
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
            # D16: frames that still arrive on an earlier connection are ignored
            old.connection.refuse(self.context, "superseded", f"{name!r} has made a newer link.")
        connection.is_link = True
        self.of[connection] = link = Link(connection, identity, self.context)
        peer.linked(link)
        self.on_linked(link)
        self.events.say("linked", node=name, store_id=identity.store_id)

    def turn_away(self, connection: Connection, name: str, code: str, sentence: str) -> None:
        connection.refuse(self.context, code, sentence)
        self.not_linked(NotLinked(name, f"{code}: {sentence}", is_refused=True))
        self.events.say("refused", node=name, code=code)

    def not_linked(self, event: NotLinked) -> None:
        """Called when a try to link has failed; ignored if that node has been linked meanwhile."""
        peer = self.peers.get(event.peer)
        if peer is not None and peer.link is None:
            peer.not_linked(event.cause, event.is_refused)

    def is_surplus(self, current: Identity, new: Identity) -> bool:
        """Whether the new link must be closed: if both nodes have dialled at once, both keep the link dialled by the
        node with the lesser name.
        """
        lesser = min(self.name, new.name)

        def is_lessers(identity: Identity) -> bool:
            return (self.name if identity.is_dialled else identity.name) == lesser

        return is_lessers(current) and not is_lessers(new)

    def meet(self, peer: Peer, identity: Identity) -> str:
        """Called when a node comes with another store than last time, or for the first time: what is known of that
        store holds, whatever name it had. Returns why the node may not be linked; "": it may.

        Copies in doubt with the earlier store are sent again; messages of queues stay in doubt until the operator
        decides.
        """
        name, store_id = identity.name, identity.store_id
        holder = next((other for other in self.peers.values() if other.store_id == store_id), None)
        if holder is not None and holder.link is not None:
            return f"The store {store_id} of {name!r} is linked already, as {holder.name!r}: is a copy of it in use?"
        if peer.store_id:
            self.alarm(peer, identity)
        for other in filter(None, (peer, holder)):
            if any(not pending.queue.name.startswith(OUTBOX_PREFIX) for pending in other.doubts.values()):
                return (
                    f"{name!r} comes with the store {store_id}, while messages of queues are in doubt with "
                    f"{other.name!r}, whose store is {other.store_id}: bring {other.name!r} back with that store, or "
                    f"run `radiator peer release {other.name} --force` at {self.name}; what is in doubt there may then "
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
        self.events.say("store-changed", node=peer.name, was=was, now=now)

    # ---- down -------------------------------------------------------------------------------------------------------

    def closed(self, connection: Connection, cause: str, is_refused: bool = False) -> None:
        """ON LINK DOWN."""
        link = self.of.pop(connection, None)
        peer = self.peers.get(link.name) if link is not None else None
        self.handover.is_wary |= is_refused and cause.startswith("protocol:")
        if peer is not None and peer.link is link:
            self.unlink(peer)
            peer.not_linked(cause, is_refused)

    def refused(self, connection: Connection, code: str, sentence: str) -> None:
        """ON LINK DOWN, because the other side says so, or has broken a rule of the link."""
        link = self.of.get(connection)
        peer = self.peers.get(link.name) if link is not None else None
        if code == "superseded" and peer is not None and peer.link is link:
            peer.superseded()
        self.closed(connection, f"{code}: {sentence}", is_refused=True)

    def unlink(self, peer: Peer) -> None:
        link = peer.link
        assert link is not None
        peer.unlinked()
        self.on_unlinked(peer, link)
        self.events.say("unlinked", node=peer.name)

    # ---- others -----------------------------------------------------------------------------------------------------

    def learned(self, name: str, address: str) -> None:
        """Called for a node that other nodes are linked with: with `discover` it is dialled too."""
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
