"""One side of a link: a line of text, a challenge and a proof each way, then words. Pure: no clock, socket or
randomness.

An unproved peer is held to CONNECT_MAX_BYTES, and is sent the reason of a refusal; a proved one is held to the fields
of spec.py, and fails at the first wrong one. The dialling side proves first: its PROOF, over which the secret can be
guessed, goes to whatever answers at an address that it dials, or listens on the way, and never to a caller.

    line, CHALLENGE  ---------------->  GREETING, CHALLENGING
    CHALLENGING      <----------------  line, CHALLENGE
    PROOF            ---------------->  PROVING
    PROVING, OPEN    <----------------  PROOF, OPEN
"""

from collections.abc import Callable
from dataclasses import replace

from radiator import __version__
from radiator.model.commands import Fail, Heard, Open, PeerMessage
from radiator.model.errors import Refusal, Violation, shown
from radiator.model.limits import GREETING_MAX_BYTES, Limits
from radiator.model.peer import Identity, NodeState
from radiator.model.principal import Check, Principal, Verdict, node_principal
from radiator.model.replies import Answered, Deliver, Refuse, Reply, Scope, SendToPeer
from radiator.model.settings import PEERS, Node
from radiator.protocols.peer.frame import HEART_BEAT, Frames, encode
from radiator.protocols.peer.proof import is_right, proof
from radiator.protocols.peer.spec import (
    AFTER_PROOF,
    BEFORE_PROOF,
    CODES,
    LINK_VERSION,
    TLS_LINK_VERSION,
    Challenge,
    LinkFrame,
    Proof,
    Refused,
)

PROTOCOL_CODE = "protocol"
_BEHIND_VERSION = b" radiator/" + __version__.encode() + b"\n"
GREETING, TLS_GREETING = LINK_VERSION + _BEHIND_VERSION, TLS_LINK_VERSION + _BEHIND_VERSION
NEEDS_TLS = GREETING + encode(
    Refused("link-version", "This node listens for others over TLS: its address is peers://HOST:PORT.")
)
"""What a listener over TLS answers to a node that does not speak TLS: the answer is that of a plain link."""

_TLS_RECORDS = (b"\x15", b"\x16")  # TLS begins with one of these records: an alert or a handshake
_LINK = LINK_VERSION.partition(b"/")[0] + b"/"  # the first bytes of a link of any version
# settings that must be alike, and their tables: else messages may be stuck, or each node takes the other for dead
_ALIKE = {
    "max_frame_bytes": "[limits]",
    "max_header_bytes": "[limits]",
    "max_headers": "[limits]",
    "heart_beat_ms": "[node]",
}
_GREETING, _CHALLENGING, _PROVING, _OPEN, _ENDED = range(5)  # the states: what is awaited


