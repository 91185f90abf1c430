"""One connection to the broker, shared by its channels, and the frames that have come on it and were not delivered yet.

Frames are kept until `drain_events`, or the event loop's turn: a callback never runs within a call that only waits for
an answer. The socket does not show what was read within such a call, so the event loop is notified of it.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from radiator.client import Address, Client
from radiator.integrations.kombu.failures import ConnectionLost, OperationRefused, failure, not_connected, refused
from radiator.model.errors import RadiatorError, Refusal, Violation
from radiator.model.limits import PREFETCH_COUNT_MAX

if TYPE_CHECKING:
    from radiator.client import Message as Received

CLOSE_MAX_S = 5.0  # how long a shutdown waits for a broker that does not answer
WAIT_S = 60.0  # one wait of a drain_events without a timeout
SERVED_AT_ONCE = 64  # messages handed on before the rest of the event loop has its turn
DECLARED_AGAIN_S = 1.0  # after which a queue for replies is declared again, so that it does not expire
DECLARED_KEPT = 1000
HEART_BEAT_MIN_S, HEART_BEAT_MAX_S = 1.0, 86_400.0


class DeclaredQueue(NamedTuple):
    """AMQP's answer to queue.declare."""

    queue: str
    message_count: int
    consumer_count: int


class Sharing(Protocol):
    """What a connection asks of its channels."""

    @property
    def has_consumers(self) -> bool: ...

    @property
    def is_sharing(self) -> bool:
        """Whether it has consumers that use the connection's window."""

    @property
    def window(self) -> int:
        """How many unacked messages its consumers have asked for, together."""

    def end(self) -> None:
        """Called when the connection is lost or closed."""


