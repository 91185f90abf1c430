"""Policies of RabbitMQ as arguments of the queues and exchanges that they hold for: a time to live, or a dead-letter
exchange, that stood in a policy alone would else be gone without a word.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from radiator.model.checks import shown
from radiator.tools.migrate.definitions import DefinedExchange, DefinedPolicy, DefinedQueue

_LEAST = {
    "message-ttl": "x-message-ttl",
    "expires": "x-expires",
    "max-length": "x-max-length",
    "max-length-bytes": "x-max-length-bytes",
    "delivery-limit": "x-delivery-limit",
    "consumer-timeout": "x-consumer-timeout",
}
"""Where the queue has one itself, the lower one counts."""
_ARGUMENT_FIRST = {
    "dead-letter-exchange": "x-dead-letter-exchange",
    "dead-letter-routing-key": "x-dead-letter-routing-key",
    "dead-letter-strategy": "x-dead-letter-strategy",
    "overflow": "x-overflow",
}
_OF_EXCHANGES = {"alternate-exchange": "alternate-exchange"}
_WITHOUT_MEANING = frozenset(
    (
        "queue-mode", "queue-version", "queue-master-locator", "queue-leader-locator", "ha-mode", "ha-params",
        "ha-sync-mode", "ha-sync-batch-size", "ha-promote-on-shutdown", "ha-promote-on-failure",
        "max-in-memory-length", "max-in-memory-bytes", "target-group-size", "initial-cluster-size",
    )
)  # fmt: skip
"""Where and how RabbitMQ keeps a queue."""
_KINDS = {
    "all": (True, True), "queues": (True, False), "classic_queues": (True, False), "quorum_queues": (True, False),
    "streams": (True, False), "exchanges": (False, True),
}  # fmt: skip


class WithPolicies(NamedTuple):
    """Arguments with those of policies. applied, not_applied: sentences."""

    arguments: Mapping[str, Any]
    applied: list[str]
    not_applied: list[str]


def with_policies(thing: DefinedQueue | DefinedExchange, policies: Iterable[DefinedPolicy]) -> WithPolicies:
    """What holds for it in the old broker."""
    is_queue = isinstance(thing, DefinedQueue)
    holding = [policy for policy in policies if _holds(policy, thing, is_queue)]
    found = WithPolicies(dict(thing.arguments), [], [])
    for is_operator in (False, True):
        mine = [policy for policy in holding if policy.is_operator is is_operator]
        if mine:
            _apply(found, max(mine, key=lambda policy: policy.priority), thing.name, is_queue)
    return found


def _holds(policy: DefinedPolicy, thing: DefinedQueue | DefinedExchange, is_queue: bool) -> bool:
    of_queues, of_exchanges = _KINDS.get(policy.applies_to, (True, True))
    if not (of_queues if is_queue else of_exchanges) or not policy.pattern.search(thing.name):
        return False
    kind = str(thing.arguments.get("x-queue-type", "classic"))
    return {"classic_queues": "classic", "quorum_queues": "quorum", "streams": "stream"}.get(
        policy.applies_to, kind
    ) == kind


def _apply(found: WithPolicies, policy: DefinedPolicy, name: str, is_queue: bool) -> None:
    arguments: Any = found.arguments
    what = f"{'operator ' * policy.is_operator}policy {shown(policy.name)}"
    for key, value in policy.definition.items():
        argument = _LEAST.get(key) or _ARGUMENT_FIRST.get(key) if is_queue else _OF_EXCHANGES.get(key)
        if argument is None:
            if key not in _WITHOUT_MEANING and (key not in _OF_EXCHANGES or not is_queue) and _is_of(key, is_queue):
                found.not_applied.append(f"{key} = {shown(value)} of the {what}")
            continue
        before = arguments.get(argument)
        if before is not None and (key not in _LEAST or not _is_less(value, before)):
            continue
        arguments[argument] = value
        found.applied.append(f"{argument} = {shown(value)}, from the {what}")


def _is_of(key: str, is_queue: bool) -> bool:
    """Whether a key says something of that kind of thing."""
    return is_queue or (key not in _LEAST and key not in _ARGUMENT_FIRST)


def _is_less(value: object, before: object) -> bool:
    return isinstance(value, int) and isinstance(before, int) and value < before