class PeerSession:
    """One connection. nonce: 32 random bytes, never used before. expected: the node that was dialled; None: this node
    was dialled. is_known: whether a node of that name may be linked with. certificate_sha256: that of the acceptor's
    certificate, as shown on this very connection; b"": without TLS.
    """

    is_full = has_unread = is_costly = is_ordered = has_channels = False
    last_answer = b""

    __slots__ = (
        "_certificate_sha256",
        "_connection",
        "_expected",
        "_frames",
        "_greeting",
        "_is_greeted",
        "_is_known",
        "_line",
        "_limits",
        "_ours",
        "_outgoing",
        "_secret",
        "_state",
        "_theirs",
        "_version",
        "buffered_bytes",
        "closing_cause",
        "heart_beat_expect_s",
        "heart_beat_send_s",
        "is_closing",
        "closes_at",
        "is_link",
        "is_open",
        "other",
        "pending",
        "silence_max_s",
    )

    def __init__(
        self,
        connection: int,
        limits: Limits,
        node: Node,
        store_id: str,
        nonce: bytes,
        expected: str | None,
        is_known: Callable[[str], bool],
        certificate_sha256: bytes = b"",
    ) -> None:
        self.is_open = False
        self.is_closing = False
        self.is_link = True
        self.closes_at = Scope.COMMAND
        self.closing_cause = ""
        self.other = expected or ""
        self.pending: Check | None = None
        self.buffered_bytes = 0
        self.heart_beat_send_s = node.heart_beat_ms / 2000
        self.heart_beat_expect_s = node.heart_beat_ms / 1000
        self.silence_max_s = 1.5 * node.heart_beat_ms / 1000
        self._connection = connection
        self._limits = limits
        self._secret = node.secret
        self._expected = expected
        self._is_known = is_known
        self._certificate_sha256 = certificate_sha256
        self._version, self._greeting = (
            (TLS_LINK_VERSION, TLS_GREETING) if certificate_sha256 else (LINK_VERSION, GREETING)
        )
        self._ours = Challenge(
            node.name,
            nonce,
            store_id,
            self._carried(str(node.advertise or "")),
            limits.max_frame_bytes,
            limits.max_header_bytes,
            limits.max_headers,
            node.heart_beat_ms,
        )
        self._theirs: Challenge | None = None
        self._frames = Frames(limits, BEFORE_PROOF)
        self._line = b""  # the beginning of the other side's line
        self._state = _GREETING
        self._outgoing = self._greeting + encode(self._ours) if expected is not None else b""
        self._is_greeted = expected is not None  # this node's line is sent

    def recognise(self, principal: Principal) -> None:
        """Does nothing: only its proof says which node the other end is."""

    def receive(self, data: bytes) -> list[Heard]:
        """Returns the commands in those bytes, in order. After Fail, or a refusal by either side, nothing more is
        read.
        """
        commands: list[Heard] = []
        if self._state == _ENDED:
            return commands
        try:
            if self._state == _GREETING:
                data = self._behind_line(data)
            for word in self._frames.words(data):
                if self._state == _OPEN and type(word) is not Refused:
                    commands.append(PeerMessage(self._connection, word))  # type: ignore[arg-type]  # AFTER_PROOF has only these
                else:
                    self._handshake(word, commands)
                    if self._state == _ENDED:
                        break
        except Refusal as refused:
            self._fail(refused.code, str(refused), commands)
        except Violation as broken:
            self._fail(PROTOCOL_CODE, str(broken), commands)
        self.buffered_bytes = 0 if self._state == _ENDED else self._frames.held_bytes + len(self._line)
        return commands

    def answered(self, verdict: Verdict) -> list[Heard]:
        """Never called: a link asks for no check."""
        return []

    @property
    def frame_bytes(self) -> int:
        """The size of the unfinished frame, as far as it is known."""
        return self._frames.frame_bytes

    def forget(self) -> None:
        """Releases what was read: the connection has ended."""
        self._state = _ENDED
        self._frames = Frames(self._limits, BEFORE_PROOF)
        self._line = self._outgoing = b""

    def take_outgoing(self) -> bytes:
        """Returns this side's next part of the handshake. The dialling side begins."""
        outgoing, self._outgoing = self._outgoing, b""
        return outgoing

    def encode(self, reply: Reply) -> bytes:
        """Returns the frame of a word, or of a refusal."""
        if type(reply) is SendToPeer:
            word = reply.word
            if type(word) is NodeState:
                word = replace(word, address=self._carried(word.address))
            return encode(word)
        if isinstance(reply, Refuse):
            return self._refusal(reply.code, reply.sentence)
        return b""

    def pieces(self, reply: Deliver | Answered) -> tuple[bytes, ...]:
        """Returns nothing: a link sends no MESSAGE."""
        return ()

    def heart_beat(self) -> bytes:
        """Returns a frame without fields."""
        return HEART_BEAT

    def _carried(self, address: str) -> str:
        """Returns a node's address as this link can carry it: plain links have no addresses with TLS."""
        return "" if address.startswith(f"{PEERS}:") and not self._certificate_sha256 else address

    # ---- the handshake ----------------------------------------------------------------------------------------------

    def _behind_line(self, data: bytes) -> bytes:
        """Returns the bytes after the other side's first line; b"" while the line is not complete."""
        line, end, rest = (self._line + data).partition(b"\n")
        if line[:1] in _TLS_RECORDS and not self._certificate_sha256:
            raise Violation(
                "The other side speaks TLS, and this listener does not: this node's address is peer://HOST:PORT."
            )
        if not line.startswith(_LINK[: len(line)]) or (end and len(line) < len(_LINK)):
            raise Violation(f"A link begins with the line {shown(self._version)}; these bytes do not: {shown(line)}.")
        if len(line) >= GREETING_MAX_BYTES:
            raise Violation(f"The line that a link begins with is longer than {GREETING_MAX_BYTES} bytes.")
        if not end:
            self._line = line
            return b""
        version = line.partition(b" ")[0]
        if version != self._version:
            why = ": over TLS no other version is taken" if self._certificate_sha256 else ""
            raise Refusal(
                "link-version", f"The other side speaks {shown(line)}, and this node {shown(self._version)}{why}."
            )
        self._line = b""
        self._state = _CHALLENGING
        if not self._is_greeted:
            self._say(self._greeting)
        return rest

    def _handshake(self, word: LinkFrame, commands: list[Heard]) -> None:
        if type(word) is Refused:
            self._refused(word, commands)
        elif type(word) is Challenge and self._state == _CHALLENGING:
            self._check(word)
            self._theirs = word
            self._state = _PROVING
            self._say(encode(self._ours if self._expected is None else Proof(self._proof(of_us=True))))
        elif type(word) is Proof and self._state == _PROVING:
            self._open(word, commands)
        else:
            wanted = "challenge" if self._state == _CHALLENGING else "proof"
            raise Violation(f"A {type(word).__name__.lower()} came where the {wanted} of a node must stand.")

    def _check(self, theirs: Challenge) -> None:
        """Checks whether the node that the other side claims to be may be linked with. Raises Refusal."""
        name, ours = theirs.name, self._ours
        if theirs.nonce == ours.nonce:
            raise Refusal("echo", "The challenge has this node's own nonce: somebody sends its words back to it.")
        if name == ours.name:
            raise Refusal("same-name", f"Both nodes are named {name}: each needs a name of its own.")
        if self._expected not in (None, name):
            raise Refusal("wrong-node", f"The node {self._expected} was dialled, and {name} answers.")
        if not self._is_known(name):
            raise Refusal("unknown-node", f"The node {name} is not among the peers that are configured here.")
        self.other = name
        if theirs.store_id == ours.store_id:
            raise Refusal("same-store", f"The node {name} has a copy of this node's data directory, with the same ids.")
        unlike = {key: table for key, table in _ALIKE.items() if getattr(theirs, key) != getattr(ours, key)}
        if unlike:
            each = [
                f"{key} is {getattr(theirs, key)} on {name} and {getattr(ours, key)} on {ours.name}" for key in unlike
            ]
            tables = " and ".join(dict.fromkeys(unlike.values()))
            raise Refusal("other-limits", f"{'; '.join(each)}: set it alike in {tables} of all nodes.")

    def _proof(self, of_us: bool) -> bytes:
        assert self._theirs is not None
        we_dialled = self._expected is not None
        dialler, acceptor = (self._ours, self._theirs) if we_dialled else (self._theirs, self._ours)
        return proof(self._secret, of_us == we_dialled, dialler, acceptor, self._certificate_sha256)

    def _open(self, theirs: Proof, commands: list[Heard]) -> None:
        assert self._theirs is not None
        name = self._theirs.name
        if not is_right(theirs.mac, self._proof(of_us=False)):
            why = "it does not have this node's secret"
            if self._certificate_sha256:
                why += ", or somebody between the two nodes has shown it another certificate"
            raise Refusal("wrong-secret", f"The proof of {name} is wrong: {why}.")
        if self._expected is None:
            self._say(encode(Proof(self._proof(of_us=True))))
        self._frames.take(AFTER_PROOF)
        self._state = _OPEN
        self.is_open = True
        is_dialled = self._expected is not None
        identity = Identity(name, self._theirs.store_id, is_dialled, self._theirs.address)
        commands.append(Open(self._connection, identity, self.closes_at, node_principal(name), protocol="peer"))

    def _say(self, data: bytes) -> None:
        self._outgoing += data
        self._is_greeted = True

    # ---- the end ----------------------------------------------------------------------------------------------------

    def _refused(self, word: Refused, commands: list[Heard]) -> None:
        """Ends the session: the other side has refused."""
        other = self.other or "the other side"
        cause = f"{other} refused: {word.code}: {word.sentence}"
        if not self.is_open:
            self.closing_cause = cause
            self.is_closing = True
        elif word.code in CODES:
            commands.append(Fail(self._connection, f"{other} refused: {word.sentence}", code=word.code))
        else:
            commands.append(Fail(self._connection, cause))
        self._state = _ENDED

    def _fail(self, code: str, sentence: str, commands: list[Heard]) -> None:
        if self.is_open:
            commands.append(Fail(self._connection, sentence))
        else:
            self.closing_cause = f"refused: {code}: {sentence}"
            self._outgoing += self._refusal(code, sentence)
            self.is_closing = True
        self._state = _ENDED

    def _refusal(self, code: str, sentence: str) -> bytes:
        """Returns a refusal, after this side's line: a peer of another version, or no node at all, can read at least
        that line.
        """
        greeting = b"" if self._is_greeted else self._greeting
        self._is_greeted = True
        return greeting + encode(Refused(code, sentence))
