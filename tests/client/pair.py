"""A connection to a broker that is the test itself: the other end of a pair of sockets, in the same thread."""

import socket

from radiator.client.address import Address
from radiator.client.channel import Channel, Steps, T
from radiator.client.connection import ClientConnection
from radiator.client.inbox import ClientInbox
from radiator.client.reconnect import Attempts, Reconnect
from tests.client.peer import CONNECTED, receipt_of

ADDRESS = Address("localhost", 1)


def linked(number: int = 1, answer: bytes = CONNECTED) -> tuple[ClientConnection, socket.socket]:
    """Connected, and CONNECTED."""
    ours, other = unlinked(number)
    other.sendall(answer)
    greeting = ours.greeting(("1.2",), (0, 0), 1.0)
    try:
        wanted = next(greeting)
        while True:
            wanted = greeting.send(ours.wait(*wanted))
    except StopIteration:
        assert frames(other)[0].startswith(b"CONNECT\n")
        return ours, other


def unlinked(number: int = 1) -> tuple[ClientConnection, socket.socket]:
    one, other = socket.socketpair()
    one.setblocking(False)
    other.settimeout(1)
    return ClientConnection(Address("localhost", 0, path="pair"), number, one), other


def frames(other: socket.socket) -> list[bytes]:
    """What the client has sent, whole frames."""
    other.setblocking(False)
    data = b""
    try:
        while more := other.recv(65536):
            data += more
    except BlockingIOError:
        pass
    return [frame.lstrip(b"\n") for frame in data.split(b"\0")[:-1]]


class Talk:
    """A channel over such a connection. Steps are driven until they wait for something; `answer` is the broker."""

    def __init__(self, window: int = 10, reconnect: Reconnect | None = None, max_bytes: int = 10_000) -> None:
        self.changes = 0
        attempts = None if reconnect is None else Attempts(reconnect, 1)
        self.channel = Channel([ADDRESS], attempts, window, 5.0, ClientInbox(max_bytes), self._changed)
        self.opened()

    def _changed(self) -> None:
        self.changes += 1

    def opened(self) -> None:
        connection, self.other = linked(self.channel.connections + 1)
        connection.address = ADDRESS
        if self.channel.connections == 0:
            opening = self.channel.opening()
            assert next(opening) == ADDRESS
            try:
                opening.send(connection)
            except StopIteration:
                return
        self.channel.connections += 1
        self.channel.tried(connection)

    def begin(self, steps: "Steps[T]") -> "Begun":
        return Begun(self, steps)

    def frames(self) -> list[bytes]:
        return frames(self.other)

    def answer(self, *data: bytes) -> None:
        """The broker says that, and it is read."""
        self.other.sendall(b"".join(data))
        connection = self.channel.connection
        assert connection is not None
        self.channel.read(connection)

    def confirm(self) -> None:
        """A RECEIPT for each frame that has asked for one."""
        self.answer(*(receipt_of(frame + b"\0") for frame in self.frames() if b"receipt:" in frame))


class Begun:
    """Steps that were begun. waits: for what they wait; result: once they do no more."""

    def __init__(self, talk: Talk, steps: "Steps[T]") -> None:
        self.steps = steps
        self.wait = None
        self.result: object = None
        self._go(lambda: next(steps))

    def _go(self, step: object) -> None:
        self.wait = None
        try:
            self.wait = step()  # type: ignore[operator]
            while self.wait.is_done() or self.wait.timeout_s == 0:
                is_done, self.wait = self.wait.is_done(), None
                self.wait = self.steps.send(is_done)
        except StopIteration as ended:
            self.result = ended.value

    @property
    def is_over(self) -> bool:
        return self.wait is None

    def go_on(self) -> "Begun":
        """Where what it waits for is there."""
        if self.wait is not None and self.wait.is_done():
            self._go(lambda: self.steps.send(True))
        return self

    def late(self) -> None:
        """Its time is over."""
        self._go(lambda: self.steps.send(False))
