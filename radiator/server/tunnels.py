"""Sessions of STOMP over HTTP: each is a connection like any other, whose far end is held here and driven by requests.

What was read from a session is kept until a request says that the client has it. No more than TUNNEL_BYTES is read
ahead, or TUNNEL_LEAST_BYTES while all sessions together keep TUNNELS_BYTES. So a client that fetches nothing is like a
client that does not read, and the bounds of all connections apply to it.
"""

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from secrets import token_urlsafe
from typing import Any

from radiator.model.errors import FORBIDDEN, Refusal
from radiator.model.limits import (
    HTTP_IDLE_S,
    SEND_BUFFER_BYTES,
    TUNNEL_BYTES,
    TUNNEL_LEAST_BYTES,
    TUNNELS_BYTES,
    TUNNELS_ENDED,
)
from radiator.model.principal import Check, Principal, Verdict
from radiator.model.replies import Answered, RefusedReceipt
from radiator.protocols.http.tunnel import CloseTunnel, OpenTunnel, PollBytes, SendBytes, TunnelRequest
from radiator.server.places import Places
from radiator.server.timetable import Timetable
from radiator.server.transport import SocketTransport
from radiator.server.unix import ask

_NAME_BYTES = 32
_READABLE = 1

Answer = Callable[[bytes | Refusal], None]


class HttpTunnels:
    """Used on the hub only. peer: returns a connection's other end, network and TLS version, as its transport has them.
    admit: takes over the transport of a new session, in its principal's name. post: sends a connection its answer.
    places: those of clients. A session takes two files, so it takes a place besides its connection's: a half-open one
    until its CONNECT.
    """

    def __init__(
        self,
        loop: Any,
        timetable: Timetable,
        places: Places,
        peer: Callable[[int], tuple[str, str, str | None]],
        admit: Callable[[SocketTransport], None],
        post: Callable[[Answered | RefusedReceipt], None],
    ) -> None:
        self._loop = loop
        self._timetable = timetable
        self._places = places
        self._peer = peer
        self._admit = admit
        self._post = post
        self._opened = 0
        self._kept = _Kept()
        self._tunnels: dict[str, _Tunnel] = {}
        self._ended: dict[str, _Tunnel] = {}  # the ended ones among these: what they have sent may still be fetched

    def ask(self, connection: int, receipt: bytes, principal: Principal, request: TunnelRequest) -> None:
        """See the contract (protocols/http/tunnel.py)."""
        # in a later callback: the connection that asks is being read from, and a new session may evict another one
        self._loop.run_callback(self._carry_out, connection, receipt, principal, request)

    @property
    def kept_bytes(self) -> int:
        """The bytes that all sessions keep for their clients."""
        return self._kept.size_bytes

    def close(self) -> None:
        """Closes all sessions."""
        for tunnel in [*self._tunnels.values()]:
            tunnel.close()

    def _carry_out(self, connection: int, receipt: bytes, principal: Principal, request: TunnelRequest) -> None:
        answer = partial(self._answered, connection, receipt)
        try:
            if isinstance(request, OpenTunnel):
                answer(self._open(connection, principal))
                return
            tunnel = self._tunnels.get(request.name)
            if tunnel is None or tunnel.principal != principal:
                raise _over()
            tunnel.used_s = time.monotonic()
            if isinstance(request, SendBytes):
                answer(tunnel.send(request.start, request.data))
            elif isinstance(request, PollBytes):
                tunnel.poll(request.start, tunnel.used_s + request.wait_ms / 1000, answer)
                if request.name in self._tunnels:
                    self._timetable.enter(tunnel, tunnel.due_s)
            elif isinstance(request, CloseTunnel):
                tunnel.close()
                answer(b"")
        except Refusal as refusal:
            answer(refusal)

    def _answered(self, connection: int, receipt: bytes, answer: bytes | Refusal) -> None:
        if isinstance(answer, Refusal):
            self._post(RefusedReceipt(connection, receipt, answer.code, str(answer)))
        else:
            self._post(Answered(connection, receipt, answer))

    def _open(self, connection: int, principal: Principal) -> bytes:
        """Opens a session, and returns its name. Raises Refusal."""
        peer, network, tls = self._peer(connection)
        if not peer:
            raise _over()  # the connection that asked is gone: nobody would get the name
        if self._places.is_full(peer):
            raise Refusal("connections", "All connections are taken, and a session needs two: try again later.")
        try:
            here, there = socket.socketpair()
        except OSError as error:
            raise Refusal("connections", f"The system has no socket for a session: {error.strerror}.") from None
        for end in (here, there):
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES // 2)  # the system doubles it
        self._opened += 1
        number, name = -self._opened, token_urlsafe(_NAME_BYTES)  # no connection has a number below 0

        def ended() -> None:
            self._places.leave(number)
            self._ended[name] = tunnel
            if len(self._ended) > TUNNELS_ENDED:
                next(iter(self._ended.values())).close()

        def gone() -> None:
            del self._tunnels[name]
            self._ended.pop(name, None)
            self._places.leave(number)

        connected = partial(self._places.connect, number)
        self._tunnels[name] = tunnel = _Tunnel(self._loop, here, principal, self._kept, connected, ended, gone)
        self._timetable.enter(tunnel, tunnel.due_s)
        self._admit(SocketTransport(there, f"{peer} over HTTP", network, ask, principal, tls))
        return name.encode()


