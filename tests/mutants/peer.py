"""The protocol of links: frames, fields, proofs."""

from tests.mutants import Mutant

MUTANTS = (
    Mutant(
        "link-acceptor-proves-first",
        "Who is dialled gives its proof to whoever calls: a stranger can guess the secret over it, at home.",
        function="PeerSession._handshake",
        old="self._say(encode(self._ours if self._expected is None else Proof(self._proof(of_us=True))))",
        new="self._say(encode(self._ours) * (self._expected is None) + encode(Proof(self._proof(of_us=True))))",
    ),
    Mutant(
        "link-certificate-not-in-proof",
        "Over TLS the proof says nothing of the certificate: whoever stands between with another one passes it on.",
        function="proof",
        old="parts = [TLS_LINK_VERSION, *parts[1:], certificate_sha256]",
        new="parts = [TLS_LINK_VERSION, *parts[1:]]",
    ),
    Mutant(
        "link-plain-version-over-tls",
        "Who offers the plain version within TLS is taken by it: its proof is of no certificate.",
        function="PeerSession._behind_line",
        old="if version != self._version:",
        new="""
        if version == LINK_VERSION:
            self._certificate_sha256 = b""
        elif version != self._version:
        """,
    ),
    Mutant(
        "link-leftovers-ignored",
        "Bytes behind the last field of a frame are passed over.",
        function="Frames._word",
        old="if reader.at != reader.end:",
        new="if reader.at > reader.end:",
    ),
    Mutant(
        "link-length-not-bounded",
        "A frame may be as long as it claims to be, and is held until it is whole.",
        function="Frames._check_head",
        old="if not 1 <= length <= 1 + most:",
        new="if not length:",
    ),
    Mutant(
        "link-list-not-bounded",
        "A list may have as many items as fit its frame.",
        function="_list",
        old="if count > most(reader.limits):",
        new="if count > reader.end:",
    ),
    Mutant(
        "link-nonce-not-in-proof",
        "The proof is of names and secret alone: who has heard one can say it for ever.",
        function="proof",
        old='parts = [LINK_VERSION, b"dialler" if of_dialler else b"acceptor", encode(dialler), encode(acceptor)]',
        new=(
            'parts = [LINK_VERSION, b"dialler" if of_dialler else b"acceptor", dialler.name.encode(),'
            " acceptor.name.encode()]"
        ),
    ),
    Mutant(
        "link-proof-not-checked",
        "Whoever sends any proof is linked: it is not compared with what it should be.",
        function="PeerSession._open",
        old="if not is_right(theirs.mac, self._proof(of_us=False)):",
        new="if not theirs.mac:",
    ),
    Mutant(
        "link-role-not-in-proof",
        "The proof does not say who made it: sent back, it is as good as the other's.",
        function="proof",
        old='parts = [LINK_VERSION, b"dialler" if of_dialler else b"acceptor", encode(dialler), encode(acceptor)]',
        new='parts = [LINK_VERSION, b"node", encode(dialler), encode(acceptor)]',
    ),
    Mutant(
        "link-unknown-node-accepted",
        "A node that has the secret is linked with, whether it is in the list or not.",
        function="PeerSession._check",
        old="if not self._is_known(name):",
        new="if not name:",
    ),
)
