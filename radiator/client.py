"""A small blocking client for programs and tools: plain sockets, no gevent, no thread of its own.

    with Client("stomp://127.0.0.1:61613") as client:
        client.send("/queue/orders", b"one")  # returns once the broker has confirmed it
        client.subscribe("/queue/orders", ack="client-individual")
        message = client.receive(timeout_s=5)

A Client is used by one thread at a time; threads that want to speak at the same moment have one each. Whatever goes
wrong is a RadiatorError, its text a whole sentence; after any but NoAnswer and Violation the connection is closed.
"""

import json
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from radiator.commands import AUTO
from radiator.errors import RadiatorError, Refusal
from radiator.protocols.stomp.client import (
    CLOSED,
    OPEN,
    Broken,
    ClientSession,
    Connected,
    Error,
    Headers,
    Message,
    Receipt,
    ServerEvent,
)

__all__ = ["Address", "AddressError", "Client", "ConnectionLost", "DEFAULT_ADDRESS", "Message", "NoAnswer"]

DEFAULT_ADDRESS = "stomp://127.0.0.1:61613"
DEFAULT_PORT = 61613
CONNECT_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 90.0  # longer than a broker lets a SEND wait for room ([limits] block_timeout_s, 60 s)
WINDOW = 100  # receipts outstanding: enough to share one sync, few enough to remember
READ_BYTES = 64 * 1024
SILENCE_SLACK_S = 1.0  # beyond twice the broker's interval: a busy network or machine is no dead broker
HEART_BEAT_MS = (0, 10_000)  # we promise none, since nothing runs between two calls; the broker shall beat
_REPLIES = "/temp-queue/replies"


class AddressError(RadiatorError):
    """The address of a broker cannot be read."""


class ConnectionLost(RadiatorError):
    """There is no connection (any more). What was not confirmed may or may not have happened."""


class NoAnswer(RadiatorError):
    """The answer did not come in time. The connection is as it was."""


