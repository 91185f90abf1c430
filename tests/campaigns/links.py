"""S32 and S33: the link between nodes, at the door of its session: strangers, and a proven node that lies.

Strangers claim names, guess, replay, reflect, stand between two nodes, and send anything else, in pieces, with TLS and
without: no session says Open to them, holds more than CONNECT_MAX_BYTES, or says anything after its refusal. Liars
mutate frames of every word: nothing is raised, one Fail ends it, and what is heard is within bounds that are written
down here once more, gives the same bytes again, and can be said to every client. They do not see sockets, nor what the
broker does with right words that are false.
"""

from collections.abc import Callable
from random import Random

from radiator.model.commands import Command, Fail, Open, PeerMessage
from radiator.model.errors import Violation
from radiator.model.limits import CONNECT_MAX_BYTES, DEATHS_BYTES, PIECE_BYTES, Limits
from radiator.model.message import Message
from radiator.model.peer import PeerFrame
from radiator.model.settings import Node
from radiator.protocols.peer.frame import HEART_BEAT, Frames, encode
from radiator.protocols.peer.proof import proof
from radiator.protocols.peer.session import GREETING, TLS_GREETING, PeerSession
from radiator.protocols.peer.spec import BEFORE_PROOF, Challenge, LinkFrame, Proof, Refused
from radiator.protocols.stomp.frame import encode_message
from radiator.server.links import LinkRegistry
from tests.campaigns.campaign import Campaign, Run
from tests.protocols.peer.words import MAKERS, SECRET, challenge, cut, linked, side
from tests.server.shell import KeptLog

# ---- strangers -------------------------------------------------------------------------------------------------------


def node(
    chance: Random, own: str, dials: str | None = None, secret: bytes = SECRET, certificate: bytes = b""
) -> PeerSession:
    """A session of that node, with a nonce of its own; it knows a and b. certificate: its SHA-256; b"": without TLS."""
    return side(own, dials, nonce=chance.randbytes(32), secret=secret, certificate_sha256=certificate)


def some_certificate(chance: Random) -> bytes:
    """SHA-256 of one, or b"" for a link without TLS."""
    return chance.choice((b"", chance.randbytes(32)))


def greeting(certificate: bytes) -> bytes:
    return TLS_GREETING if certificate else GREETING


def words_in(data: bytes) -> list[LinkFrame]:
    """Of a handshake."""
    return list(Frames(Limits(), BEFORE_PROOF).words(data.removeprefix(GREETING).removeprefix(TLS_GREETING)))


def hear(run: Run, what: str, session: PeerSession, data: bytes) -> list[Open | Command]:
    """In pieces of chance; what is held of a stranger is bounded."""
    commands: list[Open | Command] = []
    for piece in cut(data, run.chance):
        commands += session.receive(piece)
        if session.buffered_bytes > CONNECT_MAX_BYTES:
            run.violation(f"{what}: {session.buffered_bytes} bytes are held.")
    return commands


def must_not_open(run: Run, what: str, session: PeerSession, data: bytes, code: str = "") -> None:
    """The last that a stranger says. code: of the refusal that it must get; "": none, or any."""
    commands = hear(run, what, session, data)
    if commands or session.is_open:
        run.violation(f"{what}: the session said {commands[:2]}.")
    if code and f"refused: {code}: " not in session.closing_cause:
        run.violation(f"{what}: it should be refused as {code}, and the log says {session.closing_cause!r}.")
    if not session.is_closing:
        return
    reported = [word for word in words_in(session.take_outgoing()) if isinstance(word, Refused)]
    if len(reported) > 1 or SECRET.decode() in str(reported) or not session.closing_cause:
        run.violation(f"{what}: it was told {reported}, and the log {session.closing_cause!r}.")
    if session.receive(GREETING + data) or session.take_outgoing() or session.buffered_bytes:
        run.violation(f"{what}: something came of what stood behind the refusal.")


