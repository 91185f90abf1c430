"""JSON Web Tokens (RFC 7519) as a way to log in: an issuer has signed who a client is, and the keys that verify it are
in a file.

PyJWT verifies the signature. Which algorithm goes with which key is decided when the keys are read, so a token cannot
choose: none is accepted unsigned, and no public key is used as a secret. The claims are judged here, by the caller's
time.
"""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from radiator.model.limits import (
    JWT_KEYS_MAX,
    JWT_MAX_BYTES,
    JWT_TIME_MAX_S,
    RSA_MAX_BITS,
    RSA_MIN_BITS,
)
from radiator.model.principal import RecognisedBy
from radiator.model.settings import JwtSettings
from radiator.model.users import User

NOT_INSTALLED = 'It needs PyJWT: `pip install "PyJWT[crypto]>=2.10,<3"` into the Python that radiator runs with'

_SECRET = "a secret"
_KINDS = {
    "ES256": "EC P-256", "ES384": "EC P-384", "ES512": "EC P-521", "EdDSA": "Ed25519",
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("HS256", "HS384", "HS512"), _SECRET),
}  # fmt: skip
ALGORITHMS = tuple(_KINDS)
_SECRET_MIN_BYTES = {"HS256": 32, "HS384": 48, "HS512": 64}  # RFC 7518, 3.2
_CURVES = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}

_JWT = re.compile(rb"ey[A-Za-z0-9_-]+\.ey[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")  # {" begins so in base64
_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)

Keys = Mapping[tuple[str, str | None], Any]
"""By algorithm and `kid`; None: a key without one, for all tokens that do not name another key."""


def is_jwt(secret: bytes) -> bool:
    """Whether it has the form of one: then it is not a password, if such tokens are accepted."""
    return _JWT.fullmatch(secret) is not None


def are_of_secrets(algorithms: tuple[str, ...]) -> bool:
    """Whether anybody who can verify a token by these can also make one."""
    return _KINDS[algorithms[0]] == _SECRET


def algorithms_mistake(algorithms: tuple[str, ...]) -> str:
    """Returns why they must not be used together, as text after a setting's name; "" if they may."""
    kinds = {_KINDS[one] == _SECRET for one in algorithms}
    wrong = "has algorithms with a shared secret (HS...) and some with public keys"
    return f"{wrong}; keep one of both sorts" if len(kinds) > 1 else ""


@dataclass(slots=True, frozen=True)
class JwtMechanism:
    """A JSON Web Token. Two mechanisms are equal if their settings and the text of their keys are."""

    settings: JwtSettings
    text: bytes = field(repr=False)
    keys: Keys = field(repr=False, compare=False)
    recognised_by: RecognisedBy = RecognisedBy.JWT
    secret_max_bytes: int = JWT_MAX_BYTES
    is_slow: bool = True
    is_guessable: bool = False

    def takes(self, secret: bytes) -> bool:
        return is_jwt(secret)

    def named(self, secret: bytes) -> str:
        name = _unverified(secret).get(self.settings.user_claim)
        return name if isinstance(name, str) else ""

    def proves(self, users: Mapping[str, User], name: str, secret: bytes, now_ms: int) -> bool:
        claims = self._verified(secret)  # before anything else, so that every name takes as long
        user = users.get(name)
        return claims is not None and user is not None and user.jwt and self._say(claims, name, now_ms)

    def until_ms(self, users: Mapping[str, User], name: str, secret: bytes, now_ms: int) -> int | None:
        return int(_unverified(secret)["exp"]) * 1000

    def proof(self, secret: bytes) -> str:
        return ""

    def _verified(self, secret: bytes) -> dict[str, Any] | None:
        """Returns the claims, if the signature is one of the keys'."""
        from jwt import PyJWS, PyJWTError

        try:
            header = PyJWS().get_unverified_header(secret)
            algorithm, kid = header.get("alg"), header.get("kid")
            key = self.keys.get((algorithm, kid), self.keys.get((algorithm, None)))
            if key is None:
                return None
            return _claims(PyJWS([algorithm]).decode(secret, key, [algorithm]))
        except (PyJWTError, ValueError, TypeError, RecursionError):
            return None

    def _say(self, claims: dict[str, Any], name: str, now_ms: int) -> bool:
        """Whether they are about that user, for this broker, and valid now. A time must be a whole number."""
        settings = self.settings
        begin_s, end_s, audience = claims.get("nbf", 0), claims.get("exp"), claims.get("aud")
        if type(begin_s) is not int or type(end_s) is not int or not 0 <= begin_s <= end_s <= JWT_TIME_MAX_S:
            return False
        is_meant = settings.audience in audience if isinstance(audience, list) else audience == settings.audience
        is_known = claims.get("iss") == settings.issuer and claims.get(settings.user_claim) == name
        return is_meant and is_known and begin_s * 1000 <= now_ms < end_s * 1000


