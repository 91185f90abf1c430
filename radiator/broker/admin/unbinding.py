"""What has very many bindings is deleted in slices: first they go, some in each turn, and then it goes itself.

Who has asked is answered in the end. A broker that stops before that has the thing still, with the bindings that are
left. A queue that goes by itself gets nothing by them any more; who uses it before it has gone keeps it, without them.
"""

from collections.abc import Callable
from typing import Any

from radiator.broker.admin.request import Handler, Request
from radiator.broker.exchanges import Exchanges
from radiator.broker.kinds.queue import Queue
from radiator.broker.turn import Desk
from radiator.errors import Refusal
from radiator.limits import BATCH_BYTES, CHORE_MESSAGES, UNBINDINGS_PER_STEP


def begins(request: Request, bindings: Callable[[], list[Any]], undo: Callable[[Any], None], again: Handler) -> bool:
    """Whether there are so many that they go first; then the request is carried out anew. bindings: those there are;
    undo: takes one off, which may be gone meanwhile.
    """
    left = bindings()
    if len(left) <= CHORE_MESSAGES:
        return False

    def then() -> None:
        try:
            again(request)
        except Refusal as refusal:
            request.refuse(refusal)

    request.broker.chores.append(Unbinding(request.broker.desk, left, bindings, undo, then))
    return True


def leaving(desk: Desk, exchanges: Exchanges, queue: Queue, delete: Callable[[], None]) -> "Unbinding":
    """The same for a queue that goes by itself: `delete` is called in the end, unless somebody has used it since."""
    left = exchanges.leaving[queue] = dict.fromkeys(exchanges.bound[queue])
    accepted, used_s = queue.ledger.accepted, queue.unused_since_s

    def undo(binding: tuple[str, str]) -> None:
        if binding in left and binding in exchanges.bound.get(queue, ()):
            exchanges.undo(*binding, queue)

    def then() -> None:
        is_unused = exchanges.leaving.pop(queue, None) is not None and queue.is_idle
        if queue.is_gone:
            return
        if is_unused and (accepted, used_s) == (queue.ledger.accepted, queue.unused_since_s):
            delete()
        else:
            queue.used()

    return Unbinding(desk, [*left], list, undo, then)


class Unbinding:
    """A chore."""

    __slots__ = ("bindings", "desk", "is_done", "left", "then", "undo")

    def __init__(
        self,
        desk: Desk,
        left: list[Any],
        bindings: Callable[[], list[Any]],
        undo: Callable[[Any], None],
        then: Callable[[], None],
    ) -> None:
        self.desk = desk
        self.left = left
        self.bindings = bindings
        self.undo = undo
        self.then = then
        self.is_done = False

    @property
    def can_go_on(self) -> bool:
        return self.desk.open.size < BATCH_BYTES

    def step(self) -> None:
        desk = self.desk
        for _ in range(UNBINDINGS_PER_STEP):
            if desk.open.size >= BATCH_BYTES:
                return
            if not self.left:
                self.left = self.bindings()  # some may have come meanwhile
            if not self.left:
                break
            desk.handled += CHORE_MESSAGES // UNBINDINGS_PER_STEP
            self.undo(self.left.pop())
        else:
            return
        self.is_done = True
        self.then()
