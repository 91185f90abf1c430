"""Says why messages of a partitioned queue wait although a consumer has room: each of their keys is busy, or delayed;
or too many keys are.
"""

from radiator.core.queues.key_numbers import Hot
from radiator.core.queues.partitioned import Partitioned
from radiator.core.queues.partitioned_queues import PartitionedDurableQueue
from radiator.core.queues.queue import Queue
from radiator.core.queues.queue_partition import QueuePartition
from radiator.model.errors import count_text


def of_keys(asked: Queue, ready: str, hot: Hot) -> tuple[str, str] | None:
    """Returns the verdict and its sentence; None: that is not the reason. ready: how many are ready, in words. hot: the
    key with most messages.
    """
    if not isinstance(asked, Partitioned):
        return None
    if isinstance(asked, PartitionedDurableQueue) and asked.holds_too_many:
        return "keys", (
            f"{ready}, and a consumer has room, but very many keys are held by messages that were given back with a "
            f"delay: these keys take {count_text(asked.held_keys_bytes, 'byte')} of memory, and nothing is "
            f"delivered while that is {asked.windows.held_max} or more. It goes on as soon as some are due."
        )
    partitions = asked.partitions
    partitions.look()
    if partitions.free or partitions.lacking or partitions.wanting or hot.partition is None:
        return None
    key, held = hot.key, _of_holder(hot.partition)
    return "keys", (
        f"{ready}, and a consumer has room, but each of their keys already has a message with a consumer, or a "
        f"delayed one: a key is processed in order. Most wait for the key '{key}', which has "
        f"{count_text(hot.count, 'message')}{held}."
    )


def _of_holder(partition: QueuePartition) -> str:
    """Returns what keeps the key, in words."""
    if partition.holder is not None:
        return f"; {partition.holder.connection.address} has {partition.out} of them, not acked yet"
    return "; the first of them is delayed until it is delivered again" if partition.held else ""
