"""Get: the next ready message of a queue, for a client that takes messages one by one; and SetWindow.

A Get is a consumer of its queue until it is answered, which is at once if what is ready is in memory. If that is on the
disk alone, the connection waits until it is read back, or others have got it. A message that may not wait
(queues/passing.py) is for consumers with room, never for a Get: if one becomes READY while a Get waits, the Get leaves
the ring, and joins it again when the message is gone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from radiator.core.connections import Connection, ConsumedQueue, Subscription
from radiator.core.kinds.kind import Kind
from radiator.core.queues.passing import is_passing
from radiator.core.queues.queue import Queue
from radiator.core.queues.unsendable import HEADERS_GROWTH
from radiator.core.routing.waiting import FLUSH, Waitable, WaitList
from radiator.core.turn import TurnContext
from radiator.model.ack_modes import AUTO
from radiator.model.addresses import split
from radiator.model.errors import Refusal
from radiator.model.getting import Get, SetWindow
from radiator.model.limits import PREFETCH_COUNT_MAX, RECEIVE_LOAD_S, STEP_MESSAGES
from radiator.model.replies import Empty


@dataclass(slots=True, eq=False)
class Getter(Subscription):
    """A Get that is not answered yet: a consumer with a window of one. source: its queue; waiting: where its connection
    waits, since since_s; is_taken: it has got its message.
    """

    command: Get = field(kw_only=True)
    source: Queue = field(kw_only=True)
    wake: Callable[[Waitable], None] = field(kw_only=True)
    waiting: WaitList = field(kw_only=True)
    since_s: float = field(kw_only=True)
    is_taken: bool = False

    def has_window(self) -> bool:
        return not self.is_taken and not is_passing(self.source.head())

    def delivered(self) -> int:
        self.is_taken = True
        return self.source.ready_count

    @property
    def awaits_disk(self) -> bool:
        """Whether the message that it would take is on the disk alone, or was sent before it and is being written to
        the disk.
        """
        if self.is_taken or self.source.is_gone or not self.is_listed:
            return False
        if self.source.storing_count and not self.source.ready_count:
            return True
        return not self.source.is_exhausted and self.source.peek_head() is None

    def look(self) -> None:
        """Called when its queue has handed out what it could."""
        if not self.awaits_disk:
            self.wake(self.waiting)

    def ended(self) -> None:
        self.wake(self.waiting)


class Getting:
    """getters: those that wait, by connection; full: connections whose outgoing buffer must be written first. wake: has
    those who wait tried again; on_left: as in acks.py.
    """

    __slots__ = ("context", "full", "getters", "kinds", "on_left", "wake")

    def __init__(
        self,
        context: TurnContext,
        kinds: Mapping[str, Kind],
        wake: Callable[[Waitable], None],
        on_left: Callable[[ConsumedQueue], None],
    ) -> None:
        self.context = context
        self.kinds = kinds
        self.wake = wake
        self.on_left = on_left
        self.getters: dict[Connection, Getter] = {}
        self.full: dict[Connection, WaitList] = {}

    def set_window(self, connection: Connection, command: SetWindow) -> None:
        """Sets the shared window. What now has room in it goes out behind the RECEIPT. Raises Refusal."""
        if not 0 <= command.messages <= PREFETCH_COUNT_MAX:
            raise Refusal(
                "bad-request", f"The window is {command.messages}: it must be 0 (no bound) to {PREFETCH_COUNT_MAX}."
            )
        connection.shared_window = command.messages
        if command.properties_max_bytes is not None:
            connection.properties_max_bytes = command.properties_max_bytes
            connection.headers_max_bytes = command.properties_max_bytes // HEADERS_GROWTH
        connection.receipt(self.context, command.receipt)
        connection.offer()

    # ---- Get --------------------------------------------------------------------------------------------------------

    def get(self, connection: Connection, command: Get) -> Waitable | None:
        """Takes a message, or says that there is none; or returns what it must wait for first. Raises Refusal."""
        getter = self.getters.get(connection)
        if getter is not None and getter.source.is_gone and not getter.is_taken:
            self._end(getter)  # another may have its name by now
            getter = None
        if getter is None:
            kind, name = split(command.destination)
            queue = self.kinds[kind].existing(command.destination, name, connection)
            if queue.ready_count and connection.unwritten and not connection.takes_more:
                return self.full.setdefault(connection, WaitList("outbox", is_timed=False))
            if self.context.handled >= STEP_MESSAGES:
                return FLUSH
            getter = self._begun(connection, command, queue)
        if not getter.is_taken and not getter.is_listed:
            if is_passing(getter.source.head()):
                return FLUSH
            getter.source.join(getter)
        if getter.awaits_disk and not self._is_late(getter):
            return getter.waiting
        self._end(getter)
        if not getter.is_taken:
            self.context.post(Empty(connection.number, command.receipt))
        return None

    def _begun(self, connection: Connection, command: Get, queue: Queue) -> Getter:
        """Returns a consumer, which gets nothing before it has joined the ring."""
        getter = Getter(
            connection,
            command.receipt,
            queue,
            command.ack,
            1,
            False,
            True,
            connection.next_place,
            is_getter=True,
            is_get=True,
            destination=command.destination,
            command=command,
            source=queue,
            wake=self.wake,
            waiting=WaitList(f"the disk, which {queue.address} is read back from,", is_timed=False),
            since_s=self.context.now_s,
        )
        queue.subscribe(getter)
        connection.next_place += 1
        connection.had_auto = connection.had_auto or command.ack == AUTO
        self.context.handled += 1
        self.getters[connection] = getter
        queue.observe(getter.look)
        return getter

    def _is_late(self, getter: Getter) -> bool:
        return self.context.now_s - getter.since_s >= RECEIVE_LOAD_S

    def _end(self, getter: Getter) -> None:
        """Ends it as a consumer."""
        del self.getters[getter.connection]
        queue = getter.source
        queue.ignore(getter.look)
        queue.unsubscribe(getter)
        if queue.settings.auto_delete:
            self.on_left(queue)

    # ---- what it waits for ------------------------------------------------------------------------------------------

    def drained(self, connection: Connection) -> None:
        """Called when its outgoing buffer has room again."""
        waiting = self.full.pop(connection, None)
        if waiting is not None:
            self.wake(waiting)

    def ticked(self) -> None:
        """Wakes each Get that has waited for the disk for RECEIVE_LOAD_S: it is answered without."""
        for getter in self.getters.values():
            if self._is_late(getter):
                self.wake(getter.waiting)

    def closed(self, connection: Connection) -> None:
        """Called when a connection is closed: ends its Get. A message that it took is unacked, and returns as any
        other.
        """
        self.full.pop(connection, None)
        getter = self.getters.get(connection)
        if getter is not None:
            self._end(getter)
