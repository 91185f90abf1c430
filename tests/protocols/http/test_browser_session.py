"""`/v1/session`: logging in, out, and who one is; and what somebody may try with it."""

import json
import time

import pytest
from websockets.client import ClientProtocol
from websockets.protocol import State
from websockets.uri import parse_uri

from radiator import __version__
from radiator.model.commands import Identify, Open, PublishAll
from radiator.model.errors import Refusal
from radiator.model.limits import COOKIE_IDLE_S, COOKIE_MAX_S, FAILURES_OF_NAME, HTTP_LOGIN_BYTES
from radiator.model.principal import Principal, RecognisedBy, unix_principal
from radiator.model.replies import Answered, Published, Scope
from radiator.model.rights import RIGHTS
from radiator.model.settings import WebSettings
from radiator.model.users import ANONYMOUS, User
from radiator.protocols.http.exchange import LoginGiven, Route
from radiator.protocols.http.operations import IDENTITY
from radiator.protocols.http.routes import ROUTES
from tests.protocols.http.asking import Asking, request
from tests.protocols.http.browsers import (
    ANN,
    JSON,
    OF_ANN,
    OF_CI,
    PASSWORD,
    PUBLISH,
    TOKEN,
    Browsers,
    logging_in,
    verdict_of,
)

EVERYTHING = {right: ["/#"] for right in RIGHTS}
SHOP = WebSettings(origins=frozenset({"https://shop.example"}))
STRANGER = {"ok": True, "user": None, "users": True}


def by(cookie: str, method: str = "GET", path: str = "/v1/queues", body: bytes = b"", **more: str | None) -> bytes:
    return request(method, path, body, **{"Cookie": cookie, **more})


def publish(cookie: str | None, **more: str | None) -> bytes:
    batch = b'{"messages": [{"body": "x"}]}'
    return request("POST", PUBLISH, batch, **{"Cookie": cookie, **JSON, **more})


# ---- logging in


def test_a_password_is_judged_by_its_thread_and_gets_a_cookie() -> None:
    browsers = Browsers()
    asking = browsers.connect()
    assert asking.send(logging_in()) == [] and asking.sent == b"" and asking.session.pending is not None
    assert asking.verdict() == []
    (answer,) = asking.answers()
    assert answer.status == 200
    assert json.loads(answer.body) == {"ok": True, "user": "ann", "until_ms": 1_000 + COOKIE_MAX_S * 1000}
    name, _, value = answer.headers["Set-Cookie"].partition("=")
    assert name == "radiator" and value[43:] == "; Path=/; HttpOnly; SameSite=Strict"
    assert answer.headers["Cache-Control"] == "no-store" and not asking.session.is_closing
    assert not asking.session.is_open and asking.session.buffered_bytes == 0


def test_a_token_is_judged_at_once_and_the_cookie_ends_with_it() -> None:
    browsers = Browsers()
    for given in ({"token": TOKEN}, {"user": "ci", "password": TOKEN}):
        answer = browsers.log_in(given=given)
        assert json.loads(answer.body) == {"ok": True, "user": "ci", "until_ms": 9_000}
    cookie = answer.headers["Set-Cookie"].partition(";")[0]
    assert browsers.identity(cookie)["until_ms"] == 9_000
    browsers.now_ms = 9_000
    assert browsers.identity(cookie) == STRANGER


def test_over_tls_the_cookie_is_of_this_host_alone() -> None:
    browsers = Browsers()
    for asking, origin in ((browsers.connect(is_encrypted=True), None), (browsers.connect(), "https://localhost")):
        given = browsers.log_in(asking, Origin=origin).headers["Set-Cookie"]
        assert given.startswith("__Host-radiator=") and given.endswith("; Path=/; Secure; HttpOnly; SameSite=Strict")
        assert browsers.identity(given.partition(";")[0])["user"] == "ann"


