"""What each login is answered. Time is an argument, and a check is run where a test wants it."""

import gc
from collections.abc import Mapping

import pytest

from radiator.auth.authenticator import FORBIDDEN, Authenticator, refusal
from radiator.auth.scrypt import Cost, made
from radiator.auth.tokens import sha256_of, text_of
from radiator.model import limits
from radiator.model.errors import Refusal
from radiator.model.principal import ANYONE, Check, Login, Principal, RecognisedBy, Verdict, unix_principal
from radiator.model.users import ANONYMOUS, Token, User
from tests.cycles import in_cycles, without_collector

TOKEN = text_of(bytes(32))
OWN_UID = 4711
SALT = bytes(16)


def with_password(name: str, password: str = "right") -> User:
    return User(name=name, password=str(made(password.encode(), SALT, Cost(ln=10))))


USERS = {
    "shop": with_password("shop"),
    "ci": User(name="ci", tokens=(Token(sha256_of(TOKEN.encode()), 5000),)),
    "ops": User(name="ops", unix="ops", uid=1001),
    "cert": User(name="cert", certificate="CN=cert"),
}


class Asked:
    """An authenticator, and what it does. hashes: how many checks were run."""

    def __init__(self, users: Mapping[str, User] = USERS) -> None:
        self.now_s = 100.0
        self.now_ms = 0
        self.hashes = 0
        self.failed: list[tuple[str, str, str]] = []
        self.all = Authenticator(
            users, bytes(32), OWN_UID, lambda: self.now_s, lambda: self.now_ms, lambda *one: self.failed.append(one)
        )

    def begin(
        self, name: str = "", secret: str = "", principal: Principal = ANYONE, network: str = "10.0.0.1"
    ) -> tuple[Login, Principal | Check]:
        login = self.all.login(f"{network}:5", network)
        return login, login.begin(principal, name.encode(), secret.encode())

    def run(self, check: Check) -> Verdict:
        self.hashes += 1
        try:
            return check()
        except Refusal as refused:
            return refused

    def log_in(
        self, name: str = "", secret: str = "", principal: Principal = ANYONE, network: str = "10.0.0.1"
    ) -> Principal | str:
        """Who it is, or the sentence of the refusal."""
        try:
            login, found = self.begin(name, secret, principal, network)
            return found if isinstance(found, Principal) else login.answered(self.run(found))
        except Refusal as refused:
            assert refused.code == FORBIDDEN
            return str(refused)


REFUSED = str(refusal())
SHOP = Principal("shop", RecognisedBy.PASSWORD)


def test_who_is_who_he_says() -> None:
    asked = Asked()
    assert asked.log_in("shop", "right") == SHOP
    assert asked.log_in("ci", TOKEN) == Principal("ci", RecognisedBy.TOKEN, until_ms=5000)
    assert asked.failed == []


def test_a_token_alone_says_whose_it_is() -> None:
    asked = Asked()
    assert asked.log_in("", TOKEN) == Principal("ci", RecognisedBy.TOKEN, until_ms=5000)
    assert asked.failed == []
    asked.now_ms = 5000
    assert asked.log_in("", TOKEN) == REFUSED, "it has run out"
    asked.now_ms = 0
    asked.all.use({"ci": User(name="ci"), "shop": User(name="shop", tokens=(Token(sha256_of(TOKEN.encode())),))})
    assert asked.log_in("", TOKEN) == Principal("shop", RecognisedBy.TOKEN), "a reload has given it to somebody else"
    asked.all.use(USERS | {"ci": User(name="ci")})
    assert asked.log_in("", TOKEN) == REFUSED, "a reload has taken it away"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("shop", "wrong"),
        ("", text_of(bytes([1] * 32))),
        ("shop", ""),
        ("", "right"),
        ("", ""),
        ("nobody", "right"),
        ("ci", "right"),
        ("ci", text_of(bytes([1] * 32))),
        ("shop", TOKEN),
        ("nobody", TOKEN),
        ("ops", ""),
        ("cert", "CN=cert"),
        (ANONYMOUS, ""),
        ("shop", "x" * (limits.SECRET_GIVEN_MAX_BYTES + 1)),
        ("x" * 10_000, "right"),
    ],
)
def test_all_others_get_one_and_the_same_answer(name: str, secret: str) -> None:
    asked = Asked()
    assert asked.log_in(name, secret) == REFUSED
    assert asked.failed == [("10.0.0.1:5", "10.0.0.1", name)]


