"""The turn of the broker: reads, seal, receipts, connections, background tasks, memory."""

from tests.mutants import Edit, Mutant

MUTANTS = (
    Mutant(
        "clean-stop-does-not-mark",
        "A clean stop does not mark what is out: it comes again without `redelivered`.",
        function="Broker.stop",
        old="for position, delivery in queue.entries_out.items():",
        new="for position, delivery in {}.items():",
    ),
    Mutant(
        "core-entered-twice",
        "A turn of the broker makes another turn.",
        function="Broker.read",
        old="connection.buffered_bytes = event.buffered_bytes",
        new="""
            self.turn([], self.context.now_s, self.context.now_ms)
            connection.buffered_bytes = event.buffered_bytes
        """,
    ),
    Mutant(
        "idle-though-it-holds",
        "What is sent to an idle connection does not wake it: no bound of memory sees it.",
        function="Connection.post",
        old="""
            if self.is_idle:
                self.wake()
        """,
        new="",
    ),
    Mutant(
        "log-call-in-the-core",
        "The core writes a line of the log itself, through the hub's thread pool, for each refusal.",
        function="Connection.refuse",
        old="self.is_closing = self.is_closing or scope >= self.closes_at",
        new=r"""
            self.is_closing = self.is_closing or scope >= self.closes_at
            __import__("gevent").get_hub().threadpool.apply(__import__("os").write, (2, b"refused\n"))
        """,
    ),
    Mutant(
        "long-works-in-one-slice",
        "What expires, comes back or is moved is handled in one turn, however much it is.",
        function="STEP_MESSAGES",
        old="STEP_MESSAGES = 1000",
        new="STEP_MESSAGES = 1_000_000",
        also=(
            Edit(function="BATCH_BYTES", old="BATCH_BYTES = 4 * MIB", new="BATCH_BYTES = 1024 * MIB"),
            Edit(
                function="Requeue.step",
                old="for _ in range(min(STEP_MESSAGES, COMMANDS_PER_TURN, len(self.left))):",
                new="for _ in range(len(self.left)):",
            ),
            Edit(function="Acks.ack_several", old="at_once = min(left, self.turn_left)", new="at_once = left"),
            Edit(
                function="limits:",
                old='assert STEP_MESSAGES <= WINDOW_MESSAGES, "a long work steps through windows"',
                new='assert STEP_MESSAGES >= WINDOW_MESSAGES, "a long work steps through windows"',
            ),
        ),
    ),
    Mutant(
        "lost-on-disconnect",
        "What was out and unacked with a connection that is lost does not come back before a restart.",
        function="Clients.closed",
        old="*connection.unacked.values(),",
        new="",
    ),
    Mutant(
        "memory-error-swallowed",
        "A command for which there is no memory is left out, without a word.",
        function="Broker.read",
        old="except Refusal as refusal:",
        new="""
            except MemoryError:
                continue
            except Refusal as refusal:
        """,
    ),
    Mutant(
        "no-read-quantum",
        "A busy connection is read, and what it says carried out, as long as there is something.",
        function="READ_BYTES",
        old="READ_BYTES = 64 * KIB",
        new="READ_BYTES = 64 * MIB",
        also=(
            Edit(function="COMMANDS_PER_TURN", old="COMMANDS_PER_TURN = 256", new="COMMANDS_PER_TURN = 1 << 30"),
            Edit(function="COMMANDS_AT_ONCE", old="COMMANDS_AT_ONCE = 16", new="COMMANDS_AT_ONCE = 1 << 30"),
        ),
    ),
    Mutant(
        "receipt-before-commit",
        "A RECEIPT that promises the disk leaves at once, before its batch is committed.",
        function="Connection.say",
        old="self.held_batch = context.open.number",
        new="return context.turn.replies.append(reply)",
    ),
    Mutant(
        "sleep-in-the-core",
        "The broker lets other greenlets run in the middle of a turn.",
        function="Broker.read",
        old="connection.buffered_bytes = event.buffered_bytes",
        new="""
            __import__("gevent").sleep(0)
            connection.buffered_bytes = event.buffered_bytes
        """,
    ),
    Mutant(
        "small-holders-wait-too",
        "While memory is tight all producers wait, however little they hold.",
        function="Memory.is_above_share",
        old="return held_by(producer) > (self.share_bytes if self.bytes <= self.bound_bytes else self.least_bytes)",
        new="return True",
    ),
    Mutant(
        "subscription-limit-off-by-one",
        "A connection may have one subscription more than max_subscriptions.",
        function="Connection.check_subscriptions",
        old="if count >= most:",
        new="if count > most:",
    ),
    Mutant(
        "subscriptions-of-everybody",
        "Subscriptions are known by their ids alone, whoever made them.",
        function="Connection.__init__",
        old="self.queue_subscriptions: dict[bytes, Subscription] = {}",
        new='self.queue_subscriptions: dict[bytes, Subscription] = globals().setdefault("_queue_subscriptions", {})',
    ),
    Mutant(
        "told-in-the-next-batch",
        "An event is told in the batch after that of its change.",
        function="Broker.seal",
        old="""
            if self.parts.journal is not None:
                self.parts.journal.seal()
        """,
        new="",
        also=(
            Edit(
                function="Broker.seal",
                old="context.open = Batch(batch.number + 1)",
                new="""
                    context.open = Batch(batch.number + 1)
                    if self.parts.journal is not None:
                        self.parts.journal.seal()
                """,
            ),
        ),
    ),
    Mutant(
        "topics-are-free-of-the-bound",
        "Subscriptions to topics do not count in max_subscriptions.",
        function="Connection.check_subscriptions",
        old="count = self.subscriptions_count",
        new="count = len(self.queue_subscriptions)",
    ),
)
