"""Front ends: each turns bytes into commands and replies into bytes, and knows nothing of queues or sockets.

Adding a protocol is one file with a Session and one row in SCHEMES.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from radiator.model.commands import Command, Open
from radiator.model.limits import Limits
from radiator.model.principal import Check, Login, Principal, Verdict
from radiator.model.replies import Deliver, Reply, Scope
from radiator.model.settings import TCP, UNIX
from radiator.protocols.stomp.session import StompSession


class Session(Protocol):
    """One connection's side of a protocol: a pure state machine, called by the server from one greenlet at a time.

    The server **must** call `take_outgoing` after each `receive` or `answered`, and as the first thing where it has
    dialled; and close the connection once that is written if `is_closing` is then true. `receive` never raises for a
    peer's bytes: it returns `Fail`, and ignores all that follows.
    """

    is_open: bool
    """The peer has been accepted: `Open` was returned."""
    is_closing: bool
    """The session sends nothing more once `take_outgoing` is written (a failure before Open)."""
    buffered_bytes: int
    """Bytes held of an unfinished frame."""
    heart_beat_send_s: float
    """How often at least one byte must be sent; 0: never."""
    heart_beat_expect_s: float
    """How often the peer has promised to send something; 0: never."""
    silence_max_s: float
    """How long the peer may be silent before it is taken for dead; inf: for ever."""
    closing_cause: str
    """The cause that the log gives where `is_closing` is set before Open."""
    other: str
    """Of a link: the node that was dialled, or that the other end claims to be, proved or not; "": not known."""
    closes_at: Scope
    """The smallest scope of a Refuse that ends the connection, as in its Open. STOMP closes at every one."""
    is_link: bool
    """The other end is a node: it is read from even while it does not read, or two full links would wait for ever."""
    pending: Check | None
    """A check of the client's identity that takes too long for `receive`: the server runs it in a thread, and calls
    `receive` again only after `answered`. Until then the session keeps the bytes that followed unread, as part of
    `buffered_bytes`.
    """

    @property
    def frame_bytes(self) -> int:
        """The size of the unfinished frame where the frame gives it; else the bytes held of it."""

    def recognise(self, principal: Principal) -> None:
        """Takes what the transport has found out since the session was made, before the first `receive`."""

    def receive(self, data: bytes) -> list[Open | Command]:
        """The commands in those bytes, in order. `Open` comes first and once."""

    def answered(self, verdict: Verdict) -> list[Open | Command]:
        """Takes the verdict of `pending`, which is then None, or another check. Otherwise as `receive`."""

    def take_outgoing(self) -> bytes:
        """What the session itself has to send now (the greeting, a failure before Open)."""

    def encode(self, reply: Reply) -> bytes:
        """The bytes of a reply; b"" for one that the protocol has no frame for (Bye, Pause, Resume)."""

    def pieces(self, reply: Deliver) -> tuple[bytes, ...]:
        """The same, where the body is so large that it is not copied."""

    def heart_beat(self) -> bytes:
        """The bytes of one heart-beat."""

    def forget(self) -> None:
        """The connection is over, and nothing more will be called: releases what was read."""


@dataclass(slots=True, frozen=True)
class Scheme:
    """The protocol of a listener and its transport. transport: TCP or UNIX. is_encrypted: whether it is under TLS.

    session: makes one, given the connection's number, the `session` name for it, the limits, who the transport says
    that the client is, and its login; None: there are no users. A scheme without `session`: a listener for nodes, whose
    sessions need what this node knows of the others.
    """

    transport: str
    session: Callable[[int, str, Limits, Principal, Login | None], Session] | None
    is_encrypted: bool = False


SCHEMES = {
    "stomp": Scheme(TCP, StompSession),
    "stomp+unix": Scheme(UNIX, StompSession),
    "stomps": Scheme(TCP, StompSession, is_encrypted=True),
    "peer": Scheme(TCP, None),
    "peers": Scheme(TCP, None, is_encrypted=True),
}
"""Every kind of listener, by what comes before the `:` of its address."""
