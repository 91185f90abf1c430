"""`GET /metrics`: the numbers of the broker, for Prometheus."""

from collections.abc import Callable, Iterator
from functools import partial

from radiator.model.administration import AdminCommand, ReadStats
from radiator.model.answers import AdminAnswer
from radiator.model.commands import Administer
from radiator.model.errors import Refusal
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import METRICS_WORDS
from radiator.model.numbers import BrokerNumbers
from radiator.model.patterns import name_mistake
from radiator.model.replies import Answered, Reply
from radiator.protocols.http.administration import HTTP_JSON
from radiator.protocols.http.exchange import HttpExchange, HttpRequest
from radiator.protocols.http.head import BadRequest
from radiator.protocols.http.responses import Response, written
from radiator.protocols.prometheus.exposition import ALL_SECTIONS, Selection, pieces

METRICS = b"text/plain; version=0.0.4; charset=utf-8"


class NumbersText:
    """The Rendering (model/rendering.py) that asks for all numbers. write: yields the text of those that are
    selected.
    """

    def __init__(self, content_type: bytes, write: Callable[[BrokerNumbers], Iterator[str]]) -> None:
        self.content_type = content_type
        self.write = write

    def read(self, body: bytes) -> AdminCommand:
        return ReadStats()

    def refusal(self, refusal: Refusal) -> bytes:
        return HTTP_JSON.refusal(refusal)

    def whole(self, answer: AdminAnswer) -> bytes:
        return "".join(self.pieces(answer)).encode()

    def pieces(self, answer: AdminAnswer) -> Iterator[str]:
        assert isinstance(answer, BrokerNumbers), "it asks for these"
        return self.write(answer)


def scrape(request: HttpRequest) -> HttpExchange:
    """Returns all metrics, or those of the sections and names that the query selects. Raises BadRequest."""
    given = request.query_lists("section", "name")
    sections, names = given.get("section", []), given.get("name", [])
    for section in sections:
        if section not in ALL_SECTIONS:
            raise BadRequest(400, f"section is {section!r:.80}; it must be one of {', '.join(ALL_SECTIONS)}.")
    for name in names:
        if mistake := name_mistake(name):
            raise BadRequest(400, f"name is {name!r:.80}, which {mistake}.")
    words = sum(name.count(".") + 1 for name in names)
    if words > METRICS_WORDS:
        raise BadRequest(400, f"The names have {words} words; they may have {METRICS_WORDS} together.")
    selection = Selection(tuple(sections) or ALL_SECTIONS, tuple(names))
    rendering = NumbersText(METRICS, partial(pieces, selection=selection))
    ask = Administer(request.connection, b"", rendering, ESCAPING_ALL, request.receipt, is_answered=True)
    return HttpExchange([ask], _answered)


def _answered(reply: Reply) -> Response:
    assert isinstance(reply, Answered)
    if reply.code:
        return written(reply.code, reply.body)
    return Response(200, reply.body, METRICS)
