"""The client for asyncio: what `radiator.client.Client` does, awaited. docs/CLIENT.md says what both promise.

    async with AsyncClient("stomp://127.0.0.1:61613", reconnect=True) as client:
        await client.send("/queue/orders", b"one")  # returns once the broker has confirmed it
        await client.subscribe("/queue/orders", ack="client-individual", prefetch=10)
        async for message in client.messages(timeout_s=5):
            await client.ack(message)

As for threads, `calls.py` and `channel.py` hold the protocol and its state; `tasks.py` does the waiting.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self

from radiator.client import arguments
from radiator.client.address import DEFAULT_ADDRESS, Address, with_login
from radiator.client.async_dialer import AsyncDialer
from radiator.client.calls import CLOSED, Calls
from radiator.client.client import ANSWER_TIMEOUT_S, CONNECT_TIMEOUT_S, RECEIVED_MAX_BYTES, THREAD_HEART_BEAT_MS, WINDOW
from radiator.client.errors import ConnectionLost, NoAnswer
from radiator.client.inbox import ClientInbox
from radiator.client.reconnect import Attempts, Reconnect
from radiator.client.tasks import Tasks
from radiator.client.tls import addresses_with
from radiator.model.commands import AUTO
from radiator.protocols.stomp.client import Headers, Message


class AsyncClient:
    """A connection to a broker, from `open` (or `async with`) until `close`; with `reconnect`, one after the other.

    Any task of the event loop that opened it may call any method at any time. Heart-beats go both ways while the loop
    runs: a broker that is silent for twice its interval plus one second is considered dead.

    Cancelling a task that waits loses nothing silently. A SEND or ACK that was sent stays outstanding: `flush` awaits
    its RECEIPT, it is sent again if the connection is lost, and the next call raises a refusal of it. A frame that was
    not sent yet is not sent. A message is either returned by `receive` or kept for the next `receive`.
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
        heart_beat_ms: tuple[int, int] = THREAD_HEART_BEAT_MS,
        reconnect: bool | Reconnect = False,
        dedup: bool = False,
        received_max_bytes: int = RECEIVED_MAX_BYTES,
        ca_file: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
    ) -> None:
        """Does not connect yet. All arguments are those of `Client`."""
        arguments.of_a_client(connect_timeout_s, answer_timeout_s, window, received_max_bytes)
        arguments.login(user, password)
        addresses = with_login(addresses_with(address, ca_file, certificate, key), user, password)
        policy = arguments.policy(reconnect)
        self._inbox = ClientInbox(received_max_bytes)
        self._tasks = Tasks(
            addresses,
            None if policy is None else Attempts(policy, len(addresses)),
            window,
            answer_timeout_s,
            self._inbox,
            AsyncDialer(
                (versions,) if isinstance(versions, str) else tuple(versions), heart_beat_ms, connect_timeout_s
            ),
        )
        self._channel = self._tasks.channel
        self._calls = Calls(self._channel, dedup)

    async def open(self) -> Self:
        """Connects, to the first of several addresses that answers; returns itself. Raises ConnectionLost or Refusal.
        With `reconnect` it waits for a broker that starts later."""
        await self._tasks.open()
        return self

    # ---- sending

    async def send(
        self,
        destination: str,
        body: bytes | str = b"",
        headers: Headers = (),
        *,
        transaction: str | None = None,
        confirm: bool | None = True,
    ) -> None:
        """SEND, as `Client.send`. `confirm=False` returns with room in the window: so a fast producer waits."""
        await self._tasks.run(self._calls.send(destination, body, headers, transaction, confirm))

    async def send_many(self, destination: str, bodies: Iterable[bytes | str], headers: Headers = ()) -> int:
        """SENDs them with a window of RECEIPTs outstanding; how many, once all are confirmed."""
        kept = arguments.pairs(headers)
        count = 0
        for body in bodies:
            await self.send(destination, body, kept, confirm=False)
            count += 1
        await self.flush()
        return count

    async def flush(self) -> None:
        """Returns once every RECEIPT asked for is there."""
        await self._tasks.run(self._channel.flush())

    @property
    def unconfirmed(self) -> int:
        """How many RECEIPTs are outstanding."""
        return len(self._channel.outstanding)

    # ---- receiving

    async def subscribe(
        self,
        destination: str,
        *,
        subscription: str | None = None,
        ack: str = AUTO,
        headers: Headers = (),
        prefetch: int | None = None,
        durable: bool = False,
        consumer_name: str | None = None,
    ) -> str:
        """SUBSCRIBE, as `Client.subscribe`; there are no callbacks. Cancelled, it is taken back by an UNSUBSCRIBE."""
        tasks, calls, channel = self._tasks, self._calls, self._channel
        if subscription is None:
            subscription = None if durable else channel.next_name("s")
        is_new = subscription not in channel.subscriptions
        try:
            steps = calls.subscribe(
                destination, subscription, ack, headers, prefetch, durable, consumer_name=consumer_name
            )
            return await tasks.run(steps)
        except asyncio.CancelledError:
            if is_new and subscription in channel.subscriptions:
                tasks.start(calls.unsubscribe(subscription, False, None))
            raise

    async def unsubscribe(self, subscription: str, *, forget: bool = False, destination: str | None = None) -> None:
        """UNSUBSCRIBE, as `Client.unsubscribe`."""
        await self._tasks.run(self._calls.unsubscribe(subscription, forget, destination))

    async def receive(self, timeout_s: float | None = None, subscription: str | None = None) -> Message | None:
        """Returns the next MESSAGE of any subscription, or of that one; None where none came in time, as
        `Client.receive`.
        """
        arguments.seconds_or_none("timeout_s", timeout_s)
        arguments.text_or_none("subscription", subscription)
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        tasks, inbox = self._tasks, self._inbox
        while True:
            tasks.receiver = asyncio.current_task()
            was_full = inbox.is_full
            message = inbox.take(subscription)
            if message is not None:
                if was_full:
                    tasks.go_on()
                return message
            left_s = None if end_s is None else max(0.0, end_s - time.monotonic())
            if not await tasks.run(self._calls.coming(subscription, left_s)):
                return None

    async def messages(
        self, timeout_s: float | None = None, subscription: str | None = None
    ) -> AsyncGenerator[Message, None]:
        """Yields each MESSAGE as `receive` gives it, until none comes for so long; None: for ever."""
        while (message := await self.receive(timeout_s, subscription)) is not None:
            yield message

    async def ack(self, message: Message, *, transaction: str | None = None, confirm: bool | None = True) -> bool:
        """ACK, as `Client.ack`. False: the connection that it came on is lost, and the message comes again."""
        return await self._tasks.run(self._calls.ack(message, transaction, confirm))

    async def nack(
        self,
        message: Message,
        *,
        transaction: str | None = None,
        requeue: bool = True,
        delay_ms: int | None = None,
        confirm: bool | None = True,
    ) -> bool:
        """NACK, as `Client.nack`."""
        return await self._tasks.run(self._calls.nack(message, transaction, requeue, delay_ms, confirm))

    # ---- transactions

    async def begin(self, transaction: str | None = None) -> str:
        """BEGIN; returns the transaction's id. Cancelled, it is aborted."""
        name = self._calls.name_of(transaction)
        try:
            return await self._tasks.run(self._calls.begin(name))
        except asyncio.CancelledError:
            self._abort_soon(name)
            raise

    async def commit(self, transaction: str, *, prepare: str | None = None) -> None:
        """COMMIT, as `Client.commit`. Cancelled, all of it may have happened, or nothing."""
        await self._tasks.run(self._calls.commit(transaction, prepare))

    async def abort(self, transaction: str) -> None:
        """ABORT; returns once nothing of it will happen."""
        await self._tasks.run(self._calls.abort(transaction))

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[str, None]:
        """`async with client.transaction() as t:` commits at the end, and aborts where the block raises."""
        name = await self.begin()
        try:
            yield name
        except Exception:
            with suppress(ConnectionLost, NoAnswer):
                await self.abort(name)
            raise
        except BaseException:
            self._abort_soon(name)
            raise
        await self.commit(name)

    def _abort_soon(self, name: str) -> None:
        """Aborts it without waiting, since a cancelled caller must not wait."""
        if self._calls.has(name):
            self._tasks.start(self._calls.abort(name))

    # ---- request and reply

    async def request(
        self, destination: str, body: bytes | str = b"", timeout_s: float = CONNECT_TIMEOUT_S, headers: Headers = ()
    ) -> Message:
        """SENDs a request and returns the reply, as `Client.request`. Cancelled, it may or may not be carried out."""
        return await self._tasks.run(self._calls.request(destination, body, timeout_s, headers))

    async def admin(self, request: dict[str, Any], timeout_s: float = CONNECT_TIMEOUT_S) -> dict[str, Any]:
        """Asks the broker's `/admin` (docs/ADMINISTRATION.md). Raises Refusal, with its code, if the answer says no."""
        return await self._tasks.run(self._calls.admin(request, timeout_s))

    # ---- state

    @property
    def waiting(self) -> int:
        """MESSAGEs that have come and that nobody has received."""
        return len(self._inbox)

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

    async def close(self, timeout_s: float | None = None) -> None:
        """DISCONNECT; returns once all earlier requests are confirmed, and closes. A second call does no harm.

        Raises NoAnswer if that takes longer than timeout_s (None: answer_timeout_s). The client is closed even then,
        and also if the task is cancelled.
        """
        await self._tasks.run(self._calls.close(timeout_s))

    def abandon(self) -> None:
        """Closes at once and without a word: what is unacked comes back, what is unconfirmed may have happened."""
        self._channel.let_go(CLOSED)
        self._tasks.go_on()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes; where the block has raised, at once and without a word: what is unacked comes back."""
        if error is None:
            await self.close()
        else:
            self.abandon()
