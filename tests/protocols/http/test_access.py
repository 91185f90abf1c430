"""Who is let in: by the Host, by the Origin, and which login a request has."""

from base64 import b64encode

import pytest

from radiator.model.errors import FORBIDDEN, Refusal
from radiator.model.replies import Scope
from radiator.model.settings import DEFAULT_WEB, WebSettings
from radiator.protocols.http.access import (
    allowed_origin,
    check_host,
    check_site,
    cookie_over,
    credentials,
    is_own_page,
    login_refused,
    preflight,
)
from radiator.protocols.http.head import BadRequest
from tests.protocols.http.asking import head_of

WEB = WebSettings(hosts=frozenset({"broker.example"}), origins=frozenset({"https://shop.example"}))


def refused_host(host: str | None, web: WebSettings = DEFAULT_WEB) -> int | None:
    try:
        check_host(head_of(version="1.0", Host=host), web)
    except BadRequest as bad:
        assert str(bad).endswith(".")
        return bad.status
    return None


def refused_site(web: WebSettings = WEB, method: str = "POST", **headers: str | None) -> int | None:
    head = head_of(method, **{"version": "1.0", "Host": "broker.example:1", **headers})  # type: ignore[arg-type]
    try:
        check_site(head, web)
    except BadRequest as bad:
        assert str(bad).endswith(".")
        return bad.status
    return None


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:61680", "LocalHost", "localhost:", "127.0.0.1", "127.0.0.1:1", "10.1.2.3:65535", "[::1]",
     "[::1]:61680", "[2001:db8::1]"],
)  # fmt: skip
def test_addresses_and_localhost_are_always_its_own(host: str) -> None:
    assert refused_host(host) is None


def test_a_name_is_its_own_where_it_is_listed() -> None:
    assert refused_host("broker.example:8443", WEB) is None and refused_host("BROKER.example", WEB) is None
    assert refused_host("broker.example") == 421
    for other in (
        "a.broker.example",
        "broker.example.evil.example",
        "broker.exampl",
        "broker.example.",
        "xbroker.example",
    ):
        assert refused_host(other, WEB) == 421, other


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "localhost.", "1.2.3", "0x7f000001", "2130706433", "127.1", "1.2.3.4.5"],
)
def test_another_name_is_refused(host: str) -> None:
    assert refused_host(host) == 421


@pytest.mark.parametrize(
    "host",
    ["user@localhost", "localhost/x", "localhost:x", "localhost:99999", "localhost:-1", "localhost:+1", "[::1", "::1]",
     "local\thost", "localhost,evil.example", "local host", "localhost?", "localhost#", "localhost\\evil", ":80", "[]",
     "%6cocalhost", "l\xf6calhost", "localhost:80:80"],
)  # fmt: skip
def test_what_is_no_host_is_refused(host: str) -> None:
    assert refused_host(host) == 400


def test_older_clients_have_no_host() -> None:
    assert refused_host(None) is None


# ---- pages


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "OPTIONS", "HEAD"])
def test_an_origin_is_let_in_where_it_is_its_own_or_listed(method: str) -> None:
    assert refused_site(method=method) is None, "programs have none"
    for origin in (
        "http://broker.example:1",
        "https://BROKER.example:1",
        "https://shop.example",
        "HTTPS://shop.example",
    ):
        assert refused_site(method=method, Origin=origin) is None, origin
    for origin in (
        "null", "", "*", "http://broker.example", "http://broker.example:2", "http://shop.example", "shop.example",
        "https://shop.example:444", "https://a.shop.example", "https://shop.example.evil.example", "evil://broker.example:1",
        "https://shop.example/", "https://shop.example https://evil.example", "broker.example:1", "://broker.example:1",
    ):  # fmt: skip
        assert refused_site(method=method, Origin=origin) == 403, origin


def test_no_origin_is_its_own_where_there_is_no_host() -> None:
    for origin in ("null", "", "http://", "https://"):
        assert refused_site(Host=None, Origin=origin) == 403, origin


def test_what_a_browser_says_of_the_site_counts_where_something_changes() -> None:
    for site in ("same-origin", "none"):
        assert refused_site(Sec_Fetch_Site=site) is None
    for site in ("cross-site", "same-site", "", "Same-Origin", "none, cross-site", "x"):
        for method in ("POST", "PUT", "DELETE"):
            assert refused_site(method=method, Sec_Fetch_Site=site) == 403
        assert refused_site(method="GET", Sec_Fetch_Site=site) is None, "a link may lead here"
        assert refused_site(Sec_Fetch_Site=site, Origin="https://shop.example") is None, "it is listed"


def test_only_a_listed_site_may_read_and_it_is_named_exactly() -> None:
    listed = dict(allowed_origin(head_of(Origin="https://shop.example"), WEB))
    assert listed[b"Access-Control-Allow-Origin"] == b"https://shop.example" and listed[b"Vary"] == b"Origin"
    assert b"Access-Control-Allow-Credentials" not in listed
    for origin in ("https://evil.example", "null", "http://localhost", None):
        assert allowed_origin(head_of(Origin=origin), WEB) == ((b"Vary", b"Origin"),)
        assert allowed_origin(head_of(Origin=origin), DEFAULT_WEB) == ()


