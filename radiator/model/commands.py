"""The broker's input: commands of a session, then reports of the server.

`connection` is the number that the server gave to the connection. Values from headers are unescaped; `receipt` is the
receipt id asked for, or None. Commands are never changed after construction.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from radiator.model.ack_modes import AUTO as AUTO
from radiator.model.ack_modes import CLIENT as CLIENT
from radiator.model.ack_modes import CLIENT_INDIVIDUAL as CLIENT_INDIVIDUAL
from radiator.model.disk import NO_WAL, WalNumbers
from radiator.model.getting import TakingCommand
from radiator.model.leases import Receive, Settle
from radiator.model.message import Message, expires_by
from radiator.model.peer import Identity, PeerFrame
from radiator.model.principal import ANYONE, Principal
from radiator.model.reads import Found, Loaded, LoadedDelayed, LoadedEvents, LoadedHeld, LoadedKeys, LoadedLog
from radiator.model.rendering import Rendering
from radiator.model.replies import Scope
from radiator.model.settings import Config

# places in a log: where a subscription starts, and ends
EARLIEST, LATEST, END, OFFSET, TIME = "earliest", "latest", "end", "offset", "time"
Place = tuple[str, int]


@dataclass(slots=True)
class Send:
    """SEND. `headers` is the block to store: hop headers and broker-set headers are already removed from it.

    expiration_ms: time to live in ms, or None. expires_ms: absolute, or None; 0 means never.
    reply_to: the NAME of the sender's temp queue (`/temp-queue/NAME`), or None; any other reply-to stays in `headers`.
    delay_ms: not delivered for that long, or None; deliver_at_ms: not before that time, or None. immediate: refused
    unless a consumer can take it now. survives_refusal: a refusal comes as its RECEIPT, and the connection stays open.
    returns: if mandatory and routed to no queue, it comes back as Returned, before its RECEIPT, and is not refused.
    more_keys: further keys of the same exchange, or names of further existing queues: each queue gets one copy.
    """

    connection: int
    destination: str
    headers: bytes
    escaping: int
    body: bytes
    receipt: bytes | None = None
    transaction: bytes | None = None
    expiration_ms: int | None = None
    expires_ms: int | None = None
    reply_to: str | None = None
    mandatory: bool = False
    dedup_id: bytes | None = None
    correlation_id: bytes | None = None
    delay_ms: int | None = None
    deliver_at_ms: int | None = None
    immediate: bool = False
    survives_refusal: bool = False
    returns: bool = False
    more_keys: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The bytes of header block and body."""
        return len(self.headers) + len(self.body)

    def message(self, headers: bytes, now_ms: int, ttl_ms: int | None) -> Message:
        """Returns the message as accepted at now_ms, milliseconds since the epoch, with that header block. It expires
        at the earliest of `expiration_ms`, `expires_ms` and the queue's ttl_ms.
        """
        expires_ms = self.expires_ms or 0
        if self.expiration_ms is not None:
            expires_ms = expires_by(expires_ms, self.expiration_ms, now_ms)
        if ttl_ms is not None:
            expires_ms = expires_by(expires_ms, ttl_ms, now_ms)
        return Message(self.destination, headers, self.escaping, self.body, now_ms, expires_ms)


@dataclass(slots=True)
class PublishAll:
    """SENDs that are carried out all together or not at all, and never wait for room: if one would have to, all are
    refused as `blocked`. None of them has a receipt, a transaction, or a temp queue as reply-to. Answered by
    Published.
    """

    connection: int
    receipt: bytes
    sends: list[Send]

    @property
    def size(self) -> int:
        """The bytes of header blocks and bodies."""
        return sum(send.size for send in self.sends)


