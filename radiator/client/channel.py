"""The channel to a broker: outstanding requests and received messages, over one connection or several in turn.

Nothing here blocks, and nothing here is called concurrently. A call of several steps is a generator: it yields a Wait
and continues when that is over. `threads.py` and `tasks.py` do the waiting and let other callers run meanwhile; what
is waited for, and what follows, is the same for both.
"""

import itertools
import logging
import random
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from radiator.client.address import Address
from radiator.client.connection import ClientConnection, Gone, refusal
from radiator.client.errors import ConnectionLost, NoAnswer
from radiator.client.inbox import ClientInbox
from radiator.client.outstanding import Loss, Outstanding, Say, Subscription
from radiator.client.reconnect import Attempts
from radiator.model.errors import RadiatorError, Refusal, Violation
from radiator.protocols.stomp.client import Broken, Error, Message, Receipt, ServerEvent

REPLIES = "/temp-queue/replies"

_log = logging.getLogger("radiator.client")


@dataclass(slots=True)
class Reply:
    """The reply that a request waits for."""

    message: Message | None = None
    error: RadiatorError | None = None


@dataclass(slots=True, eq=False)
class Wait:
    """Wait until `is_done`, or for `timeout_s` (None: no bound). The generator is sent whether it is done.

    what: names an answer that may be behind messages; NoAnswer is thrown if the inbox is full and not being emptied.
    """

    is_done: Callable[[], bool]
    timeout_s: float | None
    what: str = ""


T = TypeVar("T")
Steps = Generator[Wait, bool, T]

POLL = Wait(lambda: False, 0.0)  # no wait: reads what has come, and so detects a lost connection


