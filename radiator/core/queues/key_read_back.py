"""Reads back what a partitioned queue has only on the disk: the next stretch beyond its window, and, for keys that have
nothing in memory, what an earlier stretch has passed over.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice

from radiator.core.queues.entry import Entry
from radiator.core.queues.partitions import Partitions
from radiator.core.queues.queue_partition import QueuePartition
from radiator.core.queues.read_back import ReadBack, ReadQueueOwner
from radiator.core.queues.window import Window
from radiator.core.states import State
from radiator.core.turn import TurnContext
from radiator.model.errors import StoreError, count_text
from radiator.model.limits import KEY_MESSAGES, LOAD_MESSAGES, WINDOW_MESSAGES
from radiator.model.reads import KeyMessages, LoadedHeld, LoadedKeys, ReadHeld, ReadKeys

HELD_AT_ONCE = 1000  # how many held keys one read brings, at the start
LOOKED_AT = 1000  # how many keys whose next messages are wanted are looked at for those that are on the disk


@dataclass(slots=True, frozen=True)
class AskedKey:
    """behind: how many messages of the key were to be read when it was asked for; is_certain: all of them were on the
    disk.
    """

    partition: QueuePartition
    behind: int
    is_certain: bool


class KeyReadBack(ReadBack):
    """See ReadBack. is_recovering: it is not known yet which keys are held by messages that were delayed when the
    broker ended; until then nothing is delivered. was_scan: the last read was of a stretch. damaged: positions of what
    was reported as damaged; strays: by hash, how many of these may be of any of several keys.
    """

    __slots__ = ("damaged", "is_recovering", "partitions", "strays", "was_scan")

    def __init__(
        self,
        queue: ReadQueueOwner,
        window: Window,
        context: TurnContext,
        partitions: Partitions,
        *,
        is_recovering: bool,
    ) -> None:
        super().__init__(queue, window, context)
        self.partitions = partitions
        self.is_recovering = is_recovering
        self.was_scan = False
        self.damaged: set[int] = set()
        self.strays: dict[bytes, int] = {}

    def refill(self, is_needed: bool) -> None:
        """Asks for one read at a time: bytes of stubs, keys whose next messages are only on the disk, or the next
        stretch; the last two take turns if both are to be read.
        """
        queue, window, context, partitions = self.queue, self.window, self.context, self.partitions
        if window.is_loading or queue.is_gone:
            return
        if self.is_recovering:
            self.read_held(0)
            return
        partitions.look()
        if window.stubs and (is_needed or partitions.lacking) and self.read_stubs(is_needed):
            return
        # messages that are on their way to the disk may have places among those that would be read
        if queue.delayed.released_in > context.committed:
            return
        is_crowded = window.windows.is_crowded
        if is_crowded and partitions.free and not is_needed:
            return
        may_scan = window.beyond > 0 and not self.wait_for_commit and not window.storing
        keys = [] if may_scan and not self.was_scan and not is_needed else self.next_keys(is_needed)
        self.was_scan = not keys
        if keys:
            self.read_keys(keys, is_crowded)
        elif may_scan:
            self.read_stretch(is_crowded)

    # ---- the next stretch -------------------------------------------------------------------------------------------

    def takes_in(self, entry: Entry) -> None:
        partitions = self.partitions
        partition = partitions.of(entry.message)
        partitions.keep(entry.position, partition)
        # while earlier ones of its key are on the disk alone, it is purged with them: a read of these finds it too, and
        # its Remove may not be on the disk by then
        if not partition.behind and self.queue.purge.takes(entry):
            return
        if partitions.has_place(partition, self.window.count):
            self.window.add(entry.size)
            partitions.put(partition, entry)
        else:
            del partitions.at[entry.position]
            partitions.skip(partition, entry.position, 0)

    # ---- what was passed over ---------------------------------------------------------------------------------------

    @property
    def may_read_ahead(self) -> bool:
        """Whether messages that must still wait may be in memory."""
        return 2 * self.window.count < WINDOW_MESSAGES

    def next_keys(self, is_needed: bool) -> list[AskedKey]:
        """Returns the keys to read now. is_needed, or a purge: whatever else of them is in memory."""
        partitions, committed = self.partitions, self.context.committed
        is_purging = self.queue.purge.through > 0
        wanting: Iterable[QueuePartition] = partitions.behind
        if not is_needed and not is_purging:
            wanting = islice(chain(partitions.wanting, partitions.early if self.may_read_ahead else ()), LOOKED_AT)
        keys = []
        for partition in wanting:
            if partition.behind_from > committed or (is_purging and partition.after >= self.queue.purge.through):
                continue
            keys.append(AskedKey(partition, partition.behind, partition.behind_in <= committed))
            if len(keys) == LOAD_MESSAGES:
                break
        return keys

    def read_keys(self, keys: list[AskedKey], is_crowded: bool) -> None:
        """Asks for the next messages of these keys."""
        window, context = self.window, self.context
        window.is_loading = True
        most = KEY_MESSAGES if self.may_read_ahead else 1
        asked = [(key.partition.hash, key.partition.after) for key in keys]
        bytes_max = 1 if is_crowded else window.windows.load_bytes
        read = ReadKeys(context.next_position(), self.queue.number, asked, window.end, most, bytes_max)
        window.windows.waiting[read.request] = partial(self.keys_read, keys, window.end)
        context.turn.read_requests.append(read)

    def keys_read(self, keys: list[AskedKey], through: int, answer: LoadedKeys) -> None:
        """Called with the messages that were read: they are READY, because only what is synced can be read."""
        queue, window = self.queue, self.window
        window.is_loading = False
        if queue.is_gone:
            return
        for asked, found in zip(keys, answer.found, strict=True):
            self.key_read(asked, through, found)
        queue.went_on()
        if window.windows.is_crowded and not window.ring:
            window.shrink()

    def key_read(self, asked: AskedKey, through: int, found: KeyMessages) -> None:
        """Takes in the next messages of one key. Raises StoreError if any are missing."""
        partitions, partition = self.partitions, asked.partition
        count, damaged, after = 0, 0, partition.after
        is_last = found.is_complete and asked.is_certain
        for stored in found.messages:
            message, after = stored.message, stored.position
            if message is None:
                # what was reported before no longer counts; what is in memory is another key's, and needs no reading
                if after not in self.damaged and after not in partitions.at:
                    damaged += 1
                    self.queue.report_damaged(after)
                continue
            if partitions.find_key(message) != partition.key:
                continue  # another key of the same hash
            count += 1
            entry = Entry(after, message, State.READY, message.size, stored.redeliveries, stored.redelivered)
            partitions.keep(after, partition)
            if not self.queue.purge.takes(entry):
                self.window.add(entry.size)
                partitions.put(partition, entry)
        left = asked.behind - count
        # D32: a message that was not removed never counts as gone
        if left < 0:
            raise StoreError(f"/queue/{self.queue.name} has more messages of a key than were stored")
        if damaged or partition.hash in self.strays:
            its = self.damaged_of(partition, damaged, left, is_last)
            count, left = count + its, left - its
        if left > 0 and is_last:
            missing = count_text(left, "further message")
            raise StoreError(f"/queue/{self.queue.name} ends for a key after message {after:x}, but has {missing}")
        if is_last:
            after = max(after, through)  # otherwise there may be some up to there that were not on the disk yet
        partitions.was_read(partition, count, after, found.is_complete)

    def damaged_of(self, partition: QueuePartition, found: int, left: int, is_last: bool) -> int:
        """Returns how many damaged records, of those just found and of strays, count as messages of that key, of which
        `left` are still to be found. Their keys cannot be read: if other keys of the same hash also wait on the disk,
        each damaged record counts for a key that lacks one in the end.
        """
        key_hash = partition.hash
        found += self.strays.pop(key_hash, 0)
        is_alone = not any(one.hash == key_hash and one is not partition for one in self.partitions.behind)
        its = min(found, left) if is_last or is_alone else 0
        if its < found and not is_alone:
            self.strays[key_hash] = found - its
        return its

    def is_whole(self, entry: Entry) -> None:
        self.partitions.touched[self.partitions.at[entry.position]] = None

    # ---- keys that are held -----------------------------------------------------------------------------------------

    def read_held(self, after: int) -> None:
        """Asks, at the start, which keys are held."""
        window, context = self.window, self.context
        window.is_loading = True
        read = ReadHeld(context.next_position(), self.queue.number, after, HELD_AT_ONCE)
        window.windows.waiting[read.request] = self.held_read
        context.turn.read_requests.append(read)

    def held_read(self, answer: LoadedHeld) -> None:
        """Called with the next held keys."""
        self.window.is_loading = False
        if self.queue.is_gone:
            return
        for position, key_hash in answer.held:
            self.partitions.recover_held(position, key_hash)
        if answer.has_more:
            self.read_held(answer.held[-1][0])
            return
        self.is_recovering = False
        self.queue.went_on()
