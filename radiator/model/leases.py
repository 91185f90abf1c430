"""Leases: messages of queues that belong to a user for a time, and to no connection. The commands about them, and their
replies. docs/HTTP.md says what a lease promises.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from radiator.model.message import Message

LEASE_OVER = "lease-over"
"""The code of a lease that is unknown, overdue, settled, of an earlier run, forged, or another user's: nobody learns
which of these.
"""


class Action(StrEnum):
    """What becomes of a leased message."""

    ACK = "ack"
    """It has been processed: it is removed."""
    RELEASE = "release"
    """It goes back to its queue, as by a NACK."""
    REJECT = "reject"
    """It goes to the dead-letter queue, or is dropped, as by a NACK with requeue:false."""
    EXTEND = "extend"
    """It stays leased, for a time that begins anew."""


@dataclass(slots=True)
class Receive:
    """Takes messages of a queue under leases: up to max_messages as soon as one is there; none when wait_ms are over.
    Answered by Leased. lease_ms: how long each may be kept.
    """

    connection: int
    receipt: bytes
    destination: str
    max_messages: int
    wait_ms: int
    lease_ms: int


@dataclass(slots=True)
class Settlement:
    """What is to become of one lease. lease: its token. delay_ms: of RELEASE: the message comes back after that time;
    None: as its queue's settings say. lease_ms: of EXTEND: how long from now; None: as long as it was leased for.
    """

    lease: bytes
    action: Action
    delay_ms: int | None = None
    lease_ms: int | None = None


@dataclass(slots=True)
class Settle:
    """Settles leases, each by itself, in this order. Answered by Settled, once what that says is on the disk."""

    connection: int
    receipt: bytes
    settlements: list[Settlement]


@dataclass(slots=True)
class LeasedMessage:
    """A message under a lease. lease: its token, which settles it."""

    lease: bytes
    message_id: bytes
    message: Message
    redelivered: bool
    redeliveries: int


@dataclass(slots=True)
class Leased:
    """The answer to a Receive. messages: in the queue's order; none where none came in time."""

    connection: int
    receipt: bytes
    messages: list[LeasedMessage] = field(default_factory=list)


@dataclass(slots=True)
class Verdict:
    """What came of a settlement. code: why it was refused, as of Refuse; "": it is settled. sentence: the same in
    words.
    """

    code: str = ""
    sentence: str = ""


@dataclass(slots=True)
class Settled:
    """The answer to a Settle: a verdict for each settlement, in order."""

    connection: int
    receipt: bytes
    verdicts: list[Verdict]
