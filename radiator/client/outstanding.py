"""A RECEIPT that was asked for, and what becomes of its frame when the connection is lost."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from radiator.errors import RadiatorError
from radiator.protocols.stomp.client import ClientSession

Say = Callable[[ClientSession, str | None], bytes]
"""The frame, by the rules of that session, with that receipt."""


class Loss(Enum):
    """What a lost connection means for a frame whose RECEIPT is outstanding, where there will be another connection."""

    AGAIN = "it is said again"
    REPLAYED = "it is a SUBSCRIBE, which is said again as all subscriptions are"
    DROPPED = "it spoke of that connection alone, and has no meaning any more"
    UNKNOWN = "it may or may not have happened: whoever awaits it is told so"


@dataclass(slots=True, eq=False)
class Outstanding:
    """is_done: the RECEIPT is there, or will never come. is_dropped: the latter. error: what to raise instead."""

    say: Say
    loss: Loss
    is_awaited: bool
    is_done: bool = False
    is_dropped: bool = False
    error: RadiatorError | None = None
