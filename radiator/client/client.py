"""The Client: what programs call. Any thread may call anything at any time."""

import os
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Literal, Self

from radiator.client import arguments
from radiator.client.address import DEFAULT_ADDRESS, Address, with_login
from radiator.client.calls import CLOSED, Calls
from radiator.client.channel import Wait
from radiator.client.connection import ClientConnection
from radiator.client.errors import ConnectionLost, NoAnswer
from radiator.client.inbox import Callback, ClientInbox
from radiator.client.reconnect import Attempts, Reconnect
from radiator.client.threads import Threads
from radiator.client.tls import addresses_with
from radiator.model.commands import AUTO
from radiator.model.errors import Violation
from radiator.protocols.stomp.client import Headers, Message

CONNECT_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 90.0  # longer than a broker lets a SEND wait for room ([limits] block_timeout_s, 60 s)
WINDOW = 100  # receipts outstanding: enough to share one sync, few enough to remember
RECEIVED_MAX_BYTES = 32 * 1024 * 1024  # of MESSAGEs that nobody has received yet: past it nothing is read
HEART_BEAT_MS = (0, 10_000)  # we promise none, since nothing runs between two calls; the broker shall beat
THREAD_HEART_BEAT_MS = (10_000, 10_000)
_FORKED = "this process was forked from the one that opened it, and needs a Client of its own"


