"""Requests for the last hour: of the broker as a whole, and of a queue."""

from collections.abc import Iterator
from typing import Any, Protocol

from radiator.core.overview.overview import Overview
from radiator.core.overview.rings import NAMES
from radiator.core.overview.series import COLUMNS
from radiator.core.ports import AnsweringPort
from radiator.core.request import Request
from radiator.core.routing.destinations import Destinations
from radiator.model.errors import Refusal
from radiator.model.limits import HISTORY_QUEUES
from radiator.model.numbers import PAUSE, PauseRow, Rows
from radiator.model.overview import ReadHistory, ReadQueueHistory, Samples

MANY = 500  # samples: a column with as many has a slice to itself


class HistoriesPort(AnsweringPort, Protocol):
    """The parts of the broker that these requests may use."""

    @property
    def destinations(self) -> Destinations: ...

    @property
    def overview(self) -> Overview: ...


def of_broker(request: Request[HistoriesPort], command: ReadHistory) -> None:
    """Answers with the samples of the broker."""
    series = request.parts.overview.history.series
    periods = series.periods

    def samples() -> Samples:
        places = periods.after(command.after_ms)

        def columns() -> Iterator[list[Any] | PauseRow]:
            for name in COLUMNS:
                yield series.values(name, places)
                if len(places) >= MANY:
                    yield PAUSE

        first_ms = periods.time_ms(places[0]) if places else None
        return Samples(periods.every_ms, first_ms, tuple(COLUMNS), Rows(columns()))

    request.answer_in_slices(samples)


def of_queue(request: Request[HistoriesPort], command: ReadQueueHistory) -> None:
    """Answers with the samples of a queue."""
    queue = request.parts.destinations.existing_queue(command.queue)
    rings = request.parts.overview.history.rings
    if queue not in rings.all:
        raise Refusal(
            "no-history",
            f"{queue.address} is not among the {HISTORY_QUEUES} queues that have moved most lately: only those are "
            "sampled.",
        )

    def samples() -> Samples:
        ring = rings.all.get(queue)
        places, columns = rings.samples(ring, command.after_ms) if ring is not None else (range(0), [[] for _ in NAMES])
        first_ms = rings.periods.time_ms(places[0]) if places else None
        return Samples(rings.periods.every_ms, first_ms, NAMES, Rows(iter(columns)))

    request.answer_in_slices(samples)
