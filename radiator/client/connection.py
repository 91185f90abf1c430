"""One connection and its session. Nothing here waits but `dial` and `wait`."""

import contextlib
import select
import socket
import ssl
import time
from collections.abc import Callable, Generator

from radiator.client.address import Address, AddressError
from radiator.client.errors import ConnectionLost
from radiator.client.tls import WrongName, cannot_verify, context_of, lost, wrong_name
from radiator.model.errors import Refusal
from radiator.protocols.stomp.client import CLOSED, OPEN, Broken, ClientSession, Error, ServerEvent

READ_BYTES = 64 * 1024
NOTHING_YET = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
SILENCE_SLACK_S = 1.0  # beyond twice the broker's interval: a busy network or machine is not a dead broker


class Gone(Exception):
    """The connection cannot be used any more; the text says why."""


def refusal(error: Error) -> Refusal:
    """Returns the Refusal to raise for an ERROR."""
    sentence = error.body.decode("utf-8", "replace").strip() or error.message
    return Refusal(error.headers.get("code", ""), sentence)


def refused_connection(address: Address, error: Error) -> Refusal:
    """Returns the Refusal to raise for an ERROR in answer to CONNECT: it names the address and the login."""
    why = refusal(error)
    login = f" of the user {address.login!r}" if address.login else ""
    return Refusal(why.code, f"{address} has refused the connection{login}: {why}")


def cannot_connect(address: Address, failed: OSError) -> ConnectionLost:
    """Says in a sentence why."""
    why = "no answer" if isinstance(failed, TimeoutError) else failed.strerror or str(failed)
    return ConnectionLost(f"Cannot connect to {address}: {why}. Is the broker running?")


def _connected(address: Address, timeout_s: float) -> socket.socket:
    if not address.path:
        return socket.create_connection((address.host, address.port), timeout_s)
    one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        one.settimeout(timeout_s)
        one.connect(address.path)
    except BaseException:
        one.close()
        raise
    return one


