"""What two linked nodes know of each other to share a queue."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from radiator.core.cluster.link import Link
from radiator.core.cluster.peer import Peer
from radiator.core.queues.durable_queue import DurableQueue


class Neighbourhood(Protocol):
    """What a share asks its node."""

    name: str
    is_draining: bool
    peers: dict[str, Peer]

    def are_neighbours(self, one: str, other: str) -> bool:
        """Whether the two nodes are linked, as far as this node knows."""

    def capacity_for(self, queue: DurableQueue) -> int:
        """Returns how many messages the disk, the memory and the queue's bounds let in."""


@dataclass(slots=True, eq=False)
class Neighbour:
    """What a linked node and this one have told each other about one queue, as long as the link lasts.

    As a taker. path: the path of its last Demand; empty: it never sent one. offered: how many messages it knows that we
    could give. credit: how many more it lets us hand over. As a giver. is_asked: it knows that our consumers are idle.
    ready, hops, is_draining: its last Supply, and what has changed since.
    """

    peer: Peer
    link: Link
    path: Sequence[str] = ()
    offered: int = 0
    credit: int = 0
    is_asked: bool = False
    ready: int = 0
    hops: int = 1
    is_draining: bool = False
