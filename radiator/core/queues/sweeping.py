"""Deletes a queue on the disk: its row at once, and what it stored in slices, one in each batch."""

from radiator.core.turn import WRITE_COST_BYTES, Stored, TurnContext
from radiator.model.limits import STEP_MESSAGES
from radiator.model.writes import Retire, SaveLedger, Sweep


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