def test_a_preflight_allows_the_headers_that_it_names() -> None:
    def allowed(asked: str | None) -> bytes | None:
        head = head_of("OPTIONS", Access_Control_Request_Method="PUT", Access_Control_Request_Headers=asked)
        found = dict(preflight(head).headers)
        assert found[b"Access-Control-Allow-Methods"] == b"GET, HEAD, POST, PUT, DELETE"
        assert b"Access-Control-Allow-Credentials" not in found
        return found.get(b"Access-Control-Allow-Headers")

    assert allowed("content-type, message-x,authorization") == b"content-type, message-x,authorization"
    for wrong in (None, "", "*", "a b", "a,", "a;b", "\xe4"):
        assert allowed(wrong) is None, wrong


# ---- logins


def basic(text: bytes) -> bytes:
    return b"Basic " + b64encode(text)


@pytest.mark.parametrize(
    ("authorization", "name", "secret"),
    [
        (None, b"", b""),
        (basic(b"ann:secret"), b"ann", b"secret"),
        (b"bASIC  " + b64encode(b"ann:secret") + b" ", b"ann", b"secret"),
        (basic(b"ann:a:b:"), b"ann", b"a:b:"),
        (basic(b"ann:"), b"ann", b""),
        (basic(b"ann"), b"ann", b""),
        (basic(b":token"), b"", b"token"),
        (basic(b"\xff\0:\xfe"), b"\xff\0", b"\xfe"),
        (b"Bearer abc", b"", b"abc"),
        (b"BEARER  abc ", b"", b"abc"),
    ],
)
def test_a_login_is_read(authorization: bytes | None, name: bytes, secret: bytes) -> None:
    assert credentials(authorization) == (name, secret)


@pytest.mark.parametrize(
    "authorization",
    [b"", b"-", b"Basic", b"Basic ", b"Basic !", b"Basic YQ", b"Basic Y Q==", b"Basic YQ==YQ==", b"Basic Og==",
     b"Bearer", b"Bearer ", b"Digest a", b"Basic\tYQ==", b"Bearer\xa0"],
)  # fmt: skip
def test_what_is_no_login_is_nobodys_and_not_none(authorization: bytes) -> None:
    name, secret = credentials(authorization)
    assert name == b"\0" and secret == authorization


def test_what_is_an_own_page() -> None:
    own = {"Host": "broker.example:1"}
    for more in (
        {}, {"Origin": "http://broker.example:1"}, {"Origin": "https://BROKER.example:1"}, {"Sec_Fetch_Site": "none"},
        {"Origin": "http://broker.example:1", "Sec_Fetch_Site": "same-origin"},
    ):  # fmt: skip
        assert is_own_page(head_of(**own, **more)), more
    for more in (
        {"Origin": "null"}, {"Origin": ""}, {"Origin": "http://broker.example:2"}, {"Origin": "https://shop.example"},
        {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"}, {"Sec_Fetch_Site": ""},
        {"Origin": "http://broker.example:1", "Sec_Fetch_Site": "same-site"},
        {"Origin": "http://broker.example:2", "Sec_Fetch_Site": "same-origin"},
    ):  # fmt: skip
        assert not is_own_page(head_of(**own, **more)), more


def test_a_browser_that_a_script_has_asked_gets_no_challenge() -> None:
    def is_challenged(**headers: str) -> bool:
        answer = login_refused(head_of(**headers), Refusal(FORBIDDEN, "It is wrong."))
        assert answer.status == 401
        return any(name == b"WWW-Authenticate" for name, _ in answer.headers)

    assert is_challenged() and is_challenged(Sec_Fetch_Mode="navigate") and is_challenged(Cookie="radiator=x")
    for mode in ("cors", "same-origin", "no-cors", "websocket", "", "NAVIGATE"):
        assert not is_challenged(Sec_Fetch_Mode=mode)
    assert not is_challenged(X_Requested_With="fetch") and not is_challenged(X_Requested_With="")


def test_who_logs_in_by_a_body_gets_no_challenge_and_hears_what_it_has() -> None:
    answer = login_refused(head_of("POST"), Refusal(FORBIDDEN, "It is wrong."), is_in_body=True)
    assert answer.status == 401 and answer.headers == () and b"`user` and `password`" in answer.body
    assert login_refused(head_of("POST"), Refusal("connections", "Too many wait."), True).status == 503


def test_the_end_of_a_cookie_is_that_of_the_connection() -> None:
    over = cookie_over(7)
    assert (over.connection, over.code, over.scope) == (7, FORBIDDEN, Scope.CONNECTION)
    assert "log in again" in over.sentence


def test_who_has_a_cookie_that_does_not_count_is_sent_to_log_in_again() -> None:
    for cookie, is_again in (("radiator=x", True), ("__Host-radiator=x", True), ("a=radiator", False), (None, False)):
        body = login_refused(head_of(Cookie=cookie), Refusal(FORBIDDEN, "It is wrong.")).body
        assert (b"log in again" in body) is is_again and (b"Authorization" in body) is not is_again
    assert login_refused(head_of(), Refusal("connections", "Too many wait.")).status == 503
