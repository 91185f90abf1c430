"""Two sides of a link: the proof, each refusal with its sentence, and what no bytes of a stranger may do."""

import re
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radiator.model.commands import Fail, Open, PeerMessage
from radiator.model.limits import CONNECT_MAX_BYTES, GREETING_MAX_BYTES, Limits
from radiator.model.peer import Identity, NodeState, PeerFrame, Taken, Version
from radiator.model.principal import Principal, RecognisedBy
from radiator.model.replies import Bye, Pause, Receipt, Refuse, Resume, SendToPeer
from radiator.model.settings import Address, Node
from radiator.protocols import Session
from radiator.protocols.peer.frame import Frames, encode
from radiator.protocols.peer.proof import proof
from radiator.protocols.peer.session import GREETING, NEEDS_TLS, TLS_GREETING, PeerSession
from radiator.protocols.peer.spec import AFTER_PROOF, BEFORE_PROOF, CODES, Proof, Refused
from tests.protocols.peer.words import MAKERS, SECRET, challenge, cut, linked, side, talk

A = challenge("a", b"a" * 32, "61")
B = challenge("b", b"b" * 32, "62")


def opened(number: int, identity: Identity) -> Open:
    """A link is its own principal."""
    return Open(number, identity, principal=Principal(identity.name, RecognisedBy.LINK_PROOF))


def refused(session: PeerSession) -> Refused:
    """What it says last, before it has said Open."""
    assert session.is_closing and not session.is_open
    out = session.take_outgoing()
    last = list(Frames(Limits(), BEFORE_PROOF).words(out.removeprefix(GREETING)))[-1]
    assert isinstance(last, Refused)
    assert session.closing_cause == f"refused: {last.code}: {last.sentence}"
    assert session.receive(b"anything at all") == []
    assert session.buffered_bytes == 0
    return last


# ---- the contract ---------------------------------------------------------------------------------------------------


def test_it_is_a_session_of_a_link() -> None:
    session: Session = PeerSession(
        7, Limits(), Node(name="a", secret=SECRET, heart_beat_ms=3000), "61", b"n" * 32, None, lambda name: True
    )
    assert session.is_link
    assert (session.heart_beat_send_s, session.silence_max_s) == (1.5, 4.5)
    assert not session.is_open and not session.is_closing
    assert session.take_outgoing() == b""  # who is dialled waits for the other
    assert session.encode(SendToPeer(7, Taken(5))) == encode(Taken(5))
    for reply in (Bye(7), Pause(7), Resume(7), Receipt(7, b"r")):
        assert session.encode(reply) == b""


def test_each_says_open_when_the_other_has_proved() -> None:
    dialler = PeerSession(
        1, Limits(), Node(name="a", secret=SECRET, advertise=Address("peer", "::1", 5)), "aa", b"a" * 32, "b", bool
    )
    acceptor = side("b")
    greeting = dialler.take_outgoing()
    assert greeting.startswith(GREETING)
    assert acceptor.receive(greeting) == []
    assert acceptor.take_outgoing() == GREETING + encode(B)  # and no proof: nobody has shown the secret yet
    assert dialler.receive(GREETING + encode(B)) == []
    heard = acceptor.receive(dialler.take_outgoing())
    assert heard == [opened(7, Identity("a", "aa", False, "peer://[::1]:5"))]
    assert isinstance(heard[0], Open) and heard[0].protocol == "peer"
    assert acceptor.is_open and not dialler.is_open
    last = acceptor.take_outgoing() + acceptor.heart_beat() + acceptor.encode(SendToPeer(7, Taken(3)))
    assert dialler.receive(last) == [opened(1, Identity("b", "62", True, "")), PeerMessage(1, Taken(3))]
    assert dialler.take_outgoing() == b"" and dialler.buffered_bytes == 0