@dataclass(slots=True)
class Administer:
    """A request of an operator or a program: in STOMP, a SEND to /admin.

    body: the request, which `rendering` reads in the turn that has room for its cost. escaping: of the answer's
    headers. reply_to: the NAME of the temp queue that gets the answer, with that correlation_id; None: it is dropped.
    is_answered: the answer or refusal is an Answered with this receipt, and there is no RECEIPT. every_s: once granted,
    the request is answered again at this interval, in seconds, until the connection ends; 0: only once. is_again: this
    is such a repetition, at which a refusal is not answered.
    survives_refusal: as in Send.
    """

    connection: int
    body: bytes
    rendering: Rendering
    escaping: int
    receipt: bytes | None = None
    reply_to: str | None = None
    correlation_id: bytes | None = None
    survives_refusal: bool = False
    is_answered: bool = False
    every_s: int = 0
    is_again: bool = False

    @property
    def size(self) -> int:
        """The bytes of the request."""
        return len(self.body)


@dataclass(slots=True)
class Subscribe:
    """SUBSCRIBE. `subscription` is its id; without one, the destination.

    prefetch_count: width of its own window, or None for the connection's shared window of one.
    buffer_max_bytes, buffer_max_messages: the bounds of a topic's buffer that it asked for, or None.
    named: whether MESSAGEs carry `subscription` (False only in 1.0 without `id`).
    durable: messages are stored for it while it is not connected, until an Unsubscribe that ends it; durable_name: its
    name, if that is not `subscription`.
    ack_timeout_s: replaces the queue's own, or None. is_getter: an auto_delete queue does not wait for its end.
    For logs: start, until: EARLIEST, LATEST (until: END), OFFSET or TIME, with a number that only the last two use;
    partition: the only one to read, or None: all; group: the one whose position is kept, or None.
    offsets: in place of start and a group: where to begin in each partition; 0 in one that is not named.
    offsets_max: its RECEIPT is a LogReceipt, and it is refused if it would read more partitions; 0: a Receipt.
    encoded_bytes: returns the most bytes that a record takes as its protocol writes it, for a reader of that many
    partitions; None: about its own bytes. consumer_name: for queues: identifies the consumer across connections; "":
    it has no name. shares_window: it counts in the connection's shared window as well as in its own. reports_end: its
    connection gets an Ended when its queue is deleted. consumer_priority: for queues: higher ones are served first.
    """

    connection: int
    subscription: bytes
    destination: str
    ack: str = AUTO
    prefetch_count: int | None = None
    exclusive: bool = False
    buffer_max_bytes: int | None = None
    buffer_max_messages: int | None = None
    receipt: bytes | None = None
    named: bool = True
    durable: bool = False
    ack_timeout_s: float | None = None
    is_getter: bool = False
    start: Place | None = None
    until: Place | None = None
    partition: int | None = None
    group: str | None = None
    durable_name: bytes | None = None
    offsets: Mapping[int, int] | None = None
    offsets_max: int = 0
    encoded_bytes: Callable[[Message, int], int] | None = None
    consumer_name: str = ""
    shares_window: bool = False
    reports_end: bool = False
    consumer_priority: int = 0


@dataclass(slots=True)
class Unsubscribe:
    """UNSUBSCRIBE. durable: ends the durable subscription, whichever connection uses it; destination: the one that it
    gave, or None; durable_name: its name, if that is not `subscription`; mistake: why it has no name. On a queue's
    subscription these four have no effect.
    """

    connection: int
    subscription: bytes
    receipt: bytes | None = None
    durable: bool = False
    destination: str | None = None
    durable_name: bytes | None = None
    mistake: str | None = None


@dataclass(slots=True)
class Ack:
    """ACK. `message_id` is the value of `id` (1.2) or `message-id` (1.0, 1.1); `subscription` is None in 1.0 and
    1.2. more: ids of further messages that are acked with it, none of them under `ack:client`.
    """

    connection: int
    message_id: bytes
    subscription: bytes | None = None
    transaction: bytes | None = None
    receipt: bytes | None = None
    more: tuple[bytes, ...] = ()


