"""Logins in cookies: when they end, how many there are, and what a reload does to them. Time is an argument."""

import hashlib
from dataclasses import replace

import pytest

from radiator.auth.cookies import CookieTable
from radiator.auth.jwt import JwtMechanism
from radiator.auth.scrypt import Cost, made
from radiator.auth.tokens import sha256_of, text_of
from radiator.model.limits import COOKIE_IDLE_S, COOKIE_MAX_S, COOKIES_MAX, COOKIES_OF_USER
from radiator.model.principal import ANYONE, Principal, RecognisedBy, node_principal, unix_principal
from radiator.model.rights import OPERATOR, Rules
from radiator.model.settings import JwtSettings
from radiator.model.users import ANONYMOUS, Token, User, UserBounds

TOKEN = text_of(bytes(32))
SHA256 = sha256_of(TOKEN.encode())
ANN = User(name="ann", password=str(made(b"right", bytes(16), Cost(ln=10))), tokens=(Token(SHA256, 9_000),), jwt=True)
BY_PASSWORD = Principal("ann", RecognisedBy.PASSWORD)
BY_TOKEN = Principal("ann", RecognisedBy.TOKEN, until_ms=9_000, proof=SHA256)
BY_JWT = Principal("ann", RecognisedBy.JWT, until_ms=9_000)
NOW_S = 100.0


def jwt_mechanism(text: bytes = b"keys") -> JwtMechanism:
    return JwtMechanism(JwtSettings(keys=None, issuer="i", audience="a", algorithms=("ES256",)), text, {})  # type: ignore[arg-type, call-arg]


def key(number: int = 0) -> bytes:
    return hashlib.sha256(b"%d" % number).digest()


def table_of(*users: User, jwt: JwtMechanism | None = None) -> CookieTable:
    table = CookieTable()
    table.use({user.name: user for user in users}, jwt)
    return table


def with_one(principal: Principal = BY_PASSWORD, jwt: JwtMechanism | None = None) -> CookieTable:
    table = table_of(ANN, jwt=jwt)
    assert table.give(principal, key(), NOW_S) is not None
    return table


def finds(table: CookieTable, now_s: float = NOW_S, now_ms: int = 0, number: int = 0) -> Principal | None:
    login = table.find(key(number), now_s, now_ms)
    return None if login is None else login.principal


def test_it_is_found_by_its_key_and_by_no_other() -> None:
    table = with_one()
    assert finds(table) == BY_PASSWORD and finds(table, number=1) is None
    assert finds(CookieTable()) is None


def test_it_ends_when_it_is_not_used_and_a_use_puts_that_off() -> None:
    table = with_one()
    used_s = NOW_S + COOKIE_IDLE_S - 0.001
    assert finds(table, used_s) and finds(table, used_s + COOKIE_IDLE_S - 0.001)
    assert finds(with_one(), NOW_S + COOKIE_IDLE_S) is None
    assert len(table) == 1 and finds(table, used_s + 3 * COOKIE_IDLE_S) is None and len(table) == 0


def test_it_ends_in_any_case() -> None:
    table, now_s = with_one(), NOW_S
    while now_s + COOKIE_IDLE_S - 1 < NOW_S + COOKIE_MAX_S:
        now_s += COOKIE_IDLE_S - 1
        assert finds(table, now_s)
    assert finds(table, NOW_S + COOKIE_MAX_S - 0.001)
    assert finds(table, NOW_S + COOKIE_MAX_S) is None


@pytest.mark.parametrize("principal", [BY_TOKEN, BY_JWT])
def test_it_ends_with_what_has_proved_it(principal: Principal) -> None:
    assert finds(with_one(principal, jwt_mechanism()), now_ms=8_999) == principal
    assert finds(with_one(principal, jwt_mechanism()), now_ms=9_000) is None


