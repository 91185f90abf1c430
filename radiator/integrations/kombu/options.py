"""broker_transport_options: which exist, and what is logged about any other, which would have no effect."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from radiator.integrations.kombu.failures import OperationRefused
from radiator.model.checks import meant

_log = logging.getLogger(__name__)

ANSWER_TIMEOUT_S = 90.0  # longer than a broker lets a SEND wait for room

# kombu's, which it reads itself
_OF_KOMBU = frozenset(
    [
        "callback",
        "connect_retries_timeout",
        "errback",
        "interval_max",
        "interval_start",
        "interval_step",
        "max_retries",
    ]
)
# those of transports that people come from
_NOT_NEEDED = {
    "fanout_patterns": "exchanges are the broker's",
    "fanout_prefix": "exchanges are the broker's",
    "global_keyprefix": "give each application queues of its own names",
    "polling_interval": "nothing is polled",
    "priority_steps": "a queue with x-max-priority has them all, and the highest is the most urgent",
    "queue_order_strategy": "queues are served in turn",
    "sep": "priorities need no queues of their own",
    "visibility_timeout": "a task belongs to the connection of its worker, however long it takes",
}
_warned_of: set[str] = set()


@dataclass(slots=True)
class Options:
    """confirm_publish: a publish returns when it is on the disk. persistent_replies: queues for replies are, too.
    answer_timeout_s: how long any answer may take. plain_login: a password is sent to other machines even if
    broker_transport names a class without TLS.
    """

    confirm_publish: bool = True
    persistent_replies: bool = False
    answer_timeout_s: float = ANSWER_TIMEOUT_S
    plain_login: bool = False


def read(given: Mapping[str, Any]) -> Options:
    """The options that have an effect here; each other one is logged once. Raises OperationRefused for an invalid
    value: a text such as "no" would count as yes.
    """
    own = Options()
    for name, value in given.items():
        if name in Options.__slots__:
            _check(name, value)
            setattr(own, name, value)
        elif name not in _OF_KOMBU and name not in _warned_of:
            _warned_of.add(name)
            if name in _NOT_NEEDED:
                _log.warning("broker_transport_options: %r does nothing here: %s.", name, _NOT_NEEDED[name])
            else:
                hint = meant(name, [*Options.__slots__, *_OF_KOMBU])
                _log.warning("broker_transport_options: there is no %r%s", name, hint or ".")
    return own


def _check(name: str, value: Any) -> None:
    if name != "answer_timeout_s":
        is_right, wanted = isinstance(value, bool), "True or False"
    else:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        is_right, wanted = is_number and 0 < value < float("inf"), "a number of seconds above 0"
    if not is_right:
        raise OperationRefused(f"broker_transport_options: {name!r} cannot be {value!r}: it is {wanted}.")
