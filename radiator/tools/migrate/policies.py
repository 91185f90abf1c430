"""Policies of RabbitMQ as arguments of the queues and exchanges that they hold for: otherwise a time to live, or a
dead-letter exchange, that is only in a policy would be lost without notice.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from radiator.model.checks import shown
from radiator.model.errors import Refusal, Violation
from radiator.tools.migrate.definitions import DefinedExchange, DefinedPolicy, DefinedQueue, as_rabbitmq_matches

_LEAST = {
    "message-ttl": "x-message-ttl",
    "expires": "x-expires",
    "max-length": "x-max-length",
    "max-length-bytes": "x-max-length-bytes",
    "delivery-limit": "x-delivery-limit",
    "consumer-timeout": "x-consumer-timeout",
}
"""Where the queue has one itself, the lower one counts."""
_FIRST_COMES_FIRST = {
    "dead-letter-exchange": "x-dead-letter-exchange",
    "dead-letter-routing-key": "x-dead-letter-routing-key",
    "dead-letter-strategy": "x-dead-letter-strategy",
    "overflow": "x-overflow",
}
"""Where the queue has one itself, that one counts. Those that others need come first."""
_WAYS_OF_DEAD_LETTERS = ("dead-letter-exchange", "dead-letter-routing-key")
_OF_EXCHANGES = {"alternate-exchange": "alternate-exchange"}
_OF_QUEUES = {*_LEAST, *_FIRST_COMES_FIRST}
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


CheckArguments = Callable[[Mapping[str, Any]], object]


class WithPolicies(NamedTuple):
    """Arguments with those of policies. applied, not_applied: sentences."""

    arguments: Mapping[str, Any]
    applied: list[str]
    not_applied: list[str]


def with_policies(
    thing: DefinedQueue | DefinedExchange, policies: Iterable[DefinedPolicy], check: CheckArguments
) -> WithPolicies:
    """Returns what holds for it in the old broker. check: raises Refusal or Violation where the new broker takes no
    such arguments. Raises Violation where dead letters would go elsewhere than in the old broker, or nowhere.
    """
    is_queue = isinstance(thing, DefinedQueue)
    holding = [policy for policy in policies if _holds(policy, thing, is_queue)]
    found = WithPolicies(dict(thing.arguments), [], [])
    for is_operator in (False, True):
        mine = [policy for policy in holding if policy.is_operator is is_operator]
        if mine:
            _apply(found, max(mine, key=lambda policy: policy.priority), is_queue, check)
    return found


def _holds(policy: DefinedPolicy, thing: DefinedQueue | DefinedExchange, is_queue: bool) -> bool:
    of_queues, of_exchanges = _KINDS.get(policy.applies_to, (True, True))
    if not (of_queues if is_queue else of_exchanges) or not policy.pattern.search(as_rabbitmq_matches(thing.name)):
        return False
    kind = str(thing.arguments.get("x-queue-type", "classic"))
    return {"classic_queues": "classic", "quorum_queues": "quorum", "streams": "stream"}.get(
        policy.applies_to, kind
    ) == kind


def _apply(found: WithPolicies, policy: DefinedPolicy, is_queue: bool, check: CheckArguments) -> None:
    arguments: Any = found.arguments
    what = f"{'operator ' * policy.is_operator}policy {shown(policy.name)}"
    known = {**_FIRST_COMES_FIRST, **_LEAST} if is_queue else _OF_EXCHANGES
    is_limited = arguments.get("x-queue-type") == "quorum"  # RabbitMQ limits no deliveries of other queues
    for key, argument in known.items():
        if key not in policy.definition or (key == "delivery-limit" and not is_limited):
            continue
        value, before = policy.definition[key], arguments.get(argument)
        if before is not None and (key not in _LEAST or not _is_less(value, before)):
            continue
        try:
            check({**arguments, argument: value})
        except (Refusal, Violation) as refused:
            sentence = f"{key} = {shown(value)} of the {what}: {refused}"
            if key in _WAYS_OF_DEAD_LETTERS and "x-dead-letter-exchange" in (argument, *arguments):
                raise Violation(sentence) from None
            found.not_applied.append(sentence)
        else:
            arguments[argument] = value
            found.applied.append(f"{argument} = {shown(value)}, from the {what}")
    without_effect = {*known, *_WITHOUT_MEANING, *(_OF_EXCHANGES if is_queue else _OF_QUEUES)}
    for key, value in policy.definition.items():
        if key not in without_effect:
            found.not_applied.append(f"{key} = {shown(value)} of the {what}")


def _is_less(value: object, before: object) -> bool:
    return isinstance(value, int) and isinstance(before, int) and value < before
