"""Who may do what: the places where a command meets its principal."""

from tests.mutants import Mutant

MUTANTS = (
    Mutant(
        "authorized-by-nobody",
        "Nobody is asked whether a connection may do what it says.",
        function="_guarded",
        old="check(connection.principal, command)",
        new="",
    ),
    Mutant(
        "commit-not-authorized",
        "A COMMIT carries out what its connection might do when it was said, and may not any more.",
        function="_guarded_commit",
        old="for sent in () if transaction is None else transaction.commands():",
        new="for sent in ():",
    ),
    Mutant(
        "prepared-by-anyone",
        "It is forgotten at once who has prepared a transaction.",
        function="PreparedTransactions.prepare",
        old="prepared.principal = connection.principal",
        new="",
    ),
    Mutant(
        "prepared-not-authorized",
        "What is prepared goes into its destinations, whatever its principal may do by then.",
        function="Applying.plan",
        old="self.authorization.check_prepared(delivery.prepared.principal, delivery.sends[: delivery.take])",
        new="",
    ),
    Mutant(
        "principal-not-kept",
        "Every connection is anyone, whoever its session has recognised.",
        function="Clients.opened",
        old="connection.principal = event.principal",
        new="",
    ),
    Mutant(
        "request-not-authorized",
        "Who may make one request to /admin may make all of them.",
        function="carry_out",
        old="request.parts.authorization.check_request(request.connection, command)",
        new="",
    ),
    Mutant(
        "waiting-not-authorized",
        "What has waited for room is carried out, whatever its connection may do by then.",
        function="Broker.carry_out",
        old="return self._commands[type(command)](connection, command)",
        new="return _command_handlers(self.parts)[type(command)](connection, command)",
    ),
)