def unknown(run: Run) -> None:
    """Who has the secret, and stands in no list; or has our own name; or another than the one that was dialled."""
    name = run.chance.choice(("mallory", "A", "a.b", "b"))
    stranger, ours = node(run.chance, name, "b"), node(run.chance, "b")
    must_not_open(
        run, f"{name} dials b", ours, stranger.take_outgoing(), "same-name" if name == "b" else "unknown-node"
    )
    dialler, other = node(run.chance, "a", "b"), side("c", knows=("a",))
    other.receive(dialler.take_outgoing())
    must_not_open(run, "c answers a, which dialled b", dialler, other.take_outgoing(), "wrong-node")


def answer_of(run: Run, acceptor: PeerSession) -> bytes:
    """What it says to who has not proved anything: no proof, over which a secret could be guessed."""
    answer = acceptor.take_outgoing()
    if [type(word) for word in words_in(answer)] != [Challenge]:
        run.violation(f"Who calls is answered with {words_in(answer)}.")
    return answer


def wrong_secret(run: Run) -> None:
    wrong = run.chance.choice((b"another secret of its own", SECRET + b"0", SECRET[:-1], SECRET[::-1], b"\0" * 16))
    shown = some_certificate(run.chance)
    dialler, acceptor = node(run.chance, "a", "b", certificate=shown), node(run.chance, "b", certificate=shown)
    first = dialler.take_outgoing()
    acceptor.receive(first)
    answer = answer_of(run, acceptor)
    dialler.receive(answer)
    dialler.take_outgoing()
    challenges = [word for word in words_in(first) + words_in(answer) if isinstance(word, Challenge)]
    guess = run.chance.choice((proof(wrong, False, *challenges, shown), run.chance.randbytes(32), b"\0" * 32))
    must_not_open(run, "an acceptor without the secret", dialler, encode(Proof(guess)), "wrong-secret")
    ours, stranger = node(run.chance, "b", certificate=shown), node(run.chance, "a", "b", wrong, shown)
    ours.receive(stranger.take_outgoing())
    stranger.receive(answer_of(run, ours))
    guesses = (stranger.take_outgoing(), encode(Proof(run.chance.randbytes(32))), encode(Proof(b"\0" * 32)))
    must_not_open(run, "a dialler without the secret", ours, run.chance.choice(guesses), "wrong-secret")


def replayed(run: Run) -> None:
    """Both halves of a real handshake, said again to the same node."""
    shown = some_certificate(run.chance)
    dialler, acceptor = node(run.chance, "a", "b", certificate=shown), node(run.chance, "b", certificate=shown)
    first = dialler.take_outgoing()
    hear(run, "a right dialler", acceptor, first)
    answer = answer_of(run, acceptor)
    hear(run, "a right acceptor", dialler, answer)
    second = dialler.take_outgoing()
    hear(run, "a right dialler", acceptor, second)
    last = acceptor.take_outgoing()
    hear(run, "a right acceptor", dialler, last)
    if not (dialler.is_open and acceptor.is_open):
        run.violation("Two right nodes were not linked.")
    again = node(run.chance, "b", certificate=shown)
    must_not_open(run, "a replayed dialler", again, first + second, "wrong-secret")
    again = node(run.chance, "a", "b", certificate=shown)
    again.take_outgoing()
    must_not_open(run, "a replayed acceptor", again, answer + last, "wrong-secret")


