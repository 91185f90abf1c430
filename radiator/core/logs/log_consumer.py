"""Who reads a log: a queue of one subscription's own, which is filled with what is read back.

Windows, unacked messages, NACKs and timeouts are those of any queue. Nothing of it is on the disk but a group's
position (../groups.py). `ack:auto` needs nothing of all that: what is handed to the connection is done with.
"""

import heapq
from collections import deque
from functools import partial

from radiator.core.connections import MESSAGE_COST_BYTES, Delivery, Subscription
from radiator.core.logs.groups import Group
from radiator.core.logs.log import Log, Partition
from radiator.core.queues.entry import Entry, Stub
from radiator.core.queues.queue import Queue
from radiator.core.states import MEMORY_MOVES, Event, State, move
from radiator.core.turn import TurnContext
from radiator.model.commands import AUTO, END, LATEST, OFFSET, TIME, LoadedLog, Subscribe
from radiator.model.errors import Refusal, StoreError, count_text
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import (
    LOAD_BYTES,
    LOAD_MESSAGES,
    PARTITIONS_MAX,
    READERS_BYTES,
    RECORD_BYTES,
    RECORDS_PER_TURN,
    WATCHED_MAX,
)
from radiator.model.message import Message
from radiator.model.replies import Deliver, EndOfLog, RecordPlace, Refuse


class LogConsumers:
    """The readers of all logs. size: bytes of what was read and not handed out yet; out: of what is unacked, and
    out_max: past it only places are kept, and what comes back is read again. tails_bytes: of the last records that logs
    keep in memory. positions: of all groups, one for each partition. ahead: records that groups have acked beyond their
    positions. watched: partitions that are read, by all that read them. timed: those with an end that time may bring.
    due: who goes on in the next turn, since this one has handed out enough.
    """

    __slots__ = (
        "ahead", "all", "context", "due", "handed", "handed_turn", "out", "out_max", "positions", "size", "tails_bytes",
        "timed", "watched",
    )  # fmt: skip

    def __init__(self, context: TurnContext, out_max: int) -> None:
        self.context = context
        self.out_max = out_max
        self.all: dict[LogConsumer, None] = {}
        self.timed: dict[LogConsumer, None] = {}
        self.due: dict[LogConsumer, None] = {}
        self.size = 0
        self.out = 0
        self.positions = 0
        self.ahead = 0
        self.watched = 0
        self.tails_bytes = 0
        self.handed = self.handed_turn = 0

    @property
    def memory_bytes(self) -> int:
        return self.size + self.out + self.tails_bytes

    def left(self) -> int:
        """How many records may still be handed out in this turn; larger ones count as several."""
        turn = self.context.turn_number
        if self.handed_turn != turn:
            self.handed_turn, self.handed = turn, 0
        return RECORDS_PER_TURN - self.handed

    def end_turn(self) -> None:
        """Those whom a turn has left waiting: they come in their order, whoever else has had something."""
        self.handed = 0
        for reader in list(self.due):
            if self.left() <= 0:
                return
            del self.due[reader]
            reader.pump()

    def ticked(self) -> None:
        for reader in list(self.timed):
            reader.pump()

    def forget(self, reader: "LogConsumer") -> None:
        """It is over."""
        if reader in self.all:
            del self.all[reader]
            self.watched -= reader.watched
        self.timed.pop(reader, None)
        self.due.pop(reader, None)


class Cursor:
    """How far a reader has come in a partition. began: its first offset; next: the offset to be read; end: where it
    stops, or None; from_ms: it passes over all before the first record that was accepted then or later; out: how many
    are unacked; is_leaving: another reader of the group gets it when there are none; skipped: how many records the
    group has missed, as long as nobody has heard of it.
    """

    __slots__ = (
        "began",
        "end",
        "from_ms",
        "index",
        "is_leaving",
        "is_over",
        "next",
        "out",
        "partition",
        "reader",
        "skipped",
    )

    def __init__(self, reader: "LogConsumer", partition: Partition, first: int, end: int | None, from_ms: int) -> None:
        self.reader = reader
        self.partition = partition
        self.index = partition.index
        self.began = self.next = first
        self.end = end
        self.from_ms = from_ms
        self.out = 0
        self.skipped = 0
        self.is_leaving = False
        self.is_over = False

    @property
    def has_more(self) -> bool:
        """Whether there are records that it has not read."""
        return self.next < self.partition.committed and (self.end is None or self.next < self.end)


