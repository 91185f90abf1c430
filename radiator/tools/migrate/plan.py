"""Plans what is to be done, before anything is: what is declared, what is moved, what is left, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from radiator.model import validation
from radiator.model.checks import shown
from radiator.model.errors import Refusal, Violation
from radiator.model.settings import QueueSettings
from radiator.model.validation import exchange_name_mistake, queue_name
from radiator.protocols.amqp.arguments import exchange_settings, queue_settings, settings_if_new
from radiator.tools.migrate.definitions import DefinedBinding, DefinedExchange, DefinedQueue, Definitions
from radiator.tools.migrate.policies import with_policies

RESERVED = "amq."


@dataclass(slots=True)
class MigrationPlan:
    """queues: those whose messages are moved; exchanges and bindings: what is declared before. names: of queues of
    which nothing but the name is known: they must be there already. left: what is not migrated, a name and why.
    applied: what policies say, and the queues have now as arguments; by_policy: those queues. lost: what policies say,
    and nothing here can.
    others: a sentence for each kind of thing that is not migrated.
    """

    queues: list[DefinedQueue] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    exchanges: list[DefinedExchange] = field(default_factory=list)
    bindings: list[DefinedBinding] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    applied: list[tuple[str, str]] = field(default_factory=list)
    by_policy: list[DefinedQueue] = field(default_factory=list)
    lost: list[tuple[str, str]] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def leave(self, what: str, why: str) -> None:
        """Notes that one of them is not migrated."""
        self.left.append((what, why))

    @property
    def to_move(self) -> list[tuple[str, bool]]:
        """Names of queues, and whether a consumer does no harm to each in the old broker."""
        known = [(queue.name, not queue.auto_delete) for queue in self.queues]
        return known + [(name, False) for name in self.names]


def queue_title(name: str) -> str:
    """Returns how a list calls it."""
    return f"queue {shown(name)}"


def exchange_title(name: str) -> str:
    """Returns how a list calls it."""
    return f"exchange {shown(name)}"


def plan_of(definitions: Definitions | None, names: Sequence[str]) -> MigrationPlan:
    """Makes the plan. names: of the queues that are wanted; none: all of the definitions."""
    plan = MigrationPlan()
    if definitions is None:
        plan.names = list(dict.fromkeys(names))
        return plan
    plan.others = definitions.others
    _plan_exchanges(plan, definitions)
    there = {queue.name for queue in definitions.queues}
    plan.names = [name for name in dict.fromkeys(names) if name not in there]
    for queue in definitions.queues:
        if not names or queue.name in names:
            _plan_queue(plan, queue, definitions)
    _plan_bindings(plan, definitions)
    return plan


def _plan_exchanges(plan: MigrationPlan, definitions: Definitions) -> None:
    for exchange in definitions.exchanges:
        if not exchange.name or exchange.name.startswith(RESERVED):
            continue  # each broker has its own
        title = exchange_title(exchange.name)
        mistake = exchange_name_mistake(exchange.name)

        def check(arguments: Mapping[str, Any], one: DefinedExchange = exchange) -> None:
            given = exchange_settings(one.type, one.durable, one.auto_delete, one.internal, arguments)
            validation.exchange_settings(given)

        try:
            if mistake:
                raise Violation(f"its name {mistake}")
            check(exchange.arguments)
        except (Refusal, Violation) as refused:
            plan.leave(title, str(refused))
            continue
        found = with_policies(exchange, definitions.policies, check)
        _note_policies(plan, title, found.applied, found.not_applied)
        plan.exchanges.append(exchange._replace(arguments=found.arguments))


def _plan_queue(plan: MigrationPlan, queue: DefinedQueue, definitions: Definitions) -> None:
    title = queue_title(queue.name)

    def check(arguments: Mapping[str, Any]) -> None:
        given = queue_settings(arguments, queue.durable, queue.auto_delete)
        validation.queue_settings(settings_if_new(given) | given, QueueSettings())

    try:
        if queue.name.startswith(RESERVED):
            raise Violation(f"its name begins with {RESERVED}, which its own broker has given it")
        queue_name(queue.name)
        check(queue.arguments)
        found = with_policies(queue, definitions.policies, check)
    except (ValueError, Refusal, Violation) as refused:
        plan.leave(title, f"{str(refused).rstrip('.')}. Declare one that will do, then --queue moves its messages")
        return
    _note_policies(plan, title, found.applied, found.not_applied)
    plan.queues.append(queue._replace(arguments=found.arguments))
    if found.applied:
        plan.by_policy.append(plan.queues[-1])


def _note_policies(plan: MigrationPlan, title: str, applied: list[str], lost: list[str]) -> None:
    plan.applied += [(title, sentence) for sentence in applied]
    plan.lost += [(title, sentence) for sentence in lost]


def _plan_bindings(plan: MigrationPlan, definitions: Definitions) -> None:
    queues = {queue.name for queue in plan.queues}
    wanted = {queue.name for queue in definitions.queues} & queues
    exchanges = {exchange.name for exchange in plan.exchanges}
    left = {title for title, _ in plan.left}
    for binding in definitions.bindings:
        if not binding.source:
            continue  # of the default exchange, which has them by itself
        if binding.is_queue and binding.destination not in wanted:
            if queue_title(binding.destination) not in left:
                continue  # it is not asked for
            plan.leave(binding_title(binding), "its queue is left")
        elif not _is_there(binding.source, exchanges):
            plan.leave(binding_title(binding), "its exchange is left")
        elif not binding.is_queue and not _is_there(binding.destination, exchanges):
            plan.leave(binding_title(binding), "the exchange that it leads to is left")
        else:
            plan.bindings.append(binding)


def _is_there(exchange: str, exchanges: set[str]) -> bool:
    return exchange in exchanges or exchange.startswith(RESERVED)


def binding_title(binding: DefinedBinding) -> str:
    """Returns how a list calls it."""
    where = queue_title(binding.destination) if binding.is_queue else exchange_title(binding.destination)
    return f"binding {shown(binding.routing_key)} of {exchange_title(binding.source)} to {where}"


def as_json(plan: MigrationPlan) -> dict[str, Any]:
    """Returns the plan as JSON, for programs."""

    def rows(pairs: list[tuple[str, str]]) -> list[dict[str, str]]:
        return [{"what": what, "why": why} for what, why in pairs]

    return {
        "exchanges": len(plan.exchanges),
        "bindings": len(plan.bindings),
        "not_taken": rows(plan.left),
        "applied": rows(plan.applied),
        "lost": rows(plan.lost),
        "others": plan.others,
    }
