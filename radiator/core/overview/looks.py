"""Looks over very many things, made in slices, and shared by all who want what they find."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from radiator.core.answers import AwaitedRow
from radiator.core.turn import TurnContext
from radiator.model.limits import LOOK_KEPT_S
from radiator.model.numbers import PAUSE, PauseRow

Found = TypeVar("Found")

COST_MESSAGES = 250  # what a slice counts as, of the STEP_MESSAGES that background tasks handle in a turn
SLICE_LOOKS = 1200  # of some 0.5 µs

Slices = Iterator[PauseRow]
"""Yields where a slice should end."""


class Pace:
    """Says where a slice should end."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = SLICE_LOOKS

    def is_over(self, looks: int = 1) -> bool:
        """Counts that many more looks. Returns whether the slice should end; a new one begins then."""
        self.left -= looks
        if self.left > 0:
            return False
        self.left = SLICE_LOOKS
        return True


class Looks:
    """A background task: all looks that are under way, one slice of one of them a turn, so that many cost a turn no
    more than one.
    """

    __slots__ = ("context", "going_on", "is_awake")

    def __init__(self, context: TurnContext) -> None:
        self.context = context
        self.going_on: deque[Slices] = deque()
        self.is_awake = False

    def begin(self, look: Slices) -> None:
        self.going_on.append(look)
        if not self.is_awake:
            self.is_awake = True
            self.context.schedule(self)

    @property
    def is_done(self) -> bool:
        return not self.going_on

    @property
    def can_go_on(self) -> bool:
        return bool(self.going_on)

    def step(self) -> None:
        self.context.handled += COST_MESSAGES
        look = self.going_on.popleft()
        if next(look, None) is not None:
            self.going_on.append(look)
        self.is_awake = bool(self.going_on)


class SharedLook(Generic[Found]):
    """The last result of a look, for all who ask for it. made_s: when that look was begun; asked_s: when it was last
    asked for; waiting: those who have nothing before the look that is under way is over.
    """

    __slots__ = ("asked_s", "found", "is_under_way", "looks", "made_s", "waiting")

    def __init__(self, looks: Looks) -> None:
        self.looks = looks
        self.found: Found | None = None
        self.made_s = self.asked_s = looks.context.now_s
        self.is_under_way = False
        self.waiting: list[AwaitedRow] = []

    def age_s(self) -> float:
        return self.looks.context.now_s - self.made_s

    def ask(
        self, make: Callable[[], Iterator[Found | PauseRow]], again_s: float, most_s: float
    ) -> Iterator[Found | AwaitedRow]:
        """Yields what was found at most `most_s` ago, or else, after a wait, what is found now. What is older than
        `again_s` is looked for again, whether it is waited for or not.
        """
        self.asked_s = self.looks.context.now_s
        if (self.found is None or self.age_s() >= again_s) and not self.is_under_way:
            self.is_under_way = True
            self.looks.begin(self._look(make()))
        if self.found is None or self.age_s() >= most_s:
            wait = AwaitedRow()
            self.waiting.append(wait)
            yield wait
            yield wait.found
        else:
            yield self.found

    def _look(self, made: Iterator[Found | PauseRow]) -> Slices:
        begun_s = self.looks.context.now_s
        for one in made:
            if isinstance(one, PauseRow):
                yield PAUSE
            else:
                self.found, self.made_s = one, begun_s
        self.is_under_way = False
        waiting, self.waiting = self.waiting, []
        for wait in waiting:
            wait.end(self.found)

    def is_forgotten(self) -> bool:
        """Whether nobody has asked for it for LOOK_KEPT_S."""
        return not self.is_under_way and self.looks.context.now_s - self.asked_s >= LOOK_KEPT_S

    def forget(self) -> None:
        """Drops what it found, which takes memory."""
        self.found = None
