"""The journal's words: what is told of the life of a persistent message.

An event is told in the batch that holds the change which it tells of; docs/JOURNAL.md says what each means.
"""

from typing import NamedTuple

ACCEPTED, DELIVERED, ACKED, NACKED, RETURNED = "accepted", "delivered", "acked", "nacked", "returned"
DELAYED, DUE, EXPIRED, DEAD_LETTERED, DROPPED = "delayed", "due", "expired", "dead-lettered", "dropped"
PURGED, MOVED, CHECKED_OUT, COPIED = "purged", "moved", "checked-out", "fanout-copy"
EVENTS = (
    ACCEPTED, DELIVERED, ACKED, NACKED, RETURNED, DELAYED, DUE, EXPIRED, DEAD_LETTERED, DROPPED, PURGED, MOVED,
    CHECKED_OUT, COPIED,
)  # fmt: skip


class Told(NamedTuple):
    """One event. position: of the message; queue: the name of the one that it is (or was) in.

    client: who, as the number of a connection and the id of its subscription, or ""; attempt: its redelivery count;
    size: bytes of header block and body; other: the position of the message that it came from or went on as, 0: none;
    other_queue: the queue of that one, or the address that was sent to; reason: one word, or "".
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
