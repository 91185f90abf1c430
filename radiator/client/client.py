"""The Client: what programs call. Any thread may call anything at any time; one of those that wait reads for all.

One lock guards everything. Who must wait *leads*, if nobody does: waits for the socket without the lock, reads what has
come, and wakes the others, who look whether it was theirs. Whoever leads also finds a lost connection, and restores it.
"""

import json
import logging
import os
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

from radiator.client.address import DEFAULT_ADDRESS, Address
from radiator.client.connection import Connection, Gone, refusal
from radiator.client.errors import ConnectionLost, NoAnswer, TransactionLost
from radiator.client.outstanding import Loss, Outstanding, Say
from radiator.client.reconnect import Attempts, Reconnect
from radiator.commands import AUTO
from radiator.errors import RadiatorError, Refusal, Violation
from radiator.protocols.stomp.client import Broken, ClientSession, Error, Headers, Message, Receipt, ServerEvent

CONNECT_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 90.0  # longer than a broker lets a SEND wait for room ([limits] block_timeout_s, 60 s)
WINDOW = 100  # receipts outstanding: enough to share one sync, few enough to remember
RECEIVED_MAX_BYTES = 32 * 1024 * 1024  # of MESSAGEs that nobody has received yet: past it nothing is read
MESSAGE_BYTES = 2048  # what a Message takes beside its body
HEART_BEAT_MS = (0, 10_000)  # we promise none, since nothing runs between two calls; the broker shall beat
THREAD_HEART_BEAT_MS = (10_000, 10_000)
LOOK_S = 1.0  # how often, at least, a thread of ours looks at the connection
LOOK_MIN_S = 0.01
FULL_LOOK_S = 0.05  # how often a thread that may only write looks whether it may read again
_REPLIES = "/temp-queue/replies"
_FORKED = "this process was forked from the one that opened it, which still uses it; a Client of its own is needed here"

_log = logging.getLogger("radiator.client")

Callback = Callable[[Message], object]


@dataclass(slots=True)
class _Subscription:
    """is_known: no call awaits its first RECEIPT any more, so that it is replayed."""

    destination: str
    ack: str
    headers: list[tuple[str, str]]
    is_known: bool = False


