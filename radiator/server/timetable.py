"""When each connection must be looked at: one heap and one timer for all of them.

A connection has one entry, for the earliest thing that may be due; the connection itself knows what is due. So incoming
data costs no timer, and 10,000 idle connections cost a heap entry each.
"""

import heapq
import time
import weakref
from typing import Any, Protocol

from radiator.model.limits import LOOK_EVERY_S, LOOKS_AT_ONCE

IDLE_S = 3600.0  # how long the timer sleeps if nothing is entered


class Timed(Protocol):
    """An object that must act at certain times."""

    look_at_s: float
    """When it is to be looked at (monotonic seconds); 0: never, as it was not entered or is gone."""

    def look(self, now_s: float) -> float:
        """Does what is due by now. Returns when to look again; 0: never."""


class Timetable:
    """Used on the hub only. It keeps no connection alive: one that has ended is free at once."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self._heap: list[tuple[float, int, weakref.ref[Timed]]] = []
        self._entered = 0
        self._timer: Any = None
        self._timer_at_s = float("inf")

    def enter(self, looked: Timed, due_s: float) -> None:
        """Has `looked` called at that time, or within LOOK_EVERY_S after it. An earlier entry stays."""
        if looked.look_at_s and looked.look_at_s <= due_s:
            return
        looked.look_at_s = due_s
        self._entered += 1
        heapq.heappush(self._heap, (due_s, self._entered, weakref.ref(looked)))
        if due_s < self._timer_at_s:
            self._set_timer(time.monotonic())

    def _set_timer(self, now_s: float, least_s: float = LOOK_EVERY_S) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer.close()
        wait_s = max(least_s, self._heap[0][0] - now_s) if self._heap else IDLE_S
        self._timer_at_s = now_s + wait_s
        self._timer = self._loop.timer(wait_s)
        self._timer.start(self._run)

    def _run(self) -> None:
        now_s = time.monotonic()
        self._timer_at_s = 0.0  # the timer is set again after this loop
        left = LOOKS_AT_ONCE
        while left and self._heap and self._heap[0][0] <= now_s:
            left -= 1
            due_s, _, entered = heapq.heappop(self._heap)
            looked = entered()
            if looked is None or looked.look_at_s != due_s:
                continue  # an earlier entry replaced this one, or the connection is gone
            looked.look_at_s = 0.0
            again_s = looked.look(now_s)
            if again_s:
                self.enter(looked, max(again_s, now_s + LOOK_EVERY_S / 2))
        self._set_timer(now_s, LOOK_EVERY_S if left else 0.0)