@given(st.integers(0, 2**32))
def test_any_pieces_say_the_same(seed: int) -> None:
    chance = Random(seed)
    dialler, acceptor = side("a", "b"), side("b")
    _, _, transcript = talk(dialler, acceptor)
    words = [MAKERS[kind](chance) for kind in chance.choices(list(MAKERS), k=3)]
    again = side("b")
    pieces = cut(transcript + b"".join(map(encode, words)), chance)
    heard = [commands for piece in pieces for commands in again.receive(piece)]
    assert heard[1:] == [PeerMessage(7, word) for word in words]
    assert isinstance(heard[0], Open)


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialler", "code", "sentence"),
    [
        (side("c", "b"), "unknown-node", "The node c is not among the peers that are configured here."),
        (side("b", "b", nonce=b"o" * 32), "same-name", "Both nodes are named b: each needs a name of its own."),
        (side("a", "b", nonce=b"b" * 32), "echo", "The challenge has this node's own nonce"),
        (side("a", "b", store_id="62"), "same-store", "The node a has a copy of this node's data directory"),
    ],
)
def test_the_acceptor_refuses_a_challenge(dialler: PeerSession, code: str, sentence: str) -> None:
    acceptor = side("b")
    assert acceptor.receive(dialler.take_outgoing()) == []
    last = refused(acceptor)
    assert last.code == code and sentence in last.sentence
    # and the dialler knows why
    dialler.receive(GREETING + encode(last))
    assert dialler.is_closing and dialler.closing_cause == f"b refused: {code}: {last.sentence}"
    assert dialler.take_outgoing() == b""


LIMITS = {"max_frame_bytes": 2_000_000, "max_header_bytes": 70_000, "max_headers": 300}


@pytest.mark.parametrize("unlike", [*([key] for key in LIMITS), list(LIMITS)], ids=" ".join)
def test_limits_of_messages_must_be_alike(unlike: list[str]) -> None:
    ours = Limits(**{key: LIMITS[key] for key in unlike})
    dialler, acceptor = side("a", "b", limits=ours), side("b")
    assert talk(dialler, acceptor)[:2] == ([], [])
    each = [f"{key} is {LIMITS[key]} on a and {getattr(Limits(), key)} on b" for key in unlike]
    sentence = f"other-limits: {'; '.join(each)}: set it alike in [limits] of all nodes."
    assert acceptor.closing_cause == f"refused: {sentence}"
    assert dialler.closing_cause == f"b refused: {sentence}"
    dialler = side("a", "b", limits=ours)  # and the dialler checks it too
    dialler.take_outgoing()
    assert dialler.receive(GREETING + encode(B)) == []
    assert refused(dialler).code == "other-limits"


@pytest.mark.parametrize("ours", [1999, 2001])
def test_heart_beats_must_be_alike(ours: int) -> None:
    """Else one takes the other for dead, again and again."""
    dialler, acceptor = side("a", "b", heart_beat_ms=ours), side("b")
    assert talk(dialler, acceptor)[:2] == ([], [])
    sentence = f"other-limits: heart_beat_ms is {ours} on a and 2000 on b: set it alike in [node] of all nodes."
    assert acceptor.closing_cause == f"refused: {sentence}"
    assert dialler.closing_cause == f"b refused: {sentence}"
    dialler = side("a", "b", heart_beat_ms=ours)  # and the dialler checks it too
    dialler.take_outgoing()
    assert dialler.receive(GREETING + encode(B)) == []
    assert refused(dialler).code == "other-limits"


def test_everything_that_differs_is_said_at_once() -> None:
    dialler, acceptor = side("a", "b", limits=Limits(max_headers=5), heart_beat_ms=500), side("b")
    talk(dialler, acceptor)
    assert acceptor.closing_cause == (
        "refused: other-limits: max_headers is 5 on a and 256 on b; heart_beat_ms is 500 on a and 2000 on b: "
        "set it alike in [limits] and [node] of all nodes."
    )


def test_other_limits_may_differ() -> None:
    dialler, acceptor = side("a", "b", limits=Limits(max_connections=3, outbox_max_bytes=5)), side("b")
    talk(dialler, acceptor)
    assert dialler.is_open and acceptor.is_open