@pytest.mark.parametrize("given", [
    {"user": "ann", "password": "wrong"}, {"user": "nobody", "password": "right"}, {"user": "ann", "password": ""},
    {"user": "ci", "password": "right"}, {"token": "wrong"}, {"token": TOKEN[:-1] + "B"},
    {"user": "ann", "password": TOKEN}, {"user": "cert", "password": "CN=cert"},
    {"user": ANONYMOUS, "password": ""}, {"token": "x" * 2000},
])  # fmt: skip
def test_everybody_else_gets_one_and_the_same_answer(given: dict[str, str]) -> None:
    browsers = Browsers()
    asking = browsers.connect()
    answer = browsers.log_in(asking, given)
    assert answer.status == 401 and "Set-Cookie" not in answer.headers and "WWW-Authenticate" not in answer.headers
    assert answer.body == browsers.log_in(given={"user": "bob", "password": "x"}).body
    assert asking.session.is_closing and len(browsers.failed) == 2
    assert browsers.failed[0] == ("10.0.0.1:5", "10.0.0.1", given.get("user", ""))


@pytest.mark.parametrize("body", [
    b"", b"{}", b"[]", b"null", b"secret", b'"secret"', b'{"user": "ann"}', b'{"password": "secret"}', b'{"token": ""}',
    b'{"user": "", "password": "secret"}', b'{"user": "ann", "password": 1}', b'{"user": null, "password": "secret"}',
    b'{"user": "ann", "password": "secret", "token": "x"}', b'{"user": "ann", "password": "secret", "more": 1}',
    b'{"user": "ann", "password": "secret", "password": "right"}', b'{"token": "\\ud800"}', b'{"token": ["secret"]}',
    b'{"user": "a b", "password": "secret"}', b'{"user": "ann", "password": "secret"', b"\xff", b"{" * 5000,
    b'{"user": "\\udc00", "password": "secret"}',
])  # fmt: skip
def test_what_is_no_login_is_refused_and_nothing_of_it_repeated(body: bytes) -> None:
    browsers = Browsers()
    asking = browsers.connect()
    answer = browsers.log_in(asking, body)
    assert answer.status == 400 and asking.session.pending is None
    assert b"secret" not in asking.sent and browsers.failed == [] and "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_no_form_logs_anybody_in(kind: str | None) -> None:
    browsers = Browsers()
    assert browsers.log_in(Content_Type=kind).status == 415 and browsers.failed == []


def test_the_body_of_a_stranger_has_a_bound() -> None:
    browsers = Browsers()
    body = json.dumps(PASSWORD).encode()
    for more, status in ((0, 200), (1, 413)):
        asking = browsers.connect()
        answer = browsers.log_in(asking, body.ljust(HTTP_LOGIN_BYTES + more))
        assert answer.status == status and asking.session.buffered_bytes == 0
        assert asking.session.is_closing is (status == 413)


def test_a_page_of_another_site_logs_nobody_in_and_out() -> None:
    browsers = Browsers()
    cookie = browsers.cookie()
    for headers, web in (
        ({"Origin": "https://shop.example"}, SHOP),
        ({"Origin": "https://shop.example", "Sec_Fetch_Site": "same-site"}, SHOP),
        ({"Origin": "https://evil.example"}, SHOP),
        ({"Origin": "http://localhost:3000"}, SHOP),
        ({"Sec_Fetch_Site": "cross-site"}, SHOP),
    ):
        asking = browsers.connect(web=web)
        assert browsers.log_in(asking, **headers).status == 403 and asking.session.pending is None
        asking = browsers.connect(web=web)
        asking.send(by(cookie, "DELETE", "/v1/session", **headers))
        (answer,) = asking.answers()
        assert answer.status == 403 and "Set-Cookie" not in answer.headers
        assert "Access-Control-Allow-Credentials" not in answer.headers
    assert browsers.identity(cookie)["user"] == "ann"


def test_what_was_guessed_too_often_is_judged_no_more_and_counts_with_basic() -> None:
    browsers = Browsers()
    for number in range(FAILURES_OF_NAME):
        assert browsers.log_in(given={"user": "ann", "password": f"wrong{number}"}).status == 401
    asking = browsers.connect()
    answer = browsers.log_in(asking)
    assert answer.status == 401 and b"Too many logins" in answer.body and asking.session.pending is None
    asking = browsers.connect()
    asking.send(request("GET", "/v1/queues", Authorization="Basic YW5uOnJpZ2h0"))
    assert b"Too many logins" in asking.sent


def test_where_too_many_wait_it_may_be_tried_again() -> None:
    browsers = Browsers()
    asking = browsers.connect()
    asking.send(logging_in())
    asking.verdict(Refusal("connections", "Too many connections wait to be recognised: try again later."))
    assert asking.statuses == [503] and "Retry-After" in asking.answers()[0].headers


