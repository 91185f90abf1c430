"""The part of a producer that a SEND needs, and nothing else."""

from radiator.core.queues.dedup import Dedup


class Producer:
    """A connection, or a prepared transaction on its way into its destinations. Each waits for room on its own.

    found: the results of its dedup-id look-ups on the disk: the request, and whether the id is there. held_batch: the
    last batch that anything of it waits for. Of plans that are partly for the disk, the rest is applied when a batch is
    committed: rest_batch: that of the last such plan; rest_bytes: what all of them hold until then. is_promised: its
    messages were judged before, and must be admitted.
    """

    is_promised = False

    __slots__ = ("found", "held_batch", "rest_batch", "rest_bytes")

    def __init__(self) -> None:
        self.found: dict[tuple[Dedup, bytes], tuple[int, bool]] = {}
        self.held_batch = 0
        self.rest_batch = self.rest_bytes = 0