def test_the_dialler_refuses_another_node_than_the_one_it_dialled() -> None:
    dialler, acceptor = side("a", "b", knows=("b", "c")), side("c")
    assert talk(dialler, acceptor)[0] == []
    assert "wrong-node: The node b was dialled, and c answers." in dialler.closing_cause
    assert acceptor.closing_cause == "a refused: wrong-node: The node b was dialled, and c answers."
    assert not acceptor.is_open


def test_a_wrong_secret_is_told_to_both_and_opens_neither() -> None:
    dialler, acceptor = side("a", "b"), side("b", secret=b"another secret..")
    assert talk(dialler, acceptor)[:2] == ([], [])
    assert "wrong-secret: The proof of a is wrong" in acceptor.closing_cause
    assert dialler.closing_cause == f"b {acceptor.closing_cause}"
    assert not dialler.is_open and not acceptor.is_open
    assert SECRET.decode() not in acceptor.closing_cause


def test_the_dialler_refuses_a_wrong_proof() -> None:
    """Whoever answers at the address that was dialled."""
    for mac in (b"x" * 32, proof(b"another secret..", False, A, B), proof(SECRET, True, A, B)):
        dialler = side("a", "b")
        dialler.take_outgoing()
        assert dialler.receive(GREETING + encode(B)) == []
        assert dialler.take_outgoing() == encode(Proof(proof(SECRET, True, A, B)))
        assert dialler.receive(encode(Proof(mac)) + encode(Taken(1))) == []
        assert refused(dialler).sentence == "The proof of b is wrong: it does not have this node's secret."


def test_the_acceptor_refuses_a_wrong_proof() -> None:
    acceptor = side("b")
    acceptor.receive(side("a", "b").take_outgoing())
    acceptor.take_outgoing()
    assert acceptor.receive(encode(Proof(b"x" * 32)) + encode(Taken(1))) == []
    assert refused(acceptor).sentence == "The proof of a is wrong: it does not have this node's secret."


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_nonce_has_32_bytes(size: int) -> None:
    acceptor = side("b")
    acceptor.receive(GREETING + encode(challenge("a", b"n" * size, "61")))
    assert "is not a nonce: it has 32 bytes" in refused(acceptor).sentence


def test_a_replayed_handshake_is_refused() -> None:
    """What a real dialler has said once, said again to the same node: its nonce is another now."""
    transcript = talk(side("a", "b"), side("b"))[2]
    assert isinstance(side("b").receive(transcript)[0], Open)  # with the same nonce it would be good
    again = side("b", nonce=b"another nonce of thirty-two byte")
    assert again.receive(transcript) == []
    assert refused(again).code == "wrong-secret"


def test_a_reflected_proof_is_refused() -> None:
    """A stranger answers with what it hears: the dialler's own proof, as that of the acceptor."""
    dialler = side("a", "b")
    dialler.take_outgoing()
    dialler.receive(GREETING + encode(challenge("b", b"m" * 32, "62")))
    (mac,) = Frames(Limits(), BEFORE_PROOF).words(dialler.take_outgoing())
    assert isinstance(mac, Proof)
    assert dialler.receive(encode(mac)) == []
    assert refused(dialler).code == "wrong-secret"


def test_an_echo_of_a_dialler_is_refused() -> None:
    dialler = side("a", "b")
    dialler.receive(dialler.take_outgoing())
    assert refused(dialler).code == "echo"


