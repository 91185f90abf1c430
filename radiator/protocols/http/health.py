"""`/healthz` and `/readyz`: whether the process answers, and whether clients should be sent to it."""

from collections.abc import Iterator, Sequence

from radiator.model.administration import REASONS, AdminCommand, ReadReadiness
from radiator.model.answers import AdminAnswer, NotReady, Readiness
from radiator.model.commands import Administer
from radiator.model.errors import Refusal
from radiator.model.headers import ESCAPING_ALL
from radiator.model.replies import Answered, Reply
from radiator.protocols.administration import JSON
from radiator.protocols.http.administration import HTTP_JSON
from radiator.protocols.http.exchange import HttpExchange, HttpRequest
from radiator.protocols.http.head import BadRequest
from radiator.protocols.http.responses import TEXT, Response, problem_text, status_of, written

_NOT_READY = "not-ready"
_READY = b"ready\n"
_WHY_HIDDEN = "The broker is not ready; its reasons need the right `see` on /#."
_ANSWER_READY = Response(200, _READY)


def alive(request: HttpRequest) -> Response:
    """Answers anybody, and says nothing about the broker."""
    request.query()
    return Response(200, b"ok\n")


class ReadyText:
    """The Rendering (model/rendering.py) that asks for the readiness: the word `ready`, or a problem document with
    `reasons`.
    """

    content_type = TEXT

    def __init__(self, exclude: tuple[str, ...]) -> None:
        self.exclude = exclude

    def read(self, body: bytes) -> AdminCommand:
        return ReadReadiness(self.exclude)

    def refusal(self, refusal: Refusal) -> bytes:
        return HTTP_JSON.refusal(refusal)

    def whole(self, answer: AdminAnswer) -> bytes:
        assert isinstance(answer, Readiness), "it asks for this"
        return _READY if answer.ready else _refusal(answer.reasons)

    def pieces(self, answer: AdminAnswer) -> Iterator[str]:
        return JSON.pieces(answer)


def ready(request: HttpRequest) -> HttpExchange:
    """Asks the broker for its readiness: 200 or 503. Raises BadRequest."""
    exclude = _exclude(request)
    ask = Administer(request.connection, b"", ReadyText(exclude), ESCAPING_ALL, request.receipt, is_answered=True)
    return HttpExchange([ask], _answered)


def verdict(request: HttpRequest) -> Response:
    """Answers a client without a login: gives no reasons, and takes no place among the connections. Raises
    BadRequest.
    """
    if request.state.is_ready(frozenset(_exclude(request))):
        return _ANSWER_READY
    return written(_NOT_READY, _refusal(()))


def _exclude(request: HttpRequest) -> tuple[str, ...]:
    exclude = tuple(request.query_lists("exclude").get("exclude", ()))
    for one in exclude:
        if one not in REASONS:
            raise BadRequest(400, f"exclude is {one!r:.80}; it must be one of {', '.join(REASONS)}.")
    return exclude


def _refusal(reasons: Sequence[NotReady]) -> bytes:
    sentences = " ".join(one.sentence for one in reasons) or _WHY_HIDDEN
    found = [{"reason": one.reason, "sentence": one.sentence} for one in reasons]
    return problem_text(status_of(_NOT_READY), _NOT_READY, sentences, reasons=found)


def _answered(reply: Reply) -> Response:
    assert isinstance(reply, Answered)
    if not reply.code and reply.body == _READY:
        return _ANSWER_READY
    return written(reply.code or _NOT_READY, reply.body)
