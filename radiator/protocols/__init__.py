"""Front ends: each turns bytes into commands and replies into bytes, and has never heard of a queue or a socket.

Adding a protocol is one file with a Session and one row in SCHEMES.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from radiator.model.commands import Command, Open
from radiator.model.limits import Limits
from radiator.model.replies import Deliver, Reply, Scope
from radiator.model.settings import TCP, UNIX
from radiator.protocols.stomp.session import StompSession


class Session(Protocol):
    """One connection's side of a protocol: a pure state machine, driven by the shell from one greenlet at a time.

    The shell **must** call `take_outgoing` after each `receive`, and first of all where it has dialled; and close the
    connection once that is written if `is_closing` is then true. `receive` never raises for what a peer sent: it says
    `Fail`, and ignores all that follows.
    """

    is_open: bool
    """The peer has been accepted: `Open` was returned."""
    is_closing: bool
    """The session itself has nothing more to say once `take_outgoing` is written (a failure before Open)."""
    buffered_bytes: int
    """Bytes held of an unfinished frame."""
    heart_beat_send_s: float
    """How often at least one byte must be sent; 0: never."""
    heart_beat_expect_s: float
    """How often the peer has promised to send something; 0: never."""
    silence_max_s: float
    """How long the peer may say nothing before it is taken for dead; inf: for ever."""
    closing_cause: str
    """What the log says of it where `is_closing` is set before Open."""
    other: str
    """Of a link: the node that is dialled, or says that it is the other end, proved or not; "": not known."""
    closes_at: Scope
    """The smallest scope of a Refuse that ends the connection; its Open says the same. STOMP closes at every one."""
    is_link: bool
    """The other end is a node: it is read from even while it does not read, or two full links would wait for ever."""

    @property
    def frame_bytes(self) -> int:
        """How many bytes the unfinished frame will have, where it says so; else as many as are held."""

    def receive(self, data: bytes) -> list[Open | Command]:
        """What those bytes say, in order. `Open` comes first and once."""

    def take_outgoing(self) -> bytes:
        """What the session itself has to say now (the greeting, a failure before Open)."""

    def encode(self, reply: Reply) -> bytes:
        """The bytes of a reply; b"" for one that the protocol has no words for (Bye, Pause, Resume)."""

    def pieces(self, reply: Deliver) -> tuple[bytes, ...]:
        """The same, where a body is so large that it is not copied."""

    def heart_beat(self) -> bytes:
        """The bytes of one heart-beat."""

    def forget(self) -> None:
        """The connection is over, and nothing more will be called: lets go of what was read."""


@dataclass(slots=True, frozen=True)
class Scheme:
    """What is spoken at a listener, and what carries it. transport: TCP or UNIX.

    session: a new one, given the connection's number, the `session` name for it, and the limits. None: nodes speak
    there, with sessions that need what this node knows of the others.
    """

    transport: str
    session: Callable[[int, str, Limits], Session] | None


SCHEMES = {
    "stomp": Scheme(TCP, StompSession),
    "stomp+unix": Scheme(UNIX, StompSession),
    "peer": Scheme(TCP, None),
}
"""All that a listener can be: what stands before the `:` of its address."""