def test_everything_that_was_said_is_in_the_proof() -> None:
    a = challenge("a", b"a" * 32, "61", "peer://a:1")
    others = [
        replace(a, name="c"), replace(a, nonce=b"c" * 32), replace(a, store_id="62"), replace(a, address="peer://a:2"),
        replace(a, name="a6", store_id="1"), replace(a, max_frame_bytes=1), replace(a, max_header_bytes=1),
        replace(a, max_headers=1), replace(a, heart_beat_ms=1),
    ]  # fmt: skip
    parts: list[tuple[Any, ...]] = [(SECRET, True, a, B), (SECRET, False, a, B), (b"another secret..", True, a, B)]
    parts += [
        (SECRET, True, B, a),
        (SECRET, True, a, B, SHOWN),
        (SECRET, True, a, B, OTHER),
        (SECRET, False, a, B, SHOWN),
    ]
    parts += [(SECRET, True, other, B) for other in others] + [(SECRET, True, B, other) for other in others]
    assert len({proof(*part) for part in parts}) == len(parts)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"CONNECT\naccept-version:1.2\nhost:h\n\n\0", "these bytes do not: 'CONNECT'"),
        (b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", r"these bytes do not: 'GET / HTTP/1.1\r'"),
        (b"\x16\x03\x01\x02\x00\x01", "speaks TLS, and this listener does not: this node's address is peer://HOST:PORT."),
        (b"\x15\x03\x01\x00\x02", "speaks TLS, and this listener does not"),
        (b"\x17\x03\x01\x00\x02", r"these bytes do not: '\x17\x03\x01\x00\x02'"),
        (b"\n", "these bytes do not: ''"),
        (b"radiator\n", "these bytes do not: 'radiator'"),
        (b"radiator-link/2" + b" " * (GREETING_MAX_BYTES - 15) + b"\n", "is longer than 80 bytes"),
        (b"radiator-link/2" + b" " * (GREETING_MAX_BYTES - 15), "is longer than 80 bytes"),
        (b"radiator-link/3 x/9.9\n", "speaks 'radiator-link/3 x/9.9', and this node 'radiator-link/2'"),
        (b"radiator-link/2x\n", "and this node 'radiator-link/2'"),
        (GREETING + encode(Proof(b"x" * 32)), "A proof came where the challenge of a node must stand."),
        (GREETING + encode(A) * 2, "A challenge came where the proof of a node must stand."),
        (GREETING + encode(Taken(1)), "A frame of kind 19 may not come now: 1, 2, 3 may."),
        (GREETING + b"\xff\xff\xff\xff\x01", "A frame of kind 1 and 4294967295 bytes"),
    ],
)  # fmt: skip
def test_what_is_no_link_is_told_so_once(data: bytes, sentence: str) -> None:
    for pieces in ([data], [data[at : at + 1] for at in range(len(data))]):
        acceptor = side("b")
        for piece in pieces:
            assert acceptor.receive(piece) == []
        assert acceptor.closing_cause.startswith("refused: ")
        if len(pieces) == 1:
            assert sentence in refused(acceptor).sentence
        assert acceptor.buffered_bytes == 0


# ---- over TLS --------------------------------------------------------------------------------------------------------

SHOWN, OTHER = bytes(range(32)), bytes(range(1, 33))  # SHA-256 of certificates


def test_over_tls_the_line_has_another_version_and_both_prove_the_certificate() -> None:
    dialler, acceptor = side("a", "b", certificate_sha256=SHOWN), side("b", certificate_sha256=SHOWN)
    transcript = talk(dialler, acceptor)[2]
    assert dialler.is_open and acceptor.is_open
    assert transcript.startswith(b"radiator-link/3 radiator/")
    assert proof(SECRET, True, A, B, SHOWN) in transcript
    assert acceptor.encode(SendToPeer(7, Taken(1))) == encode(Taken(1))


@pytest.mark.parametrize(("seen", "shown"), [(OTHER, SHOWN), (SHOWN, OTHER)])
def test_a_proof_of_another_certificate_is_refused(seen: bytes, shown: bytes) -> None:
    """Somebody stands between, and passes on what each says."""
    dialler, acceptor = side("a", "b", certificate_sha256=seen), side("b", certificate_sha256=shown)
    assert talk(dialler, acceptor)[:2] == ([], [])
    sentence = (
        "wrong-secret: The proof of a is wrong: it does not have this node's secret, or somebody between the two "
        "nodes has shown it another certificate."
    )
    assert acceptor.closing_cause == f"refused: {sentence}"
    assert dialler.closing_cause == f"b refused: {sentence}"


