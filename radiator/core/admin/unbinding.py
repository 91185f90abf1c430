"""What has very many bindings is deleted in slices: first they go, some in each turn, and then it goes itself.

Who has asked is answered in the end. A broker that stops before that has the thing still, with the bindings that are
left. A queue that goes by itself gets nothing by them any more; who uses it before it has gone keeps it, without them.
"""

from collections.abc import Callable
from typing import Any

from radiator.core.admin.request import Request
from radiator.core.routing.unbinding import Unbinding
from radiator.model.errors import Refusal
from radiator.model.limits import CHORE_MESSAGES


def begins(
    request: Request, bindings: Callable[[], list[Any]], undo: Callable[[Any], None], again: Callable[[], None]
) -> bool:
    """Whether there are so many that they go first; then `again` carries out the request anew. bindings: those there
    are; undo: takes one off, which may be gone meanwhile.
    """
    left = bindings()
    if len(left) <= CHORE_MESSAGES:
        return False

    def then() -> None:
        try:
            again()
        except Refusal as refusal:
            request.refuse(refusal)

    request.parts.background.append(Unbinding(request.parts.context, left, bindings, undo, then))
    return True
