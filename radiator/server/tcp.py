"""What TCP is asked to do for us, and how a peer is known to be gone. Linux.

A dead peer is found within about tcp_timeout_s: an idle one by keepalive, one that owes us acknowledgements by looking
at when its TCP last answered anything. TCP_USER_TIMEOUT is not used: it also ends a live peer that does not read for so
long (its window is zero), and nobody is closed for reading slowly.
"""

import contextlib
import socket
import struct
from dataclasses import dataclass

from radiator.model.limits import SEND_BUFFER_BYTES

_TCP_RTO_MAX_MS = 44  # Linux 6.15 and later
_RTO_MAX_MS_MIN = 1000
_KEEPALIVE_PROBES = 3
_ZERO_WINDOW_PROBES = 3  # unanswered; a live peer answers each at once

# struct tcp_info of linux/tcp.h: state is a byte at 0, probes one at 3; unacked at 24, last_ack_recv at 56,
# notsent_bytes at 144 have 32 bits each.
_TCP_INFO = struct.Struct("=B2xB20xI28xI84xI")
_TCP_CLOSE = 7  # of a connection that was open: it has been reset


def set_up(connected: socket.socket, tcp_timeout_s: float) -> None:
    """The options of every connection. An OSError is left to the caller: the peer may be gone already."""
    connected.setblocking(False)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES // 2)  # the system doubles it
    interval_s = max(1, int(tcp_timeout_s / (_KEEPALIVE_PROBES + 1)))
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, interval_s)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval_s)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_PROBES)
    # Ensures that a peer with a zero window is asked, and answers, several times within tcp_timeout_s. An older system
    # asks it less and less often, up to every 2 minutes.
    with contextlib.suppress(OSError):
        rto_max_ms = max(_RTO_MAX_MS_MIN, min(120_000, int(tcp_timeout_s * 1000 / 4)))
        connected.setsockopt(socket.IPPROTO_TCP, _TCP_RTO_MAX_MS, rto_max_ms)


@dataclass(slots=True)
class Answer:
    """What the system says of a peer.

    unacked: segments that it has not acknowledged. unsent_bytes: what it has no window for. probes: how often it was
    asked in vain. silent_ms: since its TCP last answered anything. is_reset: it has ended the connection at once; what
    it had said and we have not read is gone.
    """

    unacked: int
    unsent_bytes: int
    probes: int
    silent_ms: int
    is_reset: bool = False

    @property
    def is_owing(self) -> bool:
        """Whether something sent has not arrived yet."""
        return self.unacked > 0 or self.unsent_bytes > 0

    def is_dead(self, owing_s: float, tcp_timeout_s: float) -> bool:
        """Whether it must be taken for dead. owing_s: for how long we have seen it owing."""
        if not self.is_owing or owing_s < tcp_timeout_s or self.silent_ms < tcp_timeout_s * 1000:
            return False
        return self.unacked > 0 or self.probes >= _ZERO_WINDOW_PROBES


def ask(connected: socket.socket) -> Answer:
    """Asks the system, not the peer."""
    info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    state, probes, unacked, silent_ms, unsent_bytes = _TCP_INFO.unpack(info)
    return Answer(unacked, unsent_bytes, probes, silent_ms, state == _TCP_CLOSE)
