"""The whole of it: both brokers, what is declared in the new one, and one queue after the other."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from radiator.model.errors import RadiatorError, Violation, count_text
from radiator.protocols.amqp.codec import encode_method
from radiator.protocols.amqp.methods import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from radiator.protocols.amqp.spec import NOT_FOUND
from radiator.tools.migrate.link import CONTROL, AmqpLink, AmqpRefused
from radiator.tools.migrate.plan import MigrationPlan, binding_title, exchange_title, queue_title
from radiator.tools.migrate.queue_move import REFUSALS, QueueMove, QueueMoved
from radiator.tools.migrate.wire import WireLost

PASSES_MAX = 3
"""How often a queue that has messages again is begun: those that died in another queue of the old broker come late."""
FOLLOW_S = 0.2
INTERRUPTED = "It was interrupted."


@dataclass(slots=True, frozen=True)
class MigrationWishes:
    """window: messages on their way of a queue. is_following: goes on until it is stopped. is_stopping: whether it is.
    note: called with a sentence to be read now. progress: a queue, and how many it had.
    """

    window: int
    is_following: bool
    is_stopping: Callable[[], bool]
    note: Callable[[str], None]
    progress: Callable[[QueueMoved, int], None]


class Migration:
    """Call `check`, `declare`, `move`, in this order; after it `moved` is what has become of each queue, by name, and
    `lost` why it has ended early, or "".
    """

    def __init__(self, old: AmqpLink, new: AmqpLink, plan: MigrationPlan, wishes: MigrationWishes) -> None:
        self._old, self._new, self._plan, self._wishes = old, new, plan, wishes
        self.moved: dict[str, QueueMoved] = {}
        self.lost = ""
        self._consumers_noted: set[str] = set()
        self._blocked = ""
        self._sender: str | None = None

    def check(self) -> None:
        """Raises RadiatorError where both are one broker: it would give its messages to itself, without an end."""
        try:
            name = self._old.ask(CONTROL, QueueDeclare(exclusive=True, auto_delete=True), QueueDeclareOk).queue
        except AmqpRefused:
            return  # a user who may only read there cannot ask this
        try:
            self._new.count(name)
            is_same = True
        except AmqpRefused as refused:
            is_same = refused.code != NOT_FOUND
        self._old.ask(CONTROL, QueueDelete(queue=name), QueueDeleteOk)
        if is_same:
            raise RadiatorError(f"{self._old.place} and {self._new.place} are the same broker: nothing was moved.")

    def ready(self) -> dict[str, int | str]:
        """Returns how many messages of each queue are ready in the old broker; a sentence where that cannot be
        known.
        """
        found: dict[str, int | str] = {}
        for name, _ in self._plan.to_move:
            try:
                found[name] = self._old.count(name).message_count
            except AmqpRefused as refused:
                found[name] = str(refused)
        return found

    # ---- what the new broker has

    def declare(self) -> None:
        """Declares exchanges, then queues, then bindings. What is refused is left, and so is what needs it."""
        plan = self._plan
        for exchange in tuple(plan.exchanges):
            flags = {"durable": exchange.durable, "auto_delete": exchange.auto_delete, "internal": exchange.internal}
            wanted = ExchangeDeclare(exchange=exchange.name, type=exchange.type, arguments=exchange.arguments, **flags)
            if not self._is_taken(exchange_title(exchange.name), wanted, ExchangeDeclareOk):
                plan.exchanges.remove(exchange)
        for queue in tuple(plan.queues):
            flags = {"durable": queue.durable, "auto_delete": queue.auto_delete}
            declare = QueueDeclare(queue=queue.name, arguments=queue.arguments, **flags)
            if not self._is_taken(queue_title(queue.name), declare, QueueDeclareOk):
                plan.queues.remove(queue)
        for name in tuple(plan.names):
            if not self._is_taken(queue_title(name), QueueDeclare(queue=name, passive=True), QueueDeclareOk):
                plan.names.remove(name)
        for binding in tuple(plan.bindings):
            key, arguments = binding.routing_key, binding.arguments
            source, target = binding.source, binding.destination
            bind: Method = QueueBind(queue=target, exchange=source, routing_key=key, arguments=arguments)
            if not binding.is_queue:
                bind = ExchangeBind(destination=target, source=source, routing_key=key, arguments=arguments)
            if not self._is_taken(binding_title(binding), bind, QueueBindOk if binding.is_queue else ExchangeBindOk):
                plan.bindings.remove(binding)

    def _is_taken(self, title: str, method: Method, answer: type[Method]) -> bool:
        try:
            encode_method(CONTROL, method)
            self._new.ask(CONTROL, method, answer)
        except (AmqpRefused, Violation) as refused:
            self._plan.leave(title, str(refused))
            return False
        except WireLost:
            if self._new.closed_for not in REFUSALS:
                raise
            self._plan.leave(title, self._new.closed_why)
            self._new.reconnect()
            return False
        return True

    # ---- the messages

    def move(self) -> None:
        """Moves all that is there; with `is_following`, also all that comes."""
        self._sender = self._new.user if self._new.takes_user_id() else None
        self.moved = {name: QueueMoved(name) for name, _ in self._plan.to_move}
        try:
            number = 0
            while not self._wishes.is_stopping() and (self._wishes.is_following or number < PASSES_MAX):
                if not self._pass() and not self._wishes.is_following:
                    break
                number += 1
                if self._wishes.is_following:
                    time.sleep(FOLLOW_S)
        except WireLost as lost:
            self.lost = str(lost)
        for moved in self.moved.values():
            moved.why = moved.why or self._why_left(moved)

    def _why_left(self, moved: QueueMoved) -> str:
        if self.lost and (moved.left is None or moved.left):
            return "A connection was lost."
        if not moved.left:
            return ""
        if moved.refused:
            return "The new broker has refused some, one by one."
        return INTERRUPTED if self._wishes.is_stopping() else "More came meanwhile: --follow goes on with what comes."

    def _pass(self) -> bool:
        """Goes through all queues once. Returns whether one had something."""
        had = False
        for name, is_consumed in self._plan.to_move:
            moved = self.moved[name]
            if moved.why or moved.refused or self._wishes.is_stopping():
                continue
            try:
                found = self._old.count(name)
            except AmqpRefused as refused:
                moved.why = str(refused)
                continue
            moved.left = found.message_count
            if found.consumer_count and name not in self._consumers_noted:
                self._consumers_noted.add(name)
                many = count_text(found.consumer_count, "consumer")
                self._wishes.note(
                    f"{queue_title(name)} has {many} in the old broker: messages go to these too, and what they hold "
                    "unacked is not seen."
                )
            if found.message_count:
                had = True
                self._move_one(moved, found.message_count, is_consumed)
        return had

    def _move_one(self, moved: QueueMoved, ready: int, is_consumed: bool) -> None:
        whole = moved.moved + ready

        def progress(state: QueueMoved) -> None:
            if self._new.blocked and self._new.blocked != self._blocked:
                self._wishes.note(f"The new broker takes no messages now, and is waited for: {self._new.blocked}")
            self._blocked = self._new.blocked
            self._wishes.progress(state, whole)

        move = QueueMove(
            self._old,
            self._new,
            moved,
            window=self._wishes.window,
            is_consumed=is_consumed,
            sender=self._sender,
            is_stopping=self._wishes.is_stopping,
            progress=progress,
        )
        move.run()