@pytest.mark.parametrize("name", ["", "x" * 65, "a b", "x" * 8000])
def test_a_name_that_nobody_can_have_costs_nothing(name: str) -> None:
    asked = Asked()
    for n in range(2 * limits.FAILURES_OF_NETWORK):
        assert asked.log_in(name, f"x{n}") == REFUSED
    assert asked.hashes == 0 and len(asked.all.of_names) == len(asked.all.of_networks) == 0
    assert asked.log_in("x" * 64, "x") == REFUSED and asked.hashes == 1


def test_a_secret_as_long_as_may_be_is_judged() -> None:
    longest = "x" * limits.SECRET_GIVEN_MAX_BYTES
    asked = Asked({"shop": with_password("shop", longest)})
    assert asked.log_in("shop", longest) == SHOP


def test_a_token_that_has_run_out_gets_the_same_answer() -> None:
    asked = Asked()
    asked.now_ms = 4999
    assert asked.log_in("ci", TOKEN) == Principal("ci", RecognisedBy.TOKEN, until_ms=5000)
    asked.now_ms = 5000
    assert asked.log_in("ci", TOKEN) == REFUSED


def test_whoever_gives_nothing_is_anonymous_where_that_is_a_user() -> None:
    asked = Asked({**USERS, ANONYMOUS: User(name=ANONYMOUS)})
    assert asked.log_in() == Principal(ANONYMOUS)
    assert asked.log_in(ANONYMOUS, "") == REFUSED
    assert asked.log_in("shop", "wrong") == REFUSED


# ---- whom the transport recognises


def test_the_system_says_who_is_at_a_unix_socket() -> None:
    asked = Asked()
    for uid in (0, OWN_UID):
        assert asked.log_in(principal=unix_principal(uid, 5)) == unix_principal(uid, 5)
    ops = Principal("ops", RecognisedBy.PEER_CREDENTIALS, 1001, 5)
    assert asked.log_in(principal=unix_principal(1001, 5)) == ops
    assert asked.log_in("ops", "", unix_principal(1001, 5)) == ops
    assert asked.log_in("ops", "whatever", unix_principal(1001, 5)) == ops
    assert asked.log_in("shop", "right", unix_principal(1001, 5)) == REFUSED


def test_others_at_a_unix_socket_log_in_as_everybody_does() -> None:
    asked = Asked()
    assert asked.log_in(principal=unix_principal(1002, 5)) == REFUSED
    assert asked.log_in("shop", "right", unix_principal(1002, 5)) == SHOP


def test_an_operator_who_gives_a_login_is_that_user() -> None:
    asked = Asked()
    assert asked.log_in("shop", "right", unix_principal(0, 0)) == SHOP
    assert asked.log_in("shop", "wrong", unix_principal(0, 0)) == REFUSED


def test_a_certificate_is_enough_as_long_as_its_user_is_there() -> None:
    asked = Asked()
    cert = Principal("cert", RecognisedBy.CERTIFICATE)
    assert asked.log_in(principal=cert) == cert and asked.log_in("cert", "", cert) == cert
    assert asked.log_in("shop", "right", cert) == REFUSED
    asked.all.use({"shop": USERS["shop"]})
    assert asked.log_in(principal=cert) == REFUSED


# ---- what is remembered


def test_a_login_that_was_right_or_wrong_costs_one_hash() -> None:
    asked = Asked()
    for _ in range(3):
        assert asked.log_in("shop", "right") == SHOP
        assert asked.log_in("shop", "wrong") == REFUSED
        assert asked.log_in("nobody", "wrong") == REFUSED
    assert asked.hashes == 3 and len(asked.failed) == 6