class Channel:
    """attempts None: a lost connection is not restored. answer_timeout_s: how long a RECEIPT may take. changed: called
    when a waiting caller may be able to continue.

    connection: None while there is none. lost: why there will be no other. unraised: an error that no call has awaited;
    the next call raises it. inbox, replies, subscriptions: what is received, and what asked for it.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        attempts: Attempts | None,
        window: int,
        answer_timeout_s: float,
        inbox: ClientInbox,
        changed: Callable[[], None],
        connections: int = 0,
    ) -> None:
        self.window = window
        self.answer_timeout_s = answer_timeout_s
        self.inbox = inbox
        self.connection: ClientConnection | None = None
        self.connections = connections
        self.lost: str | None = None
        self.unraised: RadiatorError | None = None
        self.outstanding: dict[str, Outstanding] = {}  # by receipt, in the order of sending
        self.subscriptions: dict[str, Subscription] = {}
        self.replies: dict[str, Reply] = {}  # by correlation-id
        self._addresses = addresses
        self._attempts = attempts
        self._changed = changed
        self._numbers = itertools.count(1)
        self._last_address = addresses[0]

    @property
    def restores(self) -> bool:
        """Whether a lost connection is followed by another one."""
        return self._attempts is not None

    @property
    def address(self) -> Address:
        """The connection's address, or the one that is tried next."""
        if self.connection is None and self._attempts is not None:
            return self._addresses[self._attempts.next_address]
        return self._last_address

    def opening(self) -> Generator[Address | float, ClientConnection | RadiatorError | None, None]:
        """Makes the first connection, to the first address that accepts one. Yields an address, and is sent the
        connection or the error; or yields how many seconds to wait. Raises the last Refusal, or the error of the last
        address; with reconnection, a Refusal at once, and ConnectionLost only after the policy's `timeout_s`.
        """
        attempts, is_logged = self._attempts, False
        while True:
            refused: Refusal | None = None
            for number, address in enumerate(self._addresses, 1):
                self.connections += 1
                found = yield address
                if isinstance(found, ClientConnection):
                    self.connection, self._last_address = found, address
                    if attempts is not None:
                        attempts.proven()
                    return
                assert found is not None
                refused = found if isinstance(found, Refusal) else refused
                is_over = attempts is None or not attempts.failed(time.monotonic(), random.random())
                if number == len(self._addresses) and (is_over or refused is not None):
                    raise refused or found
                if not is_logged and attempts is not None:
                    _log.warning("%s It is tried again.", found)
                    is_logged = True
            assert attempts is not None
            yield max(0.0, attempts.try_at_s - time.monotonic())

    def next_name(self, kind: str) -> str:
        """Returns a name that was not used before. May be called at any time."""
        return f"{kind}{next(self._numbers)}"

    # ---- asking

    def up(self) -> Steps[ClientConnection]:
        """Returns the connection, once there is one. Raises what no call has raised yet."""
        self.check_open()
        if self.connection is None:
            yield Wait(lambda: self.connection is not None, None)
            self.check_refused()
        assert self.connection is not None
        return self.connection

    def ask(
        self, say: Say, loss: Loss, confirm: bool | None, number: int | None = None, is_once: bool = False
    ) -> Steps[bool]:
        """Sends a frame, with a receipt unless `confirm` is None; awaits it (True), or only room in the window (False).

        number: of the only connection on which the frame has a meaning. Returns False if that connection is lost, and
        the frame with it. is_once: the frame is sent again only to the same store.
        """
        connection = self.connection
        if connection is None or self.unraised is not None or connection.outgoing:
            connection = yield from self._writable()
        if confirm is None:
            if number is not None and number != connection.number:
                return False
            yield from self.say(connection, say(connection.session, None))
            return True
        if len(self.outstanding) >= self.window:
            connection = yield from self._with_place()
        asked = Outstanding(say, loss, confirm, connection.session.store if is_once else None)
        if number is not None and number != connection.number:
            return False
        self._put(connection, asked)
        if connection.outgoing:
            yield from self._given(connection, asked)
        if confirm:
            if not asked.is_done:
                yield from self._done(asked)
            if asked.error is not None:
                raise asked.error
        return not asked.is_dropped

    def put(self, say: Say) -> Steps[Outstanding]:
        """Sends a frame with a receipt, which the caller awaits; the frame has no meaning on another connection."""
        connection = yield from self._with_place()
        asked = Outstanding(say, Loss.DROPPED, True)
        self._put(connection, asked)
        if connection.outgoing:
            yield from self._given(connection, asked)
        return asked

    def _put(self, connection: ClientConnection, asked: Outstanding) -> None:
        receipt = self.next_name("r")
        data = asked.say(connection.session, receipt)
        self.outstanding[receipt] = asked
        self.give(connection, data)

    def say(self, connection: ClientConnection, data: bytes) -> Steps[None]:
        """Returns once the operating system has all of it; what comes is read meanwhile, lest two full buffers block
        each other."""
        self.give(connection, data)
        if connection.outgoing:
            yield from self._await(lambda: self._is_given(connection), "room to send")

    def give(self, connection: ClientConnection, data: bytes) -> None:
        """Gives it to the operating system, or adds it to what is outgoing."""
        try:
            connection.say(data)
        except Gone as why:
            self.fail(connection, str(why))

    def flush(self) -> Steps[None]:
        """Returns once no RECEIPT is outstanding."""
        yield from self._await(lambda: not self.outstanding, "RECEIPT")
        self.check_refused()

    def check_open(self) -> None:
        """Raises what no call has raised yet, or ConnectionLost if there will be no further connection."""
        self.check_refused()
        if self.lost is not None:
            raise ConnectionLost(f"There is no connection to {self.address}: {self.lost.rstrip('.')}.")

    def check_refused(self) -> None:
        """Raises, once, the error that no call has awaited."""
        if self.unraised is not None:
            error, self.unraised = self.unraised, None
            raise error

    def check_wait(self, wait: Wait, is_receiver: bool) -> None:
        """Raises if the Wait can never be done. is_receiver: the caller that waits is the one that receives, or nobody
        receives.
        """
        if self.lost is not None:
            self.check_open()
        if wait.what and is_receiver and self.inbox.is_full:
            raise NoAnswer(
                f"The {wait.what} comes after {len(self.inbox)} messages that nobody has received: no more than "
                f"{self.inbox.max_bytes} bytes of them are kept. Receive them, or send on a Client of its own."
            )

    def _await(self, is_done: Callable[[], bool], what: str) -> Steps[None]:
        """Waits. Raises NoAnswer if it is not done within answer_timeout_s, counted anew for each connection."""
        while not (yield Wait(is_done, self.answer_timeout_s, what)):
            connection = self.connection
            if connection is not None and time.monotonic() - connection.opened_at_s >= self.answer_timeout_s:
                raise NoAnswer(f"{self.address} gave no {what} within {self.answer_timeout_s:g} s.")

    def _done(self, asked: Outstanding) -> Steps[None]:
        """Awaits the RECEIPT. If the caller stops waiting, for whatever reason, a refusal is for the next call."""
        try:
            yield from self._await(lambda: asked.is_done, "RECEIPT")
        except BaseException:
            asked.is_awaited = False
            raise

    def _given(self, connection: ClientConnection, asked: Outstanding) -> Steps[None]:
        """Awaits that it is given to the operating system; the same holds if the caller stops waiting."""
        try:
            yield from self._await(lambda: self._is_given(connection), "room to send")
        except BaseException:
            asked.is_awaited = False
            raise

    def _writable(self) -> Steps[ClientConnection]:
        """Returns the connection, once the operating system has all that was sent before, which bounds what is
        outgoing.
        """
        connection = yield from self.up()
        while connection.outgoing:
            yield from self._await(lambda one=connection: self._is_given(one), "room to send")  # type: ignore[misc]
            connection = yield from self.up()
        return connection

    def _with_place(self) -> Steps[ClientConnection]:
        """Returns the connection, once nothing is outgoing and the window has room."""
        connection = yield from self._writable()
        while len(self.outstanding) >= self.window:
            yield from self._await(lambda: len(self.outstanding) < self.window, "RECEIPT")
            connection = yield from self._writable()
        return connection

    def _is_given(self, connection: ClientConnection) -> bool:
        return not connection.outgoing or self.connection is not connection

    # ---- the socket

    def read(self, connection: ClientConnection) -> None:
        """Reads what has come."""
        try:
            for event in connection.read():
                self._take(connection, event)
        except Gone as why:
            self.fail(connection, str(why))

    def write(self, connection: ClientConnection) -> None:
        """Writes what is outgoing, as far as the operating system takes it."""
        try:
            connection.write()
        except Gone as why:
            self.fail(connection, str(why))

    def beat(self) -> None:
        """Sends a heart-beat if one is due. Nothing is awaited, so nothing is raised."""
        connection = self.connection
        if connection is not None and connection.session.heart_beat_send_s:
            try:
                connection.beat()
            except Gone as why:
                self.fail(connection, str(why))

    def check_silence(self, connection: ClientConnection) -> None:
        """Drops the connection if the broker promised heart-beats and was silent for too long."""
        if self.connection is connection and connection.until_silent_s() == 0.0:
            silent_s = time.monotonic() - connection.read_at_s
            self.fail(connection, f"the broker was silent for {silent_s:.1f} s, though it promised heart-beats")

    # ---- what comes

    def _take(self, connection: ClientConnection, event: ServerEvent) -> None:
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
                    self.unraised = self.unraised if asked.is_awaited else asked.error
                if asked.loss is Loss.REPLAYED:
                    self._look_whether_proven()
        elif isinstance(event, Error):
            self._take_error(connection, event)
        elif isinstance(event, Broken):
            self._lose(connection, f"the broker broke the protocol: {event.sentence}")

    def _take_error(self, connection: ClientConnection, event: Error) -> None:
        """Lets the call that awaits the frame raise the error; otherwise the next one raises it, unless another
        connection may succeed.
        """
        refused = refusal(event)
        asked = self.outstanding.get(event.receipt or "")
        is_nobodys = asked is None or (asked.loss is Loss.REPLAYED and not asked.is_awaited)
        is_raised = asked is not None and asked.is_awaited
        if asked is not None and not is_nobodys:
            del self.outstanding[event.receipt or ""]
            asked.is_done, asked.error = True, refused
        if not is_raised and not (is_nobodys and self.restores):
            self.unraised = refused
        self._lose(connection, f"the broker refused: {refused}", is_raised)

    # ---- loss

    def fail(self, connection: ClientConnection, why: str) -> None:
        """Called when it cannot be written or read; reads first, since the broker may have sent the reason before it
        hung up.
        """
        with suppress(Gone):
            while self.connection is connection and (events := connection.read()):
                for event in events:
                    self._take(connection, event)
        self._lose(connection, why)

    def _lose(self, connection: ClientConnection, why: str, is_raised: bool = False) -> None:
        """Gives up this connection. is_raised: a call that awaits a RECEIPT raises the reason already."""
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
            if not is_raised and not self.replies and self.unraised is None:
                self.unraised = ConnectionLost(sentence)
        else:
            _log.warning("%s It is restored.", sentence)
            self._sort_out(sentence, self._attempts.policy.resend)
            address = self._addresses.index(connection.address)
            if not self._attempts.lost(address, time.monotonic(), random.random()):
                self._give_up(sentence)
        self._changed()

    def _sort_out(self, sentence: str, resend: bool) -> None:
        """Ends what is outstanding and has no meaning on another connection, and drops unacked messages that nobody
        received.
        """
        for receipt, asked in list(self.outstanding.items()):
            if (asked.loss is Loss.REPLAYED and asked.is_awaited) or (asked.loss is Loss.AGAIN and resend):
                continue
            del self.outstanding[receipt]
            asked.is_done, asked.is_dropped = True, asked.loss in (Loss.DROPPED, Loss.REPLAYED)
            if not asked.is_dropped:
                asked.error = ConnectionLost(f"{sentence} What was asked may or may not have happened.")
                self.unraised = self.unraised if asked.is_awaited else asked.error
        self.inbox.drop_unacked()

    def let_go(self, why: str) -> None:
        """Gives up for good: there will be no further connection."""
        if self.lost is None:
            self.lost = why
            if self.connection is not None:
                self._drop(self.connection)
            self._changed()

    def _drop(self, connection: ClientConnection) -> None:
        """Closes the socket; if a thread waits for it, that thread closes it once it has woken."""
        self.connection = None
        connection.hang_up()
        if not connection.waiters:
            connection.close()

    # ---- restoration

    def until_try_s(self) -> float:
        """Returns how long until the next try is due."""
        assert self._attempts is not None
        return self._attempts.try_at_s - time.monotonic()

    def next_try(self) -> tuple[Address, int]:
        """Returns the address to try, and the connection's number."""
        assert self._attempts is not None
        self.connections += 1
        return self._addresses[self._attempts.next_address], self.connections

    def tried(self, found: ClientConnection | RadiatorError) -> None:
        """Called with what the try came to."""
        assert self._attempts is not None
        if isinstance(found, ClientConnection):
            self._replay(found)
        elif self.lost is None and not self._attempts.failed(time.monotonic(), random.random()):
            self._give_up(str(found))

    def soonest_try_s(self) -> float | None:
        """Returns the shortest pause between two tries; None: nothing is tried again."""
        return None if self._attempts is None else self._attempts.policy.first_s

    def _give_up(self, sentence: str) -> None:
        assert self._attempts is not None
        self.let_go(sentence)
        tried_s = self._attempts.policy.timeout_s
        self.unraised = ConnectionLost(f"There was no lasting connection within {tried_s:g} s. {sentence}")

    def _replay(self, connection: ClientConnection) -> None:
        """Subscribes again what was subscribed, then sends again what is outstanding, in its order."""
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
                # the other broker speaks another version, which cannot express it
                del self.outstanding[receipt]
                asked.is_done, asked.error = True, wrong
                self.unraised = self.unraised if asked.is_awaited else wrong
        _log.warning("Connected to %s again.", connection.address)
        try:
            connection.say(b"".join(frames))
        except Gone as why:
            self.fail(connection, str(why))

    def _let_go_of_other_stores(self, connection: ClientConnection) -> None:
        """Gives up what another store may have already: this one could not tell that it is a repetition."""
        for receipt, asked in list(self.outstanding.items()):
            if asked.store not in (None, connection.session.store):
                del self.outstanding[receipt]
                asked.is_done = True
                asked.error = ConnectionLost(
                    f"A SEND had no RECEIPT when its connection was lost, and {connection.address} has another store: "
                    "it may or may not have happened, and is not sent again, lest it be stored twice (dedup)."
                )
                self.unraised = self.unraised if asked.is_awaited else asked.error

    def _look_whether_proven(self) -> None:
        """Counts the connection as proven once all its subscriptions are confirmed."""
        if self._attempts is not None and not any(
            asked.loss is Loss.REPLAYED and not asked.is_awaited for asked in self.outstanding.values()
        ):
            self._attempts.proven()
