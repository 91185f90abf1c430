"""Keeps what a consumer of a log has read before it is handed out: one stretch of one partition after the other, from
the log's tail or from the disk.
"""

from typing import Protocol

from radiator.core.logs.groups import Group
from radiator.core.logs.log import Log
from radiator.core.logs.log_consumers import LogConsumers
from radiator.core.logs.partition import Cursor
from radiator.model.errors import StoreError
from radiator.model.limits import LOAD_BYTES, LOAD_MESSAGES, READERS_BYTES
from radiator.model.message import Message
from radiator.model.reads import LoadedLog


class AheadReader(Protocol):
    """The reader, as far as ReadAhead needs it. group: the one that keeps its place; None: it has none."""

    group: Group | None
    is_gone: bool

    @property
    def waiting_count(self) -> int:
        """How many records it has that were never handed out."""

    def begin_with_what_is_kept(self, cursor: Cursor, group: Group) -> None:
        """Sets the cursor to where the group continues, and how many records it has missed."""

    def take_record(self, cursor: Cursor, offset: int, message: Message) -> None:
        """Takes a record that was read, the next of its partition."""

    def overtaken(self, cursor: Cursor) -> None:
        """Called when retention has dropped what was to be read next."""

    def pump(self) -> None:
        """Delivers what is there."""


class ReadAhead:
    """unread: partitions that have something to read, the next one first. is_loading: something is being read back."""

    __slots__ = ("consumer", "is_loading", "log", "readers", "unread")

    def __init__(self, consumer: AheadReader, log: Log, readers: LogConsumers) -> None:
        self.consumer = consumer
        self.log = log
        self.readers = readers
        self.is_loading = False
        self.unread: dict[Cursor, None] = {}

    def add(self, cursor: Cursor) -> None:
        """Called when its partition may have more."""
        if cursor.has_unread:
            self.unread[cursor] = None

    def drop(self, cursor: Cursor) -> None:
        """Stops reading its partition."""
        self.unread.pop(cursor, None)

    def refill(self) -> None:
        """Reads the next stretches while the consumer has few: one at a time where they are on the disk alone."""
        is_crowded = self.readers.size > READERS_BYTES
        most = 0 if is_crowded else LOAD_MESSAGES // 2
        consumer = self.consumer
        while not self.is_loading and not consumer.is_gone and consumer.waiting_count <= most:
            cursor = self.next_unread()
            if cursor is None:
                return
            del self.unread[cursor]
            count = LOAD_MESSAGES if cursor.end is None else min(LOAD_MESSAGES, cursor.end - cursor.next)
            there = self.log.in_tail(cursor.partition, cursor.next, count)
            if not there:
                self.ask(cursor, count, 1 if is_crowded else LOAD_BYTES)
                return
            for offset, message in enumerate(there, cursor.next):
                consumer.take_record(cursor, offset, message)
            self.go_on_with(cursor)

    def next_unread(self) -> Cursor | None:
        """Returns the partition whose turn it is."""
        group = self.consumer.group
        for cursor in list(self.unread):
            if cursor.is_leaving or not cursor.has_unread:
                del self.unread[cursor]
            elif group is None or not group.is_far_ahead(cursor):
                return cursor
        return None

    def go_on_with(self, cursor: Cursor) -> None:
        """Called after each stretch: puts the partition behind the others, if it has more."""
        if not cursor.is_leaving:
            self.add(cursor)

    def ask(self, cursor: Cursor, messages_max: int, bytes_max: int) -> None:
        """Asks for that much to be read back."""
        self.is_loading = True
        asked_at = cursor.partition.committed

        def loaded(answer: LoadedLog) -> None:
            self.loaded(cursor, asked_at, answer)

        self.log.read(cursor.index, cursor.next, messages_max, bytes_max, loaded)

    def loaded(self, cursor: Cursor, asked_at: int, answer: LoadedLog) -> None:
        """Called with what was read back: it is committed, because only that can be read."""
        self.is_loading = False
        consumer = self.consumer
        if consumer.is_gone:
            return
        if cursor.is_over or cursor.is_leaving:
            consumer.pump()
            return
        records = answer.records
        first = records[0].offset if records else asked_at
        if first > cursor.next:
            if cursor.next < cursor.partition.first:
                if consumer.group is None or cursor.next > cursor.began:
                    consumer.overtaken(cursor)
                    return
                # it has had nothing yet: it is told what it has missed, as if it had begun a moment later
                consumer.begin_with_what_is_kept(cursor, consumer.group)
                self.go_on_with(cursor)
                consumer.pump()
                return
            raise StoreError(f"partition {cursor.index} of {self.log.name} has no record {cursor.next}, but later ones")
        for record in records:
            if record.message is None:
                self.report_damaged(cursor, cursor.next, record.offset + 1 - cursor.next)
                cursor.next = record.offset + 1
            else:
                consumer.take_record(cursor, record.offset, record.message)
        self.go_on_with(cursor)
        consumer.pump()

    def report_damaged(self, cursor: Cursor, first: int, count: int) -> None:
        """Reports records that nobody gets; for the group they count as processed."""
        log, group = self.log, self.consumer.group
        log.damaged += count
        log.context.note("error", "damaged_log", log=log.bare_name, partition=cursor.index, offset=first, records=count)
        if group is not None:
            for offset in range(first, first + count):
                group.done(cursor, offset)
