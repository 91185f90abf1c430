"""An operator's decisions: queues with their settings, fanouts, topics, what first use may create, and what the server
does. Plain data; tools/config reads it from a file and checks it.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from radiator.model.limits import (
    GIB,
    MAP_BATCHES_MIN,
    MIB,
    PEER_OUTBOXES_SHARE,
    UNIX_PATH_MAX_BYTES,
    Limits,
    outbox_default_bytes,
)
from radiator.model.patterns import matches, rank
from radiator.model.users import User

BLOCK, REJECT, DROP_OLDEST, DEAD_LETTER = "block", "reject", "drop-oldest", "dead-letter"
OVERFLOWS = (BLOCK, REJECT, DROP_OLDEST, DEAD_LETTER)
STORED, READY = "stored", "ready"  # what the bounds of a queue count
BOUNDED = (STORED, READY)
DIRECT, TOPIC, FANOUT, HEADERS = "direct", "topic", "fanout", "headers"
EXCHANGE_TYPES = (DIRECT, TOPIC, FANOUT, HEADERS)
STANDARD_EXCHANGES = {  # always there
    "amq.direct": DIRECT,
    "amq.topic": TOPIC,
    "amq.fanout": FANOUT,
    "amq.headers": HEADERS,
    "amq.match": HEADERS,
}
NODE, CLUSTER = "node", "cluster"
SCOPES = (NODE, CLUSTER)
PEER_OUTBOX_OVERFLOWS = (BLOCK, REJECT, DROP_OLDEST)

LOG_LEVELS = ("debug", "info", "warning", "error")
TEXT, JSON = "text", "json"  # forms of a line of the log
AUTO, ALWAYS, NEVER = "auto", "always", "never"  # whether lines of the log have journald's priorities

PORT = 61613  # the usual port for STOMP
WEB_PORT = 61680  # for HTTP and WebSocket, if no other is given
PEER, PEERS = "peer", "peers"  # the schemes of nodes' addresses: plain, and over TLS
PEER_PORT = 61614  # where nodes listen for each other, if no other is given
MAP_SIZE = 64 * GIB  # if none is given
HEART_BEAT_MS = 2000  # of a link: see Node

REDELIVERY_DELAY_MAX_MS = 3_600_000  # if none is given
RETENTION_MS = 7 * 86_400_000  # of a log, if none is given
JOURNAL = "journal"  # the log that the journal is written into
AUDIT = "audit"  # the log that the audit log is written into, if there is a journal
AUDIT_RETENTION_MS = 90 * 86_400_000
AUDIT_RETENTION_BYTES = 256 * 1024 * 1024
MEMORY_MESSAGES_MAX = 100_000  # a memory queue's bounds if none are given
MEMORY_BYTES_MAX = 64 * MIB
TIME_UNITS_MS = {"s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(slots=True, frozen=True, kw_only=True)
class LogKeep:
    """How much of the write-ahead log is kept once the tables have it: as bytes or as a time. Both 0: nothing."""

    max_bytes: int = 0
    max_ms: int = 0

    def __str__(self) -> str:
        for unit, ms in reversed(TIME_UNITS_MS.items()):
            if self.max_ms and self.max_ms % ms == 0:
                return f"{self.max_ms // ms}{unit}"
        return str(self.max_bytes)


KEEP_NOTHING = LogKeep()


UNLIMITED = -1  # a max_redeliveries that does not limit


@dataclass(slots=True, kw_only=True)
class QueueSettings:
    """The settings of one queue (docs/OPERATING.md). None: no such bound, queue or time. dead_letter_exchange "": the
    default exchange, which routes to the queue that the key names. dead_letter_key None: the message's own key. schema:
    the text of the Avro schema that bodies must match, as model/avro.py returns it; None: any body. partition_key:
    where messages have their keys, as model/keys.py has it; (): they have none. partition_window: how many messages of
    one key may be unacked at once. max_priority: the highest priority of messages; None: they have none.
    single_active_consumer: one consumer gets all messages, and the others stand by until it has gone.
    drop_after_redeliveries: without dead letters, how often a message is redelivered before it is dropped; None: no
    limit. bounds_count: whether max_messages and max_bytes count all that is stored, or leave out what is unacked.
    """

    persistent: bool = True
    max_messages: int | None = None
    max_bytes: int | None = None
    overflow: str = BLOCK
    dead_letter: str | None = None
    dead_letter_exchange: str | None = None
    dead_letter_key: str | None = None
    max_redeliveries: int = 16
    message_ttl_ms: int | None = None
    ack_timeout_s: float | None = None
    dedup_window_s: float = 0
    exclusive: bool = False
    auto_delete: bool = False
    expires_ms: int | None = None
    redelivery_delay_ms: int = 0
    redelivery_delay_factor: float = 2
    redelivery_delay_max_ms: int = REDELIVERY_DELAY_MAX_MS
    scope: str = NODE
    schema: str | None = None
    partition_key: tuple[str, ...] = ()
    partition_window: int = 1
    max_priority: int | None = None
    single_active_consumer: bool = False
    drop_after_redeliveries: int | None = None
    bounds_count: str = STORED

    @property
    def has_dead_letters(self) -> bool:
        """Whether what cannot be delivered becomes a dead letter."""
        return self.dead_letter is not None or self.dead_letter_exchange is not None

    @property
    def redeliveries_most(self) -> float:
        """How often a message is redelivered before it becomes a dead letter, or is dropped."""
        if self.has_dead_letters:
            return inf if self.max_redeliveries == UNLIMITED else self.max_redeliveries
        return inf if self.drop_after_redeliveries is None else self.drop_after_redeliveries

    @property
    def keeps_nothing(self) -> bool:
        """Whether a message that no consumer has room for makes way for the next one at once."""
        makes_way = self.overflow in (DROP_OLDEST, DEAD_LETTER)
        return makes_way and (self.max_messages == 0 or self.max_bytes == 0)

    def redelivery_delay(self, redeliveries: int) -> int:
        """Returns the delay in ms of a message that has been redelivered that often: longer each time, up to a maximum;
        0: no delay.
        """
        if not self.redelivery_delay_ms:
            return 0
        longest_ms = self.redelivery_delay_max_ms
        factor = float(self.redelivery_delay_factor)  # an int to the power of a peer's count would not end
        try:
            return int(min(longest_ms, self.redelivery_delay_ms * factor**redeliveries))
        except OverflowError:
            return longest_ms


@dataclass(slots=True, kw_only=True)
class LogSettings:
    """The settings of one log (docs/OPERATING.md). partition_key: a JSON pointer into the body, or None: the header
    `partition-key` is the key. retention_ms, retention_bytes: records older, or beyond, are removed; None: none are.
    schema: as for a queue.
    """

    partitions: int = 1
    partition_key: str | None = None
    retention_ms: int | None = RETENTION_MS
    retention_bytes: int | None = None
    schema: str | None = None


@dataclass(slots=True, kw_only=True)
class ExchangeSettings:
    """The settings of one exchange (docs/OPERATING.md). durable: it survives a restart, and so do its bindings to
    persistent queues; one in config.toml always does. auto_delete: it is deleted with its last binding. alternate: the
    name of the exchange, which need not exist, that gets what this one routes nowhere; None: there is none. internal:
    it only takes messages from other exchanges, and dead letters.
    """

    type: str = DIRECT
    durable: bool = True
    auto_delete: bool = False
    alternate: str | None = None
    internal: bool = False


@dataclass(slots=True, frozen=True)
class Binding:
    """Messages sent to the exchange with a key that matches go to the queue, or to the log `/log/NAME`, or on to the
    exchange `/exchange/NAME`. key: for an exchange of type headers, the arguments (model/header_bindings.py).
    """

    exchange: str
    key: str
    queue: str


@dataclass(slots=True, kw_only=True)
class Declarations:
    """Everything that config.toml declares. `queue_patterns` are sorted: the first that matches wins.

    queues and fanouts: by exact name. topics: names and patterns. dead-letter targets and fanout children that have no
    table of their own are in `queues` too. cluster_fanouts, cluster_topics: those of scope "cluster". exchanges:
    without those that always exist. bindings: to queues that are declared or may be created, to logs (`/log/NAME`), as
    children of fanouts may be, or to exchanges (`/exchange/NAME`). logs: by name; with the journal, its own too.
    """

    queues: dict[str, QueueSettings] = field(default_factory=dict)
    queue_patterns: list[tuple[str, QueueSettings]] = field(default_factory=list)
    fanouts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    topics: list[str] = field(default_factory=list)
    cluster_fanouts: frozenset[str] = frozenset()
    cluster_topics: frozenset[str] = frozenset()
    exchanges: dict[str, ExchangeSettings] = field(default_factory=dict)
    bindings: list[Binding] = field(default_factory=list)
    logs: dict[str, LogSettings] = field(default_factory=dict)
    has_journal: bool = False
    create_queues: bool = False
    create_topics: bool = False

    def queue_settings(self, name: str) -> QueueSettings:
        """Returns what is in force for a queue, declared or not: its own table, the best pattern, or the defaults."""
        declared = self.queues.get(name)
        if declared is not None:
            return declared
        for pattern, settings in self.queue_patterns:
            if matches(pattern, name):
                return settings
        return QueueSettings()

    def declares_queue(self, name: str) -> bool:
        """Returns whether a table applies to the queue of that name."""
        return name in self.queues or any(matches(pattern, name) for pattern, _ in self.queue_patterns)

    def may_create_queue(self, name: str) -> bool:
        """Returns whether first use creates the queue: [create] says so, or a pattern declares it."""
        return self.create_queues or any(matches(pattern, name) for pattern, _ in self.queue_patterns)

    def is_cluster_topic(self, name: str) -> bool:
        """Returns whether a message sent to that topic goes to subscribers on every node, as its best table says."""
        if not self.cluster_topics:
            return False
        if name in self.topics:
            return name in self.cluster_topics
        matching = [pattern for pattern in self.topics if matches(pattern, name)]
        return bool(matching) and min(matching, key=rank) in self.cluster_topics


@dataclass(slots=True, frozen=True)
class Address:
    """The address of a listener or a broker: `stomp://127.0.0.1:61613`, `stomp://[::1]:61613`. Port 0: any free one."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it. A name other than `localhost` is not taken to be on loopback."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() == "localhost"

    @property
    def is_wildcard(self) -> bool:
        """Whether it stands for every address of this machine: one can listen on it, but not dial it."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False


DEFAULT_LISTEN = Address("stomp", "127.0.0.1", PORT)
DEFAULT_WEB_LISTEN = Address("http", "127.0.0.1", WEB_PORT)  # as well, if there is no file

TCP, UNIX = "tcp", "unix"  # what carries the bytes of connections
NONE, OPTIONAL, REQUIRED = "none", "optional", "required"  # whether clients show certificates
CLIENT_CERTIFICATES = (NONE, OPTIONAL, REQUIRED)
SOCKET_FILE = "radiator.sock"  # in the data directory: the operators' own way in
UNIX_MODE = 0o600


@dataclass(slots=True, frozen=True)
class UnixAddress:
    """A listener's place in the file system, for this machine alone: `stomp+unix:/run/radiator.sock`.

    path: absolute. mode and group: of its file, which decide who may connect; group "": that of the broker.
    """

    scheme: str
    path: Path
    mode: int = UNIX_MODE
    group: str = ""

    def __str__(self) -> str:
        options = [f"mode={self.mode:04o}"] * (self.mode != UNIX_MODE) + [f"group={self.group}"] * bool(self.group)
        return f"{self.scheme}:{self.path}" + f"?{'&'.join(options)}" * bool(options)

    @property
    def mistake(self) -> str:
        """Why the path is too long for the system, as text after a verb; "" if it is not."""
        size = len(bytes(self.path))
        too_long = f"a path of {size} bytes, where a unix socket has at most {UNIX_PATH_MAX_BYTES}: {self}"
        return too_long if size > UNIX_PATH_MAX_BYTES else ""


ListenAddress = Address | UnixAddress


@dataclass(slots=True, frozen=True, kw_only=True)
class TlsSettings:
    """What encrypted listeners use ([tls] in config.toml). certificate: the file of the broker's own, followed by those
    that lead to its CA. client_ca: the file of the CAs whose client certificates are accepted, or None. peer_ca: the
    file of the CAs that must have issued the certificates of dialled nodes, or None.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None
    client_certificates: str = NONE
    peer_ca: Path | None = None


