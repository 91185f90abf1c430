"""What a server gives its sessions is in their answers."""

from radiator.model.limits import Limits
from radiator.model.principal import ANYONE
from radiator.protocols.http.context import WebContext
from radiator.protocols.http.session import WebSession
from tests.protocols.http.asking import answers, request


def test_an_answer_has_the_date_of_the_server() -> None:
    dates = iter([b"Sun, 06 Nov 1994 08:49:37 GMT", b"Sun, 06 Nov 1994 08:49:38 GMT"])
    session = WebSession(7, "s-1", Limits(), ANYONE, None, WebContext(date=lambda: next(dates)))
    session.receive(request("GET", "/healthz") + request("GET", "/nothing"))
    found = [one.headers["Date"] for one in answers(session.take_outgoing())]
    assert found == ["Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT"]


def test_without_a_clock_there_is_no_date() -> None:
    session = WebSession(7, "s-1", Limits())
    session.receive(request("GET", "/healthz"))
    (found,) = answers(session.take_outgoing())
    assert "Date" not in found.headers
