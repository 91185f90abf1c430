"""Who may do what: the places where a command meets its principal."""

from tests.mutants import Mutant

MUTANTS = (
    Mutant(
        "alias-not-resolved",
        "A queue's other address is judged as it is written.",
        function="canonical",
        old="address = queue_address(address)",
        new="",
    ),
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
        "dead-letter-not-authorized",
        "Who may declare a queue may let its dead letters go anywhere.",
        function="_of_declare",
        old="leads_to = (names,) if isinstance(names, str) else names",
        new="leads_to = ()",
    ),
    Mutant(
        "durable-ended-by-anyone",
        "A durable subscription can be ended by who could not subscribe to it.",
        function="Subscriptions.end_durable",
        old="self.authorization.check_ending(connection, destination_of(queue.name))",
        new="",
    ),
    Mutant(
        "gone-user-stays",
        "Who is no user any more stays connected, as long as he says nothing.",
        function="Reload.judge_connections",
        old="authorization.check_present(connection)",
        new="pass",
    ),
    Mutant(
        "passive-not-authorized",
        "Whether a queue is there, and with which settings, can be asked by anybody.",
        function="_of_declare",
        old="right = SEE if command.passive else DECLARE",
        new="""
            right = DECLARE
            if command.passive:
                return ()
        """,
    ),
    Mutant(
        "pattern-judged-by-match",
        "A SUBSCRIBE to a pattern is judged as if its wildcards were words.",
        function="Granted.may",
        old="if need.is_pattern:",
        new="if False:",
    ),
    Mutant(
        "peek-not-authorized",
        "The messages of a queue can be looked at by anybody.",
        function="ROWS",
        old="lambda c: _of(SEE, QUEUE, c.queue) + _of(READ, QUEUE, c.queue),",
        new="None,",
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
        "reload-keeps-rights",
        "After a reload commands are judged by the rules of before.",
        function="Authorization.use",
        old="self._fill()",
        new="",
    ),
    Mutant(
        "reload-keeps-subscriptions",
        "A reload leaves subscriptions that nobody may have any more.",
        function="Reload.go",
        old="yield from self.judge_connections()",
        new="pass",
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