@dataclass(slots=True)
class Address:
    """`stomp://[LOGIN[:PASSCODE]@]HOST[:PORT]`."""

    host: str
    port: int = DEFAULT_PORT
    login: str = ""
    passcode: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises AddressError, which does not repeat the passcode."""
        wanted = "it must be stomp://HOST:PORT, such as " + DEFAULT_ADDRESS
        shown = repr(text.rpartition("@")[2])
        try:
            parts = urlsplit(text)
            port = DEFAULT_PORT if parts.port is None else parts.port
        except ValueError:
            raise AddressError(f"The broker's address {shown} cannot be read: {wanted}.") from None
        if parts.scheme != "stomp" or not parts.hostname or parts.path not in ("", "/") or parts.query or not port:
            raise AddressError(f"The broker's address {shown} cannot be used: {wanted}.")
        return cls(parts.hostname, port, unquote(parts.username or ""), unquote(parts.password or ""))

    def __str__(self) -> str:
        """Without login and passcode: it stands in sentences."""
        return f"stomp://[{self.host}]:{self.port}" if ":" in self.host else f"stomp://{self.host}:{self.port}"


class Client:
    """One connection to a broker, open from construction until `close`.

    heart_beat_ms: how often we promise to send, and how often we want to hear, 0: not at all. Beats are sent and
    checked only while one of the methods runs: who promises some must call one (`receive(0)`) more often than that.
    A broker that was silent for twice its interval and a second more is taken for dead by the next method that waits.
    MESSAGEs that come while another answer is awaited are kept for `receive`.
    """

    def __init__(
        self,
        address: str | Address = DEFAULT_ADDRESS,
        *,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
        window: int = WINDOW,
        versions: Iterable[str] = ("1.0", "1.1", "1.2"),
        heart_beat_ms: tuple[int, int] = HEART_BEAT_MS,
    ) -> None:
        """Connects. answer_timeout_s: how long a RECEIPT may take. Raises ConnectionLost or Refusal."""
        assert window > 0, "a window of no receipts would never send"
        self.address = Address.parse(address) if isinstance(address, str) else address
        self.window = window
        self._answer_timeout_s = answer_timeout_s
        self._session = ClientSession()
        self._outgoing = bytearray()
        self._messages: deque[Message] = deque()
        self._replies: dict[str, Message | None] = {}  # correlation-id -> the reply, once there
        self._awaited: set[str] = set()  # receipt ids
        self._numbered = 0
        self._lost: str | None = None  # why there is no connection any more
        self._socket = self._connected(connect_timeout_s)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._read_at_s = self._sent_at_s = time.monotonic()
        try:
            self._greet(tuple(versions), heart_beat_ms, connect_timeout_s)
        except BaseException:
            self._let_go("it was never open")
            raise

    # ---- sending

    def send(
        self,
        destination: str,
        body: bytes | str = b"",
        headers: Headers = (),
        *,
        transaction: str | None = None,
        confirm: bool = True,
    ) -> None:
        """SEND. A `str` is sent as UTF-8.

        confirm True: returns once its RECEIPT is there. False: the RECEIPT is asked for but not awaited; with `window`
        of them outstanding it waits until there is room. `flush` awaits them all; a refusal is raised by whichever
        call meets it first.
        """
        octets = body.encode() if isinstance(body, str) else body
        self._ask(
            lambda receipt: self._session.send(
                destination, octets, receipt=receipt, transaction=transaction, headers=headers
            ),
            confirm,
        )

    def send_many(self, destination: str, bodies: Iterable[bytes | str], headers: Headers = ()) -> int:
        """SENDs them with a window of RECEIPTs outstanding; how many, once all are confirmed."""
        kept = list(headers.items()) if hasattr(headers, "items") else list(headers)
        count = 0
        for body in bodies:
            self.send(destination, body, kept, confirm=False)
            count += 1
        self.flush()
        return count

    def flush(self) -> None:
        """Returns once every RECEIPT asked for is there."""
        self._await(lambda: not self._awaited, "RECEIPT")

    @property
    def unconfirmed(self) -> int:
        """How many RECEIPTs are outstanding."""
        return len(self._awaited)

    # ---- receiving

    def subscribe(
        self, destination: str, *, subscription: str | None = None, ack: str = AUTO, headers: Headers = ()
    ) -> str:
        """SUBSCRIBE; returns the subscription's id once the broker has confirmed it."""
        name = self._next("s") if subscription is None else subscription
        self._ask(
            lambda receipt: self._session.subscribe(name, destination, ack=ack, receipt=receipt, headers=headers), True
        )
        return name

    def unsubscribe(self, subscription: str) -> None:
        """UNSUBSCRIBE. What has come already is still returned by `receive`."""
        self._ask(lambda receipt: self._session.unsubscribe(subscription, receipt=receipt), True)

    def receive(self, timeout_s: float | None = None) -> Message | None:
        """The next MESSAGE of any subscription; None where none came in time. timeout_s None: waits for ever."""
        if not self._messages:
            self._wait(lambda: bool(self._messages), timeout_s)
        self._beat()
        return self._messages.popleft() if self._messages else None

    def ack(self, message: Message, *, transaction: str | None = None, confirm: bool = True) -> None:
        """ACK. `confirm` as in `send`: on a persistent queue the RECEIPT says that it is synced."""
        self._ask(lambda receipt: self._session.ack(message, receipt=receipt, transaction=transaction), confirm)

    def nack(
        self, message: Message, *, transaction: str | None = None, requeue: bool = True, confirm: bool = True
    ) -> None:
        """NACK. requeue False: to the dead-letter queue now."""
        self._ask(
            lambda receipt: self._session.nack(message, receipt=receipt, transaction=transaction, requeue=requeue),
            confirm,
        )

    # ---- transactions

    def begin(self, transaction: str | None = None) -> str:
        """BEGIN; returns the transaction's id."""
        name = self._next("t") if transaction is None else transaction
        self._say(self._session.begin(name))
        return name

    def commit(self, transaction: str) -> None:
        """COMMIT; returns once all of it has happened and, where it touches persistent queues, is synced."""
        self._ask(lambda receipt: self._session.commit(transaction, receipt=receipt), True)

    def abort(self, transaction: str) -> None:
        """ABORT; returns once nothing of it will happen."""
        self._ask(lambda receipt: self._session.abort(transaction, receipt=receipt), True)

    @contextmanager
    def transaction(self) -> Iterator[str]:
        """`with client.transaction() as t:` commits at the end, and aborts where the block raises."""
        name = self.begin()
        try:
            yield name
        except BaseException:
            if self._lost is None:
                self.abort(name)
            raise
        self.commit(name)

    # ---- request and reply

    def request(
        self, destination: str, body: bytes | str = b"", timeout_s: float = CONNECT_TIMEOUT_S, headers: Headers = ()
    ) -> Message:
        """SENDs a request and returns the reply, which must carry the request's `correlation-id`, as is the custom.

        Raises NoAnswer where none came in time; one that comes later is dropped.
        """
        octets = body.encode() if isinstance(body, str) else body
        correlation = self._next("q")
        kept = list(headers.items()) if hasattr(headers, "items") else list(headers)
        own = [("reply-to", _REPLIES), ("correlation-id", correlation)]
        self._replies[correlation] = None
        try:
            self._say(self._session.send(destination, octets, headers=[*own, *kept]))
            if not self._wait(lambda: self._replies[correlation] is not None, timeout_s):
                raise NoAnswer(f"No reply to a request to {destination} came within {timeout_s:g} s.")
            reply = self._replies[correlation]
            assert reply is not None
            return reply
        finally:
            del self._replies[correlation]

    def admin(self, request: dict[str, Any], timeout_s: float = CONNECT_TIMEOUT_S) -> dict[str, Any]:
        """Asks the broker's `/admin` (docs/PROTOCOL.md). Raises Refusal, with its code, where the answer says no."""
        reply = self.request("/admin", json.dumps(request), timeout_s, [("content-type", "application/json")])
        try:
            answer = json.loads(reply.body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or "ok" not in answer:
            raise Refusal("version", "The broker's answer cannot be read: is it of another version, or another's?")
        if answer["ok"] is not True:
            raise Refusal(str(answer.get("code", "")), str(answer.get("error", "The broker refused without a reason.")))
        return answer

    # ---- the end

    def close(self) -> None:
        """DISCONNECT; returns once all that was asked before is confirmed, and closes. Twice does no harm."""
        if self._lost is not None:
            return
        try:
            self._ask(lambda receipt: self._session.disconnect(receipt=receipt), True)
        finally:
            self._let_go("it was closed by this program")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes; where the block has raised, at once and without a word: what is unacked comes back."""
        if error is None:
            self.close()
        elif self._lost is None:
            self._let_go("it was closed by this program")

    # ---- the connection

    def _connected(self, timeout_s: float) -> socket.socket:
        try:
            one = socket.create_connection((self.address.host, self.address.port), timeout_s)
        except OSError as failed:
            why = "no answer" if isinstance(failed, TimeoutError) else failed.strerror or str(failed)
            raise ConnectionLost(f"Cannot connect to {self.address}: {why}. Is the broker running?") from None
        one.setblocking(False)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return one

    def _greet(self, versions: tuple[str, ...], heart_beat_ms: tuple[int, int], timeout_s: float) -> None:
        login, passcode = self.address.login or None, self.address.passcode or None
        self._say(
            self._session.connect(
                self.address.host, versions=versions, heart_beat_ms=heart_beat_ms, login=login, passcode=passcode
            )
        )
        if not self._wait(lambda: self._session.state == OPEN, timeout_s):
            raise ConnectionLost(f"{self.address} did not answer CONNECT within {timeout_s:g} s: does it speak STOMP?")

    def _ask(self, frame: Callable[[str], bytes], confirm: bool) -> None:
        """Sends a frame with a receipt, and awaits that one (`confirm`) or only room in the window."""
        self._check_open()
        if len(self._awaited) >= self.window:
            self._await(lambda: len(self._awaited) < self.window, "RECEIPT")
        receipt = self._next("r")
        data = frame(receipt)
        self._awaited.add(receipt)
        self._say(data)
        if confirm:
            self._await(lambda: receipt not in self._awaited, "RECEIPT")

    def _say(self, data: bytes) -> None:
        """Returns once the operating system has all of it; reads meanwhile, lest two full buffers block each other."""
        self._check_open()
        self._outgoing += data
        self._write()
        if self._outgoing:
            self._await(lambda: not self._outgoing, "room to send")

    def _await(self, is_done: Callable[[], bool], what: str) -> None:
        if not self._wait(is_done, self._answer_timeout_s):
            raise NoAnswer(f"{self.address} gave no {what} within {self._answer_timeout_s:g} s.")

    def _wait(self, is_done: Callable[[], bool], timeout_s: float | None) -> bool:
        """Reads and writes until it is done (True) or the time is over (False)."""
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not is_done():
            self._check_open()
            left_s = None if end_s is None else max(0.0, end_s - time.monotonic())
            self._pump(left_s)
            if left_s == 0.0:
                return is_done()
        return True

    def _pump(self, timeout_s: float | None) -> None:
        """One wait for the socket, no longer than until a heart-beat is due either way."""
        self._beat()
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)
        self._selector.modify(self._socket, wanted)
        waits_s = [wait_s for wait_s in (timeout_s, *self._heart_beat_waits_s()) if wait_s is not None]
        ready = self._selector.select(min(waits_s, default=None))
        events = ready[0][1] if ready else 0
        if events & selectors.EVENT_READ:
            self._read()
        elif 0.0 in self._heart_beat_waits_s()[1:]:
            silent_s = time.monotonic() - self._read_at_s
            raise self._gone(f"the broker was silent for {silent_s:.1f} s, though it promised heart-beats")
        if events & selectors.EVENT_WRITE:
            self._write()

    def _heart_beat_waits_s(self) -> tuple[float | None, float | None]:
        """How long until we must send, and until the broker is taken for dead; None: never."""
        now_s, sends_s, expects_s = time.monotonic(), self._session.heart_beat_send_s, self._session.heart_beat_expect_s
        return (
            max(0.0, self._sent_at_s + sends_s / 2 - now_s) if sends_s else None,
            max(0.0, self._read_at_s + 2 * expects_s + SILENCE_SLACK_S - now_s) if expects_s else None,
        )

    def _beat(self) -> None:
        """A heart-beat at half the interval that was promised, unless something else was sent or waits to be."""
        is_idle = self._lost is None and self._session.state == OPEN and not self._outgoing
        if is_idle and self._heart_beat_waits_s()[0] == 0.0:
            self._outgoing += self._session.heart_beat()
            self._write()

    def _write(self) -> None:
        try:
            taken = self._socket.send(self._outgoing)
        except BlockingIOError:
            return
        except OSError:
            # the broker may have said why before it closed
            self._read()
            raise self._gone("the broker closed it") from None
        del self._outgoing[:taken]
        self._sent_at_s = time.monotonic()

    def _read(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError as failed:
            raise self._gone(failed.strerror or "it failed") from None
        if not data:
            if self._session.state == CLOSED:
                return self._let_go("it was closed after DISCONNECT")
            raise self._gone("the broker closed it")
        self._read_at_s = time.monotonic()
        for event in self._session.receive(data):
            self._take(event)

    def _take(self, event: ServerEvent) -> None:
        match event:
            case Message():
                correlation = event.headers.get("correlation-id", "")
                if event.subscription != _REPLIES:
                    self._messages.append(event)
                elif correlation in self._replies:
                    self._replies[correlation] = event
            case Receipt():
                self._awaited.discard(event.receipt)
            case Connected():
                pass
            case Error():
                sentence = event.body.decode("utf-8", "replace").strip() or event.message
                self._let_go(f"the broker refused: {sentence}")
                raise Refusal(event.headers.get("code", ""), sentence)
            case Broken():
                raise self._gone(f"the broker broke the protocol: {event.sentence}")

    def _next(self, kind: str) -> str:
        self._numbered += 1
        return f"{kind}{self._numbered}"

    def _check_open(self) -> None:
        if self._lost is not None:
            raise ConnectionLost(f"There is no connection to {self.address}: {self._lost.rstrip('.')}.")

    def _gone(self, why: str) -> ConnectionLost:
        """Lets go of the connection; the error to raise for it."""
        count = len(self._awaited)
        unconfirmed = f" {count} {'receipt is' if count == 1 else 'receipts are'} outstanding." if count else ""
        self._let_go(why)
        return ConnectionLost(f"The connection to {self.address} is lost: {why.rstrip('.')}.{unconfirmed}")

    def _let_go(self, why: str) -> None:
        if self._lost is None:
            self._lost = why
            self._selector.close()
            self._socket.close()