class Client:
    """A connection to a broker, open from construction until `close`; with `reconnect`, one after the other.

    heart_beat_ms: how often the client promises to send, and how often it wants to receive; 0: never. With
    heart_beats="calls" beats are sent and checked only while a method runs, so a program that promises beats must call
    one (`pump()`) more often than that. With "thread" a daemon thread beats, reads and reconnects while the program
    computes. A broker that is silent for twice its interval plus one second is considered dead.

    A ConnectionLost, and a Refusal of anything but `admin` and a SEND with `on-refusal: receipt`, means that the
    connection is lost; without `reconnect`, for good.
    """

    def __init__(
        self,
        address: str | Address | Sequence[str | Address] = DEFAULT_ADDRESS,
        *,
        user: str | None = None,
        password: str | None = None,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
        window: int = WINDOW,
        versions: Iterable[str] = ("1.0", "1.1", "1.2"),
        heart_beat_ms: tuple[int, int] | None = None,
        heart_beats: Literal["calls", "thread"] = "calls",
        reconnect: bool | Reconnect = False,
        dedup: bool = False,
        received_max_bytes: int = RECEIVED_MAX_BYTES,
        ca_file: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
    ) -> None:
        """Connects to the first address that answers. Raises ConnectionLost or Refusal; Violation and AddressError for
        invalid arguments.

        user, password: the login at each address, instead of what its URL has; password: a token as well.
        answer_timeout_s: how long a RECEIPT may take. dedup: every SEND gets a `dedup-id` of its own, and is never sent
        again to another store than the first; ConnectionLost is raised instead.
        received_max_bytes: bound on messages that the program has not received yet; past it nothing is read.
        ca_file, certificate, key: as in Address, for all `stomps://` addresses.
        """
        if heart_beats not in ("calls", "thread"):
            raise Violation(f'heart_beats {heart_beats!r} must be "calls" or "thread".')
        arguments.of_a_client(connect_timeout_s, answer_timeout_s, window, received_max_bytes)
        arguments.login(user, password)
        self._addresses = with_login(addresses_with(address, ca_file, certificate, key), user, password)
        self._connect_timeout_s = connect_timeout_s
        self._answer_timeout_s = answer_timeout_s
        self._window = window
        self._versions = (versions,) if isinstance(versions, str) else tuple(versions)
        self._has_thread = heart_beats == "thread"
        self._heart_beat_ms = heart_beat_ms or (THREAD_HEART_BEAT_MS if self._has_thread else HEART_BEAT_MS)
        self._policy = arguments.policy(reconnect)
        self._dedup = dedup
        self._received_max_bytes = received_max_bytes
        self._begin(0)
        with self._threads.lock:
            self._threads.open()
        _CLIENTS.add(self)

    def _begin(self, connections: int) -> None:
        """Connects, with nothing subscribed, sent or begun. connections: how many there were before."""
        self._inbox = ClientInbox(self._received_max_bytes)
        self._threads = Threads(
            self._addresses,
            self._dial,
            None if self._policy is None else Attempts(self._policy, len(self._addresses)),
            self._window,
            self._answer_timeout_s,
            self._inbox,
            connections,
        )
        self._channel = self._threads.channel
        self._calls = Calls(self._channel, self._dedup)
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def _dial(self, address: Address, number: int) -> ClientConnection:
        connection = ClientConnection.dial(
            address, number, self._versions, self._heart_beat_ms, self._connect_timeout_s
        )
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

        confirm True: returns once its RECEIPT has come. False: the RECEIPT is requested but not awaited; with `window`
        of them outstanding, the call waits for room. `flush` awaits them all; the first call that finds a refusal
        raises it. None: no RECEIPT is requested, and a lost connection may lose the message.
        """
        self._threads.run(self._calls.send(destination, body, headers, transaction, confirm))

    def send_many(self, destination: str, bodies: Iterable[bytes | str], headers: Headers = ()) -> int:
        """SENDs them with a window of RECEIPTs outstanding; how many, once all are confirmed."""
        kept = arguments.pairs(headers)
        count = 0
        for body in bodies:
            self.send(destination, body, kept, confirm=False)
            count += 1
        self.flush()
        return count

    def flush(self) -> None:
        """Returns once every RECEIPT asked for is there."""
        self._threads.run(self._channel.flush())

    @property
    def unconfirmed(self) -> int:
        """How many RECEIPTs are outstanding."""
        return len(self._channel.outstanding)

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
        consumer_name: str | None = None,
    ) -> str:
        """SUBSCRIBE; returns the subscription's id once the broker has confirmed it. Raises Violation for an unknown
        `ack` mode, and for a name that is in use.

        prefetch: how many unacked messages it may have, not counting other subscriptions. durable: it collects messages
        while no consumer is connected, and requires `subscription`, its permanent name. callback: `pump` and `receive`
        call it with each message, in the thread that called them. consumer_name: which consumer of a queue it is: one
        that comes back with its name gets the same keys of a queue with partition_key again.
        """
        return self._threads.run(
            self._calls.subscribe(destination, subscription, ack, headers, prefetch, durable, callback, consumer_name)
        )

    def unsubscribe(self, subscription: str, *, forget: bool = False, destination: str | None = None) -> None:
        """UNSUBSCRIBE. Messages that have come already are still delivered.

        forget: ends a durable subscription for good, with all that it has collected. `destination`: needed if this
        client is not subscribed to it.
        """
        self._threads.run(self._calls.unsubscribe(subscription, forget, destination))

    def receive(self, timeout_s: float | None = None, subscription: str | None = None) -> Message | None:
        """Returns the next MESSAGE of any subscription without a callback; None if none came in time. Calls callbacks.

        timeout_s None: waits for ever. subscription: of that one only; messages of others are kept for other calls and
        count towards `received_max_bytes`: past that nothing is read, and NoAnswer is raised.
        """
        arguments.seconds_or_none("timeout_s", timeout_s)
        arguments.text_or_none("subscription", subscription)
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        threads, inbox = self._threads, self._inbox
        while True:
            with threads.lock:
                threads.receiver = threading.get_ident()
                was_full = inbox.is_full
                message = inbox.take(subscription)
                if message is not None:
                    threads.space_freed(was_full)
                    self._channel.beat()
                    return message
            left_s = None if end_s is None else max(0.0, end_s - time.monotonic())
            if not self._call_back() and not threads.run(self._calls.coming(subscription, left_s)):
                return None

    def messages(self, timeout_s: float | None = None, subscription: str | None = None) -> Iterator[Message]:
        """Yields each MESSAGE as `receive` gives it, until none comes for so long; None: for ever."""
        while (message := self.receive(timeout_s, subscription)) is not None:
            yield message

    def ack(self, message: Message, *, transaction: str | None = None, confirm: bool | None = True) -> bool:
        """ACK. `confirm` as in `send`: on a persistent queue the RECEIPT says that it is synced.

        Returns False if the message's connection is lost: nothing is sent, and the broker redelivers the message unless
        it took an ACK before the loss. Within a transaction TransactionLost is raised instead.
        """
        return self._threads.run(self._calls.ack(message, transaction, confirm))

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
        return self._threads.run(self._calls.nack(message, transaction, requeue, delay_ms, confirm))

    # ---- transactions

    def begin(self, transaction: str | None = None) -> str:
        """BEGIN; returns the transaction's id."""
        return self._threads.run(self._calls.begin(self._calls.name_of(transaction)))

    def commit(self, transaction: str, *, prepare: str | None = None) -> None:
        """COMMIT; returns once all of it has happened and, where it touches persistent queues, is synced.

        prepare: it is not carried out but kept under that name, until `/admin` is asked to commit or abort it.
        Raises TransactionLost if its connection was lost before the COMMIT: nothing of it happened. Raises
        ConnectionLost if it was lost after: all of it may have happened, or nothing.
        """
        self._threads.run(self._calls.commit(transaction, prepare))

    def abort(self, transaction: str) -> None:
        """ABORT; returns once nothing of it will happen."""
        self._threads.run(self._calls.abort(transaction))

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

        Raises NoAnswer if no reply came in time; a later one is dropped. Raises ConnectionLost if the connection is
        lost before the reply, even with `reconnect`: the request may or may not be carried out.
        """
        return self._threads.run(self._calls.request(destination, body, timeout_s, headers))

    def admin(self, request: dict[str, Any], timeout_s: float = CONNECT_TIMEOUT_S) -> dict[str, Any]:
        """Asks the broker's `/admin` (docs/ADMINISTRATION.md). Raises Refusal, with its code, if the answer says no."""
        return self._threads.run(self._calls.admin(request, timeout_s))

    # ---- for event loops

    def fileno(self) -> int:
        """Returns the socket's file descriptor, as long as this connection lasts. Raises ConnectionLost if there is
        none.
        """
        connection = self._channel.connection
        if connection is None:
            raise ConnectionLost(f"There is no connection to {self.address} now.")
        return connection.fileno()

    def pump(self, timeout_s: float = 0.0) -> int:
        """Reads once, unless callbacks are due already, and calls the callbacks that are due; returns how many.

        Sends and checks heart-beats. Only `pump` and `receive` call callbacks, no other call that waits does: what
        comes meanwhile is `waiting`.
        """
        arguments.seconds("timeout_s", timeout_s)
        threads, inbox = self._threads, self._inbox
        with threads.lock:
            threads.receiver = threading.get_ident()
            if inbox.calls:
                self._channel.beat()
            else:
                threads.wait(Wait(lambda: inbox.calls > 0, timeout_s))
        return self._call_back()

    def _call_back(self) -> int:
        """Calls the callbacks that wait now, without the lock; how many."""
        threads, inbox, called = self._threads, self._inbox, 0
        for _ in range(inbox.calls):
            with threads.lock:
                was_full = inbox.is_full
                call = inbox.take_call()
                threads.space_freed(was_full)
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
        connection = self._channel.connection
        if connection is None:
            return 0.0, 0.0
        return connection.session.heart_beat_send_s, connection.session.heart_beat_expect_s

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._channel.connection is not None

    @property
    def connections(self) -> int:
        """How many times a connection was tried, this one included."""
        return self._channel.connections

    @property
    def address(self) -> Address:
        """Where the connection leads to, or where the next one is tried."""
        return self._channel.address

    # ---- the end

    def close(self, timeout_s: float | None = None) -> None:
        """DISCONNECT; returns once all earlier requests are confirmed, and closes. A second call does no harm.

        Raises NoAnswer if that takes longer than timeout_s (None: answer_timeout_s); the client is closed even then.
        """
        try:
            self._threads.run(self._calls.close(timeout_s))
        finally:
            self._closed.set()

    def abandon(self) -> None:
        """Closes at once and without a word: what is unacked comes back, what is unconfirmed may have happened."""
        with self._threads.lock:
            self._channel.let_go(CLOSED)
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
        """Called with the first connection of a process. The thread refers to the Client weakly, and ends when nobody
        else does.
        """
        if self._has_thread and self._thread is None:
            self._thread = threading.Thread(
                target=_keep_beating, args=(weakref.ref(self), self._closed), name="radiator.client", daemon=True
            )
            self._thread.start()

    def _look(self) -> float | None:
        """Beats, reads and restores without waiting; how long until the next poll, None: no more."""
        with self._threads.lock:
            return None if self._channel.lost is not None else self._threads.poll()

    def _forked(self) -> None:
        """Called in the child of a fork: the connection is the parent's, and so is all that was sent on it."""
        parents = self._channel
        connection, lost = parents.connection, parents.lost
        # greenlets, unlike threads, are still there in a child
        parents.connection, parents.lost = None, _FORKED
        self._begin(parents.connections)
        if connection is not None:
            connection.close()
        self._channel.lost = lost or (_FORKED if self._policy is None else None)


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
