"""`/exchange/NAME/KEY`: a copy goes into each queue, or log, with a binding that matches the key."""

import json
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice

from radiator.core.connections import Connection
from radiator.core.kinds import unbinding
from radiator.core.kinds.kind import Asked, Kind, Round, Subscriber
from radiator.core.ports import Background, TopologyPort
from radiator.core.producer import Producer
from radiator.core.queues.target import Target
from radiator.core.routing.exchange import Exchange, Tie, ties_of
from radiator.core.routing.exchanges import PrivateQueue
from radiator.core.routing.matcher import Headers
from radiator.core.routing.plan import Plan, no_consumer
from radiator.core.routing.waiting import Waitable
from radiator.model.addresses import EXCHANGE
from radiator.model.administration import DeclareDestination, DeleteDestination, DescribeDestination
from radiator.model.answers import BindingOfExchange, Declared, Deleted, ExchangeDescribed
from radiator.model.commands import Send, Subscribe
from radiator.model.errors import Refusal, count_text
from radiator.model.grounds import ExchangeOtherwise
from radiator.model.limits import DESCRIBED_BINDINGS, STEP_MESSAGES, STEPS_PER_COPY
from radiator.model.numbers import ExchangeNumbers, Rows
from radiator.model.recovery import Recovery
from radiator.model.settings import STANDARD_EXCHANGES, Declarations, ExchangeSettings
from radiator.model.users import maker_of, without_maker
from radiator.model.validation import exchange_settings


