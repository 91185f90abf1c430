"""What has very many bindings is deleted in slices: first they go, some in each turn, and then it goes itself.

Who has asked is answered in the end. A broker that stops before that has the thing still, with the bindings that are
left.
"""

from collections.abc import Callable
from typing import Any

from radiator.broker.admin.request import Handler, Request
from radiator.errors import Refusal
from radiator.limits import BATCH_BYTES, CHORE_MESSAGES


def begins(request: Request, bindings: Callable[[], list[Any]], undo: Callable[[Any], None], again: Handler) -> bool:
    """Whether there are so many that they go first; then the request is carried out anew. bindings: those there are;
    undo: takes one off, which may be gone meanwhile.
    """
    left = bindings()
    if len(left) <= CHORE_MESSAGES:
        return False
    request.broker.chores.append(Unbinding(request, left, bindings, undo, again))
    return True


class Unbinding:
    """A chore."""

    __slots__ = ("again", "bindings", "is_done", "left", "request", "undo")

    def __init__(
        self,
        request: Request,
        left: list[Any],
        bindings: Callable[[], list[Any]],
        undo: Callable[[Any], None],
        again: Handler,
    ) -> None:
        self.request = request
        self.left = left
        self.bindings = bindings
        self.undo = undo
        self.again = again
        self.is_done = False

    @property
    def can_go_on(self) -> bool:
        return self.request.broker.desk.open.size < BATCH_BYTES

    def step(self) -> None:
        desk = self.request.broker.desk
        for _ in range(CHORE_MESSAGES):
            if desk.open.size >= BATCH_BYTES:
                return
            if not self.left:
                self.left = self.bindings()  # some may have come meanwhile
            if not self.left:
                break
            desk.handled += 1
            self.undo(self.left.pop())
        else:
            return
        self.is_done = True
        try:
            self.again(self.request)
        except Refusal as refusal:
            self.request.refuse(refusal)