def _unverified(secret: bytes) -> dict[str, Any]:
    """Returns the claims, unverified: anybody can have written them."""
    try:
        payload = secret.split(b".")[1]
        return _claims(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)))
    except (ValueError, RecursionError):
        return {}


def _claims(payload: bytes) -> dict[str, Any]:
    """Raises ValueError if it is not a JSON object, or has a key twice."""
    found = json.loads(payload, object_pairs_hook=_each_once)
    if not isinstance(found, dict):
        raise ValueError("is not an object")
    return found


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("has a key twice")
    return found


# ---- the file of keys


def read_keys(settings: JwtSettings, text: bytes) -> JwtMechanism:
    """text: a JWKS (RFC 7517), or public keys in PEM. Raises ValueError, a clause that repeats nothing of a key, and
    ModuleNotFoundError if PyJWT, or what it needs, is not installed.
    """
    import cryptography  # noqa: F401  # without it PyJWT supports secrets only
    import jwt  # noqa: F401

    found = _of_pem(text) if b"-----BEGIN" in text else _of_jwks(text)
    if len(found) > JWT_KEYS_MAX:
        raise ValueError(f"has {len(found)} keys; there may be at most {JWT_KEYS_MAX}")
    keys: dict[tuple[str, str | None], Any] = {}
    for number, (key, kid, only) in enumerate(found, 1):
        kind = _kind_of(key)
        if (kind == _SECRET) is not are_of_secrets(settings.algorithms):
            what = "a secret" if kind == _SECRET else "a public key"
            raise ValueError(f"has {what} as key {number}, and jwt.algorithms are {', '.join(settings.algorithms)}")
        for algorithm in (one for one in settings.algorithms if _KINDS[one] == kind and only in (None, one)):
            if kind == _SECRET and len(key) < _SECRET_MIN_BYTES[algorithm]:
                least = _SECRET_MIN_BYTES[algorithm]
                raise ValueError(f"has a secret of {len(key)} bytes as key {number}; {algorithm} needs {least}")
            if (algorithm, kid) in keys:
                twice = "the kid of another" if kid is not None else "no kid, as another one"
                raise ValueError(f"has a key for {algorithm} with {twice}; give each its own")
            keys[algorithm, kid] = key
    for algorithm in settings.algorithms:
        if not any(one == algorithm for one, _ in keys):
            raise ValueError(f"has no key for {algorithm}, which jwt.algorithms has; it needs {_KINDS[algorithm]}")
    return JwtMechanism(settings, text, keys)


Found = tuple[Any, str | None, str | None]  # a key, its kid, and the one algorithm that it is for


def _of_pem(text: bytes) -> list[Found]:
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    found: list[Found] = []
    for block in _PEM.finditer(text):
        if block[1] != b"PUBLIC KEY":
            right = "it must have public keys, as `openssl pkey -in signing.key -pubout` writes them"
            raise ValueError(f"has a {block[1].decode()} in PEM; {right}")
        try:
            found.append((load_pem_public_key(block[0]), None, None))
        except Exception:  # noqa: BLE001  # a door: what the library raises here is not all documented
            raise ValueError(f"has a public key that is broken, as key {len(found) + 1}") from None
    if not found:
        raise ValueError("has no whole public key in PEM")
    return found


def _of_jwks(text: bytes) -> list[Found]:
    from jwt import PyJWK, PyJWTError

    try:
        given = _claims(text).get("keys")
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, list) or not given or not all(isinstance(one, dict) for one in given):
        raise ValueError('is neither public keys in PEM nor a JWKS, as {"keys": [...]}')
    found: list[Found] = []
    for number, one in enumerate(given, 1):
        kid, only = one.get("kid"), one.get("alg")
        if not isinstance(only, str | None):
            raise ValueError(f"has an alg that is not text, as key {number}; it must be one such as ES256")
        if one.get("use", "sig") != "sig" or (only is not None and only not in _KINDS):
            continue  # issuers list encryption keys, too
        if not isinstance(kid, str | None):
            raise ValueError(f"has a kid that is not text, as key {number}")
        if one.get("kty") != "oct" and "d" in one:
            raise ValueError(f"has a private key as key {number}; the broker needs the public one alone: remove d")
        try:
            found.append((PyJWK(one, only).key, kid, only))
        except (PyJWTError, ValueError, TypeError):
            raise ValueError(f"has a key that is broken, or of an unknown type, as key {number}") from None
    return found


def _kind_of(key: Any) -> str:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(key, bytes):
        return _SECRET
    if isinstance(key, rsa.RSAPublicKey):
        if not RSA_MIN_BITS <= key.key_size <= RSA_MAX_BITS:
            raise ValueError(f"has an RSA key of {key.key_size} bits; it must have {RSA_MIN_BITS} to {RSA_MAX_BITS}")
        return "RSA"
    if isinstance(key, ec.EllipticCurvePublicKey):
        return f"EC {_CURVES.get(key.curve.name, key.curve.name)}"
    return "Ed25519" if isinstance(key, ed25519.Ed25519PublicKey) else "another kind"
