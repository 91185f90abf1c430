"""What is asked and answered about the bounds of the whole broker; see administration.py."""

from dataclasses import dataclass

from radiator.model.numbers import Rows


@dataclass(slots=True)
class ReadBounds:
    """All bounds of the whole broker, and how much of each is in use: BoundsInForce."""


@dataclass(slots=True)
class BrokerBound:
    """limit: None: there is none. used: None: it is not known, or would cost too much to find out; of a bound that each
    of several has, of the one with most. is_least: what is in use may not be below it; else not above. reached: what
    happens there, in a sentence.
    """

    name: str
    limit: int | None
    used: int | None
    unit: str
    is_least: bool
    reached: str


@dataclass(slots=True)
class BoundsInForce:
    """In the order of docs/OPERATING.md."""

    bounds: Rows[BrokerBound]
