"""What a message can be put into: a queue, or a log. The children of fanouts, and bindings, lead to targets."""

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
    dedup: its dedup-ids, if it supports them. journal: gets the events of its messages. maker: the usage of the user
    that made it; None: no user did, or that user is not counted.
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
        """The target's name, as messages to people show it."""

    @property
    def memory_bytes(self) -> int:
        """The memory that the target's messages take, in bytes."""

    def put(self, message: Message, came_from: CameFrom | None = None) -> object:
        """Accepts a message that has already been judged. came_from: where it was before, for the journal."""

    def put_handed_over(self, message: Message, redeliveries: int, redelivered: bool, node: str) -> None:
        """Accepts a message that `node` hands over, with its redelivery count and mark if the target keeps these."""

    def take_in(self, message: Message, due_ms: int) -> None:
        """Accepts a message: as a delayed one, if due_ms is not 0 and the target can delay messages."""

    def last_id(self) -> bytes:
        """Returns the message-id of the message that was taken in last, or the place of a log's record, as
        `PARTITION:OFFSET`.
        """

    def pump(self) -> None:
        """Delivers what is ready to consumers that have room."""

    def watch_head(self) -> None:
        """Called when another message may be at the head, and no `pump` follows: the broker takes a turn when that
        message expires.
        """

    def can_hand(self, count: int) -> bool:
        """Whether that many more messages would go to consumers at once, as an immediate SEND requires."""

    # ---- bounds -----------------------------------------------------------------------------------------------------

    def has_capacity(self, messages: int, size: int) -> bool:
        """Whether that many more messages, of `size` bytes in all, are within the target's bounds."""

    def uncounted(self) -> tuple[int, int]:
        """Counts the messages, and their bytes, that the target's bounds leave out."""

    def check_size(self, size: int) -> None:
        """Raises Refusal `too-large` for a message that could never fit."""

    def judge(self, messages: int, size: int) -> bool:
        """Whether that many messages may come in now; False: the producer waits (`block`). Raises Refusal
        `queue-full`.
        """

    def evict(self, messages: int, size: int) -> None:
        """Removes the oldest messages until there is room for so many, which `judge` has allowed."""

    def came_in(self) -> None:
        """Called when more messages may have become ready at once than the target has room for: the oldest may go."""
