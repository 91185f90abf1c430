"""The broker's replies to a connection. The session turns a reply into bytes; the server writes them in order."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from radiator.model.errors import Grounds
from radiator.model.leases import Leased, Settled
from radiator.model.message import Message
from radiator.model.peer import PeerFrame

# what a message costs in a buffer besides its own bytes: its head on the wire, and its objects in memory
MESSAGE_COST_BYTES = 256


@dataclass(slots=True)
class RecordPlace:
    """The place of a record in a log. skipped: how many records its group missed just before this one."""

    partition: int
    offset: int
    skipped: int = 0


@dataclass(slots=True)
class EndOfLog:
    """Instead of a record: all that the subscription asked for (`until`) has been sent."""


@dataclass(slots=True)
class Deliver:
    """MESSAGE. `ack_due`: it carries `ack` (its value is the message id).

    subscription: the id, or None if the client gave none (1.0). written_due: the server must report Written for it at
    once, not at the next occasion (`ack:auto`). is_published: the same message goes to all subscribers of a topic.
    log: its place in the log that was subscribed to; None: it is not from a log. left: for a Get: how many messages are
    ready after it; None: it is for a subscription.
    """

    connection: int
    subscription: bytes | None
    message_id: bytes
    message: Message
    ack_due: bool
    redelivered: bool = False
    redeliveries: int = 0
    written_due: bool = False
    is_published: bool = False
    log: RecordPlace | EndOfLog | None = None
    left: int | None = None


@dataclass(slots=True)
class Empty:
    """The answer to a Get: no message is ready."""

    connection: int
    receipt: bytes


@dataclass(slots=True)
class Returned:
    """A mandatory Send of this connection, with that header block and body, reached no queue, and comes back as it
    asked. Its RECEIPT follows.
    """

    connection: int
    destination: str
    headers: bytes
    escaping: int
    body: bytes


@dataclass(slots=True)
class Ended:
    """The broker ended a subscription of this connection: its queue was deleted. What is unacked of it is gone, or is
    redelivered elsewhere.
    """

    connection: int
    subscription: bytes


@dataclass(slots=True)
class Receipt:
    """RECEIPT."""

    connection: int
    receipt: bytes


@dataclass(slots=True)
class RefusedReceipt(Receipt):
    """RECEIPT that refuses a SEND, which asked for refusals in this form. code, sentence and grounds: as in Refuse."""

    code: str
    sentence: str
    grounds: Grounds | None = field(default=None, compare=False)


@dataclass(slots=True)
class LogReceipt(Receipt):
    """RECEIPT of a subscription to a log. offsets: for each partition read, from where on it misses no record."""

    offsets: Mapping[int, int]


@dataclass(slots=True)
class Published:
    """A PublishAll was carried out: what is persistent is synced. ids: of what was stored, in order; that of a log's
    record is `PARTITION:OFFSET`. duplicates: how many messages were not stored, because their dedup-ids were known.
    """

    connection: int
    receipt: bytes
    ids: list[bytes]
    duplicates: int


@dataclass(slots=True)
class Answered:
    """The answer to an Administer with is_answered, as its rendering wrote it. code: of the refusal, if it is one; "":
    it is none. is_again: it is not the first answer to its request; the server must report Written for it. more: what
    follows the body, if it is so long that it comes in parts.
    """

    connection: int
    receipt: bytes
    body: bytes
    code: str = ""
    is_again: bool = False
    more: tuple[bytes, ...] = ()


class Scope(IntEnum):
    """What a refusal leaves intact. COMMAND: everything but the refused command, which had no effect. CHANNEL: the
    connection, but not everything that was open on it: the refusal ended some of it (a transaction, a delivery).
    CONNECTION: nothing; the connection is closed.
    """

    COMMAND = 1
    CHANNEL = 2
    CONNECTION = 3


@dataclass(slots=True)
class Refuse:
    """A refusal. `code` is stable (docs/PROTOCOL.md), `sentence` says what is refused, and why; so does `grounds`,
    unless it is None, for protocols that have words of their own. The session decides by the scope whether the
    connection ends: see Open.closes_at.

    receipt: the receipt id of the command that caused it, or None. command: the one that was refused, of
    model/commands.py; None: no command is the cause.
    """

    connection: int
    code: str
    sentence: str
    receipt: bytes | None = None
    scope: Scope = Scope.CONNECTION
    grounds: Grounds | None = field(default=None, compare=False)
    command: object = field(default=None, compare=False)


@dataclass(slots=True)
class Bye:
    """Close the connection once everything before this is written."""

    connection: int


@dataclass(slots=True)
class Pause:
    """Read nothing more from this connection until Resume: one of its commands waits for room. cause: a sentence; "":
    room is expected in a moment.
    """

    connection: int
    cause: str = ""


@dataclass(slots=True)
class Resume:
    """Read from this connection again."""

    connection: int


@dataclass(slots=True)
class SendToPeer:
    """A word for a linked node. The server counts it among the Delivers that Written reports."""

    connection: int
    word: PeerFrame


Reply = (
    Deliver
    | Empty
    | Returned
    | Ended
    | Receipt
    | Published
    | Answered
    | Refuse
    | Bye
    | Pause
    | Resume
    | SendToPeer
    | Leased
    | Settled
)
