"""Removes many bindings, some in each batch, so that batches stay short."""

from collections.abc import Callable
from typing import Any

from radiator.core.queues.queue import Queue
from radiator.core.routing.exchanges import Exchanges
from radiator.core.turn import TurnContext
from radiator.model.limits import BATCH_BYTES, STEP_MESSAGES, UNBINDINGS_PER_STEP


def unbound_first(context: TurnContext, exchanges: Exchanges, queue: Queue, delete: Callable[[], None]) -> "Unbinding":
    """Returns the task that does so for a queue that ends by itself: it calls `delete` at the end, unless a client has
    used the queue since.
    """
    left = exchanges.unbinding[queue] = dict.fromkeys(exchanges.bound[queue])
    accepted, used_s = queue.ledger.accepted, queue.unused_since_s

    def undo(binding: tuple[str, str]) -> None:
        if binding in left and binding in exchanges.bound.get(queue, ()):
            exchanges.undo(*binding, queue)

    def then() -> None:
        is_unused = exchanges.unbinding.pop(queue, None) is not None and queue.is_left
        if queue.is_gone:
            return
        if is_unused and (accepted, used_s) == (queue.ledger.accepted, queue.unused_since_s):
            delete()
        else:
            queue.used()

    return Unbinding(context, [*left], list, undo, then)


class Unbinding:
    """A background task. bindings: returns those that exist now; undo: removes one, which may be gone already; then:
    called when none is left.
    """

    __slots__ = ("bindings", "context", "is_done", "left", "then", "undo")

    def __init__(
        self,
        context: TurnContext,
        left: list[Any],
        bindings: Callable[[], list[Any]],
        undo: Callable[[Any], None],
        then: Callable[[], None],
    ) -> None:
        self.context = context
        self.left = left
        self.bindings = bindings
        self.undo = undo
        self.then = then
        self.is_done = False

    @property
    def can_go_on(self) -> bool:
        return self.context.open.size < BATCH_BYTES

    def step(self) -> None:
        context = self.context
        for _ in range(UNBINDINGS_PER_STEP):
            if context.open.size >= BATCH_BYTES:
                return
            if not self.left:
                self.left = self.bindings()  # some may have come meanwhile
            if not self.left:
                break
            context.handled += STEP_MESSAGES // UNBINDINGS_PER_STEP
            self.undo(self.left.pop())
        else:
            return
        self.is_done = True
        self.then()
