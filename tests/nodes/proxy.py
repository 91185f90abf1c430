"""A fault proxy: what dials a node through it can be delayed, slowed, silenced in one direction or both, or cut.

As on a real network, what is silenced is not lost: it stays where it is, and arrives, late, once the fault is over; an
end of a connection is silenced too. Plain sockets and threads, so that it runs wherever Python does.
"""

import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

THERE, BACK = 0, 1  # from who dials, and to it
HELD_BYTES = 64 * 1024  # what the system keeps of what has not passed yet: else it hides how slow a link is
LOOK_S = 0.02  # how often a silenced direction looks whether it may go on
# how long it looks for bytes at a time. A cut may close a socket, and a new one get its number, before a `select` that
# the cut has woken looks again: it then waits for the new one, and keeps the old one open for as long as it waits
SELECT_S = 0.1
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset


@dataclass(eq=False)
class Pair:
    """One connection: its two ends here, and how many of its directions have ended."""

    dialler: socket.socket
    node: socket.socket
    ended: int = 0


@dataclass
class Way:
    """One direction of all connections. rate: bytes a second, 0: as fast as it goes."""

    may_pass: threading.Event = field(default_factory=threading.Event)
    delay_s: float = 0.0
    rate: float = 0.0

    def __post_init__(self) -> None:
        self.may_pass.set()


class Proxy:
    """Listens on `port` of loopback from construction until `close`. target: the port of the node just now, or 0."""

    def __init__(self, target: Callable[[], int]) -> None:
        self.ways = (Way(), Way())
        self._target = target
        self._open: list[Pair] = []
        self._is_closed = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, HELD_BYTES)
        self.port = int(self._listener.getsockname()[1])
        self._start(self._accept)

    # ---- faults

    def silence(self, way: int) -> None:
        self.ways[way].may_pass.clear()

    def cut(self, with_reset: bool = False) -> None:
        """Every connection ends at once, at both ends; what was on its way is lost. New ones may come."""
        pairs, self._open = self._open, []
        for one in (one for pair in pairs for one in (pair.dialler, pair.node)):
            with suppress(OSError):
                if with_reset:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                # wakes its threads, without which it is not closed; they say nothing more
                one.shutdown(socket.SHUT_RD if with_reset else socket.SHUT_RDWR)
                one.close()

    def heal(self) -> None:
        """What was silenced is said now."""
        for way in self.ways:
            way.delay_s = way.rate = 0.0
            way.may_pass.set()

    def close(self) -> None:
        self._is_closed = True
        self.heal()
        self._listener.close()
        self.cut()

    # ---- one thread each

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        threading.Thread(target=run, args=arguments, daemon=True).start()

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                dialler, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._connect, dialler)

    def _connect(self, dialler: socket.socket) -> None:
        """Where the node is not there, or cannot be heard, neither is this."""
        self._wait(self.ways[THERE])
        try:
            node = socket.socket()
            node.settimeout(5)
            node.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, HELD_BYTES)
            node.connect(("127.0.0.1", self._target()))
        except OSError:
            node.close()
            dialler.close()
            return
        node.settimeout(None)
        for one in (dialler, node):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair = Pair(dialler, node)
        self._open.append(pair)
        self._start(self._pump, pair, dialler, node, self.ways[THERE])
        self._start(self._pump, pair, node, dialler, self.ways[BACK])

    def _wait(self, way: Way) -> None:
        while not way.may_pass.wait(LOOK_S) and not self._is_closed:
            pass

    def _pump(self, pair: Pair, source: socket.socket, target: socket.socket, way: Way) -> None:
        with suppress(OSError, ValueError):  # it is cut
            while not self._is_closed:
                if not select.select([source], [], [], SELECT_S)[0]:
                    continue
                self._wait(way)
                if pair not in self._open:
                    return
                data = source.recv(4096 if way.rate else 65_536)
                time.sleep(way.delay_s + (len(data) / way.rate if way.rate else 0.0))
                self._wait(way)
                if not data:
                    break
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)
        pair.ended += 1
        if pair.ended == 2 and pair in self._open:
            self._open.remove(pair)
            source.close()
            target.close()
