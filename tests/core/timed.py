"""A Node that knows how long its turns take: none may hold up everybody else."""

import gc
import time
from collections.abc import Callable
from typing import Any

import pytest

from radiator.model.commands import Event
from radiator.model.limits import Limits
from radiator.model.settings import Declarations
from tests.core.node import Node

TURN_MAX_S = 0.005
TRIES = 24  # CPU time too is up to twice as long on a busy machine; a turn that is too long is so each time
BETWEEN_TRIES_S = 0.5  # what keeps the machine busy may be over then


def measures_turns(test: Any) -> Any:
    """It has the machine for itself: beside others a turn takes up to twice the CPU time."""
    return pytest.mark.slow(pytest.mark.alone("it measures the longest turn")(test))


class Timed(Node):
    """Knows how long the longest of its turns has taken, in CPU time of this thread."""

    longest_s = 0.0

    def __init__(self, declarations: Declarations | None = None, limits: Limits | None = None) -> None:
        super().__init__(declarations, limits or Limits(max_destinations=40_000))
        broker_turn = self.broker.turn

        def turn(*events: Any) -> Any:
            began_s = time.thread_time()
            reported = broker_turn(*events)
            self.longest_s = max(self.longest_s, time.thread_time() - began_s)
            return reported

        self.broker.turn = turn  # type: ignore[method-assign]

    def longest_turn_s(self, make: Callable[[], list[Event]]) -> float:
        """Of those that these events lead to; the least of some tries."""
        least_s = 1e9
        gc.disable()
        try:
            for number in range(TRIES):
                time.sleep(BETWEEN_TRIES_S if number else 0.0)
                events = make()
                self.turn([])
                self.longest_s = 0.0
                self.turn(events)
                least_s = min(least_s, self.longest_s)
                for connection in self.inbox:
                    self.take(connection)
                if least_s <= TURN_MAX_S:
                    break
        finally:
            gc.enable()
        return least_s
