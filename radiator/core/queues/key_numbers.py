"""Numbers of the keys of a partitioned queue, and how many consumers it could keep busy."""

from collections.abc import Iterator
from dataclasses import dataclass

from radiator.core.answers import rested
from radiator.core.connections import Subscription
from radiator.core.queues.partitioned import Partitioned
from radiator.core.queues.queue import Queue
from radiator.core.queues.queue_partition import QueuePartition
from radiator.model.limits import SHOWN_KEY_CHARACTERS
from radiator.model.numbers import PAUSE, PauseRow


@dataclass(slots=True)
class Hot:
    """The key with the most messages. count: how many of them are known; 0: there is no key."""

    partition: QueuePartition | None = None
    count: int = 0

    @property
    def key(self) -> str:
        """The key, as text."""
        return "" if self.partition is None else key_text(self.partition.key or b"")


def active_keys(queue: Queue) -> int | None:
    """Returns how many keys have messages that memory knows of; a message without a key counts as a key of its own.
    None: the queue is not partitioned.
    """
    if not isinstance(queue, Partitioned):
        return None
    queue.partitions.look()  # otherwise keys that have no messages any longer are among them
    return len(queue.partitions.keyed) + queue.partitions.keyless


def free_keys(queue: Queue) -> int:
    """Returns how many keys are looked at when a consumer is held, or released."""
    return len(queue.partitions.free) if isinstance(queue, Partitioned) else 0


def key_moves(queue: Queue) -> int | None:
    """Returns how often a key changed its consumer; None: the queue is not partitioned."""
    return queue.partitions.moves if isinstance(queue, Partitioned) else None


def keys_of(queue: Queue, name: str, subscription: Subscription | None) -> int | None:
    """Returns how many active keys are assigned to the consumer of that name; None: the queue is not partitioned."""
    if not isinstance(queue, Partitioned):
        return None
    assignments = queue.partitions.assignments
    assignee = assignments.away.get(name)
    if assignee is None and subscription is not None:
        assignee = assignments.of.get(subscription)
    return 0 if assignee is None else assignee.load


def backlog(queue: Queue) -> int:
    """Returns how many messages are to be processed: ready, with consumers, or on the way to the disk."""
    return queue.ready_count + len(queue.entries_out) + queue.storing_count


def useful_consumers(queue: Queue) -> int:
    """Returns how many consumers could be busy at once: one for each message, or, in a partitioned queue, for each
    active key that no delay holds. At least one if anything is to be processed: which keys there are on the disk is
    known only once there is a consumer.
    """
    waiting, keys = backlog(queue), active_keys(queue)
    if keys is None or not waiting or not isinstance(queue, Partitioned):
        return waiting
    return max(1, min(waiting, keys - queue.partitions.held_keys))


def look_for_hot(queue: Queue, hot: Hot) -> Iterator[PauseRow]:
    """Finds the key with the most messages, and yields PAUSEs meanwhile. Finds none if no message has a key."""
    if not isinstance(queue, Partitioned):
        return
    for one in rested([*queue.partitions.keyed.values()]):
        if one is PAUSE:
            yield PAUSE
            continue
        count = one.out + one.coming + one.behind + len(one.held) + len(one.line)
        if count > hot.count:
            hot.partition, hot.count = one, count


def key_text(key: bytes) -> str:
    """A key as people may see it: what does not print is escaped, and a long one is cut."""
    text = key.decode("utf-8", "backslashreplace")
    shown = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
    return shown if len(shown) <= SHOWN_KEY_CHARACTERS else f"{shown[: SHOWN_KEY_CHARACTERS - 3]}..."
