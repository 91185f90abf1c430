"""What is asked and answered about messages that are unacked with consumers of a queue; see administration.py."""

from dataclasses import dataclass
from typing import NamedTuple

from radiator.model.numbers import Rows


class OutPlace(NamedTuple):
    """Where a message stands among all that are unacked: since when, in microseconds of the broker's own clock, and its
    position.
    """

    since_us: int
    position: int


@dataclass(slots=True)
class ListUnacked:
    """The unacked messages of a queue, longest unacked first: Unacked. after: only those after that place; limit: at
    most
    that many.
    """

    queue: str
    after: OutPlace | None
    limit: int


@dataclass(slots=True)
class ExtendUnacked:
    """Gives its consumer more time: UnackedExtended. Refused where it is not unacked (`not-unacked`), and where it has
    no end that time could be added to (`no-ack-timeout`).
    """

    queue: str
    message_id: str
    seconds: float


# ---- answers ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class UnackedMessage:
    """One message, and who has it. connection, address, subscription: None: it is leased, to `user`. consumer: the name
    of that, or None. age_ms: since it went out. due_ms: when its ack timeout or lease is over, since the epoch; None:
    it has none.
    """

    message_id: str
    connection: int | None
    address: str | None
    user: str
    subscription: str | None
    consumer: str | None
    age_ms: int
    due_ms: int | None
    redelivery_count: int
    size: int
    is_leased: bool


@dataclass(slots=True)
class Unacked:
    """count: of all that are out. next: what `after` is for the next page; None: there is none."""

    unacked: Rows[UnackedMessage]
    count: int
    next: str | None


@dataclass(slots=True)
class UnackedExtended:
    """due_ms: when its ack timeout or lease is over now, since the epoch."""

    message_id: str
    due_ms: int


UnackedAnswer = Unacked | UnackedExtended


def place_text(place: OutPlace) -> str:
    """Returns a place as requests and answers have it."""
    return f"{place.since_us}-{place.position}"


def place_in(text: str) -> OutPlace:
    """Returns the place in a text of `place_text`. Raises ValueError."""
    parts = text.split("-")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) <= _DIGITS for part in parts):
        raise ValueError(f"must be the `next` of the page before; it is {text!r:.80}")
    return OutPlace(int(parts[0]), int(parts[1]))


_DIGITS = 30  # of a position, and more than of microseconds
