"""The client for asyncio: what `radiator.client.Client` does, awaited. docs/CLIENT.md says what both promise.

    async with AsyncClient("stomp://127.0.0.1:61613", reconnect=True) as client:
        await client.send("/queue/orders", b"one")  # returns once the broker has confirmed it
        await client.subscribe("/queue/orders", ack="client-individual", prefetch=10)
        async for message in client.messages(timeout_s=5):
            await client.ack(message)

What it says and keeps is `calls.py` and `channel.py`, as for threads; here is how a program of asyncio waits for it.
"""

import asyncio
import socket
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Generic, Self

from radiator.client import arguments
from radiator.client.address import DEFAULT_ADDRESS, Address, addresses_of
from radiator.client.calls import CLOSED, Calls
from radiator.client.channel import POLL, Channel, Steps, T, Wait
from radiator.client.client import ANSWER_TIMEOUT_S, CONNECT_TIMEOUT_S, RECEIVED_MAX_BYTES, THREAD_HEART_BEAT_MS, WINDOW
from radiator.client.connection import ClientConnection, cannot_connect
from radiator.client.errors import ConnectionLost, NoAnswer
from radiator.client.inbox import Inbox
from radiator.client.reconnect import Attempts, Reconnect
from radiator.model.commands import AUTO
from radiator.model.errors import RadiatorError, Refusal, Violation
from radiator.protocols.stomp.client import Headers, Message

LOOK_MIN_S = 0.01
_NOT_OPENED = "it was not opened yet"


class AsyncClient:
    """A connection to a broker, from `open` (or `async with`) until `close`; with `reconnect`, one after the other.

    Any task of the event loop that opened it may call anything at any time. Heart-beats go both ways while the loop
    runs: a broker that was silent for twice its interval and a second more is taken for dead.

    A task that is cancelled while it waits loses nothing silently. A SEND or an ACK that was sent goes on: its RECEIPT
    is awaited by `flush`, it is sent again where the connection is lost, and a refusal is raised by the next call. What
    was not sent yet is not sent. A message is either returned by `receive`, or is there for the next one.
    """

    def __init__(
        self,
        address: str | Address | Sequence[str | Address] = DEFAULT_ADDRESS,
        *,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
        window: int = WINDOW,
        versions: Iterable[str] = ("1.0", "1.1", "1.2"),
        heart_beat_ms: tuple[int, int] = THREAD_HEART_BEAT_MS,
        reconnect: bool | Reconnect = False,
        dedup: bool = False,
        received_max_bytes: int = RECEIVED_MAX_BYTES,
    ) -> None:
        """Does not connect yet. All arguments are those of `Client`."""
        arguments.of_a_client(connect_timeout_s, answer_timeout_s, window, received_max_bytes)
        addresses = addresses_of(address)
        policy = arguments.policy(reconnect)
        self._inbox = Inbox(received_max_bytes)
        self._tasks = _Tasks(
            addresses,
            None if policy is None else Attempts(policy, len(addresses)),
            window,
            answer_timeout_s,
            self._inbox,
            _Dialler((versions,) if isinstance(versions, str) else tuple(versions), heart_beat_ms, connect_timeout_s),
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
    ) -> str:
        """SUBSCRIBE, as `Client.subscribe`; there are no callbacks. Cancelled, it is taken back by an UNSUBSCRIBE."""
        tasks, calls, channel = self._tasks, self._calls, self._channel
        if subscription is None:
            subscription = None if durable else channel.next_name("s")
        is_new = subscription not in channel.subscriptions
        try:
            return await tasks.run(calls.subscribe(destination, subscription, ack, headers, prefetch, durable))
        except asyncio.CancelledError:
            if is_new and subscription in channel.subscriptions:
                tasks.start(calls.unsubscribe(subscription, False, None))
            raise

    async def unsubscribe(self, subscription: str, *, forget: bool = False, destination: str | None = None) -> None:
        """UNSUBSCRIBE, as `Client.unsubscribe`."""
        await self._tasks.run(self._calls.unsubscribe(subscription, forget, destination))

    async def receive(self, timeout_s: float | None = None, subscription: str | None = None) -> Message | None:
        """The next MESSAGE of any subscription, or of that one; None where none came in time, as `Client.receive`."""
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
        """Each MESSAGE as `receive` gives it, until none comes for so long; None: for ever."""
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
        """Without waiting for it: whoever was cancelled does not."""
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
        """DISCONNECT; returns once all that was asked before is confirmed, and closes. Twice does no harm.

        Raises NoAnswer where that took longer than timeout_s, None: answer_timeout_s; it is closed nevertheless, and so
        it is where the task is cancelled.
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


class _Dialler:
    """One connection to an address, for whoever awaits it."""

    def __init__(self, versions: tuple[str, ...], heart_beat_ms: tuple[int, int], timeout_s: float) -> None:
        self._versions = versions
        self._heart_beat_ms = heart_beat_ms
        self._timeout_s = timeout_s

    async def dial(self, address: Address, number: int) -> ClientConnection:
        """Connected, and CONNECTED. Raises ConnectionLost or Refusal."""
        try:
            async with asyncio.timeout(self._timeout_s):
                one = await self._connected(address)
        except OSError as failed:
            raise cannot_connect(address, failed) from None
        connection = ClientConnection(address, number, one)
        greeting = connection.greeting(self._versions, self._heart_beat_ms, self._timeout_s)
        try:
            wanted = next(greeting)
            while True:
                wanted = greeting.send(await _ready(one, *wanted))
        except StopIteration:
            return connection
        finally:
            greeting.close()

    @staticmethod
    async def _connected(address: Address) -> socket.socket:
        loop = asyncio.get_running_loop()
        failed = OSError("it has no address")
        places: list[tuple[int, Any]] = [(socket.AF_UNIX, address.path)]
        if not address.path:
            found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
            places = [(family, where) for family, _, _, _, where in found]
        for family, where in places:
            one = socket.socket(family, socket.SOCK_STREAM)
            one.setblocking(False)
            try:
                await loop.sock_connect(one, where)
                return one
            except OSError as error:
                one.close()
                failed = error
            except BaseException:
                one.close()
                raise
        raise failed


async def _ready(one: socket.socket, timeout_s: float, reads: bool, writes: bool) -> tuple[bool, bool]:
    """Whether it can be read, or written, once one of them is so or the time is over."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[bool, bool]] = loop.create_future()

    def set_once(readable: bool, writable: bool) -> None:
        if not future.done():
            future.set_result((readable, writable))

    if reads:
        loop.add_reader(one, set_once, True, False)
    if writes:
        loop.add_writer(one, set_once, False, True)
    timer = loop.call_later(timeout_s, set_once, False, False)
    try:
        return await future
    finally:
        timer.cancel()
        loop.remove_reader(one)
        loop.remove_writer(one)


