"""State that all connections of the server share."""

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from radiator.model.limits import Limits
from radiator.server.checks import Checks
from radiator.server.costly_steps import CostlySteps
from radiator.server.inbox import Inbox
from radiator.server.links import LinkRegistry
from radiator.server.log import EventLog
from radiator.server.timetable import Timetable

One = TypeVar("One")


@dataclass(slots=True)
class Shared(Generic[One]):
    """by_number: every connection that is not closed. open: those whose Open the broker has been given, and not their
    Closed.
    """

    loop: Any
    limits: Limits
    inbox: Inbox
    timetable: Timetable
    log: EventLog
    links: LinkRegistry
    checks: Checks
    costly: CostlySteps
    by_number: dict[int, One] = field(default_factory=dict)
    open: dict[int, One] = field(default_factory=dict)
