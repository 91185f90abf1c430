"""Purges one queue on the disk: removes all that is not in flight; what is not in memory, as it is read back."""

from collections.abc import Callable
from typing import Protocol

from radiator.core.queues.entry import Entry
from radiator.core.queues.window import Window
from radiator.core.states import State
from radiator.core.turn import TurnContext
from radiator.model.limits import BATCH_BYTES, STEP_MESSAGES


class PurgedQueue(Protocol):
    """What Purge needs of its queue."""

    def withdraw(self, entry: Entry) -> None:
        """Removes a message by the operator's command."""

    def droppable(self) -> list[Entry]:
        """Returns the entries in memory that are not in flight."""

    def refill(self) -> None:
        """Asks for the next stretch to be read back."""

    def has_apart(self, through: int) -> bool:
        """Whether messages up to that position are only on the disk though they are not beyond the window."""

    def read_delayed(self) -> None:
        """Asks for the next delayed messages to be read back."""


class Purge:
    """A purge covers messages that were accepted up to `through` (0: no purge is under way), and, if is_of_delayed,
    delayed ones except those that were in flight when it began (`spared`).

    returned: entries that had come back when it began; a background task removes these first, some in each turn.
    """

    __slots__ = ("count", "context", "done", "is_of_delayed", "queue", "returned", "spared", "through", "window")

    def __init__(self, queue: PurgedQueue, window: Window, context: TurnContext) -> None:
        self.queue = queue
        self.window = window
        self.context = context
        self.through = 0
        self.is_of_delayed = False
        self.spared: set[int] = set()
        self.returned: list[tuple[int, Entry]] = []
        self.count = 0
        self.done: Callable[[int], None] | None = None

    def begin(self, done: Callable[[int], None], *, is_of_delayed: bool) -> None:
        """Purges all messages that are there now; `done` is called with their number. A purge that is under way becomes
        part of this one.
        """
        through = self.context.next_position()
        window, earlier = self.window, self.done
        if earlier is None:
            self.count = 0
        self.is_of_delayed = self.is_of_delayed or is_of_delayed
        returned = window.take_returned()
        if returned:
            # there may be very many returned ones; the window bounds the number of all others
            if not self.returned:
                self.context.schedule(self)
            self.returned += returned
        for entry in self.queue.droppable():
            self.let_go(entry)
        window.ready.clear()
        self.through = through

        def both(count: int) -> None:
            done(count)
            if earlier is not None:
                earlier(count)

        self.done = both
        self.go_on()

    def let_go(self, entry: Entry) -> None:
        """Removes one message, and counts it as purged."""
        if entry.state is State.READY:
            self.window.left(entry)
        self.count += 1
        self.queue.withdraw(entry)

    def takes(self, entry: Entry) -> bool:
        """Removes a message that was just read back, if the purge covers it; returns whether it does."""
        if entry.position > self.through:
            return False
        self.window.windows.out += entry.size
        self.count += 1
        self.queue.withdraw(entry)
        return True

    def spares(self, position: int) -> bool:
        """Whether a delayed message stays: it was accepted later, or was in flight when the purge began."""
        return position > self.through or position in self.spared

    def has_returned(self, position: int) -> bool:
        """Whether a message that came back is among those that are purged."""
        return bool(self.returned) and position < self.through

    def go_on(self) -> None:
        """Purges another stretch, or ends."""
        if self.returned:
            return
        window = self.window
        if (window.beyond and window.end < self.through) or self.queue.has_apart(self.through):
            if self.context.open.size < BATCH_BYTES:  # otherwise the queue's `committed` goes on
                self.queue.refill()
            return
        if self.is_of_delayed:
            self.queue.read_delayed()
            return
        self.end()

    def end(self) -> None:
        """Reports the number to the request."""
        self.returned = []
        self.through = 0
        self.spared.clear()
        done, self.done = self.done, None
        if done is not None:
            done(self.count)

    # ---- the background task ----------------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        return not self.returned

    @property
    def can_go_on(self) -> bool:
        return not self.is_done

    def step(self) -> None:
        for _ in range(min(STEP_MESSAGES, len(self.returned))):
            self.context.handled += 1
            self.let_go(self.returned.pop()[1])
        if self.is_done and self.through:
            self.go_on()
