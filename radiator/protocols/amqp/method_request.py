"""Requests of the administration that are made by a method, such as queue.declare."""

from collections.abc import Callable, Iterator

from radiator.model.administration import AdminCommand
from radiator.model.answers import AdminAnswer
from radiator.model.errors import Refusal
from radiator.protocols.amqp.sentences import in_words


class MethodRequest:
    """The Rendering (model/rendering.py) of a method. command: what it asks for. done: makes frames of the answer."""

    __slots__ = ("_command", "_done")

    content_type = b""

    def __init__(self, command: AdminCommand, done: Callable[[AdminAnswer], bytes]) -> None:
        self._command = command
        self._done = done

    def read(self, body: bytes) -> AdminCommand:
        return self._command

    def refusal(self, refusal: Refusal) -> bytes:
        return in_words(str(refusal), refusal.grounds).encode()

    def whole(self, answer: AdminAnswer) -> bytes:
        return self._done(answer)

    def pieces(self, answer: AdminAnswer) -> Iterator[str]:
        yield self._done(answer).decode("latin-1")
