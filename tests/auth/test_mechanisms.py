"""Each mechanism by itself, and that an unknown name costs what a known one does."""

import time
from statistics import median

import pytest

from radiator.auth import scrypt
from radiator.auth.mechanisms import Mechanism, mechanisms
from radiator.auth.scrypt import Cost, made
from radiator.auth.tokens import sha256_of, text_of
from radiator.model.principal import RecognisedBy
from radiator.model.users import Token, User

KEY = bytes(32)
TOKEN = text_of(bytes(32)).encode()
COST = Cost(ln=12)
USERS = {
    "shop": User(name="shop", password=str(made(b"right", bytes(16), COST))),
    "ci": User(name="ci", tokens=(Token(sha256_of(TOKEN), 1000),)),
}


def taking(secret: bytes) -> Mechanism:
    return next(one for one in mechanisms(KEY) if one.takes(secret))


def test_the_form_of_a_secret_says_which_it_is() -> None:
    assert taking(TOKEN).recognised_by is RecognisedBy.TOKEN
    for other in (b"", b"right", TOKEN[:-1]):
        assert taking(other).recognised_by is RecognisedBy.PASSWORD


@pytest.mark.parametrize(
    ("name", "secret", "now_ms", "is_proven"),
    [
        ("shop", b"right", 0, True),
        ("shop", b"wrong", 0, False),
        ("shop", b"", 0, False),
        ("shop", USERS["shop"].password.encode(), 0, False),  # type: ignore[union-attr]
        ("shop", TOKEN, 0, False),
        ("ci", TOKEN, 999, True),
        ("ci", TOKEN, 1000, False),
        ("ci", text_of(bytes([1] * 32)).encode(), 0, False),
        ("ci", b"right", 0, False),
        ("nobody", b"right", 0, False),
        ("nobody", TOKEN, 0, False),
    ],
)
def test_who_is_proven(name: str, secret: bytes, now_ms: int, is_proven: bool) -> None:
    assert taking(secret).proves(USERS, name, secret, now_ms) is is_proven


def test_until_when_a_proof_holds() -> None:
    assert taking(TOKEN).until_ms(USERS, "ci", TOKEN, 999) == 1000
    assert taking(b"right").until_ms(USERS, "shop", b"right", 0) is None


def took_s(name: str) -> float:
    started_s = time.process_time()
    taking(b"wrong").proves(USERS, name, b"wrong", 0)
    return time.process_time() - started_s


def test_an_unknown_name_takes_as_long_as_a_known_one() -> None:
    """So does one that has no password."""
    times: dict[str, list[float]] = {"shop": [], "nobody": [], "ci": []}
    for _ in range(9):
        for name, found in times.items():
            found.append(took_s(name))
    known, unknown, other = (median(found) for found in times.values())
    assert 0.5 < unknown / known < 2 and 0.5 < other / known < 2, times


def test_an_unknown_name_costs_what_that_of_some_user_costs_and_always_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    costs = [Cost(ln=10), Cost(ln=11)]
    users = {str(cost.ln): User(name=str(cost.ln), password=str(made(b"x", bytes(16), cost))) for cost in costs}
    seen = []
    original = scrypt.dummy
    monkeypatch.setattr(scrypt, "dummy", lambda cost: seen.append(cost) or original(cost))
    for name in map(str, range(100, 130)):
        taking(b"x").proves(users, name, b"x", 0)
        taking(b"x").proves(users, name, b"x", 0)
        assert seen[-1] == seen[-2]
    assert set(seen) == set(costs)


def test_where_nobody_has_a_password_it_costs_what_one_would_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(scrypt, "dummy", lambda cost: seen.append(cost) or made(b"", bytes(16), Cost(ln=10)))
    assert not taking(b"x").proves({}, "a", b"x", 0)
    assert seen == [Cost()]


def test_no_key_is_shown() -> None:
    assert "key" not in repr(mechanisms(KEY))
