"""Logs: records, groups, retention and checkouts."""

from tests.mutants import Mutant

MUTANTS = (
    Mutant(
        "acked-record-comes-again",
        "A reader that takes a partition over gets records that are before the group's position by now.",
        function="LogConsumer.take_record",
        old="if offset < group.positions[cursor.index] or offset in group.acked[cursor.index]:",
        new="if offset in group.acked[cursor.index]:",
    ),
    Mutant(
        "checkout-without-remove",
        "What is checked out is in the log, and in its queue.",
        function="Taking.step",
        old="self.log.put(entry.message)",
        new="""
            self.log.put(entry.message)
            queue.put(entry.message)
        """,
    ),
    Mutant(
        "log-read-before-commit",
        "Readers of a log get records that are still on their way to the disk.",
        function="Log.grow",
        old="partition.next += count",
        new="""
            partition.next += count
            partition.committed = partition.next
        """,
    ),
    Mutant(
        "offset-used-again",
        "After a restart the next record of a log gets the offset of the last one.",
        function="Partition.recover",
        old="self.next = self.committed = self.tail_first = last.first + last.count",
        new="self.next = self.committed = self.tail_first = max(last.first, last.first + last.count - 1)",
    ),
    Mutant(
        "partition-shared-while-unacked",
        "A partition of a group changes hands although its reader has records that are not acked.",
        function="Group.let_go",
        old="if cursor.out:",
        new="if cursor.out > 1000:",
    ),
    Mutant(
        "position-before-ack-is-synced",
        "The RECEIPT of a group's ACK does not wait for the position to be on the disk.",
        function="LogConsumer.__init__",
        old="self.is_persistent = command.group is not None",
        new="self.is_persistent = False",
    ),
    Mutant(
        "position-not-written",
        "What a group acks moves its position in memory alone.",
        function="Group.advance",
        old="self.keep()",
        new="",
    ),
    Mutant(
        "retention-takes-too-much",
        "Retention lets go of twice as much of a log as it must.",
        function="Retention.look_at",
        old="beyond = log.size - settings.retention_bytes",
        new="beyond = log.size - settings.retention_bytes // 2",
    ),
)
