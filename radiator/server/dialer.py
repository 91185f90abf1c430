"""Dials the other nodes: one greenlet for each node whose address is known, which dials whenever there is no link."""

import contextlib
import random
import re
import socket
from typing import Any

import gevent
import gevent.socket

from radiator.model.limits import CONNECT_MAX_BYTES, DIAL_AGAIN_MAX_S, DIAL_AGAIN_MIN_S, LINK_STEADY_S, Limits
from radiator.model.settings import PEER, PEERS, Address
from radiator.server import tcp
from radiator.server.connections import Connections
from radiator.server.links import LinkableNode, LinkRegistry
from radiator.server.tls import TlsListeners
from radiator.server.transport import SocketTransport, Transport

# the form of address that a session of a link accepts
_ADDRESS = re.compile(r"(peers?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")


def back_off_s(tries: int, chance: float) -> float:
    """Returns the seconds to wait before the next try. tries: how many there were since the last steady link. chance:
    from 0 to 1: by it two nodes that have lost each other do not dial at the same moment for ever.
    """
    longest_s = min(DIAL_AGAIN_MAX_S, DIAL_AGAIN_MIN_S * 2.0 ** min(tries, 64))
    return longest_s * (1 + chance) / 2


class Dialer:
    """Used on the hub only. tls: None: there is no [tls]."""

    def __init__(self, links: LinkRegistry, connections: Connections, limits: Limits) -> None:
        self._links = links
        self._connections = connections
        self._limits = limits
        self.tls: TlsListeners | None = None
        self._greenlets: dict[str, gevent.Greenlet] = {}

    def start(self) -> None:
        """Dials every node of the configuration that has an address, from now on."""
        for name in self._links.neighbours:
            self._begin(name)

    def add(self, name: str, address: str) -> None:
        """Dials a node that other nodes tell of, unless it has dialled this node, or is in the configuration. With
        peer_ca it is dialled over TLS only; without peer_ca, without TLS only.
        """
        found = _ADDRESS.fullmatch(address)
        if found is None or name in self._links.neighbours:
            return
        if found[1] != (PEERS if self._may_encrypt else PEER):
            how = "over TLS only, since [tls] has peer_ca" if self._may_encrypt else "without TLS, for want of peer_ca"
            self._links.refused(name, address, f"is not dialled: what others tell is dialled {how}")
            return
        self._links.know(name, Address(found[1], found[2].strip("[]"), int(found[3])))
        self._begin(name)

    @property
    def _may_encrypt(self) -> bool:
        return self.tls is not None and self.tls.pair.to_nodes is not None

    def _begin(self, name: str) -> None:
        neighbour = self._links.neighbours.get(name)  # None: the bound on nodes was reached
        if neighbour is not None and neighbour.address is not None:
            self._greenlets[name] = gevent.spawn(self._keep, name, neighbour, neighbour.address)

    def stop(self) -> None:
        """Stops dialling."""
        gevent.killall(list(self._greenlets.values()))

    def _keep(self, name: str, neighbour: LinkableNode, address: Address) -> None:
        """Dials one node whenever there is no link with it: the greenlet's whole life."""
        tries = 0
        while True:
            neighbour.is_wanting.wait()
            if neighbour.lasted_s >= LINK_STEADY_S:
                tries = 0
                neighbour.lasted_s = 0.0
            gevent.sleep(back_off_s(tries, random.random()))
            if neighbour.is_wanting.is_set():  # else the other node has dialled this one
                tries += 1
                self._dial(name, address)

    def _dial(self, name: str, address: Address) -> None:
        place = str(address).partition("://")[2]
        try:
            with gevent.Timeout(self._limits.connect_timeout_s):
                connected = _connected(address)
                plain = tcp.transport(connected, address.host, address.port, self._limits.tcp_timeout_s)
                transport = self._encrypted(plain, address.host) if address.scheme == PEERS else plain
        except gevent.Timeout:
            self._links.refused(name, place, "cannot be dialled: it does not answer")
            return
        except (OSError, ValueError) as error:
            self._links.refused(name, place, f"cannot be dialled: {getattr(error, 'strerror', None) or error}")
            return
        self._connections.link(transport, name)

    def _encrypted(self, plain: SocketTransport, host: str) -> Transport:
        """Returns the transport once the handshake of TLS is over: before that nothing can be sent. Raises OSError or
        ValueError if it fails.
        """
        try:
            assert self.tls is not None, "a configuration with such an address has [tls]"
            transport = self.tls.wrap_dialled(plain, host)
            while not transport.says_first:
                gevent.socket.wait_read(transport.fileno())
                with contextlib.suppress(BlockingIOError):
                    early = transport.receive(CONNECT_MAX_BYTES)
                    raise OSError(0, "TLS: it speaks first, as no node does" if early else "TLS: it hung up")
        except BaseException:
            plain.close()
            raise
        return transport


def _connected(address: Address) -> socket.socket:
    """Returns a socket to the first of the host's addresses that answers. Raises OSError or UnicodeError if none
    does.
    """
    places = _looked_up(address, socket.AI_NUMERICHOST)
    if isinstance(places, OSError):  # the host is a name, no address
        places = gevent.get_hub().threadpool.apply(_looked_up, (address,))
    refusal: Exception = OSError("it has no address")
    for family, place in places if isinstance(places, list) else ():
        calling = gevent.socket.socket(family, socket.SOCK_STREAM)
        try:
            calling.connect(place)
            return socket.socket(fileno=calling.detach())
        except OSError as error:
            refusal = error
        finally:
            calling.close()
    raise places if isinstance(places, Exception) else refusal


def _looked_up(address: Address, flags: int = 0) -> list[tuple[int, Any]] | OSError | UnicodeError:
    """Returns the host's addresses. An error is returned, not raised: gevent treats one that leaves its thread as a
    bug.
    """
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=flags)
    except (OSError, UnicodeError) as error:
        return error
    return [(family, place) for family, _, _, _, place in found]
