"""Whether a principal may carry out a command. Every command is checked here before it is carried out; nothing else in
the core decides by the principal.

The check is made in three places: at the broker's table of handlers, for clients and linked nodes, and again for each
retry of a command that waits for room; at a request to /admin, once it is parsed; and at the SENDs of a prepared
transaction, when they go into their destinations. Without an authorizer all is allowed, and no command costs more.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from radiator.core.connections import Connection
from radiator.core.routing.waiting import Waitable
from radiator.model.administration import AdminCommand
from radiator.model.commands import Command, Commit, Send
from radiator.model.principal import Principal

Handler = Callable[..., Waitable | None]


class Authorizer(Protocol):
    """Knows the rights. It is called within a turn, so it decides by what it has in memory."""

    def check(self, principal: Principal, command: Command | AdminCommand) -> None:
        """Raises Refusal where the principal may not carry out the command: that command alone is refused.

        A command that waits is checked at each try; one within a transaction when it is received, and again when its
        COMMIT carries it out. A request to /admin is checked twice: as the Administer that carried it, and as the
        command that it requests. Any other exception is a bug, and ends the process.
        """


class Authorization:
    """authorizer: None where every principal may do everything."""

    __slots__ = ("authorizer",)

    def __init__(self, authorizer: Authorizer | None) -> None:
        self.authorizer = authorizer

    def guard(self, handlers: dict[type, Handler]) -> Mapping[type, Handler]:
        """The table of what carries out each type of command, each behind its check."""
        if self.authorizer is None:
            return handlers
        return {command: _guarded(self.authorizer, handler) for command, handler in handlers.items()}

    def check_request(self, connection: Connection, command: AdminCommand) -> None:
        """What a request to /admin asks for. Raises Refusal."""
        if self.authorizer is not None:
            self.authorizer.check(connection.principal, command)

    def check_prepared(self, principal: Principal, sends: Sequence[Send]) -> None:
        """SENDs that this principal has prepared, before they go into their destinations. Raises Refusal."""
        if self.authorizer is not None:
            for send in sends:
                self.authorizer.check(principal, send)


def _guarded(authorizer: Authorizer, handler: Handler) -> Handler:
    def guarded(connection: Connection, command: Command) -> Waitable | None:
        authorizer.check(connection.principal, command)
        if type(command) is Commit:
            transaction = connection.transactions.get(command.transaction)
            for sent in () if transaction is None else transaction.commands():
                authorizer.check(connection.principal, sent)
        return handler(connection, command)

    return guarded