def reflected(run: Run) -> None:
    """Who sends back what it was told: on the same connection, or from one that we dialled to one that we accepted."""
    shown = some_certificate(run.chance)
    line = greeting(shown)
    dialler = node(run.chance, "b", "a", certificate=shown)
    must_not_open(run, "an echo", dialler, dialler.take_outgoing(), "echo")
    dialler = node(run.chance, "b", "a", certificate=shown)
    dialler.take_outgoing()
    dialler.receive(line + encode(challenge("a", run.chance.randbytes(32), "61")))
    must_not_open(run, "our own proof", dialler, dialler.take_outgoing(), "wrong-secret")
    dialler, ours = node(run.chance, "b", "a", certificate=shown), node(run.chance, "b", certificate=shown)
    (of_dialler,) = words_in(dialler.take_outgoing())
    assert isinstance(of_dialler, Challenge)
    ours.receive(line + encode(challenge("a", of_dialler.nonce, "61")))
    (of_ours,) = words_in(answer_of(run, ours))
    assert isinstance(of_ours, Challenge)
    dialler.receive(line + encode(challenge("a", of_ours.nonce, "61")))
    must_not_open(run, "a proof from another connection", ours, dialler.take_outgoing(), "wrong-secret")


def between(run: Run) -> None:
    """Somebody passes on what two nodes say, each over a connection of its own with it: at most one of them is without
    TLS, and no two show one certificate.
    """
    chance = run.chance
    seen, shown = chance.choice(((b"", chance.randbytes(32)), (chance.randbytes(32), b""), (chance.randbytes(32),) * 2))
    if seen and shown:
        seen = bytes([seen[0] ^ 1 << chance.randrange(8)]) + seen[1:]

    def passed_on(data: bytes, certificate: bytes) -> bytes:
        """With the line that the other end wants."""
        return greeting(certificate) + data.removeprefix(GREETING).removeprefix(TLS_GREETING)

    dialler, acceptor = node(chance, "a", "b", certificate=seen), node(chance, "b", certificate=shown)
    first = dialler.take_outgoing()
    as_it_was = node(chance, "b", certificate=shown)
    if bool(seen) is not bool(shown):
        must_not_open(run, "the version of the other kind of link", as_it_was, first, "link-version")
    acceptor.receive(passed_on(first, shown))
    dialler.receive(passed_on(answer_of(run, acceptor), seen))
    must_not_open(run, "a proof that was passed on", acceptor, dialler.take_outgoing(), "wrong-secret")


def downgraded(run: Run) -> None:
    """Within TLS, who has the secret offers the plain version, whose proof is of no certificate."""
    stranger, ours = node(run.chance, "a", "b"), node(run.chance, "b", certificate=run.chance.randbytes(32))
    ours.receive(stranger.take_outgoing())
    stranger.receive(ours.take_outgoing())
    must_not_open(run, "the plain version within TLS", ours, stranger.take_outgoing())
    if "link-version" not in ours.closing_cause:
        run.violation(f"The plain version within TLS should be refused, and the log says {ours.closing_cause!r}.")


FOREIGN = (
    b"CONNECT\naccept-version:1.2\nhost:h\n\n\0SEND\ndestination:/queue/a\n\n\0",
    b"GET /admin HTTP/1.1\r\nHost: h\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"radiator-link/2 radiator/9\n",
    b"radiator-link/3 radiator/9\n",
    b"radiator-link/" + b"A" * 100_000,
    b"\0" * 100_000,
)


def foreign(run: Run) -> None:
    """Clients, noise, another version of the link, words too early, and a handshake that is harmed."""
    chance = run.chance
    dialler, ours = node(chance, "a", "b"), node(chance, "b")
    first = dialler.take_outgoing()
    way = chance.randrange(4)
    if way == 0:
        data = chance.choice(FOREIGN)
    elif way == 1:
        data = GREETING + chance.randbytes(chance.choice((4, 5, 50, 20_000)))
    elif way == 2:
        data = first + encode(MAKERS[chance.choice(list(MAKERS))](chance))
    else:
        data = mutated(chance, first) + encode(Proof(chance.randbytes(32)))
    must_not_open(run, f"foreign bytes {data[:60]!r}", ours, data)


def must(run: Run, is_so: bool, otherwise: str) -> None:
    if not is_so:
        run.violation(f"a crowd: {otherwise}.")


