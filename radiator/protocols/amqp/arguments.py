"""The arguments of queue.declare and exchange.declare as settings of a queue or an exchange.

Each argument that begins with `x-` has a row here, or is refused: one that was ignored would promise what is not kept.
Others are the application's own notes, which mean nothing to RabbitMQ either.
"""

from collections.abc import Callable, Mapping
from typing import Any

from radiator.model.checks import TIB, shown
from radiator.model.priorities import PRIORITY_MAX
from radiator.model.settings import DEAD_LETTER, DROP_OLDEST, EXCHANGE_TYPES, REJECT
from radiator.protocols.amqp.frame import BrokenAmqp
from radiator.protocols.amqp.spec import NOT_IMPLEMENTED, PRECONDITION_FAILED

_OVERFLOWS = {"drop-head": DROP_OLDEST, "reject-publish": REJECT}
_LONGEST = (1 << 31) - 1
_TEN_YEARS_MS = 10 * 365 * 86_400_000  # as RabbitMQ has it
_UNLIMITED = -1  # an x-delivery-limit that is none


def _whole(least: int, most: int = _LONGEST) -> Callable[[object], int]:
    def check(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError("is no whole number")
        if not least <= value <= most:
            raise ValueError(f"is out of range: {least} to {most}")
        return int(value)  # without the letter that it was written with

    return check


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("is no text")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("is neither true nor false")
    return value


def _one_of(*values: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if value not in values:
            raise ValueError(f"is none of {', '.join(values)}")
        return str(value)

    return check


def _overflow(value: object) -> str:
    if value == "reject-publish-dlx":
        sentence = "x-overflow is reject-publish-dlx, but what is refused goes nowhere here: drop-head moves the oldest"
        raise BrokenAmqp(NOT_IMPLEMENTED, f"{sentence} to x-dead-letter-exchange, reject-publish only refuses")
    return _OVERFLOWS[_one_of(*_OVERFLOWS)(value)]


def _seconds(value: object) -> float:
    return _whole(1, _TEN_YEARS_MS)(value) / 1000


def _priority(value: object) -> int:
    number = _whole(0)(value)
    if number > PRIORITY_MAX:
        raise ValueError(f"is more than {PRIORITY_MAX}, the most priorities that a queue has here")
    return number


_QUEUE: dict[str, tuple[str, Callable[[object], Any]]] = {
    "x-message-ttl": ("message_ttl_ms", _whole(0, _TEN_YEARS_MS)),
    "x-expires": ("expires_ms", _whole(1, _TEN_YEARS_MS)),
    "x-max-length": ("max_messages", _whole(0, 10**12)),
    "x-max-length-bytes": ("max_bytes", _whole(0, 64 * TIB)),
    "x-overflow": ("overflow", _overflow),
    "x-delivery-limit": ("max_redeliveries", _whole(_UNLIMITED)),
    "x-consumer-timeout": ("ack_timeout_s", _seconds),
    "x-single-active-consumer": ("single_active_consumer", _flag),
    "x-max-priority": ("max_priority", _priority),
    "x-dead-letter-exchange": ("dead_letter_exchange", _text),
    "x-dead-letter-routing-key": ("dead_letter_key", _text),
}
_OF_SETTINGS = {setting: name for name, (setting, _) in _QUEUE.items()} | {"persistent": "durable"}
_QUEUE_WITHOUT_EFFECT: dict[str, Callable[[object], object]] = {
    # a queue on the disk is what both are: replicated or not, it is synced; in memory is what fits
    "x-queue-mode": _one_of("default", "lazy"),
    "x-queue-version": _whole(1),
    "x-queue-master-locator": _text,
    "x-queue-leader-locator": _text,
    "x-quorum-initial-group-size": _whole(1),
    "x-quorum-target-group-size": _whole(1),
    "x-ha-policy": _text,  # of RabbitMQ before 3.0, which old programs still say
    "x-max-in-memory-length": _whole(0),
    "x-max-in-memory-bytes": _whole(0),
    # what both mean, and at-least-once is more than the other one
    "x-dead-letter-strategy": _one_of("at-most-once", "at-least-once"),
}
_OF_STREAMS = frozenset((
    "x-max-age", "x-stream-max-segment-size-bytes", "x-stream-filter-size-bytes", "x-initial-cluster-size",
    "x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered",
))  # fmt: skip
_NO_STREAMS = "streams are not spoken over AMQP: declare a log, and read it over STOMP"


def queue_settings(arguments: Mapping[str, Any], is_persistent: bool, auto_delete: bool) -> dict[str, Any]:
    """The settings that queue.declare asks for, by their names in config.toml. Raises BrokenAmqp."""
    settings: dict[str, Any] = {"persistent": is_persistent, "auto_delete": auto_delete}
    for name, value in arguments.items():
        if name == "x-queue-type":
            _check_type(value)
        elif name in _QUEUE:
            setting, check = _QUEUE[name]
            settings[setting] = _checked(name, value, check)
        elif name in _QUEUE_WITHOUT_EFFECT:
            _checked(name, value, _QUEUE_WITHOUT_EFFECT[name])
        elif name.startswith("x-"):
            raise _unknown(name, "a queue")
    if "dead_letter_key" in settings and "dead_letter_exchange" not in settings:
        raise BrokenAmqp(
            PRECONDITION_FAILED, "invalid arg 'x-dead-letter-routing-key': it needs x-dead-letter-exchange"
        )
    if settings.get("max_redeliveries") == _UNLIMITED:
        del settings["max_redeliveries"]
    if "max_redeliveries" in settings and "dead_letter_exchange" not in settings:
        settings["drop_after_redeliveries"] = settings.pop("max_redeliveries")
    if not settings.get("max_priority", 1):
        del settings["max_priority"]  # all messages have one priority
    has_bound = "max_messages" in settings or "max_bytes" in settings
    overflow = settings.pop("overflow", DROP_OLDEST)
    if has_bound:  # without one nothing overflows
        is_moved = overflow == DROP_OLDEST and "dead_letter_exchange" in settings
        settings["overflow"] = DEAD_LETTER if is_moved else overflow
    return settings


def argument_of(setting: str) -> str:
    """What queue.declare has for that setting of a queue."""
    return _OF_SETTINGS.get(setting, setting)


def _check_type(value: object) -> None:
    if value == "stream":
        raise BrokenAmqp(NOT_IMPLEMENTED, _NO_STREAMS)
    _checked("x-queue-type", value, _one_of("classic", "quorum"))


def exchange_settings(
    kind: str, durable: bool, auto_delete: bool, internal: bool, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """The same of exchange.declare."""
    if kind not in EXCHANGE_TYPES:
        raise BrokenAmqp(PRECONDITION_FAILED, f"unknown exchange type {kind!r:.80}: {', '.join(EXCHANGE_TYPES)}")
    settings: dict[str, Any] = {"type": kind, "durable": durable, "auto_delete": auto_delete, "internal": internal}
    for name, value in arguments.items():
        if name in ("alternate-exchange", "x-alternate-exchange"):
            settings["alternate"] = _checked(name, value, _text)
        elif name.startswith("x-"):
            raise _unknown(name, "an exchange")
    return settings


def consumer_settings(arguments: Mapping[str, Any]) -> int:
    """The priority that basic.consume asks for; 0 where it does not. Raises BrokenAmqp."""
    priority = 0
    for name, value in arguments.items():
        if name == "x-priority":
            priority = _checked(name, value, _whole(-_LONGEST - 1))
        elif name == "x-cancel-on-ha-failover":
            _checked(name, value, _flag)  # no queue fails over here
        elif name.startswith("x-"):
            raise _unknown(name, "a consumer")
    return priority


def _unknown(name: str, what: str) -> BrokenAmqp:
    if name in _OF_STREAMS:
        return BrokenAmqp(NOT_IMPLEMENTED, f"{name} is of streams, and {_NO_STREAMS}")
    return BrokenAmqp(NOT_IMPLEMENTED, f"the argument {shown(name)} of {what} is not known here")


def _checked(name: str, value: object, check: Callable[[object], Any]) -> Any:
    try:
        return check(value)
    except ValueError as mistake:
        raise BrokenAmqp(PRECONDITION_FAILED, f"invalid arg {shown(name)}: {shown(value)} {mistake}") from None
