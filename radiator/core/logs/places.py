"""Says what a SUBSCRIBE to a log may ask for: where to begin, and where to stop."""

from radiator.core.logs.log import Log
from radiator.core.logs.partition import Partition
from radiator.model.commands import AUTO, END, LATEST, OFFSET, TIME, Subscribe
from radiator.model.errors import Refusal, count_text
from radiator.model.message import Message


def check(log: Log, command: Subscribe) -> None:
    """Raises Refusal for what does not go with a log, or with that one."""
    count = len(log.partitions)
    wrong = ""
    if command.exclusive:
        wrong = "`exclusive` is for queues: a reader of a log takes nothing away from others"
    elif command.consumer_priority:
        wrong = "`consumer-priority` is for queues: a reader of a log takes nothing away from others"
    elif command.group is not None and command.ack == AUTO:
        wrong = "a group's position is moved by ACK: `group` needs ack:client or client-individual"
    if wrong:
        raise Refusal("protocol", f"{log.name}: {wrong}.")
    if command.partition is not None and not 0 <= command.partition < count:
        raise Refusal(
            "no-such-offset",
            f"{log.name} has {count_text(count, 'partition')}, numbered from 0, and no partition {command.partition}.",
        )
    for index in command.offsets or ():
        if index >= count:
            raise Refusal(
                "no-such-offset",
                f"{log.name} has {count_text(count, 'partition')}, numbered from 0, and no partition {index}.",
            )
    if command.offsets_max and command.partition is None and count > command.offsets_max:
        raise Refusal(
            "protocol",
            f"{log.name} has {count} partitions: at most {command.offsets_max} are read together in this way; name one "
            "by `partition`.",
        )
    for name, place in (("from", command.start), ("until", command.until)):
        if place is not None and place[0] == OFFSET and command.partition is None and count > 1:
            raise Refusal(
                "protocol", f"{log.name} has {count} partitions: `{name}:offset:{place[1]}` needs `partition` too."
            )


def firsts(log: Log, command: Subscribe) -> list[int]:
    """Returns where to begin in each partition. Raises Refusal."""
    kind, number = command.start or (LATEST, 0)
    partitions = log.partitions
    if command.offsets is not None:
        asked_of = partitions if command.partition is None else [partitions[command.partition]]
        found = [partition.first for partition in partitions]
        for partition in asked_of:
            found[partition.index] = _kept(log, partition, command.offsets.get(partition.index, 0))
        return found
    if kind == LATEST:
        return [partition.next for partition in partitions]
    if kind == TIME:
        return [max(partition.first, partition.segment_at(number)) for partition in partitions]
    offsets = [partition.first for partition in partitions]
    if kind == OFFSET:
        asked = partitions[command.partition or 0]
        has_position = command.group is not None and command.group in log.groups
        offsets[asked.index] = number if has_position else _kept(log, asked, number)
    return offsets


def _kept(log: Log, partition: Partition, offset: int) -> int:
    """Returns that offset. Raises Refusal where the partition no longer has it, or not yet."""
    if not partition.first <= offset <= partition.next:
        raise Refusal(
            "no-such-offset",
            f"Partition {partition.index} of {log.name} has the records from {partition.first} on, and the next will "
            f"be {partition.next}: it cannot be read from {offset} on.",
        )
    return offset


class End:
    """The place where a reader stops. until: as its SUBSCRIBE says; offsets: for each partition, None if not known.
    is_awaited: it has an end that has not been reached.
    """

    __slots__ = ("is_awaited", "offsets", "until")

    def __init__(self, log: Log, command: Subscribe) -> None:
        self.until = command.until
        self.is_awaited = command.until is not None
        self.offsets: list[int | None] = [None] * len(log.partitions)
        kind, number = command.until or (None, 0)
        if kind == END:
            self.offsets = [partition.next for partition in log.partitions]
        elif kind == OFFSET:
            self.offsets[command.partition or 0] = number

    def is_past(self, message: Message) -> bool:
        """Whether reading ends at a time, and the record was accepted then or later."""
        if not self.is_awaited or self.until is None:
            return False
        kind, time_ms = self.until
        return kind == TIME and message.accepted_ms >= time_ms

    def is_reached(self, partition: Partition, at: int, now_ms: int) -> bool:
        """Whether a reader that has come so far has had all of that partition."""
        end = self.offsets[partition.index]
        if end is not None:
            return at >= end
        assert self.until is not None, "only who has an end asks"
        # what will be accepted is accepted later than that
        return now_ms >= self.until[1] and at >= partition.next

    def settle(self, nexts: list[int]) -> None:
        """Called when the end is reached: what comes from now on is behind it."""
        self.is_awaited = False
        self.offsets = [end if known is None else known for known, end in zip(self.offsets, nexts, strict=True)]
