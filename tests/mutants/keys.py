"""Partitioned queues: which message of a key may be delivered, to whom, and what is remembered of the others."""

from tests.mutants import Mutant

MUTANTS = (
    Mutant(
        "drain-ended-by-a-heart-beat",
        "A consumer that is drained, and registers again, gets messages.",
        function="NamedConsumers.heard",
        old="elif subscription.is_held and not registration.is_draining:",
        new="elif subscription.is_held:",
    ),
    Mutant(
        "hash-taken-for-the-key",
        "Messages that are read back for a key are taken for its own wherever the hash of their keys is the same.",
        function="KeyReadBack.key_read",
        old="if partitions.find_key(message) != partition.key:",
        new="if False:",
    ),
    Mutant(
        "held-key-forgotten-at-a-restart",
        "A message that came back and is delayed holds its key no longer when the broker has started again.",
        function="KeyReadBack.held_read",
        old="self.partitions.recover_held(position, key_hash)",
        new="pass",
    ),
    Mutant(
        "key-freed-at-delivery",
        "The next message of a key is delivered while the one before is with a consumer.",
        function="Partitions._look_at",
        old="if partition.out:",
        new="if False:",
    ),
    Mutant(
        "key-held-by-no-delay",
        "A message that came back and is delayed holds nothing up: the next of its key passes it.",
        function="Partitions.hold",
        old="insort(partition.held, position)",
        new="",
    ),
    Mutant(
        "key-of-two-consumers",
        "A key with room in its partition_window is free for all: it changes hands while somebody has some of it.",
        function="Partitions._look_at",
        old="if partition.out:",
        new="if partition.out >= self.window:",
    ),
    Mutant(
        "key-stuck-after-an-end",
        "A message that becomes a dead letter, or expires, holds its key for ever.",
        function="PartitionedDurableQueue.remove",
        old="self.partitions.gone(entry.position, state is State.STORING or state is State.DUE)",
        new="""
            if event in (Event.GIVE_UP, Event.EXPIRE):
                self.partitions.hold(entry.position)
                return
            self.partitions.gone(entry.position, state is State.STORING or state is State.DUE)
        """,
    ),
    Mutant(
        "newcomer-gets-no-key",
        "A key stays with its consumer for ever: one that comes later gets none of those that always have messages.",
        function="Assignments.assign",
        old="return before if lighter is None else lighter",
        new="return before",
    ),
    Mutant(
        "older-consumer-goes-on",
        "Of two subscriptions with one name the older one gets messages still.",
        function="NamedConsumers.joined",
        old="self.hold(before)",
        new="pass",
    ),
    Mutant(
        "returned-behind-the-next-of-its-key",
        "A message that came back goes behind those of its key that are in memory.",
        function="Partitions.add",
        old="heapq.heappush(partition.line, position)",
        new="partition.line.append(position)",
    ),
    Mutant(
        "shares-as-the-ring-has-them",
        "Keys are assigned by consistent hashing alone: some consumers have twice as many as others.",
        function="Assignments.assign",
        old="if load < KEYS_MIN or load + 1 <= ABOVE * (self.total + 1) / self.known:",
        new="if True:",
    ),
    Mutant(
        "skipped-counted-once",
        "Of the messages of a key that stay on the disk only the first is counted: the others are never read back.",
        function="Partitions.skip",
        old="partition.behind += 1",
        new="partition.behind = 1",
    ),
    Mutant(
        "skipped-read-twice",
        "What was read back of a key is read again: its place is not remembered.",
        function="Partitions.was_read",
        old="partition.after = after",
        new="",
    ),
)
