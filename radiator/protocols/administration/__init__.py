"""Requests of operators and programs, and their answers, as JSON (docs/PROTOCOL.md lists them all)."""

from collections.abc import Iterator

from radiator.model import headers
from radiator.model.administration import AdminCommand
from radiator.model.answers import AdminAnswer
from radiator.model.errors import Refusal
from radiator.protocols.administration import answers, requests


class Json:
    """The Rendering (model/rendering.py) of requests to /admin: JSON in, JSON out."""

    content_type = headers.JSON

    def read(self, body: bytes) -> AdminCommand:
        return requests.read(body)

    def refusal(self, refusal: Refusal) -> bytes:
        return answers.refusal_text(refusal).encode()

    def whole(self, answer: AdminAnswer) -> bytes:
        return "".join(answers.pieces(answer)).encode()

    def pieces(self, answer: AdminAnswer) -> Iterator[str]:
        return answers.pieces(answer)


JSON = Json()