def test_without_users_nobody_logs_in() -> None:
    asking = Asking()
    asking.send(logging_in() + request("GET", "/v1/session") + request("DELETE", "/v1/session"))
    refused, identity, out = asking.answers()
    assert refused.status == 409 and json.loads(refused.body)["code"] == "no-session"
    assert json.loads(identity.body) == {
        "ok": True, "user": None, "recognised_by": "nothing", "rights": EVERYTHING, "role": "", "users": False,
        "until_ms": None, "node": None, "version": __version__,
    }  # fmt: skip
    assert out.status == 204


def test_who_is_recognised_by_his_connection_gets_none() -> None:
    browsers = Browsers()
    cert = Principal("cert", RecognisedBy.CERTIFICATE, proof="CN=cert")
    answer = browsers.log_in(browsers.connect(cert), {"user": "cert", "password": "whatever"})
    assert answer.status == 409 and b"certificate" in answer.body and "Set-Cookie" not in answer.headers
    assert browsers.log_in(browsers.connect(cert)).status == 401, "another user, as by Basic"
    root = browsers.connect(unix_principal(0, 0))
    assert browsers.log_in(root).status == 200, "with the password of a user he is that one"


# ---- its requests


def test_requests_are_in_the_name_of_who_has_logged_in() -> None:
    browsers = Browsers()
    asking = browsers.connect()
    cookie = browsers.cookie(asking)
    opened, command = asking.send(publish(cookie))
    assert isinstance(opened, Open) and opened.principal == OF_ANN and isinstance(command, PublishAll)
    asking.reply(Published(7, command.receipt, [b"1"], 0))
    assert asking.statuses == [200, 201]


def test_the_value_is_made_by_the_broker_and_never_taken_from_the_client() -> None:
    browsers = Browsers()
    fixed = "radiator=" + "x" * 43
    cookie = browsers.cookie(Cookie=fixed)
    assert cookie != fixed and browsers.identity(fixed) == STRANGER and browsers.identity(cookie)["user"] == "ann"
    again = browsers.cookie(Cookie=cookie)
    assert again != cookie and browsers.identity(cookie) == STRANGER, "a new login is in its place"
    assert browsers.identity(again)["user"] == "ann"
    assert browsers.log_in(given={"user": "ann", "password": "wrong"}, Cookie=again).status == 401
    assert browsers.identity(again)["user"] == "ann", "one that is wrong ends nothing"


def test_two_logins_at_once_are_two_sessions() -> None:
    browsers = Browsers()
    one, other = browsers.connect(), browsers.connect()
    one.send(logging_in())
    other.send(logging_in())
    verdict = verdict_of(one)
    for asking in (other, one):
        asking.verdict(verdict)
    cookies = {asking.answers()[0].headers["Set-Cookie"].partition(";")[0] for asking in (one, other)}
    assert len(cookies) == 2 and all(browsers.identity(cookie)["user"] == "ann" for cookie in cookies)


def test_a_login_on_a_connection_of_another_user_makes_him_nobody_else() -> None:
    browsers = Browsers()
    asking = browsers.connect()
    token = f"Bearer {TOKEN}"
    (opened, listed) = asking.send(request("GET", "/v1/queues", Authorization=token) + logging_in())
    assert isinstance(opened, Open) and opened.principal == OF_CI and asking.session.pending is None
    asking.reply(Answered(7, listed.receipt, b"{}"))  # type: ignore[attr-defined]
    assert asking.verdict() == []
    cookie = asking.answers()[-1].headers["Set-Cookie"].partition(";")[0]
    identify, listed = asking.send(by(cookie))
    assert identify == Identify(7, OF_ANN)
    asking.reply(Answered(7, listed.receipt, b"{}"))  # type: ignore[attr-defined]
    identify, listed = asking.send(request("GET", "/v1/queues", Authorization=token))
    assert identify == Identify(7, OF_CI)
    asking.reply(Answered(7, listed.receipt, b"{}"))  # type: ignore[attr-defined]
    asking.send(request("GET", "/v1/queues"))
    assert asking.statuses == [200, 200, 200, 200, 401]


