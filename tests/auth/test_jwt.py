"""JSON Web Tokens: which are taken, which keys may verify them, and every attack on a token that is known by name."""

import hmac
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from radiator.auth.authenticator import Authenticator, refusal
from radiator.auth.jwt import ALGORITHMS, JwtMechanism, read_keys
from radiator.auth.scrypt import Cost, made
from radiator.model import limits
from radiator.model.errors import Refusal
from radiator.model.principal import ANYONE, Principal, RecognisedBy
from radiator.model.settings import JwtSettings
from radiator.model.users import User

pytest.importorskip("jwt", reason="JSON Web Tokens need PyJWT: scripts/setup test")

from tests.issuer import AUDIENCE, END_S, ISSUER, Issuer, body, jwks, part, unsigned

ONE, OTHER = Issuer(), Issuer(kid="two")
NOW_MS = END_S * 1000 - 60_000
USERS = {
    "shop": User(name="shop", jwt=True),
    "closed": User(name="closed", password=str(made(b"x", bytes(16), Cost(ln=10)))),
}


def settings(*algorithms: str, **others: Any) -> JwtSettings:
    given = {"keys": Path("keys.json"), "issuer": ISSUER, "audience": AUDIENCE, **others}
    return JwtSettings(algorithms=algorithms or ("ES256",), **given)


MECHANISM = read_keys(settings(), jwks(ONE))


def is_taken(token: bytes, now_ms: int = NOW_MS, name: str = "shop", mechanism: JwtMechanism = MECHANISM) -> bool:
    return mechanism.takes(token) and mechanism.proves(USERS, name, token, now_ms)


# ---- tokens


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_token_that_is_signed_so_is_taken_and_by_another_key_not(algorithm: str) -> None:
    issuer = Issuer(algorithm)
    mechanism = read_keys(settings(algorithm), jwks(issuer))
    assert is_taken(issuer.token(), mechanism=mechanism)
    other = Issuer(algorithm, key=bytes(64)) if algorithm.startswith("HS") else Issuer(algorithm)
    assert not is_taken(other.token(), mechanism=mechanism)
    assert mechanism.until_ms(USERS, "shop", issuer.token(), NOW_MS) == END_S * 1000


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": None},
        {"exp": float(END_S)},
        {"exp": END_S + 0.5},
        {"exp": str(END_S)},
        {"exp": True},
        {"exp": [END_S]},
        {"exp": -1},
        {"exp": END_S * 1000},
        {"exp": limits.JWT_TIME_MAX_S + 1},
        {"nbf": float(END_S - 100)},
        {"nbf": "0"},
        {"nbf": -1},
        {"nbf": END_S + 1},
        {"iss": None},
        {"iss": "https://login.example/"},
        {"iss": [ISSUER]},
        {"aud": None},
        {"aud": "radiator2"},
        {"aud": ["other"]},
        {"aud": []},
        {"aud": {AUDIENCE: 1}},
        {"sub": None},
        {"sub": "Shop"},
        {"sub": ["shop"]},
        {"sub": "closed"},
        {"sub": "nobody"},
    ],
)
def test_what_does_not_say_who_for_whom_by_whom_and_until_when_is_not_taken(claims: dict[str, Any]) -> None:
    assert not is_taken(ONE.token(**claims))


