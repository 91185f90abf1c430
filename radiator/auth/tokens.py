"""Tokens of machines: 256 random bits as text, of which a configuration keeps the SHA-256.

So many bits cannot be guessed, so one fast hash is enough, and nothing is gained by knowing the configuration.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable

from radiator.model.users import Token

TOKEN_BYTES = 32
PREFIX = "radt_"  # by which programs that search for leaked secrets recognise one
_TOKEN = re.compile(rb"radt_[A-Za-z0-9_-]{43}")
_SHA256 = re.compile("[0-9a-f]{64}")


def text_of(random: bytes) -> str:
    """Returns the token itself. random: TOKEN_BYTES."""
    assert len(random) == TOKEN_BYTES
    return PREFIX + base64.urlsafe_b64encode(random).decode().rstrip("=")


def is_token(secret: bytes) -> bool:
    """Whether it has the form of a token: then it is not a password."""
    return _TOKEN.fullmatch(secret) is not None


def sha256_of(token: bytes) -> str:
    """Returns the hash as a configuration keeps it."""
    return hashlib.sha256(token).hexdigest()


def is_sha256(text: str) -> bool:
    """Whether it has the form of `sha256_of`."""
    return _SHA256.fullmatch(text) is not None


def fitting(tokens: Iterable[Token], secret: bytes, now_ms: int) -> Token | None:
    """Returns the token that the secret is, unless it has run out."""
    given = sha256_of(secret).encode()
    found = None
    for token in tokens:
        fits = hmac.compare_digest(token.sha256.encode(), given)
        if fits and (token.until_ms is None or now_ms < token.until_ms):
            found = token
    return found