def crowd(run: Run) -> None:
    """More of them than there are sockets: they have all of those at most, and keep no node out."""
    chance = run.chance
    one = Node(name="a", secret=SECRET, peers=dict.fromkeys(chance.sample("bcd", chance.randint(1, 3))))
    links = LinkRegistry(one, "s", Limits(), KeptLog(), lambda report: None)
    strangers: dict[int, str] = {}
    dialled: list[int] = []
    for number in range(4 * links.sockets_max):
        if len(dialled) < len(one.peers) and chance.random() < 0.1:
            dialled.append(number)
            links.began(number, chance.choice([*one.peers]), "")
        network = chance.choice("xyz") if chance.random() < 0.2 else "x"
        gone = links.in_the_way(network)
        if gone is None:
            must(run, links.sockets < links.sockets_max, f"{network} was kept out by {strangers}")
        else:
            is_right = gone in strangers and (strangers[gone] == network or network not in strangers.values())
            must(run, is_right, f"{gone} went for {network}, of {strangers} and {dialled}")
            strangers.pop(gone, None)
            links.hung_up(gone, "")
        links.began(1000 + number, "", network)
        strangers[1000 + number] = network
        must(run, links.sockets <= links.sockets_max + len(dialled), f"{links.sockets} sockets are open")


WAYS: tuple[Callable[[Run], None], ...] = (
    unknown, wrong_secret, replayed, reflected, between, downgraded, foreign, foreign, crowd
)  # fmt: skip


def strangers(run: Run) -> None:
    while not run.is_over:
        for way in WAYS:
            way(run)
            run.case()


# ---- liars -----------------------------------------------------------------------------------------------------------

LIMITS = Limits(max_frame_bytes=2000, max_header_bytes=300, max_headers=20, max_destinations=6)
MESSAGE_ROOM_BYTES = 8 * 1024 + DEATHS_BYTES  # of a frame with a message, beyond its limits; and its x-death
PUBLISHED = 25
NAMES_ROOM_BYTES = 1024 * 66  # of the nodes that what is published names
LITTLE_BYTES = 8 * 1024  # more than a word of a few numbers and names may take
LITTLE_KINDS = (17, 19, 20, 21, 22)
LISTS = {"path": 8, "fanouts": 6, "versions": 1024, "neighbours": 1024, "neighbours_gone": 1024, "patterns": 4096,
         "patterns_gone": 4096, "settings": 32, "children": 6, "counts": 4096, "copied": 1024}  # fmt: skip
TEXTS = {"destination": 524, "address": 300, "queue": 255, "fanouts": 255, "patterns": 255, "patterns_gone": 255,
         "settings": 319}  # fmt: skip
NODE_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
ADDED = (b"dead-letter-reason", b"fanout-message-id", b"node-path", b"original-destination", b"original-message-id",
         b"redelivery-count")  # fmt: skip
NEVER_STORED = (b"content-length", b"message-id", b"subscription", b"ack", b"destination", b"receipt")


def wrong_message(message: Message) -> str:
    """What is wrong with it, line by line."""
    if len(message.headers) > 2 * 300 + 6 * 576 or len(message.body) > 2000 or message.headers.count(b"\n") > 20 + 6:
        return "it is too long"
    *lines, rest = message.headers.split(b"\n")
    for line in lines:
        name, colon, value = line.partition(b":")
        if name in ADDED and (len(line) >= 576 or len([one for one in lines if one.startswith(name + b":")]) > 1):
            return f"it has the header line {line!r}, which no node adds so"
        if name == b"node-path" and (len(path := value.decode().split(",")) > 8 or any(wrong(one) for one in path)):
            return f"it has been on the nodes {value!r}"
        if not name or not colon or b"\0" in line or name in NEVER_STORED:
            return f"it has the header line {line!r}"
        if message.escaping and (line.count(b":") > 1 or (message.escaping == 2 and b"\r" in line)):
            return f"it has the header line {line!r} in 1.{message.escaping}"
    if rest:
        return f"its header block ends with {rest!r}"
    for version in range(3):
        try:
            encode_message(message, b"id", b"s", True, False, 0, version)
        except Violation as broken:
            return f"it cannot be said in 1.{version}: {broken}"
    return ""