def test_those_who_wait_for_the_same_login_share_its_check() -> None:
    asked = Asked()
    waiting = [asked.begin("shop", "right", network=f"10.0.0.{n}") for n in range(5)]
    assert len({id(check) for _, check in waiting}) == 1
    verdict = asked.run(waiting[0][1])  # type: ignore[arg-type]
    assert [login.answered(verdict) for login, _ in waiting] == [SHOP] * 5
    assert asked.begin("shop", "other")[1] is not waiting[0][1]


def test_a_name_and_a_secret_are_not_taken_for_others_that_read_the_same() -> None:
    asked = Asked({"ab": with_password("ab", "c"), "a": with_password("a", "other")})
    assert asked.log_in("ab", "c") == Principal("ab", RecognisedBy.PASSWORD)
    assert asked.log_in("a", "bc") == REFUSED


def test_what_is_remembered_lasts_until_the_user_changes() -> None:
    asked = Asked({"shop": USERS["shop"], "other": with_password("other")})
    asked.log_in("shop", "right")
    asked.log_in("other", "right")
    asked.log_in("shop", "new")
    asked.all.use({"shop": with_password("shop", "new"), "other": with_password("other")})
    assert asked.log_in("shop", "right") == REFUSED
    assert asked.log_in("shop", "new") == SHOP
    assert asked.log_in("other", "right") == Principal("other", RecognisedBy.PASSWORD)
    assert asked.hashes == 5
    asked.all.use({"other": with_password("other")})
    assert asked.log_in("shop", "new") == REFUSED


def test_a_check_that_was_begun_before_its_user_changed_lets_nobody_in() -> None:
    asked = Asked()
    login, check = asked.begin("shop", "right")
    verdict = asked.run(check)  # type: ignore[arg-type]
    asked.all.use({"shop": with_password("shop", "new")})
    with pytest.raises(Refusal):
        login.answered(verdict)
    assert asked.log_in("shop", "right") == REFUSED


def test_so_many_are_remembered_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.auth.authenticator.LOGINS_KEPT", 2)
    names = ["a", "b", "c"]
    asked = Asked({name: with_password(name) for name in names})
    for name in names:
        asked.log_in(name, "right")
        asked.log_in(name, "wrong")
    assert asked.hashes == 6
    for name in ("b", "c"):
        asked.log_in(name, "right")
        asked.log_in(name, "wrong")
    assert asked.hashes == 6
    asked.log_in("a", "right")
    asked.log_in("a", "wrong")
    assert asked.hashes == 8


def test_a_check_that_nobody_waits_for_is_forgotten() -> None:
    asked = Asked()
    asked.begin("shop", "x")
    gc.collect()
    assert len(asked.all._waiting) == 0


def test_a_wrong_login_leaves_no_cycle_though_others_get_its_verdict_too() -> None:
    asked = Asked()
    (first, check), (second, same) = asked.begin("shop", "x"), asked.begin("shop", "x")
    assert check is same and not isinstance(check, Principal)
    verdict = asked.run(check)
    with without_collector():
        for login in (first, second):
            with pytest.raises(Refusal):
                login.answered(verdict)
        del verdict, first, second, login, check, same
        assert [type(one).__name__ for one in in_cycles()] == []


# ---- failures


def test_so_many_failures_of_a_name_and_no_more() -> None:
    asked = Asked()
    for n in range(limits.FAILURES_OF_NAME):
        assert asked.log_in("shop", f"wrong{n}", network=f"10.0.0.{n}") == REFUSED
    assert "Too many logins have failed" in str(asked.log_in("shop", "right", network="10.0.1.1"))
    assert asked.hashes == limits.FAILURES_OF_NAME
    assert len(asked.failed) == limits.FAILURES_OF_NAME + 1
    asked.now_s += limits.FAILURE_OF_NAME_S
    assert asked.log_in("shop", "right", network="10.0.1.1") == SHOP


