"""SEND: which queue it is for, or which plan it needs; what becomes of its RECEIPT."""

from collections.abc import Callable

from radiator.core.connections import Connection
from radiator.core.queues.target import Target
from radiator.core.routing.admission import Admission, Waitable
from radiator.core.routing.destinations import Destinations
from radiator.core.routing.router import Plan
from radiator.core.transactions.transactions import Transactions
from radiator.core.turn import TurnContext
from radiator.model.addresses import EXISTING, LOG, QUEUE, REPLY, split
from radiator.model.commands import Send


class Sending:
    """admin: carries out a request to /admin, and returns what it must wait for."""

    __slots__ = ("admin", "context", "destinations", "admission", "transactions")

    def __init__(
        self,
        context: TurnContext,
        destinations: Destinations,
        admission: Admission,
        transactions: Transactions,
        admin: Callable[[Connection, Send], Waitable | None],
    ) -> None:
        self.context = context
        self.destinations = destinations
        self.admission = admission
        self.transactions = transactions
        self.admin = admin

    def send(self, connection: Connection, command: Send) -> Waitable | None:
        """Carry it out. Returns what it must wait for. Raises Refusal."""
        if command.transaction is not None:
            return self.transactions.send(connection, command, command.transaction)
        admission = self.admission
        address = command.destination
        queue: Target | None
        queue = self.destinations.queues.get(address[7:]) if address.startswith("/queue/") else None
        if queue is None:
            if address == "/admin":
                waits = self.admin(connection, command)
                if waits is None:
                    connection.receipt(self.context, command.receipt)
                return waits
            kind, name = split(address)
            if kind == QUEUE and not command.immediate:
                queue = self.destinations.queue(name)
            elif kind == LOG:
                queue = admission.router.log(command, name)
            elif kind == EXISTING:
                queue = self.destinations.queues.get(name)
            elif kind == REPLY and admission.reply(connection, name, command):
                connection.receipt(self.context, command.receipt)
                return None
        if queue is not None:
            blocked = admission.send_to_queue(connection, queue, command)
            is_persistent = queue.is_persistent and (command.dedup_id is None or not queue.settings.dedup_window_s)
        else:
            blocked = admission.apply_plan(connection, admission.router.plan_send(connection, command, Plan()))
            is_persistent = False  # apply_plan has noted what a RECEIPT waits for
        if blocked is None and command.receipt is not None:
            connection.receipt(self.context, command.receipt, is_persistent)
        return blocked
