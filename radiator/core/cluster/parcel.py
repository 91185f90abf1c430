"""A large message on its way in pieces, as either end of a link sees it: parcels.py says what is done."""

from collections.abc import Callable
from dataclasses import dataclass, field

from radiator.core.queues.entry import Entry

Key = tuple[str, str, int, int, int]  # name, store and life of the node that gives it, boot and sequence there


@dataclass(slots=True, eq=False)
class OutgoingParcel:
    """A large message whose bytes go ahead on a link. body: kept here, since a local consumer may take the message
    meanwhile, and its bytes are then on the disk only. pumped: its sender. begun_s: when it was announced; at: how many
    bytes were sent; may_go: the other node accepts them. carried_s: when all were sent; is_offered: its Transfer is
    next.
    """

    number: int
    destination: str
    entry: Entry
    body: bytes
    pumped: Callable[[], None]
    begun_s: float
    at: int = 0
    may_go: bool = False
    carried_s: float | None = None
    is_offered: bool = False


@dataclass(slots=True, eq=False)
class IncomingParcel:
    """A message whose bytes come. number: as the giver calls it on this link; key: which it is, on other links too.
    may_come: they were asked for; until_s: how long it is kept while nothing comes.
    """

    number: int
    key: Key
    destination: str
    size: int
    have: int = 0
    may_come: bool = False
    until_s: float = 0.0
    pieces: list[bytes] = field(default_factory=list)