def test_the_same_of_a_name_that_nobody_has() -> None:
    asked = Asked()
    for n in range(limits.FAILURES_OF_NAME):
        asked.log_in("nobody", f"wrong{n}")
    assert "Too many" in str(asked.log_in("nobody", "x"))


def test_so_many_failures_of_a_network_and_no_more() -> None:
    asked = Asked()
    for n in range(limits.FAILURES_OF_NETWORK):
        assert asked.log_in(f"name{n}", "x") == REFUSED
    assert "Too many" in str(asked.log_in("shop", "right"))
    assert asked.log_in("shop", "right", network="10.0.0.2") == SHOP
    asked.now_s += limits.FAILURE_OF_NETWORK_S
    assert asked.log_in("name", "x") == REFUSED


def test_who_is_remembered_or_has_a_token_gets_in_all_the_same() -> None:
    """So nobody shuts a user out whose clients have been in before."""
    asked = Asked()
    asked.log_in("shop", "right")
    for n in range(limits.FAILURES_OF_NAME):
        asked.log_in("shop", f"wrong{n}")
        asked.log_in("ci", f"wrong{n}")
    assert asked.log_in("shop", "right") == SHOP
    assert asked.log_in("ci", TOKEN) == Principal("ci", RecognisedBy.TOKEN, until_ms=5000)


def test_a_client_that_says_the_same_wrong_login_for_ever_counts_once() -> None:
    asked = Asked()
    for _ in range(10 * limits.FAILURES_OF_NETWORK):
        asked.log_in("shop", "old")
    assert asked.log_in("shop", "right") == SHOP


def test_success_empties_nothing() -> None:
    asked = Asked({**USERS, "mine": with_password("mine")})
    for n in range(limits.FAILURES_OF_NAME - 1):
        asked.log_in("shop", f"wrong{n}")
    asked.log_in("shop", "right")
    assert asked.log_in("mine", "right") == Principal("mine", RecognisedBy.PASSWORD)
    assert asked.log_in("shop", "wrong") == REFUSED
    assert "Too many" in str(asked.log_in("shop", "wrong again"))


def test_a_check_counts_before_it_is_answered() -> None:
    asked = Asked()
    waiting = [asked.begin("shop", f"wrong{n}") for n in range(limits.FAILURES_OF_NAME)]
    assert "Too many" in str(asked.log_in("shop", "x")) and len(waiting) == limits.FAILURES_OF_NAME


def test_a_check_that_found_no_room_counts_for_nothing() -> None:
    asked = Asked()
    for n in range(3 * limits.FAILURES_OF_NAME):
        login, _ = asked.begin("shop", f"right{n}")
        with pytest.raises(Refusal, match="try again later"):
            login.answered(Refusal("connections", "try again later"))
    assert asked.log_in("shop", "right") == SHOP


def test_no_secret_is_shown() -> None:
    asked = Asked()
    _, check = asked.begin("shop", "hunter2")
    assert "hunter2" not in repr(check) and "shop" in repr(check)


def test_who_gives_no_login_is_who_the_transport_says_or_anonymous_or_nobody() -> None:
    asked = Asked()
    login = asked.all.login("10.0.0.1:5", "10.0.0.1")
    assert login.unasked(ANYONE) is None
    assert login.unasked(unix_principal(1001, 0)) == Principal("ops", RecognisedBy.PEER_CREDENTIALS, 1001, 0)
    assert login.unasked(unix_principal(1002, 0)) is None
    assert login.unasked(Principal("cert", RecognisedBy.CERTIFICATE)) == Principal("cert", RecognisedBy.CERTIFICATE)
    assert login.unasked(Principal("shop", RecognisedBy.CERTIFICATE)) is not None, "its name is in its certificate"
    assert login.unasked(Principal("other", RecognisedBy.CERTIFICATE)) is None
    assert asked.failed == [], "a probe without a login is no login that failed"
    asked.all.use({**USERS, ANONYMOUS: User(name=ANONYMOUS)})
    assert login.unasked(ANYONE) == Principal(ANONYMOUS)