class Record(Entry):
    """A record that is out with a reader, or about to be. Its position is a new one at each delivery; skipped: how many
    records its group has missed before it.
    """

    __slots__ = ("cursor", "offset", "skipped")

    def __init__(self, cursor: Cursor, offset: int, message: Message, redelivered: bool, skipped: int = 0) -> None:
        super().__init__(0, message, State.READY, message.size, 0, redelivered)
        self.cursor = cursor
        self.offset = offset
        self.skipped = skipped

    @property
    def place(self) -> RecordPlace:
        """What its reader is told of it."""
        return RecordPlace(self.cursor.index, self.offset, self.skipped)


class LogConsumer(Queue):
    """See above. cursors: by partition. behind: those that have something to read. is_auto: what it has read is in
    `unsent`, otherwise in `ready`. until: as it was said; ends: an offset for each partition, None where none is known.
    """

    __slots__ = (
        "behind", "cursors", "ends", "firsts", "group", "held_bytes", "is_auto", "is_loading", "is_persistent", "log",
        "partition", "readers", "subscription", "unsent", "until",
    )  # fmt: skip

    moves = MEMORY_MOVES
    is_timed = False  # a record is read again however old it is
    subscription: Subscription

    def __init__(self, log: Log, command: Subscribe, readers: LogConsumers) -> None:
        """Raises Refusal for what cannot be subscribed to."""
        _check(log, command)
        super().__init__(log.name, log.settings, log.ports)
        self.log = log
        self.readers = readers
        self.partition = command.partition
        self.until = command.until
        self.is_auto = command.ack == AUTO
        self.is_persistent = command.group is not None  # so the RECEIPT of an ACK waits for the position
        self.is_loading = False
        self.held_bytes = 0
        self.cursors: dict[int, Cursor] = {}
        self.behind: dict[Cursor, None] = {}
        self.group: Group | None = None
        self.unsent: deque[tuple[RecordPlace, Message]] = deque()
        self.firsts = _firsts(log, command)
        self.ends = _ends(log, command)

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
        """It has its place; nothing is read before `join`. Raises Refusal."""
        log, name, firsts = self.log, command.group, self.firsts
        self.subscription = subscription
        if self.readers.watched + self.watched > WATCHED_MAX:
            raise Refusal(
                "too-many-subscriptions",
                f"All that read logs read {self.readers.watched} partitions, each counted as often as it is read: "
                f"{self.watched} more of {log.name} are too many.",
            )
        from_ms = command.start[1] if command.start is not None and command.start[0] == TIME else 0
        if name is None:
            for index, first in enumerate(firsts):
                if self.partition in (None, index):
                    self.attach(Cursor(self, log.partitions[index], first, self.ends[index], from_ms))
        else:
            is_new = name not in log.groups
            self.group = group = log.group(name, lambda: firsts)
            if is_new and from_ms:
                group.from_ms = dict.fromkeys(range(len(firsts)), from_ms)
        self.readers.all[self] = None
        self.readers.watched += self.watched
        if self.until is not None:
            self.readers.timed[self] = None

    def join(self, subscription: Subscription) -> None:
        if self.group is not None and self not in self.group.members and not subscription.is_over:
            self.group.join(self)
        super().join(subscription)

    def take(self, index: int) -> Cursor:
        """The group gives it this partition."""
        group, partition = self.group, self.log.partitions[index]
        assert group is not None
        cursor = Cursor(self, partition, 0, self.ends[index], group.from_ms.get(index, 0))
        self.begin_with_what_is_kept(cursor, group)
        self.attach(cursor)
        if self.subscription.is_listed:
            self.readers.due[self] = None
        return cursor

    def begin_with_what_is_kept(self, cursor: Cursor, group: Group) -> None:
        """Where the group goes on, and how many records it has missed."""
        first = cursor.partition.first
        cursor.began = cursor.next = group.begin(cursor.index, first)
        cursor.skipped = group.missed(cursor.index, first)

    def attach(self, cursor: Cursor) -> None:
        self.cursors[cursor.index] = cursor
        cursor.partition.cursors[cursor] = None
        if cursor.has_more:
            self.behind[cursor] = None

    def drop(self, cursor: Cursor) -> None:
        """It reads this partition no more; nothing of it is unacked, or matters."""
        del self.cursors[cursor.index]
        del cursor.partition.cursors[cursor]
        self.behind.pop(cursor, None)
        cursor.is_over = True
        if not cursor.partition.cursors:
            self.log.clear_tail(cursor.partition)
        self.drop_ready(cursor)
        if not self.cursors and self.subscription.is_over:
            self.end()

    def yield_partition(self, cursor: Cursor) -> None:
        """Another reader of the group gets the partition when nothing of it is unacked."""
        cursor.is_leaving = True
        self.behind.pop(cursor, None)
        self.drop_ready(cursor)

    def drop_ready(self, cursor: Cursor) -> None:
        """What it has of that partition beyond what is out, somebody else reads."""
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
        self.readers.forget(self)
        self.unsent.clear()
        self.behind.clear()
        self.weigh(-self.held_bytes)
        self.out_bytes = 0

    def weigh(self, size: int) -> None:
        """So much more was read and not handed out."""
        self.held_bytes += size
        self.readers.size += size

    # ---- what it reads ----------------------------------------------------------------------------------------------

    def grown(self, cursor: Cursor) -> None:
        """Its partition has more; the caller pumps."""
        if cursor.has_more:
            self.behind[cursor] = None

    def refill(self, is_needed: bool = False) -> None:
        """The next stretch, of one partition after the other: from memory, or one at a time from the disk."""
        is_crowded = self.readers.size > READERS_BYTES
        most = 0 if is_crowded else LOAD_MESSAGES // 2
        while not self.is_loading and not self.is_gone and len(self.ready) + len(self.unsent) <= most:
            cursor = self.next_behind()
            if cursor is None:
                return
            del self.behind[cursor]
            count = LOAD_MESSAGES if cursor.end is None else min(LOAD_MESSAGES, cursor.end - cursor.next)
            there = self.log.in_tail(cursor.partition, cursor.next, count)
            if not there:
                self.ask(cursor, count, 1 if is_crowded else LOAD_BYTES)
                return
            for offset, message in enumerate(there, cursor.next):
                self.take_record(cursor, offset, message)
            self.went_on(cursor)

    def ask(self, cursor: Cursor, messages_max: int, bytes_max: int) -> None:
        """Have so much read back."""
        self.is_loading = True
        asked_at = cursor.partition.committed

        def loaded(answer: LoadedLog) -> None:
            self.loaded(cursor, asked_at, answer)

        self.log.read(cursor.index, cursor.next, messages_max, bytes_max, loaded)

    def next_behind(self) -> Cursor | None:
        """The partition whose turn it is."""
        group = self.group
        for cursor in list(self.behind):
            if cursor.is_leaving or not cursor.has_more:
                del self.behind[cursor]
            elif group is None or not group.is_far_ahead(cursor):
                return cursor
        return None

    def went_on(self, cursor: Cursor) -> None:
        """After each stretch: behind the others, if there is more."""
        if cursor.has_more and not cursor.is_leaving:
            self.behind[cursor] = None

    def loaded(self, cursor: Cursor, asked_at: int, answer: LoadedLog) -> None:
        """What was read back is committed, or it could not have been read."""
        self.is_loading = False
        if self.is_gone:
            return
        if cursor.is_over or cursor.is_leaving:
            self.pump()
            return
        records = answer.records
        first = records[0].offset if records else asked_at
        if first > cursor.next:
            if cursor.next < cursor.partition.first:
                if self.group is None or cursor.next > cursor.began:
                    self.overtaken(cursor)
                    return
                # it has had nothing yet, and hears what it has missed: as if it had come a moment later
                self.begin_with_what_is_kept(cursor, self.group)
                self.went_on(cursor)
                self.pump()
                return
            raise StoreError(f"partition {cursor.index} of {self.name} has no record {cursor.next}, but later ones")
        for record in records:
            if record.message is None:
                self.pass_over(cursor, record.offset + 1)
            else:
                self.take_record(cursor, record.offset, record.message)
        self.went_on(cursor)
        self.pump()

    def pass_over(self, cursor: Cursor, end: int) -> None:
        """Records before that are damaged."""
        self.tell_damaged(cursor, cursor.next, end - cursor.next)
        cursor.next = end

    def tell_damaged(self, cursor: Cursor, first: int, count: int) -> None:
        """Nobody gets these; for the group they are done."""
        self.log.damaged += count
        self.context.note(
            "error", "damaged_log", log=self.log.bare_name, partition=cursor.index, offset=first, records=count
        )
        if self.group is not None:
            for offset in range(first, first + count):
                self.group.done(cursor, offset)

    def take_record(self, cursor: Cursor, offset: int, message: Message) -> None:
        """It is READY, unless it is before the beginning, behind the end, or acked."""
        group = self.group
        if cursor.end is None and self.until is not None and self.is_past(message):
            cursor.end = self.ends[cursor.index] = offset
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

    def is_past(self, message: Message) -> bool:
        """Whether `until` is a time that it was not accepted before."""
        assert self.until is not None
        kind, time_ms = self.until
        return kind == TIME and message.accepted_ms >= time_ms

    def overtaken(self, cursor: Cursor) -> None:
        """Retention has taken what it was to read next: its connection is closed."""
        connection = self.subscription.connection
        if connection.is_closing:
            return
        connection.is_closing = True
        context = self.context
        context.count("log_readers_overtaken")
        context.note("warning", "log_reader_overtaken", connection=connection.number, log=self.log.bare_name)
        sentence = (
            f"Partition {cursor.index} of {self.name} begins with {cursor.partition.first} by now: {cursor.next}, "
            "which this subscription was to get next, is gone."
        )
        connection.say(context, Refuse(connection.number, "no-such-offset", sentence))

    # ---- out --------------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Hand out what is there while there is room, and time in this turn."""
        if not self.ring:
            return
        subscription, readers = self.subscription, self.readers
        left = readers.left()
        while True:
            if not (self.unsent or self.ready or self.returned):
                self.refill()
                if not (self.unsent or self.ready):
                    if self.ready_for_end:
                        self.say_end()
                    return
            if self.returned and self.returned[0][1].is_stub:
                self.read_again(self.returned[0][1])
                return
            if not subscription.has_room():
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
        self.refill()

    def hand(self, most: int) -> int:
        """What is acked by being sent: as many as the outgoing buffer takes. How much of `left` that was."""
        subscription, context, unsent = self.subscription, self.context, self.unsent
        connection = subscription.connection
        connection.last_own_place = subscription.place
        name = subscription.name if subscription.is_named else None
        number, room = connection.number, connection.outbox_max_bytes - connection.outbox_bytes
        most = min(most, len(unsent))
        given = size = 0
        while given < most and room > 0:
            place, message = unsent.popleft()
            bytes_ = len(message.headers) + len(message.body)
            connection.post(
                context,
                Deliver(number, name, context.message_id(context.next_position()), message, False, log=place),
                bytes_,
                None,
            )
            room -= bytes_ + MESSAGE_COST_BYTES
            size += bytes_
            given += 1
        self.weigh(-size)
        return given + size // RECORD_BYTES

    def take_head(self) -> Record:
        """The record that is next, with a place of its own for this delivery."""
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
        """What is next has come back, and its bytes are on the disk alone."""
        if self.is_loading:
            return
        assert isinstance(record, Record)
        self.is_loading = True
        self.log.read(record.cursor.index, record.offset, 1, 1, partial(self.read_back, record))

    def read_back(self, record: "Record", answer: LoadedLog) -> None:
        """It is as it was, unless it is damaged, or retention has taken it."""
        self.is_loading = False
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
            self.tell_damaged(cursor, record.offset, 1)
        self.pump()

    @property
    def ready_for_end(self) -> bool:
        """Whether all that it will ever get has been sent."""
        return (
            self.until is not None
            and not self.is_loading
            and not self.subscription.connection.is_closing
            and all(
                self.is_at_end(partition)
                for partition in self.log.partitions
                if self.partition in (None, partition.index)
            )
        )

    def is_at_end(self, partition: Partition) -> bool:
        """Of that partition; in a group another reader may have it."""
        assert self.until is not None
        cursor, end = self.cursors.get(partition.index), self.ends[partition.index]
        if cursor is not None:
            at = cursor.next
        elif self.group is not None:
            at = max(self.group.positions[partition.index], partition.first)
        else:
            return True
        if end is not None:
            return at >= end
        # what will be accepted is accepted later than that
        return self.context.now_ms >= self.until[1] and at >= partition.next

    def say_end(self) -> None:
        """The last MESSAGE."""
        self.until = None
        self.readers.timed.pop(self, None)
        nexts = [partition.next for partition in self.log.partitions]
        self.ends = [end if known is None else known for known, end in zip(self.ends, nexts, strict=True)]
        for cursor in self.cursors.values():
            cursor.end = self.ends[cursor.index]
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
        """Done with; a group's position may move."""
        record = self.left(delivery)
        move(record, event, MEMORY_MOVES)
        if self.group is not None:
            self.group.done(record.cursor, record.offset)
        self.settled(record.cursor)

    def give_back(self, delivery: Delivery, event: Event, delay_ms: int | None = None) -> None:
        """It comes again: to this subscription, or, where that is over, to who gets the partition next."""
        record = self.left(delivery)
        move(record, event, MEMORY_MOVES)
        cursor = record.cursor
        if not (self.subscription.is_over or cursor.is_over or cursor.is_leaving):
            if not record.is_stub:
                self.weigh(record.size)
            record.redelivered = True
            record.redeliveries += 1
            self.redelivered += 1
            heapq.heappush(self.returned, (record.offset * PARTITIONS_MAX + record.cursor.index, record))
        self.settled(record.cursor)

    def reject(self, delivery: Delivery) -> None:
        """It counts as acked."""
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
    def ready_count(self) -> int:
        return len(self.ready) + len(self.returned)

    @property
    def memory_bytes(self) -> int:
        return self.held_bytes


