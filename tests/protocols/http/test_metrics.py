"""GET /metrics: what the query may select, what is refused, and how long turns are while much is scraped."""

from typing import Any

import pytest

from radiator.model.administration import ReadStats
from radiator.model.commands import Administer, Event, Open, Read
from radiator.model.errors import Refusal
from radiator.model.limits import METRICS_WORDS, NAME_MAX_BYTES, Limits
from radiator.model.replies import Answered
from radiator.protocols.http.exchange import HttpExchange, HttpRequest
from radiator.protocols.http.head import BadRequest, RequestHead
from radiator.protocols.http.metrics import scrape
from radiator.protocols.http.session import WebSession
from radiator.protocols.prometheus.exposition import ALL_SECTIONS, EVERYTHING, Selection
from tests.core.node import Node
from tests.core.timed import TURN_MAX_S, Timed, measures_turns
from tests.protocols.prometheus.reading import read


def asked(query: str = "", connection: int = 7, receipt: bytes = b"1") -> HttpExchange:
    head = RequestHead("GET", b"/metrics", query.encode(), {}, "1.1")
    found = scrape(HttpRequest(connection, receipt, head, (), b"", Limits()))
    assert isinstance(found, HttpExchange)
    return found


def selection(query: str = "") -> Selection:
    (command,) = asked(query).commands
    assert isinstance(command, Administer) and command.is_answered
    assert command.rendering.read(b"") == ReadStats(), "whose right decides"
    found: Selection = command.rendering.write.keywords["selection"]  # type: ignore[attr-defined]
    return found


WORDS = ".".join("#" * METRICS_WORDS)


@pytest.mark.parametrize(
    ("query", "selected"),
    [
        ("", EVERYTHING),
        ("section=broker", Selection(("broker",))),
        ("section=peers&section=broker", Selection(("peers", "broker"))),
        ("name=orders.%23", Selection(ALL_SECTIONS, ("orders.#",))),
        ("name=a.*&name=b&section=queues", Selection(("queues",), ("a.*", "b"))),
        ("name=%C3%A4", Selection(ALL_SECTIONS, ("ä",))),
        ("name=" + "x" * NAME_MAX_BYTES, Selection(ALL_SECTIONS, ("x" * NAME_MAX_BYTES,))),
        ("name=" + WORDS.replace("#", "%23"), Selection(ALL_SECTIONS, (WORDS,))),
    ],
)
def test_the_query_selects(query: str, selected: Selection) -> None:
    assert selection(query) == selected


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("section=queue", "section is 'queue'; it must be one of broker, queues, exchanges, "),
        ("section=", "section is ''; it must be one of"),
        ("name=", "name is '', which is empty"),
        ("name=" + "x" * (NAME_MAX_BYTES + 1), "which has 256 bytes of UTF-8"),
        ("name=a%00", "control character U\\+0000"),
        ("name=" + (WORDS + ".b").replace("#", "%23"), "The names have 65 words; they may have 64 together"),
        ("name=" + WORDS.replace("#", "a") + "&name=b", "The names have 65 words"),
        ("queue=a", "'queue' is not a parameter of '/metrics'; it has section, name."),
        ("section", "is not NAME=VALUE"),
        ("&".join(["section=broker"] * 17), "is not NAME=VALUE"),
    ],
)
def test_what_it_does_not_have_is_refused(query: str, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        asked(query)


def test_a_refusal_is_a_problem_with_its_status() -> None:
    exchange = asked()
    (command,) = exchange.commands
    assert isinstance(command, Administer)
    for code, status in (("forbidden", 403), ("too-large", 413)):
        body = command.rendering.refusal(Refusal(code, "That is why."))
        response: Any = exchange.answer(Answered(7, b"1", body, code))
        assert (response.status, response.content_type) == (status, b"application/problem+json")
        assert b"That is why." in response.body


@pytest.mark.parametrize("accept", ["*/*", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"])
def test_the_broker_answers_in_the_text_format_whatever_is_accepted(accept: str) -> None:
    node = Node()
    session = WebSession(7, "s-1", Limits())
    commands = session.receive(f"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n".encode())
    assert isinstance(commands[0], Open)
    node.open(7)
    node.turn([Read(7, commands[1:])])  # type: ignore[arg-type]
    (answer,) = node.take(7)
    head, _, body = b"".join(session.pieces(answer)).partition(b"\r\n\r\n")  # type: ignore[arg-type]
    assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n")
    assert f"\r\nContent-Length: {len(body)}\r\n".encode() in head
    assert read(body.decode())["radiator_boot"][2] == {("", ""): 1}


@measures_turns
@pytest.mark.parametrize("query", ["", "name=" + WORDS.replace("#", "%23"), "section=users"])
def test_ten_thousand_queues_and_users_are_scraped_without_a_long_turn(large: Timed, query: str) -> None:
    def scrapes() -> list[Event]:
        return [Read(9, asked(query, 9, b"1").commands)]

    longest_s = large.longest_turn_s(scrapes)
    assert longest_s <= TURN_MAX_S, f"a turn took {longest_s * 1000:.1f} ms of CPU"


@pytest.fixture(scope="module")
def large() -> Timed:
    node = Timed()
    node.open(1, 9)
    for number in range(10_000):
        node.broker.destinations.queues.get(f"orders.q{number:05}")
    return node
