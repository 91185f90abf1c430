"""What the channels of one connection share."""

from collections.abc import Callable
from dataclasses import dataclass, field

from radiator.model.amqp_limits import AMQP_MESSAGES_IN_PART
from radiator.protocols.amqp.frame import BrokenAmqp
from radiator.protocols.amqp.publishing import Publishing
from radiator.protocols.amqp.spec import PRECONDITION_FAILED


@dataclass(slots=True)
class CommonToChannels:
    """What the channels of a connection share. frame_max: most bytes of a frame. body_max_bytes: of a message,
    header_max_bytes: of its properties. user: the one that messages may name as their sender. new_name: returns an
    unguessable name. can_cancel: the client understands a basic.cancel from the broker. own_queues: the latest queue
    names that the broker generated. out: frames that are sent before those of the broker's replies. content_bytes: of
    messages received in part, on all channels together.
    """

    frame_max: int
    body_max_bytes: int
    header_max_bytes: int
    user: str
    new_name: Callable[[], str]
    can_cancel: bool
    own_queues: dict[str, None] = field(default_factory=dict)
    out: list[bytes] = field(default_factory=list)
    content_bytes: int = 0

    def count(self, publishing: Publishing, size: int) -> None:
        """Counts `size` more bytes of that message. Raises BrokenAmqp if the connection's bound is exceeded."""
        publishing.counted_bytes += size
        self.content_bytes += size
        most = AMQP_MESSAGES_IN_PART * self.body_max_bytes
        if self.content_bytes > most:
            sentence = f"on its channels this connection has {self.content_bytes} bytes of messages that are not whole"
            bound = f"{most} is the most, {AMQP_MESSAGES_IN_PART} times max_frame_bytes"
            raise BrokenAmqp(PRECONDITION_FAILED, f"{sentence}: {bound}")

    def forget(self, publishing: Publishing | None) -> None:
        """Stops counting a message that is complete, or was given up."""
        if publishing is not None:
            self.content_bytes -= publishing.counted_bytes
