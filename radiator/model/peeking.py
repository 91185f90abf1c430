"""What is asked and answered about messages of a queue that are looked at; see administration.py."""

from dataclasses import dataclass

from radiator.model.numbers import Rows


@dataclass(slots=True)
class PeekQueue:
    """The oldest messages, at most `count`, unacked or not; nothing changes: Peeked. message_id: only that one, with
    its body from the byte `body_from` on; refused (`no-such-message`) where the queue does not have it.
    """

    queue: str
    count: int
    message_id: str | None = None
    body_from: int = 0


# ---- answers ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class PeekedMessage:
    """One message, unchanged. timestamp, expires: when it was accepted and when it expires (0: never), in ms since the
    epoch. state: in lower case, one of core/states.py. headers: names and values, unescaped. body: at most
    PEEK_BODY_BYTES of body_bytes, or PEEK_PART_BYTES where only this message was asked for, from body_from on.
    """

    message_id: str
    destination: str
    timestamp: int
    expires: int
    redelivered: bool
    redelivery_count: int
    state: str
    size: int
    headers: list[tuple[bytes, bytes]]
    body_bytes: int
    body: bytes
    body_from: int = 0


@dataclass(slots=True)
class Peeked:
    """The oldest first."""

    messages: Rows[PeekedMessage]
