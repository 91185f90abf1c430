"""Requests of the administration as a protocol makes them that has words of its own for them."""

from collections.abc import Iterator

from radiator.model.administration import AdminCommand
from radiator.model.answers import AdminAnswer
from radiator.model.commands import Administer
from radiator.model.errors import Refusal
from radiator.model.headers import ESCAPING_ALL
from radiator.protocols.administration import JSON


class Given:
    """A Rendering by which a request is one given command, and answers are JSON."""

    content_type = JSON.content_type

    def __init__(self, command: AdminCommand) -> None:
        self.command = command

    def read(self, body: bytes) -> AdminCommand:
        return self.command

    def refusal(self, refusal: Refusal) -> bytes:
        return JSON.refusal(refusal)

    def whole(self, answer: AdminAnswer) -> bytes:
        return JSON.whole(answer)

    def pieces(self, answer: AdminAnswer) -> Iterator[str]:
        return JSON.pieces(answer)


def ask(connection: int, command: AdminCommand, receipt: bytes = b"ask") -> Administer:
    return Administer(connection, b"", Given(command), ESCAPING_ALL, receipt, is_answered=True)
