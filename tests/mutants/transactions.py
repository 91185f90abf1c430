"""Transactions, and prepared ones."""

from tests.mutants import Edit, Mutant

MUTANTS = (
    Mutant(
        "abort-keeps-its-acks",
        "After ABORT the messages that were acked in the transaction cannot be acked any more.",
        function="Transaction.release",
        old="delivery.transaction = None",
        new="pass",
    ),
    Mutant(
        "app-not-checked",
        "A version of an app is committed as often as somebody asks for it.",
        function="PreparedTransactions.is_committed",
        old="return last is not None and version <= last.version",
        new="return last is None and version < 0",
    ),
    Mutant(
        "app-not-written",
        "The version that was committed is not on the disk.",
        function="PreparedTransactions.keep_app",
        old="self.context.write(row, WRITE_COST_BYTES + len(app))",
        new="",
    ),
    Mutant(
        "commit-receipt-does-not-wait",
        "The RECEIPT of a COMMIT does not wait for the disk.",
        function="Admission.apply_plan",
        old="if is_persistent or must_wait:",
        new="if (is_persistent or must_wait) and transaction is None:",
    ),
    Mutant(
        "committed-forgotten-at-a-restart",
        "After a restart a committed transaction does not go on.",
        function="PreparedTransactions.__init__",
        old="applying.begin(prepared)",
        new="pass",
    ),
    Mutant(
        "ended-transaction-keeps-its-bytes",
        "The memory of a transaction that has ended is counted until its connection ends.",
        function="Transactions.end",
        old="connection.transaction_bytes -= transaction.size",
        new="",
    ),
    Mutant(
        "memory-part-before-sync",
        "The part of a transaction that is in memory happens before its persistent part is on the disk.",
        function="Admission.apply_plan",
        old="must_wait = (is_persistent or producer.rest_batch > context.committed) and not rest.is_empty",
        new="must_wait = False",
    ),
    Mutant(
        "prepared-not-written",
        "What is prepared is on the disk without its SENDs.",
        function="PreparedTransactions.prepare",
        old="self.context.write(StorePrepared(prepared.number, 0, sends), size + len(sends) * WRITE_COST_BYTES)",
        new="pass",
    ),
    Mutant(
        "transaction-acks-in-the-next-batch",
        "What a transaction acks is stored by the batch after that of what it sends.",
        function="Admission.apply_plan",
        old="is_persistent = self.settle_stored(settlements) or persistent_bytes > 0 or bool(plan.unkept)",
        new="""
            self.context.open.then.append(lambda: self.settle_stored(settlements) and None)
            is_persistent = persistent_bytes > 0 or bool(plan.unkept)
        """,
    ),
    Mutant(
        "transaction-bytes-not-bounded",
        "Each message of a transaction is compared with max_batch_bytes, and not all of them together.",
        function="Transactions.grow",
        old="if transaction.size + size > self.limits.max_batch_bytes:",
        new="if size > self.limits.max_batch_bytes:",
    ),
    Mutant(
        "transaction-first-send-alone",
        "Of all that a transaction sends only the first is carried out, with all its acks.",
        function="Transactions.commit",
        old="for send in transaction.sends:",
        new="for send in transaction.sends[:1]:",
    ),
    Mutant(
        "transaction-limit-off-by-one",
        "One transaction more than max_transactions may be open.",
        function="Transactions.begin",
        old="if len(connection.transactions) >= self.limits.max_transactions:",
        new="if len(connection.transactions) > self.limits.max_transactions:",
    ),
    Mutant(
        "transaction-sends-before-commit",
        "A SEND of a transaction happens when it is said, not at COMMIT.",
        function="Transactions.send",
        old="transaction.sends.append(command)",
        new="self.admission.apply_plan(connection, self.admission.router.plan_send(connection, command, Plan()))",
    ),
    Mutant(
        "transactions-of-everybody",
        "Transactions are known by their names alone, whoever began them.",
        function="Connection.__init__",
        old="self.transactions: dict[bytes, Transaction] = {}",
        new='self.transactions: dict[bytes, Transaction] = globals().setdefault("_transactions", {})',
    ),
    Mutant(
        "transactions-open-for-ever",
        "A transaction may be open for as long as its connection.",
        function="Rounds._looks",
        old="yield from self.transactions.refuse_late()",
        new="",
    ),
    Mutant(
        "removed-in-another-batch",
        "A prepared transaction's SENDs are let go of in the batch after that of their Puts.",
        function="Applying.applied",
        old="self.context.write(DropTransaction(prepared.number))",
        new="self.context.open.then.append(lambda: self.context.write(DropTransaction(prepared.number)))",
        also=(
            Edit(
                function="Applying.applied",
                old="""
                    self.context.write(RemovePrepared(prepared.number, first, prepared.applied))
                    self.context.write(prepared.row())
                """,
                new="""
                    drop = RemovePrepared(prepared.number, first, prepared.applied)
                    row = prepared.row()
                    self.context.open.then.append(lambda: self.context.write(drop))
                    self.context.open.then.append(lambda: self.context.write(row))
                """,
            ),
        ),
    ),
)
