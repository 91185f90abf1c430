"""The words of a link as a table: the number of each on the wire, and its fields in their order.

fields.py defines how each is written; docs/PROTOCOL.md draws the bytes.
"""

from dataclasses import dataclass

from radiator.model.limits import Limits
from radiator.model.peer import (
    Answer,
    Capacity,
    Credit,
    Declared,
    Demand,
    Digest,
    Hello,
    NodeState,
    Parcel,
    PeerFrame,
    Piece,
    Proceed,
    Publish,
    Standing,
    Supply,
    Taken,
    Transfer,
    Untaken,
    Want,
    Welcome,
)
from radiator.protocols.peer.fields import (
    ADDRESS,
    ANSWER,
    CHILDREN,
    CODE,
    COUNTS,
    DESTINATION,
    FLAG,
    MAC,
    MESSAGE,
    MESSAGE_ID,
    NAME,
    NAME_OR_NONE,
    NAMES,
    NEIGHBOURS,
    NODE,
    NONCE,
    NUMBER,
    PATH,
    PATTERNS,
    PIECE,
    PUBLISHED,
    REDELIVERIES,
    SENTENCE,
    SETTINGS,
    STORE_ID,
    VERSION,
    VERSIONS,
    FieldCodec,
)

LINK_VERSION, TLS_LINK_VERSION = b"radiator-link/2", b"radiator-link/3"
"""The first bytes of a link, and of one over TLS. Any change of the table below takes other numbers for both."""


# ---- words of the session itself ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Challenge:
    """name: the sender's. nonce: never used before. address: where the sender can be dialled, or "".

    max_...: the sender's Limits. heart_beat_ms: as in the sender's Node.
    """

    name: str
    nonce: bytes
    store_id: str
    address: str
    max_frame_bytes: int
    max_header_bytes: int
    max_headers: int
    heart_beat_ms: int


@dataclass(slots=True)
class Proof:
    """Proves that the sender has the secret (proof.py)."""

    mac: bytes


@dataclass(slots=True)
class Refused:
    """The sender closes the link for this reason. The word is the same in every version of the link."""

    code: str
    sentence: str


# ---- words ----------------------------------------------------------------------------------------------------------

LinkFrame = PeerFrame | Challenge | Proof | Refused


@dataclass(slots=True, frozen=True)
class FrameSpec:
    """kind: the word's number on the wire. fields: their codecs, in the order of the word's fields."""

    kind: int
    word: type[LinkFrame]
    fields: tuple[FieldCodec, ...]

    def most_bytes(self, limits: Limits) -> int:
        """Returns the most bytes that all fields take together."""
        return sum(field.most_bytes(limits) for field in self.fields)


BEAT = 0
"""The kind of a heart-beat, which has no fields."""

_TABLE = (
    FrameSpec(1, Challenge, (NODE, NONCE, STORE_ID, ADDRESS, NUMBER, NUMBER, NUMBER, NUMBER)),
    FrameSpec(2, Proof, (MAC,)),
    FrameSpec(3, Refused, (CODE, SENTENCE)),
    FrameSpec(16, Hello, (NUMBER, NAMES, CHILDREN)),
    FrameSpec(17, Welcome, (NUMBER, NUMBER)),
    FrameSpec(18, Transfer, (NUMBER, NUMBER, DESTINATION, MESSAGE, PATH, REDELIVERIES, FLAG, NUMBER, NUMBER)),
    FrameSpec(19, Taken, (NUMBER,)),
    FrameSpec(20, Demand, (NAME, PATH)),
    FrameSpec(21, Supply, (NAME, NUMBER, NUMBER, FLAG)),
    FrameSpec(22, Credit, (NAME_OR_NONE, NUMBER)),
    FrameSpec(23, Digest, (VERSIONS,)),
    FrameSpec(24, NodeState, (VERSION, FLAG, NEIGHBOURS, NEIGHBOURS, PATTERNS, PATTERNS, ADDRESS)),
    FrameSpec(25, Publish, (NODE, NUMBER, NUMBER, NUMBER, MESSAGE_ID, PUBLISHED, NEIGHBOURS)),
    FrameSpec(26, Declared, (NAME, SETTINGS)),
    FrameSpec(27, Capacity, (FLAG, NUMBER)),
    FrameSpec(28, Want, (FLAG, NUMBER)),
    FrameSpec(29, Untaken, (NUMBER, NAME)),
    FrameSpec(30, Standing, (FLAG, PATTERNS, COUNTS, PATTERNS)),
    FrameSpec(31, Answer, (NODE, NUMBER, ANSWER)),
    FrameSpec(32, Parcel, (DESTINATION, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER)),
    FrameSpec(33, Proceed, (NUMBER, NUMBER)),
    FrameSpec(34, Piece, (NUMBER, NUMBER, PIECE)),
)
SPECS: dict[type[LinkFrame], FrameSpec] = {spec.word: spec for spec in _TABLE}
BEFORE_PROOF: dict[int, FrameSpec] = {spec.kind: spec for spec in _TABLE if spec.kind <= 3}
AFTER_PROOF: dict[int, FrameSpec] = {spec.kind: spec for spec in _TABLE if spec.kind >= 3}

CODES = frozenset(
    (
        "protocol", "link-version", "unknown-node", "wrong-node", "same-name", "wrong-secret", "echo", "other-limits",
        "same-store", "duplicate-link", "superseded", "other-store", "link-error", "memory",
    )
)  # fmt: skip
"""The codes of refusals (docs/PROTOCOL.md). Another version may have others."""
