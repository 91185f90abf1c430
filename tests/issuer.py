"""Who signs JSON Web Tokens for tests: keys of every kind, and tokens, right or broken on purpose."""

import base64
import json
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from jwt import PyJWS
from jwt.algorithms import get_default_algorithms

ISSUER, AUDIENCE = "https://login.example", "radiator"
END_S = 2_000_000_000
SECRET = b"0123456789abcdef" * 4

TABLE = f"""
[jwt]
keys = "keys.json"
algorithms = ["ES256"]
issuer = "{ISSUER}"
audience = "{AUDIENCE}"
"""


def part(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


class Issuer:
    """One pair of keys. algorithm: that it signs by."""

    def __init__(self, algorithm: str = "ES256", kid: str | None = "one", key: Any = None) -> None:
        self.algorithm = algorithm
        self.kid = kid
        self.private = key if key is not None else made(algorithm)

    @property
    def public(self) -> Any:
        return self.private if isinstance(self.private, bytes) else self.private.public_key()

    @property
    def jwk(self) -> dict[str, Any]:
        algorithms: Any = get_default_algorithms()
        found: dict[str, Any] = dict(algorithms[self.algorithm].to_jwk(self.public, as_dict=True))
        found.pop("key_ops", None)
        return found | ({"kid": self.kid} if self.kid is not None else {})

    @property
    def pem(self) -> bytes:
        found: bytes = self.public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return found

    @property
    def private_pem(self) -> bytes:
        found: bytes = self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return found

    def token(self, header: dict[str, Any] | None = None, **claims: Any) -> bytes:
        """For the user shop, unless a claim says otherwise; one that is None is left out."""
        return self.signed(json.dumps(body(**claims)).encode(), header)

    def signed(self, payload: bytes, header: dict[str, Any] | None = None) -> bytes:
        own = {"kid": self.kid} if self.kid is not None else {}
        return PyJWS().encode(payload, self.private, self.algorithm, {**own, **(header or {})}).encode()


def body(**claims: Any) -> dict[str, Any]:
    usual = {"sub": "shop", "iss": ISSUER, "aud": AUDIENCE, "exp": END_S}
    return {key: value for key, value in {**usual, **claims}.items() if value is not None}


def made(algorithm: str) -> Any:
    curves = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}
    if algorithm in curves:
        return ec.generate_private_key(curves[algorithm]())
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return SECRET if algorithm.startswith("HS") else rsa.generate_private_key(65_537, 2048)


def unsigned(header: dict[str, Any], payload: bytes, signature: bytes = b"") -> bytes:
    """Of these very parts."""
    return ".".join(map(part, (json.dumps(header).encode(), payload, signature))).encode()


def jwks(*issuers: Issuer, **more: Any) -> bytes:
    """more: what each key has beside."""
    return json.dumps({"keys": [one.jwk | more for one in issuers]}).encode()


def written(path: Path, *issuers: Issuer) -> Path:
    """A file of their keys."""
    path.write_bytes(jwks(*issuers))
    path.chmod(0o600)
    return path
