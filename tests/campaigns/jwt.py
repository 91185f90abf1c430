"""T27b: random JSON Web Tokens at an authenticator: nobody is let in whom no key in the file vouches for, now.

A case is one login. Its token is right, or has one thing wrong: a claim, the key, the algorithm, a signature that is
none, or made with the file of public keys as the secret, a letter. Time goes on, keys are replaced and users change
meanwhile, and tokens come again. A model says who may be let in, and until when.
"""

import hmac
import json
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from radiator.auth.authenticator import Authenticator
from radiator.auth.jwt import JwtMechanism, read_keys
from radiator.model.errors import Refusal
from radiator.model.principal import ANYONE, Principal
from radiator.model.settings import JwtSettings
from radiator.model.users import User
from tests.campaigns.campaign import Campaign, Run

NAMES = ("ann", "bob", "eve", "")
BEGIN_S = 2_000_000_000
TOKENS_PER_HISTORY = 60


@dataclass(slots=True)
class Token:
    """is_signed: by the key in force. claims: what it says; None: nothing plain."""

    text: bytes
    key: int
    is_signed: bool
    claims: dict[str, Any] | None


@dataclass(slots=True)
class World:
    """The model. jwt_users: who takes such tokens. key: which of the keys is in force."""

    chance: Random
    issuers: list[Any]
    now_ms: int = BEGIN_S * 1000
    key: int = 0
    users: dict[str, User] = field(default_factory=dict)
    seen: list[Token] = field(default_factory=list)

    def change_users(self) -> None:
        self.users = {name: User(name=name, jwt=self.chance.random() < 0.8) for name in NAMES[:2]}

    def mechanism(self) -> JwtMechanism:
        from tests.issuer import AUDIENCE, ISSUER, jwks

        settings = JwtSettings(keys=Path("k"), algorithms=("ES256",), issuer=ISSUER, audience=AUDIENCE)
        return read_keys(settings, jwks(self.issuers[self.key]))

    def may_enter(self, name: str, token: Token) -> bool:
        from tests.issuer import AUDIENCE, ISSUER

        claims = token.claims
        if claims is None or not token.is_signed or token.key != self.key:
            return False
        begin, end, user = claims.get("nbf", 0), claims.get("exp"), claims.get("sub")
        if type(begin) is not int or type(end) is not int or not begin * 1000 <= self.now_ms < end * 1000:
            return False
        if claims.get("iss") != ISSUER or claims.get("aud") not in (AUDIENCE, ["x", AUDIENCE]) or end > BEGIN_S * 2:
            return False
        return isinstance(user, str) and user in self.users and self.users[user].jwt and name in ("", user)

    def token(self) -> Token:
        """A new one, or one that came before."""
        from tests.issuer import AUDIENCE, ISSUER, body, part, unsigned

        chance = self.chance
        if self.seen and chance.random() < 0.3:
            return chance.choice(self.seen)
        key, now_s = chance.choice((self.key, self.key, self.key, 1 - self.key)), self.now_ms // 1000
        claims = body(sub=chance.choice(NAMES[:3]), exp=now_s + chance.choice((1, 5, 60)))
        if chance.random() < 0.4:
            wrong = {
                "exp": (None, now_s, now_s - 5, float(now_s + 5), str(now_s + 5), (now_s + 5) * 1000),
                "nbf": (now_s, now_s + 1, now_s + 3, float(now_s)),
                "aud": ("other", None, ["x", AUDIENCE], ["x"]),
                "iss": (ISSUER + "/", None),
                "sub": (None, ["ann"], "x" * 65),
            }
            claim = chance.choice(list(wrong))
            claims = {**claims, claim: chance.choice(wrong[claim])}
            claims = {name: value for name, value in claims.items() if value is not None}
        payload = json.dumps(claims).encode()
        issuer = self.issuers[key]
        text, is_signed, how = issuer.signed(payload), True, chance.random()
        if how < 0.1:
            text, is_signed = unsigned({"alg": chance.choice(("none", "ES256")), "kid": issuer.kid}, payload), False
        elif how < 0.25:
            signed = unsigned({"alg": "HS256", "kid": issuer.kid}, payload).rsplit(b".", 1)[0]
            digest = hmac.digest(self.mechanism().text, signed, "sha256")
            text, is_signed = signed + b"." + part(digest).encode(), False
        elif how < 0.3:
            at = chance.randrange(len(text))
            other = bytes([text[at] ^ 1])
            text, is_signed, claims = text[:at] + other + text[at + 1 :], False, {}
        self.seen = [*self.seen[-20:], Token(text, key, is_signed, claims)]
        return self.seen[-1]


def history(run: Run, issuers: list[Any]) -> int:
    """How many were let in."""
    world, let_in = World(run.chance, issuers), 0
    world.change_users()

    def now_s() -> float:
        return world.now_ms / 1000

    authenticator = Authenticator(
        world.users, run.chance.randbytes(32), 4711, now_s, lambda: world.now_ms, lambda *one: None, world.mechanism()
    )
    for number in range(TOKENS_PER_HISTORY):
        what = run.chance.random()
        if what < 0.05:
            world.change_users()
            authenticator.use(world.users, world.mechanism())
        elif what < 0.08:
            world.key = 1 - world.key
            authenticator.use(world.users, world.mechanism())
        elif what < 0.4:
            world.now_ms += run.chance.choice((1, 999, 1000, 3000, 61_000))
        name, token = run.chance.choice(("", "", *NAMES)), world.token()
        found = answer(authenticator, name, token.text, f"10.0.0.{number}")
        may = world.may_enter(name, token)
        if isinstance(found, Principal):
            let_in += 1
            end_ms = int((token.claims or {}).get("exp", 0)) * 1000
            if not may or found.until_ms != end_ms or found.name != (token.claims or {}).get("sub"):
                run.violation(f"Let in as {found} at {world.now_ms}: {name!r} with {token}.")
        elif may and not world.seen.count(token) > 1 and world.seen[-1] is token and "nbf" not in (token.claims or {}):
            run.violation(f"Turned away at {world.now_ms}: {name!r} with {token}.")
        run.case()
    return let_in


def answer(authenticator: Authenticator, name: str, secret: bytes, network: str) -> Principal | None:
    login = authenticator.login(network, network)
    try:
        found = login.begin(ANYONE, name.encode(), secret)
        if isinstance(found, Principal):
            return found
        try:
            return login.answered(found())
        except Refusal as refused:
            return login.answered(refused)
    except Refusal:
        return None


def simulate(run: Run) -> None:
    from tests.issuer import Issuer  # PyJWT need not be there before this is run

    let_in, issuers = 0, [Issuer(), Issuer()]
    while not run.is_over:
        let_in += history(run, issuers)
    run.figures["let in"] = let_in
    assert run.is_hunt or let_in > run.done // 20, f"too little happened: {run.figures}"


CAMPAIGNS = (
    Campaign(
        number="T27b",
        name="jwt",
        title="random JSON Web Tokens, right and with one thing wrong, while keys and users change",
        unit="logins",
        run=simulate,
        cases=(3000, 300_000, 3_000_000),
        mutants=(
            "expired-jwt-alive",
            "public-key-as-secret",
            "float-expiry-taken",
            "jwt-for-another-audience",
            "jwt-of-a-user-who-takes-none",
            "jwt-remembered-past-its-end",
            "jwt-of-keys-that-are-gone",
        ),
        mutant_cases=6000,
        quick_mutants=7,
        needs=("pyjwt",),
        limit_s=(120, 2 * 3600, 8 * 3600),
    ),
)
