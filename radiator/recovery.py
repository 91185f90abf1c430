"""What a start finds in the store."""

from dataclasses import dataclass, field

from radiator.writes import Bind, KeepDeclared, KeepPeer, Ledger


@dataclass(slots=True)
class StoredQueue:
    """A queue found at the start. settings: as KeepSettings has them, "" where it has none. next_due_ms: of its delayed
    messages the first; 0: there are none.
    """

    number: int
    name: str
    ledger: Ledger
    settings: str = ""
    next_due_ms: int = 0


@dataclass(slots=True)
class StoredDoubt:
    """A message that was in doubt when the last run ended. size: bytes of header block and body."""

    peer: str
    sequence: int
    queue: int
    position: int
    size: int
    expires: bool


@dataclass(slots=True)
class Recovery:
    """What a start finds. Its cost depends on the number of queues, never on the number of messages.

    boot: this run's number, committed and synced before this word exists, so ids never repeat.
    next_queue: the number that the next declared queue gets. retired: number -> messages still to be swept.
    was_clean: whether the last run ended by a clean stop. doubts: in the order of peer and sequence.
    declared: exchanges and fanouts that were declared at run time. bindings: all that are durable.
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
