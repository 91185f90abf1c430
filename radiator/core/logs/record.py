"""A record of a log, as one of its readers has it."""

from radiator.core.logs.partition import Cursor
from radiator.core.queues.entry import Entry
from radiator.core.states import State
from radiator.model.message import Message
from radiator.model.replies import RecordPlace


class Record(Entry):
    """A record that is unacked with a reader, or about to be. Its position is a new one at each delivery; skipped: how
    many records its group has missed before it.
    """

    __slots__ = ("cursor", "offset", "skipped")

    def __init__(self, cursor: Cursor, offset: int, message: Message, redelivered: bool, skipped: int = 0) -> None:
        super().__init__(0, message, State.READY, message.size, 0, redelivered)
        self.cursor = cursor
        self.offset = offset
        self.skipped = skipped

    @property
    def place(self) -> RecordPlace:
        """What the reader is told of the record."""
        return RecordPlace(self.cursor.index, self.offset, self.skipped)
