"""A frame whose RECEIPT is outstanding, and what becomes of it when the connection is lost."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from radiator.model.errors import RadiatorError
from radiator.protocols.stomp.client import ClientSession

Say = Callable[[ClientSession, str | None], bytes]
"""Makes the frame by the rules of that session, with that receipt; called anew for each connection it is sent on."""


class Loss(Enum):
    """Says what becomes of a frame whose connection is lost, if there will be another one."""

    AGAIN = "it is sent again"
    REPLAYED = "it is a SUBSCRIBE, and all subscriptions are sent again"
    DROPPED = "it spoke of that connection alone, and has no meaning any more"
    UNKNOWN = "it may or may not have happened, and whoever awaits it learns that"


@dataclass(slots=True, eq=False)
class Outstanding:
    """is_awaited: by a call. store: the only one it may be sent to, since another would not know that it was stored
    already; None: any. is_done: its RECEIPT is there, or none will come: then it was dropped, or has an error.
    """

    say: Say
    loss: Loss
    is_awaited: bool
    store: str | None = None
    is_done: bool = False
    is_dropped: bool = False
    error: RadiatorError | None = None


@dataclass(slots=True)
class Subscription:
    """A subscription, which is made again on each connection. is_known: no call awaits the RECEIPT of its first
    SUBSCRIBE any more.
    """

    name: str
    destination: str
    ack: str
    headers: list[tuple[str, str]]
    is_known: bool = False

    def say(self, session: ClientSession, receipt: str | None) -> bytes:
        """SUBSCRIBE."""
        return session.subscribe(self.name, self.destination, ack=self.ack, receipt=receipt, headers=self.headers)
