"""How far a request has come: while it is read, and from then on until it is answered."""

from dataclasses import dataclass

from radiator.model.principal import Principal
from radiator.protocols.http.body import Body
from radiator.protocols.http.exchange import HttpExchange, Route
from radiator.protocols.http.head import RequestHead
from radiator.protocols.http.responses import Response


@dataclass(slots=True)
class Arrival:
    """The request that is being read. head_bytes: of its head. is_continue_due: its client waits for a 100 before it
    sends the body. principal: who makes it, once that is known.
    """

    head: RequestHead
    head_bytes: int
    route: Route
    names: tuple[str, ...]
    body: Body
    is_continue_due: bool
    principal: Principal | None = None

    @property
    def read_bytes(self) -> int:
        """All that was read of it counts, also sizes of chunks: so the clock of a frame sees that it is still one."""
        return self.head_bytes + self.body.taken_bytes

    @property
    def size(self) -> int:
        """Of the whole, as far as it is known."""
        return self.head_bytes + self.body.size


@dataclass(slots=True)
class Slot:
    """One request, until it is answered. exchange: None: its response is made."""

    head: RequestHead
    exchange: HttpExchange | None
    response: Response | None
    is_last: bool
