"""Steps of sessions that take long, such as parsing 1 MiB of JSON. They run one after another, in the order in which
connections asked for them, however many ask at once. Between two steps the hub looks at all other sockets.
"""

import time
from collections.abc import Callable
from typing import Any

from radiator.model.limits import COSTLY_REST_MAX_S, COSTLY_REST_S, COSTLY_S


class CostlySteps:
    """Used on the hub only. A connection is identified by its number, and has one step at a time."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self._waiting: dict[int, Callable[[], None]] = {}
        self._is_due = False
        self._timer = loop.timer(0)

    def add(self, connection: int, step: Callable[[], None]) -> None:
        """Queues a step, which is called on the hub when its turn comes, unless `drop` is called before."""
        self._waiting[connection] = step
        if not self._is_due:
            self._is_due = True
            self._run_after(0)

    def drop(self, connection: int) -> None:
        """Drops the connection's step."""
        self._waiting.pop(connection, None)

    def _run(self) -> None:
        self._timer.close()
        began_s = now_s = time.monotonic()
        while self._waiting and now_s < began_s + COSTLY_S:
            # the step may add the next one of its connection, which is queued last
            self._waiting.pop(next(iter(self._waiting)))()
            now_s = time.monotonic()
        self._is_due = bool(self._waiting)
        if self._is_due:
            # rest as long as the steps have taken: a disk thread needs the GIL some thirty times for a commit, and
            # gets it late from a hub that does not sleep
            self._run_after(min(max(now_s - began_s, COSTLY_REST_S), COSTLY_REST_MAX_S))

    def _run_after(self, rest_s: float) -> None:
        self._timer = self._loop.timer(rest_s)
        self._timer.start(self._run, update=True)  # update: the loop's own clock is as late as the steps have taken
