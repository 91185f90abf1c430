"""One connection as the rest of the server counts it: a client, which takes a place, or a link with another node.

A presence decides whether the connection may open, and is told when it opens and ends. Nothing else logs that.
"""

from typing import Protocol

from radiator.model.commands import Open
from radiator.protocols import Session
from radiator.server.links import LinkRegistry
from radiator.server.log import EventLog
from radiator.server.places import Places


class Presence(Protocol):
    """Calls come in this order: `is_full` before Open; then `opened` and one `closed`, or else `not_opened`; `gone`
    last.
    """

    @property
    def full_sentence(self) -> str:
        """The sentence of the ERROR if `is_full`."""

    def is_full(self) -> bool:
        """Whether there is no place for one more. If there is a place, it is taken."""

    def opened(self, event: Open) -> None:
        """The session has returned Open: the other end was accepted."""

    def not_opened(self, session: Session, cause: str) -> None:
        """The connection has ended before its Open."""

    def closed(self, cause: str) -> None:
        """The open connection has ended."""

    def gone(self) -> None:
        """The transport is closed."""


class ClientPresence:
    """A client's connection; `Places.enter` was called for it."""

    __slots__ = ("_log", "_number", "_peer", "_places")

    def __init__(self, number: int, peer: str, places: Places, log: EventLog) -> None:
        self._number = number
        self._peer = peer
        self._places = places
        self._log = log

    @property
    def full_sentence(self) -> str:
        places = self._places
        return f"All {places.connections_max} connections ({places.setting}) are taken: try again later."

    def is_full(self) -> bool:
        if self._places.is_full(self._peer):
            return True
        self._places.connect(self._number)
        return False

    def opened(self, event: Open) -> None:
        self._log.debug("connected", connection=self._number, peer=self._peer)

    def not_opened(self, session: Session, cause: str) -> None:
        self._log.debug("not_connected", connection=self._number, peer=self._peer, cause=cause)

    def closed(self, cause: str) -> None:
        self._log.debug("disconnected", connection=self._number, peer=self._peer, cause=cause)

    def gone(self) -> None:
        self._places.leave(self._number)


class LinkPresence:
    """A link, or a connection that may become one. dialled: the node that this one has dialled, or "". node: the node
    that the other end has proved to be, or "".
    """

    __slots__ = ("_dialled", "_links", "_log", "_network", "_node", "_number", "_peer")

    full_sentence = ""

    def __init__(self, number: int, peer: str, network: str, links: LinkRegistry, log: EventLog, dialled: str) -> None:
        self._number = number
        self._peer = peer
        self._network = network
        self._links = links
        self._log = log
        self._dialled = dialled
        self._node = ""
        links.began(number, dialled, network)

    def is_full(self) -> bool:
        return False  # links are bounded when they are accepted

    def opened(self, event: Open) -> None:
        assert event.peer is not None, "a link's session says whose it is"
        self._node = event.peer.name
        self._links.opened(self._number, self._node, self._peer)
        self._log.info("linked", connection=self._number, node=self._node, peer=self._peer)

    def not_opened(self, session: Session, cause: str) -> None:
        is_refused = session.is_closing
        self._links.refused(self._dialled, self._peer, cause, session.other, is_refused, self._network)

    def closed(self, cause: str) -> None:
        self._links.closed(self._node)
        self._log.info("unlinked", connection=self._number, node=self._node, peer=self._peer, cause=cause)

    def gone(self) -> None:
        self._links.hung_up(self._number, self._dialled)
