"""The line to a broker: one connection, or one after the other, shared by all threads of the program.

One lock guards everything here. Who must wait *leads*, if nobody does: waits for the socket without the lock, reads
what has come, and wakes the others, who look whether it was theirs. Whoever leads also finds that a connection is lost,
and restores it. All methods want the lock to be held; those that wait let go of it meanwhile.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from radiator.client.address import Address
from radiator.client.connection import Connection, Dial, Gone, refusal
from radiator.client.errors import ConnectionLost, NoAnswer
from radiator.client.inbox import Inbox
from radiator.client.outstanding import Loss, Outstanding, Say, Subscription
from radiator.client.reconnect import Attempts
from radiator.errors import RadiatorError, Refusal, Violation
from radiator.protocols.stomp.client import Broken, Error, Message, Receipt, ServerEvent

LOOK_S = 1.0  # how often, at least, a thread that beats looks at the connection
LOOK_MIN_S = 0.01
FULL_LOOK_S = 0.05  # how often a thread that may only write looks whether it may read again
REPLIES = "/temp-queue/replies"

_log = logging.getLogger("radiator.client")


@dataclass(slots=True)
class Reply:
    """What a request waits for."""

    message: Message | None = None
    error: RadiatorError | None = None


class Line:
    """attempts None: a lost connection is not restored. answer_timeout_s: how long a RECEIPT may take.

    connection: None while there is none. lost: why there will be none any more. inbox, replies, subscriptions: what
    comes, and what for. receiver: the thread that received last.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        dial: Dial,
        attempts: Attempts | None,
        window: int,
        answer_timeout_s: float,
        inbox: Inbox,
        connections: int = 0,
    ) -> None:
        self.window = window
        self.answer_timeout_s = answer_timeout_s
        self.inbox = inbox
        self.lock = threading.Lock()
        self.connection: Connection | None = None
        self.connections = connections
        self.lost: str | None = None
        self.outstanding: dict[str, Outstanding] = {}  # by receipt, in the order of sending
        self.subscriptions: dict[str, Subscription] = {}
        self.replies: dict[str, Reply] = {}  # by correlation-id
        self.receiver: int | None = None
        self._changed = threading.Condition(self.lock)
        self._addresses = addresses
        self._dial = dial
        self._attempts = attempts
        self._numbered = 0
        self._last_address = addresses[0]
        self._unraised: RadiatorError | None = None  # what no call has awaited: for the next one
        self._is_led = False
        self._is_writing = False  # a thread, whether it leads or not, waits for room to write

    @property
    def restores(self) -> bool:
        """Whether a lost connection is followed by another one."""
        return self._attempts is not None

    @property
    def address(self) -> Address:
        """Of the connection, or where the next one is tried."""
        if self.connection is None and self._attempts is not None:
            return self._addresses[self._attempts.next_address]
        return self._last_address

    def open(self) -> None:
        """The first connection, of the first address that gives one. Raises what the last of them said: where lost
        connections are restored, a Refusal at once, and ConnectionLost when none has come within their time.
        """
        attempts, is_told = self._attempts, False
        while True:
            for number, address in enumerate(self._addresses, 1):
                try:
                    self.connections += 1
                    self.connection = self._dial(address, self.connections)
                    self._last_address = address
                    if attempts is not None:
                        attempts.proven()
                    return
                except (ConnectionLost, Refusal) as error:
                    is_over = attempts is None or not attempts.failed(time.monotonic(), random.random())
                    if number == len(self._addresses) and (is_over or isinstance(error, Refusal)):
                        raise
                    if not is_told and attempts is not None:
                        _log.warning("%s It is tried again.", error)
                        is_told = True
            assert attempts is not None
            time.sleep(max(0.0, attempts.try_at_s - time.monotonic()))

    def next_name(self, kind: str) -> str:
        """One that was not there before."""
        self._numbered += 1
        return f"{kind}{self._numbered}"

    # ---- asking

    def up(self) -> Connection:
        """The connection, once there is one. Raises what no call has raised yet."""
        self._check_open()
        if self.connection is None:
            self.wait(lambda: self.connection is not None, None)
            self.check_refused()
        assert self.connection is not None
        return self.connection

    def ask(self, say: Say, loss: Loss, confirm: bool | None, number: int | None = None, is_once: bool = False) -> bool:
        """Says a frame, with a receipt unless `confirm` is None; awaits that (True), or only room for it in the window.

        number: of the connection that it speaks of. False: that one is lost, and the frame with it. is_once: it is said
        again to the same store only.
        """
        if confirm is None:
            connection = self.up()
            if number is not None and number != connection.number:
                return False
            self.say(connection, say(connection.session, None))
            return True
        asked = self.put(say, loss, confirm, number, is_once)
        if confirm:
            self._confirm(asked)
        return not asked.is_dropped

    def put(
        self, say: Say, loss: Loss, is_awaited: bool, number: int | None = None, is_once: bool = False
    ) -> Outstanding:
        """Says a frame with a receipt; `number` and `is_once` as in `ask`."""
        connection = self.connection
        if connection is None or self._unraised is not None:
            connection = self.up()
        while len(self.outstanding) >= self.window:
            self._await(lambda: len(self.outstanding) < self.window, "RECEIPT")
            connection = self.up()
        asked = Outstanding(say, loss, is_awaited, connection.session.store if is_once else None)
        if number is not None and number != connection.number:
            asked.is_done = asked.is_dropped = True
            return asked
        receipt = self.next_name("r")
        data = say(connection.session, receipt)
        self.outstanding[receipt] = asked
        self.say(connection, data)
        return asked

    def say(self, connection: Connection, data: bytes) -> None:
        """Returns once the operating system has all of it; reads meanwhile, lest two full buffers block each other."""
        try:
            connection.say(data)
        except Gone as why:
            self._fail(connection, str(why))
        if connection.outgoing:
            self._await(lambda: not connection.outgoing or self.connection is not connection, "room to send")

    def flush(self) -> None:
        """Returns once no RECEIPT is outstanding."""
        self._await(lambda: not self.outstanding, "RECEIPT")
        self.check_refused()

    def _confirm(self, asked: Outstanding) -> None:
        try:
            self._await(lambda: asked.is_done, "RECEIPT")
        except NoAnswer:
            asked.is_awaited = False
            raise
        if asked.error is not None:
            raise asked.error

    def _check_open(self) -> None:
        self.check_refused()
        if self.lost is not None:
            raise ConnectionLost(f"There is no connection to {self.address}: {self.lost.rstrip('.')}.")

    def check_refused(self) -> None:
        """Raises, once, what no call has awaited."""
        if self._unraised is not None:
            error, self._unraised = self._unraised, None
            raise error

    # ---- waiting

    def _await(self, is_done: Callable[[], bool], what: str) -> None:
        """Raises NoAnswer where it is not done within answer_timeout_s, counted anew for each connection."""
        while not self.wait(is_done, self.answer_timeout_s, what):
            connection = self.connection
            if connection is not None and time.monotonic() - connection.opened_at_s >= self.answer_timeout_s:
                raise NoAnswer(f"{self.address} gave no {what} within {self.answer_timeout_s:g} s.")

    def wait(self, is_done: Callable[[], bool], timeout_s: float | None, what: str = "") -> bool:
        """Reads and writes, or lets another thread do it, until it is done (True) or the time is over (False).

        what: an answer that may be behind messages; NoAnswer where the inbox is full, and nobody else empties it.
        """
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not is_done():
            if self.lost is not None:
                self._check_open()
            left_s = None if end_s is None else max(0.0, end_s - time.monotonic())
            if what and self.inbox.is_full and self.receiver in (None, threading.get_ident()):
                raise NoAnswer(
                    f"The {what} is behind {len(self.inbox)} messages that nobody has received: no more than "
                    f"{self.inbox.max_bytes} bytes of them are kept. Receive them, or send on a Client of its own."
                )
            if not self._is_led:
                self.lead(left_s)
            elif self.connection is not None and self.connection.outgoing and not self._is_writing:
                self._waited(self.connection, left_s, False, True)
                self._changed.notify_all()
            else:
                self._changed.wait(left_s)
            if left_s == 0.0:
                if self.lost is not None and not is_done():
                    self._check_open()
                return is_done()
        return True

    def lead(self, timeout_s: float | None) -> None:
        """One wait for the socket, no longer than until a heart-beat is due either way; or a step of a restoration."""
        self._is_led = True
        try:
            if self.connection is None:
                self._restore(timeout_s)
            else:
                self._exchange(self.connection, timeout_s)
        finally:
            self._is_led = False
            self._changed.notify_all()

    def _exchange(self, connection: Connection, timeout_s: float | None) -> None:
        try:
            connection.beat()
            reads, writes = not self.inbox.is_full, bool(connection.outgoing) and not self._is_writing
            waits_s = [timeout_s, connection.until_beat_s(), connection.until_silent_s() if reads else FULL_LOOK_S]
            wait_s = min((one for one in waits_s if one is not None), default=None)
            if not reads and not writes:
                self._changed.wait(wait_s)
            elif self._waited(connection, wait_s, reads, writes):
                for event in connection.read():
                    self._take(connection, event)
            elif reads and self.connection is connection and connection.until_silent_s() == 0.0:
                silent_s = time.monotonic() - connection.read_at_s
                raise Gone(f"the broker was silent for {silent_s:.1f} s, though it promised heart-beats")
        except Gone as why:
            self._fail(connection, str(why))

    def _waited(self, connection: Connection, timeout_s: float | None, reads: bool, writes: bool) -> bool:
        """Waits for the socket without the lock, and writes what is outgoing; whether there is something to read."""
        connection.waiters += 1
        self._is_writing = self._is_writing or writes
        self.lock.release()
        try:
            readable, writable = connection.wait(timeout_s, reads, writes)
        finally:
            self.lock.acquire()
            self._is_writing = self._is_writing and not writes
            connection.waiters -= 1
            if connection is not self.connection and not connection.waiters:
                connection.close()
        if connection is not self.connection:
            return False
        if writable and connection.outgoing:
            try:
                connection.write()
            except Gone as why:
                self._fail(connection, str(why))
                return False
        return readable

    def beat(self) -> None:
        """A heart-beat if one is due. Nothing is awaited, so nothing is raised either."""
        connection = self.connection
        if connection is not None and connection.session.heart_beat_send_s:
            try:
                connection.beat()
            except Gone as why:
                self._fail(connection, str(why))

    def glance(self) -> None:
        """Beats, reads and restores, as far as that can be done without waiting."""
        if self.lost is None and not self._is_led:
            self.lead(0.0)

    def look(self) -> float:
        """A glance of a thread that beats; how long until the next one."""
        self.glance()
        connection = self.connection
        if connection is None:
            return LOOK_S if self._attempts is None else min(LOOK_S, self._attempts.policy.first_s)
        waits_s = [LOOK_S, connection.until_beat_s(), connection.session.heart_beat_expect_s or None]
        return max(LOOK_MIN_S, min(one for one in waits_s if one is not None))

    # ---- what comes

    def _take(self, connection: Connection, event: ServerEvent) -> None:
        if isinstance(event, Message):
            event.connection = connection.number
            if event.headers.get("subscription") != REPLIES:
                self.inbox.put(event)
            elif (reply := self.replies.get(event.headers.get("correlation-id", ""))) is not None:
                reply.message = event
        elif isinstance(event, Receipt):
            asked = self.outstanding.pop(event.receipt, None)
            if asked is not None:
                asked.is_done = True
                if event.refused:
                    asked.error = Refusal(event.refused, event.message)
                    self._unraised = self._unraised if asked.is_awaited else asked.error
                if asked.loss is Loss.REPLAYED:
                    self._look_whether_proven()
        elif isinstance(event, Error):
            self._take_error(connection, event)
        elif isinstance(event, Broken):
            self._lose(connection, f"the broker broke the protocol: {event.sentence}")

    def _take_error(self, connection: Connection, event: Error) -> None:
        """Raised by the call that awaits the frame; else by the next one, unless another connection may mend it."""
        said = refusal(event)
        asked = self.outstanding.get(event.receipt or "")
        is_nobodys = asked is None or (asked.loss is Loss.REPLAYED and not asked.is_awaited)
        is_told = asked is not None and asked.is_awaited
        if asked is not None and not is_nobodys:
            del self.outstanding[event.receipt or ""]
            asked.is_done, asked.error = True, said
        if not is_told and not (is_nobodys and self.restores):
            self._unraised = said
        self._lose(connection, f"the broker refused: {said}", is_told)

    def made_room(self, was_full: bool) -> None:
        """A message has left the inbox."""
        if was_full:
            self._changed.notify_all()

    # ---- loss

    def _fail(self, connection: Connection, why: str) -> None:
        """It cannot be written or read; the broker may have said the reason before it hung up."""
        with suppress(Gone):
            while self.connection is connection and (events := connection.read()):
                for event in events:
                    self._take(connection, event)
        self._lose(connection, why)

    def _lose(self, connection: Connection, why: str, is_told: bool = False) -> None:
        """This connection is of no use any more. is_told: a call that awaits something raises the reason already."""
        if connection is not self.connection:
            return
        self._drop(connection)
        count = len(self.outstanding)
        receipts = f" {count} {'receipt is' if count == 1 else 'receipts are'} outstanding." if count else ""
        sentence = f"The connection to {connection.address} is lost: {why.rstrip('.')}.{receipts}"
        for reply in self.replies.values():
            reply.error = reply.error or ConnectionLost(f"{sentence} The request may or may not be carried out.")
        if self._attempts is None:
            self.let_go(why)
            if not is_told and not self.replies and self._unraised is None:
                self._unraised = ConnectionLost(sentence)
        else:
            _log.warning("%s It is restored.", sentence)
            self._sort_out(sentence, self._attempts.policy.resend)
            address = self._addresses.index(connection.address)
            if not self._attempts.lost(address, time.monotonic(), random.random()):
                self._give_up(sentence)
        self._changed.notify_all()

    def _sort_out(self, sentence: str, resend: bool) -> None:
        """What is outstanding and has no meaning on another connection ends; so does what nobody has received yet."""
        for receipt, asked in list(self.outstanding.items()):
            if (asked.loss is Loss.REPLAYED and asked.is_awaited) or (asked.loss is Loss.AGAIN and resend):
                continue
            del self.outstanding[receipt]
            asked.is_done, asked.is_dropped = True, asked.loss in (Loss.DROPPED, Loss.REPLAYED)
            if not asked.is_dropped:
                asked.error = ConnectionLost(f"{sentence} What was asked may or may not have happened.")
                self._unraised = self._unraised if asked.is_awaited else asked.error
        self.inbox.drop_unacked()

    def let_go(self, why: str) -> None:
        """There is no connection any more, and will be none."""
        if self.lost is None:
            self.lost = why
            if self.connection is not None:
                self._drop(self.connection)
            self._changed.notify_all()

    def _drop(self, connection: Connection) -> None:
        """Lets go of the socket; where a thread waits for it, that thread does when it has woken."""
        self.connection = None
        connection.hang_up()
        if not connection.waiters:
            connection.close()

    # ---- restoration

    def _restore(self, timeout_s: float | None) -> None:
        """One step towards another connection: waits until the next try is due, or tries."""
        assert self._attempts is not None
        wait_s = self._attempts.try_at_s - time.monotonic()
        if wait_s > 0:
            self._changed.wait(wait_s if timeout_s is None else min(wait_s, timeout_s))
            return
        address = self._addresses[self._attempts.next_address]
        self.connections += 1
        self.lock.release()
        try:
            found: Connection | RadiatorError = self._dial(address, self.connections)
        except (ConnectionLost, Refusal) as failed:
            found = failed
        finally:
            self.lock.acquire()
        if isinstance(found, Connection):
            self._replay(found)
        elif self.lost is None and not self._attempts.failed(time.monotonic(), random.random()):
            self._give_up(str(found))

    def _give_up(self, sentence: str) -> None:
        assert self._attempts is not None
        self.let_go(sentence)
        tried_s = self._attempts.policy.timeout_s
        self._unraised = ConnectionLost(f"There was no lasting connection within {tried_s:g} s. {sentence}")

    def _replay(self, connection: Connection) -> None:
        """What was subscribed is subscribed again; then what is outstanding is said again, in its order."""
        assert self._attempts is not None
        if self.lost is not None:
            return connection.close()
        self.connection, self._last_address = connection, connection.address
        self._attempts.connected()
        self._let_go_of_other_stores(connection)
        again, self.outstanding = self.outstanding, {}
        for subscription in self.subscriptions.values():
            if subscription.is_known:
                self.outstanding[self.next_name("r")] = Outstanding(subscription.say, Loss.REPLAYED, False)
        self._look_whether_proven()
        self.outstanding.update(again)
        frames = []
        for receipt, asked in list(self.outstanding.items()):
            try:
                frames.append(asked.say(connection.session, receipt))
            except Violation as wrong:
                # the other broker speaks another version, which cannot say it
                del self.outstanding[receipt]
                asked.is_done, asked.error = True, wrong
                self._unraised = self._unraised if asked.is_awaited else wrong
        _log.warning("Connected to %s again.", connection.address)
        try:
            connection.say(b"".join(frames))
        except Gone as why:
            self._fail(connection, str(why))

    def _let_go_of_other_stores(self, connection: Connection) -> None:
        """What another store may have already is not said to this one, which cannot know that."""
        for receipt, asked in list(self.outstanding.items()):
            if asked.store not in (None, connection.session.store):
                del self.outstanding[receipt]
                asked.is_done = True
                asked.error = ConnectionLost(
                    f"A SEND had no RECEIPT when its connection was lost, and {connection.address} has another store: "
                    "it may or may not have happened, and is not sent again, lest it be stored twice (dedup)."
                )
                self._unraised = self._unraised if asked.is_awaited else asked.error

    def _look_whether_proven(self) -> None:
        """It is as good as the lost one once all its subscriptions are."""
        if self._attempts is not None and not any(
            asked.loss is Loss.REPLAYED and not asked.is_awaited for asked in self.outstanding.values()
        ):
            self._attempts.proven()