@pytest.mark.parametrize(
    "claims",
    [{"aud": ["other", AUDIENCE]}, {"nbf": NOW_MS // 1000}, {"iat": END_S + 9}, {"exp": limits.JWT_TIME_MAX_S}],
)
def test_what_else_may_stand_there(claims: dict[str, Any]) -> None:
    assert is_taken(ONE.token(**claims))


def test_a_token_ends_at_the_second_and_begins_at_it() -> None:
    token = ONE.token(nbf=END_S - 10)
    assert not is_taken(token, END_S * 1000 - 10_001)
    assert is_taken(token, END_S * 1000 - 10_000)
    assert is_taken(token, END_S * 1000 - 1)
    assert not is_taken(token, END_S * 1000)


def test_the_user_must_be_there_take_such_tokens_and_be_the_one_that_is_named() -> None:
    for name in ("closed", "nobody"):
        assert not is_taken(ONE.token(sub=name), name=name)
    assert not is_taken(ONE.token(), name="closed")
    named = read_keys(settings(user_claim="preferred_username"), jwks(ONE))
    assert is_taken(ONE.token(sub="x", preferred_username="shop"), mechanism=named)
    assert not is_taken(ONE.token(), mechanism=named)


def test_nothing_is_taken_that_nobody_has_signed() -> None:
    payload = json.dumps(body()).encode()
    for algorithm in ("none", "None", "NONE", "", None, 0, ["ES256"], {"a": 1}):
        for kid in ({}, {"kid": "one"}, {"kid": None}, {"kid": 1}, {"kid": ["one"]}):
            assert not is_taken(unsigned({"alg": algorithm, **kid}, payload))
            assert not is_taken(unsigned({"alg": algorithm, **kid}, payload, b"x" * 64))
    assert not is_taken(unsigned({"kid": "one"}, payload))
    assert not is_taken(unsigned({"alg": "ES256", "kid": "one"}, payload))


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_a_public_key_is_never_taken_for_a_secret(algorithm: str) -> None:
    """Everybody knows the public key; a verifier that lets the token choose would take this."""
    for issuer in (ONE, Issuer("RS256")):
        mechanism = read_keys(settings(issuer.algorithm), jwks(issuer))
        signed = unsigned({"alg": algorithm, "kid": "one"}, json.dumps(body()).encode()).rsplit(b".", 1)[0]
        for secret in (issuer.pem, issuer.pem.strip(), jwks(issuer), json.dumps(issuer.jwk).encode()):
            digest = hmac.digest(secret, signed, f"sha{algorithm[2:]}")
            assert not is_taken(signed + b"." + part(digest).encode(), mechanism=mechanism)


def test_an_algorithm_that_is_not_listed_is_not_taken_from_a_key_that_could() -> None:
    issuer = Issuer("RS256")
    mechanism = read_keys(settings("RS256"), jwks(issuer))
    for algorithm in ("RS384", "PS256"):
        assert not is_taken(Issuer(algorithm, key=issuer.private).token(), mechanism=mechanism)
    both = read_keys(settings("RS256", "PS256"), jwks(issuer))
    assert is_taken(Issuer("PS256", key=issuer.private).token(), mechanism=both)
    bound = read_keys(
        settings("RS256", "PS256"),
        json.dumps({"keys": [issuer.jwk | {"alg": "RS256"}, Issuer("PS256", "two").jwk]}).encode(),
    )
    assert not is_taken(Issuer("PS256", key=issuer.private).token(), mechanism=bound)


def test_the_key_is_the_one_that_the_token_names() -> None:
    mechanism = read_keys(settings(), jwks(ONE, OTHER))
    assert is_taken(ONE.token(), mechanism=mechanism) and is_taken(OTHER.token(), mechanism=mechanism)
    for kid in ("two", "three", "", "../one"):
        assert not is_taken(ONE.token({"kid": kid}), mechanism=mechanism)
    assert not is_taken(Issuer(kid=None, key=ONE.private).token(), mechanism=mechanism)


def test_a_key_without_a_kid_is_for_every_token() -> None:
    mechanism = read_keys(settings(), ONE.pem)
    assert is_taken(ONE.token(), mechanism=mechanism)
    assert is_taken(Issuer(kid=None, key=ONE.private).token(), mechanism=mechanism)
    assert not is_taken(OTHER.token(), mechanism=mechanism)


@pytest.mark.parametrize(
    "header",
    [
        {"crit": ["exp"], "exp": 1},
        {"b64": False, "crit": ["b64"]},
        {"jwk": OTHER.jwk},
        {"jku": "https://attacker.example/keys"},
        {"x5u": "https://attacker.example/keys"},
    ],
)
def test_a_token_brings_no_key_and_no_rule_of_its_own(header: dict[str, Any]) -> None:
    payload = json.dumps(body()).encode()
    forged = unsigned({"alg": "ES256", "kid": "one", **header}, payload).rsplit(b".", 1)[0]
    signature = OTHER.signed(payload).rsplit(b".", 1)[1]
    assert not is_taken(forged + b"." + signature)
    if "crit" in header:
        assert not is_taken(ONE.signed(payload, header))


@pytest.mark.parametrize(
    "payload",
    [
        b"[]",
        b'"shop"',
        b"{}",
        b'{"sub": "shop"',
        b"\xff",
        b"[" * 4000,
        b'{"a":' * 900 + b"1" + b"}" * 900,
        json.dumps(body()).encode()[:-1] + b', "sub": "closed"}',
        json.dumps(body()).encode().replace(b"2000000000", b"9" * 4400),
        json.dumps(body()).encode().replace(b"2000000000", b"NaN"),
        json.dumps(body()).encode().replace(b"2000000000", b"Infinity"),
        json.dumps(body()).encode().replace(b"2000000000", b"2e9"),
    ],
)
def test_a_payload_that_says_nothing_plain_is_not_taken(payload: bytes) -> None:
    token = ONE.signed(payload)
    assert not MECHANISM.proves(USERS, "shop", token, NOW_MS)
    assert MECHANISM.named(token) in ("", "shop")


@pytest.mark.parametrize("header", [b"[", b"[]", b'{"alg":' * 900, b"\xff", b'{"alg": "ES256"'])
def test_a_broken_header_is_not_taken(header: bytes) -> None:
    token = f"{part(header)}.{part(json.dumps(body()).encode())}.AAAA".encode()
    assert not MECHANISM.proves(USERS, "shop", token, NOW_MS)


def test_a_token_with_one_letter_changed_is_not_taken() -> None:
    token = ONE.token()
    for at in range(0, len(token), 7):
        other = b"B" if token[at : at + 1] != b"B" else b"C"
        assert not is_taken(token[:at] + other + token[at + 1 :])
    assert not is_taken(token + b"=") and not is_taken(token + b"\n") and not is_taken(b" " + token)


def test_the_form_of_a_token() -> None:
    assert MECHANISM.takes(ONE.token())
    for other in (b"", b"a.b.c", b"correct.horse.battery", b"ey.ey.ey", b"eyA.eyA", b"eyA.eyA.A.A", b"eyA.eyA.A\n"):
        assert not MECHANISM.takes(other)


def test_no_key_is_shown() -> None:
    mechanism = read_keys(settings("HS256"), jwks(Issuer("HS256")))
    assert "0123456789" not in repr(mechanism) and Issuer("HS256").jwk["k"] not in repr(mechanism)


# ---- the file of keys


def refused(text: bytes, *algorithms: str) -> str:
    with pytest.raises(ValueError) as caught:
        read_keys(settings(*algorithms), text)
    sentence = str(caught.value)
    assert Issuer("HS256").jwk["k"] not in sentence and "BEGIN PRIVATE" not in sentence
    return sentence


def listed(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b'{"keys": []}', b'{"keys": {}}', b'{"keys": [1]}', b"[" * 5000, b"\xff"]
)
def test_what_is_no_list_of_keys_is_refused(text: bytes) -> None:
    assert "neither public keys in PEM nor a JWKS" in refused(text)


def test_a_key_that_cannot_be_used_is_refused_with_its_number() -> None:
    assert "broken, or of an unknown type, as key 2" in refused(listed(ONE.jwk, {"kty": "EC", "crv": "P-256"}))
    assert "of an unknown type, as key 1" in refused(listed({"kty": "XX"}))
    assert "kid that is not text, as key 1" in refused(listed(ONE.jwk | {"kid": 5}))
    for algorithm in (5, [], ["ES256"], {}):
        assert "alg that is not text, as key 2; it must be" in refused(listed(ONE.jwk, ONE.jwk | {"alg": algorithm}))
    private = ONE.jwk | {"d": "AAAA"}
    assert "private key as key 1" in refused(listed(private)) and "remove d" in refused(listed(private))


def test_secrets_and_public_keys_are_never_together() -> None:
    both = jwks(ONE, Issuer("HS256", "two"))
    assert "has a secret as key 2, and jwt.algorithms are ES256" in refused(both)
    assert "has a public key as key 1, and jwt.algorithms are HS256" in refused(both, "HS256")
    assert "has a public key as key 1" in refused(ONE.pem, "HS256")


def test_each_algorithm_has_a_key_and_each_kid_one() -> None:
    assert refused(jwks(ONE), "ES256", "RS256") == "has no key for RS256, which jwt.algorithms has; it needs RSA"
    assert "it needs EC P-384" in refused(jwks(ONE), "ES384")
    assert "a key for ES256 with the kid of another" in refused(jwks(ONE, Issuer()))
    assert "a key for ES256 with no kid, as another one" in refused(ONE.pem + OTHER.pem)


def test_what_an_issuer_lists_beside_is_left_out() -> None:
    rsa = Issuer("RS256", "three")
    text = listed(ONE.jwk, rsa.jwk | {"use": "enc"}, rsa.jwk | {"alg": "RSA-OAEP"}, rsa.jwk)
    assert set(read_keys(settings(), text).keys) == {("ES256", "one")}


@pytest.mark.parametrize(("algorithm", "least"), [("HS256", 32), ("HS384", 48), ("HS512", 64)])
def test_a_secret_is_as_long_as_its_hash_and_not_one_byte_less(algorithm: str, least: int) -> None:
    read_keys(settings(algorithm), jwks(Issuer(algorithm, key=bytes(least))))
    sentence = refused(jwks(Issuer(algorithm, key=bytes(least - 1))), algorithm)
    assert sentence == f"has a secret of {least - 1} bytes as key 1; {algorithm} needs {least}"


def test_a_weak_key_of_rsa_is_refused() -> None:
    from cryptography.hazmat.primitives.asymmetric import rsa

    weak = Issuer("RS256", key=rsa.generate_private_key(65_537, 1024))
    assert refused(jwks(weak), "RS256") == "has an RSA key of 1024 bits; it must have 2048 to 8192"


def test_pem_has_public_keys_alone() -> None:
    assert set(read_keys(settings("ES256", "RS256"), ONE.pem + Issuer("RS256").pem).keys) == {
        ("ES256", None),
        ("RS256", None),
    }
    assert "has a PRIVATE KEY in PEM" in refused(ONE.private_pem)
    assert "no whole public key" in refused(ONE.pem[:60])
    assert "broken, as key 1" in refused(b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----")


def test_so_many_keys_and_one_more() -> None:
    many = [ONE.jwk | {"kid": str(n)} for n in range(limits.JWT_KEYS_MAX + 1)]
    assert len(read_keys(settings(), listed(*many[1:])).keys) == limits.JWT_KEYS_MAX
    assert f"has {len(many)} keys; there may be at most {limits.JWT_KEYS_MAX}" in refused(listed(*many))


@pytest.mark.parametrize("module", ["jwt", "cryptography"])
def test_what_is_not_installed_is_missed_as_keys_are_read(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError):
        read_keys(settings(), jwks(ONE))


# ---- as a login


class Asked:
    """An authenticator that takes tokens of ONE."""

    def __init__(self) -> None:
        self.now_s, self.now_ms, self.checks = 0.0, NOW_MS, 0
        self.all = Authenticator(
            USERS, bytes(32), 4711, lambda: self.now_s, lambda: self.now_ms, lambda *one: None, MECHANISM
        )

    def log_in(self, name: str, secret: bytes, network: str = "n") -> Principal | str:
        login = self.all.login(network, network)
        try:
            found = login.begin(ANYONE, name.encode(), secret)
            if isinstance(found, Principal):
                return found
            self.checks += 1
            try:
                verdict: Principal | Refusal = found()
            except Refusal as refused:
                verdict = refused
            return login.answered(verdict)
        except Refusal as refused:
            return str(refused)


REFUSED = str(refusal())
SHOP = Principal("shop", RecognisedBy.JWT, until_ms=END_S * 1000)


def test_the_login_is_empty_or_the_user_that_the_token_names() -> None:
    asked = Asked()
    assert asked.log_in("", ONE.token()) == asked.log_in("shop", ONE.token()) == SHOP
    for name in ("closed", "nobody", "Shop", "x" * 65):
        assert asked.log_in(name, ONE.token()) == REFUSED
    for name in ("closed", "nobody", "a b", "", "x" * 65):
        assert asked.log_in("", ONE.token(sub=name)) == REFUSED


def test_without_keys_a_token_is_a_password_that_nobody_has() -> None:
    asked = Asked()
    asked.all.use(USERS)
    assert asked.log_in("shop", ONE.token()) == REFUSED and asked.log_in("", ONE.token()) == REFUSED


def test_a_token_as_long_as_may_be_and_one_byte_longer() -> None:
    asked = Asked()
    empty = len(ONE.token(pad=""))
    for pad in range(limits.JWT_MAX_BYTES * 3 // 4 - empty, limits.JWT_MAX_BYTES):
        token = ONE.token(pad="x" * pad)
        if len(token) > limits.JWT_MAX_BYTES:
            break
        longest = token
    assert len(longest) > limits.JWT_MAX_BYTES - 4
    assert asked.log_in("", longest) == SHOP and asked.checks == 1
    assert asked.log_in("", token) == REFUSED and asked.checks == 1


def test_it_is_remembered_until_it_runs_out() -> None:
    asked = Asked()
    token = ONE.token()
    assert asked.log_in("", token) == asked.log_in("shop", token) == SHOP and asked.checks == 1
    asked.now_ms = END_S * 1000
    assert asked.log_in("", token) == REFUSED


def test_one_that_runs_out_while_it_is_checked_lets_nobody_in() -> None:
    asked = Asked()
    login = asked.all.login("n", "n")
    check = login.begin(ANYONE, b"", ONE.token())
    assert not isinstance(check, Principal)
    verdict = check()
    asked.now_ms = END_S * 1000
    with pytest.raises(Refusal):
        login.answered(verdict)


def test_one_that_comes_before_its_time_is_taken_a_minute_later() -> None:
    asked = Asked()
    token = ONE.token(nbf=NOW_MS // 1000 + 1)
    assert asked.log_in("", token) == REFUSED
    asked.now_ms += 1000
    asked.now_s = limits.WRONG_KEPT_S - 0.001
    assert asked.log_in("", token) == REFUSED and asked.checks == 1
    asked.now_s = limits.WRONG_KEPT_S
    assert asked.log_in("", token) == SHOP


def test_other_keys_count_at_once_and_for_what_is_being_checked() -> None:
    asked = Asked()
    assert asked.log_in("", ONE.token()) == SHOP
    login = asked.all.login("n", "n")
    check = login.begin(ANYONE, b"", ONE.token(pad="x"))
    assert not isinstance(check, Principal)
    asked.all.use(USERS, read_keys(settings(), jwks(OTHER)))
    with pytest.raises(Refusal):
        login.answered(check())
    assert asked.log_in("", ONE.token()) == REFUSED
    assert asked.log_in("", OTHER.token()) == SHOP


def test_the_same_keys_read_again_change_nothing() -> None:
    asked = Asked()
    login = asked.all.login("n", "n")
    check = login.begin(ANYONE, b"", ONE.token())
    token = ONE.token()
    assert asked.log_in("", token) == SHOP and not isinstance(check, Principal)
    asked.all.use(USERS, read_keys(settings(), jwks(ONE)))
    assert login.answered(check()) == SHOP
    assert asked.log_in("", token) == SHOP and asked.checks == 1


def test_nobody_locks_a_name_out_and_a_flood_of_one_address_is_bounded() -> None:
    asked = Asked()
    for n in range(3 * limits.FAILURES_OF_NAME):
        asked.log_in("shop", b"wrong%d" % n, f"10.0.0.{n}")
    assert asked.log_in("shop", ONE.token(), "10.0.1.1") == SHOP
    asked.checks, token = 0, ONE.token()
    assert asked.log_in("shop", token, "10.0.2.1") == SHOP
    for n in range(2 * limits.FAILURES_OF_NETWORK):
        answer = asked.log_in("shop", OTHER.token(pad=n), "10.0.2.1")
    assert "Too many logins have failed" in str(answer) and asked.checks == limits.FAILURES_OF_NETWORK + 1
    assert asked.log_in("shop", token, "10.0.2.1") == SHOP  # it was right before
