"""Carries out ACK and NACK, and acks `auto` messages as they are written."""

from collections import deque
from collections.abc import Callable, Collection
from itertools import islice

from radiator.core.connections import Connection, ConsumedQueue, Delivery
from radiator.core.deliveries import bytes_stored_anew, named_by, needs_bytes, settle, settle_in_turn
from radiator.core.reading import Reading, one_slice
from radiator.core.routing.waiting import FLUSH, REST, Waitable, WaitList
from radiator.core.states import Event
from radiator.core.transactions.transactions import Transactions
from radiator.core.turn import TurnContext
from radiator.model.commands import Ack, Nack
from radiator.model.errors import Refusal
from radiator.model.limits import ACKED_PER_BATCH, COMMANDS_PER_TURN, SETTLED_PER_TRANSACTION, STEP_MESSAGES
from radiator.model.replies import MESSAGE_COST_BYTES


class Acks:
    """on_left: called with a queue that may have lost its last consumer, or its last unacked message. read_back: asks
    for the bytes of deliveries whose bytes are only on the disk; returns what the command must wait for.
    batch_wait_list: where ACKs wait while the open batch is full. begun: for each connection, the command under way
    that settles several, and the deliveries that are left. turn_left: how many messages such commands may still settle
    in this turn.
    """

    __slots__ = (
        "batch_wait_list", "begun", "context", "on_left", "read_back", "transactions", "turn_left", "turn_number",
    )  # fmt: skip

    def __init__(
        self,
        context: TurnContext,
        transactions: Transactions,
        on_left: Callable[[ConsumedQueue], None],
        read_back: Callable[[list[Delivery]], Reading],
    ) -> None:
        self.context = context
        self.transactions = transactions
        self.on_left = on_left
        self.read_back = read_back
        self.batch_wait_list = WaitList("acks", is_timed=False)
        self.begun: dict[Connection, tuple[Ack | Nack, deque[Delivery]]] = {}
        self.turn_number = self.turn_left = 0

    def ack(self, connection: Connection, command: Ack | Nack) -> Waitable | None:
        """Carries out the command, or keeps it for its COMMIT. Returns what it must wait for. Raises Refusal."""
        if command.transaction is not None:
            self.ack_in_transaction(connection, command, command.transaction)
            return None
        left = ACKED_PER_BATCH - len(self.context.open.writes)
        if left <= 0:
            return self.batch_wait_list
        begun = self.begun.get(connection) if self.begun else None
        is_sliced = begun is not None and begun[0] is command
        if begun is None or not is_sliced:
            named = named_by(connection, command, self.context.store_id)
            if len(named) <= 1:
                if named and type(command) is Nack:
                    if self.context.settled_cost >= COMMANDS_PER_TURN:
                        return FLUSH
                    if needs_bytes(command, named[0]):
                        return self.read_back(named)
                queues: dict[ConsumedQueue, None] = {}
                for delivery in named:
                    settle_in(queues, command, delivery)
                self.settle_last(connection, command, queues)
                return None
            begun = command, deque(named)
        waitable = self.ack_several(connection, command, begun[1], left, is_sliced)
        if waitable is None:
            self.begun.pop(connection, None)
        else:
            self.begun[connection] = begun
        return waitable

    def ack_several(
        self, connection: Connection, command: Ack | Nack, deliveries: deque[Delivery], left: int, is_sliced: bool
    ) -> Waitable | None:
        """Settles the next slice of the deliveries: as many as the turn has time for. Skips those that were returned
        since the command began. Returns what the rest waits for; the RECEIPT comes with the last slice.
        """
        context = self.context
        if self.turn_number != context.turn_number:
            self.turn_number, self.turn_left = context.turn_number, COMMANDS_PER_TURN
        at_once = min(left, self.turn_left)
        queues: dict[ConsumedQueue, None] = {}
        count, is_lacking = 0, False
        while deliveries and count < at_once and context.settled_cost < COMMANDS_PER_TURN:
            delivery = deliveries[0]
            if connection.unacked.get(delivery.message_id) is delivery:
                is_lacking = needs_bytes(command, delivery)
                if is_lacking:
                    break
                settle_in(queues, command, delivery)
                count += 1
            deliveries.popleft()
        self.turn_left -= count
        if not deliveries:
            self.settle_last(connection, command, queues, is_sliced)
            return None
        for queue in queues:
            queue.pump()
        if is_lacking:
            return self.read_back(
                one_slice([one for one in islice(deliveries, STEP_MESSAGES) if needs_bytes(command, one)])
            )
        if count == left:
            return self.batch_wait_list
        return REST if count else FLUSH

    def settle_last(
        self,
        connection: Connection,
        command: Ack | Nack,
        queues: Collection[ConsumedQueue],
        is_sliced: bool = False,
    ) -> None:
        """Called when all deliveries are settled, the last in these queues; is_sliced: earlier ones in any queue."""
        if command.receipt is not None:
            # D4: its Remove or Count is in the same batch
            is_persistent = is_sliced or any(queue.is_persistent for queue in queues)
            connection.receipt(self.context, command.receipt, is_persistent)
        connection.offer()
        for queue in queues:
            queue.pump()
            if queue.settings.auto_delete:
                self.on_left(queue)

    def ack_in_transaction(self, connection: Connection, command: Ack | Nack, name: bytes) -> None:
        transaction = self.transactions.open(connection, name)
        deliveries = named_by(connection, command, self.context.store_id)
        if transaction.settled + len(deliveries) > SETTLED_PER_TRANSACTION:
            count = transaction.settled + len(deliveries)
            raise Refusal(
                "too-large",
                f"{count} messages would be acked in the transaction: one has at most {SETTLED_PER_TRANSACTION}.",
            )
        for delivery in deliveries:
            delivery.transaction = name
        transaction.settled += len(deliveries)
        transaction.settlements.append((command, deliveries))
        size = sum(bytes_stored_anew(command, delivery) for delivery in deliveries)
        self.transactions.grow(connection, transaction, MESSAGE_COST_BYTES * (1 + len(deliveries)) + size)
        connection.receipt(self.context, command.receipt)

    def written(self, connection: Connection, delivers: int) -> None:
        """Called when the operating system has taken that many deliveries in all. Each `auto` one is acked once its
        last byte is taken.
        """
        count = delivers - connection.written
        written = connection.unwritten[:count]
        del connection.unwritten[:count]
        for size, delivery in written:
            connection.written += 1
            connection.outbox_bytes -= size
            if delivery is not None and delivery.is_out:
                delivery.leave_window()
                queue = delivery.subscription.queue
                queue.ack(delivery, Event.WRITTEN)
                if delivery.subscription.is_over:
                    queue.pump()  # the next consumer may have waited for this: single_consumer.py
                self.on_left(queue)


def settle_in(queues: dict[ConsumedQueue, None], command: Ack | Nack, delivery: Delivery) -> None:
    """Settles a delivery by this command, and adds its queue to `queues`."""
    delivery.leave_window()
    if type(command) is Ack:
        settle(command, delivery)
    else:
        settle_in_turn(command, delivery)
    queues[delivery.subscription.queue] = None