class SharedConnection:
    """client: the kombu Connection that it belongs to; None once it is closed. Raises Unreachable if nobody answers,
    Forbidden if the login is refused, OperationRefused if TLS files cannot be used.

    It promises the broker no heart-beats, so that a worker that is busy for an hour is not taken for dead; TCP shows
    the broker when it is. It asks for the broker's heart-beats, every heart_beat_s, and checks them.
    """

    def __init__(
        self, client: Any, address: Address, connect_timeout_s: float, answer_timeout_s: float, heart_beat_s: float
    ) -> None:
        self.client = client
        self.channels: dict[int, Sharing] = {}
        self.confirms = True  # whether a publish awaits its RECEIPT
        self.keeps_replies = False  # whether queues for replies are on the disk
        self._types: dict[str, str] = {}
        self._declared: dict[str, tuple[dict[str, Any], float, DeclaredQueue]] = {}
        self._arrived: deque[tuple[Callable[[Received], None], Received]] = deque()
        self._calling: set[int] = set()  # threads that are within a call of `broker`
        self._postponed: deque[Callable[[], Any]] = deque()
        self._numbered = 0
        self._window = 1  # of its shared subscriptions
        self._waiting = 0  # how many calls of drain_events wait: with threads or greenlets there may be several
        self._loop: Any = None
        self._is_called = False  # the loop is about to call
        self._is_reported = False  # the loss was raised to somebody
        self._had_consumers = False  # when it was lost
        heart_beat_ms = int(min(max(heart_beat_s, HEART_BEAT_MIN_S), HEART_BEAT_MAX_S) * 1000)
        try:
            self.broker = Client(
                address,
                connect_timeout_s=connect_timeout_s,
                answer_timeout_s=answer_timeout_s,
                heart_beat_ms=(0, heart_beat_ms),
            )
        except RadiatorError as error:
            raise not_connected(error) from error
        self.connected = True

    @property
    def owes_its_loss(self) -> bool:
        """Whether it is lost, and its consumers have not been told so by `drain_events` yet.

        Until then kombu must not consider it closed: it would silently open another one, and wait on that without
        consumers.
        """
        return not self.connected and self._had_consumers and not self._is_reported

    # ---- channels

    def add(self, channel: Sharing) -> int:
        """Adds a channel; returns its number."""
        self._numbered += 1
        self.channels[self._numbered] = channel
        return self._numbered

    def widen_window(self) -> None:
        """Sets the shared window to what the channels have asked for together."""
        width = sum(channel.window for channel in self.channels.values() if channel.is_sharing)
        width = min(width, PREFETCH_COUNT_MAX)
        if width != self._window:
            self._window = width
            self.admin("prefetch", count=self._window)

    # ---- asking

    def ask(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls a method of `broker`. Raises ConnectionLost, or OperationRefused if the broker refused this one
        request.

        A signal handler (Celery's cold shutdown cancels its consumers in one) may have interrupted another such call of
        the same thread, which cannot go on before the handler has ended: then this call is made after it, and returns
        None.
        """
        if not self.connected:
            raise ConnectionLost("The connection to the broker is lost or closed.")
        thread = threading.get_ident()
        if thread in self._calling:
            self._postponed.append(partial(self.ask, call, *args, **kwargs))
            return None
        self._calling.add(thread)
        no: Refusal | None = None
        try:
            answer = call(*args, **kwargs)
        except Violation as mistake:
            raise OperationRefused(str(mistake)) from mistake
        except RadiatorError as error:
            if not isinstance(error, Refusal) or not self.broker.is_open:
                raise self._lose(error, is_asked=True) from error
            no = error
        finally:
            self._calling.discard(thread)
        self._catch_up()
        # a frame without a receipt may meet the loss and raise nothing; a closed socket wakes nobody
        if self._loop is not None and (self.broker.waiting or not self.broker.is_open):
            self._call_loop()
        if no is not None:
            raise refused(str(no), no.code) from no
        return answer

    def _catch_up(self) -> None:
        """Makes the calls that a signal handler has asked for meanwhile."""
        while self._postponed:
            self._postponed.popleft()()

    def admin(self, do: str, **request: Any) -> dict[str, Any]:
        """The answer to a request to `/admin`. Raises OperationRefused if it is refused; the connection stays open."""
        answer: dict[str, Any] | None = self.ask(self.broker.admin, {"do": do, **request})
        if answer is None:
            raise ConnectionLost(
                "The broker cannot be asked from a handler of signals that has interrupted another request."
            )
        return answer

    # ---- exchanges

    def note_exchange(self, exchange: str, type: str) -> None:
        """Called when an exchange of that type was declared."""
        if len(self._types) >= DECLARED_KEPT:
            self._types.clear()
        self._types[exchange] = type

    def forget_exchange(self, exchange: str) -> None:
        """Called when the exchange is deleted."""
        self._types.pop(exchange, None)

    def type_of(self, exchange: str) -> str:
        """The type of an exchange. If others have declared it, the broker is asked, which needs the right to see it."""
        known = self._types.get(exchange)
        return known or str(self.admin("describe", exchange=exchange)["type"])

    # ---- declared a moment ago

    def just_declared(self, queue: str, settings: dict[str, Any]) -> DeclaredQueue | None:
        """The answer to this very declaration, if it is of a queue for replies and was given a moment ago.

        Celery declares its queue for results before each task that it publishes.
        """
        known = self._declared.get(queue)
        if known is None or known[0] != settings or time.monotonic() - known[1] >= DECLARED_AGAIN_S:
            return None
        return known[2]

    def note_declared(self, queue: str, settings: dict[str, Any], declared: DeclaredQueue) -> None:
        """Called when the queue has just been declared."""
        if settings["auto_delete"] and int(settings.get("expires_ms") or 0) > 2000 * DECLARED_AGAIN_S:
            if len(self._declared) >= DECLARED_KEPT:
                self._declared.clear()
            self._declared[queue] = settings, time.monotonic(), declared

    def forget_declared(self, queue: str) -> None:
        """Called when the queue is deleted, or a consumer of it is cancelled."""
        self._declared.pop(queue, None)

    # ---- what comes

    def arrived(self, hand_on: "Callable[[Received], None]", received: "Received") -> None:
        """Called when a message has come: it is handed on when its turn comes."""
        self._arrived.append((hand_on, received))

    def drain_events(self, timeout: float | None = None) -> None:
        """Hands on one message. Raises TimeoutError where none comes in time."""
        end_s = None if timeout is None else time.monotonic() + timeout
        while not self._hand_on():
            left_s = WAIT_S if end_s is None else max(0.0, end_s - time.monotonic())
            self._pump(left_s)
            if left_s == 0.0 and not self._arrived:
                raise TimeoutError("Nothing has come in time.")

    def pump_now(self) -> None:
        """Reads what has come, without waiting or handing it on."""
        self._pump(0.0)

    def look(self) -> None:
        """Checks the connection before sending something whose answer nobody awaits. Raises ConnectionLost if the other
        end has closed already: what is sent then would be lost unnoticed, such as the first result of a worker after a
        restart of the broker.
        """
        if threading.get_ident() not in self._calling:
            self._take(reports=False)

    def _pump(self, timeout_s: float, reports: bool = True) -> None:
        """reports: whether raising a loss here tells the consumers of it."""
        if not self.connected:
            self._is_reported |= reports
            raise ConnectionLost("The connection to the broker is lost or closed.")
        thread = threading.get_ident()
        if thread in self._calling:
            raise TimeoutError("A handler of signals has interrupted another call: nothing can come within it.")
        self._calling.add(thread)
        self._waiting += 1
        try:
            self.broker.pump(timeout_s)
        except RadiatorError as error:
            self._is_reported |= reports
            raise self._lose(error, is_asked=False) from error
        finally:
            self._waiting -= 1
            self._calling.discard(thread)
        self._catch_up()
        if self._loop is not None and not self.broker.is_open:
            # what came last is handed on before the loss is raised, and a closed socket wakes nobody
            self._call_loop()

    def _hand_on(self) -> bool:
        """Hands the next message to its consumer; returns whether there was one."""
        try:
            hand_on, received = self._arrived.popleft()
        except IndexError:
            return False
        hand_on(received)
        return True

    # ---- the event loop of kombu

    def join_loop(self, loop: Any) -> None:
        """Has the loop hand on what comes from now on."""
        self._loop = loop
        loop.add_reader(self.broker.fileno(), self._on_readable)
        if self._arrived or self.broker.waiting:
            self._call_loop()

    def _on_readable(self) -> None:
        if not self._arrived:
            self._pump(0.0)
        for _ in range(SERVED_AT_ONCE):
            if not self._hand_on():
                return
        self._call_loop()

    def _call_loop(self) -> None:
        if not self._is_called:
            self._is_called = True
            self._loop.call_soon(self._on_call)

    def _on_call(self) -> None:
        self._is_called = False
        if self.connected:
            self._on_readable()
        elif not self._is_reported:
            # it was lost in a call whose caller ignored that
            self._is_reported = True
            raise ConnectionLost("The connection to the broker is lost.")

    def check_heart_beats(self) -> None:
        """Raises ConnectionLost if the broker was silent for too long. Calls that wait check that, too."""
        self._take(reports=True)

    def _take(self, reports: bool) -> None:
        if not self._waiting:
            self._pump(0.0, reports)
            if self._loop is not None and self._arrived:
                self._call_loop()

    # ---- the end

    def close(self) -> None:
        """DISCONNECT, by which all that was sent before is carried out. A second call does no harm."""
        self.client = None
        self._is_reported = True
        if self.connected:
            try:
                self.broker.close(CLOSE_MAX_S)
            except RadiatorError:
                pass  # it is closed all the same
            finally:
                self._end()

    def collect(self) -> None:
        """Closes it without a DISCONNECT: in a child of a fork, whose parent keeps using it, and after a loss."""
        self._is_reported = True
        self.broker.abandon()
        self._end()

    def _lose(self, error: RadiatorError, is_asked: bool) -> ConnectionLost | OperationRefused:
        """Called when the connection is lost; returns what to raise for that."""
        self.broker.abandon()
        self._end()
        if self._loop is not None:
            self._call_loop()
        return failure(error, is_asked)

    def _end(self) -> None:
        self.connected = False
        self._had_consumers = any(channel.has_consumers for channel in self.channels.values())
        self._arrived.clear()
        self._postponed.clear()
        for channel in list(self.channels.values()):
            channel.end()
        self.channels.clear()
