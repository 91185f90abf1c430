"""What a message can be put into: a queue, or a log. Fanouts' children and bindings lead to such."""

from collections import deque
from typing import Protocol

from radiator.core.journal_writer import JournalWriter
from radiator.core.producer import Producer
from radiator.core.queues.dedup import Dedup
from radiator.core.turn import TurnContext
from radiator.core.usage import Usage
from radiator.model.journal import CameFrom
from radiator.model.message import Message
from radiator.model.settings import QueueSettings
from radiator.model.writes import Ledger


class Target(Protocol):
    """number: identifies it on the disk, 0 if it is not there. waiters: producers that wait for room in it, first come,
    first served. reserved, reserved_bytes: room promised to transactions whose persistent part is being committed.
    dedup: its dedup-ids, if it supports them. journal: gets the events of its messages. maker: what the user that has
    made it has in use; None: no user has, or none is counted.
    """

    name: str
    settings: QueueSettings
    context: TurnContext
    journal: JournalWriter | None
    ledger: Ledger
    maker: Usage | None
    waiters: deque[Producer]
    reserved: int
    reserved_bytes: int
    is_gone: bool

    @property
    def is_persistent(self) -> bool: ...

    @property
    def number(self) -> int: ...

    @property
    def dedup(self) -> Dedup | None: ...

    @property
    def address(self) -> str:
        """Its name, as messages to people show it."""

    @property
    def memory_bytes(self) -> int:
        """The memory that its messages take, in bytes."""

    def put(self, message: Message, came_from: CameFrom | None = None) -> object:
        """Accepts a message; everything has been judged. came_from: where it was before, for the journal."""

    def put_handed_over(self, message: Message, redeliveries: int, redelivered: bool, node: str) -> None:
        """Accepts what `node` hands over, with its redelivery count and mark, where the target keeps these."""

    def take_in(self, message: Message, due_ms: int) -> None:
        """Accepts a message now or, where due_ms is not 0 and it can delay one, as a delayed message."""

    def last_id(self) -> bytes:
        """Of what was taken in last: its message-id, or the place of a record of a log, as `PARTITION:OFFSET`."""

    def pump(self) -> None:
        """Delivers what is ready to consumers that have room."""

    def can_hand(self, count: int) -> bool:
        """Whether that many more would go to consumers at once, as an immediate SEND requires."""

    # ---- bounds -----------------------------------------------------------------------------------------------------

    def has_capacity(self, messages: int, size: int) -> bool:
        """Whether so many more messages of so many bytes in all stay within its bounds."""

    def uncounted(self) -> tuple[int, int]:
        """Messages that its bounds leave out, and their bytes."""

    def check_size(self, size: int) -> None:
        """Raises Refusal `too-large` for a message that could never fit."""

    def judge(self, messages: int, size: int) -> bool:
        """Whether that much may come in now; False: the producer waits (`block`). Raises Refusal `queue-full`."""

    def evict(self, messages: int, size: int) -> None:
        """Removes the oldest messages until that much fits. `judge` has said that it can."""