@dataclass(slots=True, frozen=True, kw_only=True)
class JwtSettings:
    """Which JSON Web Tokens can log in, and as which user ([jwt] in config.toml). keys: the file of keys that verify
    them. algorithms: those that a token may be signed with. issuer, audience: what it must have as `iss` and `aud`.
    user_claim: the claim that has the user's name.
    """

    keys: Path
    algorithms: tuple[str, ...]
    issuer: str
    audience: str
    user_claim: str = "sub"


@dataclass(slots=True, kw_only=True)
class Node:
    """This node among others ([node] and [peer] in config.toml). peers: the address of each node; None: that node dials
    this one.

    listen: None: no node can dial this one. advertise: where others may dial it, sent to those with `discover`.
    secret_file: where the secret was read. peer_outbox_...: bound and overflow of the copies that wait for one peer;
    None: no bound except the disk.
    """

    name: str
    secret: bytes = field(repr=False)
    secret_file: Path | None = None
    listen: Address | None = None
    advertise: Address | None = None
    peers: dict[str, Address | None] = field(default_factory=dict)
    discover: bool = False
    heart_beat_ms: int = HEART_BEAT_MS
    peer_outbox_max_bytes: int | None = None
    peer_outbox_overflow: str = BLOCK


@dataclass(slots=True, frozen=True, kw_only=True)
class Logging:
    """What the log reports, and how ([logging] in config.toml). priorities: `auto`: if stderr is journald's."""

    level: str = "info"
    format: str = TEXT
    priorities: str = AUTO


