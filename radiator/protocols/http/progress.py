"""The state of one request: while it is being read, and until it is answered."""

from dataclasses import dataclass

from radiator.model.limits import HTTP_BATCH_AT_ONCE_BYTES, HTTP_BODY_AT_ONCE_BYTES
from radiator.model.principal import Principal
from radiator.protocols.http.body import Body
from radiator.protocols.http.exchange import HttpExchange, Route
from radiator.protocols.http.head import RequestHead
from radiator.protocols.http.publishing import is_batch
from radiator.protocols.http.responses import Response


@dataclass(slots=True)
class Arrival:
    """A request that is being read. head_bytes: the size of its head. is_continue_due: its client waits for `100
    Continue` before it sends the body. principal: None until it is known who makes the request.
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
        """All bytes read for the request, with the sizes of chunks: by them the frame clock sees that it is still the
        same one.
        """
        return self.head_bytes + self.body.taken_bytes

    @property
    def size(self) -> int:
        """The bytes of the whole request, as far as they are known."""
        return self.head_bytes + self.body.size

    @property
    def is_costly(self) -> bool:
        """Whether reading the body takes long: 4 KiB of a batch may hold 1,000 messages."""
        at_once_bytes = HTTP_BATCH_AT_ONCE_BYTES if is_batch(self.head) else HTTP_BODY_AT_ONCE_BYTES
        return self.body.size > at_once_bytes


@dataclass(slots=True)
class Slot:
    """The place of a request among the answers that are due. exchange: None: its response is made already."""

    head: RequestHead
    exchange: HttpExchange | None
    response: Response | None
    is_last: bool
