"""Links with other nodes, as the server sees them: which nodes may be linked with, which are linked, and which refusals
were logged.
"""

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gevent.event import Event

from radiator.model.commands import NotLinked
from radiator.model.limits import LINK_REFUSALS_KEPT, LINK_SOCKETS, NODE_NEIGHBOURS_MAX, NONCE_BYTES, Limits
from radiator.model.settings import Address, Node
from radiator.protocols import Session
from radiator.protocols.peer.session import PeerSession
from radiator.server.log import EventLog


@dataclass(slots=True)
class LinkableNode:
    """A node that may be linked with. address: where to dial it; None: it is not dialled.

    is_wanting: set while there is no link with it, and no open socket that was dialled to it. lasted_s: how long the
    last link was up.
    """

    address: Address | None
    links: int = 0
    dialled: int = 0
    up_since_s: float = 0.0
    lasted_s: float = 0.0
    is_wanting: Event = field(default_factory=Event)

    def judge(self) -> None:
        """Sets or clears `is_wanting`. Must be called after each change of `links` and `dialled`."""
        if self.links or self.dialled:
            self.is_wanting.clear()
        else:
            self.is_wanting.set()


class LinkRegistry:
    """Used on the hub only. node: this one; None: it has no [node]. sockets_max: includes the sockets of strangers.

    report: tells the broker why there is no link.
    """

    def __init__(
        self, node: Node | None, store_id: str, limits: Limits, log: EventLog, report: Callable[[NotLinked], object]
    ) -> None:
        self.neighbours: dict[str, LinkableNode] = {}
        self._node = node
        self._store_id = store_id
        self._limits = limits
        self._log = log
        self._report = report
        self._logged: dict[tuple[str, str], None] = {}
        self._strangers: dict[int, str] = {}  # the network of each accepted connection that has proved nothing yet
        self.sockets = self.sockets_max = 0
        if node is not None:
            self.sockets_max = LINK_SOCKETS * (1 + (NODE_NEIGHBOURS_MAX if node.discover else len(node.peers)))
            for name, address in node.peers.items():
                self.know(name, address)

    def session(self, number: int, certificate_sha256: bytes, dialled: str | None = None) -> Session:
        """Returns a new session. certificate_sha256: as its transport gives it. dialled: the node that this one has
        dialled; None: the connection was accepted.
        """
        assert self._node is not None
        nonce = os.urandom(NONCE_BYTES)
        return PeerSession(
            number, self._limits, self._node, self._store_id, nonce, dialled, self.is_known, certificate_sha256
        )

    def know(self, name: str, address: Address | None) -> None:
        """Adds a node that may be linked with. Does nothing if it is known, or the bound on nodes is reached."""
        if name not in self.neighbours and len(self.neighbours) < NODE_NEIGHBOURS_MAX:
            self.neighbours[name] = neighbour = LinkableNode(address)
            neighbour.judge()

    def is_known(self, name: str) -> bool:
        """Whether that node may be linked with. With `discover` any node that has the secret may, while the bound
        allows.
        """
        has_capacity = len(self.neighbours) < NODE_NEIGHBOURS_MAX
        return name in self.neighbours or (self._node is not None and self._node.discover and has_capacity)

    # ---- called by connections --------------------------------------------------------------------------------------

    def began(self, number: int, name: str, network: str) -> None:
        """Counts an open socket. number: that of its connection. name: the node that was dialled; "": it was
        accepted.
        """
        self.sockets += 1
        self._count_dialled(name, 1)
        if not name:
            self._strangers[number] = network

    def hung_up(self, number: int, name: str) -> None:
        """Counts that socket as closed."""
        self.sockets -= 1
        self._strangers.pop(number, None)
        self._count_dialled(name, -1)

    def in_the_way(self, network: str) -> int | None:
        """Returns the connection to be closed before one more of that network is accepted: an accepted one that has
        proved nothing yet, if possible of the same network, chosen at random so that no standing crowd keeps a node
        out. None: a socket is free, or all connections have proved who they are.
        """
        if self.sockets < self.sockets_max:
            return None
        strangers = [number for number, its in self._strangers.items() if its == network] or [*self._strangers]
        return random.choice(strangers) if strangers else None

    def is_stranger(self, number: int) -> bool:
        """Whether that connection was accepted and has proved nothing yet."""
        return number in self._strangers

    def _count_dialled(self, name: str, more: int) -> None:
        if name:
            neighbour = self.neighbours[name]
            neighbour.dialled += more
            neighbour.judge()

    def opened(self, number: int, name: str, peer: str) -> None:
        """Notes that a link is up: both ends have proved who they are."""
        self._strangers.pop(number, None)
        neighbour = self.neighbours.setdefault(name, LinkableNode(None))
        if not neighbour.links:
            neighbour.up_since_s = time.monotonic()
        neighbour.links += 1
        neighbour.judge()
        now_right = (name, _host(peer))
        self._logged = {key: None for key in self._logged if key[0] not in now_right}

    def closed(self, name: str) -> None:
        """Notes that a link has ended."""
        neighbour = self.neighbours[name]
        neighbour.links -= 1
        if not neighbour.links:
            neighbour.lasted_s = time.monotonic() - neighbour.up_since_s
        neighbour.judge()

    def refused(
        self, name: str, peer: str, cause: str, other: str = "", is_refused: bool = False, network: str = ""
    ) -> None:
        """Notes that no link was made. Logged once for each cause, until a link is up. name: the node that was dialled,
        or "".

        peer: the other end's address. other: the node that it claims to be. is_refused: one of the two has refused.
        network: that of a stranger who has dialled this node. A stranger can choose the words of a cause, so the log
        limits the lines of one network.
        """
        if name or other:
            self._report(NotLinked(name or other, cause, is_refused))
        key = (name or _host(peer), cause)
        if key in self._logged:
            return
        if len(self._logged) >= LINK_REFUSALS_KEPT:
            self._logged.clear()
        self._logged[key] = None
        node = {"node": name} if name else {}
        self._log.write("warning", "link_refused", {**node, "peer": peer, "cause": cause}, "" if name else network)


def _host(peer: str) -> str:
    """Returns the address without its port, which differs each time."""
    return peer.rpartition(":")[0]
