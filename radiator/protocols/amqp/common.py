"""What the channels of one connection have in common."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class CommonToChannels:
    """What the channels of a connection share. frame_max: bytes of a frame. body_max_bytes: of a message,
    header_max_bytes: of its properties. user: whom messages may name as their sender. new_name: gives a name that
    nobody can guess. can_cancel: the client takes a basic.cancel of the broker's. own_queues: names that the broker has
    given, the last ones. out: frames that are sent before those of the broker's replies.
    """

    frame_max: int
    body_max_bytes: int
    header_max_bytes: int
    user: str
    new_name: Callable[[], str]
    can_cancel: bool
    own_queues: dict[str, None] = field(default_factory=dict)
    out: list[bytes] = field(default_factory=list)