def wrong(word: object, field: str = "") -> str:
    """What is beyond a bound in it, by looking at every part; "" where nothing is."""
    if isinstance(word, bool):
        return ""
    if isinstance(word, int):
        return "" if 0 <= word < 2**63 else f"{field} is {word}"
    if isinstance(word, str):
        if field in TEXTS:
            is_right = len(word.encode()) <= TEXTS[field] and not any(c < " " or "\x7f" <= c < "\xa0" for c in word)
            return "" if is_right else f"{field} is {word!r}"
        return "" if 1 <= len(word) <= 64 and NODE_NAME.issuperset(word) and word[0] != "." else f"{field} is {word!r}"
    if isinstance(word, bytes) and field == "data":
        return "" if len(word) <= PIECE_BYTES else f"{field} has {len(word)} bytes"
    if isinstance(word, bytes):
        return "" if word.replace(b"-", b"").isalnum() and len(word) < 128 else f"{field} is {word!r}"
    if isinstance(word, list):
        if len(word) > LISTS[field] or (field == "path" and not word):
            return f"{field} has {len(word)} items"
        return next(filter(None, (wrong(one, field) for one in word)), "")
    if isinstance(word, Message):
        return wrong_message(word)
    parts: tuple[str, ...] = type(word).__slots__  # type: ignore[attr-defined]
    return next(filter(None, (wrong(getattr(word, part), part) for part in parts)), "")


PIECES = (
    b"\0", b"\1", b"\xff", b"\n", b":", b"\\", b"\r", b"/queue/", b"/topic/#", b"\0\0", b"\0\1", b"\xff\xff",
    b"content-length:0\n", b"message-id:x\n", b"\0\x0fmessage-id:x\n\n\0", b"\x7f" + b"\xff" * 7, b"\x80" + b"\0" * 7,
)  # fmt: skip


def mutated(chance: Random, data: bytes) -> bytes:
    """One to three small harms; most of them are of one length, or mend the frame's own."""
    harmed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(harmed))
        way = chance.randrange(4)
        if way == 0:
            harmed[at] ^= 1 << chance.randrange(8)
        elif way == 1:
            piece = chance.choice(PIECES)
            harmed[at : at + len(piece)] = piece
        elif way == 2:
            harmed[at:at] = chance.choice(PIECES)
        else:
            del harmed[at : at + chance.choice((1, 2, 8))]
        if not harmed:
            return data
    if chance.random() < 0.7:
        harmed[:4] = (len(harmed) - 4 if len(harmed) > 4 else 1).to_bytes(4, "big")
    return bytes(harmed)


ADDED_LINES = (b"node-path:a,b,c\n", b"node-path:\n", b"node-path:a,b,c,d,e,f,g,h,i\n", b"node-path:a,.b\n",
               b"original-destination:/queue/q\n", b"original-destination:" + b"x" * 554 + b"\n",
               b"original-destination:" + b"x" * 555 + b"\n")  # fmt: skip


def near_bounds(chance: Random) -> PeerFrame:
    """A word with one list or text a little below, at, or beyond its bound; or one of chance."""
    word = MAKERS[chance.choice(list(MAKERS))](chance)
    for field in type(word).__slots__:  # type: ignore[attr-defined]
        value = getattr(word, field)
        if isinstance(value, list) and field in ("path", "fanouts") and chance.random() < 0.5:
            setattr(word, field, ["a"] * (LISTS[field] + chance.choice((-1, 0, 1, 2))))
        elif isinstance(value, Message) and chance.random() < 0.5:
            line = chance.choice(
                (*ADDED_LINES, b"a:b\n", b"ack:x\n", b"a:b:c\n", b"a:\r\n", b"a:\\t\n", b"a:b", b":\n", b"a:\0\n")
            )
            value.headers += line * chance.choice((1, 1, 1, 16, 33, 37, 400))
    return word


