"""The words of a link as a table: the number of each on the wire, and its fields in their order.

fields.py has how each is written; docs/PROTOCOL.md draws the bytes.
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
    Field,
)

LINK_VERSION = b"radiator-link/2"
"""What a link begins with. Any change of the table below is another number."""


# ---- words of the session itself ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Challenge:
    """Who I am; `nonce` has never been said before. address: where I can be dialled, or "".

    max_...: my Limits. heart_beat_ms: of my Node.
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
    """That I have the secret (proof.py)."""

    mac: bytes


@dataclass(slots=True)
class Refused:
    """I close the link, and why. The same in every version of the link."""

    code: str
    sentence: str


# ---- words ----------------------------------------------------------------------------------------------------------

Said = PeerFrame | Challenge | Proof | Refused


@dataclass(slots=True, frozen=True)
class WordSpec:
    """kind: its number on the wire. fields: in the order of the word's own."""

    kind: int
    word: type[Said]
    fields: tuple[Field, ...]

    def most_bytes(self, limits: Limits) -> int:
        """Of its fields together."""
        return sum(field.most_bytes(limits) for field in self.fields)


BEAT = 0
"""The kind of a heart-beat, which has no fields."""

_TABLE = (
    WordSpec(1, Challenge, (NODE, NONCE, STORE_ID, ADDRESS, NUMBER, NUMBER, NUMBER, NUMBER)),
    WordSpec(2, Proof, (MAC,)),
    WordSpec(3, Refused, (CODE, SENTENCE)),
    WordSpec(16, Hello, (NUMBER, NAMES, CHILDREN)),
    WordSpec(17, Welcome, (NUMBER, NUMBER)),
    WordSpec(18, Transfer, (NUMBER, NUMBER, DESTINATION, MESSAGE, PATH, REDELIVERIES, FLAG, NUMBER, NUMBER)),
    WordSpec(19, Taken, (NUMBER,)),
    WordSpec(20, Demand, (NAME, PATH)),
    WordSpec(21, Supply, (NAME, NUMBER, NUMBER, FLAG)),
    WordSpec(22, Credit, (NAME_OR_NONE, NUMBER)),
    WordSpec(23, Digest, (VERSIONS,)),
    WordSpec(24, NodeState, (VERSION, FLAG, NEIGHBOURS, NEIGHBOURS, PATTERNS, PATTERNS, ADDRESS)),
    WordSpec(25, Publish, (NODE, NUMBER, NUMBER, NUMBER, MESSAGE_ID, PUBLISHED, NEIGHBOURS)),
    WordSpec(26, Declared, (NAME, SETTINGS)),
    WordSpec(27, Capacity, (FLAG, NUMBER)),
    WordSpec(28, Want, (FLAG, NUMBER)),
    WordSpec(29, Untaken, (NUMBER, NAME)),
    WordSpec(30, Standing, (FLAG, PATTERNS, COUNTS, PATTERNS)),
    WordSpec(31, Answer, (NODE, NUMBER, ANSWER)),
    WordSpec(32, Parcel, (DESTINATION, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER)),
    WordSpec(33, Proceed, (NUMBER, NUMBER)),
    WordSpec(34, Piece, (NUMBER, NUMBER, PIECE)),
)
SPECS: dict[type[Said], WordSpec] = {spec.word: spec for spec in _TABLE}
BEFORE_PROOF: dict[int, WordSpec] = {spec.kind: spec for spec in _TABLE if spec.kind <= 3}
AFTER_PROOF: dict[int, WordSpec] = {spec.kind: spec for spec in _TABLE if spec.kind >= 3}

CODES = frozenset(
    (
        "protocol", "link-version", "unknown-node", "wrong-node", "same-name", "wrong-secret", "echo", "other-limits",
        "same-store", "duplicate-link", "superseded", "other-store", "link-error", "memory",
    )
)  # fmt: skip
"""Of refusals (docs/PROTOCOL.md). Another version may have others."""
