"""The Client: what programs call. Any thread may call anything at any time."""

import json
import os
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Literal, Self

from radiator.client.address import DEFAULT_ADDRESS, Address
from radiator.client.connection import Connection
from radiator.client.errors import ConnectionLost, NoAnswer, TransactionLost
from radiator.client.inbox import Callback, Inbox
from radiator.client.line import REPLIES, Line, Reply
from radiator.client.outstanding import Loss, Say, Subscription
from radiator.client.reconnect import Attempts, Reconnect
from radiator.commands import AUTO
from radiator.errors import RadiatorError, Refusal, Violation
from radiator.protocols.stomp.client import ClientSession, Headers, Message

CONNECT_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 90.0  # longer than a broker lets a SEND wait for room ([limits] block_timeout_s, 60 s)
WINDOW = 100  # receipts outstanding: enough to share one sync, few enough to remember
RECEIVED_MAX_BYTES = 32 * 1024 * 1024  # of MESSAGEs that nobody has received yet: past it nothing is read
HEART_BEAT_MS = (0, 10_000)  # we promise none, since nothing runs between two calls; the broker shall beat
THREAD_HEART_BEAT_MS = (10_000, 10_000)
_CLOSED = "it was closed by this program"
_FORKED = "this process was forked from the one that opened it, and needs a Client of its own"


