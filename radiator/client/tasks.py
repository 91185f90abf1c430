"""The tasks of an event loop that share a channel, and how they wait. `threads.py` is the same for threads."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Generic

from radiator.client.address import Address
from radiator.client.async_dialer import AsyncDialer
from radiator.client.channel import POLL, Channel, Steps, T, Wait
from radiator.client.connection import ClientConnection
from radiator.client.errors import ConnectionLost
from radiator.client.inbox import ClientInbox
from radiator.client.reconnect import Attempts
from radiator.model.errors import RadiatorError, Refusal, Violation

LOOK_MIN_S = 0.01
_NOT_OPENED = "it has not been opened yet"


class Run(Generic[T]):
    """Steps that somebody awaits: `result`. wait: what they wait for now; is_late: its time is over. task: the one that
    began it.
    """

    __slots__ = ("is_late", "result", "steps", "task", "timer", "wait")

    def __init__(self, steps: Steps[T], result: "asyncio.Future[T]") -> None:
        self.steps = steps
        self.result = result
        self.task = asyncio.current_task()
        self.wait = POLL
        self.is_late = False
        self.timer: asyncio.TimerHandle | None = None


class Tasks:
    """A channel that is shared by the tasks of one event loop: how they wait.

    The loop reports that the socket can be read or written, or that a timeout is over. Then the waiting calls are
    checked in order of arrival, and a call whose Wait is over continues before the next is checked: so a place in the
    window goes to one call only, the first. receiver: the task that received last.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        attempts: Attempts | None,
        window: int,
        answer_timeout_s: float,
        inbox: ClientInbox,
        dialer: AsyncDialer,
    ) -> None:
        self.channel = Channel(addresses, attempts, window, answer_timeout_s, inbox, self._note_change)
        self.channel.lost = _NOT_OPENED
        self.receiver: asyncio.Task[Any] | None = None
        self._dialer = dialer
        self._runs: dict[Run[Any], None] = {}  # those that wait
        self._has_changed = False
        self._is_going_on = False
        self._watched: ClientConnection | None = None
        self._reads = self._writes = False  # whether the loop looks for that
        self._timer: asyncio.TimerHandle | None = None
        self._restoring: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Makes the first connection. Raises ConnectionLost or Refusal."""
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
            return await self._dialer.dial(address, number)
        except (ConnectionLost, Refusal) as failed:
            return failed

    # ---- those who wait

    async def run(self, steps: Steps[T]) -> T:
        """Runs the steps to their end, and waits where they ask for it."""
        one = self._begin(steps)
        try:
            return await one.result
        except asyncio.CancelledError:
            self._cancel(one)
            raise

    def start(self, steps: Steps[Any]) -> None:
        """Runs the steps, though nobody awaits their end; the next call raises a Refusal of them."""
        one = self._begin(steps)
        one.result.add_done_callback(lambda result: self._keep(result.exception()))

    def _begin(self, steps: Steps[T]) -> Run[T]:
        one = Run(steps, asyncio.get_running_loop().create_future())
        self._step(one, lambda: next(steps))
        self._look(one)
        if self._has_changed:
            self.go_on()
        else:
            self._watch()
        return one

    def _cancel(self, one: Run[Any]) -> None:
        """Called when the task that awaited it is cancelled."""
        if one in self._runs:
            self._forget(one)
            one.steps.close()
            self.go_on()
        elif not one.result.cancelled():
            self._keep(one.result.exception())

    def _keep(self, error: BaseException | None) -> None:
        """Keeps an error that no call has raised for the next call."""
        if isinstance(error, Refusal | ConnectionLost) and self.channel.unraised is None:
            self.channel.unraised = error

    def go_on(self) -> None:
        """Continues the calls that can. To be called after each change."""
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

    def _look(self, one: Run[Any]) -> None:
        """Continues one call as far as it can go."""
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

    def _step(self, one: Run[Any], go: Callable[[], Wait]) -> None:
        """Runs it to its next Wait, or to its end."""
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

    def _forget(self, one: Run[Any]) -> None:
        self._runs.pop(one, None)
        one.is_late = False
        if one.timer is not None:
            one.timer.cancel()
            one.timer = None

    def _late(self, one: Run[Any]) -> None:
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
        """Called when a heart-beat is due, or one of the broker's."""
        self._timer = None
        connection = self.channel.connection
        if connection is not None:
            self.channel.beat()
            if not self.channel.inbox.is_full:
                self._read()
                self.channel.check_silence(connection)
        self.go_on()

    def _watch(self) -> None:
        """Ensures that the loop watches the connection, or, if there is none, that another one is tried."""
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
        """Stops watching a connection that is lost, and closes it."""
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
        """Tries until there is a connection, or there will be no further one."""
        channel = self.channel
        while channel.lost is None and channel.connection is None:
            wait_s = channel.until_try_s()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
                continue
            address, number = channel.next_try()
            channel.tried(await self._tried(address, number))
            self.go_on()
