"""Requests for numbers: of the whole broker, of a section of it, of all queues."""

from radiator.core import stats
from radiator.core.request import Request
from radiator.core.stats import StatsPort
from radiator.model.addresses import KINDS, QUEUE
from radiator.model.administration import ListQueues, ReadSection, ReadStats
from radiator.model.answers import Queues, SectionNumbers
from radiator.model.numbers import Rows


def of_broker(request: Request[StatsPort], command: ReadStats) -> None:
    """Answers with the broker's numbers and all sections."""
    request.answer_in_slices(lambda: stats.of(request.parts))


def section(request: Request[StatsPort], command: ReadSection) -> None:
    """Answers with some rows of one section."""
    name = command.section
    request.answer_in_slices(
        lambda: SectionNumbers(name, stats.section(request.parts, name, command.after, command.limit, command.match))
    )


def queues(request: Request[StatsPort], command: ListQueues) -> None:
    """Answers with all queues that have a name, or a page of them."""
    name = KINDS[QUEUE].section
    request.answer_in_slices(
        lambda: Queues(Rows(stats.listed(request.parts, name, command.after, command.limit, command.match)))
    )
