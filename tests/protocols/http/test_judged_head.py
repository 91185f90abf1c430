"""What is found out from a head alone."""

import pytest

from radiator.model.limits import HTTP_BATCH_BYTES
from radiator.model.settings import WebSettings
from radiator.protocols.http.head import BadRequest
from radiator.protocols.http.judged_head import JudgedHead
from tests.protocols.http.asking import LIMITS, head_of

WEB = WebSettings(origins=frozenset(("https://shop.example",)))


def entry(method: str, path: str, **headers: str | None) -> JudgedHead:
    made = JudgedHead(b"", head_of(method, path, **headers))
    made.judge(WEB, LIMITS)
    return made


def test_the_route_its_names_and_the_bound_of_the_body_are_found() -> None:
    found = entry("POST", "/v1/queues/a%2Fb/messages", Content_Type="text/plain")
    assert found.route is not None and found.names == ("a/b",) and found.body_max == LIMITS.max_frame_bytes
    assert entry("POST", "/v1/queues/a/messages", Content_Type="application/json").body_max == HTTP_BATCH_BYTES
    assert entry("GET", "/healthz").body_max == 0


def test_a_browser_that_asks_whether_it_may_ask_gets_no_route() -> None:
    asked = {"Origin": "https://shop.example", "Access_Control_Request_Method": "POST"}
    assert entry("OPTIONS", "/v1/queues/a/messages", **asked).route is None


@pytest.mark.parametrize(("method", "path", "headers", "status"), [
    ("GET", "/healthz", {"Host": "evil.example"}, 421),
    ("GET", "/healthz", {"Origin": "https://evil.example"}, 403),
    ("OPTIONS", "/v1/queues", {"Origin": "https://evil.example", "Access_Control_Request_Method": "GET"}, 403),
    ("POST", "/v1/drain", {"Sec_Fetch_Site": "cross-site"}, 403),
    ("GET", "/nothing", {}, 404),
    ("DELETE", "/healthz", {}, 405),
    ("OPTIONS", "/healthz", {}, 405),
])  # fmt: skip
def test_who_is_not_let_in_finds_no_route(method: str, path: str, headers: dict[str, str], status: int) -> None:
    made = JudgedHead(b"", head_of(method, path, **headers))
    with pytest.raises(BadRequest) as refused:
        made.judge(WEB, LIMITS)
    assert refused.value.status == status and made.route is None
