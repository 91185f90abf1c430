"""Front ends: each turns bytes into commands and replies into bytes, and knows nothing of queues or sockets.

Adding a protocol is one file with a Session and one row in schemes.py.
"""

from collections.abc import Sequence
from typing import Protocol

from radiator.model.commands import Heard
from radiator.model.principal import Check, Principal, Verdict
from radiator.model.replies import Answered, Deliver, Reply, Scope


class Session(Protocol):
    """One connection's side of a protocol: a pure state machine, called by the server from one greenlet at a time.

    The server **must** call `take_outgoing` after each `receive` or `answered`, and as the first thing where it has
    dialled; and close the connection once that is written if `is_closing` is then true. `receive` never raises for a
    peer's bytes: it returns `Fail`, and ignores all that follows.
    """

    @property
    def is_open(self) -> bool:
        """The peer has been accepted: `Open` was returned."""

    @property
    def is_closing(self) -> bool:
        """The session sends nothing more once `take_outgoing` is written (a failure before Open)."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes held of an unfinished frame."""

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
        """The cause that the log gives where `is_closing` is set before Open."""

    @property
    def other(self) -> str:
        """Of a link: the node that was dialled, or that the other end claims to be, proved or not; "": not known."""

    @property
    def closes_at(self) -> Scope:
        """The smallest scope of a Refuse that ends the connection, as in its Open. STOMP closes at every one."""

    @property
    def is_link(self) -> bool:
        """The other end is a node: it is read from even while it does not read, or two full links would wait for
        ever.
        """

    @property
    def pending(self) -> Check | None:
        """A check of the client's identity that takes too long for `receive`: the server runs it in a thread, and calls
        `receive` again only after `answered`. Until then the session keeps the bytes that followed unread, as part of
        `buffered_bytes`.
        """

    @property
    def is_ordered(self) -> bool:
        """Its answers are told apart by their order alone: none may be left out before another."""

    @property
    def is_full(self) -> bool:
        """Nothing more must be read before the broker has answered what was."""

    @property
    def has_unread(self) -> bool:
        """`receive` is to be called again, with b"", when the connection may be read from again."""

    @property
    def is_costly(self) -> bool:
        """What comes next takes long: `receive` is to be called with b"" when it is the turn of this connection among
        all such, and not before.
        """

    @property
    def has_channels(self) -> bool:
        """Several connections of the broker share the transport: the first one, which the transport's own number names,
        and its channels. The session opens each by an Open of its own and is told the numbers of channels when it is
        made; it ends one by a Closed among its commands. A reply that ends a channel (Bye, or a Refuse of its scope)
        leaves the others as they are, and `encode` is given each Pause, Resume and Bye.
        """

    @property
    def frame_bytes(self) -> int:
        """The size of the unfinished frame where the frame gives it; else the bytes held of it."""

    @property
    def last_answer(self) -> bytes:
        """The bytes with which the peer's last data ends: its answer to the end, after which this side hangs up. A
        client that finds the connection closed along with the reason may report a broken connection, and never the
        reason. b"": this side hangs up at once.
        """

    def recognise(self, principal: Principal) -> None:
        """Takes what the transport has found out since the session was made, before the first `receive`."""

    def receive(self, data: bytes) -> list[Heard]:
        """The commands in those bytes, in order. `Open` comes first, and once for each connection."""

    def answered(self, verdict: Verdict) -> list[Heard]:
        """Takes the verdict of `pending`, which is then None, or another check. Otherwise as `receive`."""

    def take_outgoing(self) -> bytes:
        """What the session itself has to send now (the greeting, a failure before Open)."""

    def encode(self, reply: Reply) -> bytes:
        """The bytes of a reply; b"" for one that the protocol has no frame for (Bye, Pause, Resume)."""

    def pieces(self, reply: Deliver | Answered) -> Sequence[bytes | memoryview]:
        """The same in pieces, so that a large body is not copied."""

    def heart_beat(self) -> bytes:
        """The bytes of one heart-beat."""

    def forget(self) -> None:
        """The connection is over, and nothing more will be called: releases what was read."""