class _Run(Generic[T]):
    """Steps that somebody awaits: `result`. wait: for what, now; is_late: its time is over. task: who began it."""

    __slots__ = ("is_late", "result", "steps", "task", "timer", "wait")

    def __init__(self, steps: Steps[T], result: "asyncio.Future[T]") -> None:
        self.steps = steps
        self.result = result
        self.task = asyncio.current_task()
        self.wait = POLL
        self.is_late = False
        self.timer: asyncio.TimerHandle | None = None


class _Tasks:
    """A channel that is shared by the tasks of one event loop: how they wait.

    The loop says when the socket can be read or written, or a time is over. Then those who wait are gone through in the
    order in which they came, and whose Wait is over goes on at once, before the next one is asked: so a place in the
    window is given to one only, and to the first. receiver: the task that received last.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        attempts: Attempts | None,
        window: int,
        answer_timeout_s: float,
        inbox: Inbox,
        dialler: _Dialler,
    ) -> None:
        self.channel = Channel(addresses, attempts, window, answer_timeout_s, inbox, self._note_change)
        self.channel.lost = _NOT_OPENED
        self.receiver: asyncio.Task[Any] | None = None
        self._dialler = dialler
        self._runs: dict[_Run[Any], None] = {}  # that wait
        self._has_changed = False
        self._is_going_on = False
        self._watched: ClientConnection | None = None
        self._reads = self._writes = False  # whether the loop looks for that
        self._timer: asyncio.TimerHandle | None = None
        self._restoring: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """The first connection. Raises ConnectionLost or Refusal."""
        channel = self.channel
        if channel.lost != _NOT_OPENED:
            raise Violation("This client was opened before: another one is needed.")
        channel.lost = "it is being opened"
        opening = channel.opening()
        try:
            wanted = next(opening)
            while True:
                if isinstance(wanted, Address):
                    wanted = opening.send(await self._tried(wanted, channel.connections))
                else:
                    await asyncio.sleep(wanted)
                    wanted = next(opening)
        except StopIteration:
            channel.lost = None
            self.go_on()
        except BaseException:
            channel.lost = _NOT_OPENED
            raise

    async def _tried(self, address: Address, number: int) -> ClientConnection | RadiatorError:
        try:
            return await self._dialler.dial(address, number)
        except (ConnectionLost, Refusal) as failed:
            return failed

    # ---- those who wait

    async def run(self, steps: Steps[T]) -> T:
        """All of them, waiting where they want it."""
        one = self._begin(steps)
        try:
            return await one.result
        except asyncio.CancelledError:
            self._cancel(one)
            raise

    def start(self, steps: Steps[Any]) -> None:
        """All of them, though nobody awaits their end; a Refusal is for the next call."""
        one = self._begin(steps)
        one.result.add_done_callback(lambda result: self._keep(result.exception()))

    def _begin(self, steps: Steps[T]) -> _Run[T]:
        one = _Run(steps, asyncio.get_running_loop().create_future())
        self._step(one, lambda: next(steps))
        self._look(one)
        if self._has_changed:
            self.go_on()
        else:
            self._watch()
        return one

    def _cancel(self, one: _Run[Any]) -> None:
        """Whoever awaited it does not any more."""
        if one in self._runs:
            self._forget(one)
            one.steps.close()
            self.go_on()
        elif not one.result.cancelled():
            self._keep(one.result.exception())

    def _keep(self, error: BaseException | None) -> None:
        """What no call has raised is for the next one."""
        if isinstance(error, Refusal | ConnectionLost) and self.channel.unraised is None:
            self.channel.unraised = error

    def go_on(self) -> None:
        """Whoever can. To be called behind each change."""
        self._has_changed = True
        if self._is_going_on:
            return
        self._is_going_on = True
        try:
            while self._has_changed:
                self._has_changed = False
                for one in list(self._runs):
                    self._look(one)
        finally:
            self._is_going_on = False
        self._watch()

    def _note_change(self) -> None:
        self._has_changed = True

    def _look(self, one: _Run[Any]) -> None:
        """As far as it can go."""
        while one in self._runs:
            wait = one.wait
            if wait.is_done():
                self._step(one, lambda: one.steps.send(True))
                continue
            receiver = self.receiver
            try:
                self.channel.check_wait(wait, receiver is None or receiver is one.task or receiver.done())
            except RadiatorError as wrong:
                self._step(one, lambda wrong=wrong: one.steps.throw(wrong))  # type: ignore[misc]
                continue
            if not one.is_late:
                return
            self._step(one, lambda: one.steps.send(False))

    def _step(self, one: _Run[Any], go: Callable[[], Wait]) -> None:
        """To its next Wait, or to its end."""
        self._forget(one)
        try:
            one.wait = go()
        except StopIteration as ended:
            if not one.result.done():
                one.result.set_result(ended.value)
            return
        except Exception as failed:  # noqa: BLE001 - whoever awaits it gets it
            if one.result.done():
                self._keep(failed)
            else:
                one.result.set_exception(failed)
            return
        self._runs[one] = None
        timeout_s = one.wait.timeout_s
        if timeout_s is not None and timeout_s > 0:
            one.timer = asyncio.get_running_loop().call_later(timeout_s, self._late, one)
        elif timeout_s is not None:
            one.is_late = True
            self._read()

    def _forget(self, one: _Run[Any]) -> None:
        self._runs.pop(one, None)
        one.is_late = False
        if one.timer is not None:
            one.timer.cancel()
            one.timer = None

    def _late(self, one: _Run[Any]) -> None:
        one.is_late = True
        self._look(one)
        self.go_on()

    # ---- the socket

    def _read(self) -> None:
        connection = self.channel.connection
        if connection is not None and not self.channel.inbox.is_full:
            self.channel.read(connection)
            self._has_changed = True

    def _readable(self) -> None:
        self._read()
        self.go_on()

    def _writable(self) -> None:
        connection = self.channel.connection
        if connection is not None and connection.outgoing:
            self.channel.write(connection)
        self.go_on()

    def _tick(self) -> None:
        """A heart-beat is due, or one of the broker's."""
        self._timer = None
        connection = self.channel.connection
        if connection is not None:
            self.channel.beat()
            if not self.channel.inbox.is_full:
                self._read()
                self.channel.check_silence(connection)
        self.go_on()

    def _watch(self) -> None:
        """Ensures: the loop looks at the connection that there is, or another one is tried for."""
        channel, loop = self.channel, asyncio.get_running_loop()
        connection = channel.connection
        if connection is not self._watched:
            self._leave()
            if connection is not None:
                self._watched = connection
                connection.waiters += 1
        if connection is None:
            return self._restore()
        reads, writes = not channel.inbox.is_full, bool(connection.outgoing)
        if reads != self._reads:
            self._reads = reads
            if reads:
                loop.add_reader(connection.fileno(), self._readable)
            else:
                loop.remove_reader(connection.fileno())
        if writes != self._writes:
            self._writes = writes
            if writes:
                loop.add_writer(connection.fileno(), self._writable)
            else:
                loop.remove_writer(connection.fileno())
        if self._timer is None:
            due_s = [connection.until_beat_s(), connection.until_silent_s() if reads else None]
            wait_s = min((one for one in due_s if one is not None), default=None)
            if wait_s is not None:
                self._timer = loop.call_later(max(LOOK_MIN_S, wait_s), self._tick)

    def _leave(self) -> None:
        """The connection that was watched is lost."""
        gone, self._watched = self._watched, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if gone is None:
            return
        loop = asyncio.get_running_loop()
        if self._reads:
            loop.remove_reader(gone.fileno())
        if self._writes:
            loop.remove_writer(gone.fileno())
        self._reads = self._writes = False
        gone.waiters -= 1
        gone.close()

    def _restore(self) -> None:
        channel, restoring = self.channel, self._restoring
        if channel.lost is not None:
            if restoring is not None and restoring is not asyncio.current_task():
                restoring.cancel()
        elif restoring is None or restoring.done():
            self._restoring = asyncio.get_running_loop().create_task(self._try_again(), name="radiator.client")

    async def _try_again(self) -> None:
        """Until there is a connection, or will be none any more."""
        channel = self.channel
        while channel.lost is None and channel.connection is None:
            wait_s = channel.until_try_s()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
                continue
            address, number = channel.next_try()
            channel.tried(await self._tried(address, number))
            self.go_on()
