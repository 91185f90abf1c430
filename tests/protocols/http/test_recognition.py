"""Who makes a request: by its login, by its cookie, or by its transport; and which cookie counts."""

from base64 import b64encode

import pytest

from radiator.model.errors import Refusal
from radiator.model.principal import ANYONE, Principal, RecognisedBy, unix_principal
from radiator.protocols.http.head import BadRequest
from radiator.protocols.http.recognition import Recognition
from tests.protocols.http.asking import Users, head_of
from tests.protocols.http.browsers import CI, OF_ANN, OF_CI, TOKEN, Browsers

BASIC_CI = "Basic " + b64encode(f"ci:{TOKEN}".encode()).decode()


def recognition_of(browsers: Browsers, transport: Principal = ANYONE, is_encrypted: bool = False) -> Recognition:
    return Recognition(7, transport, browsers.all.login("peer", "network"), browsers.cookies, is_encrypted)


def given(browsers: Browsers, principal: Principal = OF_ANN) -> str:
    return "radiator=" + browsers.cookies.give(principal).value.decode()


def test_a_request_is_of_whose_cookie_it_has() -> None:
    browsers = Browsers()
    one, ann, ci = recognition_of(browsers), given(browsers), given(browsers, OF_CI)
    assert one.begin(head_of(Cookie=ann)) == OF_ANN and one.begin(head_of(Cookie=ci)) == OF_CI
    assert one.begin(head_of(Cookie=ann)) == OF_ANN
    with pytest.raises(Refusal):
        one.begin(head_of())


def test_nobody_is_remembered_by_a_cookie() -> None:
    browsers = Browsers()
    one, cookie = recognition_of(browsers), given(browsers)
    assert one.begin(head_of(Cookie=cookie)) == OF_ANN and one.cookie is not None
    one.forget(head_of(Cookie=cookie))
    with pytest.raises(Refusal):
        one.begin(head_of(Cookie=cookie))
    assert one.cookie is None


def test_beside_another_login_a_cookie_is_none() -> None:
    browsers = Browsers()
    one, cookie = recognition_of(browsers), given(browsers)
    assert one.begin(head_of(Cookie=cookie, Authorization=BASIC_CI)) == OF_CI and one.cookie is None
    for wrong in ("Bearer x", "", "Basic", "Basic YW5uOng="):
        found = None
        with pytest.raises(Refusal):
            found = one.begin(head_of(Cookie=cookie, Authorization=wrong))
            assert not isinstance(found, Principal), "a password, which takes a thread"
            raise Refusal("x", "it takes a thread")
    assert one.begin(head_of(Cookie=cookie)) == OF_ANN
    one.forget(head_of(Cookie=cookie, Authorization=BASIC_CI))
    with pytest.raises(Refusal):
        one.begin(head_of(Cookie=cookie))  # a browser that has both logs out of both


@pytest.mark.parametrize("headers", [
    {"Origin": "http://localhost:3000"}, {"Origin": "null"}, {"Sec_Fetch_Site": "same-site"},
    {"Sec_Fetch_Site": "cross-site"}, {"Origin": "http://localhost", "Sec_Fetch_Site": "same-site"},
])  # fmt: skip
def test_what_another_page_asks_is_in_nobodys_name(headers: dict[str, str]) -> None:
    browsers = Browsers()
    one, cookie = recognition_of(browsers), given(browsers)
    with pytest.raises(Refusal):
        one.begin(head_of(Cookie=cookie, **headers))
    assert one.is_stranger(head_of(Cookie=cookie, **headers))
    one.forget(head_of(Cookie=cookie, **headers))
    assert one.begin(head_of(Cookie=cookie, Origin="http://localhost", Sec_Fetch_Site="same-origin")) == OF_ANN


def test_a_post_that_a_form_could_send_is_refused_by_its_type() -> None:
    browsers = Browsers()
    one, cookie = recognition_of(browsers), given(browsers)
    for kind in ("text/plain", "application/x-www-form-urlencoded", None):
        with pytest.raises(BadRequest) as found:
            one.begin(head_of("POST", Cookie=cookie, Content_Type=kind))
        assert found.value.status == 415 and one.cookie is None
        with pytest.raises(Refusal):
            one.begin(head_of("POST", Cookie="radiator=wrong", Content_Type=kind))
    assert one.begin(head_of("POST", Cookie=cookie, Content_Type="application/json")) == OF_ANN
    assert one.begin(head_of("POST", Authorization=BASIC_CI, Content_Type="text/plain")) == OF_CI