def _is_of(entry: Entry, cursor: Cursor) -> bool:
    return isinstance(entry, Record) and entry.cursor is cursor


# ---- what a SUBSCRIBE may say ---------------------------------------------------------------------------------------


def _check(log: Log, command: Subscribe) -> None:
    """Raises Refusal for what does not go with a log, or with that one."""
    count = len(log.partitions)
    wrong = ""
    if command.exclusive:
        wrong = "`exclusive` is for queues: a reader of a log takes nothing away from others"
    elif command.group is not None and command.ack == AUTO:
        wrong = "a group's position is moved by ACK: `group` needs ack:client or client-individual"
    if wrong:
        raise Refusal("protocol", f"{log.name}: {wrong}.")
    if command.partition is not None and not 0 <= command.partition < count:
        raise Refusal(
            "no-such-offset", f"{log.name} has {count_text(count, 'partition')}, from 0 on: not {command.partition}."
        )
    for name, place in (("from", command.start), ("until", command.until)):
        if place is not None and place[0] == OFFSET and command.partition is None and count > 1:
            raise Refusal(
                "protocol", f"{log.name} has {count} partitions: `{name}:offset:{place[1]}` needs `partition` too."
            )


def _firsts(log: Log, command: Subscribe) -> list[int]:
    """Where to begin in each partition. Raises Refusal."""
    kind, number = command.start or (LATEST, 0)
    partitions = log.partitions
    if kind == LATEST:
        return [partition.next for partition in partitions]
    if kind == TIME:
        return [max(partition.first, partition.segment_at(number)) for partition in partitions]
    firsts = [partition.first for partition in partitions]
    if kind == OFFSET:
        asked = partitions[command.partition or 0]
        has_position = command.group is not None and command.group in log.groups
        if not (asked.first <= number <= asked.next or has_position):
            raise Refusal(
                "no-such-offset",
                f"Partition {asked.index} of {log.name} has the records from {asked.first} on, and the next will be "
                f"{asked.next}: it cannot be read from {number} on.",
            )
        firsts[asked.index] = number
    return firsts


def _ends(log: Log, command: Subscribe) -> list[int | None]:
    """Where to stop in each partition, as far as that is known."""
    kind, number = command.until or (None, 0)
    if kind == END:
        return [partition.next for partition in log.partitions]
    ends: list[int | None] = [None] * len(log.partitions)
    if kind == OFFSET:
        ends[command.partition or 0] = number
    return ends
