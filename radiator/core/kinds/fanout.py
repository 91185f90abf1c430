"""`/fanout/NAME`: a copy goes into each of its children."""

from radiator.core.connections import Connection
from radiator.core.kinds.kind import Kind, Subscriber
from radiator.core.logs.log import LOG_PREFIX
from radiator.core.routing.plan import Plan, dedup_id_of_copies
from radiator.core.routing.waiting import Waitable
from radiator.model.addresses import FANOUT
from radiator.model.commands import Send, Subscribe
from radiator.model.errors import Refusal
from radiator.model.headers import FANOUT_MESSAGE_ID, block_of


class FanoutKind(Kind):
    """See above."""

    name = FANOUT

    __slots__ = ()

    def can_delay(self, name: str) -> bool:
        return name not in self.destinations.declarations.cluster_fanouts

    def plan(self, plan: Plan, connection: Connection, command: Send, name: str, headers: bytes, due_ms: int) -> None:
        destinations = self.destinations
        fanout = destinations.all_fanouts.get(name)
        plan.through.append(fanout)
        common = self.context.message_id(self.context.next_position())
        headers += block_of(command.escaping, (FANOUT_MESSAGE_ID, common))
        children = [destinations.target(child) for child in fanout.children]
        self.incoming.put_into(plan, command, headers, children, due_ms)
        if name in destinations.declarations.cluster_fanouts:
            # D19: an entry for each other node, in the batch of the local children
            copy = self.incoming.message(command, command.destination, headers, None)
            dedup_id = dedup_id_of_copies(name, command.dedup_id)
            plan.puts.extend((outbox, copy, dedup_id, 0) for outbox in destinations.copies_to)
            plan.unkept.extend((outbox, copy.size) for outbox in destinations.copies_dropped)

    def subscribe(
        self, subscriber: Subscriber, connection: Connection, command: Subscribe, name: str
    ) -> Waitable | None:
        children = ", ".join(address_of(child) for child in self.destinations.all_fanouts.get(name).children)
        raise Refusal("send-only", f"/fanout/{name} can only be sent to; subscribe to one of its children: {children}.")


def address_of(target: str) -> str:
    """Of a fanout's child, or where a binding leads."""
    return target if target.startswith(LOG_PREFIX) else f"/queue/{target}"
