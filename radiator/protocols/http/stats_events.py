"""`GET /v1/stats/events`: the broker's own numbers as server-sent events, every so many seconds."""

from collections.abc import Iterator
from dataclasses import replace

from radiator.model import headers
from radiator.model.commands import Administer
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import HTTP_STATS_EVERY_MAX_S, HTTP_STATS_EVERY_S
from radiator.model.numbers import BrokerNumbers
from radiator.model.replies import Answered, Refuse, Reply
from radiator.protocols.administration import JSON
from radiator.protocols.http.events import event_of, no_head, refused_event
from radiator.protocols.http.exchange import HttpExchange, HttpRequest, Stream
from radiator.protocols.http.head import BadRequest
from radiator.protocols.http.metrics import NumbersText
from radiator.protocols.http.responses import Response, written


def _totals(numbers: BrokerNumbers) -> Iterator[str]:
    """Yields the names of the numbers of the broker as a whole."""
    return JSON.pieces(replace(numbers, sections={}))


TOTALS = NumbersText(headers.JSON, _totals)


def of_stats(request: HttpRequest) -> HttpExchange:
    """Sends the numbers now, and again every `every_s` seconds. Raises BadRequest."""
    no_head(request)
    every_s = _every_s(request.query("every_s").get("every_s", str(HTTP_STATS_EVERY_S)))
    ask = Administer(request.connection, b"", TOTALS, ESCAPING_ALL, request.receipt, is_answered=True, every_s=every_s)
    return HttpExchange([ask], _begun)


class StatsStream:
    """An event for each answer with the numbers; the first is the stream's opening."""

    __slots__ = ("opening",)

    def __init__(self, first: Answered) -> None:
        self.opening = self.encode(first)

    def encode(self, reply: Reply) -> bytes:
        if isinstance(reply, Answered):
            return event_of(b"stats", b"".join((reply.body, *reply.more)))
        return refused_event(reply) if isinstance(reply, Refuse) else b""


def _begun(reply: Reply) -> Response | Stream:
    assert isinstance(reply, Answered)
    return written(reply.code, reply.body) if reply.code else StatsStream(reply)


def _every_s(value: str) -> int:
    is_number = value.isascii() and value.isdigit() and len(value) <= len(str(HTTP_STATS_EVERY_MAX_S))
    if not (is_number and 1 <= int(value) <= HTTP_STATS_EVERY_MAX_S):
        what = f"a whole number of seconds from 1 to {HTTP_STATS_EVERY_MAX_S}"
        raise BadRequest(400, f"every_s is {value!r:.80}; it must be {what}.")
    return int(value)
