"""Tokens: their form, what is kept of them, and when they end."""

import hashlib

import pytest

from radiator.auth.tokens import fitting, is_sha256, is_token, sha256_of, text_of
from radiator.model.users import Token

SECRET = text_of(bytes(range(32))).encode()


def test_a_token_is_recognised_by_its_form_alone() -> None:
    assert SECRET.startswith(b"radt_") and len(SECRET) == 48 and is_token(SECRET)
    for other in (b"", SECRET[:-1], SECRET + b"x", SECRET + b"\n", b"rad_" + SECRET, SECRET[:-1] + b"+"):
        assert not is_token(other)


def test_two_are_not_the_same() -> None:
    assert text_of(bytes(32)) != text_of(bytes(31) + b"\1")


def test_what_is_kept_is_its_sha256() -> None:
    assert sha256_of(SECRET) == hashlib.sha256(SECRET).hexdigest() and is_sha256(sha256_of(SECRET))


@pytest.mark.parametrize("wrong", ["", "0" * 63, "0" * 65, "G" * 64, "A" * 64, "0" * 64 + "\n"])
def test_what_is_no_sha256(wrong: str) -> None:
    assert not is_sha256(wrong)


def test_one_fits_until_its_last_millisecond() -> None:
    kept = Token(sha256_of(SECRET), 1000)
    assert fitting([kept], SECRET, 999) is kept
    assert fitting([kept], SECRET, 1000) is None
    assert fitting([Token(sha256_of(SECRET))], SECRET, 10**15) is not None


def test_each_of_several_fits_and_no_other() -> None:
    other = Token(sha256_of(b"other"))
    mine = Token(sha256_of(SECRET))
    assert fitting([other, mine], SECRET, 0) is mine and fitting([mine, other], SECRET, 0) is mine
    assert fitting([other], SECRET, 0) is None and fitting([], SECRET, 0) is None


def test_a_kept_sha256_is_no_token() -> None:
    """Who has read the configuration cannot log in with it."""
    assert fitting([Token(sha256_of(SECRET))], sha256_of(SECRET).encode(), 0) is None
