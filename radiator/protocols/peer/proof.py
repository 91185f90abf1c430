"""What proves that a node has the secret, without saying it.

The proof is of both challenges and of who made it: with the nonce of the other side in it none can be used again, and
with the role none can be sent back to the one who made it. Who has a proof can guess the secret, as often as it likes,
so a secret must be of chance. Pure: the nonces come from outside.
"""

import hmac

from radiator.protocols.peer.frame import encode
from radiator.protocols.peer.spec import LINK_VERSION, Challenge


def proof(secret: bytes, of_dialler: bool, dialler: Challenge, acceptor: Challenge) -> bytes:
    """HMAC-SHA256 by that side. Every part stands behind its length, so no two links give the same bytes."""
    parts = [LINK_VERSION, b"dialler" if of_dialler else b"acceptor", encode(dialler), encode(acceptor)]
    said = b"".join([len(part).to_bytes(2, "big") + part for part in parts])
    return hmac.digest(secret, said, "sha256")


def is_right(given: bytes, wanted: bytes) -> bool:
    """Compares in the same time wherever they differ."""
    return hmac.compare_digest(given, wanted)