@dataclass(slots=True)
class Nack:
    """NACK. requeue False: to the dead-letter queue now. delay_ms: it is redelivered after that time, or None. more: as
    in Ack. is_reject: of AMQP's two methods for it, this was basic.reject, not basic.nack.
    """

    connection: int
    message_id: bytes
    subscription: bytes | None = None
    transaction: bytes | None = None
    receipt: bytes | None = None
    requeue: bool = True
    delay_ms: int | None = None
    more: tuple[bytes, ...] = ()
    is_reject: bool = False


@dataclass(slots=True)
class Begin:
    """BEGIN."""

    connection: int
    transaction: bytes
    receipt: bytes | None = None


@dataclass(slots=True)
class Commit:
    """COMMIT. prepare: the name under which the transaction is prepared, instead of being carried out.

    app, version: a pair that is carried out at most once; `transaction` may then also name a prepared one.
    """

    connection: int
    transaction: bytes
    receipt: bytes | None = None
    prepare: str | None = None
    app: str | None = None
    version: int = 0


@dataclass(slots=True)
class Abort:
    """ABORT."""

    connection: int
    transaction: bytes
    receipt: bytes | None = None


@dataclass(slots=True)
class Identify:
    """What follows on this connection is in another principal's name. The connection has nothing unacked, no open
    transaction and no subscription.
    """

    connection: int
    principal: Principal
    receipt: None = None


@dataclass(slots=True)
class Renew:
    """Reports that the same principal has proved its identity by another secret, which expires at another time."""

    connection: int
    principal: Principal
    receipt: None = None


@dataclass(slots=True)
class Disconnect:
    """DISCONNECT: its RECEIPT comes after those due before it, then the connection is closed."""

    connection: int
    receipt: bytes | None = None


@dataclass(slots=True)
class Fail:
    """The other end broke the protocol: ERROR with this sentence, after the RECEIPTs due before it, then close.

    `receipt` is that of the offending frame, if it could be read. code: of the ERROR; on a link that the other side
    refused, of its refusal.
    """

    connection: int
    sentence: str
    receipt: bytes | None = None
    code: str = "protocol"


@dataclass(slots=True)
class InvalidSend:
    """A SEND with an invalid header: refused with this sentence. It asked for its refusal as a RECEIPT."""

    connection: int
    sentence: str
    receipt: bytes
    survives_refusal: bool = True


@dataclass(slots=True)
class PeerMessage:
    """A word from a linked node."""

    connection: int
    word: PeerFrame
    receipt: None = None


@dataclass(slots=True)
class Unheeded:
    """A SEND or SUBSCRIBE to that destination has a header that other brokers heed, and this one does not: the log
    reports it. A session reports at most one.
    """

    connection: int
    destination: str
    header: str
    sentence: str
    receipt: bytes | None = None  # None: the frame's own command has it


Command = (
    Send
    | PublishAll
    | Administer
    | Subscribe
    | TakingCommand
    | Unsubscribe
    | Ack
    | Nack
    | Begin
    | Commit
    | Abort
    | Identify
    | Renew
    | Disconnect
    | Fail
    | InvalidSend
    | PeerMessage
    | Unheeded
    | Receive
    | Settle
)


# ---- reports of the server ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Open:
    """A client is connected: its CONNECT was accepted. Commands of a connection come only between Open and Closed.

    peer: a linked node instead of a client; its only commands are PeerMessage and Fail. closes_at: a refusal of that
    scope, or a wider one, ends the connection: none of its later commands is carried out. principal: in whose name all
    commands of this connection are. address: of the other end, as the log has it. channel_of: the number of the
    connection that this one is a channel of; 0: it is not a channel; a channel ends before its connection. Only for
    people: protocol: as they call it; tls: the version, or None; client: what the client says it is, or "".
    """

    connection: int
    peer: Identity | None = None
    closes_at: Scope = Scope.COMMAND
    principal: Principal = ANYONE
    address: str = ""
    channel_of: int = 0
    protocol: str = field(default="", compare=False)
    tls: str | None = field(default=None, compare=False)
    client: str = field(default="", compare=False)


