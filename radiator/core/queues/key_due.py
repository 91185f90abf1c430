"""Puts a delayed message of a partitioned queue, when its time has come, into its partition."""

from radiator.core.queues.due import Due, DueQueue
from radiator.core.queues.entry import DelayedEntry, Entry
from radiator.core.queues.partitions import Partitions
from radiator.core.queues.window import Window
from radiator.core.turn import TurnContext
from radiator.model.message import Message


class KeyDue(Due):
    """See Due. A message that came back holds its key until it is READY; one sent with a delay joins its key then."""

    __slots__ = ("partitions",)

    def __init__(self, queue: DueQueue, window: Window, context: TurnContext, partitions: Partitions) -> None:
        super().__init__(queue, window, context)
        self.partitions = partitions

    def hash_of(self, message: Message) -> bytes:
        return self.partitions.hash_of(message)

    def hash_held(self, entry: DelayedEntry) -> bytes:
        return self.hash_of(entry.message) if entry.redeliveries else b""

    def is_apart(self, message: Message, position: int) -> bool:
        partition, window = self.partitions.of(message), self.window
        self.partitions.touched[partition] = None
        if position > window.end and window.beyond:
            return False
        return partition.behind > 0 and position > partition.after

    def is_awaited(self, entry: DelayedEntry) -> bool:
        self.partitions.look()
        return entry.redeliveries > 0 or not self.partitions.free

    def is_before_others(self) -> bool:
        # nothing is delivered before some that came back are at their places
        return self.partitions.held_bytes >= self.window.windows.held_max

    def is_beyond(self, message: Message, position: int, *, is_apart: bool) -> None:
        # no message of its key in memory has a place after it, so it no longer holds anything up
        self.partitions.gone(position)
        if is_apart:
            self.window.end = max(self.window.end, position)
            self.partitions.skip(self.partitions.of(message), position, self.context.open.number)

    def is_coming(self, entry: Entry) -> None:
        partitions = self.partitions
        partitions.coming(partitions.at.get(entry.position) or partitions.of(entry.message), entry.position)