def test_what_has_ended_does_not_come_back() -> None:
    table = with_one()
    assert finds(table, NOW_S + COOKIE_IDLE_S) is None and finds(table, NOW_S) is None
    table = with_one()
    table.forget(key())
    table.forget(key())
    assert finds(table) is None


@pytest.mark.parametrize("principal", [
    ANYONE, Principal(ANONYMOUS), unix_principal(0, 0), node_principal("ann"), replace(BY_PASSWORD, name="bob"),
    Principal("ann", RecognisedBy.CERTIFICATE, proof="CN=ann"), Principal("ann", RecognisedBy.PEER_CREDENTIALS, 5, 5),
    replace(BY_TOKEN, proof="0" * 64), replace(BY_JWT, name="bob"),
])  # fmt: skip
def test_it_is_given_to_nobody_who_has_no_login_that_stands(principal: Principal) -> None:
    table = table_of(ANN, User(name="bob"), jwt=jwt_mechanism())
    assert table.give(principal, key(), NOW_S) is None and len(table) == 0


# ---- reload


@pytest.mark.parametrize(("principal", "changed"), [
    (BY_PASSWORD, replace(ANN, password=None)),
    (BY_PASSWORD, replace(ANN, password=str(made(b"other", bytes(16), Cost(ln=10))))),
    (BY_TOKEN, replace(ANN, tokens=())),
    (BY_TOKEN, replace(ANN, tokens=(Token("1" * 64),))),
    (BY_JWT, replace(ANN, jwt=False)),
    (BY_PASSWORD, None), (BY_TOKEN, None), (BY_JWT, None),
])  # fmt: skip
def test_a_reload_ends_it_that_changes_what_has_proved_it(principal: Principal, changed: User | None) -> None:
    table = with_one(principal, jwt_mechanism())
    assert table.hold(key(), 7)
    table.use({} if changed is None else {"ann": changed}, jwt_mechanism())
    assert finds(table) is None and table.cut_off == [7]
    table.use({"ann": ANN}, jwt_mechanism())
    assert finds(table) is None, "it does not come back"


@pytest.mark.parametrize("principal", [BY_PASSWORD, BY_TOKEN, BY_JWT])
def test_a_reload_that_changes_anything_else_does_not(principal: Principal) -> None:
    table = with_one(principal, jwt_mechanism())
    other = replace(ANN, rules=Rules(role=OPERATOR), bounds=UserBounds(max_connections=1), certificate="CN=ann")
    table.use({"ann": other, "bob": User(name="bob")}, jwt_mechanism())
    assert finds(table) == principal and table.cut_off == []


def test_other_keys_of_the_issuer_end_those_by_his_tokens_alone() -> None:
    for principal, stays in ((BY_JWT, False), (BY_PASSWORD, True), (BY_TOKEN, True)):
        table = with_one(principal, jwt_mechanism())
        table.use({"ann": ANN}, jwt_mechanism(b"other keys"))
        assert (finds(table) is not None) is stays
        table = with_one(principal, jwt_mechanism())
        table.use({"ann": ANN}, None)
        assert (finds(table) is not None) is stays


@pytest.mark.parametrize(("until_ms", "last_ms"), [(5_000, 4_999), (20_000, 19_999), (None, 10**12)])
def test_the_end_of_a_token_is_that_which_the_file_has_now(until_ms: int | None, last_ms: int) -> None:
    table = with_one(BY_TOKEN)
    table.use({"ann": replace(ANN, tokens=(Token(SHA256, until_ms),))}, None)
    assert finds(table, now_ms=last_ms)
    assert until_ms is None or finds(table, now_ms=until_ms) is None


# ---- how many


