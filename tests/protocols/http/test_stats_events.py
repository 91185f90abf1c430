"""The broker's numbers as server-sent events: what is asked for, and what each answer becomes."""

import json

import pytest

from radiator.model.administration import ReadStats
from radiator.model.commands import Administer, Open
from radiator.model.limits import HTTP_STATS_EVERY_MAX_S, HTTP_STATS_EVERY_S
from radiator.model.replies import Answered, Refuse, Scope
from radiator.protocols.http.exchange import HttpExchange
from radiator.protocols.http.head import BadRequest
from radiator.protocols.http.stats_events import of_stats
from tests.protocols.http.asking import Asking, a_request, request

PATH = "/v1/stats/events"


def asked(query: str = "", method: str = "GET") -> Administer:
    exchange = of_stats(a_request(method, PATH + query))
    assert isinstance(exchange, HttpExchange) and exchange.is_alone
    (command,) = exchange.commands
    assert isinstance(command, Administer) and command.is_answered and command.receipt == b"1"
    assert command.rendering.read(command.body) == ReadStats()
    return command


@pytest.mark.parametrize(
    ("query", "every_s"),
    [("", HTTP_STATS_EVERY_S), ("?every_s=1", 1), (f"?every_s={HTTP_STATS_EVERY_MAX_S}", HTTP_STATS_EVERY_MAX_S)],
)
def test_the_period_is_what_is_asked_for(query: str, every_s: int) -> None:
    assert asked(query).every_s == every_s


@pytest.mark.parametrize(
    "query",
    ["0", "-1", str(HTTP_STATS_EVERY_MAX_S + 1), "1.5", "", "1e3", "%2B1", "00001", "9" * 500, "%D9%A1"],
)
def test_what_is_no_period_is_refused(query: str) -> None:
    with pytest.raises(BadRequest, match="it must be a whole number of seconds from 1 to 3600") as caught:
        asked("?every_s=" + query)
    assert caught.value.status == 400 and len(str(caught.value)) < 200


def test_there_is_no_other_parameter_and_no_head() -> None:
    with pytest.raises(BadRequest, match="'section' is not a parameter"):
        asked("?section=queues")
    with pytest.raises(BadRequest, match="ask with GET") as caught:
        asked(method="HEAD")
    assert caught.value.status == 405


def streaming() -> Asking:
    asking = Asking()
    asking.send(request("GET", PATH))
    opened, command = asking.commands
    assert isinstance(opened, Open) and isinstance(command, Administer)
    return asking


def test_each_answer_is_an_event_until_a_refusal() -> None:
    asking = streaming()
    asking.reply(Answered(7, b"1", b'{"ok": true, "boot": 1}'))
    head, _, events = asking.sent.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ") and b"Content-Type: text/event-stream" in head
    assert events == b'event: stats\ndata: {"ok": true, "boot": 1}\n\n'
    asking.sent = b""
    asking.reply(Answered(7, b"1", b'{"ok": true, "boot": 2}', is_again=True))
    assert asking.sent == b'event: stats\ndata: {"ok": true, "boot": 2}\n\n' and not asking.session.is_closing
    asking.sent = b""
    asking.reply(Refuse(7, "forbidden", "It is gone.", None, Scope.CHANNEL))
    name, data = asking.sent.decode().strip().split("\n")
    assert name == "event: refused" and asking.session.is_closing
    assert json.loads(data.removeprefix("data: ")) == {"status": 403, "code": "forbidden", "detail": "It is gone."}


def test_a_refusal_before_it_is_a_problem() -> None:
    asking = streaming()
    asking.reply(Answered(7, b"1", b'{"code": "forbidden"}', "forbidden"))
    (answer,) = asking.answers()
    assert answer.status == 403 and answer.headers["Content-Type"] == "application/problem+json"
