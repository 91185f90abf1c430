"""Front ends: each parses a client's bytes into commands and encodes the broker's replies as bytes. None knows anything
of queues or sockets.

A new protocol takes one file with a Session and one row in schemes.py.
"""

from collections.abc import Sequence
from typing import Protocol

from radiator.model.commands import Heard
from radiator.model.principal import Check, Principal, Verdict
from radiator.model.replies import Answered, Deliver, Reply, Scope


class Session(Protocol):
    """One connection's side of a protocol: a pure state machine, called by the server from one greenlet at a time.

    The server **must** call `take_outgoing` after each `receive` or `answered`, and first of all on a connection that
    it has dialled. It **must** close the connection once those bytes are written if `is_closing` is then true.
    `receive` never raises for what a peer sends: it returns `Fail`, and ignores all that follows.
    """

    @property
    def is_open(self) -> bool:
        """Whether the peer has been accepted: `Open` was returned."""

    @property
    def is_closing(self) -> bool:
        """Whether the session sends nothing more once `take_outgoing` is written: it failed before Open."""

    @property
    def buffered_bytes(self) -> int:
        """The number of bytes held of an unfinished frame."""

    @property
    def heart_beat_send_s(self) -> float:
        """How often at least one byte must be sent; 0: never."""

    @property
    def heart_beat_expect_s(self) -> float:
        """How often the peer has promised to send something; 0: never."""

    @property
    def silence_max_s(self) -> float:
        """How long the peer may be silent before it is taken for dead; inf: for ever."""

    @property
    def closing_cause(self) -> str:
        """The cause that the log gives if `is_closing` is set before Open."""

    @property
    def other(self) -> str:
        """The node at the other end of a link: the one that was dialled, or that the peer claims to be, proved or not.
        "": not known, or no link.
        """

    @property
    def closes_at(self) -> Scope:
        """The smallest scope of a Refuse that ends the connection, as its Open says. For STOMP every Refuse
        does.
        """

    @property
    def is_link(self) -> bool:
        """Whether the other end is a node. The server reads from a link even while the other end does not read:
        otherwise two nodes whose links are full would wait for each other for ever.
        """

    @property
    def pending(self) -> Check | None:
        """A check of the client's identity that takes too long for `receive`: the server runs it in a thread, and calls
        `receive` again only after `answered`. Until then the session keeps the bytes that followed unread, as part of
        `buffered_bytes`.
        """

    @property
    def is_ordered(self) -> bool:
        """Whether the client matches answers to requests by their order alone: none may be left out before another."""

    @property
    def is_full(self) -> bool:
        """Whether nothing more may be read until the broker has answered what was read."""

    @property
    def has_unread(self) -> bool:
        """Whether `receive` must be called again, with b"", once the connection may be read from again."""

    @property
    def is_costly(self) -> bool:
        """Whether the next step takes long. The server then calls `receive` with b"" when it is the connection's turn
        among all such connections, and not before.
        """

    @property
    def has_channels(self) -> bool:
        """Whether several connections of the broker share the transport: the first one, which the transport's own
        number names, and its channels. The session returns an Open for each; it is given a function that returns the
        channels' numbers when it is made. It ends a channel by a Closed among its commands. A reply that ends a channel
        (Bye, or a Refuse of its scope) leaves the others open, and `encode` is called for each Pause, Resume and Bye.
        """

    @property
    def frame_bytes(self) -> int:
        """The size of the unfinished frame where the frame gives it; else the bytes held of it."""

    @property
    def last_answer(self) -> bytes:
        """The bytes that the peer's last data ends with if they acknowledge the end of the connection: this side hangs
        up after them. A client whose connection is closed along with the reason may report a broken connection, and
        never the reason. b"": this side hangs up at once.
        """

    def recognise(self, principal: Principal) -> None:
        """Sets what the transport has found out about the client's identity since the session was made; called before
        the first `receive`.
        """

    def receive(self, data: bytes) -> list[Heard]:
        """Returns the commands in those bytes, in order. `Open` comes first, once for each connection."""

    def answered(self, verdict: Verdict) -> list[Heard]:
        """Takes the verdict on `pending`, which is then None or another check, and returns what `receive` would."""

    def take_outgoing(self) -> bytes:
        """Returns, once, what the session itself has to send: the greeting, or a failure before Open."""

    def encode(self, reply: Reply) -> bytes:
        """Returns the bytes of a reply; b"" if the protocol has no frame for it (Bye, Pause, Resume)."""

    def pieces(self, reply: Deliver | Answered) -> Sequence[bytes | memoryview]:
        """Returns the bytes of a reply in pieces, so that a large body is not copied."""

    def heart_beat(self) -> bytes:
        """Returns the bytes of one heart-beat."""

    def forget(self) -> None:
        """Releases what was read. The connection has ended, and no other method is called after this."""