class ExchangeKind(Kind):
    """See above."""

    name = EXCHANGE
    can_prepare = True

    __slots__ = ()

    def whole_address(self, address: str) -> str:
        """Returns the address with a key, which may be empty."""
        return address if "/" in address else f"{address}/"

    def can_delay(self, name: str) -> bool:
        return True

    def plan(self, plan: Plan, producer: Producer, command: Send, name: str, headers: bytes, due_ms: int) -> None:
        name, _, key = name.partition("/")
        exchange = self.destinations.exchanges.get(name)
        exchange.check_key(key, for_send=True)
        own = self.destinations.exchanges.private
        if exchange.is_plain and not command.more_keys:
            before = exchange.things.steps
            matching = self.destinations.exchanges.routed(exchange, key)
            plan.steps += exchange.things.steps - before
        else:
            matching = self.reached(plan, exchange, (key, *command.more_keys), Headers(headers, command.escaping))
        queues = [queue for queue in matching if queue not in own]
        copies = [queue for queue in matching if queue in own] if len(queues) < len(matching) else []
        if not matching:
            if command.mandatory and command.returns:
                plan.returned.append(command)
            elif command.mandatory:
                raise Refusal(
                    "no-subscriber", f"{command.destination} matches no binding, and the message is mandatory."
                )
            if command.immediate:
                raise no_consumer(command.destination, "it matches no binding")
            plan.unrouted.append(exchange)
        plan.counted.append(exchange)
        self.incoming.put_into(plan, command, headers, queues, due_ms)
        if copies:
            message = command.message(headers, self.context.now_ms, None)
            plan.copies.extend((queue, message, due_ms) for queue in copies)
        if command.immediate:
            plan.immediate.update(dict.fromkeys(copies, command.destination))

    def reached(self, plan: Plan, exchange: Exchange, keys: tuple[str, ...], headers: Headers) -> list[Target]:
        """Returns the queues that a message reaches from an exchange that leads on, or with several keys."""
        if exchange.settings.internal:
            raise Refusal(
                "reserved", f"{exchange.address} is internal: only other exchanges and dead letters come to it."
            )
        for key in keys[1:]:
            exchange.check_key(key, for_send=True)
        ways = self.destinations.exchanges.ways(exchange, keys, headers)
        plan.steps += ways.steps + len(ways.visited) * STEPS_PER_COPY
        return [*ways.targets]

    def subscribe(
        self, subscriber: Subscriber, connection: Connection, command: Subscribe, name: str
    ) -> Waitable | None:
        """Subscribes with a queue of its own: in memory or, for a durable subscription, on the disk."""
        exchange, _, pattern = name.partition("/")
        exchanges = self.destinations.exchanges
        pattern = exchanges.get(exchange).bound_key(pattern)
        if command.durable:
            if not exchanges.get(exchange).durable:
                raise Refusal(
                    "declared-otherwise", f"/exchange/{exchange} is not durable, so it has no durable subscriptions."
                )
            subscriber.consume_durably(connection, command, self.name, name, (exchange, pattern))
            return None
        queue = exchanges.make_private(exchange, pattern)
        subscription = subscriber.consume(connection, command, queue)
        exchanges.private[queue] = PrivateQueue(queue, subscription)
        subscriber.receipt(connection, command)
        queue.join(subscription)
        return None

    # ---- its destinations -------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        return len(self.destinations.exchanges.all) - len(STANDARD_EXCHANGES)

    def names(self) -> Iterable[str]:
        return self.destinations.exchanges.all

    def numbers(self, port: TopologyPort, name: str) -> ExchangeNumbers | None:
        exchange = self.destinations.exchanges.all.get(name)
        if exchange is None:
            return None
        return ExchangeNumbers(
            exchange.type,
            exchange.durable,
            exchange.auto_delete,
            exchange.accepted,
            exchange.unrouted,
            exchange.bindings_count,
        )

    def recover(self, recovery: Recovery) -> None:
        for row in recovery.declared:
            if row.kind == self.name:
                kept = json.loads(row.text)
                settings = exchange_settings(without_maker(kept))
                self.destinations.exchanges.recover_exchange(row.name, settings, maker_of(kept))

    def contradictions(self, new: Declarations) -> Iterable[str]:
        for name, declared in new.exchanges.items():
            exchange = self.destinations.exchanges.all.get(name)
            if exchange is not None and exchange.settings != declared:
                yield (
                    f"/exchange/{name} exists with other settings than the file declares, and they need a restart. "
                    "Remove it from the file until then, or delete the exchange first."
                )

    def use(self, old: Declarations, new: Declarations) -> None:
        exchanges = self.destinations.exchanges
        for name in old.exchanges:
            if name not in new.exchanges:
                exchanges.undeclare(name)
        for name, settings in new.exchanges.items():
            exchanges.adopt(name, settings)

    def tick(self, background: Background) -> None:
        self.destinations.exchanges.drop_abandoned()

    def looks(self, round_: Round) -> Iterator[int]:
        for own in [*self.destinations.exchanges.private.values()]:
            yield from round_.watch(own.queue)

    def make(self, name: str, settings: ExchangeSettings) -> bool:
        """Makes an exchange; returns whether it is new. Raises Refusal `declared-otherwise` where it exists with other
        settings.
        """
        exchanges = self.destinations.exchanges
        found = exchanges.all.get(name)
        if found is not None:
            if found.settings != settings:
                raise Refusal.on(ExchangeOtherwise(name, found.settings, settings))
            return False
        exchanges.check_name(name)
        self.destinations.check_count()
        exchanges.add(name, settings)
        return True

    # ---- requests of operators --------------------------------------------------------------------------------------

    def declare(self, request: Asked, command: DeclareDestination) -> None:
        exchanges, name = self.destinations.exchanges, command.name
        there = exchanges.get(name) if command.passive else exchanges.all.get(name)
        settings = exchange_settings(command.settings, ExchangeSettings() if there is None else there.settings)
        created = self.make(name, settings)
        if created:
            self.context.note("info", "declared", exchange=name, type=settings.type)
        request.answer_synced(lambda: Declared(created))

    def describe(self, request: Asked, command: DescribeDestination) -> None:
        """Answers with its settings, numbers and bindings, those to private queues of subscriptions among them."""
        exchange = self.destinations.exchanges.get(command.name)

        def described() -> ExchangeDescribed:
            first: list[tuple[str, Target | Exchange]] = [*islice(exchange.onward_bindings, DESCRIBED_BINDINGS)]
            first += islice(exchange.bindings, DESCRIBED_BINDINGS - len(first))
            return ExchangeDescribed(
                type=exchange.type,
                durable=exchange.durable,
                auto_delete=exchange.auto_delete,
                alternate=exchange.settings.alternate,
                internal=exchange.settings.internal,
                accepted=exchange.accepted,
                unrouted=exchange.unrouted,
                bindings=Rows(BindingOfExchange(key, _named(to)) for key, to in first),
                bindings_count=exchange.bindings_count,
            )

        request.answer_synced(described, in_slices=True)

    def delete(self, request: Asked, command: DeleteDestination) -> None:
        """Deletes the exchange with its bindings. if_unbound: only without any."""
        exchanges, name = self.destinations.exchanges, command.name
        exchange = exchanges.get(name)
        if command.if_unbound and exchange.bindings_count:
            have = count_text(exchange.bindings_count, "binding")
            raise Refusal("in-use", f"/exchange/{name} has {have}: take them off first.")

        def ties() -> list[Tie]:
            return [*islice(ties_of(exchange), STEP_MESSAGES + 1)]  # as many as are looked at before others come

        again = partial(self.delete, request, command)
        if not exchange.is_declared and unbinding.begins(request, ties, exchanges.untie, again):
            return
        exchanges.delete(name)
        self.context.note("info", "deleted", exchange=name)
        request.answer_synced(lambda: Deleted(1))


def _named(to: Target | Exchange) -> str:
    """Returns a binding's target as it is written."""
    return to.address if isinstance(to, Exchange) else to.name
