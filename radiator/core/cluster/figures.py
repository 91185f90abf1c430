"""The figures of each peer, for `radiator peers`, `stats` and the events about lags."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from radiator.core.cluster.copies import Copies
from radiator.core.cluster.gossip import Gossip
from radiator.core.cluster.peer import Peer
from radiator.core.routing.destinations import Destinations
from radiator.core.turn import TurnContext
from radiator.model.limits import UNLIKE_SHOWN
from radiator.model.settings import Node


class Figures:
    """The figures of the nodes that this one knows."""

    __slots__ = ("context", "copies", "destinations", "gossip", "node", "peers")

    def __init__(
        self,
        context: TurnContext,
        node: Node | None,
        destinations: Destinations,
        peers: dict[str, Peer],
        gossip: Gossip,
        copies: Copies | None,
    ) -> None:
        self.context = context
        self.node = node
        self.destinations = destinations
        self.peers = peers
        self.gossip = gossip
        self.copies = copies

    def hops(self) -> dict[str, int]:
        """Returns how many links away each reachable node is."""
        return {str(node["name"]): int(node["hops"]) for node in self.gossip.nodes()}

    def all(self) -> list[dict[str, Any]]:
        """Returns each peer as `radiator peers` shows it."""
        hops = self.hops()
        return [{"name": name, **self.of(peer, hops)} for name, peer in sorted(self.peers.items())]

    def of(self, peer: Peer, hops: Mapping[str, int]) -> dict[str, Any]:
        """Returns the figures of one peer."""
        address = self.node.peers.get(peer.name) if self.node is not None else None
        outbox = self.destinations.queues.outboxes.get(peer.name)
        head = outbox.head() if outbox is not None else None
        waiting_ms = [pending.since_ms for pending in islice(peer.doubts.values(), 1)]
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
            "declared_otherwise": dict(islice(sorted(peer.unlike.items()), UNLIKE_SHOWN)),
        }
