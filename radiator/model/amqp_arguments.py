"""AMQP's arguments of a queue: which setting each is here, or that it has no effect.

The broker takes them in queue.declare, and our transport of kombu declares over STOMP what they have become.
"""

from collections.abc import Callable, Mapping
from typing import Any

from radiator.model.amqp_tables import is_time
from radiator.model.checks import TIB, Check
from radiator.model.priorities import PRIORITY_MAX
from radiator.model.settings import DROP_OLDEST, REJECT, UNLIMITED

LONGEST = (1 << 31) - 1
OVERFLOWS = {"drop-head": DROP_OLDEST, "reject-publish": REJECT}
_TEN_YEARS_MS = 10 * 365 * 86_400_000  # as RabbitMQ has it


def whole(least: int, most: int = LONGEST) -> Callable[[object], int]:
    """A whole number within bounds. What it returns raises ValueError, a clause."""

    def check(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or is_time(value):
            raise ValueError("is not a whole number")
        if not least <= value <= most:
            raise ValueError(f"is out of range: {least} to {most}")
        return int(value)  # without the letter that it was written with

    return check


def text(value: object) -> str:
    """Any text. Raises ValueError, a clause."""
    if not isinstance(value, str):
        raise ValueError("is not text")
    return value


def flag(value: object) -> bool:
    """true or false. Raises ValueError, a clause."""
    if not isinstance(value, bool):
        raise ValueError("is neither true nor false")
    return value


def _one_of(*values: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if value not in values:
            raise ValueError(f"must be one of {', '.join(values)}")
        return str(value)

    return check


def _overflow(value: object) -> str:
    return OVERFLOWS[_one_of(*OVERFLOWS)(value)]


def _seconds(value: object) -> float:
    return whole(1, _TEN_YEARS_MS)(value) / 1000


def _priority(value: object) -> int:
    number = whole(0)(value)
    if number > PRIORITY_MAX:
        raise ValueError(f"is more than {PRIORITY_MAX}, the most priorities that a queue has here")
    return number


SETTINGS: Mapping[str, tuple[str, Check]] = {
    "x-message-ttl": ("message_ttl_ms", whole(0, _TEN_YEARS_MS)),
    "x-expires": ("expires_ms", whole(1, _TEN_YEARS_MS)),
    "x-max-length": ("max_messages", whole(0, 10**12)),
    "x-max-length-bytes": ("max_bytes", whole(0, 64 * TIB)),
    "x-overflow": ("overflow", _overflow),
    "x-delivery-limit": ("max_redeliveries", whole(UNLIMITED)),
    "x-consumer-timeout": ("ack_timeout_s", _seconds),
    "x-single-active-consumer": ("single_active_consumer", flag),
    "x-max-priority": ("max_priority", _priority),
    "x-dead-letter-exchange": ("dead_letter_exchange", text),
    "x-dead-letter-routing-key": ("dead_letter_key", text),
}
"""Each with its setting, and a check that returns the value of that."""

WITHOUT_EFFECT: Mapping[str, Check] = {
    # a queue on the disk serves for each of them: replicated or not, it is synced, and memory has what fits
    "x-queue-type": _one_of("classic", "quorum"),
    "x-queue-mode": _one_of("default", "lazy"),
    "x-queue-version": whole(1),
    "x-queue-master-locator": text,
    "x-queue-leader-locator": text,
    "x-quorum-initial-group-size": whole(1),
    "x-quorum-target-group-size": whole(1),
    "x-ha-policy": text,  # of RabbitMQ before 3.0, which old programs still say
    "x-max-in-memory-length": whole(0),
    "x-max-in-memory-bytes": whole(0),
    # dead letters move at least once, which is enough for both
    "x-dead-letter-strategy": _one_of("at-most-once", "at-least-once"),
}


def settle(settings: dict[str, Any], arguments: Mapping[str, Any]) -> None:
    """Corrects those of the settings that these arguments have become which mean something else, or nothing, beside the
    others.
    """
    if "x-delivery-limit" in arguments:
        if settings["max_redeliveries"] == UNLIMITED:  # as if nothing were said
            del settings["max_redeliveries"]
        elif not settings.keys() & {"dead_letter", "dead_letter_exchange"}:
            settings["drop_after_redeliveries"] = settings.pop("max_redeliveries")
    if "x-max-priority" in arguments and settings["max_priority"] == 0:
        del settings["max_priority"]  # all messages have one priority