@dataclass(slots=True)
class _Kept:
    """The bytes that all sessions together keep for their clients: in memory, and counted for no connection."""

    size_bytes: int = 0

    def free_bytes(self, own_bytes: int) -> int:
        """Returns how much more a session may keep that keeps own_bytes. One that keeps nothing may always keep
        something, so none stalls because of others.
        """
        most_bytes = TUNNEL_BYTES if self.size_bytes < TUNNELS_BYTES else TUNNEL_LEAST_BYTES
        return max(0, most_bytes - own_bytes)


class _Tunnel:
    """One session. used_s: when a request last used it. connected: called when its CONNECT is answered. ended: called
    when the session has ended, while what it has sent can still be fetched. gone: called last.
    """

    __slots__ = (
        "_connected", "_ended", "_fetched", "_gone", "_is_at_end", "_kept", "_reader", "_socket", "_taken",
        "__weakref__", "_unfetched", "_until_s", "_waiting", "look_at_s", "principal", "used_s",
    )  # fmt: skip

    def __init__(
        self,
        loop: Any,
        here: socket.socket,
        principal: Principal,
        kept: _Kept,
        connected: Callable[[], None],
        ended: Callable[[], None],
        gone: Callable[[], None],
    ) -> None:
        self.principal = principal
        self.used_s = time.monotonic()
        self.look_at_s = 0.0
        self._socket = here
        self._kept = kept
        self._connected = connected
        self._ended = ended
        self._gone = gone
        self._taken = 0  # how many bytes of the client's stream were taken
        self._fetched = 0  # how many bytes of the session's stream the client has
        self._unfetched = bytearray()  # the bytes that follow those
        self._is_at_end = False
        self._waiting: Answer | None = None  # answers the poll that waits
        self._until_s = 0.0
        self._reader: Any = loop.io(here.fileno(), _READABLE)
        self._reader.start(self._readable)

    def send(self, start: int, data: bytes) -> bytes:
        """Carries out SendBytes. Raises Refusal."""
        if start > self._taken:
            raise Refusal("wrong-offset", f"The session has taken {self._taken} bytes; they do not go on at {start}.")
        rest = data[self._taken - start :]
        if rest:
            try:
                self._taken += self._socket.send(rest)
            except BlockingIOError:
                sentence = "The session reads nothing now: fetch what it has sent, and try again."
                raise Refusal("blocked", sentence) from None
            except OSError:
                raise _over() from None  # what it has sent can still be fetched
        return b"%d" % self._taken

    def poll(self, start: int, until_s: float, answer: Answer) -> None:
        """Carries out PollBytes. A poll that still waits is answered with nothing. Raises Refusal."""
        if not self._fetched <= start <= self._fetched + len(self._unfetched):
            there = f"bytes {self._fetched} to {self._fetched + len(self._unfetched)}"
            raise Refusal("wrong-offset", f"Of what the session has sent {there} are here, and not from {start} on.")
        self._answer(b"")
        # D42: nothing is dropped before the client says that it has it
        self._forget(start - self._fetched)
        self._fetched = start
        self._waiting, self._until_s = answer, until_s
        self._readable()
        if self._waiting is not None and until_s <= self.used_s:
            self._answer(b"")

    def _forget(self, size: int) -> None:
        del self._unfetched[:size]
        self._kept.size_bytes -= size

    def _readable(self) -> None:
        if not self._is_at_end:
            self._read()
        if self._unfetched:
            self._answer(bytes(self._unfetched))
        elif self._is_at_end and self._waiting is not None:
            self._answer(_over())
            self.close()

    def _read(self) -> None:
        free_bytes = self._kept.free_bytes(len(self._unfetched))
        if not free_bytes:
            self._reader.stop()
            return
        self._reader.start(self._readable)
        try:
            data = self._socket.recv(free_bytes)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not self._fetched and not self._unfetched and data.startswith(b"CONNECTED\n"):
            self._connected()
        self._unfetched += data
        self._kept.size_bytes += len(data)
        if not data:
            self._is_at_end = True
            self._reader.stop()
            self._socket.close()  # the session waits for that
            self._ended()

    def _answer(self, answer: bytes | Refusal) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self.used_s = time.monotonic()
            waiting(answer)

    @property
    def due_s(self) -> float:
        """When something is due next."""
        return self._until_s if self._waiting is not None else self.used_s + HTTP_IDLE_S

    def look(self, now_s: float) -> float:
        """Called by the timetable."""
        if self._waiting is not None and now_s >= self._until_s:
            self._answer(b"")
        if self._waiting is None and now_s >= self.used_s + HTTP_IDLE_S:
            self.close()
            return 0.0
        return self.due_s

    def close(self) -> None:
        """Closes the session: to its connection it looks as if the client had hung up. May be called again."""
        if self._reader is None:
            return
        self._answer(_over())
        self.look_at_s = 0.0
        self._forget(len(self._unfetched))
        self._reader.stop()
        self._reader.close()
        self._reader = None  # it holds a method of the tunnel: without the cycle both are freed at once
        self._socket.close()
        gone, self._connected, self._ended, self._gone = self._gone, _nothing, _nothing, _nothing
        gone()


def _nothing() -> None:
    """Replaces the callbacks of a session that is closed: they would keep it in memory."""


class KnownLogin:
    """The login of a session whose requests have one: CONNECT needs none, and may only repeat that name. A secret
    without a name is refused too, since nobody checks whose it is.
    """

    def begin(self, principal: Principal, name: bytes, secret: bytes) -> Principal | Check:
        """See the contract (model/principal.py)."""
        if (name or secret) and name.decode("utf-8", "replace") != principal.name:
            sentence = f"The requests are made by {principal.name}: CONNECT needs no login here, and may have no other."
            raise Refusal(FORBIDDEN, sentence)
        return principal

    def unasked(self, principal: Principal) -> Principal | None:
        """Returns the principal of the requests."""
        return principal

    def answered(self, verdict: Verdict) -> Principal:
        """Never called: there is nothing to check."""
        raise AssertionError("begin never asks")


def _over() -> Refusal:
    sentence = "There is no such session: it has ended, or belongs to another user. Open a new one."
    return Refusal("session-over", sentence)
