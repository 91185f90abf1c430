"""The PHC text of a password: made, read, bounded."""

import hashlib

import pytest

from radiator.auth import scrypt
from radiator.auth.scrypt import Cost, made, parse
from radiator.model.limits import MIB, SCRYPT_MEMORY_MAX_BYTES

CHEAP = Cost(ln=10)
SALT = bytes(range(16))


def test_a_password_fits_what_was_made_of_it_and_no_other_does() -> None:
    kept = parse(str(made(b"correct horse", SALT, CHEAP)))
    assert kept.fits(b"correct horse")
    for other in (b"", b"correct hors", b"correct horse ", b"Correct horse"):
        assert not kept.fits(other)


def test_the_test_vector_of_the_rfc() -> None:
    """RFC 7914, section 12: the password "pleaseletmein", N = 16384, r = 8, p = 1."""
    digest = bytes.fromhex(
        "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2"
        "d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887"
    )
    assert scrypt._digest(Cost(ln=14), b"SodiumChloride", b"pleaseletmein", 64) == digest


def test_what_is_made_is_as_dear_as_is_said() -> None:
    kept = made(b"x", SALT)
    assert str(kept).startswith("$scrypt$ln=15,r=8,p=1$") and kept.cost.memory_bytes == 32 * MIB
    want = hashlib.scrypt(b"x", salt=SALT, n=32768, r=8, p=1, maxmem=64 * MIB, dklen=32)
    assert kept.digest == want and parse(str(kept)) == kept


def text(head: str = "ln=10,r=8,p=1", salt_bytes: int = 16, hash_bytes: int = 32) -> str:
    return f"$scrypt${head}${scrypt._text(bytes(salt_bytes))}${scrypt._text(bytes(hash_bytes))}"


@pytest.mark.parametrize(
    "right",
    [
        text(),
        text("ln=17,r=8,p=1"),
        text("ln=14,r=32,p=4"),
        text(salt_bytes=64, hash_bytes=64),
        text(hash_bytes=16),
    ],
)
def test_at_the_bounds(right: str) -> None:
    assert str(parse(right)) == right
    assert parse(right).cost.memory_bytes <= SCRYPT_MEMORY_MAX_BYTES


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("", "not a PHC text"),
        ("hunter2", "not a PHC text"),
        ("$2b$12$abcdefghijklmnopqrstuv", "not a PHC text"),
        (text() + "\n", "not a PHC text"),
        (text("ln=9,r=8,p=1"), "ln must be 10 to 17"),
        (text("ln=18,r=1,p=1"), "ln must be 10 to 17"),
        (text("ln=99,r=8,p=1"), "ln must be 10 to 17"),
        (text("ln=10,r=0,p=1"), "r 1 to 32"),
        (text("ln=10,r=33,p=1"), "r 1 to 32"),
        (text("ln=10,r=8,p=5"), "p 1 to 4"),
        (text("ln=17,r=9,p=1"), "a login takes 144 MiB"),
        (text("ln=010,r=8,p=1"), "not a PHC text"),
        (text(salt_bytes=15), "a salt of 15 bytes"),
        (text(salt_bytes=65), "a salt of 65 bytes"),
        (text(hash_bytes=15), "a hash of 15 bytes"),
        (text()[:-1] + "=", "not a PHC text"),
        (text(hash_bytes=32)[:-1] + "B", "not base64"),
    ],
)
def test_one_past_the_bounds(wrong: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        parse(wrong)
    assert not wrong or wrong not in str(caught.value)


def test_nothing_of_it_is_shown() -> None:
    kept = made(b"secret", SALT, CHEAP)
    assert scrypt._text(kept.digest) not in repr(kept) and str(kept.digest) not in repr(kept)


def test_nothing_fits_a_dummy() -> None:
    dummy = scrypt.dummy(CHEAP)
    assert dummy.cost == CHEAP and not dummy.fits(b"") and not dummy.fits(b"x")
