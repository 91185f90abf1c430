"""The proof that a node has the secret, without sending it.

It covers both challenges and the role of its maker: the other side's nonce keeps it from being used again, and the role
from being sent back to its maker. Over TLS it covers the acceptor's certificate too, as that end of the connection has
shown it and this end has seen it: who stands between them with another one, however valid, cannot pass a proof on. A
node that has a proof can try guesses at the secret against it, as often as it
likes, so a secret must be random. Pure: the nonces are arguments.
"""

import hmac

from radiator.protocols.peer.frame import encode
from radiator.protocols.peer.spec import LINK_VERSION, TLS_LINK_VERSION, Challenge


def proof(
    secret: bytes, of_dialler: bool, dialler: Challenge, acceptor: Challenge, certificate_sha256: bytes = b""
) -> bytes:
    """HMAC-SHA256 by that side. certificate_sha256: of the acceptor's, in the handshake of this very connection; b"":
    without TLS. Each part is preceded by its length, so no two links give the same bytes.
    """
    parts = [LINK_VERSION, b"dialler" if of_dialler else b"acceptor", encode(dialler), encode(acceptor)]
    if certificate_sha256:
        parts = [TLS_LINK_VERSION, *parts[1:], certificate_sha256]
    signed = b"".join([len(part).to_bytes(2, "big") + part for part in parts])
    return hmac.digest(secret, signed, "sha256")


def is_right(given: bytes, wanted: bytes) -> bool:
    """Compares in the same time wherever they differ."""
    return hmac.compare_digest(given, wanted)
