"""Turns the arguments of queue.declare and exchange.declare into settings of a queue or an exchange.

An argument that begins with `x-` is known (model/amqp_arguments.py has those of queues), or is refused: ignoring it
would break a promise. Others are the application's own notes, which mean nothing to RabbitMQ either.
"""

from collections.abc import Mapping
from typing import Any

from radiator.model.amqp_arguments import LONGEST, OVERFLOWS, SETTINGS, WITHOUT_EFFECT, flag, settle, text, whole
from radiator.model.amqp_tables import described
from radiator.model.checks import Check, shown
from radiator.model.settings import DEAD_LETTER, DROP_OLDEST, EXCHANGE_TYPES, READY, UNLIMITED
from radiator.protocols.amqp.frame import BrokenAmqp
from radiator.protocols.amqp.spec import NOT_IMPLEMENTED, PRECONDITION_FAILED

_OF_SETTINGS = {setting: name for name, (setting, _) in SETTINGS.items()} | {
    "persistent": "durable", "drop_after_redeliveries": "x-delivery-limit", "alternate": "alternate-exchange",
}  # fmt: skip
_WORDS_OF_OVERFLOW = {overflow: word for word, overflow in OVERFLOWS.items()} | {
    DEAD_LETTER: "drop-head, to x-dead-letter-exchange"
}
_OF_STREAMS = frozenset((
    "x-max-age", "x-stream-max-segment-size-bytes", "x-stream-filter-size-bytes", "x-initial-cluster-size",
    "x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered",
))  # fmt: skip
_NO_STREAMS = "streams are not spoken over AMQP: declare a log, and read it over STOMP"
_NOT_HERE = {
    ("x-queue-type", "stream"): _NO_STREAMS,
    ("x-overflow", "reject-publish-dlx"): (
        "x-overflow is reject-publish-dlx, but what is refused goes nowhere here: drop-head moves the oldest to "
        "x-dead-letter-exchange, reject-publish only refuses"
    ),
}
"""Values of arguments that ask for what this broker does not do."""


def queue_settings(arguments: Mapping[str, Any], is_persistent: bool, auto_delete: bool) -> dict[str, Any]:
    """Returns the settings that queue.declare asks for, by their names in config.toml. Raises BrokenAmqp."""
    settings: dict[str, Any] = {"persistent": is_persistent, "auto_delete": auto_delete}
    for name, value in arguments.items():
        if isinstance(value, str) and (name, value) in _NOT_HERE:
            raise BrokenAmqp(NOT_IMPLEMENTED, _NOT_HERE[name, value])
        if name in SETTINGS:
            setting, check = SETTINGS[name]
            settings[setting] = _checked(name, value, check)
        elif name in WITHOUT_EFFECT:
            _checked(name, value, WITHOUT_EFFECT[name])
        elif name.startswith("x-"):
            raise _unknown(name, "a queue")
    if "dead_letter_key" in settings and "dead_letter_exchange" not in settings:
        raise BrokenAmqp(
            PRECONDITION_FAILED, "invalid arg 'x-dead-letter-routing-key': it needs x-dead-letter-exchange"
        )
    settle(settings, arguments)
    has_bound = "max_messages" in settings or "max_bytes" in settings
    overflow = settings.pop("overflow", DROP_OLDEST)
    if has_bound:  # without one nothing overflows
        is_moved = overflow == DROP_OLDEST and "dead_letter_exchange" in settings
        settings["overflow"] = DEAD_LETTER if is_moved else overflow
    return settings


def settings_if_new(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns further settings for a queue that is created now. An existing one may come from another protocol."""
    found: dict[str, Any] = {"bounds_count": READY} if "overflow" in settings else {}
    if "dead_letter_exchange" in settings and "max_redeliveries" not in settings:
        found["max_redeliveries"] = UNLIMITED  # a delivery limit is only where x-delivery-limit gives one
    return found


def argument_of(setting: str) -> str:
    """Returns the argument of a declare that stands for that setting of a queue or an exchange."""
    return _OF_SETTINGS.get(setting, setting)


def value_of(setting: str, value: object) -> str:
    """Returns the setting's value as a sentence about that argument gives it."""
    if value is None:
        return "none"
    if setting == "ack_timeout_s" and isinstance(value, int | float):
        value = round(value * 1000)
    if setting == "overflow" and isinstance(value, str):
        value = _WORDS_OF_OVERFLOW.get(value, value)
    return f"'{value if isinstance(value, str) else shown(value)}'"


def exchange_settings(
    kind: str, durable: bool, auto_delete: bool, internal: bool, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the settings that exchange.declare asks for. Raises BrokenAmqp."""
    if kind not in EXCHANGE_TYPES:
        raise BrokenAmqp(PRECONDITION_FAILED, f"unknown exchange type {kind!r:.80}: {', '.join(EXCHANGE_TYPES)}")
    settings: dict[str, Any] = {"type": kind, "durable": durable, "auto_delete": auto_delete, "internal": internal}
    for name, value in arguments.items():
        if name in ("alternate-exchange", "x-alternate-exchange"):
            # "" is the default exchange, to which nothing is bound as an alternate: RabbitMQ routes nothing by it
            settings["alternate"] = _checked(name, value, text) or None
        elif name.startswith("x-"):
            raise _unknown(name, "an exchange")
    return settings


def consumer_settings(arguments: Mapping[str, Any]) -> int:
    """Returns the priority that basic.consume asks for, or 0. Raises BrokenAmqp."""
    priority = 0
    for name, value in arguments.items():
        if name == "x-priority":
            priority = _checked(name, value, whole(-LONGEST - 1))
        elif name == "x-cancel-on-ha-failover":
            _checked(name, value, flag)  # no queue fails over here
        elif name.startswith("x-"):
            raise _unknown(name, "a consumer")
    return priority


def _unknown(name: str, what: str) -> BrokenAmqp:
    if name in _OF_STREAMS:
        return BrokenAmqp(NOT_IMPLEMENTED, f"{name} is of streams, and {_NO_STREAMS}")
    return BrokenAmqp(NOT_IMPLEMENTED, f"the argument {shown(name)} of {what} is not supported")


def _checked(name: str, value: object, check: Check) -> Any:
    try:
        return check(value)
    except ValueError as mistake:
        raise BrokenAmqp(PRECONDITION_FAILED, f"invalid arg {shown(name)}: {described(value)} {mistake}") from None
