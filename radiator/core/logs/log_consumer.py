"""The reader of a log for one subscription: it holds records that were read ahead.

Windows, unacked messages and timeouts are those of queues (../queues/consumable.py). Nothing of it is on the disk but a
group's position (groups.py). `ack:auto` needs none of that: a record is done once it is handed to the connection.
"""

import heapq
from collections import deque
from functools import partial

from radiator.core.connections import Delivery, Subscription
from radiator.core.logs import places
from radiator.core.logs.groups import Group
from radiator.core.logs.log import Log
from radiator.core.logs.log_consumers import LogConsumers
from radiator.core.logs.partition import Cursor, Partition
from radiator.core.logs.read_ahead import ReadAhead
from radiator.core.logs.record import Record
from radiator.core.queues.consumable import Consumable
from radiator.core.queues.entry import Entry, Stub
from radiator.core.states import MEMORY_MOVES, Event, move
from radiator.model.commands import AUTO, TIME, Subscribe
from radiator.model.errors import Refusal
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import ENCODED_RECORDS, PARTITIONS_MAX, PRESSED_OUTBOX_BYTES, RECORD_BYTES, WATCHED_MAX
from radiator.model.message import Message
from radiator.model.reads import LoadedLog
from radiator.model.replies import MESSAGE_COST_BYTES, Deliver, EndOfLog, RecordPlace


