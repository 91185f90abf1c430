"""SEND: part of a transaction, or a message that comes in at once."""

from radiator.core.connections import Connection
from radiator.core.routing.admission import Admission
from radiator.core.routing.waiting import Waitable
from radiator.core.transactions.transactions import Transactions
from radiator.model.commands import Send


class Sending:
    """Where a SEND begins."""

    __slots__ = ("admission", "transactions")

    def __init__(self, admission: Admission, transactions: Transactions) -> None:
        self.admission = admission
        self.transactions = transactions

    def send(self, connection: Connection, command: Send) -> Waitable | None:
        """Carry it out. Returns what it must wait for. Raises Refusal."""
        if command.transaction is not None:
            return self.transactions.send(connection, command, command.transaction)
        return self.admission.send(connection, command)