@dataclass(slots=True)
class _Reply:
    message: Message | None = None
    error: RadiatorError | None = None


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

        answer_timeout_s: how long a RECEIPT may take. dedup: every SEND gets a `dedup-id` of its own.
        """
        assert window > 0, "a window of no receipts would never send"
        assert heart_beats in ("calls", "thread"), f'heart_beats {heart_beats!r} must be "calls" or "thread"'
        several = [address] if isinstance(address, str | Address) else list(address)
        assert several, "a client needs an address"
        self._addresses = [Address.parse(one) if isinstance(one, str) else one for one in several]
        self.window = window
        self._connect_timeout_s = connect_timeout_s
        self._answer_timeout_s = answer_timeout_s
        self._versions = tuple(versions)
        self._has_thread = heart_beats == "thread"
        self._heart_beat_ms = heart_beat_ms or (THREAD_HEART_BEAT_MS if self._has_thread else HEART_BEAT_MS)
        policy = (Reconnect() if reconnect else None) if isinstance(reconnect, bool) else reconnect
        self._attempts = None if policy is None else Attempts(policy, len(self._addresses))
        self._dedup = dedup
        self._received_max_bytes = received_max_bytes
        self._numbered = 0
        self._connection: Connection | None = None
        self._connections = 1
        self._begin_anew()
        self._connection = first = self._first()
        self._last_address = first.address
        self._start_thread()
        _CLIENTS.add(self)

    def _begin_anew(self) -> None:
        """As before the first connection."""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._connection = None
        self._lost: str | None = None  # why there is no connection any more, and will be none
        self._unraised: RadiatorError | None = None  # for the next call, since no call awaited it
        self._is_led = False  # a thread reads, or restores the connection
        self._is_writing = False  # a thread, whether it leads or not, waits for room to write
        self._outstanding: dict[str, Outstanding] = {}  # by receipt, in the order of sending
        self._subscriptions: dict[str, _Subscription] = {}
        self._callbacks: dict[str, Callback] = {}  # by subscription
        self._transactions: dict[str, int] = {}  # the number of the connection that each was begun on
        self._replies: dict[str, _Reply] = {}  # by correlation-id
        self._received: deque[Message] = deque()
        self._called: deque[tuple[Callback, Message]] = deque()
        self._kept_bytes = 0  # of both
        self._receiver: int | None = None  # the thread that received last
        self._dedup_prefix = os.urandom(9).hex()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

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
        octets = body.encode() if isinstance(body, str) else body
        kept = _kept(headers)
        dedup_id: str | None = None
        if self._dedup and not any(name == "dedup-id" for name, _ in kept):
            with self._lock:
                dedup_id = f"{self._dedup_prefix}-{self._next('')}"
        if transaction is None:

            def say(session: ClientSession, receipt: str | None) -> bytes:
                return session.send(destination, octets, receipt=receipt, dedup_id=dedup_id, headers=kept)

            self._ask(say, Loss.AGAIN, confirm)
        else:

            def say_in(session: ClientSession, receipt: str | None) -> bytes:
                return session.send(
                    destination, octets, receipt=receipt, transaction=transaction, dedup_id=dedup_id, headers=kept
                )

            self._ask(say_in, Loss.DROPPED, confirm, transaction)

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
        with self._lock:
            self._await(lambda: not self._outstanding, "RECEIPT")
            self._check_refused()

    @property
    def unconfirmed(self) -> int:
        """How many RECEIPTs are outstanding."""
        return len(self._outstanding)

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
        """SUBSCRIBE; returns the subscription's id once the broker has confirmed it.

        prefetch: how many unacked messages it may have, beside those of other subscriptions. durable: it collects while
        nobody is there; then `subscription`, its name for ever, is required. callback: is called with each message, by
        `pump` and `receive`, in the thread that called them.
        """
        if durable and subscription is None:
            raise Violation("A durable subscription needs an id that is the same each time: `subscription`.")
        kept = _kept(headers)
        kept += [("prefetch-count", str(prefetch))] if prefetch is not None else []
        kept += [("durable", "true"), ("auto-delete", "false")] if durable else []
        with self._lock:
            name = self._next("s") if subscription is None else subscription
            if name in self._subscriptions:
                raise Violation(f"The subscription {name!r} exists already: each must have an id of its own.")
            wanted = self._subscriptions[name] = _Subscription(destination, ack, kept)
            if callback is not None:
                self._callbacks[name] = callback
            try:
                self._ask_locked(_subscribe(name, wanted), Loss.REPLAYED, True)
            except NoAnswer:
                wanted.is_known = True
                raise
            except RadiatorError:
                self._subscriptions.pop(name, None)
                self._callbacks.pop(name, None)
                raise
            wanted.is_known = True
        return name

    def unsubscribe(self, subscription: str, *, forget: bool = False, destination: str | None = None) -> None:
        """UNSUBSCRIBE. What has come already is still handed out.

        forget: ends a durable subscription for good, with all that it has collected; `destination`: where it is not
        subscribed here.
        """
        with self._lock:
            known = self._subscriptions.get(subscription)
            where = known.destination if known is not None and destination is None else destination
            if known is None and not (forget and where is not None):
                raise Violation(f"There is no subscription {subscription!r} to end.")

            def say(session: ClientSession, receipt: str | None) -> bytes:
                return session.unsubscribe(subscription, receipt=receipt, forget=where if forget else None)

            self._up()
            self._subscriptions.pop(subscription, None)
            self._ask_locked(say, Loss.AGAIN if forget else Loss.DROPPED, True)
            self._callbacks.pop(subscription, None)

    def receive(self, timeout_s: float | None = None) -> Message | None:
        """The next MESSAGE of any subscription without a callback, None where none came in time. Calls callbacks.

        timeout_s None: waits for ever.
        """
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            with self._lock:
                self._receiver = threading.get_ident()
                if not self._received and not self._called:
                    self._wait(lambda: bool(self._received or self._called), _left_s(end_s))
                if self._received:
                    message = self._received.popleft()
                    self._let_in(message)
                    self._beat()
                    return message
            if not self._hand_out() and end_s is not None and time.monotonic() >= end_s:
                return None

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
        with self._lock:
            connection = self._connection
            if connection is None or message.connection != connection.number:
                self._check_open()
                if transaction is None:
                    return False
                raise TransactionLost(
                    f"The message {message.message_id} came on a connection that is lost, and comes again: the "
                    f"transaction {transaction} cannot have it."
                )
            if confirm is None:
                self._ask_locked(say, Loss.DROPPED, None, transaction)
                return True
            asked = self._asked(say, Loss.DROPPED, confirm, transaction, message.connection)
            if confirm:
                self._confirmed(asked)
            return not asked.is_dropped

    # ---- transactions

    def begin(self, transaction: str | None = None) -> str:
        """BEGIN; returns the transaction's id."""
        with self._lock:
            name = self._next("t") if transaction is None else transaction
            connection = self._up()
            self._say(connection, connection.session.begin(name))
            self._transactions[name] = connection.number
        return name

    def commit(self, transaction: str) -> None:
        """COMMIT; returns once all of it has happened and, where it touches persistent queues, is synced.

        Raises TransactionLost where its connection was lost before, so that nothing of it happened; ConnectionLost
        where it was lost after, so that all of it may have happened, or nothing.
        """

        def say(session: ClientSession, receipt: str | None) -> bytes:
            return session.commit(transaction, receipt=receipt)

        with self._lock:
            try:
                self._ask_locked(say, Loss.UNKNOWN, True, transaction)
            finally:
                self._transactions.pop(transaction, None)

    def abort(self, transaction: str) -> None:
        """ABORT; returns once nothing of it will happen."""

        def say(session: ClientSession, receipt: str | None) -> bytes:
            return session.abort(transaction, receipt=receipt)

        with self._lock, suppress(TransactionLost):
            try:
                self._ask_locked(say, Loss.DROPPED, True, transaction)
            finally:
                self._transactions.pop(transaction, None)

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
        octets = body.encode() if isinstance(body, str) else body
        with self._lock:
            correlation = self._next("q")
            more = [("reply-to", _REPLIES), ("correlation-id", correlation), *_kept(headers)]

            def say(session: ClientSession, receipt: str | None) -> bytes:
                return session.send(destination, octets, receipt=receipt, headers=more)

            reply = _Reply()
            try:
                self._up()
                self._replies[correlation] = reply
                asked = self._asked(say, Loss.DROPPED, True)
                is_done = lambda: bool(reply.message or reply.error or asked.error)  # noqa: E731
                is_there = self._wait(is_done, timeout_s, "reply")
                asked.is_awaited = False
            finally:
                self._replies.pop(correlation, None)
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
        with self._lock:
            self._check_open()
            if self._connection is None:
                raise ConnectionLost(f"There is no connection to {self.address} at the moment.")
            return self._connection.fileno()

    def pump(self, timeout_s: float = 0.0) -> int:
        """Reads once, where nothing waits already, and calls the callbacks of what has come: how many.

        Sends and checks heart-beats. Callbacks are called by `pump` and `receive` only, never from within another call
        of theirs that waits: what comes meanwhile is `waiting`.
        """
        with self._lock:
            self._receiver = threading.get_ident()
            if self._called:
                self._check_open()
                self._beat()
            else:
                self._wait(lambda: bool(self._called or self._received), timeout_s)
        return self._hand_out()

    @property
    def waiting(self) -> int:
        """MESSAGEs that have been read and not handed out: the socket does not become readable for them."""
        return len(self._called) + len(self._received)

    @property
    def heart_beat_s(self) -> tuple[float, float]:
        """How often we must send, and how often the broker does, as agreed; 0.0: never, or there is no connection."""
        connection = self._connection
        if connection is None:
            return 0.0, 0.0
        return connection.session.heart_beat_send_s, connection.session.heart_beat_expect_s

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._connection is not None

    @property
    def connections(self) -> int:
        """How many connections there were, this one included."""
        return self._connections

    @property
    def address(self) -> Address:
        """Where the connection leads to, or the next one."""
        connection = self._connection
        if connection is not None or self._attempts is None:
            return self._last_address
        return self._addresses[self._attempts.next_address]

    # ---- the end

    def close(self) -> None:
        """DISCONNECT; returns once all that was asked before is confirmed, and closes. Twice does no harm."""

        def say(session: ClientSession, receipt: str | None) -> bytes:
            return session.disconnect(receipt=receipt)

        with self._lock:
            if self._lost is not None:
                return
            try:
                if self._attempts is not None:
                    self._await(lambda: not self._outstanding, "RECEIPT")
                    self._check_refused()
                if self._connection is not None:
                    self._ask_locked(say, Loss.DROPPED, True)
            finally:
                self._let_go("it was closed by this program")

    def abandon(self) -> None:
        """Closes at once and without a word: what is unacked comes back, what is unconfirmed may have happened."""
        with self._lock:
            self._let_go("it was closed by this program")

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

    # ---- asking

    def _ask(self, say: Say, loss: Loss, confirm: bool | None, transaction: str | None = None) -> None:
        with self._lock:
            self._ask_locked(say, loss, confirm, transaction)

    def _ask_locked(self, say: Say, loss: Loss, confirm: bool | None, transaction: str | None = None) -> None:
        """Says a frame, with a receipt unless `confirm` is None, and awaits that one (True) or only room for it."""
        if confirm is None:
            connection = self._up()
            self._check_transaction(transaction, connection)
            self._say(connection, say(connection.session, None))
            return
        asked = self._asked(say, loss, confirm, transaction)
        if confirm:
            self._confirmed(asked)

    def _asked(
        self, say: Say, loss: Loss, is_awaited: bool, transaction: str | None = None, number: int | None = None
    ) -> Outstanding:
        """Says a frame with a receipt. number: of the connection that it speaks of: without that nothing is said."""
        connection = self._connection
        if connection is None or self._unraised is not None:
            connection = self._up()
        while len(self._outstanding) >= self.window:
            self._await(lambda: len(self._outstanding) < self.window, "RECEIPT")
            connection = self._up()
        self._check_transaction(transaction, connection)
        asked = Outstanding(say, loss, is_awaited)
        if number is not None and connection.number != number:
            asked.is_done = asked.is_dropped = True
            return asked
        receipt = self._next("r")
        data = say(connection.session, receipt)
        self._outstanding[receipt] = asked
        self._say(connection, data)
        return asked

    def _confirmed(self, asked: Outstanding) -> None:
        """Returns once the RECEIPT is there, or will never come."""
        try:
            self._await(lambda: asked.is_done, "RECEIPT")
        except NoAnswer:
            asked.is_awaited = False
            raise
        if asked.error is not None:
            raise asked.error

    def _check_transaction(self, transaction: str | None, connection: Connection) -> None:
        """One that was never begun, the session refuses."""
        if transaction is not None and self._transactions.get(transaction, connection.number) != connection.number:
            raise TransactionLost(
                f"The transaction {transaction} was open on a connection that is lost: nothing of it has happened."
            )

    def _up(self) -> Connection:
        """The connection, once there is one. Raises what no call has raised yet."""
        self._check_open()
        if self._connection is None:
            self._wait(lambda: self._connection is not None, None)
        self._check_refused()
        assert self._connection is not None
        return self._connection

    def _say(self, connection: Connection, data: bytes) -> None:
        """Returns once the operating system has all of it; reads meanwhile, lest two full buffers block each other."""
        try:
            connection.say(data)
        except Gone as why:
            self._fail(connection, str(why))
        if connection.outgoing:
            self._await(lambda: not connection.outgoing or self._connection is not connection, "room to send")

    def _fail(self, connection: Connection, why: str) -> None:
        """A write failed; the broker may have said the reason before it hung up."""
        with suppress(Gone):
            while self._connection is connection and (events := connection.read()):
                for event in events:
                    self._take(connection, event)
        self._lose(connection, why)

    def _check_open(self) -> None:
        self._check_refused()
        if self._lost is not None:
            raise ConnectionLost(f"There is no connection to {self.address}: {self._lost.rstrip('.')}.")

    def _check_refused(self) -> None:
        """Raises, once, what no call has awaited."""
        if self._unraised is not None:
            error, self._unraised = self._unraised, None
            raise error

    # ---- waiting

    def _await(self, is_done: Callable[[], bool], what: str) -> None:
        """Raises NoAnswer where it was not done within answer_timeout_s of the last connection's beginning."""
        while not self._wait(is_done, self._answer_timeout_s, what):
            began_s = None if self._connection is None else self._connection.opened_at_s
            if began_s is not None and time.monotonic() - began_s >= self._answer_timeout_s:
                raise NoAnswer(f"{self.address} gave no {what} within {self._answer_timeout_s:g} s.")

    def _wait(self, is_done: Callable[[], bool], timeout_s: float | None, what: str = "") -> bool:
        """Reads and writes, or lets another thread do it, until it is done (True) or the time is over (False)."""
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not is_done():
            self._check_open()
            left_s = _left_s(end_s)
            if what and self._is_full() and self._receiver in (None, threading.get_ident()):
                raise NoAnswer(
                    f"The {what} is behind {self.waiting} messages that nobody has received: no more than "
                    f"{self._received_max_bytes} bytes of them are kept. Receive them, or send on a Client of its own."
                )
            if not self._is_led:
                self._lead(left_s)
            elif self._connection is not None and self._connection.outgoing and not self._is_writing:
                self._push(self._connection, left_s)
            else:
                self._changed.wait(left_s)
            if left_s == 0.0:
                return is_done()
        return True

    def _is_full(self) -> bool:
        return self._kept_bytes >= self._received_max_bytes

    def _lead(self, timeout_s: float | None) -> None:
        """One wait for the socket, no longer than until a heart-beat is due either way; or a step of a restoration."""
        self._is_led = True
        try:
            if self._connection is None:
                self._restore(timeout_s)
            else:
                self._exchange(self._connection, timeout_s)
        finally:
            self._is_led = False
            self._changed.notify_all()

    def _exchange(self, connection: Connection, timeout_s: float | None) -> None:
        try:
            connection.beat()
            reads, writes = not self._is_full(), bool(connection.outgoing) and not self._is_writing
            waits_s = [timeout_s, connection.until_beat_s(), connection.until_silent_s() if reads else FULL_LOOK_S]
            wait_s = min((one for one in waits_s if one is not None), default=None)
            if not reads and not writes:
                self._changed.wait(wait_s)
                return
            if self._waited(connection, wait_s, reads, writes):
                for event in connection.read():
                    self._take(connection, event)
            elif reads and self._connection is connection and connection.until_silent_s() == 0.0:
                silent_s = time.monotonic() - connection.read_at_s
                raise Gone(f"the broker was silent for {silent_s:.1f} s, though it promised heart-beats")
        except Gone as why:
            self._fail(connection, str(why))

    def _push(self, connection: Connection, timeout_s: float | None) -> None:
        """Waits for room to write, while another thread leads."""
        self._waited(connection, timeout_s, False, True)
        self._changed.notify_all()

    def _waited(self, connection: Connection, timeout_s: float | None, reads: bool, writes: bool) -> bool:
        """Waits for the socket without the lock, and writes what waits for it; whether it can be read."""
        connection.waiters += 1
        self._is_writing = self._is_writing or writes
        self._lock.release()
        try:
            readable, writable = connection.wait(timeout_s, reads, writes)
        finally:
            self._lock.acquire()
            self._is_writing = self._is_writing and not writes
            connection.waiters -= 1
            if connection is not self._connection and not connection.waiters:
                connection.close()
        if connection is not self._connection:
            return False
        if writable and connection.outgoing:
            try:
                connection.write()
            except Gone as why:
                self._fail(connection, str(why))
                return False
        return readable

    def _beat(self) -> None:
        """Between two waits: nothing is awaited, so nothing is raised either."""
        connection = self._connection
        if connection is not None and connection.session.heart_beat_send_s:
            try:
                connection.beat()
            except Gone as why:
                self._fail(connection, str(why))

    # ---- what comes

    def _take(self, connection: Connection, event: ServerEvent) -> None:
        if isinstance(event, Message):
            self._take_message(connection, event)
        elif isinstance(event, Receipt):
            asked = self._outstanding.pop(event.receipt, None)
            if asked is not None:
                asked.is_done = True
                if asked.loss is Loss.REPLAYED:
                    self._look_whether_proven()
        elif isinstance(event, Error):
            self._take_error(connection, event)
        elif isinstance(event, Broken):
            self._lose(connection, f"the broker broke the protocol: {event.sentence}")

    def _take_error(self, connection: Connection, event: Error) -> None:
        """Whoever awaits the frame that it is about gets it; or the next call, where there is no other connection."""
        said = refusal(event)
        asked = self._outstanding.get(event.receipt or "")
        if asked is not None and (asked.is_awaited or asked.loss is not Loss.REPLAYED):
            del self._outstanding[event.receipt or ""]
            asked.is_done, asked.error = True, said
        if asked is None or not asked.is_awaited:
            is_of_no_call = asked is None or asked.loss is Loss.REPLAYED
            self._unraised = self._unraised if is_of_no_call and self._attempts is not None else said
        self._lose(connection, f"the broker refused: {said}", is_told=asked is not None and asked.is_awaited)

    def _take_message(self, connection: Connection, message: Message) -> None:
        message.connection = connection.number
        subscription = message.headers.get("subscription")
        if subscription == _REPLIES:
            reply = self._replies.get(message.headers.get("correlation-id", ""))
            if reply is not None:
                reply.message = message
            return
        self._kept_bytes += len(message.body) + MESSAGE_BYTES
        callback = self._callbacks.get(subscription or "") if self._callbacks else None
        if callback is None:
            self._received.append(message)
        else:
            self._called.append((callback, message))

    def _let_in(self, message: Message) -> None:
        """A message leaves, so that there is room for another."""
        if self._is_full():
            self._changed.notify_all()
        self._kept_bytes -= len(message.body) + MESSAGE_BYTES

    def _hand_out(self) -> int:
        """Calls the callbacks of what waits now, without the lock; how many."""
        called = 0
        for _ in range(len(self._called)):
            with self._lock:
                if not self._called:
                    break
                callback, message = self._called.popleft()
                self._let_in(message)
            callback(message)
            called += 1
        return called

    # ---- loss, and what comes after it

    def _lose(self, connection: Connection, why: str, is_told: bool = False) -> None:
        """This connection is of no use any more. is_told: a call that awaits something raises it already."""
        if connection is not self._connection:
            return
        self._drop(connection)
        count = len(self._outstanding)
        receipts = f" {count} {'receipt is' if count == 1 else 'receipts are'} outstanding." if count else ""
        sentence = f"The connection to {connection.address} is lost: {why.rstrip('.')}.{receipts}"
        for reply in self._replies.values():
            reply.error = reply.error or ConnectionLost(f"{sentence} The request may or may not be carried out.")
        if self._attempts is None:
            self._let_go(why)
            if not is_told and self._unraised is None:
                self._unraised = ConnectionLost(sentence)
        else:
            _log.warning("%s Another one is tried.", sentence)
            self._sort_out(sentence, self._attempts.policy.resend)
            address = self._addresses.index(connection.address)
            if not self._attempts.lost(address, time.monotonic(), random.random()):
                self._give_up(sentence)
        self._changed.notify_all()

    def _give_up(self, sentence: str) -> None:
        assert self._attempts is not None
        self._let_go(sentence)
        tried_s = self._attempts.policy.timeout_s
        self._unraised = ConnectionLost(f"There was no lasting connection within {tried_s:g} s. {sentence}")

    def _let_go(self, why: str) -> None:
        """There is no connection any more, and will be none."""
        if self._lost is None:
            self._lost = why
            if self._connection is not None:
                self._drop(self._connection)
            self._stopped.set()
            self._changed.notify_all()

    def _drop(self, connection: Connection) -> None:
        """Lets go of the socket; under a thread that waits for it, that thread does when it has woken."""
        self._connection = None
        connection.hang_up()
        if not connection.waiters:
            connection.close()

    def _sort_out(self, sentence: str, resend: bool) -> None:
        """What is outstanding and has no meaning on another connection ends; so does what was given to nobody yet."""
        for receipt, asked in list(self._outstanding.items()):
            if asked.loss is Loss.REPLAYED or (asked.loss is Loss.AGAIN and resend):
                continue
            del self._outstanding[receipt]
            asked.is_done = True
            if asked.loss is Loss.DROPPED:
                asked.is_dropped = True
                continue
            asked.error = ConnectionLost(f"{sentence} What was asked may or may not have happened.")
            if not asked.is_awaited:
                self._unraised = self._unraised or asked.error
        self._received = deque(message for message in self._received if "ack" not in message.headers)
        self._called = deque(one for one in self._called if "ack" not in one[1].headers)
        kept = [*self._received, *(message for _, message in self._called)]
        self._kept_bytes = sum(len(message.body) + MESSAGE_BYTES for message in kept)

    def _restore(self, timeout_s: float | None) -> None:
        """One step towards another connection: waits until the next try is due, or tries."""
        assert self._attempts is not None
        wait_s = self._attempts.try_at_s - time.monotonic()
        if wait_s > 0:
            self._changed.wait(wait_s if timeout_s is None else min(wait_s, timeout_s))
            return
        address = self._addresses[self._attempts.next_address]
        self._connections += 1
        self._lock.release()
        try:
            found: Connection | RadiatorError = self._dialled(address)
        except (ConnectionLost, Refusal) as failed:
            found = failed
        finally:
            self._lock.acquire()
        if isinstance(found, Connection):
            self._replay(found)
        elif self._lost is None and not self._attempts.failed(time.monotonic(), random.random()):
            self._give_up(str(found))

    def _dialled(self, address: Address) -> Connection:
        return Connection.dial(address, self._connections, self._versions, self._heart_beat_ms, self._connect_timeout_s)

    def _first(self) -> Connection:
        """The first connection, of the first address that gives one. Raises what the last one said."""
        for number, address in enumerate(self._addresses, 1):
            try:
                return self._dialled(address)
            except (ConnectionLost, Refusal):
                if number == len(self._addresses):
                    raise
        raise AssertionError("there is an address")

    def _replay(self, connection: Connection) -> None:
        """What was subscribed is subscribed again; then what is outstanding is said again, in its order."""
        assert self._attempts is not None
        if self._lost is not None:
            return connection.close()
        self._connection, self._last_address = connection, connection.address
        self._attempts.connected()
        outstanding, self._outstanding = self._outstanding, {}
        for name, wanted in self._subscriptions.items():
            if wanted.is_known:
                self._outstanding[self._next("r")] = Outstanding(_subscribe(name, wanted), Loss.REPLAYED, False)
        self._look_whether_proven()
        self._outstanding.update(outstanding)
        frames = []
        for receipt, asked in list(self._outstanding.items()):
            try:
                frames.append(asked.say(connection.session, receipt))
            except Violation as wrong:
                # the other broker speaks another version, which cannot say it
                del self._outstanding[receipt]
                asked.is_done, asked.error = True, wrong
                self._unraised = self._unraised if asked.is_awaited else wrong
        _log.warning("Connected to %s again.", connection.address)
        self._start_thread()
        try:
            connection.say(b"".join(frames))
        except Gone as why:
            self._fail(connection, str(why))

    def _look_whether_proven(self) -> None:
        if self._attempts is not None and not any(
            asked.loss is Loss.REPLAYED and not asked.is_awaited for asked in self._outstanding.values()
        ):
            self._attempts.proven()

    def _next(self, kind: str) -> str:
        self._numbered += 1
        return f"{kind}{self._numbered}"

    # ---- a thread of its own, and a process of its own

    def _start_thread(self) -> None:
        """Heart-beats while nobody waits. It knows the Client weakly: one that nobody knows any more ends with it."""
        if self._has_thread and self._thread is None:
            self._thread = threading.Thread(
                target=_keep, args=(weakref.ref(self), self._stopped), name="radiator.client", daemon=True
            )
            self._thread.start()

    def _tick(self) -> float:
        """One look, without waiting; how long until the next one."""
        with self._lock:
            if self._lost is None and not self._is_led:
                self._lead(0.0)
            connection = self._connection
            if connection is None:
                return LOOK_S if self._attempts is None else min(LOOK_S, self._attempts.policy.first_s)
            waits_s = [LOOK_S, connection.until_beat_s(), connection.session.heart_beat_expect_s]
            return max(LOOK_MIN_S, min(one for one in waits_s if one))

    def _forked(self) -> None:
        """In the child: the connection is the parent's, and all that it was for."""
        connection, lost = self._connection, self._lost
        self._begin_anew()
        if connection is not None:
            connection.close()
        self._lost = lost or (_FORKED if self._attempts is None else None)


def _kept(headers: Headers) -> list[tuple[str, str]]:
    if not headers:
        return []
    return list(headers.items()) if isinstance(headers, Mapping) else list(headers)


def _left_s(end_s: float | None) -> float | None:
    return None if end_s is None else max(0.0, end_s - time.monotonic())


def _subscribe(name: str, wanted: _Subscription) -> Say:
    def say(session: ClientSession, receipt: str | None) -> bytes:
        return session.subscribe(name, wanted.destination, ack=wanted.ack, receipt=receipt, headers=wanted.headers)

    return say


def _keep(client: "weakref.ref[Client]", stopped: threading.Event) -> None:
    wait_s = 0.0
    while not stopped.wait(wait_s):
        one = client()
        if one is None:
            return
        wait_s = one._tick()
        del one


_CLIENTS: "weakref.WeakSet[Client]" = weakref.WeakSet()


def _after_fork() -> None:
    for client in list(_CLIENTS):
        client._forked()


os.register_at_fork(after_in_child=_after_fork)