@dataclass(slots=True, frozen=True, kw_only=True)
class WebSettings:
    """Which browsers are let in ([http] in config.toml). All in lower case.

    hosts: names of this broker, besides addresses and localhost. origins: sites whose pages may open a WebSocket, as
    `https://shop.example`, besides the broker's own. console: whether the pages for operators are served.
    """

    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    console: bool = True


DEFAULT_WEB = WebSettings()


def limits_beside(given: Mapping[str, Any], map_size: int) -> Limits:
    """Returns the limits in force if these are given. Defaults adapt: a small map_size makes for small frames."""
    limits = Limits(**given)
    most = map_size // MAP_BATCHES_MIN
    if "max_frame_bytes" not in given:
        limits.max_frame_bytes = min(limits.max_frame_bytes, most)
    if "max_batch_bytes" not in given:
        limits.max_batch_bytes = min(limits.max_batch_bytes, most)
    if "max_header_bytes" not in given:
        limits.max_header_bytes = min(limits.max_header_bytes, limits.max_frame_bytes)
    if "outbox_max_bytes" not in given:
        limits.outbox_max_bytes = outbox_default_bytes(limits.max_frame_bytes)
    return limits


def peer_outbox_default_bytes(map_size: int, peers: int) -> int:
    """Returns the default of peer_outbox_max_bytes for that many peers."""
    return max(MIB, map_size // PEER_OUTBOXES_SHARE // max(1, peers))


@dataclass(slots=True, kw_only=True)
class Config:
    """Everything that is in force, defaults included. `data_dir` is absolute. limits_given: those that the file names.
    unix: whether operators_socket is listened on too. plain: those of listen that other machines reach without TLS.
    tls_of_listeners: settings of listeners that differ from `tls`, by address. users: by name, those of users_file
    too; if there are none, nobody is asked for a login. useless: a sentence for each setting that the others leave
    without effect.
    """

    listen: list[ListenAddress] = field(default_factory=lambda: [DEFAULT_LISTEN])
    unix: bool = True
    plain: list[ListenAddress] = field(default_factory=list)
    users_file: Path | None = None
    data_dir: Path
    sync_interval_ms: int = 0
    map_size: int = MAP_SIZE
    disk_free_min: int = 128 * MIB
    log_keep: LogKeep = KEEP_NOTHING
    limits: Limits = field(default_factory=Limits)
    limits_given: frozenset[str] = field(default=frozenset(), compare=False)
    declarations: Declarations = field(default_factory=Declarations)
    node: Node | None = None
    tls: TlsSettings | None = None
    tls_of_listeners: dict[str, TlsSettings] = field(default_factory=dict)
    jwt: JwtSettings | None = None
    logging: Logging = field(default_factory=Logging)
    http: WebSettings = DEFAULT_WEB
    users: dict[str, User] = field(default_factory=dict)
    useless: list[str] = field(default_factory=list, compare=False)

    @property
    def operators_socket(self) -> UnixAddress:
        """The address that is listened on without being listed."""
        return UnixAddress("stomp+unix", self.data_dir / SOCKET_FILE)