class ClientConnection:
    """number: which of its Client's connections it is. outgoing: what the operating system has not taken yet.
    waiters: how many wait for the socket, which must not be closed under them."""

    __slots__ = (
        "_socket",
        "address",
        "number",
        "opened_at_s",
        "outgoing",
        "read_at_s",
        "sent_at_s",
        "session",
        "waiters",
    )

    def __init__(self, address: Address, number: int, one: socket.socket) -> None:
        self.address = address
        self.number = number
        self.session = ClientSession()
        self.outgoing = bytearray()
        self.waiters = 0
        self._socket = one
        self.opened_at_s = self.read_at_s = self.sent_at_s = time.monotonic()

    @classmethod
    def dial(
        cls, address: Address, number: int, versions: tuple[str, ...], heart_beat_ms: tuple[int, int], timeout_s: float
    ) -> "ClientConnection":
        """Returns a connection on which CONNECTED has come. Raises ConnectionLost or Refusal."""
        try:
            one = _connected(address, timeout_s)
        except OSError as failed:
            raise cannot_connect(address, failed) from None
        connection = cls(address, number, one)
        greeting = connection.greeting(versions, heart_beat_ms, timeout_s)
        try:
            wanted = next(greeting)
            while True:
                wanted = greeting.send(connection.wait(*wanted))
        except StopIteration:
            return connection
        except WrongName:
            raise wrong_name(address, timeout_s) from None

    def greeting(
        self, versions: tuple[str, ...], heart_beat_ms: tuple[int, int], timeout_s: float
    ) -> Generator[tuple[float, bool, bool], tuple[bool, bool], None]:
        """Goes from CONNECT to CONNECTED. Yields how long to wait, and whether to read and to write; is sent which are
        possible.

        Raises ConnectionLost, Refusal or WrongName. The connection is then closed, as it is if this generator is
        abandoned.
        """
        try:
            yield from self._greet(versions, heart_beat_ms, timeout_s)
        except Gone as why:
            self.close()
            is_mute = self.read_at_s == self.opened_at_s and not (self.address.is_tls or self.address.path)
            hint = " Is that port one of stomps://?" * is_mute
            raise ConnectionLost(f"The connection to {self.address} is lost: {str(why).rstrip('.')}.{hint}") from None
        except BaseException:
            self.close()
            raise

    def _greet(
        self, versions: tuple[str, ...], heart_beat_ms: tuple[int, int], timeout_s: float
    ) -> Generator[tuple[float, bool, bool], tuple[bool, bool], None]:
        self._socket.setblocking(False)
        if not self.address.path:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end_s = time.monotonic() + timeout_s
        if self.address.is_tls:
            yield from self._shake(end_s, timeout_s)
        login, passcode = self.address.login or None, self.address.passcode or None
        self.say(
            self.session.connect(
                self.address.host, versions=versions, heart_beat_ms=heart_beat_ms, login=login, passcode=passcode
            )
        )
        while self.session.state != OPEN:
            readable, writable = yield max(0.0, end_s - time.monotonic()), True, bool(self.outgoing)
            if not readable and not writable:
                sentence = f"{self.address} did not answer CONNECT within {timeout_s:g} s: does it speak STOMP?"
                raise ConnectionLost(sentence)
            if writable:
                self.write()
            for event in self.read() if readable else ():
                if isinstance(event, Error):
                    raise refused_connection(self.address, event)
                if isinstance(event, Broken):
                    raise Gone(f"the broker broke the protocol: {event.sentence}")

    def _shake(self, end_s: float, timeout_s: float) -> Generator[tuple[float, bool, bool], tuple[bool, bool], None]:
        """Makes the TLS handshake, before anything is sent. Raises ConnectionLost, WrongName."""
        try:
            context = context_of(self.address)
        except AddressError as wrong:
            raise ConnectionLost(str(wrong)) from None
        host = self.address.host
        tls = context.wrap_socket(self._socket, server_hostname=host, do_handshake_on_connect=False)
        self._socket = tls
        while True:
            reads = writes = False
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                reads = True
            except ssl.SSLWantWriteError:
                writes = True
            except OSError as failed:
                raise cannot_verify(self.address, failed) from None
            else:
                return
            if not any((yield max(0.0, end_s - time.monotonic()), reads, writes)):
                why = f"did not end the handshake of TLS within {timeout_s:g} s: is that port one of stomps://?"
                raise ConnectionLost(f"{self.address} {why}")

    def fileno(self) -> int:
        """Returns the socket's file descriptor."""
        return self._socket.fileno()

    # ---- bytes

    def say(self, data: bytes) -> None:
        """Gives it to the operating system; what that does not take is `outgoing`. Raises Gone."""
        if self.outgoing:
            self.outgoing += data
            return self.write()
        try:
            taken = self._socket.send(data) if data else 0
        except NOTHING_YET:
            taken = 0
        except OSError:
            raise Gone("the broker closed it") from None
        self.sent_at_s = time.monotonic()
        if taken < len(data):
            self.outgoing += memoryview(data)[taken:]

    def write(self) -> None:
        """Writes as much of `outgoing` as the operating system takes. Raises Gone."""
        try:
            taken = self._socket.send(self.outgoing)
        except NOTHING_YET:
            return
        except OSError:
            raise Gone("the broker closed it") from None
        del self.outgoing[:taken]
        self.sent_at_s = time.monotonic()

    def read(self) -> list[ServerEvent]:
        """Returns the events of one read. Raises Gone, also when the broker hangs up after DISCONNECT, as it should."""
        try:
            # of TLS that is a whole record at a time: OpenSSL keeps nothing back that poll would not report
            data = self._socket.recv(READ_BYTES)
        except NOTHING_YET:
            return []
        except OSError as failed:
            raise Gone(lost(failed)) from None
        if not data:
            raise Gone("it was closed after DISCONNECT" if self.session.state == CLOSED else "the broker closed it")
        self.read_at_s = time.monotonic()
        return self.session.receive(data)

    def wait(self, timeout_s: float | None, reads: bool, writes: bool) -> tuple[bool, bool]:
        """Waits until it can be read or written; says which. Several threads may wait at once, one of them to read."""
        # whichever there is: `eventlet` removes poll, `gevent` replaces both
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(self._socket, (select.POLLIN if reads else 0) | (select.POLLOUT if writes else 0))
            ready = poll.poll(None if timeout_s is None else timeout_s * 1000)
            events = ready[0][1] if ready else 0
            # if something is wrong with the socket, reading or writing raises it
            return reads and bool(events & ~select.POLLOUT), writes and bool(events & ~select.POLLIN)
        own = [self._socket]
        readable, writable, _ = select.select(own if reads else [], own if writes else [], [], timeout_s)
        return bool(readable), bool(writable)

    # ---- heart-beats

    def until_beat_s(self) -> float | None:
        """Returns how long until we must have sent something; None: never, or something waits to be sent anyway."""
        interval_s = self.session.heart_beat_send_s
        if not interval_s or self.outgoing:
            return None
        return max(0.0, self.sent_at_s + interval_s / 2 - time.monotonic())

    def until_silent_s(self) -> float | None:
        """Returns how long until the broker is taken for dead if nothing comes; None: never."""
        interval_s = self.session.heart_beat_expect_s
        return max(0.0, self.read_at_s + 2 * interval_s + SILENCE_SLACK_S - time.monotonic()) if interval_s else None

    def beat(self) -> None:
        """Sends a heart-beat at half the promised interval, unless something else was sent or waits to be sent."""
        if self.until_beat_s() == 0.0 and self.session.state == OPEN and not self.outgoing:
            self.say(self.session.heart_beat())

    # ---- the end

    def hang_up(self) -> None:
        """Ends reading and writing, and wakes whoever waits for the socket."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes the socket, without a DISCONNECT; after a fork the other process keeps its own."""
        self._socket.close()


Dial = Callable[[Address, int], ClientConnection]
"""A connection to that address, with that number. Raises ConnectionLost or Refusal."""
