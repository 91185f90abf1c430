"""How a protocol writes requests of the administration, and answers to them."""

from collections.abc import Iterator
from typing import Protocol

from radiator.model.administration import AdminCommand
from radiator.model.answers import AdminAnswer
from radiator.model.errors import Refusal


class Rendering(Protocol):
    """How one protocol writes requests and answers. Pure; called within a turn of the broker, so nothing in it may take
    long: `read` is given at most ADMIN_BODY_MAX_BYTES, and `pieces` yields "" or a piece after each row.
    """

    content_type: bytes
    """The value of an answer's `content-type` header."""

    def read(self, body: bytes) -> AdminCommand:
        """The command that a request asks for. Raises Refusal `bad-request` or `unknown-request`."""

    def refusal(self, refusal: Refusal) -> bytes:
        """The answer that refuses a request."""

    def whole(self, answer: AdminAnswer) -> bytes:
        """A short answer, without Rows."""

    def pieces(self, answer: AdminAnswer) -> Iterator[str]:
        """An answer, piece by piece; "" where a row is not ready yet and the turn should end."""
