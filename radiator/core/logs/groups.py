"""A group of readers of one log: its position in each partition, and which of its readers has which partition.

A position is the first offset that is not acked. It is on the disk; acks beyond it are not, so those records are
delivered again after a restart. A partition has one reader at a time, which changes only when none of it is unacked.
"""

from collections import defaultdict
from typing import Protocol

from radiator.core.logs.log_consumers import LogConsumers
from radiator.core.logs.partition import Cursor, PartitionReader
from radiator.core.turn import WRITE_COST_BYTES, QueueChanges, TurnContext
from radiator.model.limits import AHEAD_MAX, GROUP_AHEAD_MAX
from radiator.model.writes import KeepPosition

POSITION_BYTES = 8  # what each partition's costs in a batch


class GroupedLog(Protocol):
    """The log that a group reads."""

    number: int
    context: TurnContext
    readers: LogConsumers


class Member(PartitionReader, Protocol):
    """A reader of the group. partition: the only one that it may read, or None. cursors: those that it has."""

    partition: int | None
    cursors: dict[int, Cursor]

    def take(self, index: int) -> Cursor:
        """Gives it this partition to read."""


class Group:
    """positions: see above. read: by partition, the offset up to which records may have been delivered before. acked:
    offsets acked beyond the position. from_ms: records before the first that was accepted then or later are passed
    over. owners: the cursor that reads each partition; its reader may have ended, while something is unacked. is_kept:
    its positions are on the disk, or about to be.
    """

    __slots__ = ("acked", "from_ms", "is_kept", "log", "members", "name", "owners", "positions", "read")

    def __init__(
        self, log: GroupedLog, name: str, positions: list[int], read: list[int], is_kept: bool = False
    ) -> None:
        self.log = log
        self.is_kept = is_kept
        self.name = name
        self.positions = positions
        self.read = read
        self.acked: defaultdict[int, set[int]] = defaultdict(set)
        self.from_ms: dict[int, int] = {}
        self.members: dict[Member, None] = {}
        self.owners: dict[int, Cursor] = {}

    # ---- positions --------------------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Stores all of its positions at once, with the open batch."""
        context = self.log.context
        if self not in context.open.parts:
            context.part(self)
            context.open.size += WRITE_COST_BYTES + len(self.positions) * POSITION_BYTES

    def unawaited(self, part: QueueChanges) -> int:
        return 0

    def as_write(self) -> KeepPosition:
        self.is_kept = True
        return KeepPosition(self.log.number, self.name, list(self.positions))

    def committed(self, part: QueueChanges) -> None:
        """Does nothing: only RECEIPTs wait for the batch."""

    def move(self, positions: list[int]) -> None:
        """Sets its positions, while it has no readers."""
        self.positions = list(positions)
        self.read = list(positions)
        self.forget_acked()
        self.from_ms.clear()
        self.keep()

    def done(self, cursor: Cursor, offset: int) -> None:
        """Called when a record was acked, or passed over."""
        partition = cursor.index
        if self.positions[partition] < cursor.began:
            self.skip(partition, cursor.began)
        position = self.positions[partition]
        if offset == position:
            self.advance(partition, offset + 1)
        elif offset > position and offset not in self.acked[partition]:
            self.acked[partition].add(offset)
            self.log.readers.ahead += 1

    def advance(self, partition: int, offset: int) -> None:
        """Moves the position behind all records before that offset, and those acked from there on without a gap."""
        acked = self.acked.get(partition)
        while acked and offset in acked:
            acked.discard(offset)
            self.log.readers.ahead -= 1
            offset += 1
        self.positions[partition] = offset
        # D26: in the batch that the RECEIPT of the ACK waits for
        self.keep()

    def begin(self, partition: int, first: int) -> int:
        """Returns the offset at which a new reader of the partition begins: not below `first`, and not acked."""
        offset, acked = max(self.positions[partition], first), self.acked.get(partition, ())
        while offset in acked:
            offset += 1
        return offset

    def missed(self, partition: int, first: int) -> int:
        """Returns how many records that it has not acked are no longer kept."""
        acked = sum(offset < first for offset in self.acked[partition])
        return max(0, first - self.positions[partition] - acked)

    def skip(self, partition: int, first: int) -> None:
        """Continues at `first`: the gap before it has been reported to a reader of the group."""
        before = len(self.acked[partition])
        self.acked[partition] = {offset for offset in self.acked[partition] if offset >= first}
        self.log.readers.ahead -= before - len(self.acked[partition])
        self.advance(partition, first)

    def forget_acked(self) -> None:
        """Forgets which records beyond the positions are acked."""
        self.log.readers.ahead -= sum(map(len, self.acked.values()))
        self.acked.clear()

    def is_far_ahead(self, cursor: Cursor) -> bool:
        """Whether so much was read beyond the first unacked record that no more may be read."""
        most = GROUP_AHEAD_MAX
        if self.log.readers.ahead >= AHEAD_MAX and self.acked[cursor.index]:
            most = 1  # what is not acked is read, and no more
        return cursor.next - max(cursor.began, self.positions[cursor.index]) >= most

    # ---- who has which ----------------------------------------------------------------------------------------------

    def join(self, reader: Member) -> None:
        """Adds a reader."""
        self.members[reader] = None
        self.balance()

    def leave(self, reader: Member) -> None:
        """Removes a reader; what it has unacked stays with its connection until that is settled."""
        self.members.pop(reader, None)
        for cursor in list(reader.cursors.values()):
            self.let_go(cursor)
        self.balance()

    def settled(self, cursor: Cursor) -> None:
        """Called when nothing of the partition is unacked any more."""
        if cursor.is_leaving:
            self.release(cursor)
            self.balance()

    def let_go(self, cursor: Cursor) -> None:
        """Takes the partition from its reader, now or when nothing of it is unacked."""
        if cursor.out:
            cursor.reader.yield_partition(cursor)
        else:
            self.release(cursor)

    def release(self, cursor: Cursor) -> None:
        del self.owners[cursor.index]
        cursor.reader.drop(cursor)

    def balance(self) -> None:
        """Gives each partition a reader, so that none has two partitions more than another."""
        if not self.members:
            return
        members = [member for member in self.members if member.partition is None]
        those_of: dict[int, list[Member]] = {}
        for member in self.members:
            if member.partition is not None:
                those_of.setdefault(member.partition, []).append(member)
        for index in range(len(self.positions)) if members else those_of:
            if index not in self.owners:
                wanted = [*members, *those_of.get(index, ())]
                self.owners[index] = min(wanted, key=_share).take(index)
        while members:
            most, least = max(members, key=_share), min(members, key=_share)
            if _share(most) - _share(least) < 2:
                return
            held = [cursor for cursor in most.cursors.values() if not cursor.is_leaving]
            cursor = min(held, key=_out)
            self.let_go(cursor)
            if cursor.is_leaving:
                return  # the rest follows when its reader has left it
            self.owners[cursor.index] = least.take(cursor.index)


def _share(reader: Member) -> int:
    return sum(not cursor.is_leaving for cursor in reader.cursors.values())


def _out(cursor: Cursor) -> int:
    return cursor.out
