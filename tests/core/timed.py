"""A Node that knows how long its turns take: none may hold up everybody else."""

import gc
import time
from collections.abc import Callable
from typing import Any

import pytest

from radiator.model.commands import Event
from radiator.model.limits import Limits
from radiator.model.settings import Declarations
from radiator.server.heap import keep_heap
from tests.core.node import Node

TURN_MAX_S = 0.005
TRIES = 24  # CPU time too is up to twice as long on a busy machine; a turn that is too long is so each time
BETWEEN_TRIES_S = 0.5  # what keeps the machine busy may be over then


def measures_turns(test: Any) -> Any:
    """It has the machine for itself: beside others a turn takes up to twice the CPU time."""
    return pytest.mark.slow(pytest.mark.alone("it measures the longest turn")(test))


class Timed(Node):
    """Knows how long each of its turns has taken, in CPU time of this thread."""

    def __init__(self, declarations: Declarations | None = None, limits: Limits | None = None) -> None:
        keep_heap()  # as a broker does: without it a long answer that grows may be copied each time
        super().__init__(declarations, limits or Limits(max_destinations=40_000))
        self.took_s: list[float] = []
        broker_turn = self.broker.turn

        def turn(*events: Any) -> Any:
            began_s = time.thread_time()
            reported = broker_turn(*events)
            self.took_s.append(time.thread_time() - began_s)
            return reported

        self.broker.turn = turn  # type: ignore[method-assign]

    def longest_turn_s(self, make: Callable[[], list[Event]]) -> float:
        """Of those that these events lead to. Each turn counts as in the best of some tries: what a busy machine adds
        falls upon another one each time, and of a thousand turns upon one at least in each try.
        """
        least_s: list[float] = []
        gc.disable()
        try:
            for number in range(TRIES):
                time.sleep(BETWEEN_TRIES_S if number else 0.0)
                events = make()
                self.turn([])
                self.took_s = []
                self.turn(events)
                if len(self.took_s) == len(least_s):
                    least_s = [*map(min, least_s, self.took_s)]
                elif not least_s or max(self.took_s) < max(least_s):
                    least_s = self.took_s  # other turns: none can be compared with one of before
                for connection in self.inbox:
                    self.take(connection)
                if max(least_s) <= TURN_MAX_S:
                    break
        finally:
            gc.enable()
        return max(least_s)
