"""The journal: the events in the life of a persistent message, and how a consumer reads them.

An event is written in the same batch as its change; docs/JOURNAL.md defines each one.
"""

import json
from collections.abc import Set
from typing import NamedTuple

from radiator.model.message import message_id

ACCEPTED, DELIVERED, ACKED, NACKED, RETURNED = "accepted", "delivered", "acked", "nacked", "returned"
DELAYED, DUE, EXPIRED, DEAD_LETTERED, DROPPED = "delayed", "due", "expired", "dead-lettered", "dropped"
PURGED, MOVED, CHECKED_OUT, COPIED = "purged", "moved", "checked-out", "fanout-copy"
STARTED, DELETED, SET_ASIDE = "started", "deleted", "set-aside"
EVENTS = (
    ACCEPTED, DELIVERED, ACKED, NACKED, RETURNED, DELAYED, DUE, EXPIRED, DEAD_LETTERED, DROPPED, PURGED, MOVED,
    CHECKED_OUT, COPIED, STARTED, DELETED, SET_ASIDE,
)  # fmt: skip

# which events make up a column of a queue's ledger: each change of a column has exactly one of them
COLUMNS = {
    "accepted": (ACCEPTED,),
    "acked": (ACKED, CHECKED_OUT),
    "expired": (EXPIRED,),
    "dropped": (DROPPED,),
    "purged": (PURGED, MOVED),
    "dead_lettered": (DEAD_LETTERED,),
}
# what `number` is called in the JSON of those events that have one
NUMBERS = {DELAYED: "due_ms", COPIED: "copies", STARTED: "messages", DELETED: "messages"}

# reasons
WRITTEN, HANDED_OVER, LOST, ACK_TIMEOUT, UNUSED = "written", "handed-over", "lost", "ack-timeout", "unused"
AS_DEAD_LETTER, RELEASED = "dead-letter", "released"  # and MOVED, HANDED_OVER: why it was accepted
CLEAN, UNCLEAN = "clean", "unclean"  # how the last run had ended

NO_JOURNAL = "This store has no journal: [journal] enabled = true in config.toml begins one."

CLIENT_CHARACTERS = 64  # cut: of a client's name


class JournalEvent(NamedTuple):
    """One event. position: of the message; 0: the event is of the whole queue. queue: the name of the queue that the
    message is or was in.

    client: the consumer, as the number of its connection and the id of its subscription, or `node/NAME`, or `user/NAME`
    where it is leased; attempt: the message's redelivery count; size: bytes of header block and body; other: the
    position of the message that it came from or became; other_queue: the name of that one's queue (or `/log/NAME`);
    address: the destination of the SEND, where that was not the queue; reason: one word; number: see NUMBERS;
    traceparent, correlation_id: of an accepted message, as traces.py and correlations.py find it. A value that is
    empty, or 0, is absent.
    """

    event: str
    ms: int
    queue: str
    position: int
    client: str = ""
    attempt: int = 0
    size: int = 0
    other: int = 0
    other_queue: str = ""
    reason: str = ""
    address: str = ""
    number: int = 0
    traceparent: str = ""
    correlation_id: str = ""


def is_about(event: JournalEvent, positions: Set[int]) -> bool:
    """Whether it names one of these messages, as itself or as the other one. `started` names none: only a boot."""
    return event.event != STARTED and (event.position in positions or event.other in positions)


def is_traced(event: JournalEvent, trace_id: str) -> bool:
    """Whether its message was accepted with that trace id."""
    return f"-{trace_id}-" in event.traceparent


# after one of these the message is no longer in its queue
ENDS = (ACKED, EXPIRED, DEAD_LETTERED, DROPPED, PURGED, MOVED, CHECKED_OUT)


class CameFrom(NamedTuple):
    """Where an accepted message was before; empty for one that was sent. position, queue: there; client: the node that
    hands it over; attempt: its redelivery count there.
    """

    reason: str = ""
    position: int = 0
    queue: str = ""
    client: str = ""
    attempt: int = 0


def as_json(event: JournalEvent, seq: int, store_id: str) -> bytes:
    """The event as a reader of the journal gets it: the body of record `seq` (docs/JOURNAL.md)."""
    row: dict[str, str | int] = {"seq": seq, "event": event.event, "ms": event.ms, "queue": event.queue}
    if event.position:
        row["message_id"] = message_id(store_id, event.position).decode()
        row["attempt"] = event.attempt
    row["bytes"] = event.size
    if event.client:
        row["client"] = event.client
    if event.other:
        row["other_id"] = message_id(store_id, event.other).decode()
    if event.other_queue:
        row["other_queue"] = event.other_queue
    if event.address:
        row["address"] = event.address
    if event.reason:
        row["reason"] = event.reason
    if event.event in NUMBERS:
        row[NUMBERS[event.event]] = event.number
    if event.traceparent:
        row["traceparent"] = event.traceparent
    if event.correlation_id:
        row["correlation_id"] = event.correlation_id
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()