def test_a_dialler_refuses_the_proof_of_another_certificate() -> None:
    dialler = side("a", "b", certificate_sha256=SHOWN)
    dialler.take_outgoing()
    dialler.receive(TLS_GREETING + encode(B))
    assert dialler.take_outgoing() == encode(Proof(proof(SECRET, True, A, B, SHOWN)))
    for certificate_sha256 in (OTHER, b""):
        again = side("a", "b", certificate_sha256=SHOWN)
        again.take_outgoing()
        again.receive(TLS_GREETING + encode(B) + encode(Proof(proof(SECRET, False, A, B, certificate_sha256))))
        assert "wrong-secret" in again.closing_cause and not again.is_open
    dialler.receive(encode(Proof(proof(SECRET, False, A, B, SHOWN))))
    assert dialler.is_open


@pytest.mark.parametrize(
    ("ours", "line", "end"),
    [
        (SHOWN, GREETING, "and this node 'radiator-link/3': over TLS no other version is taken."),
        (b"", TLS_GREETING, "and this node 'radiator-link/2'."),
    ],
)
def test_each_end_refuses_the_version_of_the_other_kind_of_link(ours: bytes, line: bytes, end: str) -> None:
    for one in (side("a", "b", certificate_sha256=ours), side("b", certificate_sha256=ours)):
        one.receive(line)
        assert one.closing_cause.startswith("refused: link-version: ") and one.closing_cause.endswith(end)


def test_tls_within_tls_is_told_as_what_it_is() -> None:
    acceptor = side("b", certificate_sha256=SHOWN)
    acceptor.receive(b"\x16\x03\x01\n")
    assert r"begins with the line 'radiator-link/3'; these bytes do not: '\x16\x03\x01'" in acceptor.closing_cause


def test_who_speaks_no_tls_to_a_listener_over_tls_is_told_so() -> None:
    dialler = side("a", "b")
    dialler.receive(NEEDS_TLS)
    assert dialler.closing_cause == (
        "b refused: link-version: This node listens for others over TLS: its address is peers://HOST:PORT."
    )


def test_a_plain_link_says_no_address_over_tls() -> None:
    """Its version has none; what it is told it passes over links that have."""
    encrypted, plain = Address("peers", "h", 1), Address("peer", "h", 1)
    for certificate_sha256, address, sent in (
        (b"", encrypted, ""), (b"", plain, "peer://h:1"), (SHOWN, encrypted, "peers://h:1"), (SHOWN, plain, "peer://h:1"),
    ):  # fmt: skip
        dialler = side("a", "b", advertise=address, certificate_sha256=certificate_sha256)
        out = dialler.take_outgoing().partition(b"\n")[2]
        assert out == encode(challenge("a", b"a" * 32, "61", sent))
        news = NodeState(Version("c", 1, 1), True, [], [], [], [], str(address))
        assert dialler.encode(SendToPeer(7, news)) == encode(replace(news, address=sent))
        assert news.address == str(address)


def test_a_line_at_its_bound_is_taken() -> None:
    line = b"radiator-link/2" + b" " * (GREETING_MAX_BYTES - 16)
    acceptor = side("b")
    acceptor.receive(line)
    assert acceptor.buffered_bytes == len(line)
    acceptor.receive(b"\n")
    assert acceptor.take_outgoing() == GREETING and not acceptor.is_closing


def test_a_refusal_by_the_shell_stands_behind_the_line() -> None:
    acceptor = side("b")
    found = acceptor.encode(Refuse(7, "too-many-connections", "20000 connections are open."))
    assert found == GREETING + encode(Refused("too-many-connections", "20000 connections are open."))


