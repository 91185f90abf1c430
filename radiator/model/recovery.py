"""What a start finds in the store."""

from dataclasses import dataclass, field

from radiator.model.writes import (
    Bind,
    KeepApp,
    KeepDeclared,
    KeepPeer,
    KeepPosition,
    KeepSegment,
    KeepTransaction,
    Ledger,
)


@dataclass(slots=True)
class StoredQueue:
    """A queue found at the start. settings: as KeepSettings has them, "" where it has none. next_due_ms: when its first
    delayed message is due; 0: there are none.
    """

    number: int
    name: str
    ledger: Ledger
    settings: str = ""
    next_due_ms: int = 0


@dataclass(slots=True)
class StoredDoubt:
    """A message that was in doubt when the last run ended. size: bytes of header block and body. redeliveries: its
    redelivery count.
    """

    peer: str
    sequence: int
    queue: int
    position: int
    size: int
    expires: bool
    redeliveries: int = 0


@dataclass(slots=True)
class StoredLog:
    """A log found at the start. name: "" where it is deleted, and segments of it are left. settings: as KeepSettings
    has them. segments: in the order of partition and offset.
    """

    number: int
    name: str
    settings: str = ""
    segments: list[KeepSegment] = field(default_factory=list)
    positions: list[KeepPosition] = field(default_factory=list)


@dataclass(slots=True)
class Recovery:
    """What a start finds. Its cost depends on the number of queues, never on the number of messages.

    boot: this run's number, committed and synced before this object exists, so ids never repeat.
    next_queue: the number that the next declared queue gets. retired: number -> messages still to be swept.
    was_clean: whether the last run ended by a clean stop. doubts: in the order of peer and sequence.
    declared: exchanges and fanouts that were declared at run time. bindings: all that are durable.
    transactions: prepared transactions that are not finished. apps: the last version of each `producer-id`. time_ms:
    the last time that was kept; 0: none.
    """

    store_id: str
    boot: int
    next_queue: int
    was_clean: bool
    queues: list[StoredQueue] = field(default_factory=list)
    retired: dict[int, int] = field(default_factory=dict)
    peers: list[KeepPeer] = field(default_factory=list)
    doubts: list[StoredDoubt] = field(default_factory=list)
    declared: list[KeepDeclared] = field(default_factory=list)
    bindings: list[Bind] = field(default_factory=list)
    logs: list[StoredLog] = field(default_factory=list)
    transactions: list[KeepTransaction] = field(default_factory=list)
    apps: list[KeepApp] = field(default_factory=list)
    time_ms: int = 0
