"""How Radiator says no: sentences that a peer's bytes cannot break, and errors that say what they are."""

import pytest

from radiator.model.errors import (
    ConfigError,
    Contradiction,
    DamagedRecord,
    DiskFailed,
    LinkError,
    RadiatorError,
    Refusal,
    StoreError,
    Violation,
    count_text,
    shown,
)
from radiator.model.limits import SHOWN_BYTES


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"", "''"),
        (b"a b", "'a b'"),
        ("ä€".encode(), "'ä€'"),
        (b"a\nb\0\x1b[2J", "'a\\nb\\x00\\x1b[2J'"),
        (b"\xff\xfe", "'\\xff\\xfe'"),
        (b"it's", '"it\'s"'),
    ],
)
def test_bytes_of_a_peer_are_quoted_and_printable(value: bytes, text: str) -> None:
    assert shown(value) == text and text.isprintable()


def test_so_many_bytes_of_a_peer_are_shown_and_one_more_is_cut() -> None:
    assert shown(b"x" * SHOWN_BYTES) == "'" + "x" * SHOWN_BYTES + "'"
    assert shown(b"x" * (SHOWN_BYTES + 1)) == "'" + "x" * SHOWN_BYTES + "'..."


@pytest.mark.parametrize(
    ("count", "words", "text"),
    [
        (0, ("byte",), "0 bytes"),
        (1, ("byte",), "1 byte"),
        (2, ("byte",), "2 bytes"),
        (2, ("body", "bodies"), "2 bodies"),
    ],
)
def test_counts_have_their_plural(count: int, words: tuple[str, ...], text: str) -> None:
    assert count_text(count, *words) == text


def test_what_is_raised_says_how_the_program_ends() -> None:
    """Damage is a StoreError, which ends with a sentence; what contradicts is a bug as well."""
    assert issubclass(DamagedRecord, StoreError) and issubclass(Contradiction, StoreError)
    assert issubclass(Contradiction, AssertionError) and not issubclass(DamagedRecord, AssertionError)
    assert not issubclass(DiskFailed, StoreError)
    assert all(issubclass(kind, RadiatorError) for kind in (Violation, StoreError, DiskFailed))


def test_errors_carry_what_they_are_asked_for() -> None:
    assert Refusal("queue-full", "No.").code == "queue-full"
    assert ConfigError(["One.", "Two."]).mistakes == str(ConfigError(["One.", "Two."])).split("\n")
    assert LinkError("No.").advice and LinkError("No.", "Do this.").advice == "Do this."
