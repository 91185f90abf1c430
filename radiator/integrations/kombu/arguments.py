"""The arguments that AMQP's programs declare a queue with, as the broker's settings of a queue."""

from collections.abc import Mapping
from typing import Any

from radiator.integrations.kombu.failures import OperationRefused
from radiator.model.settings import DIRECT, DROP_OLDEST, FANOUT, REJECT, TOPIC

EXCHANGE_TYPES = (DIRECT, TOPIC, FANOUT)  # those whose bindings kombu has no arguments for

# what RabbitMQ calls it -> what it is called here; the broker judges the values
_SAME = {
    "x-expires": "expires_ms",
    "x-message-ttl": "message_ttl_ms",
    "x-max-length": "max_messages",
    "x-max-length-bytes": "max_bytes",
    "x-delivery-limit": "max_redeliveries",
}
_OVERFLOWS = {"drop-head": DROP_OLDEST, "reject-publish": REJECT}
# every persistent queue is synced before it is confirmed: what other types of queue promise
_SAYS_NOTHING = frozenset(["x-queue-type", "x-queue-mode", "x-queue-version", "x-dead-letter-strategy"])
_PRIORITIES = "This transport has no priorities: take amqp:// for x-max-priority, or give what is urgent its own queue."


def queue_settings(
    arguments: Mapping[str, Any], *, durable: bool, exclusive: bool, auto_delete: bool, keeps_replies: bool = False
) -> dict[str, Any]:
    """The settings to declare. A name that RabbitMQ does not have, such as `dedup_window_s`, is taken as the broker's
    own.

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
        if name in _SAME:
            settings[_SAME[name]] = value
        elif name == "x-max-priority":
            raise OperationRefused(_PRIORITIES)
        elif name == "x-overflow" and value in _OVERFLOWS:
            settings["overflow"] = _OVERFLOWS[value]
        elif name == "x-dead-letter-routing-key" and not arguments.get("x-dead-letter-exchange"):
            settings["dead_letter"] = value
        elif name == "x-dead-letter-exchange" and not value and "x-dead-letter-routing-key" in arguments:
            pass  # the default exchange: the routing key is the queue
        elif name.startswith("x-"):
            if name not in _SAYS_NOTHING:
                raise OperationRefused(
                    f"The queue argument {name!r} = {value!r} means nothing to Radiator: leave it out."
                )
        else:
            settings[name] = value
    bounded = "x-max-length" in arguments or "x-max-length-bytes" in arguments
    if bounded or (settings["auto_delete"] and not settings["persistent"]):
        settings.setdefault("overflow", DROP_OLDEST)
    return settings
