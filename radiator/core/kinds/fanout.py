"""`/fanout/NAME`: a copy goes into each of its children."""

import json
from collections.abc import Iterable

from radiator.core.connections import Connection
from radiator.core.kinds.kind import Asked, Kind, Subscriber
from radiator.core.kinds.queue import may_be_named
from radiator.core.logs.log import LOG_PREFIX
from radiator.core.ports import TopologyPort
from radiator.core.producer import Producer
from radiator.core.routing.plan import Plan, dedup_id_of_copies
from radiator.core.routing.waiting import Waitable
from radiator.model.addresses import FANOUT
from radiator.model.administration import DeclareDestination, DeleteDestination, DescribeDestination
from radiator.model.answers import Declared, Deleted, FanoutDescribed
from radiator.model.commands import Send, Subscribe
from radiator.model.errors import Refusal
from radiator.model.headers import FANOUT_MESSAGE_ID, block_of
from radiator.model.numbers import FanoutNumbers, Rows
from radiator.model.patterns import is_pattern, name_mistake
from radiator.model.recovery import Recovery
from radiator.model.settings import Declarations
from radiator.model.users import maker_of, without_maker
from radiator.model.validation import fanout_children, mistake


class FanoutKind(Kind):
    """See above."""

    name = FANOUT
    can_prepare = True

    __slots__ = ()

    def can_delay(self, name: str) -> bool:
        return name not in self.destinations.declarations.cluster_fanouts

    def plan(self, plan: Plan, producer: Producer, command: Send, name: str, headers: bytes, due_ms: int) -> None:
        destinations = self.destinations
        fanout = destinations.fanouts.get(name)
        plan.counted.append(fanout)
        common = self.context.message_id(self.context.next_position())
        headers += block_of(command.escaping, (FANOUT_MESSAGE_ID, common))
        children = [destinations.target(child) for child in fanout.children]
        self.incoming.put_into(plan, command, headers, children, due_ms)
        if name in destinations.declarations.cluster_fanouts:
            # D19: an entry for each other node, in the batch of the local children
            copy = command.message(headers, self.context.now_ms, None)
            dedup_id = dedup_id_of_copies(name, command.dedup_id)
            plan.puts.extend((outbox, copy, dedup_id, 0) for outbox in destinations.copies_to)
            plan.unkept.extend((outbox, copy.size) for outbox in destinations.copies_dropped)

    def subscribe(
        self, subscriber: Subscriber, connection: Connection, command: Subscribe, name: str
    ) -> Waitable | None:
        children = ", ".join(address_of(child) for child in self.destinations.fanouts.get(name).children)
        raise Refusal("send-only", f"/fanout/{name} can only be sent to; subscribe to one of its children: {children}.")

    # ---- its destinations -------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        return len(self.destinations.fanouts.all)

    def names(self) -> Iterable[str]:
        return self.destinations.fanouts.all

    def numbers(self, port: TopologyPort, name: str) -> FanoutNumbers | None:
        fanout = self.destinations.fanouts.all.get(name)
        return None if fanout is None else FanoutNumbers(tuple(fanout.children), fanout.accepted)

    def recover(self, recovery: Recovery) -> None:
        for row in recovery.declared:
            if row.kind == self.name:
                kept = json.loads(row.text)
                children = fanout_children(without_maker(kept))
                self.destinations.fanouts.recover(row.name, children, maker_of(kept))

    def use(self, old: Declarations, new: Declarations) -> None:
        self.destinations.fanouts.use(old.fanouts.keys(), new.fanouts)

    def make(self, name: str, children: tuple[str, ...]) -> bool:
        """Makes a fanout, and those of its children that do not exist. Returns whether it is new. Raises Refusal
        `declared-otherwise` where it exists with other children.
        """
        destinations = self.destinations
        found = destinations.fanouts.all.get(name)
        if found is not None:
            if set(found.children) != set(children):
                there = ", ".join(found.children)
                raise Refusal("declared-otherwise", f"/fanout/{name} already exists, with the children {there}.")
            return False
        wrong = "has a wildcard" if is_pattern(name) else name_mistake(name)
        if wrong:
            raise Refusal("bad-request", f"{name!r:.80} is not a valid name for a fanout: it {wrong}.")
        for child in children:
            if child.startswith(LOG_PREFIX):
                destinations.bindable(child)
            else:
                destinations.queues.check_name(child)
        queues = [child for child in children if not child.startswith(LOG_PREFIX)]
        destinations.check_count(1 + sum(child not in destinations.queues.all for child in queues))
        for child in children:
            destinations.target(child)
        destinations.fanouts.add(name, children)
        return True

    # ---- requests of operators --------------------------------------------------------------------------------------

    def declare(self, request: Asked, command: DeclareDestination) -> None:
        fanouts, name, given = self.destinations.fanouts, command.name, command.settings
        there = fanouts.get(name) if command.passive else fanouts.all.get(name)
        children = fanout_children(given if given or there is None else {"children": there.children})
        if there is None:
            for child in children:
                self.check_child(child, command.create)
                self.destinations.check_owner(child, request.connection)
        created = self.make(name, children)
        if created:
            self.context.note("info", "declared", fanout=name)
        request.answer_synced(lambda: Declared(created))

    def check_child(self, child: str, may_create: bool) -> None:
        """Raises Refusal where a fanout may not have that child."""
        destinations, is_log = self.destinations, child.startswith(LOG_PREFIX)
        if not is_log and not may_create:
            destinations.existing_queue(child)
        is_there = (
            child.removeprefix(LOG_PREFIX) in destinations.logs.all if is_log else may_be_named(destinations, child)
        )
        if not is_there:
            raise mistake(
                "children", f"names {child!r}, which is not a {'log' if is_log else 'queue'}; declare it first"
            )

    def describe(self, request: Asked, command: DescribeDestination) -> None:
        """Answers with its children, and how much was sent to it."""
        destinations = self.destinations
        fanout = destinations.fanouts.get(command.name)
        is_shared = fanout.name in destinations.declarations.cluster_fanouts
        outboxes = sorted(queue.name for queue in (*destinations.copies_to, *destinations.copies_dropped) if is_shared)
        request.answer_synced(
            lambda: FanoutDescribed(Rows(iter(fanout.children)), outboxes, fanout.accepted), in_slices=True
        )

    def delete(self, request: Asked, command: DeleteDestination) -> None:
        """Deletes the fanout; its children stay."""
        self.destinations.fanouts.delete(command.name)
        self.context.note("info", "deleted", fanout=command.name)
        request.answer_synced(lambda: Deleted(1))


def address_of(target: str) -> str:
    """Returns the address of a fanout's child, or of what a binding leads to."""
    return target if target.startswith(LOG_PREFIX) else f"/queue/{target}"
