"""ACK and NACK, and `auto` messages that are acked as they are written."""

from collections.abc import Callable
from itertools import takewhile

from radiator.core.connections import Connection, ConsumedQueue, Delivery
from radiator.core.deliveries import bytes_stored_anew, named_by, needs_bytes, settle
from radiator.core.reading import Reading, one_slice
from radiator.core.routing.waiting import FLUSH, Waitable, WaitList
from radiator.core.states import Event
from radiator.core.transactions.transactions import Transactions
from radiator.core.turn import TurnContext
from radiator.model.commands import Ack, Nack
from radiator.model.errors import Refusal
from radiator.model.limits import ACKED_PER_BATCH, SETTLED_PER_TRANSACTION, STEP_MESSAGES
from radiator.model.replies import MESSAGE_COST_BYTES


class Acks:
    """on_left: called with a queue that may have lost its last consumer, or its last unacked message. read_back:
    requests the bytes of deliveries whose bytes are on the disk alone; returns what the command must wait for.
    batch_wait_list: where ACKs wait while the open batch is full.
    """

    __slots__ = ("batch_wait_list", "context", "on_left", "read_back", "transactions")

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

    def ack(self, connection: Connection, command: Ack | Nack) -> Waitable | None:
        """Carry it out, or keep it for its COMMIT. Returns what it must wait for. Raises Refusal."""
        if command.transaction is not None:
            self.ack_in_transaction(connection, command, command.transaction)
            return None
        left = ACKED_PER_BATCH - len(self.context.open.writes)
        if left <= 0:
            return self.batch_wait_list
        deliveries = named_by(connection, command, self.context.store_id)
        if type(command) is Nack:
            lacking = [delivery for delivery in deliveries if needs_bytes(command, delivery)]
            if lacking:
                # those before it now: so the whole of many need not be in memory at once
                self.settle_before(command, deliveries, lacking[0])
                return self.read_back(one_slice(lacking))
        at_once = min(left, STEP_MESSAGES)
        if len(deliveries) > at_once:
            # a slice in a turn, and the rest when it is tried again: the RECEIPT comes with the last one
            self.settle_before(command, deliveries, deliveries[at_once])
            return FLUSH if at_once < left else self.batch_wait_list
        is_persistent = False
        queues: list[ConsumedQueue] = []
        for delivery in deliveries:
            delivery.leave_window()
            settle(command, delivery)
            queue = delivery.subscription.queue
            if queue not in queues:
                queues.append(queue)
            is_persistent = is_persistent or queue.is_persistent
        if command.receipt is not None:
            # D4: its Remove or Count is in the same batch
            connection.receipt(self.context, command.receipt, is_persistent)
        connection.offer()
        for queue in queues:
            queue.pump()
            if queue.settings.auto_delete:
                self.on_left(queue)
        return None

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

    def settle_before(self, command: Ack | Nack, deliveries: list[Delivery], last: Delivery) -> None:
        """Its RECEIPT comes with the rest."""
        queues: dict[ConsumedQueue, None] = {}
        for delivery in takewhile(lambda delivery: delivery is not last, deliveries):
            delivery.leave_window()
            settle(command, delivery)
            queues[delivery.subscription.queue] = None
        for queue in queues:
            queue.pump()

    def written(self, connection: Connection, delivers: int) -> None:
        """The operating system has taken the first so many deliveries: of `auto` ones each is acked with its last
        byte.
        """
        unwritten = connection.unwritten
        while connection.written < delivers:
            connection.written += 1
            size, delivery = unwritten.popleft()
            connection.outbox_bytes -= size
            if delivery is not None and delivery.is_out:
                delivery.leave_window()
                queue = delivery.subscription.queue
                queue.ack(delivery, Event.WRITTEN)
                self.on_left(queue)
