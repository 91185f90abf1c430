"""Deletes a queue on the disk: its row at once, and what it stored in slices, one in each batch."""

from typing import Any, Protocol

from radiator.core.queues.window import Window
from radiator.core.turn import WRITE_COST_BYTES, Stored, TurnContext
from radiator.model.limits import STEP_MESSAGES
from radiator.model.writes import Retire, SaveLedger, Sweep

_ALL = 2**64  # beyond every position


def retire(context: TurnContext, queue: Stored, name: str, saved: SaveLedger) -> None:
    """Deletes the queue's row; from now on only the slices of the sweep are written for it. saved: its last ledger."""
    stored = saved.ledger.stored
    context.write(saved)
    context.write(Retire(saved.queue, name, stored))
    for batch in (context.open, context.being_committed):
        if batch is not None:
            batch.parts.pop(queue, None)
    if stored:
        context.schedule(Sweeping(context, saved.queue, stored))


class RetiredQueue(Protocol):
    """What `let_go` needs of a deleted queue."""

    name: str
    number: int
    window: Window

    def has_apart(self, through: int) -> bool:
        """Whether messages up to that position are only on the disk though they are not beyond the window."""

    @property
    def doubt_count(self) -> int:
        """How many messages are offered to another node."""


class DeletedQueue:
    """Stands for a deleted queue in its parts: it does nothing more, and can still be named."""

    __slots__ = ("name", "number")

    is_gone = True

    def __init__(self, queue: RetiredQueue) -> None:
        self.name = queue.name
        self.number = queue.number


def let_go(queue: RetiredQueue, *parts: Any) -> None:
    """Makes the parts of a deleted queue forget it. They and the queue keep one another in memory, some 7 KiB, and only
    the collector of reference cycles, which comes each hour, would free them: a client that declares and deletes queues
    in a loop would take a GiB in ten minutes, which no bound counts.

    The parts of a queue that has messages on the disk alone, or in doubt, may still be asked for them, and keep it.
    """
    if queue.window.is_loading or queue.window.beyond or queue.doubt_count or queue.has_apart(_ALL):
        return
    deleted = DeletedQueue(queue)
    for part in parts:
        part.queue = deleted


class Sweeping:
    """A background task that removes what a deleted queue stored, one slice a batch."""

    __slots__ = ("context", "in_batch", "left", "number")

    def __init__(self, context: TurnContext, number: int, left: int) -> None:
        self.context = context
        self.number = number
        self.left = left
        self.in_batch = 0

    @property
    def is_done(self) -> bool:
        return self.left <= 0

    @property
    def can_go_on(self) -> bool:
        return self.in_batch != self.context.open.number

    def step(self) -> None:
        if self.can_go_on:
            self.in_batch = self.context.open.number
            count = min(self.left, STEP_MESSAGES)
            self.left -= count
            self.context.write(Sweep(self.number, count, self.left), count * WRITE_COST_BYTES)
