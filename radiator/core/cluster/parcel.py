"""A large message on its way in pieces, as either end of a link sees it: parcels.py says what is done."""

from collections.abc import Callable
from dataclasses import dataclass, field

from radiator.core.queues.entry import Entry

Key = tuple[str, str, int, int, int]  # name, store and life of the node that gives it, boot and sequence there


@dataclass(slots=True, eq=False)
class Outgoing:
    """A message whose bytes go ahead on a link. body: kept, since a consumer here may take the message meanwhile, whose
    bytes are on the disk alone then. pumped: who gives it. begun_s: when it was said; at: so many bytes have gone;
    may_go: the other node takes them. carried_s: when all of them had gone; is_offered: its Transfer is next.
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
class Incoming:
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