def test_whom_the_transport_recognises_no_cookie_makes_another_one() -> None:
    browsers = Browsers()
    cert = Principal("cert", RecognisedBy.CERTIFICATE, proof="CN=cert")
    cookie = given(browsers)
    assert recognition_of(browsers, cert).begin(head_of(Cookie=cookie)) == cert
    root = recognition_of(browsers, unix_principal(0, 0))
    assert root.begin(head_of(Cookie=cookie)) == OF_ANN, "as by a login"
    assert root.begin(head_of()) == unix_principal(0, 0)
    assert recognition_of(browsers, unix_principal(1000, 0)).begin(head_of(Cookie=cookie)) == OF_ANN


def test_over_tls_the_name_without_it_is_none() -> None:
    browsers = Browsers()
    cookie = given(browsers)
    with pytest.raises(Refusal):
        recognition_of(browsers, is_encrypted=True).begin(head_of(Cookie=cookie))
    assert recognition_of(browsers, is_encrypted=True).begin(head_of(Cookie="__Host-" + cookie)) == OF_ANN


def test_a_login_in_a_body_is_that_of_no_request() -> None:
    browsers = Browsers()
    one = recognition_of(browsers)
    assert one.log_in(b"", TOKEN.encode()) == OF_CI
    for _ in range(2):
        with pytest.raises(Refusal):
            one.begin(head_of())
    check = one.log_in(b"ann", b"right")
    assert not isinstance(check, Principal)
    assert one.answered(head_of(), check()) == OF_ANN
    with pytest.raises(Refusal):
        one.begin(head_of())
    assert one.begin(head_of(Authorization=BASIC_CI)) == OF_CI


def test_who_is_a_stranger() -> None:
    browsers = Browsers()
    one, cookie = recognition_of(browsers), given(browsers)
    assert one.is_stranger(head_of()) and one.is_stranger(head_of(Cookie="radiator=wrong"))
    assert not one.is_stranger(head_of(Cookie=cookie)) and not one.is_stranger(head_of(Authorization=""))
    assert not Recognition(7, ANYONE, None, None, False).is_stranger(head_of())
    assert Recognition(7, ANYONE, Users(), None, False).is_stranger(head_of(Cookie=cookie))
    assert not Recognition(7, unix_principal(1001, 0), Users(), None, False).is_stranger(head_of())
    assert browsers.failed == [], "none of that is an attempt"


def test_without_users_nobody_is_asked_and_no_cookie_is_looked_at() -> None:
    one = Recognition(7, ANYONE, None, None, False)
    assert one.begin(head_of("POST", Cookie="radiator=" + "x" * 43, Content_Type="text/plain")) == ANYONE
    assert one.hold() and one.until_ms(OF_CI) == 9_000
    one.forget(head_of(Cookie="radiator=" + "x" * 43))
    one.release()


def test_a_stream_by_a_cookie_lasts_no_longer_than_that() -> None:
    browsers = Browsers()
    one, cookie = recognition_of(browsers), given(browsers)
    one.begin(head_of(Cookie=cookie))
    assert one.hold()
    one.release()
    one.release()
    one.begin(head_of(Cookie=cookie))
    one.forget(head_of(Cookie=cookie))
    assert not one.hold()
    one.begin(head_of(Authorization=BASIC_CI))
    assert one.hold(), "a login ends by itself"


def test_wrong_cookies_cost_no_hash_of_a_password_and_no_attempt_is_counted() -> None:
    browsers = Browsers()
    one = recognition_of(browsers)
    for number in range(1000):
        with pytest.raises(Refusal):
            one.begin(head_of(Cookie=f"radiator={number:043}"))
    assert len(browsers.all.of_networks) == len(browsers.all.of_names) == 0
    assert not isinstance(one.log_in(b"ann", b"right"), Refusal), "a login is judged as before"
    assert CI.name in browsers.users
