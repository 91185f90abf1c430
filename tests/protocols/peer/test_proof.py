"""What proves that a node has the secret: of both challenges, of the role, and of nothing else."""

import hashlib
import hmac
import struct
from dataclasses import fields, replace

import pytest

from radiator.protocols.peer.frame import encode
from radiator.protocols.peer.proof import is_right, proof
from radiator.protocols.peer.spec import Challenge

A = Challenge("a", b"n" * 32, "s1", "", 100, 10, 1, 1000)
B = Challenge("b", b"m" * 32, "s2", "peer://h:1", 100, 10, 1, 1000)


def test_both_sides_make_the_same_of_the_same() -> None:
    assert proof(b"secret", True, A, B) == proof(b"secret", True, replace(A), replace(B))
    assert len(proof(b"secret", True, A, B)) == 32


def test_no_other_secret_role_or_order_gives_it() -> None:
    right = proof(b"secret", True, A, B)
    for other in (proof(b"secreu", True, A, B), proof(b"secret", False, A, B), proof(b"secret", True, B, A)):
        assert not is_right(other, right)
    assert is_right(right, right) and not is_right(right[:-1], right) and not is_right(b"", right)


@pytest.mark.parametrize("field", [field.name for field in fields(Challenge)])
def test_each_field_of_both_challenges_is_in_it(field: str) -> None:
    value = getattr(A, field)
    changed = replace(
        A,
        **{
            field: value + 1
            if isinstance(value, int)
            else value + type(value)(b"x" if isinstance(value, bytes) else "x")
        },
    )
    right = proof(b"secret", True, A, B)
    assert proof(b"secret", True, changed, B) != right and proof(b"secret", True, B, changed) != proof(
        b"secret", True, B, A
    )


def signed(*parts: bytes) -> bytes:
    """Each behind its length."""
    return b"".join(struct.pack(">H", len(part)) + part for part in parts)


def test_it_is_made_as_the_protocol_says_without_tls_and_over_it() -> None:
    for version, more in ((b"radiator-link/2", b""), (b"radiator-link/3", bytes(range(32)))):
        whole = signed(version, b"acceptor", encode(A), encode(B), *[more] * bool(more))
        assert proof(b"secret", False, A, B, more) == hmac.new(b"secret", whole, hashlib.sha256).digest()


def test_over_tls_the_certificate_is_in_it() -> None:
    proofs = {proof(b"secret", True, A, B, certificate) for certificate in (b"", b"c" * 32, b"d" * 32)}
    assert len(proofs) == 3
