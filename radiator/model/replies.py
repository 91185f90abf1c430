"""What the broker may say to a connection. The session turns a reply into bytes; the shell writes them in order."""

from dataclasses import dataclass
from enum import IntEnum

from radiator.model.message import Message
from radiator.model.peer import PeerFrame


@dataclass(slots=True)
class RecordPlace:
    """Where a record of a log lies. skipped: how many records its group has missed before this one."""

    partition: int
    offset: int
    skipped: int = 0


@dataclass(slots=True)
class EndOfLog:
    """Instead of a record: all that the subscription asked for (`until`) has been sent."""


@dataclass(slots=True)
class Deliver:
    """MESSAGE. `ack_due`: it carries `ack` (its value is the message id).

    subscription: the id, or None where the client gave none (1.0).
    written_due: the shell must report Written for it at once, not at the next occasion (`ack:auto`).
    is_published: the same message goes to all subscribers of a topic. log: of a log's subscription, what this is; None:
    it is of no log.
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


@dataclass(slots=True)
class Receipt:
    """RECEIPT."""

    connection: int
    receipt: bytes


@dataclass(slots=True)
class RefusedReceipt(Receipt):
    """RECEIPT of a SEND that asked to be told so where nothing comes of it. code, sentence: why, as of Refuse."""

    code: str
    sentence: str


class Scope(IntEnum):
    """What a refusal leaves sound. COMMAND: everything but the refused command, of which nothing has happened. CHANNEL:
    the connection, but not what was open on it, of which the refusal has ended some (a transaction, a delivery).
    CONNECTION: nothing; the connection is over.
    """

    COMMAND = 1
    CHANNEL = 2
    CONNECTION = 3


@dataclass(slots=True)
class Refuse:
    """Something is refused. `code` is stable (docs/PROTOCOL.md), `sentence` says what and why. The session decides by
    the scope whether the connection ends: see Open.closes_at.

    receipt: the receipt id of the command that caused it, or None.
    """

    connection: int
    code: str
    sentence: str
    receipt: bytes | None = None
    scope: Scope = Scope.CONNECTION


@dataclass(slots=True)
class Bye:
    """Close the connection once everything before this is written."""

    connection: int


@dataclass(slots=True)
class Pause:
    """Read nothing more from this connection until Resume: a command of it waits for room."""

    connection: int


@dataclass(slots=True)
class Resume:
    """Read from this connection again."""

    connection: int


@dataclass(slots=True)
class SendToPeer:
    """A word to a linked node. The shell counts it among the Delivers that Written reports."""

    connection: int
    word: PeerFrame


Reply = Deliver | Receipt | Refuse | Bye | Pause | Resume | SendToPeer
