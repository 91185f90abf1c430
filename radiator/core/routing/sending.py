"""SEND: part of a transaction, a request to /admin, or a message that comes in at once."""

from collections.abc import Callable

from radiator.core.connections import Connection
from radiator.core.routing.admission import Admission
from radiator.core.routing.waiting import Waitable
from radiator.core.transactions.transactions import Transactions
from radiator.core.turn import TurnContext
from radiator.model.addresses import ADMIN
from radiator.model.commands import Send


class Sending:
    """admin: carries out a request to /admin, and returns what it must wait for."""

    __slots__ = ("admin", "admission", "context", "transactions")

    def __init__(
        self,
        context: TurnContext,
        admission: Admission,
        transactions: Transactions,
        admin: Callable[[Connection, Send], Waitable | None],
    ) -> None:
        self.context = context
        self.admission = admission
        self.transactions = transactions
        self.admin = admin

    def send(self, connection: Connection, command: Send) -> Waitable | None:
        """Carry it out. Returns what it must wait for. Raises Refusal."""
        if command.transaction is not None:
            return self.transactions.send(connection, command, command.transaction)
        if command.destination == ADMIN:
            waits = self.admin(connection, command)
            if waits is None:
                connection.receipt(self.context, command.receipt)
            return waits
        return self.admission.send(connection, command)
