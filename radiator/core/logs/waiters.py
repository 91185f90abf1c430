"""Requests that wait, for a limited time, for records of a log or for messages to check out."""

from collections.abc import Callable
from dataclasses import dataclass

from radiator.core.turn import TurnContext


@dataclass(slots=True, eq=False)
class Waiter:
    """is_met: whether what it waits for is there; due_s: until when it waits; is_over: whether it is gone."""

    due_s: float
    is_met: Callable[[], bool]
    done: Callable[[], None]
    is_over: Callable[[], bool]


class Waiters:
    """All that wait for the same thing, in the order in which they came."""

    __slots__ = ("all", "context")

    def __init__(self, context: TurnContext) -> None:
        self.context = context
        self.all: dict[Waiter, None] = {}

    def wait(
        self,
        timeout_ms: int,
        most: int,
        *,
        is_met: Callable[[], bool],
        done: Callable[[], None],
        is_over: Callable[[], bool],
    ) -> None:
        """`done` is called once is_met(), or after timeout_ms, unless is_over() by then. If `most` wait already, the
        first of them is called at once.
        """
        if timeout_ms <= 0 or is_met():
            done()
            return
        if len(self.all) >= most:
            first = next(iter(self.all))
            del self.all[first]
            first.done()
        self.all[Waiter(self.context.now_s + timeout_ms / 1000, is_met, done, is_over)] = None

    def wake(self, is_gone: bool) -> None:
        """Calls those whose time has come, or whose wait is met; all of them if is_gone."""
        now_s = self.context.now_s
        for waiter in [*self.all]:
            is_done = is_gone or waiter.due_s <= now_s or waiter.is_met()
            if waiter in self.all and (is_done or waiter.is_over()):
                del self.all[waiter]
                if is_done:
                    waiter.done()