class LogConsumer(Consumable):
    """See above. cursors: by partition. is_auto: what it has read is in `unsent`, otherwise in `ready`; held_bytes: the
    bytes of these.
    """

    __slots__ = (
        "cursors", "encoded_bytes", "end_at", "firsts", "group", "held_bytes", "is_auto", "is_persistent", "log",
        "partition", "read_ahead", "readers", "subscription", "unsent",
    )  # fmt: skip

    moves = MEMORY_MOVES
    can_delay = False
    is_timed = False  # a record is read again however old it is
    journal = None  # it is about queues only
    subscription: Subscription

    def __init__(self, log: Log, command: Subscribe, readers: LogConsumers) -> None:
        """Raises Refusal for what cannot be subscribed to."""
        places.check(log, command)
        super().__init__(log.name, log.settings, readers.context)
        self.log = log
        self.readers = readers
        self.partition = command.partition
        self.is_auto = command.ack == AUTO
        self.is_persistent = command.group is not None  # so the RECEIPT of an ACK waits for the position
        self.held_bytes = 0
        self.cursors: dict[int, Cursor] = {}
        self.group: Group | None = None
        self.unsent: deque[tuple[RecordPlace, Message]] = deque()
        self.firsts = places.firsts(log, command)
        self.read_ahead = ReadAhead(self, log, readers)
        self.end_at = places.End(log, command)
        self.encoded_bytes = command.encoded_bytes

    @property
    def address(self) -> str:
        return self.name

    @property
    def watched(self) -> int:
        """How many partitions it may read."""
        return len(self.log.partitions) if self.partition is None else 1

    # ---- begin and end ----------------------------------------------------------------------------------------------

    def needs_search(self, command: Subscribe) -> bool:
        """Whether `firsts` is not known from memory: its group is a new one, and begins at a time."""
        group, start = command.group, command.start
        return group is not None and start is not None and start[0] == TIME and group not in self.log.groups

    def begin(self, subscription: Subscription, command: Subscribe) -> None:
        """Reserves its place; nothing is read before `join`. Raises Refusal."""
        log, name, firsts = self.log, command.group, self.firsts
        self.subscription = subscription
        if self.readers.watched + self.watched > WATCHED_MAX:
            raise Refusal(
                "too-many-subscriptions",
                f"Readers of logs read {self.readers.watched} partitions, each counted once for each reader: "
                f"{self.watched} more of {log.name} would be more than {WATCHED_MAX}.",
            )
        from_ms = command.start[1] if command.start is not None and command.start[0] == TIME else 0
        if name is None:
            for index, first in enumerate(firsts):
                if self.partition in (None, index):
                    self.attach(Cursor(self, log.partitions[index], first, self.end_at.offsets[index], from_ms))
        else:
            is_new = name not in log.groups
            self.group = group = log.group(name, lambda: firsts)
            if is_new and from_ms:
                group.from_ms = dict.fromkeys(range(len(firsts)), from_ms)
        self.readers.all[self] = None
        self.readers.watched += self.watched
        if self.end_at.is_awaited:
            self.readers.timed[self] = None

    def join(self, subscription: Subscription) -> None:
        if self.group is not None and self not in self.group.members and not subscription.is_over:
            self.group.join(self)
        super().join(subscription)

    def take(self, index: int) -> Cursor:
        """Begins to read a partition that the group gives it."""
        group, partition = self.group, self.log.partitions[index]
        assert group is not None
        cursor = Cursor(self, partition, 0, self.end_at.offsets[index], group.from_ms.get(index, 0))
        self.begin_with_what_is_kept(cursor, group)
        self.attach(cursor)
        if self.subscription.is_listed:
            self.readers.due[self] = None
        return cursor

    def begin_with_what_is_kept(self, cursor: Cursor, group: Group) -> None:
        """Sets the cursor to where the group continues, and how many records it has missed."""
        first = cursor.partition.first
        cursor.began = cursor.next = group.begin(cursor.index, first)
        cursor.skipped = group.missed(cursor.index, first)

    def attach(self, cursor: Cursor) -> None:
        self.cursors[cursor.index] = cursor
        cursor.partition.cursors[cursor] = None
        self.read_ahead.add(cursor)

    def drop(self, cursor: Cursor) -> None:
        """Stops reading this partition. Nothing of it is unacked, or that no longer matters."""
        del self.cursors[cursor.index]
        del cursor.partition.cursors[cursor]
        self.read_ahead.drop(cursor)
        cursor.is_over = True
        if not cursor.partition.cursors:
            self.log.clear_tail(cursor.partition)
        self.drop_ready(cursor)
        if not self.cursors and self.subscription.is_over:
            self.end()

    def yield_partition(self, cursor: Cursor) -> None:
        """Lets another reader of the group have the partition when nothing of it is unacked."""
        cursor.is_leaving = True
        self.read_ahead.drop(cursor)
        self.drop_ready(cursor)

    def drop_ready(self, cursor: Cursor) -> None:
        """Drops the records of that partition that are not delivered: another consumer reads them."""
        entries = [*self.ready, *(entry for _, entry in self.returned)]
        self.weigh(-sum(entry.size for entry in entries if _is_of(entry, cursor) and not entry.is_stub))
        self.ready = deque(entry for entry in self.ready if not _is_of(entry, cursor))
        self.returned = [pair for pair in self.returned if not _is_of(pair[1], cursor)]
        heapq.heapify(self.returned)

    def unsubscribe(self, subscription: Subscription) -> None:
        super().unsubscribe(subscription)
        self.readers.timed.pop(self, None)
        self.readers.due.pop(self, None)
        if self.group is not None:
            self.group.leave(self)
        if self.group is None or not self.cursors:
            self.end()

    def end(self) -> None:
        for cursor in list(self.cursors.values()):
            self.cursors.pop(cursor.index)
            cursor.partition.cursors.pop(cursor, None)
            cursor.is_over = True
            if not cursor.partition.cursors:
                self.log.clear_tail(cursor.partition)
        out = [delivery.entry for delivery in self.entries_out.values()]
        self.readers.out -= sum(entry.size for entry in out if not entry.is_stub)
        super().end()
        self.readers.forget(self, self.watched)
        self.unsent.clear()
        self.read_ahead.unread.clear()
        self.weigh(-self.held_bytes)
        self.out_bytes = 0

    def weigh(self, size: int) -> None:
        """Counts that much more as read and not delivered."""
        self.held_bytes += size
        self.readers.size += size

    # ---- what it reads ----------------------------------------------------------------------------------------------

    def grown(self, cursor: Cursor) -> None:
        """Called when its partition has more; the caller delivers by `pump`."""
        self.read_ahead.add(cursor)

    def take_record(self, cursor: Cursor, offset: int, message: Message) -> None:
        """Makes a record READY, unless it is before the beginning, behind the end, or acked."""
        group = self.group
        if cursor.end is None and self.end_at.is_past(message):
            cursor.end = self.end_at.offsets[cursor.index] = offset
        if cursor.end is not None and offset >= cursor.end:
            return
        cursor.next = offset + 1
        if cursor.from_ms:
            if message.accepted_ms < cursor.from_ms:
                if group is not None:
                    group.done(cursor, offset)
                return
            cursor.from_ms = 0
            if group is not None:
                group.from_ms.pop(cursor.index, None)
        if group is None:
            if self.is_auto:
                self.unsent.append((RecordPlace(cursor.index, offset), message))
            else:
                self.ready.append(Record(cursor, offset, message, False))
            self.weigh(message.size)
            return
        if offset < group.positions[cursor.index] or offset in group.acked[cursor.index]:
            return
        was_read = offset < group.read[cursor.index]
        self.ready.append(Record(cursor, offset, message, was_read, cursor.skipped))
        cursor.skipped = 0
        self.weigh(message.size)

    def overtaken(self, cursor: Cursor) -> None:
        """Called when retention has dropped what it was to read next: closes its connection."""
        connection = self.subscription.connection
        if connection.is_closing:
            return
        context = self.context
        context.count("log_readers_overtaken")
        context.note("warning", "log_reader_overtaken", connection=connection.number, log=self.log.bare_name)
        sentence = (
            f"Partition {cursor.index} of {self.name} begins with {cursor.partition.first} by now: {cursor.next}, "
            "which this subscription was to get next, is gone."
        )
        connection.refuse(context, "no-such-offset", sentence)

    # ---- out --------------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Delivers while there is room, and time in this turn."""
        if not self.ring:
            return
        subscription, readers = self.subscription, self.readers
        if readers.is_pressed:
            connection = subscription.connection
            connection.outbox_max_bytes = min(connection.outbox_max_bytes, PRESSED_OUTBOX_BYTES)
        left = readers.left()
        while True:
            if not (self.unsent or self.ready or self.returned):
                self.read_ahead.refill()
                if not (self.unsent or self.ready):
                    if self.ready_for_end:
                        self.say_end()
                    return
            if self.returned and self.returned[0][1].is_stub:
                self.read_again(self.returned[0][1])
                return
            if not subscription.can_take():
                del self.ring[subscription]
                subscription.is_listed = False
                subscription.connection.unlist(subscription)
                break
            if left <= 0:
                readers.due[self] = None
                break
            if self.is_auto:
                given = self.hand(left)
            else:
                entry = self.take_head()
                self.deliver(entry, subscription, entry.place)
                if readers.out > readers.out_max:
                    readers.out -= entry.size
                    entry.message = Stub(entry.message)
                given = 1 + entry.size // RECORD_BYTES
            left -= given
            readers.handed += given
        self.read_ahead.refill()

    def hand(self, most: int) -> int:
        """Sends ack:auto records, as many as the outgoing buffer takes. Returns how much of `left` that was."""
        subscription, context, unsent = self.subscription, self.context, self.unsent
        connection = subscription.connection
        connection.last_own_place = subscription.place
        name = subscription.name if subscription.is_named else None
        number, left_bytes = connection.number, connection.outbox_max_bytes - connection.outbox_bytes
        encoded_bytes = self.encoded_bytes
        cost = 1 if encoded_bytes is None else ENCODED_RECORDS
        most = min(max(1, most // cost), len(unsent))
        given = size = 0
        while given < most and left_bytes > 0:
            place, message = unsent.popleft()
            bytes_ = len(message.headers) + len(message.body)
            posted_bytes = bytes_ if encoded_bytes is None else encoded_bytes(message, self.watched)
            connection.post(
                context,
                Deliver(number, name, context.message_id(context.next_position()), message, False, log=place),
                posted_bytes,
                None,
            )
            left_bytes -= posted_bytes + MESSAGE_COST_BYTES
            size += bytes_
            given += 1
        self.weigh(-size)
        return (given + size // RECORD_BYTES) * cost

    def take_head(self) -> Record:
        """Takes the next record, with a place of its own for this delivery."""
        record = heapq.heappop(self.returned)[1] if self.returned else self.ready.popleft()
        assert isinstance(record, Record)
        record.position = self.context.next_position()
        self.weigh(-record.size)
        self.readers.out += record.size
        cursor, group = record.cursor, self.group
        cursor.out += 1
        if group is not None:
            group.read[cursor.index] = max(group.read[cursor.index], record.offset + 1)
        return record

    def read_again(self, record: Entry) -> None:
        """Asks for the next record, which has come back and whose bytes are on the disk alone."""
        if self.read_ahead.is_loading:
            return
        assert isinstance(record, Record)
        self.read_ahead.is_loading = True
        self.log.read(record.cursor.index, record.offset, 1, 1, partial(self.read_back, record))

    def read_back(self, record: Record, answer: LoadedLog) -> None:
        """Called with that record: it is as it was, unless it is damaged, or retention has dropped it."""
        self.read_ahead.is_loading = False
        if self.is_gone:
            return
        cursor = record.cursor
        is_first = bool(self.returned) and self.returned[0][1] is record
        found = [one.message for one in answer.records if one.offset == record.offset and one.message is not None]
        if is_first and found:
            record.message = found[0]
            self.weigh(record.size)
        elif is_first and record.offset < cursor.partition.first:
            self.overtaken(cursor)
            return
        elif is_first:
            heapq.heappop(self.returned)
            self.read_ahead.report_damaged(cursor, record.offset, 1)
        self.pump()

    @property
    def ready_for_end(self) -> bool:
        """Whether everything that it will ever get has been sent."""
        return (
            self.end_at.is_awaited
            and not self.read_ahead.is_loading
            and not self.subscription.connection.is_closing
            and all(
                self.is_at_end(partition)
                for partition in self.log.partitions
                if self.partition in (None, partition.index)
            )
        )

    def is_at_end(self, partition: Partition) -> bool:
        """Whether that partition is at its end; in a group another reader may have it."""
        cursor = self.cursors.get(partition.index)
        if cursor is not None:
            at = cursor.next
        elif self.group is not None:
            at = max(self.group.positions[partition.index], partition.first)
        else:
            return True
        return self.end_at.is_reached(partition, at, self.context.now_ms)

    def say_end(self) -> None:
        """Sends the last MESSAGE."""
        self.readers.timed.pop(self, None)
        self.end_at.settle([partition.next for partition in self.log.partitions])
        for cursor in self.cursors.values():
            cursor.end = self.end_at.offsets[cursor.index]
        context, subscription = self.context, self.subscription
        connection = subscription.connection
        message = Message(self.name, b"", ESCAPING_ALL, b"", context.now_ms)
        name = subscription.name if subscription.is_named else None
        message_id = context.message_id(context.next_position())
        connection.post(
            context, Deliver(connection.number, name, message_id, message, False, log=EndOfLog()), message.size, None
        )

    # ---- what becomes of a record that is out -----------------------------------------------------------------------

    def ack(self, delivery: Delivery, event: Event = Event.ACK) -> None:
        """Marks the record as processed; a group's position may move."""
        record = self.left(delivery)
        move(record, event, MEMORY_MOVES)
        if self.group is not None:
            self.group.done(record.cursor, record.offset)
        self.settled(record.cursor)

    def give_back(self, delivery: Delivery, event: Event, delay_ms: int | None = None) -> None:
        """Lets the record be delivered again: to this subscription or, where that has ended, to the partition's next
        reader.
        """
        record = self.left(delivery)
        move(record, event, MEMORY_MOVES)
        cursor = record.cursor
        if not (self.subscription.is_over or cursor.is_over or cursor.is_leaving):
            if not record.is_stub:
                self.weigh(record.size)
            record.redelivered = True
            record.redeliveries += 1
            heapq.heappush(self.returned, (record.offset * PARTITIONS_MAX + record.cursor.index, record))
        self.settled(record.cursor)

    def reject(self, delivery: Delivery) -> None:
        """Counts the record as acked."""
        self.ack(delivery)

    def left(self, delivery: Delivery) -> Record:
        record = delivery.entry
        assert isinstance(record, Record)
        self.left_out(record)
        if not record.is_stub:
            self.readers.out -= record.size
        record.cursor.out -= 1
        return record

    def settled(self, cursor: Cursor) -> None:
        if self.group is not None and not cursor.out:
            self.group.settled(cursor)

    # ---- numbers ----------------------------------------------------------------------------------------------------

    @property
    def waiting_count(self) -> int:
        return len(self.ready) + len(self.unsent)

    @property
    def memory_bytes(self) -> int:
        return self.held_bytes


def _is_of(entry: Entry, cursor: Cursor) -> bool:
    return isinstance(entry, Record) and entry.cursor is cursor