def test_requests_behind_a_login_wait_for_it_and_are_not_in_its_name() -> None:
    browsers = Browsers()
    asking = browsers.connect()
    assert asking.send(logging_in() + publish(None)) == []
    assert asking.verdict() == [] and asking.statuses == [200, 401] and asking.session.is_closing
    asking = browsers.connect()
    asking.send(logging_in({"user": "ann", "password": "wrong"}) + request("GET", "/healthz"))
    asking.verdict(verdict_of(asking))
    assert asking.statuses == [401] and asking.session.is_closing


def test_a_login_behind_requests_of_another_is_answered_behind_them() -> None:
    browsers = Browsers()
    asking = browsers.connect()
    cookie = browsers.cookie()
    _, first = asking.send(publish(cookie) + logging_in())
    assert asking.session.pending is None, "the login of before is remembered"
    assert asking.sent == b""
    asking.reply(Published(7, first.receipt, [b"1"], 0))  # type: ignore[attr-defined]
    assert asking.statuses == [201, 200]


def test_the_requests_of_a_session_do_not_go_on_where_it_has_ended() -> None:
    browsers = Browsers()
    cookie, asking = browsers.cookie(), browsers.connect()
    head = publish(cookie)
    _, command = asking.send(head)
    asking.reply(Published(7, command.receipt, [b"1"], 0))  # type: ignore[attr-defined]
    browsers.now_s += COOKIE_IDLE_S
    assert asking.send(head) == []
    answer = asking.answers()[-1]
    assert answer.status == 401 and b"log in again" in answer.body and asking.session.is_closing


