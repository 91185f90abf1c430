"""The words of two linked nodes to each other, once each has proved who it is (docs/CLUSTER.md has the procedures).

Words are never changed after construction: one may be sent to many. Sequences and epochs are whole numbers below 2**63;
names of nodes are NODE_NAME_MAX_BYTES at most; `queue` is a NAME without `/queue/`.
"""

from dataclasses import dataclass, field

from radiator.model.limits import LINK_COST_BYTES
from radiator.model.message import Message


@dataclass(slots=True)
class Identity:
    """The node at the other end, as proved. is_dialled: by this node. address: where it can be dialled, or ""."""

    name: str
    store_id: str
    is_dialled: bool
    address: str = ""


# ---- handing messages over: one direction each; epochs and sequences are the sender's ------------------------------


@dataclass(slots=True)
class Hello:
    """The sender's new epoch, which is on its disk: connections of earlier ones are void.

    fanouts: those of scope "cluster" that the sender of this word has declared, and takes copies for; children: how
    often it stores one, for each of them.
    """

    epoch: int
    fanouts: list[str]
    children: list[int]


@dataclass(slots=True)
class Welcome:
    """Answers Hello: that epoch, and the last sequence accepted from its sender, are on the disk."""

    epoch: int
    last: int


@dataclass(slots=True)
class Transfer:
    """One message changes its owner. It is in doubt on the sender's disk before this is sent.

    sequence: the one after the last; epoch: of this connection. destination: `/queue/NAME`, `/fanout/NAME` or
    `/topic/NAME`.
    message: as stored, with its time of acceptance and its expiry. path: names of the nodes it has been on, the sender
    included. left: how many more of that queue the sender could give; for a topic's message, for how many durable
    subscriptions capacity was counted. parcel: 0, or the number under which the body was sent ahead: then the message's
    own is empty.
    """

    epoch: int
    sequence: int
    destination: str
    message: Message
    path: list[str]
    redeliveries: int
    redelivered: bool
    left: int
    parcel: int = 0


@dataclass(slots=True)
class Taken:
    """Everything up to `last` is on the sender's disk."""

    last: int


@dataclass(slots=True)
class Untaken:
    """The sender has no such queue (any more): the message is not stored, nor any word after it in this epoch. The
    receiver sends Hello again; what the sender does not then confirm as taken is still the receiver's.
    """

    epoch: int
    queue: str


@dataclass(slots=True)
class Demand:
    """This queue is empty, and its consumers are idle. path: the asking node, then those that passed it on."""

    queue: str
    path: list[str]


@dataclass(slots=True)
class Supply:
    """That many messages of this queue can be given, `hops` links away. is_draining: the node wants to empty it."""

    queue: str
    ready: int
    hops: int
    is_draining: bool


@dataclass(slots=True)
class Credit:
    """The receiver may hand over that many messages of this queue ("": copies, of fanouts and of topics) on this link
    in all, whatever was granted before.

    Counted from the beginning of the link, so that messages on their way are not granted twice.
    """

    queue: str
    through: int


@dataclass(slots=True)
class Declared:
    """How this queue is declared on the sender, `NAME=VALUE` each: sent once on a link for each that is of scope
    "cluster", and in answer to a node that has declared it otherwise.
    """

    queue: str
    settings: list[str]


@dataclass(slots=True)
class Capacity:
    """The receiver may hand over messages of queues (is_copies: copies) that cost that many bytes on this link in all.

    `cost_bytes` gives the cost of each. It never decreases.
    """

    is_copies: bool
    through: int


@dataclass(slots=True)
class Want:
    """A message (is_copies: a copy) that costs so many bytes waits for room on this link: more than is left."""

    is_copies: bool
    size: int


@dataclass(slots=True)
class Parcel:
    """The sender has a large message for `destination`, whose body may be sent ahead: Proceed says from where on.

    parcel: its number until it is handed over. life, boot, sequence: of its node, and its place there: they identify
    this body and no other, on other links too. size: of the body; 0: this parcel is withdrawn.
    """

    destination: str
    parcel: int
    life: int
    boot: int
    sequence: int
    size: int


@dataclass(slots=True)
class Proceed:
    """The bytes of that body may be sent, from `have` on: those before have arrived."""

    parcel: int
    have: int


@dataclass(slots=True)
class Piece:
    """Bytes of that body, from `at` on."""

    parcel: int
    at: int
    data: bytes


def cost_bytes(size: int, children: int = 1) -> int:
    """What a message with that many bytes of headers and body costs the node that stores it that often."""
    return (size + LINK_COST_BYTES) * children


# ---- topics ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Version:
    """The version of a node's state: compare as (incarnation, number)."""

    origin: str
    incarnation: int
    number: int


@dataclass(slots=True)
class Digest:
    """The versions that the sender knows: sent when the link comes up; answered by each NodeState that is newer."""

    versions: list[Version]


@dataclass(slots=True)
class NodeState:
    """A node's own state, passed on by every node to which it is new.

    is_full: the whole state; otherwise the changes since the number before. neighbours: nodes it is linked with;
    patterns: of topics of scope "cluster" with a subscription there. address: where it can be dialled, or "".
    """

    version: Version
    is_full: bool
    neighbours: list[str]
    neighbours_gone: list[str]
    patterns: list[str]
    patterns_gone: list[str]
    address: str


@dataclass(slots=True)
class Publish:
    """A message for subscribers of a topic of scope "cluster" beyond this link.

    sequence: ascends for each origin and incarnation; not every node gets every one. hops: links it has crossed.
    message.destination is the topic's address. copied: nodes whose durable subscriptions get it as a copy instead.
    """

    origin: str
    incarnation: int
    sequence: int
    hops: int
    message_id: bytes
    message: Message
    copied: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Answer:
    """A reply to a request from that node: sent once, on the shortest way there, or lost with the link. hops: links it
    has crossed. message.destination is `/reply-queue/ID@NODE`.
    """

    node: str
    hops: int
    message: Message


@dataclass(slots=True)
class Standing:
    """Topics of scope "cluster" that durable subscriptions of the sender want: all of them when the link comes up
    (is_full), then the changes. counts: how many have each of these patterns.
    """

    is_full: bool
    patterns: list[str]
    counts: list[int]
    patterns_gone: list[str]


PeerFrame = (
    Hello
    | Welcome
    | Transfer
    | Taken
    | Untaken
    | Demand
    | Supply
    | Credit
    | Declared
    | Capacity
    | Want
    | Parcel
    | Proceed
    | Piece
    | Digest
    | NodeState
    | Publish
    | Standing
    | Answer
)
