"""A log: records are appended, and reading does not remove them.

A record's place is its partition and its offset there. Of a partition the broker keeps the segments in memory, and no
single records except the last few while it has readers. Readers see a record once it is committed.
Its readers: log_consumer.py. What is removed, and when: retention.py.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from zlib import crc32

from radiator.core.journal_writer import JournalWriter
from radiator.core.logs.groups import Group
from radiator.core.logs.log_consumers import LogConsumers
from radiator.core.logs.partition import Partition, PartitionReader
from radiator.core.logs.waiters import Waiters
from radiator.core.producer import Producer
from radiator.core.queues.dedup import Dedup
from radiator.core.queues.windows import Windows
from radiator.core.turn import WRITE_COST_BYTES, QueueChanges, TurnContext
from radiator.core.usage import Usage
from radiator.model.errors import Refusal, count_text
from radiator.model.headers import PARTITION_KEY
from radiator.model.journal import CameFrom, JournalEvent
from radiator.model.keys import HEADER, KeySource
from radiator.model.limits import (
    AWAITED_OFFSETS_MAX,
    AWAITS_OF_ONE_MAX,
    EVENT_BYTES,
    GROUPS_MAX,
    LOAD_BYTES,
    LOAD_MESSAGES,
    POSITIONS_MAX,
    SEGMENT_BYTES,
    SEGMENT_RECORDS,
    SEGMENTS_MIN,
    TAIL_BYTES,
)
from radiator.model.message import Message
from radiator.model.reads import LoadedLog, ReadLog
from radiator.model.recovery import StoredLog
from radiator.model.replies import MESSAGE_COST_BYTES
from radiator.model.settings import JOURNAL, LogSettings, QueueSettings
from radiator.model.validation import RESERVED_LOGS
from radiator.model.writes import Append, AppendEvent, DropPosition, KeepSegment, KeepSegments, Ledger

LOG_PREFIX = "/log/"  # so a log is named where a queue may be: in a fanout's children, in a binding
SETTINGS = QueueSettings()  # what is asked of any target: no bounds, no dedup-ids, no dead letters; but a schema
_OF_HEADER = KeySource((HEADER + PARTITION_KEY.name.decode(),))
_row = attrgetter(*(field.name for field in fields(KeepSegment)))  # copy.copy takes ten times as long, in each batch


def is_reserved_log(name: str) -> bool:
    """Whether the broker alone appends to a log of that name, whoever has made it."""
    return name == JOURNAL or name.startswith(RESERVED_LOGS)


class Log:
    """See above. A Target without bounds, which keeps nothing back; who reads it is a LogConsumer."""

    __slots__ = (
        "bare_name", "context", "damaged", "groups", "is_declared", "is_gone", "key_source", "ledger", "log_settings",
        "is_audit", "last", "maker", "name", "number", "partitions", "readers", "reserved", "reserved_bytes", "sealed",
        "segment_bytes", "segment_ms", "settings", "touched", "turns", "waiters", "waiting", "windows",
    )  # fmt: skip

    is_persistent = True
    journal: JournalWriter | None = None  # it is about queues only
    dedup: Dedup | None = None

    def __init__(
        self,
        stored: StoredLog,
        log_settings: LogSettings,
        *,
        context: TurnContext,
        windows: Windows,
        readers: LogConsumers,
    ) -> None:
        self.name = LOG_PREFIX + stored.name
        self.context = context
        self.ledger = Ledger()
        self.waiters: deque[Producer] = deque()
        self.reserved = self.reserved_bytes = 0
        self.damaged = 0
        self.is_declared = self.is_gone = False
        self.maker: Usage | None = None
        self.is_audit = False  # the broker has made it, and nobody else appends to it
        self.bare_name = stored.name
        self.number = stored.number
        self.windows = windows
        self.readers = readers
        self.partitions = [Partition(index) for index in range(log_settings.partitions)]
        for partition in self.partitions:
            partition.recover(segment for segment in stored.segments if segment.partition == partition.index)
        self.groups = {
            kept.group: Group(self, kept.group, kept.offsets, [p.next for p in self.partitions], is_kept=True)
            for kept in stored.positions
        }
        readers.positions += len(self.groups) * len(self.partitions)
        self.turns = 0  # where the next record without a key goes
        # the segments that the open batch changes; and how far the one being committed extends each partition
        self.touched: dict[tuple[int, int], KeepSegment] = {}
        self.sealed: list[tuple[Partition, int]] = []
        self.last = (0, 0)  # where the last record was put: its partition, and its offset there
        self.waiting = Waiters(context)
        self.use(log_settings)

    def use(self, log_settings: LogSettings) -> None:
        """Puts these settings into force."""
        self.log_settings = log_settings
        self.settings = SETTINGS if log_settings.schema is None else QueueSettings(schema=log_settings.schema)
        parts = SEGMENTS_MIN * log_settings.partitions
        bytes_max, ms_max = log_settings.retention_bytes, log_settings.retention_ms
        # what is kept always spans several segments, so that little goes at once
        self.segment_bytes = SEGMENT_BYTES if bytes_max is None else min(SEGMENT_BYTES, max(1, bytes_max // parts))
        self.segment_ms = None if ms_max is None else ms_max // SEGMENTS_MIN
        pointer = log_settings.partition_key
        self.key_source = _OF_HEADER if pointer is None else KeySource((pointer,))

    @property
    def address(self) -> str:
        return self.name

    @property
    def is_reserved(self) -> bool:
        """Whether the broker alone appends to it."""
        return self.is_audit or is_reserved_log(self.bare_name)

    @property
    def incarnation(self) -> str:
        """An id that no other log of this name has had."""
        return f"{self.context.store_id}-{self.number}"

    @property
    def records(self) -> int:
        """How many records are kept."""
        return sum(partition.next - partition.first for partition in self.partitions)

    @property
    def size(self) -> int:
        """The bytes of all records, as whole segments count them."""
        return sum(partition.size for partition in self.partitions)

    # ---- in ---------------------------------------------------------------------------------------------------------

    def take_in(self, message: Message, due_ms: int) -> None:
        """Appends the message at once, whatever the queues of the same plan do."""
        self.put(message)

    def put(self, message: Message, came_from: CameFrom | None = None) -> None:
        """Appends the message to the partition that its key chooses."""
        partition = self.partition_of(message)
        self.last = partition.index, self.append(partition, message)

    def last_id(self) -> bytes:
        return b"%d:%d" % self.last

    def put_handed_over(self, message: Message, redeliveries: int, redelivered: bool, node: str) -> None:
        self.put(message)

    def append(self, partition: Partition, message: Message) -> int:
        """Appends the message and returns its offset. Readers get it when the batch is committed."""
        context, offset, size = self.context, partition.next, message.size
        self.ledger.accepted += 1
        self.ledger.accepted_bytes += size
        self.grow(partition, 1, size, message.accepted_ms)
        # D25: with the segment's counters, in the batch that the RECEIPT waits for
        context.write(Append(self.number, partition.index, offset, message), size + WRITE_COST_BYTES)
        if partition.cursors:
            self.keep_in_tail(partition, offset, message)
        return offset

    def append_events(self, events: list[JournalEvent]) -> None:
        """Appends events of the journal, all of this batch at once."""
        partition, count = self.partitions[0], len(events)
        self.ledger.accepted += count
        size = count * EVENT_BYTES
        offset = partition.next
        self.grow(partition, count, size, self.context.now_ms)
        self.context.write(AppendEvent(self.number, 0, offset, events), size)
        self.clear_tail(partition)

    def grow(self, partition: Partition, count: int, size: int, accepted_ms: int) -> None:
        """Counts that many more records."""
        segments = partition.segments
        segment = segments[-1] if segments else None
        if segment is None or self.is_full(segment, count, size, accepted_ms):
            segment = self.begin_segment(partition)
        self.touch(partition, segment)
        if segment.count == 0:
            segment.first_ms = segment.last_ms = accepted_ms
        elif accepted_ms > segment.last_ms:
            segment.last_ms = accepted_ms
        elif accepted_ms < segment.first_ms:
            segment.first_ms = accepted_ms
        segment.count += count
        segment.size += size
        partition.size += size
        partition.next += count

    def is_full(self, segment: KeepSegment, count: int, size: int, accepted_ms: int) -> bool:
        """Whether that much more must go into the next segment."""
        if segment.count == 0:
            return False
        if segment.count + count > SEGMENT_RECORDS or segment.size + size > self.segment_bytes:
            return True
        return self.segment_ms is not None and accepted_ms - segment.first_ms > self.segment_ms

    def begin_segment(self, partition: Partition) -> KeepSegment:
        """Begins a segment: what is appended from now on belongs to it."""
        segment = KeepSegment(self.number, partition.index, partition.next, partition.next)
        partition.segments.append(segment)
        self.touch(partition, segment)
        return segment

    def touch(self, partition: Partition, segment: KeepSegment) -> None:
        """Stores the segment's row with the open batch."""
        self.touched[partition.index, segment.first] = segment
        self.context.part(self)

    def unawaited(self, part: QueueChanges) -> int:
        return 0

    def as_write(self) -> KeepSegments:
        touched = self.touched
        self.touched = {}
        partitions = {index: self.partitions[index] for index, _ in touched}
        self.sealed = [(partition, partition.next) for partition in partitions.values()]
        return KeepSegments(self.number, [KeepSegment(*_row(segment)) for segment in touched.values()])

    def committed(self, part: QueueChanges) -> None:
        """Lets readers have what the batch has appended."""
        # D25: nothing else lets a reader go further
        for partition, end in self.sealed:
            partition.committed = end
        grown: dict[PartitionReader, None] = {}
        for partition, _ in self.sealed:
            for cursor in partition.cursors:
                cursor.reader.grown(cursor)
                grown[cursor.reader] = None
        for reader in grown:
            reader.pump()
        self.wake_waiting()

    # ---- which partition --------------------------------------------------------------------------------------------

    def partition_of(self, message: Message) -> Partition:
        """Returns the partition: by the message's key, or in turn where it has none."""
        partitions = self.partitions
        if len(partitions) == 1:
            return partitions[0]
        key = self.key_source.key_of(message)
        if key is not None:
            return partitions[crc32(key) % len(partitions)]
        self.turns += 1
        return partitions[(self.turns - 1) % len(partitions)]

    # ---- the last records, in memory --------------------------------------------------------------------------------

    def keep_in_tail(self, partition: Partition, offset: int, message: Message) -> None:
        """Keeps the record in memory, so that a reader that has read all others needs no disk."""
        cost = _tail_cost(message)
        if partition.tail_bytes + cost > LOAD_BYTES or self.readers.tails_bytes + cost > TAIL_BYTES:
            self.clear_tail(partition, keep=len(partition.tail) // 2)
        if self.readers.tails_bytes + cost > TAIL_BYTES or cost > LOAD_BYTES:
            self.clear_tail(partition)
            return
        if not partition.tail:
            partition.tail_first = offset
        partition.tail.append(message)
        partition.tail_bytes += cost
        self.readers.tails_bytes += cost

    def clear_tail(self, partition: Partition, keep: int = 0) -> None:
        """Drops all but that many records of the tail."""
        dropped = partition.tail[: len(partition.tail) - keep]
        size = sum(_tail_cost(message) for message in dropped) if keep else partition.tail_bytes
        del partition.tail[: len(dropped)]
        partition.tail_first += len(dropped)
        partition.tail_bytes -= size
        self.readers.tails_bytes -= size

    def clear_tails(self) -> None:
        """Drops the tails of all partitions."""
        for partition in self.partitions:
            self.clear_tail(partition)

    def in_tail(self, partition: Partition, offset: int, messages_max: int) -> list[Message]:
        """Returns the committed records from there on; none where they must be read from the disk."""
        first = partition.tail_first
        if not partition.tail or offset < first:
            return []
        end = min(offset + messages_max, partition.committed)
        return partition.tail[offset - first : end - first]

    # ---- reading ----------------------------------------------------------------------------------------------------

    def read(
        self, partition: int, offset: int, messages_max: int, bytes_max: int, done: Callable[[LoadedLog], None]
    ) -> None:
        """Asks for records to be read back; `done` gets them."""
        request = self.context.next_position()
        read_request = ReadLog(request, self.number, partition, offset, messages_max, bytes_max)
        self.windows.waiting[request] = done
        self.context.turn.read_requests.append(read_request)

    def find_offsets(self, time_ms: int, done: Callable[[list[int]], None], is_over: Callable[[], bool]) -> None:
        """`done` gets, for each partition, the offset of the first record that was accepted then or later, or, if there
        is none, of the next one to come; any number if is_over() by then. Partitions are read one after another, so
        that the loader serves others too.
        """
        found: list[int] = []

        def look(offset: int | None = None) -> None:
            while len(found) < len(self.partitions):
                partition = self.partitions[len(found)]
                if offset is None:
                    offset = max(partition.first, partition.segment_at(time_ms))
                if offset < partition.committed and not (self.is_gone or is_over()):
                    self.read(partition.index, offset, LOAD_MESSAGES, LOAD_BYTES, looked)
                    return
                found.append(min(offset, partition.committed))
                offset = None
            done(found)

        def looked(answer: LoadedLog) -> None:
            for record in answer.records:
                if record.message is not None and record.message.accepted_ms >= time_ms:
                    found.append(record.offset)
                    look()
                    return
            look(answer.records[-1].offset + 1 if answer.records else self.partitions[len(found)].committed)

        look()

    def wait(self, nexts: list[int], timeout_ms: int, done: Callable[[], None], is_over: Callable[[], bool]) -> None:
        """`done` is called once a partition has committed records beyond `nexts`, or after timeout_ms, unless is_over()
        by then. If too many wait already, the first of them is called at once.
        """
        most = min(AWAITS_OF_ONE_MAX, AWAITED_OFFSETS_MAX // len(self.partitions))
        self.waiting.wait(timeout_ms, most, is_met=lambda: self.has_more_than(nexts), done=done, is_over=is_over)

    def has_more_than(self, nexts: list[int]) -> bool:
        return any(p.committed > known for p, known in zip(self.partitions, nexts, strict=True))

    def wake_waiting(self) -> None:
        """Calls those whose time has come, or who have what they wait for."""
        if self.waiting.all:
            self.waiting.wake(self.is_gone)

    # ---- groups -----------------------------------------------------------------------------------------------------

    def group(self, name: str, positions: Callable[[], list[int]]) -> Group:
        """Returns the group of that name; makes it with those positions where there is none. Raises Refusal."""
        found = self.groups.get(name)
        if found is None:
            if len(self.groups) >= GROUPS_MAX or self.readers.positions + len(self.partitions) > POSITIONS_MAX:
                count, everywhere = len(self.groups), self.readers.positions
                raise Refusal(
                    "too-many-destinations",
                    f"{self.name} has {count} groups, and all logs have {everywhere} positions: the limit is reached.",
                )
            offsets = positions()
            found = self.groups[name] = Group(self, name, offsets, list(offsets))
            self.readers.positions += len(self.partitions)
            found.keep()
        return found

    def set_position(self, name: str, offsets: list[int]) -> None:
        """Sets the position of the group, whether there was one or not. Raises Refusal."""
        if len(offsets) != len(self.partitions):
            raise Refusal(
                "bad-request",
                f"{self.name} has {count_text(len(self.partitions), 'partition')}, and {len(offsets)} offsets "
                "are given: give one for each.",
            )
        for partition, offset in zip(self.partitions, offsets, strict=True):
            if not 0 <= offset <= partition.next:
                raise Refusal(
                    "no-such-offset",
                    f"Partition {partition.index} of {self.name} ends at offset {partition.next}: {offset} is beyond.",
                )
        self.unused(name)
        self.group(name, lambda: offsets).move(offsets)

    def forget(self, name: str) -> bool:
        """Forgets the group; returns whether there was one. Raises Refusal `in-use`."""
        group = self.unused(name)
        if group is None:
            return False
        del self.groups[name]
        group.forget_acked()
        self.readers.positions -= len(self.partitions)
        self.context.open.parts.pop(group, None)
        if group.is_kept:
            self.context.write(DropPosition(self.number, name))
        return True

    def unused(self, name: str) -> Group | None:
        """Returns the group of that name. Raises Refusal where it has subscriptions."""
        group = self.groups.get(name)
        if group is not None and (group.members or group.owners):
            raise Refusal(
                "in-use",
                f"The group {name!r:.80} of {self.name} has {count_text(len(group.members), 'subscription')}: "
                "stop whoever reads for it first.",
            )
        return group

    # ---- out --------------------------------------------------------------------------------------------------------

    def let_go(self, before: int) -> None:
        """Drops what is before that offset of partition 0, for readers; it leaves the disk with its segment."""
        partition = self.partitions[0]
        segments = partition.segments
        for segment in segments:
            if segment.begin >= before:
                break
            segment.begin = min(before, segment.first + segment.count)
            self.touch(partition, segment)

    @property
    def has_readers(self) -> bool:
        """Whether the log has a subscription, or records that are unacked."""
        return any(partition.cursors for partition in self.partitions) or any(
            group.members for group in self.groups.values()
        )

    def end(self) -> None:
        """Ends a deleted log with its groups; `done` of all that wait is called."""
        self.is_gone = True
        self.readers.positions -= len(self.groups) * len(self.partitions)
        for group in self.groups.values():
            group.forget_acked()
        self.clear_tails()
        self.wake_waiting()

    def pump(self) -> None:
        """Does nothing: `committed` serves readers."""

    # ---- as a target ------------------------------------------------------------------------------------------------

    def can_hand(self, count: int) -> bool:
        """True: a log takes what comes, whether or not it is read."""
        return True

    def has_capacity(self, messages: int, size: int) -> bool:
        return True

    def uncounted(self) -> tuple[int, int]:
        return 0, 0

    def check_size(self, size: int) -> None:
        """Does nothing: a log takes what a frame can carry."""

    def judge(self, messages: int, size: int) -> bool:
        return True

    def evict(self, messages: int, size: int) -> None:
        """Does nothing: only retention drops the oldest."""

    def watch_head(self) -> None:
        """Does nothing: records expire by retention alone."""

    def came_in(self) -> None:
        """Does nothing: a log has no bounds."""

    @property
    def memory_bytes(self) -> int:
        return 0


def _tail_cost(message: Message) -> int:
    return message.size + MESSAGE_COST_BYTES
