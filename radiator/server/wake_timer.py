"""A timer for the earliest of several times."""

from collections.abc import Callable
from typing import Any


class WakeTimer:
    """then: called once, at the earliest time asked for; it may ask for the next. Times are monotonic seconds."""

    __slots__ = ("_due_s", "_loop", "_then", "_timer")

    def __init__(self, loop: Any, then: Callable[[], None]) -> None:
        self._loop = loop
        self._then = then
        self._timer: Any = None
        self._due_s = 0.0

    def at(self, due_s: float, now_s: float) -> None:
        """Asks for a call at that time, unless an earlier one is due."""
        if self._timer is not None:
            if self._due_s <= due_s:
                return
            self._timer.close()
        self._due_s = due_s
        self._timer = self._loop.timer(max(0.0, due_s - now_s))
        # update: otherwise the timer counts from when the hub last read the clock
        self._timer.start(self._is_due, update=True)

    def stop(self) -> None:
        """Cancels the call."""
        if self._timer is not None:
            self._timer.close()
            self._timer = None

    def _is_due(self) -> None:
        self.stop()
        self._then()
