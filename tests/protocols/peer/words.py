"""Words of links by chance, and two sides of a link that are wired to each other."""

from collections.abc import Callable
from random import Random

from radiator.model.commands import Command, Open
from radiator.model.headers import escape
from radiator.model.limits import PATH_HOPS_MAX, PIECE_BYTES, Limits
from radiator.model.message import Message
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
    Version,
    Want,
    Welcome,
)
from radiator.model.settings import HEART_BEAT_MS, Address, Node
from radiator.protocols.peer.session import PeerSession
from radiator.protocols.peer.spec import Challenge

SECRET = b"0123456789abcdef"
TEXTS = ("a", "orders.new", "größe", "a:b", "x\\y", "zeile\nzwei", "cr\rhier", "", " ", "0" * 40)
NUMBERS = (0, 1, 7, 255, 2**32, 2**63 - 1)


def number(chance: Random) -> int:
    return chance.choice((chance.choice(NUMBERS), chance.randrange(2**63)))


def node_name(chance: Random) -> str:
    return "".join(chance.choices("abcXYZ019_-", k=chance.choice((1, 3, 64))))


def name(chance: Random) -> str:
    return "".join(chance.choices("abcäöü/ :\\,日", k=chance.choice((1, 5, 60))))


def topic(chance: Random) -> str:
    return ".".join(name(chance) for _ in range(chance.randrange(1, 4)))[:60]


def pattern(chance: Random) -> str:
    return ".".join(chance.choice(("*", "#", "new", "日")) for _ in range(chance.randrange(1, 4)))


def message(chance: Random, destination: str) -> Message:
    """With headers that its version can say."""
    escaping = chance.randrange(3)
    block = b""
    for _ in range(chance.randrange(4)):
        key, value = chance.choice(TEXTS) or "key", chance.choice(TEXTS)
        if escaping == 0:
            key, value = key.replace("\n", "").replace(":", ""), value.replace("\n", "")
        block += b"%b:%b\n" % (escape(key.encode(), escaping), escape(value.encode(), escaping))
    times = chance.randrange(10**13), chance.choice((0, chance.randrange(10**13)))
    return Message(destination, block, escaping, chance.randbytes(chance.choice((0, 3, 500))), *times)


def version(chance: Random) -> Version:
    return Version(node_name(chance), number(chance), number(chance))


def some(chance: Random, maker: Callable[[Random], str]) -> list[str]:
    return [maker(chance) for _ in range(chance.choice((0, 1, 4)))]


def path(chance: Random) -> list[str]:
    return [node_name(chance) for _ in range(chance.choice((1, 2, PATH_HOPS_MAX)))]


def working(chance: Random) -> str:
    return chance.choice(("/queue/", "/fanout/")) + name(chance)


def address(chance: Random) -> str:
    return chance.choice(("", "peer://10.0.0.1:61614", "peer://[::1]:1", "peer://node-b.example:61614", "peers://b:1"))


MAKERS: dict[type[PeerFrame], Callable[[Random], PeerFrame]] = {
    Hello: lambda c: Hello(number(c), some(c, name), [c.randrange(1000) for _ in range(c.randrange(4))]),
    Parcel: lambda c: Parcel(working(c), number(c), number(c), number(c), number(c), number(c)),
    Proceed: lambda c: Proceed(number(c), number(c)),
    Piece: lambda c: Piece(number(c), number(c), c.randbytes(c.choice((0, 1, 1000, PIECE_BYTES)))),
    Capacity: lambda c: Capacity(c.random() < 0.5, number(c)),
    Want: lambda c: Want(c.random() < 0.5, number(c)),
    Welcome: lambda c: Welcome(number(c), number(c)),
    Transfer: lambda c: Transfer(
        number(c), number(c), working(c), message(c, working(c)), path(c), c.randrange(2**31),
        c.random() < 0.5, number(c),
    ),
    Taken: lambda c: Taken(number(c)),
    Untaken: lambda c: Untaken(number(c), name(c)),
    Demand: lambda c: Demand(name(c), path(c)),
    Supply: lambda c: Supply(name(c), number(c), number(c), c.random() < 0.5),
    Credit: lambda c: Credit(c.choice(("", name(c))), number(c)),
    Declared: lambda c: Declared(name(c), some(c, lambda c: f"{name(c)[:60]}={name(c)}")),
    Digest: lambda c: Digest([version(c) for _ in range(c.randrange(4))]),
    NodeState: lambda c: NodeState(
        version(c), c.random() < 0.5, some(c, node_name), some(c, node_name), some(c, pattern), some(c, pattern),
        address(c),
    ),
    Publish: lambda c: Publish(
        node_name(c), number(c), number(c), number(c), b"0123456789abcdef-%d-%dt" % (c.randrange(99), c.randrange(99)),
        message(c, f"/topic/{topic(c)}"), some(c, node_name),
    ),
    Answer: lambda c: Answer(node_name(c), number(c), message(c, f"/reply-queue/{c.randrange(99)}@{node_name(c)}")),
    Standing: lambda c: Standing(
        c.random() < 0.5, some(c, pattern), [c.randrange(9) for _ in range(c.choice((0, 1, 4)))], some(c, pattern)
    ),
}  # fmt: skip


def cut(data: bytes, chance: Random, most: int = 6) -> list[bytes]:
    """Into pieces, at places of chance."""
    ends = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(most)))
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]


def challenge(name: str, nonce: bytes, store_id: str, address: str = "", limits: Limits | None = None) -> Challenge:
    """What a node of those limits says."""
    of = limits or Limits()
    bounds = (of.max_frame_bytes, of.max_header_bytes, of.max_headers)
    return Challenge(name, nonce, store_id, address, *bounds, HEART_BEAT_MS)


def side(
    own: str = "a",
    dials: str | None = None,
    *,
    knows: tuple[str, ...] = ("a", "b"),
    secret: bytes = SECRET,
    nonce: bytes | None = None,
    store_id: str | None = None,
    limits: Limits | None = None,
    heart_beat_ms: int = HEART_BEAT_MS,
    advertise: Address | None = None,
    certificate_sha256: bytes = b"",
) -> PeerSession:
    """One session of the node `own`. certificate_sha256: b"": without TLS."""
    return PeerSession(
        7,
        limits or Limits(),
        Node(name=own, secret=secret, heart_beat_ms=heart_beat_ms, advertise=advertise),
        store_id or own.encode().hex(),
        nonce or own[0].encode() * 32,
        dials,
        lambda name: name in knows,
        certificate_sha256,
    )


def talk(dialler: PeerSession, acceptor: PeerSession) -> tuple[list[Open | Command], list[Open | Command], bytes]:
    """Both until nobody has more to say: what each said to its broker, and the bytes of the dialler."""
    dialler_commands: list[Open | Command] = []
    acceptor_commands: list[Open | Command] = []
    transcript = b""
    while out := dialler.take_outgoing():
        transcript += out
        acceptor_commands += acceptor.receive(out)
        dialler_commands += dialler.receive(acceptor.take_outgoing())
    return dialler_commands, acceptor_commands, transcript


def linked(limits: Limits | None = None) -> tuple[PeerSession, PeerSession]:
    """Two sides after the handshake."""
    dialler, acceptor = side("a", "b", limits=limits), side("b", limits=limits)
    talk(dialler, acceptor)
    assert dialler.is_open and acceptor.is_open
    return dialler, acceptor
