"""What has very many bindings is deleted in slices, and whoever has asked is answered in the end."""

import pytest

from radiator.core.kinds.unbinding import begins
from radiator.model.errors import Refusal
from radiator.model.limits import STEP_MESSAGES


class Asked:
    """A request. tasks: what goes on in the background; refused: what it was told."""

    def __init__(self) -> None:
        self.tasks: list[object] = []
        self.refused: list[Refusal] = []
        self.parts = self
        self.background = self.tasks
        self.context = None

    def refuse(self, refusal: Refusal) -> None:
        self.refused.append(refusal)


@pytest.mark.parametrize(("count", "is_long"), [(0, False), (STEP_MESSAGES, False), (STEP_MESSAGES + 1, True)])
def test_it_begins_only_where_there_are_too_many_for_one_turn(count: int, is_long: bool) -> None:
    asked = Asked()
    assert begins(asked, lambda: [*range(count)], print, print) is is_long  # type: ignore[arg-type]
    assert len(asked.tasks) == is_long


def test_what_is_refused_in_the_end_is_told() -> None:
    asked = Asked()

    def again() -> None:
        raise Refusal("in-use", "Somebody uses it now.")

    begins(asked, lambda: [*range(STEP_MESSAGES + 1)], print, again)  # type: ignore[arg-type]
    asked.tasks[0].then()  # type: ignore[attr-defined]
    assert [refusal.code for refusal in asked.refused] == ["in-use"]
