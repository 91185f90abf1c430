"""What two linked nodes say to each other once each has proved who it is (docs/CLUSTER.md has the procedures).

Words are never changed after construction: one may be said to many. Sequences and epochs are whole numbers below
2**63; names of nodes are NODE_NAME_MAX_BYTES at most; `queue` is a NAME without `/queue/`.
"""

from dataclasses import dataclass, field

from radiator.model.limits import LINK_COST_BYTES
from radiator.model.message import Message


@dataclass(slots=True)
class Identity:
    """Who is at the other end, as it has proved. is_dialled: we called it. address: where it can be dialled, or ""."""

    name: str
    store_id: str
    is_dialled: bool
    address: str = ""


# ---- handing messages over: one direction each; epochs and sequences are the sender's ------------------------------


@dataclass(slots=True)
class Hello:
    """The sender's new epoch, which is on its disk: connections of earlier ones count no more.

    fanouts: those of scope "cluster" that the sender of this word has declared, and takes copies for; children: how
    often it stores one, for each of them.
    """

    epoch: int
    fanouts: list[str]
    children: list[int]


@dataclass(slots=True)
class Welcome:
    """Answers Hello: that epoch, and the last sequence accepted from you, are on my disk."""

    epoch: int
    last: int


@dataclass(slots=True)
class Transfer:
    """One message changes its owner. It is in doubt on the sender's disk before this is said.

    sequence: the one after the last; epoch: of this connection. destination: `/queue/NAME`, `/fanout/NAME` or
    `/topic/NAME`.
    message: as stored, with its time of acceptance and its expiry. path: names of the nodes it has been on, the sender
    included. left: how many more the sender could give of that queue; of a topic's message for how many durable
    subscriptions room was reckoned. parcel: 0, or the number under which the body has gone ahead: then the message's
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
    """Everything up to `last` is on my disk."""

    last: int


@dataclass(slots=True)
class Untaken:
    """I have no such queue (any more): its message is not stored, and nothing that you have said behind it in this
    epoch. Say Hello again; all that I do not say I have is yours.
    """

    epoch: int
    queue: str


@dataclass(slots=True)
class Demand:
    """My consumers of this queue are idle, and it is empty: who has some? path: who asks, then who passed it on."""

    queue: str
    path: list[str]


@dataclass(slots=True)
class Supply:
    """I could give so many of this queue, from `hops` links away. is_draining: and wish to be rid of them."""

    queue: str
    ready: int
    hops: int
    is_draining: bool


@dataclass(slots=True)
class Credit:
    """You may hand me so many of this queue ("": copies, of fanouts and of topics) on this link in all, whatever was
    granted before.

    Counted from the beginning of the link, so that what is on its way is not granted twice.
    """

    queue: str
    through: int


@dataclass(slots=True)
class Declared:
    """How this queue is declared here, `NAME=VALUE` each: said once on a link of each that is of scope "cluster", and
    in answer to who has declared it otherwise.
    """

    queue: str
    settings: list[str]


@dataclass(slots=True)
class Capacity:
    """You may hand me messages of queues (is_copies: copies) that cost so many bytes on this link in all.

    `cost_bytes` says what each costs. It never goes back.
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
    """I have a large message for `destination`, whose body may go ahead in pieces: say from where on (Proceed).

    parcel: what it is called until it is handed over. life, boot, sequence: of its node, and its place there: they mean
    this body and no other, on other links too. size: of the body; 0: what was said of this one before is taken back.
    """

    destination: str
    parcel: int
    life: int
    boot: int
    sequence: int
    size: int


@dataclass(slots=True)
class Proceed:
    """The bytes of that body may come, from `have` on: those before are here."""

    parcel: int
    have: int


@dataclass(slots=True)
class Piece:
    """Bytes of that body, from `at` on."""

    parcel: int
    at: int
    data: bytes


def cost_bytes(size: int, children: int = 1) -> int:
    """What a message of so many bytes of headers and body costs the node that takes it, and stores it so often."""
    return (size + LINK_COST_BYTES) * children


# ---- topics ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Version:
    """How new the news of a node is: compare as (incarnation, number)."""

    origin: str
    incarnation: int
    number: int


@dataclass(slots=True)
class Digest:
    """What I know of everybody: said once when the link comes up, and answered by the News that is newer."""

    versions: list[Version]


@dataclass(slots=True)
class NodeState:
    """Of one node, by itself, passed on by everybody to whom it was new.

    is_full: all that there is of it; otherwise what has changed since the number before. neighbours: nodes it is
    linked with; patterns: of topics of scope "cluster" that somebody there subscribes to. address: where it can be
    dialled, or "".
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
    """A message for subscribers of a topic of scope "cluster" behind this link.

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
    """A reply for somebody who has asked at that node: on the shortest way there, once, or lost with the link. hops:
    links it has crossed. message.destination is `/reply-queue/ID@NODE`.
    """

    node: str
    hops: int
    message: Message


@dataclass(slots=True)
class Standing:
    """Topics of scope "cluster" that durable subscriptions of the sender want: all of them when the link comes up
    (is_full), then what has changed. counts: how many have each of these patterns.
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
