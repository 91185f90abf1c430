"""S32 and S33: the link between nodes, at the door of its session: strangers, and a proven node that lies.

Strangers replay, reflect, guess, claim names, and send anything else, in pieces: no session ever says Open, holds more
than CONNECT_MAX_BYTES, or says anything after its refusal. Liars mutate frames of every word: nothing is raised, one
Fail ends it, and what is heard is within bounds that are written down here once more, gives the same bytes again, and
can be said to every client. They do not see sockets, nor what the broker does with right words that are false.
"""

from collections.abc import Callable
from random import Random

from radiator.commands import Command, Fail, Heard, Open
from radiator.limits import CONNECT_MAX_BYTES, Limits
from radiator.links import Digest, Hello, News, Publish, Transfer, Version
from radiator.message import Message
from radiator.protocols.peer.frame import HEART_BEAT, Frames, encode
from radiator.protocols.peer.session import GREETING, PeerSession
from radiator.protocols.peer.spec import BEFORE_PROOF, Challenge, Proof, Refused, Said
from radiator.protocols.stomp.frame import encode_message
from tests.campaigns.campaign import Campaign, Run
from tests.protocols.peer.words import MAKERS, SECRET, cut, linked, side, talk

FOREIGN = (
    b"CONNECT\naccept-version:1.2\nhost:h\n\n\0SEND\ndestination:/queue/a\n\n\0",
    b"GET /admin HTTP/1.1\r\nHost: h\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"radiator-link/2 radiator/9\n",
    b"radiator-link/",
    b"\0" * 100,
    b"A" * 100_000,
)


def handshake_words(data: bytes) -> list[Said]:
    return list(Frames(Limits(), BEFORE_PROOF).words(data.removeprefix(GREETING)))


def fresh(chance: Random, own: str, dials: str | None = None, secret: bytes = SECRET) -> PeerSession:
    return side(own, dials, nonce=chance.randbytes(32), secret=secret)


# ---- strangers -------------------------------------------------------------------------------------------------------


def hear(run: Run, what: str, victim: PeerSession, data: bytes) -> list[Open | Command]:
    """In pieces of chance, with the bound on what is held."""
    said: list[Open | Command] = []
    for piece in cut(data, run.chance):
        said += victim.receive(piece)
        if victim.buffered_bytes > CONNECT_MAX_BYTES and not victim.is_open:
            run.violation(f"{what}: {victim.buffered_bytes} bytes are held for a stranger.")
    return said


def judge_stranger(run: Run, what: str, victim: PeerSession, data: bytes) -> None:
    """The last that it says to a session that must not open."""
    said = hear(run, what, victim, data)
    if said or victim.is_open:
        run.violation(f"{what}: the session said {said[:2]}.")
    last = b"".join((victim.take_outgoing(), *(() if not victim.is_closing else [b""])))
    if victim.is_closing:
        if not victim.closing_cause:
            run.violation(f"{what}: the log would not say why it was closed.")
        refusals = [word for word in handshake_words(last) if isinstance(word, Refused)]
        if len(refusals) > 1 or any(SECRET.decode() in word.sentence for word in refusals):
            run.violation(f"{what}: it was told {refusals}.")
        if victim.receive(GREETING + data) or victim.take_outgoing():
            run.violation(f"{what}: something was said after the refusal.")


def unknown(run: Run) -> None:
    """A node that has the secret, and stands in no list; or the name of one that we are; either way round."""
    own = run.chance.choice(("mallory", "b", "A", "a.b"))
    stranger, victim = fresh(run.chance, own, "b"), fresh(run.chance, "b")
    victim.receive(stranger.take_outgoing())
    stranger.receive(victim.take_outgoing())
    judge_stranger(run, f"a node named {own}", victim, stranger.take_outgoing())
    dialler = fresh(run.chance, "a", "b")
    other = side("c", nonce=run.chance.randbytes(32), knows=("a",))
    other.receive(dialler.take_outgoing())
    judge_stranger(run, "c, where b was dialled", dialler, other.take_outgoing())


def wrong_secret(run: Run) -> None:
    wrong = run.chance.choice((b"another secret of its own", SECRET + b"0", SECRET[:-1], SECRET.upper(), b"\0" * 16))
    if wrong == SECRET:
        return
    stranger, victim = fresh(run.chance, "a", "b", wrong), fresh(run.chance, "b")
    victim.receive(stranger.take_outgoing())
    nodes_challenge, _ = handshake_words(victim.take_outgoing())
    forged = side("b", nonce=run.chance.randbytes(32), secret=wrong)
    forged.receive(GREETING + encode(nodes_challenge).replace(b"b", b"a", 1))
    judge_stranger(run, "a dialler without the secret", victim, encode(Proof(run.chance.randbytes(32))))
    dialler, acceptor = fresh(run.chance, "a", "b"), fresh(run.chance, "b", None, wrong)
    acceptor.receive(dialler.take_outgoing())
    judge_stranger(run, "an acceptor without the secret", dialler, acceptor.take_outgoing())


def replayed(run: Run) -> None:
    """Both halves of a real handshake, against the same node at another time."""
    chance = run.chance
    dialler, acceptor = fresh(chance, "a", "b"), fresh(chance, "b")
    first = dialler.take_outgoing()
    hear(run, "a real dialler", acceptor, first)
    answer = acceptor.take_outgoing()
    hear(run, "a real acceptor", dialler, answer)
    if not dialler.is_open or not isinstance(hear(run, "a real dialler", acceptor, dialler.encode_last())[0], Open):
        run.violation("Two right nodes were not linked.")
    judge_stranger(run, "a dialler that replays", fresh(chance, "b"), first + dialler.encode_last())
    again = fresh(chance, "a", "b")
    again.take_outgoing()
    judge_stranger(run, "an acceptor that replays", again, answer)
