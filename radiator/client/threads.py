"""A channel that is shared by all threads of a program: how they wait.

One lock guards it. A thread that must wait drives the input and output if no other thread does: it waits for the socket
without the lock, reads, and wakes the others, which check their own waits. It also detects a lost connection and
restores it. All methods but `run` and `open` need the lock; those that wait release it meanwhile.
"""

import threading
import time
from collections.abc import Sequence

from radiator.client.address import Address
from radiator.client.channel import Channel, Steps, T, Wait
from radiator.client.connection import ClientConnection, Dial
from radiator.client.errors import ConnectionLost
from radiator.client.inbox import ClientInbox
from radiator.client.reconnect import Attempts
from radiator.model.errors import RadiatorError, Refusal

LOOK_S = 1.0  # how often, at least, a thread that beats looks at the connection
LOOK_MIN_S = 0.01
FULL_LOOK_S = 0.05  # how often a thread that may only write looks whether it may read again


class Threads:
    """channel: what they share. receiver: the thread that received last."""

    def __init__(
        self,
        addresses: Sequence[Address],
        dial: Dial,
        attempts: Attempts | None,
        window: int,
        answer_timeout_s: float,
        inbox: ClientInbox,
        connections: int,
    ) -> None:
        self.lock = threading.Lock()
        self._changed = threading.Condition(self.lock)
        self.channel = Channel(
            addresses, attempts, window, answer_timeout_s, inbox, self._changed.notify_all, connections
        )
        self.receiver: int | None = None
        self._dial = dial
        self._is_driven = False
        self._is_writing = False  # a thread, whether it drives or not, waits until it can write

    def run(self, steps: Steps[T]) -> T:
        """Runs the steps to their end, and waits where they ask for it."""
        with self.lock:
            try:
                wait = next(steps)
                while True:
                    try:
                        is_done = self.wait(wait)
                    except BaseException as error:  # noqa: BLE001 - it is theirs
                        wait = steps.throw(error)
                    else:
                        wait = steps.send(is_done)
            except StopIteration as ended:
                result: T = ended.value
                return result

    def open(self) -> None:
        """Makes the first connection. Raises ConnectionLost or Refusal."""
        opening = self.channel.opening()
        try:
            wanted = next(opening)
            while True:
                if isinstance(wanted, Address):
                    wanted = opening.send(self._tried(wanted, self.channel.connections))
                else:
                    time.sleep(wanted)
                    wanted = next(opening)
        except StopIteration:
            return

    def _tried(self, address: Address, number: int) -> ClientConnection | RadiatorError:
        try:
            return self._dial(address, number)
        except (ConnectionLost, Refusal) as failed:
            return failed

    # ---- waiting

    def wait(self, wait: Wait) -> bool:
        """Reads and writes, or lets another thread do so, until the Wait is done (True) or its time is over (False)."""
        channel, is_done = self.channel, wait.is_done
        end_s = None if wait.timeout_s is None else time.monotonic() + wait.timeout_s
        while not is_done():
            channel.check_wait(wait, self.receiver in (None, threading.get_ident()))
            left_s = None if end_s is None else max(0.0, end_s - time.monotonic())
            if not self._is_driven:
                self._drive_io(left_s)
            elif channel.connection is not None and channel.connection.outgoing and not self._is_writing:
                self._waited(channel.connection, left_s, False, True)
                self._changed.notify_all()
            else:
                self._changed.wait(left_s)
            if left_s == 0.0:
                if channel.lost is not None and not is_done():
                    channel.check_open()
                return is_done()
        return True

    def _drive_io(self, timeout_s: float | None) -> None:
        """Waits once for the socket, at most until a heart-beat is due either way; or takes a step of restoring."""
        self._is_driven = True
        try:
            if self.channel.connection is None:
                self._restore(timeout_s)
            else:
                self._exchange(self.channel.connection, timeout_s)
        finally:
            self._is_driven = False
            self._changed.notify_all()

    def _exchange(self, connection: ClientConnection, timeout_s: float | None) -> None:
        channel = self.channel
        channel.beat()
        if channel.connection is not connection:
            return
        reads, writes = not channel.inbox.is_full, bool(connection.outgoing) and not self._is_writing
        waits_s = [timeout_s, connection.until_beat_s(), connection.until_silent_s() if reads else FULL_LOOK_S]
        wait_s = min((one for one in waits_s if one is not None), default=None)
        if not reads and not writes:
            self._changed.wait(wait_s)
        elif self._waited(connection, wait_s, reads, writes):
            channel.read(connection)
        elif reads:
            channel.check_silence(connection)

    def _waited(self, connection: ClientConnection, timeout_s: float | None, reads: bool, writes: bool) -> bool:
        """Waits for the socket without the lock, and writes what is outgoing; says whether there is something
        to read.
        """
        channel = self.channel
        connection.waiters += 1
        self._is_writing = self._is_writing or writes
        self.lock.release()
        try:
            readable, writable = connection.wait(timeout_s, reads, writes)
        finally:
            self.lock.acquire()
            self._is_writing = self._is_writing and not writes
            connection.waiters -= 1
            if connection is not channel.connection and not connection.waiters:
                connection.close()
        if connection is not channel.connection:
            return False
        if writable and connection.outgoing:
            channel.write(connection)
        return readable and connection is channel.connection

    def _restore(self, timeout_s: float | None) -> None:
        """Makes one step towards another connection: waits until the next try is due, or tries."""
        wait_s = self.channel.until_try_s()
        if wait_s > 0:
            self._changed.wait(wait_s if timeout_s is None else min(wait_s, timeout_s))
            return
        address, number = self.channel.next_try()
        self.lock.release()
        try:
            found = self._tried(address, number)
        finally:
            self.lock.acquire()
        self.channel.tried(found)

    def poll(self) -> float:
        """Called by the thread that beats: beats, reads and restores, as far as it can without waiting; gives the
        seconds until the next time.
        """
        channel = self.channel
        if channel.lost is None and not self._is_driven:
            self._drive_io(0.0)
        connection = channel.connection
        if connection is None:
            return min(LOOK_S, channel.soonest_try_s() or LOOK_S)
        waits_s = [LOOK_S, connection.until_beat_s(), connection.session.heart_beat_expect_s or None]
        return max(LOOK_MIN_S, min(one for one in waits_s if one is not None))

    def space_freed(self, was_full: bool) -> None:
        """Called when a message has left the inbox."""
        if was_full:
            self._changed.notify_all()
