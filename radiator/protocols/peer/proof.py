"""The proof that a node has the secret, without sending it.

It covers both challenges and the role of the side that makes it: the other side's nonce keeps the proof from being used
again, and the role keeps it from being sent back to its maker. Over TLS it covers the acceptor's certificate too, as
each end sees it on this connection: somebody between the two, who must show another certificate, cannot pass a proof
on, however valid that certificate is. A node that has a proof can test guesses at the secret against it as often as it
likes, so the secret must be random. Pure: the nonces are arguments.
"""

import hmac

from radiator.protocols.peer.frame import encode
from radiator.protocols.peer.spec import LINK_VERSION, TLS_LINK_VERSION, Challenge


def proof(
    secret: bytes, of_dialler: bool, dialler: Challenge, acceptor: Challenge, certificate_sha256: bytes = b""
) -> bytes:
    """Returns the HMAC-SHA256 of one side. of_dialler: that of the side that dialled. certificate_sha256: that of the
    acceptor's certificate, as the handshake of this connection showed it; b"": without TLS. Each part is preceded by
    its length, so no two links give the same bytes.
    """
    parts = [LINK_VERSION, b"dialler" if of_dialler else b"acceptor", encode(dialler), encode(acceptor)]
    if certificate_sha256:
        parts = [TLS_LINK_VERSION, *parts[1:], certificate_sha256]
    signed = b"".join([len(part).to_bytes(2, "big") + part for part in parts])
    return hmac.digest(secret, signed, "sha256")


def is_right(given: bytes, wanted: bytes) -> bool:
    """Compares two proofs in a time that does not depend on where they differ."""
    return hmac.compare_digest(given, wanted)
