"""Cookies on the hub: what is random, which streams end, and when it is looked."""

import gevent
import pytest

from radiator.model.errors import Refusal
from radiator.model.limits import COOKIE_BYTES, COOKIE_IDLE_S, COOKIE_MAX_S, COOKIES_LOOK_S
from radiator.model.principal import ANYONE, Principal
from radiator.model.replies import Refuse
from radiator.protocols.http.cookie import key_of_value
from tests.protocols.http.browsers import ANN, CI, OF_ANN, OF_CI, Browsers
from tests.server.shell import until


def given(browsers: Browsers, principal: Principal = OF_ANN) -> bytes:
    return key_of_value(browsers.cookies.give(principal).value)


def ended(browsers: Browsers) -> list[int]:
    return sorted(one.connection for one in browsers.ended)


def test_each_value_is_another_one_of_so_many_random_bits() -> None:
    browsers = Browsers()
    values = {browsers.cookies.give(OF_ANN).value for _ in range(50)}
    assert len(values) == 50 and {len(value) for value in values} == {(COOKIE_BYTES * 8 + 5) // 6}
    assert browsers.cookies.find(ANYONE, next(iter(values))) is None, "the value itself is no key"


def test_when_it_ends_is_told_by_the_clock_of_people() -> None:
    browsers = Browsers()
    assert browsers.cookies.give(OF_CI).until_ms == 9_000
    key = given(browsers)
    assert browsers.cookies.until_ms(key) == 1_000 + COOKIE_MAX_S * 1000
    browsers.now_s += 60
    browsers.now_ms += 60_000 + 3_600_000
    assert browsers.cookies.until_ms(key) == 1_000 + 3_600_000 + COOKIE_MAX_S * 1000, "which has gone on an hour more"
    browsers.cookies.forget(key)
    assert browsers.cookies.until_ms(key) is None


def test_a_stream_ends_at_once_with_the_logout() -> None:
    browsers = Browsers()
    key, other = given(browsers), given(browsers)
    assert browsers.cookies.hold(key, 7) and browsers.cookies.hold(key, 8) and browsers.cookies.hold(other, 9)
    browsers.cookies.forget(key)
    assert browsers.ended == [], "not while the connection that asks is being read from"
    gevent.sleep(0)
    assert ended(browsers) == [7, 8]
    assert browsers.ended[0] == Refuse(
        browsers.ended[0].connection, "forbidden", "The session of the cookie has ended: log in again."
    )


def test_streams_end_within_a_second_of_a_reload_and_of_the_last_hour() -> None:
    browsers = Browsers()
    key = given(browsers)
    browsers.cookies.hold(key, 7)
    assert browsers.cookies.look_at_s == pytest.approx(browsers.now_s + COOKIES_LOOK_S)
    browsers.all.use({"ann": ANN})
    assert browsers.cookies.look(browsers.now_s) == browsers.now_s + COOKIES_LOOK_S
    browsers.all.use({"ci": CI})
    assert browsers.cookies.look(browsers.now_s) == 0.0, "there is none any more"
    until(lambda: ended(browsers) == [7])
    browsers = Browsers()
    key = given(browsers)
    browsers.cookies.hold(key, 7)
    browsers.now_s += COOKIE_MAX_S
    browsers.cookies.look(browsers.now_s)
    until(lambda: ended(browsers) == [7])


def test_one_that_nobody_uses_is_gone_by_itself() -> None:
    browsers = Browsers()
    given(browsers)
    browsers.now_s += COOKIE_IDLE_S - 0.001
    assert browsers.cookies.look(browsers.now_s) and len(browsers.all.cookies) == 1
    browsers.now_s += 0.001
    assert not browsers.cookies.look(browsers.now_s) and len(browsers.all.cookies) == 0


def test_a_stream_that_is_over_is_not_ended_again() -> None:
    browsers = Browsers()
    key = given(browsers)
    browsers.cookies.hold(key, 7)
    browsers.cookies.release(7)
    browsers.cookies.forget(key)
    assert browsers.all.cookies.cut_off == []


def test_who_has_no_login_gets_none() -> None:
    browsers = Browsers()
    with pytest.raises(Refusal, match="anyone is recognised by the connection itself") as found:
        browsers.cookies.give(ANYONE)
    assert found.value.code == "no-session"