def test_a_user_has_so_many_and_the_longest_unused_goes() -> None:
    table = table_of(ANN, User(name="bob", password="x"))
    assert table.give(Principal("bob", RecognisedBy.PASSWORD), key(-1), NOW_S)
    for number in range(COOKIES_OF_USER):
        assert table.give(BY_PASSWORD, key(number), NOW_S)
    assert finds(table, number=0), "now the second is the longest unused"
    assert table.give(BY_PASSWORD, key(COOKIES_OF_USER), NOW_S) and len(table) == COOKIES_OF_USER + 1
    assert finds(table, number=1) is None
    assert all(finds(table, number=number) for number in (-1, 0, 2, COOKIES_OF_USER))


def test_one_whose_stream_is_open_goes_last() -> None:
    table = table_of(ANN)
    for number in range(COOKIES_OF_USER):
        table.give(BY_PASSWORD, key(number), NOW_S)
        assert number % 2 or table.hold(key(number), number)
    for number in range(COOKIES_OF_USER // 2):
        table.give(BY_PASSWORD, key(1000 + number), NOW_S)
        assert finds(table, number=2 * number + 1) is None and table.cut_off == []
        assert table.hold(key(1000 + number), 1000 + number)
    table.give(BY_PASSWORD, key(5000), NOW_S)
    assert finds(table, number=0) is None and table.cut_off == [0]


def full() -> CookieTable:
    """With as many as may be: of each user as many as he may have."""
    users = [User(name=f"u{number}", password="x") for number in range(COOKIES_MAX // COOKIES_OF_USER)]
    table = table_of(*users, ANN, User(name="bob", password="x"))
    for number in range(COOKIES_MAX):
        user = users[number % len(users)]
        assert table.give(Principal(user.name, RecognisedBy.PASSWORD), key(number), NOW_S)
    assert len(table) == COOKIES_MAX
    return table


def test_of_all_there_are_so_many_and_who_has_most_loses_one_to_who_has_none() -> None:
    table = full()
    table.forget(key(0))  # of u0, who has one less than the others
    assert table.give(BY_PASSWORD, key(2000), NOW_S) and len(table) == COOKIES_MAX
    assert table.give(Principal("bob", RecognisedBy.PASSWORD), key(2001), NOW_S) and len(table) == COOKIES_MAX
    assert finds(table, number=1) is None and all(finds(table, number=number) for number in (10, 2, 2000, 2001))


def test_who_has_one_where_there_are_too_many_loses_his_own() -> None:
    table = full()
    table.give(BY_PASSWORD, key(2000), NOW_S)
    table.give(BY_PASSWORD, key(2001), NOW_S)
    assert finds(table, number=2000) is None and finds(table, number=2001) and len(table) == COOKIES_MAX


# ---- streams


def test_a_stream_is_a_use_until_it_is_over_and_ends_in_any_case() -> None:
    table = with_one()
    assert table.hold(key(), 7)
    table.sweep(NOW_S + 3 * COOKIE_IDLE_S, 0)
    assert len(table) == 1
    table.release(7, NOW_S + 3 * COOKIE_IDLE_S)
    table.sweep(NOW_S + 4 * COOKIE_IDLE_S - 0.001, 0)
    assert len(table) == 1
    table.sweep(NOW_S + 4 * COOKIE_IDLE_S, 0)
    assert len(table) == 0 and table.cut_off == []
    table = with_one()
    assert table.hold(key(), 7) and table.hold(key(), 8)
    table.sweep(NOW_S + COOKIE_MAX_S - 0.001, 0)
    assert table.cut_off == []
    table.sweep(NOW_S + COOKIE_MAX_S, 0)
    assert sorted(table.cut_off) == [7, 8]
    table.release(7, NOW_S)


def test_a_stream_of_what_has_ended_is_not_held() -> None:
    table = with_one()
    table.forget(key())
    assert not table.hold(key(), 7)
    table.release(7, NOW_S)
    assert table.cut_off == []


def test_nothing_secret_is_shown() -> None:
    login = with_one(BY_TOKEN).find(key(), NOW_S, 0)
    assert login is not None and SHA256 not in repr(login) and repr(key()) not in repr(login)