def test_a_refusal_of_the_other_side_ends_the_link() -> None:
    dialler, acceptor = linked()
    data = acceptor.encode(Refuse(7, "duplicate-link", "b is linked already.\n" + "x" * 2000))
    (fail,) = dialler.receive(data + acceptor.encode(SendToPeer(7, Taken(1))))
    assert isinstance(fail, Fail)
    assert fail.code == "duplicate-link"
    assert fail.sentence.startswith("b refused: b is linked already. xxx")
    assert len(fail.sentence) < 1100


def test_each_code_of_a_refusal_is_known_and_in_the_protocol() -> None:
    text = (Path(__file__).parents[3] / "docs" / "PROTOCOL.md").read_text().partition("Codes of a REFUSAL")[2]
    rows = re.findall(r"^\| (`[a-z`, -]+) \|", text, re.MULTILINE)
    assert sorted(code.strip("`") for row in rows for code in row.split(", ") if code != "`code`") == sorted(CODES)
    for code in CODES:
        dialler, acceptor = linked()
        assert dialler.receive(acceptor.encode(Refuse(7, code, "No."))) == [Fail(7, "b refused: No.", code=code)]


def test_a_code_that_is_not_known_stands_in_the_sentence() -> None:
    """That of a later version, or of a node that lies: in our log only codes of our own are codes."""
    dialler, acceptor = linked()
    assert dialler.receive(acceptor.encode(Refuse(7, "later", "No."))) == [Fail(7, "b refused: later: No.")]
    assert Fail(7, "").code == "protocol"


def test_the_other_node_is_told_once_it_may_be_linked_with() -> None:
    dialler, acceptor, unknown = side("a", "b"), side("b"), side("c", "b")
    assert (dialler.other, acceptor.other) == ("b", "")
    talk(side("a", "b", secret=b"another secret.."), acceptor)
    assert acceptor.other == "a"
    acceptor = side("b")
    talk(unknown, acceptor)
    assert acceptor.other == "" and "unknown-node" in acceptor.closing_cause
    talk(dialler, side("c"))
    assert dialler.other == "b"


# ---- after the proof ------------------------------------------------------------------------------------------------


def test_the_first_broken_rule_is_the_last_word() -> None:
    dialler, acceptor = linked()
    good, bad = encode(Taken(1)), encode(B)
    assert acceptor.receive(good + bad + good) == [
        PeerMessage(7, Taken(1)),
        Fail(7, "A frame of kind 1 may not come now: " + ", ".join(map(str, sorted(AFTER_PROOF))) + " may."),
    ]
    assert acceptor.receive(good) == []
    assert acceptor.take_outgoing() == b"" and not acceptor.is_closing


def test_forgotten_it_holds_nothing() -> None:
    _, acceptor = linked()
    acceptor.receive(encode(Taken(1))[:-1])
    assert acceptor.buffered_bytes == 12
    acceptor.forget()
    assert acceptor.receive(encode(Taken(1))) == []


@given(st.binary(max_size=300), st.integers(0, 2))
def test_random_bytes_of_a_stranger_never_raise(data: bytes, known: int) -> None:
    acceptor = side("b")
    beginning = (b"", GREETING, side("a", "b").take_outgoing())[known]
    assert acceptor.receive(beginning) == []
    assert acceptor.receive(data) == []
    assert not acceptor.is_open
    assert acceptor.buffered_bytes <= CONNECT_MAX_BYTES


@given(st.integers(0, 2**32), st.sampled_from(list(MAKERS)))
def test_flipped_bits_never_raise_and_end_in_one_fail(seed: int, kind: type[PeerFrame]) -> None:
    chance = Random(seed)
    _, acceptor = linked()
    data = bytearray(encode(MAKERS[kind](chance)))
    for _ in range(chance.randrange(1, 4)):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    commands = [word for piece in cut(bytes(data), chance) for word in acceptor.receive(piece)]
    assert [type(word) for word in commands] in ([], [PeerMessage], [Fail])
    assert acceptor.buffered_bytes <= len(data)
