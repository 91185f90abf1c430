"""Writes the journal: what becomes of persistent messages goes into the open batch, beside the change itself.

`Queue.journal` is None where the journal is off, and where a queue is not journaled (in memory, a log, an outbox of
copies for another node). docs/JOURNAL.md says what each event means.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from radiator.core.connections import Delivery, Subscription
from radiator.core.logs.partition import Partition
from radiator.core.queues.entry import Entry
from radiator.core.states import Event
from radiator.core.turn import Stored, TurnContext
from radiator.model import journal
from radiator.model.correlations import CORRELATION_LINE_BYTES, valid_correlation_id
from radiator.model.headers import CORRELATION_ID, FANOUT_MESSAGE_ID
from radiator.model.journal import CLIENT_CHARACTERS, CameFrom, JournalEvent
from radiator.model.message import Message, position_in
from radiator.model.traces import TRACEPARENT, TRACEPARENT_LINE_BYTES, valid_traceparent
from radiator.model.writes import Ledger

_SENT = CameFrom()
_traceparent = TRACEPARENT.value
_correlation_id = CORRELATION_ID.value
# the event of a message that comes back, and its reason
_BACK = {
    Event.NACK: (journal.NACKED, ""),
    Event.LOST: (journal.RETURNED, journal.LOST),
    Event.OVERDUE: (journal.RETURNED, journal.ACK_TIMEOUT),
    Event.UNUSED: (journal.RETURNED, journal.UNUSED),
}
_tuple = tuple.__new__  # a third of the cost of naming a NamedTuple's fields; for the three events of every message


class JournalLog(Stored, Protocol):
    """The log that events go to, in its one partition."""

    partitions: list[Partition]

    def append_events(self, events: list[JournalEvent]) -> None:
        """Appends all events of this batch at once."""


class JournaledQueue(Protocol):
    """A queue that may be journaled."""

    name: str
    ledger: Ledger
    journal: "JournalWriter | None"


class JournalWriter:
    """events: of the open batch, in order. log: the log that they are appended to, once there is one. size_max: how
    many bytes the log may have while the disk is tight; None while it is not.
    """

    __slots__ = ("context", "events", "log", "size_max")

    def __init__(self, context: TurnContext) -> None:
        self.context = context
        self.events: list[JournalEvent] = []
        self.log: JournalLog | None = None
        self.size_max: int | None = None

    # ---- the batch --------------------------------------------------------------------------------------------------

    def seal(self) -> None:
        """Called when the open batch is complete: adds its events to it."""
        if self.events and self.log is not None:
            # D27: the events are in the batch of the changes that they are about
            events, self.events = self.events, []
            self.log.append_events(events)

    def flush(self) -> None:
        """Has the open batch take the events even if it is otherwise empty: a delivery changes nothing on the disk."""
        if self.events and self.log is not None:
            self.context.part(self.log)

    def ticked(self, keep_within: Callable[[int], bool], is_tight: bool) -> None:
        """Called as time passes. keep_within: removes the log's oldest segments while it is larger; returns whether it
        did.

        While the disk is tight the journal does not grow: its oldest records make room for new ones.

        If it grew, messages that are returned again and again could fill the disk while SENDs wait for space on it.
        """
        self.flush()
        log = self.log
        if log is None or not is_tight:
            self.size_max = None
        elif self.size_max is None:
            self.size_max = log.partitions[0].size
        elif keep_within(self.size_max):
            self.context.note("warning", "journal_cut", before=log.partitions[0].first)

    # ---- one message ------------------------------------------------------------------------------------------------

    def write(
        self,
        event: str,
        queue: str,
        entry: Entry,
        reason: str = "",
        other: int = 0,
        where: str = "",
        number: int = 0,
        address: str = "",
    ) -> None:
        """Writes an event of the entry. other, where: the position and the queue under which the message goes on;
        address: what it went to, where that was not the queue.
        """
        position, attempt, size, ms = entry.position, entry.redeliveries, entry.size, self.context.now_ms
        self.events.append(
            JournalEvent(event, ms, queue, position, "", attempt, size, other, where, reason, address, number)
        )

    def accepted(
        self, queue: str, position: int, message: Message, size: int, came_from: CameFrom | None, due_ms: int = 0
    ) -> None:
        """Called when the queue has accepted the message. due_ms: it is delayed until then; 0: it is not."""
        reason, other, where, client, attempt = came_from or _SENT
        address = message.destination
        if address.startswith("/queue/"):
            address = ""
        ms, headers = self.context.now_ms, message.headers
        value = _traceparent(headers, message.escaping) if len(headers) >= TRACEPARENT_LINE_BYTES else None
        trace = valid_traceparent(value) if value else ""
        value = _correlation_id(headers, message.escaping) if len(headers) >= CORRELATION_LINE_BYTES else None
        name = valid_correlation_id(value) if value else ""
        event = journal.ACCEPTED
        values = (event, ms, queue, position, client, attempt, size, other, where, reason, address, 0, trace, name)
        self.events.append(_tuple(JournalEvent, values))
        if due_ms:
            self.events.append(JournalEvent(journal.DELAYED, ms, queue, position, size=size, number=due_ms))

    def copied(self, queue: str, position: int, message: Message, copies: int) -> None:
        """Called for each of the copies of one SEND to a fanout. copies: how many there are."""
        shared_id = message.field(FANOUT_MESSAGE_ID)
        assert shared_id is not None, "the router has given one to each copy"
        common, ms = position_in(shared_id), self.context.now_ms
        address, size = message.destination, message.size
        self.events.append(
            JournalEvent(journal.COPIED, ms, queue, position, size=size, other=common, address=address, number=copies)
        )

    def delivered(self, queue: str, entry: Entry, subscription: Subscription) -> None:
        """Called when it was sent to a consumer."""
        client, attempt = subscription.client or client_of(subscription), entry.redeliveries
        ms = self.context.now_ms
        values = (journal.DELIVERED, ms, queue, entry.position, client, attempt, entry.size, 0, "", "", "", 0, "", "")
        self.events.append(_tuple(JournalEvent, values))

    def acked(self, queue: str, delivery: Delivery, event: Event) -> None:
        """Called when its consumer has acked it, or when an `auto` one was written."""
        entry, subscription = delivery.entry, delivery.subscription
        client, attempt = subscription.client or client_of(subscription), entry.redeliveries
        reason, ms = journal.WRITTEN if event is Event.WRITTEN else "", self.context.now_ms
        values = (journal.ACKED, ms, queue, entry.position, client, attempt, entry.size, 0, "", reason, "", 0, "", "")
        self.events.append(_tuple(JournalEvent, values))

    def given_back(self, queue: str, delivery: Delivery, event: Event, reason: str = "") -> None:
        """Called when it returns from its consumer; the next event says what becomes of it."""
        what, why = _BACK[event]
        entry, client = delivery.entry, delivery.subscription.client or client_of(delivery.subscription)
        values = (what, self.context.now_ms, queue, entry.position, client, entry.redeliveries, entry.size)
        self.events.append(JournalEvent(*values, reason=reason or why))

    def handed_over(self, queue: str, position: int, size: int, attempt: int, node: str) -> None:
        """Called when another node has stored it."""
        values = (journal.ACKED, self.context.now_ms, queue, position, node_client(node), attempt, size)
        self.events.append(JournalEvent(*values, reason=journal.HANDED_OVER))

    def checked_out(self, queue: str, entry: Entry, log: str, group: str) -> None:
        """Called when the group has it, as a record of the log."""
        values = (journal.CHECKED_OUT, self.context.now_ms, queue, entry.position, group[:CLIENT_CHARACTERS])
        self.events.append(JournalEvent(*values, entry.redeliveries, entry.size, other_queue=log))

    # ---- whole queues -----------------------------------------------------------------------------------------------

    def started(self, log: JournalLog, queues: Iterable[JournaledQueue], was_clean: bool) -> None:
        """Called when the broker has started, and found these queues. From now on events are appended to the log."""
        self.log = log
        reason = journal.CLEAN if was_clean else journal.UNCLEAN
        self._started("", Ledger(), reason)
        for queue in queues:
            if queue.journal is not None:
                self._started(queue.name, queue.ledger, reason)
        self.flush()

    def _started(self, queue: str, ledger: Ledger, reason: str) -> None:
        context, size, stored = self.context, ledger.stored_bytes, ledger.stored
        position = context.first_position
        self.events.append(
            JournalEvent(journal.STARTED, context.now_ms, queue, position, size=size, reason=reason, number=stored)
        )

    def deleted(self, queue: JournaledQueue) -> None:
        """Called when the queue is deleted with all its messages. This is its last event."""
        size, stored = queue.ledger.stored_bytes, queue.ledger.stored
        self.events.append(JournalEvent(journal.DELETED, self.context.now_ms, queue.name, 0, size=size, number=stored))
        queue.journal = None


def client_of(subscription: Subscription) -> str:
    """Returns the journal's name for a consumer, made once for each."""
    name = subscription.name[: 4 * CLIENT_CHARACTERS].decode("utf-8", "replace")
    subscription.client = f"{subscription.connection.number}/{name}"[:CLIENT_CHARACTERS]
    return subscription.client


def lease_client(user: str) -> str:
    """Returns the journal's name for a user to whom messages are leased."""
    return f"user/{user}"[:CLIENT_CHARACTERS]


def node_client(node: str) -> str:
    """Returns the journal's name for another node."""
    return f"node/{node}"[:CLIENT_CHARACTERS]