@pytest.mark.parametrize("path", ["/", "/healthz", "/client.js", "/v1/openapi.json"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_what_is_free_of_a_login_does_not_look_at_cookies(path: str, method: str) -> None:
    browsers = Browsers()
    cookie = browsers.cookie()
    browsers.now_s += COOKIE_IDLE_S - 1
    for one in (cookie, "radiator=wrong"):
        asking = browsers.connect()
        asking.send(by(one, method, path))
        assert asking.answers(heads=[0] if method == "HEAD" else [])[0].status == 200 and asking.commands == []
    browsers.now_s += 1
    assert browsers.identity(cookie) == STRANGER, "it was not used in between"


def test_metrics_and_readiness_take_a_cookie() -> None:
    browsers = Browsers()
    cookie = browsers.cookie()
    for path in ("/metrics", "/readyz"):
        asking = browsers.connect()
        opened, _ = asking.send(by(cookie, path=path))
        assert isinstance(opened, Open) and opened.principal == OF_ANN
    asking = browsers.connect()
    asking.send(by("radiator=wrong", path="/readyz"))
    assert asking.statuses == [503] and asking.commands == []


def test_a_preflight_needs_no_cookie_and_gets_no_credentials() -> None:
    browsers = Browsers()
    asking = browsers.connect(web=SHOP)
    asked = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": "content-type"}
    asking.send(by(browsers.cookie(), "OPTIONS", "/v1/session", Origin="https://shop.example", **asked))
    (answer,) = asking.answers()
    assert answer.status == 204 and "Access-Control-Allow-Credentials" not in answer.headers
    asking = browsers.connect()
    asking.send(by(browsers.cookie(), "OPTIONS", "/v1/session"))
    assert asking.statuses == [405] and "POST, DELETE, GET" in asking.answers()[0].headers["Allow"]


UNSAFE = [route for route in ROUTES if route.method not in ("GET", "HEAD") and not route.is_free]


@pytest.mark.parametrize(
    "route", UNSAFE, ids=lambda one: f"{one.method} /{'/'.join(part or 'NAME' for part in one.path)}"
)
def test_no_other_page_changes_anything_by_a_cookie(route: Route) -> None:
    browsers = Browsers()
    cookie = browsers.cookie()
    path = "/" + "/".join(part or "x" for part in route.path)
    listed = {"Origin": "https://shop.example", **JSON}
    tries: list[tuple[int, dict[str, str]]] = [
        (401, listed),
        (401, {**listed, "Sec_Fetch_Site": "same-site"}),
        (403, {"Origin": "http://localhost:3000", **JSON}),
        (403, {"Origin": "null", **JSON}),
        (403, {"Sec_Fetch_Site": "same-site", **JSON}),
        (403, {"Sec_Fetch_Site": "cross-site", **JSON}),
    ]
    if route.method == "POST":  # a browser sends no other one of another site without asking first, as is seen below
        kinds = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", None)
        tries += [(415, {"Content_Type": kind} if kind else {}) for kind in kinds]
    for status, headers in tries:
        asking = browsers.connect(web=SHOP)
        asking.send(by(cookie, route.method, path, **headers))
        assert asking.statuses == [status] and asking.commands == [], headers
    asking = browsers.connect(web=SHOP)
    asking.send(by(cookie, "OPTIONS", path, Origin="http://localhost:3000", Access_Control_Request_Method=route.method))
    assert asking.statuses == [403]
    asking = browsers.connect(web=SHOP)
    asking.send(by(cookie, route.method, path, **JSON, Origin="http://localhost", Sec_Fetch_Site="same-origin"))
    assert asking.commands[0] == Open(7, closes_at=Scope.CONNECTION, principal=OF_ANN)


@pytest.mark.parametrize("path", ["/ws", "/stomp"])
def test_no_websocket_is_opened_by_a_cookie(path: str) -> None:
    browsers = Browsers()
    upgrade = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec_WebSocket_Version": "13",
    }
    cookie = browsers.cookie()
    for origin, status in (("http://localhost:3000", 403), ("https://shop.example", 101), ("http://localhost", 101)):
        asking = browsers.connect(web=SHOP)
        asking.send(by(cookie, path=path, Origin=origin, **upgrade))
        assert asking.statuses == [status] and asking.commands == []
        if status == 101:
            client = ClientProtocol(parse_uri(f"ws://localhost{path}"))
            client.state = State.OPEN
            client.send_binary(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
            assert asking.send(b"".join(client.data_to_send())) == []
            assert b"forbidden" in asking.sent and asking.session.is_closing, "CONNECT needs a login of its own"


# ---- logging out


def test_who_logs_out_is_nobody_and_his_browser_forgets_the_cookie() -> None:
    browsers = Browsers()
    cookie, asking = browsers.cookie(), browsers.connect()
    asking.send(by(cookie, "DELETE", "/v1/session") + by(cookie, "DELETE", "/v1/session"))
    for answer in asking.answers():
        assert answer.status == 204 and answer.body == b""
        assert answer.headers["Set-Cookie"] == "radiator=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"
    assert browsers.identity(cookie) == STRANGER
    asking = browsers.connect(is_encrypted=True)
    asking.send(request("DELETE", "/v1/session"))
    assert asking.answers()[0].headers["Set-Cookie"].startswith("__Host-radiator=; Path=/; Max-Age=0; Secure")


def test_what_comes_before_a_logout_is_done_and_nothing_behind_it() -> None:
    browsers = Browsers()
    cookie, asking = browsers.cookie(), browsers.connect()
    out = by(cookie, "DELETE", "/v1/session")
    _, command = asking.send(publish(cookie) + out + publish(cookie))
    assert isinstance(command, PublishAll)
    asking.reply(Published(7, command.receipt, [b"1"], 0))
    assert asking.statuses == [201, 204, 401] and len(asking.of_broker) == 1


def test_another_session_of_the_same_user_stays() -> None:
    browsers = Browsers()
    one, other, asking = browsers.cookie(), browsers.cookie(), browsers.connect()
    asking.send(by(one, "DELETE", "/v1/session"))
    assert browsers.identity(one) == STRANGER and browsers.identity(other)["user"] == "ann"


def test_a_stream_whose_session_has_ended_before_it_began_ends_at_once() -> None:
    browsers = Browsers()
    cookie, asking = browsers.cookie(), browsers.connect()
    _, asked = asking.send(by(cookie, path="/v1/stats/events"))
    other = browsers.connect()
    other.send(by(cookie, "DELETE", "/v1/session"))
    asking.reply(Answered(7, asked.receipt, b"{}"))  # type: ignore[attr-defined]
    assert b"event: refused\n" in asking.sent and b"log in again" in asking.sent and asking.session.is_closing


def test_a_stream_is_a_use_until_its_connection_is_over() -> None:
    browsers = Browsers()
    cookie, asking = browsers.cookie(), browsers.connect()
    _, asked = asking.send(by(cookie, path="/v1/stats/events"))
    asking.reply(Answered(7, asked.receipt, b"{}"))  # type: ignore[attr-defined]
    browsers.now_s += 2 * COOKIE_IDLE_S
    browsers.cookies.look(browsers.now_s)
    asking.session.forget()
    browsers.now_s += COOKIE_IDLE_S - 1
    assert browsers.identity(cookie)["user"] == "ann"
    browsers.now_s += COOKIE_IDLE_S
    assert browsers.identity(cookie) == STRANGER


# ---- who one is


def test_a_stranger_is_shown_nothing_of_the_broker() -> None:
    browsers = Browsers()
    asking = browsers.connect()
    for cookie in (None, "radiator=wrong", "radiator=" + "x" * 43):
        assert browsers.identity(cookie) == STRANGER
        assert browsers.identity(cookie, Sec_Fetch_Mode="cors", Origin="http://localhost") == STRANGER
    asking.send(request("HEAD", "/v1/session"))
    assert asking.answers(heads=[0])[0].status == 200 and asking.commands == [] and browsers.failed == []


def test_who_one_is_and_what_he_may_do() -> None:
    browsers = Browsers()
    found = browsers.identity(browsers.cookie())
    assert found == {
        "ok": True, "user": "ann", "recognised_by": "password", "rights": EVERYTHING, "role": "operator", "users": True,
        "until_ms": 1_000 + COOKIE_MAX_S * 1000, "node": "n1", "version": __version__,
    }  # fmt: skip
    found = browsers.identity(Authorization=f"Bearer {TOKEN}")
    assert (found["user"], found["recognised_by"], found["role"], found["until_ms"]) == ("ci", "token", "", 9_000)
    assert found["rights"] == {**dict.fromkeys(RIGHTS, []), "see": ["/queue/a"]}


def test_rights_are_those_in_force() -> None:
    browsers = Browsers()
    cookie = browsers.cookie()
    browsers.all.use({"ann": User(name="ann", password=ANN.password)})
    found = browsers.identity(cookie)
    assert found["user"] == "ann" and found["rights"] == dict.fromkeys(RIGHTS, []) and found["role"] == ""
    browsers.all.use({"bob": User(name="bob")})
    assert browsers.identity(cookie) == STRANGER


def test_without_a_login_one_is_anonymous_where_that_is_a_user() -> None:
    browsers = Browsers(ANN, User(name=ANONYMOUS))
    for cookie in (None, "radiator=wrong"):
        found = browsers.identity(cookie)
        assert (found["user"], found["users"], found["recognised_by"]) == (ANONYMOUS, True, "nothing")
    assert browsers.identity(browsers.cookie())["user"] == "ann"


def test_root_at_a_unix_socket_is_no_user_and_may_do_everything() -> None:
    browsers = Browsers()
    asking = browsers.connect(unix_principal(0, 0))
    asking.send(request("GET", "/v1/session"))
    found = json.loads(asking.answers()[0].body)
    assert found["user"] is None and found["users"] is True and found["rights"] == EVERYTHING
    assert found["recognised_by"] == "peer-credentials"


def test_the_document_has_each_member() -> None:
    assert IDENTITY.answers is not None
    ((_, content),) = IDENTITY.answers.values()
    schema = content["application/json"]
    browsers = Browsers()
    assert set(browsers.identity(browsers.cookie())) == set(schema["properties"])
    assert set(STRANGER) == set(schema["required"])


# ---- secrets and time


def test_nothing_secret_is_shown() -> None:
    assert "secret" not in repr(LoginGiven(b"ann", b"secret"))
    browsers = Browsers()
    cookie = browsers.cookie()
    value = cookie.partition("=")[2]
    given = browsers.cookies.give(OF_ANN)
    assert given.value.decode() not in repr(given)
    kept = repr([vars(browsers.all.cookies), *browsers.all.cookies._by_key.values()])
    assert value not in kept and "right" not in kept


def test_an_unknown_name_takes_as_long_as_a_known_one() -> None:
    def took_s(name: str) -> float:
        browsers = Browsers()
        asking = browsers.connect()
        asking.send(logging_in({"user": name, "password": "wrong"}))
        began_s = time.process_time()
        verdict = verdict_of(asking)
        ended_s = time.process_time()
        asking.verdict(verdict)
        assert asking.statuses == [401]
        return ended_s - began_s

    found = {name: sorted(took_s(name) for _ in range(9))[4] for name in ("ann", "ghost")}
    assert max(found.values()) < 3 * min(found.values()), found
