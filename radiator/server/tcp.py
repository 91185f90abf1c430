"""TCP: its socket options, and what the system reports about a peer. Linux only.

A dead peer is found within about tcp_timeout_s: an idle one by keepalive; one with sent data unacknowledged by when its
TCP last answered anything (liveness.py). TCP_USER_TIMEOUT is not used: it would also end a live peer that reads nothing
for so long (its window is zero), and no client is closed for reading slowly.
"""

import contextlib
import socket
import struct

from radiator.model.limits import LISTEN_BACKLOG, SEND_BUFFER_BYTES, Limits
from radiator.model.settings import Address
from radiator.server.transport import PeerActivity, SocketTransport

_MAPPED = bytes(10) + b"\xff\xff"  # what an IPv4 address begins with at a listener for IPv6 and IPv4
_TCP_RTO_MAX_MS = 44  # Linux 6.15 and later
_RTO_MAX_MS_MIN = 1000
_KEEPALIVE_PROBES = 3

# struct tcp_info of linux/tcp.h: state is a byte at 0, probes one at 3; unacked at 24, last_ack_recv at 56,
# notsent_bytes at 144 have 32 bits each.
_TCP_INFO = struct.Struct("=B2xB20xI28xI84xI")
_TCP_CLOSE = 7  # the state of a connection that was reset


def set_up(connected: socket.socket, tcp_timeout_s: float) -> None:
    """Sets the options of every connection. Raises OSError, which the caller handles: the peer may be gone already."""
    connected.setblocking(False)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES // 2)  # the system doubles it
    interval_s = max(1, int(tcp_timeout_s / (_KEEPALIVE_PROBES + 1)))
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, interval_s)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval_s)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_PROBES)
    # Ensures that a peer with a zero window is probed, and answers, several times within tcp_timeout_s. Older kernels
    # probe it less and less often, up to every 2 minutes.
    with contextlib.suppress(OSError):
        rto_max_ms = max(_RTO_MAX_MS_MIN, min(120_000, int(tcp_timeout_s * 1000 / 4)))
        connected.setsockopt(socket.IPPROTO_TCP, _TCP_RTO_MAX_MS, rto_max_ms)


def ask(connected: socket.socket) -> PeerActivity:
    """Returns what the system knows about the peer; the peer itself is not asked."""
    info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    state, probes, unacked, silent_ms, unsent_bytes = _TCP_INFO.unpack(info)
    return PeerActivity(unacked, unsent_bytes, probes, silent_ms, state == _TCP_CLOSE)


def network_of(host: str) -> str:
    """Returns the network whose connections are counted together: an IPv4 address, or the /64 of an IPv6 address, which
    one host may have for itself. "": this is no IP address.
    """
    try:
        packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0]) if ":" in host else b""
    except OSError:
        return ""
    if not packed:
        return host
    if packed.startswith(_MAPPED):
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return socket.inet_ntop(socket.AF_INET6, packed[:8] + bytes(8)) + "/64"


def transport(connected: socket.socket, host: str, port: int, tcp_timeout_s: float) -> SocketTransport:
    """Returns the transport of a connected socket. host, port: its other end. Raises OSError if the connection is lost
    already; the socket is then closed.
    """
    try:
        set_up(connected, tcp_timeout_s)
    except OSError:
        connected.close()
        raise
    peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return SocketTransport(connected, peer, network_of(host), ask)


class TcpAcceptor:
    """Listens at a host and port. limits: read anew for each accepted connection."""

    def __init__(self, address: Address, limits: Limits) -> None:
        """Raises OSError if the address cannot be listened on."""
        self._limits = limits
        family, _, _, _, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(place)
            self._socket.listen(LISTEN_BACKLOG)  # two listeners on one port fail here, not at bind
        except OSError:
            self._socket.close()
            raise
        self._socket.setblocking(False)
        host, port = self._socket.getsockname()[:2]
        self.address = Address(address.scheme, host, port)
        self.fileno = self._socket.fileno

    def accept(self) -> SocketTransport:
        connected, place = self._socket.accept()
        return transport(connected, place[0], place[1], self._limits.tcp_timeout_s)

    def close(self) -> None:
        self._socket.close()
