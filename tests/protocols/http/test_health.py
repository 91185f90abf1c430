"""Health says that the process answers, and nothing else; readiness says why not."""

import base64
import json

import pytest

from radiator.model.administration import REASONS, ReadReadiness
from radiator.model.answers import NotReady, Readiness
from radiator.model.commands import Administer, Open
from radiator.model.errors import Refusal
from radiator.model.principal import Principal, RecognisedBy
from radiator.model.replies import Answered
from radiator.protocols.http.exchange import HttpExchange
from radiator.protocols.http.head import BadRequest
from radiator.protocols.http.health import alive, ready
from radiator.protocols.http.responses import Response
from radiator.protocols.http.server_state import ServerState
from tests.protocols.http.asking import Asking, Users, a_request, request


def test_it_tells_nothing_of_the_broker() -> None:
    response = alive(a_request("GET", "/healthz"))
    assert (response.status, response.body, response.headers) == (200, b"ok\n", ())


def test_it_needs_no_login_and_no_broker() -> None:
    asking = Asking(Users())
    asking.send(request("GET", "/healthz"))
    assert asking.statuses == [200] and asking.of_broker == []


def test_it_has_no_parameter() -> None:
    with pytest.raises(BadRequest, match="'verbose' is not a parameter"):
        alive(a_request("GET", "/healthz?verbose=true"))


# ---- readiness ------------------------------------------------------------------------------------------------------


def asked(query: str = "") -> tuple[HttpExchange, Administer]:
    exchange = ready(a_request("GET", "/readyz" + query))
    (command,) = exchange.commands
    assert isinstance(command, Administer) and command.is_answered
    return exchange, command


def answered(readiness: Readiness) -> Response:
    exchange, command = asked()
    response = exchange.answer(Answered(7, b"1", command.rendering.whole(readiness), ""))
    assert isinstance(response, Response)
    return response


@pytest.mark.parametrize(
    "query, exclude",
    [("", ()), ("?exclude=links", ("links",)), ("?exclude=links&exclude=disk", ("links", "disk"))],
)
def test_it_asks_the_broker(query: str, exclude: tuple[str, ...]) -> None:
    assert asked(query)[1].rendering.read(b"") == ReadReadiness(exclude)


@pytest.mark.parametrize("query", ["?exclude=", "?exclude=disks", "?exclude=links,disk"])
def test_what_is_no_reason_is_not_left_out(query: str) -> None:
    with pytest.raises(BadRequest, match="it must be one of " + ", ".join(REASONS)):
        asked(query)


def test_it_says_in_one_word_that_it_is_ready() -> None:
    response = answered(Readiness(True, []))
    assert (response.status, response.body, response.headers) == (200, b"ready\n", ())


def test_it_says_each_reason_why_it_is_not() -> None:
    response = answered(Readiness(False, [NotReady("disk", "It is full."), NotReady("links", 'b "is" away.')]))
    assert response.status == 503 and response.content_type == b"application/problem+json"
    assert response.headers == ((b"Retry-After", b"1"),)
    assert json.loads(response.body) == {
        "title": "Service Unavailable", "status": 503, "code": "not-ready", "detail": 'It is full. b "is" away.',
        "reasons": [{"reason": "disk", "sentence": "It is full."}, {"reason": "links", "sentence": 'b "is" away.'}],
    }  # fmt: skip


def test_who_may_not_see_why_is_told_that_it_is_not() -> None:
    response = answered(Readiness(False, []))
    assert response.status == 503 and json.loads(response.body)["reasons"] == []
    assert json.loads(response.body)["detail"] == "The broker is not ready; its reasons need the right `see` on /#."


def test_a_refusal_stays_one() -> None:
    exchange, command = asked()
    body = command.rendering.refusal(Refusal("forbidden", "You may not."))
    response = exchange.answer(Answered(7, b"1", body, "forbidden"))
    assert isinstance(response, Response) and response.status == 403 and b"You may not." in response.body


# ---- strangers ------------------------------------------------------------------------------------------------------


def stranger(not_ready: tuple[str, ...], query: str = "", **headers: str) -> Asking:
    asking = Asking(Users(), state=ServerState(frozenset(not_ready)))
    asking.send(request("GET", "/readyz" + query, **headers))
    return asking


def test_who_has_no_login_is_told_the_verdict_alone() -> None:
    asking = stranger(())
    assert [(one.status, one.body) for one in asking.answers()] == [(200, b"ready\n")]
    asking = stranger(("links", "certificate"))
    (answer,) = asking.answers()
    assert answer.status == 503 and json.loads(answer.body) == json.loads(answered(Readiness(False, [])).body)
    assert answer.headers["Retry-After"] == "1" and "links" not in answer.body.decode()


def test_who_has_no_login_takes_no_place_and_asks_no_broker() -> None:
    asking = stranger(())
    assert asking.commands == [] and not asking.session.is_open
    assert asking.session.is_closing is False, "the next probe may come on the same connection"


def test_who_has_no_login_may_leave_reasons_out() -> None:
    assert stranger(("links",), "?exclude=links").statuses == [200]
    assert stranger(("links", "disk"), "?exclude=links").statuses == [503]
    assert stranger(("links",), "?exclude=node-b").statuses == [400]


def test_a_server_that_has_not_said_it_is_not_ready() -> None:
    asking = Asking(Users())
    asking.send(request("GET", "/readyz"))
    assert asking.statuses == [503]


def test_a_login_that_is_wrong_is_refused_all_the_same() -> None:
    wrong = "Basic " + base64.b64encode(b"ann:bob").decode()
    assert stranger((), Authorization=wrong).statuses == [401]
    assert stranger((), Authorization="").statuses == [401]


def test_who_is_recognised_by_the_transport_logs_in() -> None:
    users = Users()
    asking = Asking(users, principal=Principal("ann", RecognisedBy.CERTIFICATE), state=ServerState(frozenset()))
    asking.send(request("GET", "/readyz"))
    assert users.begun == [(b"", b"")] and asking.statuses == [401], "the login is asked, and these users have no ann"


def test_where_there_are_no_users_everybody_asks_the_broker() -> None:
    asking = Asking(state=ServerState(frozenset()))
    asking.send(request("GET", "/readyz"))
    assert [type(one) for one in asking.commands] == [Open, Administer]


def test_probes_of_strangers_are_answered_in_their_place() -> None:
    asking = stranger(())
    login = "Basic " + base64.b64encode(b"ann:ann").decode()
    asking.send(request("GET", "/readyz", Authorization=login) + request("GET", "/healthz"))
    (command,) = asking.of_broker
    assert isinstance(command, Administer)
    asking.reply(Answered(7, command.receipt or b"", command.rendering.whole(Readiness(True, [])), ""))
    asking.send(request("GET", "/readyz"))
    assert [one.body for one in asking.answers()] == [b"ready\n", b"ready\n", b"ok\n", b"ready\n"]