@dataclass(slots=True)
class LoginRefused:
    """A login was refused. name: the login that was given; peer: the other end, as the log has it; network: the one
    that it is counted under.
    """

    name: str
    peer: str
    network: str


@dataclass(slots=True)
class Read:
    """The commands of one read of a connection. buffered_bytes: what its session holds of an unfinished frame."""

    connection: int
    commands: list[Command]
    buffered_bytes: int = 0


@dataclass(slots=True)
class Reread:
    """config.toml was read again, at the request of a Turn or a signal. config: what will be in force once applied;
    None: `mistakes` says why there is none. changes: a row for each difference from the configuration in force, as JSON
    has it. useless: sentences about settings without effect. warnings: other sentences, for whoever asked.
    """

    config: Config | None
    changes: list[dict[str, Any]] = field(default_factory=list)
    useless: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Written:
    """The operating system has taken all of the first `delivers` Deliver replies of this connection (since Open)."""

    connection: int
    delivers: int


@dataclass(slots=True)
class Closed:
    """The connection is gone: nothing more comes from it and nothing more reaches it. cause: why."""

    connection: int
    cause: str = ""


@dataclass(slots=True)
class NotLinked:
    """An attempt to link with that node, made by either side, failed; cause: why. is_refused: one of the two refused.

    The node may not have proved its identity: a stranger may have used the name.
    """

    peer: str
    cause: str
    is_refused: bool


@dataclass(slots=True)
class Committed:
    """Batch `number` is on the disk, synced. Batches are committed in order, one at a time."""

    number: int


@dataclass(slots=True)
class LoadedPrepared:
    """The answer to a ReadPrepared. damaged: how many could not be read, and are missing from `sends`."""

    request: int
    sends: list[Send] = field(default_factory=list)
    damaged: int = 0


@dataclass(slots=True)
class Tick:
    """Time has passed: sent several times a second; more often does no harm.

    disk_free_bytes, store_used_bytes: what the disk has for messages, free or in the store's own file, and what the
    store uses (pages, not the file's size), each allowing for what was written since it was read. checked_percent: how
    much of the store's structure has been checked since the start.

    Only for `stats` and the log, as last read: file_system_free_bytes; reusable_bytes: of the store's file, in free
    pages; half_open: connections that have not sent CONNECT; wal_bytes: of the write-ahead log's files, of which
    log_keep keeps wal_kept_bytes; certificates_left_s: seconds until each certificate of encrypted listeners expires,
    below 0 since it expired: by the address of a listener with its own; "": that of all others. is_store_behind: the
    tables are far behind the write-ahead log, so commits may have to wait. wal: the numbers of that log.
    disk_total_bytes: of the file system.
    """

    disk_free_bytes: int
    store_used_bytes: int
    checked_percent: int = 100
    file_system_free_bytes: int = 0
    reusable_bytes: int = 0
    half_open: int = 0
    wal_bytes: int = 0
    wal_kept_bytes: int = 0
    certificates_left_s: Mapping[str, int] = field(default_factory=dict)
    is_store_behind: bool = False
    wal: WalNumbers = NO_WAL
    disk_total_bytes: int = 0


@dataclass(slots=True)
class Stop:
    """SIGTERM: nothing more is read. Commit what was accepted, mark what is out, then stop. at_once: commands not yet
    carried out are dropped.
    """

    at_once: bool = False


ReadBackEvent = Loaded | LoadedKeys | LoadedHeld | LoadedDelayed | LoadedLog | LoadedEvents | LoadedPrepared

Event = (
    Open | LoginRefused | Read | Reread | Written | Closed | NotLinked | Committed | ReadBackEvent | Found | Tick | Stop
)

Heard = Open | Command | Closed
"""What a session makes of bytes; a Closed only if it has channels."""
