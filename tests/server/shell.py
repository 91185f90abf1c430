"""Parts of the server's shell on the hub of the test: a log that is kept, all connections, and clients of them."""

import socket
import time
from collections.abc import Callable
from typing import Any

import gevent

from radiator.model.commands import Event
from radiator.model.limits import Limits
from radiator.server.connections import Connections
from radiator.server.inbox import Inbox
from radiator.server.links import LinkRegistry
from radiator.server.log import EventLog
from radiator.server.places import Places
from radiator.server.timetable import Timetable
from radiator.server.transport import PeerActivity, SocketTransport


class KeptLog(EventLog):
    """lines: level, event and fields of each."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, Any]]] = []
        self.traces: list[str] = []
        self.is_closed = False

    def write(self, level: str, event: str, fields: Any, client: str = "") -> None:
        self.lines.append((level, event, dict(fields)))

    def debug(self, event: str, **fields: Any) -> None:
        self.write("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self.write("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self.write("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self.write("error", event, fields)

    def trace(self, text: str) -> None:
        self.traces.append(text)

    def close(self) -> None:
        self.is_closed = True

    @property
    def events(self) -> list[str]:
        return [event for _, event, _ in self.lines]


def until(is_so: Callable[[], object], timeout_s: float = 5.0) -> None:
    """Lets the hub go on until then."""
    end_s = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < end_s, "it did not come"
        gevent.sleep(0.001)


class Shell:
    """All connections, with as many places as are said; `client` is one more. events: what the broker has heard.
    activity: what the system says of the other ends.
    """

    def __init__(self, connections: int = 5, half_open: int = 5, operators: int = 1) -> None:
        self.loop = gevent.get_hub().loop
        self.log = KeptLog()
        self.inbox = Inbox()
        self.inbox.summon = lambda: None
        limits = Limits()
        self.clients = Places(connections, half_open, half_open, self.log)
        self.operators = Places(operators, half_open, half_open, self.log)
        links = LinkRegistry(None, "s", limits, self.log, self.inbox.report)
        timetable = Timetable(self.loop)
        self.connections = Connections(
            self.loop, limits, self.inbox, timetable, self.log, links, self.clients, self.operators, "s"
        )
        self.events: list[Event] = []
        self.activity = PeerActivity()
        self.others: list[socket.socket] = []

    def client(self, network: str = "", is_operator: bool = False, scheme: str = "stomp") -> socket.socket:
        """The far end of one that was accepted."""
        ours, other = socket.socketpair()
        ours.setblocking(False)
        other.setblocking(False)
        self.others.append(other)
        self.connections.admit(SocketTransport(ours, "peer", network, lambda _: self.activity), scheme, is_operator)
        return other

    def heard(self) -> list[Event]:
        self.events += self.inbox.take()
        return self.events

    def close(self) -> None:
        self.connections.close()
        for other in self.others:
            other.close()


def read(other: socket.socket) -> bytes:
    """What has come; b"" where it was closed."""
    found: list[bytes] = []

    def is_there() -> bool:
        try:
            found.append(other.recv(65536))
        except BlockingIOError:
            return False
        except ConnectionResetError:  # with something that nobody has read
            found.append(b"")
        return True

    until(is_there)
    return found[0]
