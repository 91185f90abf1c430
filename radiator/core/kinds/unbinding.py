"""Deletes in slices what has very many bindings: first the bindings, some in each turn, then the thing itself.

The request is answered at the end. A broker that stops before that still has the thing, with the bindings that are
left. A queue that is deleted automatically gets nothing through them any more; using it before it is deleted keeps it,
without them.
"""

from collections.abc import Callable
from typing import Any

from radiator.core.kinds.kind import Asked
from radiator.core.routing.unbinding import Unbinding
from radiator.model.errors import Refusal
from radiator.model.limits import STEP_MESSAGES


def begins(
    request: Asked, bindings: Callable[[], list[Any]], undo: Callable[[Any], None], again: Callable[[], None]
) -> bool:
    """Returns whether there are so many bindings that a background task removes them first; then `again` carries out
    the request anew. bindings: returns those that exist; undo: removes one, which may be gone already.
    """
    left = bindings()
    if len(left) <= STEP_MESSAGES:
        return False

    def then() -> None:
        try:
            again()
        except Refusal as refusal:
            request.refuse(refusal)

    request.parts.background.append(Unbinding(request.parts.context, left, bindings, undo, then))
    return True
