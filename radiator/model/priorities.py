"""The priority of a message, in a queue that has priorities: a whole number; the highest is delivered first."""

from radiator.model.headers import PRIORITY
from radiator.model.limits import KEY_HASH_BYTES
from radiator.model.message import Message

PRIORITY_MAX = 10
"""Each priority of a queue is a queue of its own inside."""
_BY_PRIORITY = "priority:"


def priority_of(message: Message, highest: int) -> int:
    """Returns the message's priority, at most the highest one; 0 if it has none, or none that can be read."""
    value = PRIORITY.value(message.headers, message.escaping)
    if value is None or not value.isdigit():
        return 0
    digits = value.lstrip(b"0")
    return highest if len(digits) > 2 else min(highest, int(digits or b"0"))


def hash_of_priority(priority: int) -> bytes:
    """What the store has for it in place of a key's hash."""
    return priority.to_bytes(KEY_HASH_BYTES, "big")


def stored_by(partition_key: tuple[str, ...], max_priority: int | None) -> tuple[str, ...]:
    """What the messages of a queue with these settings are found by, as the store keeps it; (): by their places
    alone.
    """
    return partition_key if max_priority is None else (f"{_BY_PRIORITY}{max_priority}",)


def max_priority_of(sources: tuple[str, ...]) -> int | None:
    """The max_priority that messages were stored by; None: they were not."""
    number = sources[0].removeprefix(_BY_PRIORITY) if len(sources) == 1 and sources[0].startswith(_BY_PRIORITY) else ""
    return int(number) if number.isascii() and number.isdigit() else None
