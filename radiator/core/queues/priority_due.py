"""Puts a delayed message of a queue with priorities, when its time has come, into its lane."""

from radiator.core.queues.due import Due, DueQueue
from radiator.core.queues.entry import DelayedEntry, Entry
from radiator.core.queues.priority_window import PriorityWindow
from radiator.core.turn import TurnContext
from radiator.model.limits import WINDOW_MESSAGES
from radiator.model.message import Message


class PriorityDue(Due):
    """See Due. A message whose place is among those of its lane that are only on the disk is read back with these."""

    __slots__ = ("priorities",)

    def __init__(self, queue: DueQueue, window: PriorityWindow, context: TurnContext) -> None:
        super().__init__(queue, window, context)
        self.priorities = window.priorities

    def hash_of(self, message: Message) -> bytes:
        return self.priorities.of(message).hash

    def is_apart(self, message: Message, position: int) -> bool:
        return self.priorities.is_on_disk_alone(message, position)

    def is_awaited(self, entry: DelayedEntry) -> bool:
        # otherwise less urgent messages, which fill the window, would be delivered first
        return self.window.stubs < WINDOW_MESSAGES or not self.priorities.before(self.priorities.of(entry.message))

    def is_beyond(self, message: Message, position: int, *, is_apart: bool) -> None:
        self.window.beyond += 1
        self.context.part(self.queue).beyond += 1
        self.priorities.of(message).put_in = self.context.open.number

    def is_coming(self, entry: Entry) -> None:
        self.priorities.is_coming(self.priorities.of(entry.message), entry)
