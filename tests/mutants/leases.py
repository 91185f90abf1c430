"""Leases and publishing over HTTP: what an answer promises, and whose a lease is."""

from tests.mutants import Mutant

MUTANTS = (
    Mutant(
        "lease-forged",
        "A lease is settled by its number alone, which can be guessed.",
        function="Tokens.number",
        old="return number if hmac.compare_digest(self.of(number, owner), token) else 0",
        new="return number",
    ),
    Mutant(
        "lease-has-no-end",
        "A lease whose time is over can be settled until its message has come back.",
        function="Settlements._find",
        old="if lease is None or lease.due_s <= self.context.now_s:",
        new="if lease is None:",
    ),
    Mutant(
        "lease-key-of-every-run",
        "The tokens of leases are the same in every run of the broker: one of an earlier run settles another's lease.",
        function="Leases.__init__",
        old="self.tokens = Tokens(key, context.boot)",
        new="self.tokens = Tokens(bytes(32), 0)",
    ),
    Mutant(
        "published-before-commit",
        "A publish over HTTP is answered before its batch is committed.",
        function="publish",
        old="connection.say(admission.context, published)",
        new="admission.context.turn.replies.append(published)",
    ),
    Mutant(
        "settled-before-commit",
        "Leases are answered as settled before the batch with their ACKs is committed.",
        function="Settlements.settle",
        old="connection.say(self.context, answer, settling.is_persistent)",
        new="self.context.turn.replies.append(answer)",
    ),
    Mutant(
        "overdue-lease-not-back",
        "What was leased and not settled in time stays out.",
        function="Leases.ticked",
        old="self.give_back(overdue, Event.OVERDUE)",
        new="",
    ),
    Mutant(
        "lease-not-extended",
        "A lease that is answered as extended ends when it would have ended without.",
        function="Settlements.extend",
        old="lease.due_s = self.context.now_s + (lease.lease_s if lease_ms is None else lease_ms / 1000)",
        new="",
    ),
    Mutant(
        "release-delay-ignored",
        "What is released with a delay comes again at once.",
        function="_COMMANDS",
        old="Action.RELEASE: lambda settlement: Nack(0, settlement.lease, delay_ms=settlement.delay_ms),",
        new="Action.RELEASE: lambda settlement: Nack(0, settlement.lease),",
    ),
)
