"""Transactions of connections: what is sent and acked between BEGIN and COMMIT is carried out whole, or not at all."""

from collections.abc import Callable, Iterator

from radiator.core.connections import Connection, ConsumedQueue, Delivery, Transaction
from radiator.core.deliveries import needs_bytes
from radiator.core.reading import Reading
from radiator.core.routing.admission import Admission
from radiator.core.routing.plan import Plan
from radiator.core.routing.turn_shares import TurnShares
from radiator.core.routing.waiting import Waitable
from radiator.core.transactions.prepared import PreparedTransactions
from radiator.core.turn import WRITE_COST_BYTES, TurnContext
from radiator.model.addresses import ADMIN
from radiator.model.commands import Abort, Begin, Commit, Send
from radiator.model.errors import Refusal, shown
from radiator.model.limits import REFUSED_LOOKS, SENT_PER_TRANSACTION, Limits
from radiator.model.replies import Scope


class Transactions:
    """all: every one that is open, the oldest first, with its connection. on_left, read_back: as in acks.py."""

    __slots__ = ("all", "context", "admission", "limits", "on_left", "prepared", "read_back", "turn_shares")

    def __init__(
        self,
        context: TurnContext,
        limits: Limits,
        admission: Admission,
        prepared: PreparedTransactions,
        turn_shares: TurnShares,
        on_left: Callable[[ConsumedQueue], None],
        read_back: Callable[[list[Delivery]], Reading],
    ) -> None:
        self.context = context
        self.limits = limits
        self.admission = admission
        self.prepared = prepared
        self.turn_shares = turn_shares
        self.on_left = on_left
        self.read_back = read_back
        self.all: dict[Transaction, Connection] = {}

    def open(self, connection: Connection, name: bytes) -> Transaction:
        """Returns the open transaction of that name. Raises Refusal where there is none."""
        found = connection.transactions.get(name)
        if found is None:
            raise Refusal(
                "transaction", f"There is no open transaction {shown(name)} on this connection: send BEGIN first."
            )
        return found

    def grow(self, connection: Connection, transaction: Transaction, size: int) -> None:
        """Counts what a transaction holds. Raises Refusal past max_batch_bytes."""
        if transaction.size + size > self.limits.max_batch_bytes:
            raise Refusal("too-large", f"The transaction exceeds max_batch_bytes, {self.limits.max_batch_bytes}.")
        transaction.size += size
        connection.transaction_bytes += size
        self.admission.memory.bytes += size

    # ---- commands ---------------------------------------------------------------------------------------------------

    def begin(self, connection: Connection, command: Begin) -> None:
        if command.transaction in connection.transactions:
            raise Refusal(
                "transaction", f"The transaction {shown(command.transaction)} is open on this connection already."
            )
        if len(connection.transactions) >= self.limits.max_transactions:
            raise Refusal(
                "too-many-transactions",
                f"This connection has {len(connection.transactions)} open transactions: "
                f"max_transactions is {self.limits.max_transactions}.",
            )
        transaction = Transaction(self.context.now_s, connection.blocked_total_s)
        connection.transactions[command.transaction] = transaction
        self.all[transaction] = connection
        connection.receipt(self.context, command.receipt)

    def send(self, connection: Connection, command: Send, name: bytes) -> Waitable | None:
        """Keeps the SEND until the transaction's COMMIT."""
        transaction = self.open(connection, name)
        if command.destination == ADMIN:
            raise Refusal("admin", "A SEND to /admin cannot be part of a transaction.")
        blocked = self.admission.blocked(connection, None, False, 0)
        if blocked is not None:
            return blocked
        if len(transaction.sends) >= SENT_PER_TRANSACTION:
            # COMMIT carries them out in one turn, during which nobody else is served
            raise Refusal("too-large", f"The transaction sends {SENT_PER_TRANSACTION} messages, which is the limit.")
        self.grow(connection, transaction, command.size + WRITE_COST_BYTES)
        transaction.sends.append(command)
        connection.receipt(self.context, command.receipt)
        return None

    def commit(self, connection: Connection, command: Commit) -> Waitable | None:
        """Carries it out, prepares it, or carries out a prepared one. Returns what it must wait for, if anything.
        Raises Refusal.
        """
        context = self.context
        known = connection.transactions.get(command.transaction)
        if known is not None:
            wait_list = self.turn_shares.wait_for(connection, len(known.sends) + known.settled)
            if wait_list is not None:
                return wait_list
        if command.prepare is not None:
            return self.prepare(connection, command, command.prepare)
        if command.app is not None and command.transaction not in connection.transactions:
            name = command.transaction.decode(errors="replace")
            self.prepared.commit(connection, (name,), command.app, command.version)
            connection.receipt(context, command.receipt, durable=True)
            return None
        transaction = self.open(connection, command.transaction)
        if command.app is not None:
            if self.prepared.is_committed(command.app, command.version):
                transaction.release()
                self.end(connection, command.transaction)
                connection.receipt(context, command.receipt, durable=True)
                return None
            self.prepared.check_app(command.app)
            # what is for memory waits until the version is on the disk: else it would come again after a crash
            connection.rest_batch = context.open.number
        lacking = [
            delivery for nack, named in transaction.settlements for delivery in named if needs_bytes(nack, delivery)
        ]
        if lacking:
            return self.read_back(lacking)
        plan = Plan()
        for send in transaction.sends:
            self.admission.router.plan(connection, send, plan)
        blocked = self.admission.apply_plan(connection, plan, transaction)
        if blocked is None:
            if command.app is not None:
                # D30: in the batch that carries it out
                self.prepared.keep_app(command.app, command.version)
            self.end(connection, command.transaction)
            connection.receipt(context, command.receipt, durable=command.app is not None)
            connection.offer()
            self.leave(transaction)
        return blocked

    def leave(self, transaction: Transaction) -> None:
        """Called when its ACKs were carried out, some of them only when the open batch is on the disk: queues that
        their consumers have left may now have nothing unacked.
        """
        queues = {d.subscription.queue: None for _, ds in transaction.settlements for d in ds}

        def settled() -> None:
            for queue in queues:
                self.on_left(queue)

        settled()
        if self.context.open.then:
            self.context.open.then.append(settled)

    def prepare(self, connection: Connection, command: Commit, name: str) -> Waitable | None:
        transaction = self.open(connection, command.transaction)
        blocked = self.prepared.prepare(connection, transaction, name)
        if blocked is None:
            self.end(connection, command.transaction)
            connection.receipt(self.context, command.receipt, durable=True)
        return blocked

    def abort(self, connection: Connection, command: Abort) -> None:
        self.open(connection, command.transaction).release()
        self.end(connection, command.transaction)
        connection.receipt(self.context, command.receipt)

    # ---- the end ----------------------------------------------------------------------------------------------------

    def end(self, connection: Connection, name: bytes) -> None:
        """Removes a transaction from the open ones."""
        transaction = connection.transactions.pop(name)
        connection.transaction_bytes -= transaction.size
        del self.all[transaction]

    def closed(self, connection: Connection) -> None:
        """Drops the transactions of a connection that has ended."""
        for transaction in connection.transactions.values():
            transaction.release()
            del self.all[transaction]

    def refuse_late(self) -> Iterator[int]:
        """Refuses what is open for longer than transaction_max_s: what a transaction holds is nowhere else. The time
        for which its connection was blocked does not count. Yields what each step costs, as in rounds.py.
        """
        for transaction, connection in [*self.all.items()]:
            age_s = self.context.now_s - transaction.begun_s
            if age_s < self.limits.transaction_max_s:
                return
            age_s -= connection.blocked_total_s - transaction.blocked_before_s
            is_late = age_s >= self.limits.transaction_max_s and connection.waits_for is None
            if not is_late or connection.is_closing or transaction not in self.all:
                yield 1
                continue
            name = next(iter(connection.transactions))
            connection.refuse(
                self.context,
                "transaction-timeout",
                f"The transaction {shown(name)} has been open for longer than {self.limits.transaction_max_s:g} s "
                "(transaction_max_s): nothing of it was carried out.",
                scope=Scope.CHANNEL,
            )
            if not connection.is_closing:
                transaction.release()
                self.end(connection, name)
            yield REFUSED_LOOKS