class Client:
    """A connection to a broker, open from construction until `close`; with `reconnect`, one after the other.

    heart_beat_ms: how often we promise to send, and how often we want to hear, 0: not at all. With heart_beats="calls"
    beats are sent and checked only while one of the methods runs: who promises some must call one (`pump()`) more often
    than that. With "thread" a daemon thread does it, and reads, and reconnects, while the program computes.
    A broker that was silent for twice its interval and a second more is taken for dead.

    After any error but NoAnswer and Violation the connection is lost; without `reconnect`, for good.
    """

    def __init__(
        self,
        address: str | Address | Sequence[str | Address] = DEFAULT_ADDRESS,
        *,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
        window: int = WINDOW,
        versions: Iterable[str] = ("1.0", "1.1", "1.2"),
        heart_beat_ms: tuple[int, int] | None = None,
        heart_beats: Literal["calls", "thread"] = "calls",
        reconnect: bool | Reconnect = False,
        dedup: bool = False,
        received_max_bytes: int = RECEIVED_MAX_BYTES,
    ) -> None:
        """Connects, to the first of several addresses that answers. Raises ConnectionLost or Refusal.

        answer_timeout_s: how long a RECEIPT may take. dedup: every SEND gets a `dedup-id` of its own, and
        is not sent again to another store than it was sent to first: then ConnectionLost is raised.
        received_max_bytes: of messages that nobody has received yet; past it nothing is read.
        """
        assert window > 0, "a window of no receipts would never send"
        assert heart_beats in ("calls", "thread"), f'heart_beats {heart_beats!r} must be "calls" or "thread"'
        several = [address] if isinstance(address, str | Address) else address
        self._addresses = [Address.parse(one) if isinstance(one, str) else one for one in several]
        assert self._addresses, "a client needs an address"
        self._connect_timeout_s = connect_timeout_s
        self._answer_timeout_s = answer_timeout_s
        self._window = window
        self._versions = tuple(versions)
        self._has_thread = heart_beats == "thread"
        self._heart_beat_ms = heart_beat_ms or (THREAD_HEART_BEAT_MS if self._has_thread else HEART_BEAT_MS)
        self._policy = (Reconnect() if reconnect else None) if isinstance(reconnect, bool) else reconnect
        self._dedup = dedup
        self._received_max_bytes = received_max_bytes
        self._begin(0)
        with self._line.lock:
            self._line.open()
        _CLIENTS.add(self)

    def _begin(self, connections: int) -> None:
        """With nothing subscribed, sent or begun. connections: how many there were before."""
        self._inbox = Inbox(self._received_max_bytes)
        self._line = Line(
            self._addresses,
            self._dial,
            None if self._policy is None else Attempts(self._policy, len(self._addresses)),
            self._window,
            self._answer_timeout_s,
            self._inbox,
            connections,
        )
        self._transactions: dict[str, int] = {}  # the number of the connection that each was begun on
        self._dedup_prefix = os.urandom(9).hex()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def _dial(self, address: Address, number: int) -> Connection:
        connection = Connection.dial(address, number, self._versions, self._heart_beat_ms, self._connect_timeout_s)
        self._start_thread()
        return connection

    # ---- sending

    def send(
        self,
        destination: str,
        body: bytes | str = b"",
        headers: Headers = (),
        *,
        transaction: str | None = None,
        confirm: bool | None = True,
    ) -> None:
        """SEND. A `str` is sent as UTF-8.

        confirm True: returns once its RECEIPT is there. False: the RECEIPT is asked for but not awaited; with `window`
        of them outstanding it waits until there is room. `flush` awaits them all; a refusal is raised by whichever
        call meets it first. None: no RECEIPT is asked for, and a lost connection may lose it.
        """
        octets = _octets(body)
        kept = _kept(headers)
        with self._line.lock:
            dedup_id: str | None = None
            if self._dedup and not any(name == "dedup-id" for name, _ in kept):
                dedup_id = self._line.next_name(f"{self._dedup_prefix}-")

            def say(session: ClientSession, receipt: str | None) -> bytes:
                return session.send(
                    destination, octets, receipt=receipt, transaction=transaction, dedup_id=dedup_id, headers=kept
                )

            if transaction is None:
                self._line.ask(say, Loss.AGAIN, confirm, is_once=dedup_id is not None)
            else:
                self._ask_within(transaction, say, Loss.DROPPED, confirm)

    def send_many(self, destination: str, bodies: Iterable[bytes | str], headers: Headers = ()) -> int:
        """SENDs them with a window of RECEIPTs outstanding; how many, once all are confirmed."""
        kept = _kept(headers)
        count = 0
        for body in bodies:
            self.send(destination, body, kept, confirm=False)
            count += 1
        self.flush()
        return count

    def flush(self) -> None:
        """Returns once every RECEIPT asked for is there."""
        with self._line.lock:
            self._line.flush()

    @property
    def unconfirmed(self) -> int:
        """How many RECEIPTs are outstanding."""
        return len(self._line.outstanding)

    # ---- receiving

    def subscribe(
        self,
        destination: str,
        *,
        subscription: str | None = None,
        ack: str = AUTO,
        headers: Headers = (),
        prefetch: int | None = None,
        durable: bool = False,
        callback: Callback | None = None,
    ) -> str:
        """SUBSCRIBE; returns the subscription's id once the broker has confirmed it. Raises Violation for an `ack` that
        there is not, and for a name that is in use.

        prefetch: how many unacked messages it may have, beside those of other subscriptions. durable: it collects while
        nobody is there; then `subscription`, its name for ever, is required. callback: is called with each message, by
        `pump` and `receive`, in the thread that called them.
        """
        if durable and subscription is None:
            raise Violation("A durable subscription needs an id that is the same each time: `subscription`.")
        kept = _kept(headers)
        kept += [("prefetch-count", str(prefetch))] if prefetch is not None else []
        kept += [("durable", "true"), ("auto-delete", "false")] if durable else []
        line = self._line
        with line.lock:
            name = line.next_name("s") if subscription is None else subscription
            if name in line.subscriptions:
                raise Violation(f"The subscription {name!r} exists already: each must have an id of its own.")
            wanted = line.subscriptions[name] = Subscription(name, destination, ack, kept)
            if callback is not None:
                self._inbox.callbacks[name] = callback
            try:
                line.ask(wanted.say, Loss.REPLAYED, True)
                wanted.is_known = True
            except NoAnswer:
                wanted.is_known = True
                raise
            except RadiatorError:
                line.subscriptions.pop(name, None)
                self._inbox.callbacks.pop(name, None)
                raise
        return name

    def unsubscribe(self, subscription: str, *, forget: bool = False, destination: str | None = None) -> None:
        """UNSUBSCRIBE. What has come already is still handed out.

        forget: ends a durable subscription for good, with all that it has collected; `destination`: where it is not
        subscribed here.
        """
        line = self._line
        with line.lock:
            known = line.subscriptions.get(subscription)
            where = known.destination if known is not None and destination is None else destination
            if known is None and not (forget and where is not None):
                raise Violation(f"There is no subscription {subscription!r} to end.")

            def say(session: ClientSession, receipt: str | None) -> bytes:
                return session.unsubscribe(subscription, receipt=receipt, forget=where if forget else None)

            number = line.up().number
            line.subscriptions.pop(subscription, None)
            if forget:
                line.ask(say, Loss.AGAIN, True)
            else:
                line.ask(say, Loss.DROPPED, True, number)
            self._inbox.callbacks.pop(subscription, None)

    def receive(self, timeout_s: float | None = None, subscription: str | None = None) -> Message | None:
        """The next MESSAGE of any subscription without a callback, None where none came in time. Calls callbacks.

        timeout_s None: waits for ever. subscription: of that one only; what comes of others is kept for other calls,
        and counts in `received_max_bytes`: past that nothing is read, and NoAnswer is raised.
        """
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        line, inbox = self._line, self._inbox
        while True:
            with line.lock:
                line.receiver = threading.get_ident()
                if not inbox.has(subscription):
                    if inbox.is_full:
                        raise NoAnswer(
                            f"Nothing of the subscription {subscription!r} can come: what others have been sent, and "
                            "nobody has received, fills received_max_bytes. Receive that first, or give each "
                            "subscription a Client of its own."
                        )
                    left_s = None if end_s is None else max(0.0, end_s - time.monotonic())
                    line.wait(lambda: inbox.has(subscription) or inbox.is_full, left_s)
                was_full = inbox.is_full
                message = inbox.take(subscription)
                if message is not None:
                    line.made_room(was_full)
                    line.beat()
                    return message
            if not self._call_back() and end_s is not None and time.monotonic() >= end_s:
                return None

    def messages(self, timeout_s: float | None = None, subscription: str | None = None) -> Iterator[Message]:
        """Each MESSAGE as `receive` gives it, until none comes for so long; None: for ever."""
        while (message := self.receive(timeout_s, subscription)) is not None:
            yield message

    def ack(self, message: Message, *, transaction: str | None = None, confirm: bool | None = True) -> bool:
        """ACK. `confirm` as in `send`: on a persistent queue the RECEIPT says that it is synced.

        False: the connection that it came on is lost; nothing is sent, and the broker gives the message out again,
        unless it took an ACK before that was lost. Within a transaction TransactionLost is raised instead.
        """

        def say(session: ClientSession, receipt: str | None) -> bytes:
            return session.ack(message, receipt=receipt, transaction=transaction)

        return self._settle(message, say, transaction, confirm)

    def nack(
        self,
        message: Message,
        *,
        transaction: str | None = None,
        requeue: bool = True,
        delay_ms: int | None = None,
        confirm: bool | None = True,
    ) -> bool:
        """NACK. requeue False: to the dead-letter queue now. delay_ms: it comes again after so long. Else as `ack`."""

        def say(session: ClientSession, receipt: str | None) -> bytes:
            return session.nack(message, receipt=receipt, transaction=transaction, requeue=requeue, delay_ms=delay_ms)

        return self._settle(message, say, transaction, confirm)

    def _settle(self, message: Message, say: Say, transaction: str | None, confirm: bool | None) -> bool:
        with self._line.lock:
            if transaction is None:
                return self._line.ask(say, Loss.DROPPED, confirm, message.connection)
            if self._line.up().number != message.connection:
                raise TransactionLost(
                    f"The message {message.message_id} came on a connection that is lost, and comes again: the "
                    f"transaction {transaction} cannot have it."
                )
            self._ask_within(transaction, say, Loss.DROPPED, confirm)
            return True

    # ---- transactions

    def begin(self, transaction: str | None = None) -> str:
        """BEGIN; returns the transaction's id."""
        line = self._line
        with line.lock:
            name = line.next_name("t") if transaction is None else transaction
            line.glance()
            connection = line.up()
            line.say(connection, connection.session.begin(name))
            self._transactions[name] = connection.number
        return name

    def commit(self, transaction: str, *, prepare: str | None = None) -> None:
        """COMMIT; returns once all of it has happened and, where it touches persistent queues, is synced.

        prepare: it is not carried out but kept under that name, until `/admin` is asked to commit or abort it.
        Raises TransactionLost where its connection was lost before, so that nothing of it happened; ConnectionLost
        where it was lost after, so that all of it may have happened, or nothing.
        """

        def say(session: ClientSession, receipt: str | None) -> bytes:
            return session.commit(transaction, receipt=receipt, prepare=prepare)

        with self._line.lock:
            self._line.glance()
            try:
                self._ask_within(transaction, say, Loss.UNKNOWN, True)
            finally:
                self._transactions.pop(transaction, None)

    def abort(self, transaction: str) -> None:
        """ABORT; returns once nothing of it will happen."""

        def say(session: ClientSession, receipt: str | None) -> bytes:
            return session.abort(transaction, receipt=receipt)

        with self._line.lock, suppress(TransactionLost):
            try:
                self._ask_within(transaction, say, Loss.DROPPED, True)
            finally:
                self._transactions.pop(transaction, None)

    def _ask_within(self, transaction: str, say: Say, loss: Loss, confirm: bool | None) -> None:
        """Of one that was never begun, the session says so."""
        if not self._line.ask(say, loss, confirm, self._transactions.get(transaction)):
            raise TransactionLost(
                f"The transaction {transaction} was open on a connection that is lost: nothing of it has happened."
            )

    @contextmanager
    def transaction(self) -> Iterator[str]:
        """`with client.transaction() as t:` commits at the end, and aborts where the block raises."""
        name = self.begin()
        try:
            yield name
        except BaseException:
            with suppress(ConnectionLost, NoAnswer):
                self.abort(name)
            raise
        self.commit(name)

    # ---- request and reply

    def request(
        self, destination: str, body: bytes | str = b"", timeout_s: float = CONNECT_TIMEOUT_S, headers: Headers = ()
    ) -> Message:
        """SENDs a request and returns the reply, which must carry the request's `correlation-id`, as is the custom.

        Raises NoAnswer where none came in time; one that comes later is dropped. Raises ConnectionLost where the
        connection is lost before the reply, whatever `reconnect` says: the request may or may not be carried out.
        """
        octets = _octets(body)
        line, reply = self._line, Reply()
        with line.lock:
            correlation = line.next_name("q")
            more = [("reply-to", REPLIES), ("correlation-id", correlation), *_kept(headers)]

            def say(session: ClientSession, receipt: str | None) -> bytes:
                return session.send(destination, octets, receipt=receipt, headers=more)

            line.glance()
            line.up()
            line.replies[correlation] = reply
            try:
                asked = line.put(say, Loss.DROPPED, True)
                is_there = line.wait(lambda: bool(reply.message or reply.error or asked.error), timeout_s, "reply")
                asked.is_awaited = False
            finally:
                del line.replies[correlation]
        if reply.message is not None:
            return reply.message
        if not is_there:
            raise NoAnswer(f"No reply to a request to {destination} came within {timeout_s:g} s.")
        raise asked.error or reply.error or AssertionError("what is done has an answer or an error")

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

    # ---- for event loops

    def fileno(self) -> int:
        """Of the socket, as long as this connection lasts. Raises ConnectionLost where there is none."""
        connection = self._line.connection
        if connection is None:
            raise ConnectionLost(f"There is no connection to {self.address} now.")
        return connection.fileno()

    def pump(self, timeout_s: float = 0.0) -> int:
        """Reads once, where no callback waits already, and calls the callbacks of what has come: how many.

        Sends and checks heart-beats. Callbacks are called by `pump` and `receive` only, never from within another call
        of theirs that waits: what comes meanwhile is `waiting`.
        """
        line, inbox = self._line, self._inbox
        with line.lock:
            line.receiver = threading.get_ident()
            if inbox.calls:
                line.beat()
            else:
                line.wait(lambda: inbox.calls > 0, timeout_s)
        return self._call_back()

    def _call_back(self) -> int:
        """Calls the callbacks that wait now, without the lock; how many."""
        line, inbox, called = self._line, self._inbox, 0
        for _ in range(inbox.calls):
            with line.lock:
                was_full = inbox.is_full
                call = inbox.take_call()
                line.made_room(was_full)
            if call is None:
                break
            callback, message = call
            callback(message)
            called += 1
        return called

    @property
    def waiting(self) -> int:
        """MESSAGEs that have been read and not handed out: the socket does not become readable for them."""
        return len(self._inbox)

    @property
    def heart_beat_s(self) -> tuple[float, float]:
        """How often we must send, and how often the broker does, as agreed; 0.0: never, or there is no connection."""
        connection = self._line.connection
        if connection is None:
            return 0.0, 0.0
        return connection.session.heart_beat_send_s, connection.session.heart_beat_expect_s

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._line.connection is not None

    @property
    def connections(self) -> int:
        """How many times a connection was tried, this one included."""
        return self._line.connections

    @property
    def address(self) -> Address:
        """Where the connection leads to, or where the next one is tried."""
        return self._line.address

    # ---- the end

    def close(self, timeout_s: float | None = None) -> None:
        """DISCONNECT; returns once all that was asked before is confirmed, and closes. Twice does no harm.

        Raises NoAnswer where that took longer than timeout_s, None: answer_timeout_s; it is closed nevertheless.
        """

        def say(session: ClientSession, receipt: str | None) -> bytes:
            return session.disconnect(receipt=receipt)

        line = self._line
        with line.lock:
            if line.lost is not None:
                return
            line.answer_timeout_s = line.answer_timeout_s if timeout_s is None else timeout_s
            try:
                if line.restores:
                    self._settle_all()
                if line.connection is not None:
                    line.ask(say, Loss.DROPPED, True, line.connection.number)
            finally:
                line.let_go(_CLOSED)
                self._closed.set()

    def _settle_all(self) -> None:
        """The last that is outstanding, over another connection if need be."""
        line = self._line
        if not line.wait(lambda: not line.outstanding, line.answer_timeout_s):
            count = len(line.outstanding)
            raise NoAnswer(f"{count} receipts did not come within {line.answer_timeout_s:g} s: they are given up.")
        line.check_refused()

    def abandon(self) -> None:
        """Closes at once and without a word: what is unacked comes back, what is unconfirmed may have happened."""
        with self._line.lock:
            self._line.let_go(_CLOSED)
            self._closed.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes; where the block has raised, at once and without a word: what is unacked comes back."""
        if error is None:
            self.close()
        else:
            self.abandon()

    # ---- a thread of its own, and a process of its own

    def _start_thread(self) -> None:
        """With the first connection of a process. It knows the Client weakly, and ends when nobody else knows it."""
        if self._has_thread and self._thread is None:
            self._thread = threading.Thread(
                target=_keep_beating, args=(weakref.ref(self), self._closed), name="radiator.client", daemon=True
            )
            self._thread.start()

    def _look(self) -> float | None:
        """Beats, reads and restores without waiting; how long until the next look, None: no more."""
        with self._line.lock:
            return None if self._line.lost is not None else self._line.look()

    def _forked(self) -> None:
        """In the child the connection is the parent's, and so is all that was said on it."""
        parents = self._line
        connection, lost = parents.connection, parents.lost
        # greenlets, unlike threads, are still there in a child
        parents.connection, parents.lost = None, _FORKED
        self._begin(parents.connections)
        if connection is not None:
            connection.close()
        self._line.lost = lost or (_FORKED if self._policy is None else None)


def _octets(body: bytes | str) -> bytes:
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise TypeError(f"body {body!r:.80} is of type {type(body).__name__}: it must be bytes or str.")


def _kept(headers: Headers) -> list[tuple[str, str]]:
    kept = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
    for pair in kept:
        if not (isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(text, str) for text in pair)):
            raise TypeError(f"headers have {pair!r:.80}: they must be pairs of str, or a mapping from str to str.")
    return kept


def _keep_beating(client: "weakref.ref[Client]", closed: threading.Event) -> None:
    wait_s: float | None = 0.0
    while wait_s is not None and not closed.wait(wait_s):
        one = client()
        if one is None:
            return
        wait_s = one._look()
        del one


_CLIENTS: "weakref.WeakSet[Client]" = weakref.WeakSet()


def _after_fork() -> None:
    for client in list(_CLIENTS):
        client._forked()


os.register_at_fork(after_in_child=_after_fork)
