"""Decides which message of a partitioned queue may go to which consumer: one at a time for each key, to one consumer.

A key is *free* while none of its messages is with a consumer and none that came back is delayed: then its first message
may go to any consumer. It goes to the one to which the key is assigned (assignments.py) if that has room, otherwise to
one that has room and nothing of its own; so no consumer waits while there is work, and no key waits for a slow one.
Partitions that change are noted as touched, and looked at when something is to be delivered.
"""

import heapq
from bisect import insort
from collections import OrderedDict
from collections.abc import Callable, Iterator

from radiator.core.connections import Subscription
from radiator.core.queues.assignments import Assignee, Assignments
from radiator.core.queues.entry import Entry
from radiator.core.queues.free_partitions import STALE_PLACES, FreePartitions
from radiator.core.queues.queue_partition import KEY_COST_BYTES, QueuePartition
from radiator.model.keys import hash_of
from radiator.model.limits import KEY_MESSAGES, WINDOW_MESSAGES
from radiator.model.message import Message

SLOW_MS = 1000  # a consumer without room for so long is slow: others take its free keys before their own


class Partitions:
    """entries: READY entries in memory, by position. at: the partition of each position that is in memory, out, or
    held. keyed: partitions by key; keyless: the number of positions of messages without a key. free_ones: the free
    partitions; `free`: by position. ages: a heap of the positions in `entries`; some may have left. lacking: partitions
    that would be free, but whose first message is a stub. wanting: those whose messages are all only on the disk;
    early: those with some at a consumer and all others only on the disk. behind: all that have some only on the disk.
    touched: to be looked at. matched: consumers with room and free keys of their own. window: how many of one key its
    consumer may have. moves: how often a key changed its consumer. found_held: the hash of each key that was held at
    the start, by position; held_by_hash: the positions, in order; held_back: partitions that wait for them. held_bytes:
    the memory that all held keys take. held_keys: how many keys are held that were not at the start.
    """

    __slots__ = (
        "ages", "assignments", "at", "behind", "behind_count", "early", "entries", "find_key", "found_held", "free",
        "free_ones", "held_back", "held_by_hash", "held_bytes", "held_keys", "keyed", "keyless", "lacking", "matched",
        "moves", "ring", "touched", "wanting", "window",
    )  # fmt: skip

    def __init__(
        self, find_key: Callable[[Message], bytes | None], window: int, ring: OrderedDict[Subscription, None]
    ) -> None:
        self.find_key = find_key
        self.window = window
        self.ring = ring
        self.assignments = Assignments()
        self.entries: dict[int, Entry] = {}
        self.at: dict[int, QueuePartition] = {}
        self.keyed: dict[bytes, QueuePartition] = {}
        self.free_ones = FreePartitions()
        self.free = self.free_ones.by_place
        self.ages: list[int] = []
        self.lacking: dict[QueuePartition, None] = {}
        self.wanting: dict[QueuePartition, None] = {}
        self.early: dict[QueuePartition, None] = {}
        self.behind: dict[QueuePartition, None] = {}
        self.behind_count = 0
        self.touched: dict[QueuePartition, None] = {}
        self.matched: dict[Subscription, None] = {}
        self.moves = self.keyless = self.held_bytes = self.held_keys = 0
        self.found_held: dict[int, bytes] = {}
        self.held_by_hash: dict[bytes, list[int]] = {}
        self.held_back: dict[bytes, dict[QueuePartition, None]] = {}

    def __len__(self) -> int:
        return len(self.entries)

    # ---- what comes -------------------------------------------------------------------------------------------------

    def of(self, message: Message) -> QueuePartition:
        """Returns the partition that a message belongs to."""
        key = self.find_key(message)
        if key is None:
            return QueuePartition(None, b"")
        found = self.keyed.get(key)
        if found is None:
            found = self.keyed[key] = QueuePartition(key, hash_of(key))
        return found

    def hash_of(self, message: Message) -> bytes:
        """Returns the hash of the message's key; b"": it has none."""
        key = self.find_key(message)
        return b"" if key is None else hash_of(key)

    def has_place(self, partition: QueuePartition, count: int) -> bool:
        """Whether one more message of that partition may be in memory, besides `count` in all. The first message of a
        key may; while half of the window is empty, so may some that must wait. So waiting keys never fill a window.
        """
        if partition.is_empty:
            return not (self.held_by_hash and partition.hash in self.held_by_hash)
        if partition.behind or 2 * count >= WINDOW_MESSAGES:
            return False
        return len(partition.line) + partition.coming < KEY_MESSAGES

    def coming(self, partition: QueuePartition, position: int) -> None:
        """Notes a message that is in memory, and on its way to READY."""
        self.keep(position, partition)
        partition.coming += 1

    def came(self, entry: Entry) -> None:
        """Adds a message that was on its way and is READY now."""
        self.at[entry.position].coming -= 1
        self.add(entry)

    def hand_at_once(self, entry: Entry) -> Subscription | None:
        """Hands a message that was on its way to its consumer at once, without adding it to the READY ones, and returns
        that consumer. Done only if the consumer has room, no other message is free, and no known one is of the same
        key. None: it was not handed over, so the caller calls `came`.
        """
        partition = self.at[entry.position]
        if self.free or partition.out or partition.line or partition.behind or partition.held or self.held_by_hash:
            return None
        assignee = partition.assignee
        if partition.key is not None:
            assignee = self.assignments.assign(partition.hash, assignee)
            self._assign(partition, assignee)
        if assignee is not None and assignee.is_listed:
            subscription = assignee.subscription
        elif self.ring:
            subscription = next(iter(self.ring))
        else:
            return None
        if not subscription.can_take():
            return None
        partition.coming -= 1
        self._handed(partition, subscription)
        return subscription

    def put(self, partition: QueuePartition, entry: Entry) -> None:
        """Adds a READY message that is new in memory."""
        self.keep(entry.position, partition)
        self.add(entry)

    def add(self, entry: Entry) -> None:
        """Adds a READY message, which may have come back or have been delayed."""
        position = entry.position
        partition = self.at.get(position)
        if partition is None:
            partition = self.keep(position, self.of(entry.message))
        if partition.held or self.found_held:
            self.let_go(position)
        self.entries[position] = entry
        heapq.heappush(self.ages, position)
        heapq.heappush(partition.line, position)
        self.touched[partition] = None
        if len(self.ages) > 2 * (len(self.entries) + STALE_PLACES):
            self.ages = sorted(self.entries)

    def keep(self, position: int, partition: QueuePartition) -> QueuePartition:
        """Notes that the message at that position belongs to this partition, until `gone` is called for it."""
        if position not in self.at:
            self.at[position] = partition
            self.keyless += partition.key is None
        return partition

    def skip(self, partition: QueuePartition, position: int, batch: int) -> None:
        """Counts a message that stays only on the disk, after all messages of its key that are in memory. batch: the
        one that puts it there; 0: it is there already.
        """
        if not partition.behind:
            partition.after = position - 1
            partition.behind_from = batch
            partition.behind_in = batch
            self.behind[partition] = None
            self.touched[partition] = None
        partition.behind += 1
        partition.behind_in = max(partition.behind_in, batch)
        self.behind_count += 1

    def was_read(self, partition: QueuePartition, count: int, after: int, is_complete: bool) -> None:
        """Called when `count` messages that were only on the disk have been read, up to the position `after`.
        is_complete: these were all.
        """
        partition.behind -= count
        if is_complete:
            partition.behind_from = partition.behind_in
        partition.after = after
        self.behind_count -= count
        if not partition.behind:
            del self.behind[partition]
        self.touched[partition] = None

    # ---- what becomes of them ---------------------------------------------------------------------------------------

    def hold(self, position: int) -> None:
        """Called when a message that came back is delayed: no later message of its key may pass it."""
        partition = self.at[position]
        if partition.key is None:
            del self.at[position]  # a message without a key holds nothing up, and there may be very many
            self.keyless -= 1
            return
        self.held_keys += not partition.held
        insort(partition.held, position)
        self.held_bytes += partition.held_cost_bytes
        self.touched[partition] = None

    def let_go(self, position: int) -> None:
        """Called when a message is no longer delayed."""
        key_hash = self.found_held.pop(position, None)
        if key_hash is not None:
            self.held_bytes -= KEY_COST_BYTES
            places = self.held_by_hash[key_hash]
            places.remove(position)
            if not places:
                del self.held_by_hash[key_hash]
            self.touched |= self.held_back.pop(key_hash, {})
        partition = self.at.get(position)
        if partition is not None and position in partition.held:
            partition.held.remove(position)
            self.held_keys -= not partition.held
            self.held_bytes -= partition.held_cost_bytes
            self.touched[partition] = None

    def recover_held(self, position: int, key_hash: bytes) -> None:
        """Called at the start for a message that had come back and was delayed when the broker ended."""
        self.found_held[position] = key_hash
        self.held_bytes += KEY_COST_BYTES
        insort(self.held_by_hash.setdefault(key_hash, []), position)

    def gone(self, position: int, was_coming: bool = False) -> None:
        """Called when a message has left the queue, or memory."""
        if self.found_held:
            self.let_go(position)
        partition = self.at.get(position)
        if partition is None:
            return
        if partition.held:
            self.let_go(position)
        del self.at[position]
        if partition.key is None:
            self.keyless -= 1
        if position in self.entries:
            del self.entries[position]
        partition.coming -= was_coming
        if partition.is_empty and not partition.free_at:
            self._end(partition)
        else:
            self.touched[partition] = None

    # ---- which is next ----------------------------------------------------------------------------------------------

    def head(self) -> Entry | None:
        """Returns the oldest message that is READY in memory, whether its key is free or not."""
        ages, entries = self.ages, self.entries
        while ages and ages[0] not in entries:
            heapq.heappop(ages)
        return entries[ages[0]] if ages else None

    def free_head(self) -> Entry | None:
        """Returns the oldest message that may be delivered."""
        self.look()
        position = self.free_ones.oldest()
        return None if position is None else self.entries[position]

    def take(self, entry: Entry) -> None:
        """Takes the entry out of the READY ones; the caller decides what becomes of it."""
        self.touched[self.at[entry.position]] = None
        del self.entries[entry.position]

    def hand(self, entry: Entry, subscription: Subscription) -> None:
        """Hands the first message of a partition to a consumer."""
        position = entry.position
        partition = self.at[position]
        del self.entries[position]
        heapq.heappop(partition.line)
        self.free_ones.discard(partition)
        if partition.key is not None and (partition.assignee is None or not partition.assignee.is_known):
            self._assign(partition, self.assignments.assign(partition.hash, None))
        self._handed(partition, subscription)

    def _handed(self, partition: QueuePartition, subscription: Subscription) -> None:
        assignee = self.assignments.of[subscription]
        partition.out += 1
        partition.holder = subscription
        if partition.last is not assignee:
            self.moves += partition.last is not None
            partition.last = assignee
        if self.window > 1 or partition.behind:
            self.touched[partition] = None

    def choose(self, subscription: Subscription, running_ms: int) -> Entry | None:
        """Returns what that consumer, which has room, gets next: the oldest message of its own keys and of those
        assigned to nobody. If there is none, and no other consumer has both room and free keys of its own: the oldest
        message of all that are free. The latter also goes before the consumer's own if the consumer to which it is
        assigned is slow. running_ms: by the monotonic clock.
        """
        assignee = self.assignments.of[subscription]
        flows, flow = assignee.flows, None
        while flows and flow is None:
            flowing = next(iter(flows))
            assert isinstance(flowing, QueuePartition)
            if flowing.holder is subscription and self._flows(flowing):
                flow = flowing.line[0]
            else:
                del flows[flowing]
        own, oldest = self.free_ones.oldest_of(assignee), self.free_ones.oldest()
        if oldest is not None and (
            (own is None and flow is None and not self.matched)
            or (own is not None and oldest < own and self._has_slow_consumer(oldest, running_ms))
        ):
            own = oldest
        if flow is not None and (own is None or flow < own):
            own = flow
        return None if own is None else self.entries[own]

    def _has_slow_consumer(self, position: int, running_ms: int) -> bool:
        """Whether the first message of a free partition, at that position, waits for a consumer that is slow."""
        assignee = self.free[position].assignee
        return assignee is not None and 0 < assignee.full_since_ms <= running_ms - SLOW_MS

    def next_consumer(self) -> Subscription | None:
        """Returns the consumer that may get something next; None: no consumer in the ring may."""
        if self.matched:
            return next(iter(self.matched))
        return next(iter(self.ring)) if self.ring and self.free else None

    # ---- consumers --------------------------------------------------------------------------------------------------

    def became_listed(self, subscription: Subscription) -> None:
        """Called when a consumer has come into the ring."""
        assignee = self.assignments.of[subscription]
        assignee.full_since_ms = 0
        if assignee.flows or self.free_ones.has_any_of(assignee):
            self.matched[subscription] = None

    def became_full(self, subscription: Subscription, running_ms: int) -> None:
        """Called when a consumer has left the ring because it has no room."""
        self.matched.pop(subscription, None)
        assignee = self.assignments.of.get(subscription)  # None: it is held, and gets nothing
        if assignee is not None:
            assignee.full_since_ms = running_ms

    def come(self, subscription: Subscription) -> None:
        """Called when a consumer comes or is back: its heap still has what is assigned to its name."""
        self.assignments.join(subscription.assignee_name(), subscription)

    def go_away(self, subscription: Subscription) -> None:
        """Called when a consumer goes: others may take its free keys, assigned to it until it is forgotten."""
        self.matched.pop(subscription, None)
        assignee = self.assignments.go_away(subscription)
        self.free_ones.go_away(assignee)
        assignee.flows.clear()

    # ---- looking at what has happened ---

    def look(self) -> None:
        """Looks at each partition that has changed."""
        touched = self.touched
        while touched:
            partition, _ = touched.popitem()
            self._look_at(partition)

    def _look_at(self, partition: QueuePartition) -> None:
        line, entries = partition.line, self.entries
        while line and line[0] not in entries:
            heapq.heappop(line)
        if partition.free_at:
            self.free_ones.discard(partition)
        if self.lacking:
            self.lacking.pop(partition, None)
        if self.wanting:
            self.wanting.pop(partition, None)
        if self.early:
            self.early.pop(partition, None)
        if not line:
            if partition.behind and not partition.coming and not self.is_held(partition):
                (self.early if partition.out else self.wanting)[partition] = None
            if partition.is_empty:
                self._end(partition)
            return
        if partition.out:
            if self._flows(partition):
                self._flow(partition)
            return
        if self.is_held(partition):
            return
        if entries[line[0]].is_stub:
            self.lacking[partition] = None
            return
        self._set_free(partition, line[0])

    def _end(self, partition: QueuePartition) -> None:
        """Drops a partition of which nothing is left."""
        if partition.key is not None and self.keyed.get(partition.key) is partition:
            del self.keyed[partition.key]
        self._assign(partition, None)

    def is_held(self, partition: QueuePartition) -> bool:
        """Whether a delayed message goes before everything that could be delivered of this partition."""
        first = partition.line[0] if partition.line else partition.after + 1
        if partition.held and partition.held[0] < first:
            return True
        if not self.held_by_hash or self.held_by_hash.get(partition.hash, [first])[0] >= first:
            return False
        self.held_back.setdefault(partition.hash, {})[partition] = None
        return True

    def _flows(self, partition: QueuePartition) -> bool:
        """Whether the consumer that holds the partition may get one more message of it."""
        line = partition.line
        while line and line[0] not in self.entries:
            heapq.heappop(line)
        if not line or not 0 < partition.out < self.window or self.is_held(partition):
            return False
        holder = partition.holder
        may_take = holder is not None and not holder.is_over and not holder.is_held
        return may_take and not self.entries[line[0]].is_stub

    def _flow(self, partition: QueuePartition) -> None:
        assert partition.holder is not None
        self.assignments.of[partition.holder].flows[partition] = None
        if partition.holder.is_listed:
            self.matched[partition.holder] = None

    def _set_free(self, partition: QueuePartition, position: int) -> None:
        if partition.key is not None:
            self._assign(partition, self.assignments.assign(partition.hash, partition.assignee))
        assignee = self.free_ones.add(partition, position)
        if assignee is not None and assignee.subscription.is_listed:
            self.matched[assignee.subscription] = None

    def _assign(self, partition: QueuePartition, assignee: Assignee | None) -> None:
        if assignee is not partition.assignee:
            self.assignments.moved(partition.assignee, assignee)
            partition.assignee = assignee

    # ---- all of them ------------------------------------------------------------------------------------------------

    def in_order(self) -> list[Entry]:
        """Returns all entries that are READY in memory, oldest first."""
        return [self.entries[position] for position in sorted(self.entries)]

    def stubs(self, is_needed: bool) -> Iterator[Entry]:
        """Yields the stubs to read back, oldest first: those of keys that would be free; is_needed: all."""
        self.look()
        if is_needed:
            return (entry for entry in self.in_order() if entry.is_stub)
        return (self.entries[position] for position in sorted(partition.line[0] for partition in self.lacking))

    def look_at_all(self) -> None:
        """Called when entries have become stubs."""
        self.touched |= dict.fromkeys(self.free.values())

    def take_all(self) -> dict[int, Entry]:
        """Takes out all READY entries at once. The caller calls `gone` for each."""
        entries, self.entries = self.entries, {}
        self.free_ones.clear()
        self.lacking.clear()
        self.ages = []
        return entries

    def clear(self) -> None:
        """Called when the queue is gone: drops everything."""
        for place in (self.entries, self.at, self.keyed, self.lacking, self.wanting, self.early, self.behind):
            place.clear()
        self.free_ones.clear()
        self.ages.clear()
        self.touched.clear()
        self.held_back.clear()
        self.matched.clear()
        self.keyless = self.held_bytes = self.held_keys = 0