def lie(run: Run) -> None:
    """A few frames, one of them a lie, to a session that is open."""
    chance = run.chance
    _, session = linked(LIMITS)
    frames = [encode(near_bounds(chance)) for _ in range(chance.randrange(1, 4))]
    if chance.random() < 0.8:
        at = chance.randrange(len(frames))
        frames[at] = mutated(chance, frames[at])
    data = b"".join(frame + HEART_BEAT * chance.randrange(2) for frame in frames)
    commands: list[Open | Command] = []
    for piece in cut(data, chance):
        commands += session.receive(piece)
    case = f"the frames {data.hex()}"
    if any(not isinstance(word, PeerMessage) for word in commands[:-1]):
        run.violation(f"{case}: something was said after a Fail: {commands}.")
    heard = [word.word for word in commands if isinstance(word, PeerMessage)]
    for word in heard:
        if mistake := wrong(word):
            run.violation(f"{case}: {mistake} in {word}.")
    if b"".join(map(encode, heard)) != without_beats(data, len(heard)):
        run.violation(f"{case}: read as {heard}, which gives other bytes.")
    if commands and isinstance(commands[-1], Fail) and (session.receive(data) or session.buffered_bytes):
        run.violation(f"{case}: something came of what stood behind a Fail.")


def without_beats(data: bytes, count: int) -> bytes:
    """The first `count` frames that are no heart-beats."""
    frames, at = b"", 0
    while count:
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        if data[at + 4] != 0:
            frames += data[at:end]
            count -= 1
        at = end
    return frames


def claim(run: Run) -> None:
    """A head that claims a length, and bytes behind it until they are taken for too many."""
    kind = run.chance.choice((*LITTLE_KINDS, 18, PUBLISHED))
    room = LITTLE_BYTES if kind in LITTLE_KINDS else 2000 + 300 + MESSAGE_ROOM_BYTES
    room += NAMES_ROOM_BYTES if kind == PUBLISHED else 0
    size = run.chance.choice((room + 1, 2 * room, 2**31, 2**32 - 1))
    _, session = linked(LIMITS)
    commands = [
        word for piece in (size.to_bytes(4, "big"), bytes([kind]), b"\0" * room) for word in session.receive(piece)
    ]
    if session.buffered_bytes or [type(word) for word in commands] != [Fail]:
        run.violation(f"A frame of kind {kind} that claims {size} bytes: {session.buffered_bytes} of it are held.")


def lies(run: Run) -> None:
    while not run.is_over:
        lie(run)
        run.case()
        if run.chance.random() < 0.1:
            claim(run)
            run.case()


CAMPAIGNS = (
    Campaign(
        number="S32",
        name="link-strangers",
        title="strangers at the door of a link: unknown, guessing, replayed, reflected, between, foreign",
        unit="strangers",
        run=strangers,
        cases=(5000, 200_000, 3_000_000),
        mutants=(
            "link-proof-not-checked",
            "link-certificate-not-in-proof",
            "link-acceptor-proves-first",
            "link-role-not-in-proof",
            "link-nonce-not-in-proof",
            "link-unknown-node-accepted",
            "link-plain-version-over-tls",
            "link-strangers-keep-nodes-out",
        ),
        mutant_cases=600,
        quick_mutants=2,
    ),
    Campaign(
        number="S33",
        name="link-lies",
        title="mutated frames of every word from a node that has proved who it is",
        unit="frames",
        run=lies,
        cases=(5000, 300_000, 5_000_000),
        mutants=(
            "link-length-not-bounded",
            "link-headers-smuggled",
            "link-list-not-bounded",
            "link-added-header-unchecked",
            "link-leftovers-ignored",
        ),
        mutant_cases=3000,
        quick_mutants=2,
    ),
)
