"""The arguments with which AMQP programs declare queues, exchanges and consumers, as the broker's own settings.

Each that begins with `x-` means what it means to RabbitMQ, or is refused. Any other is a setting by the broker's own
name, such as `dedup_window_s`; the broker judges names and values.
"""

from collections.abc import Mapping
from typing import Any

from radiator.integrations.kombu.failures import OperationRefused
from radiator.model.amqp_arguments import LONGEST, OVERFLOWS, SETTINGS, WITHOUT_EFFECT, settle
from radiator.model.checks import shown
from radiator.model.header_bindings import arguments_key
from radiator.model.settings import DEAD_LETTER, DROP_OLDEST, EXCHANGE_TYPES, HEADERS

_CONSUMER_PRIORITIES = range(-LONGEST - 1, LONGEST + 1)


def queue_settings(
    arguments: Mapping[str, Any], *, durable: bool, exclusive: bool, auto_delete: bool, keeps_replies: bool = False
) -> dict[str, Any]:
    """The settings to declare.

    An exclusive queue is deleted with its consumer and is never on the disk. Nor is one that is deleted with its
    consumer or when it is unused, such as the queue for the results of Celery, unless keeps_replies. A queue in memory
    that only its creator reads drops its oldest messages when it is not read, so that its producers need not wait.
    """
    is_for_replies = auto_delete and "x-expires" in arguments and not keeps_replies
    settings: dict[str, Any] = {
        "persistent": durable and not exclusive and not is_for_replies,
        "auto_delete": auto_delete or exclusive,
    }
    for name, value in arguments.items():
        if not name.startswith("x-"):
            settings[name] = value
        elif name in SETTINGS and (name != "x-overflow" or value in OVERFLOWS):
            settings[SETTINGS[name][0]] = _value(name, value)
        elif name not in WITHOUT_EFFECT or value == "stream":
            raise OperationRefused(f"The queue argument {name!r} = {value!r} means nothing to Radiator: leave it out.")
    if "x-dead-letter-routing-key" in arguments and "dead_letter_exchange" not in settings:
        # RabbitMQ refuses a key alone; here it is the name of a queue for dead letters
        settings["dead_letter"] = settings.pop("dead_letter_key")
    settle(settings, arguments)
    bounded = "x-max-length" in arguments or "x-max-length-bytes" in arguments
    if bounded or (settings["auto_delete"] and not settings["persistent"]):
        settings.setdefault("overflow", DROP_OLDEST)
    if bounded and settings["overflow"] == DROP_OLDEST and "dead_letter_exchange" in settings:
        settings["overflow"] = DEAD_LETTER  # a message that is dropped for room is dead-lettered, too
    return settings


def _value(name: str, value: Any) -> Any:
    """The setting's value; the broker judges it."""
    if name == "x-overflow":
        return OVERFLOWS[value]
    is_time = name == "x-consumer-timeout" and isinstance(value, int) and not isinstance(value, bool)
    return value / 1000 if is_time else value


def exchange_settings(exchange: str, type: str, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """The exchange's settings: its type, and what the arguments ask for. Raises OperationRefused."""
    if type not in EXCHANGE_TYPES:
        raise OperationRefused(
            f"The exchange {exchange!r} cannot be of type {type!r}: use {', '.join(EXCHANGE_TYPES)}."
        )
    settings: dict[str, Any] = {"type": type}
    for name, value in (arguments or {}).items():
        if name in ("alternate-exchange", "x-alternate-exchange"):
            settings["alternate"] = None if value == "" else value  # as in AMQP: there is none
        elif name.startswith("x-"):
            raise OperationRefused(
                f"The argument {name!r} = {value!r} of the exchange {exchange!r} means nothing to Radiator: "
                "leave it out."
            )
        else:
            settings[name] = value
    return settings


def binding_key(target: str, type: str, arguments: Mapping[str, Any]) -> str:
    """The key of a binding with these arguments. type: of the exchange. Raises OperationRefused."""
    if type != HEADERS:
        raise OperationRefused(
            f"The binding of {target!r} has arguments, {shown(dict(arguments))}, "
            f"which an exchange of type {type} does not look at: leave them out."
        )
    try:
        return arguments_key(arguments)
    except ValueError as mistake:
        raise OperationRefused(f"The binding of {target!r} {mistake}.") from None


def consumer_headers(arguments: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """The headers of a SUBSCRIBE for a consumer with these arguments. Raises OperationRefused."""
    headers: list[tuple[str, str]] = []
    for name, value in (arguments or {}).items():
        if name == "x-priority":
            if not isinstance(value, int) or isinstance(value, bool) or value not in _CONSUMER_PRIORITIES:
                raise OperationRefused(f"'x-priority' of a consumer is {value!r}: it is a whole number of 32 bits.")
            headers.append(("consumer-priority", str(value)))
        elif name.startswith("x-") and name != "x-cancel-on-ha-failover":
            raise OperationRefused(
                f"The argument {name!r} = {value!r} of a consumer means nothing to Radiator: leave it out."
            )
    return headers
