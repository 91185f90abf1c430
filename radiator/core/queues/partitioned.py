"""What partitioned queues in memory and on the disk have in common: partitions.py in place of one line.

`ready` and `returned` stay empty. `partitions` has whatever is READY, and decides which consumer may get it.
"""

from collections.abc import Iterator
from itertools import chain

from radiator.core.connections import Delivery, Subscription
from radiator.core.queues.entry import Entry
from radiator.core.queues.partitions import Partitions
from radiator.core.queues.passing import is_passing
from radiator.core.queues.queue import Queue
from radiator.core.states import Event
from radiator.model.errors import Refusal
from radiator.model.settings import QueueSettings


class Partitioned(Queue):
    """A Queue whose messages of one key are delivered one at a time, in their order. See Partitions."""

    __slots__ = ()

    partitions: Partitions

    def use(self, settings: QueueSettings) -> None:
        super().use(settings)
        self.partitions.window = settings.partition_window

    # ---- consumers --------------------------------------------------------------------------------------------------

    def subscribe(self, subscription: Subscription) -> None:
        super().subscribe(subscription)
        subscription.connection.keyed_subscriptions += 1
        if not subscription.is_held:
            self.partitions.come(subscription)

    def order_for(self, subscription: Subscription) -> None:
        if subscription.priority:
            raise Refusal(
                "bad-request",
                f"/queue/{self.name} has a partition_key, which gives each consumer keys of its own: it takes no "
                f"consumer-priority other than 0, as {subscription.priority} is.",
            )

    def unsubscribe(self, subscription: Subscription) -> None:
        super().unsubscribe(subscription)
        subscription.connection.keyed_subscriptions -= 1
        if subscription.is_held:
            return
        self.partitions.go_away(subscription)
        if self.named is None or not self.named.keeps(subscription.consumer_name):
            self.forget_consumer(subscription.assignee_name())

    def hold_consumer(self, subscription: Subscription) -> None:
        self.partitions.go_away(subscription)

    def release_consumer(self, subscription: Subscription) -> None:
        self.partitions.come(subscription)

    def forget_consumer(self, name: str) -> None:
        self.partitions.assignments.forget(name)

    def join(self, subscription: Subscription) -> None:
        if not subscription.is_listed and not subscription.is_held:
            self.partitions.became_listed(subscription)
        super().join(subscription)

    # ---- out --------------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Delivers what is free to the consumers that have room: see Partitions.choose."""
        partitions, ring, now_ms = self.partitions, self.ring, self.context.now_ms
        running_ms = int(self.context.now_s * 1000)  # how long a consumer is full is not told by the time of day
        if partitions.touched:
            partitions.look()
        while (subscription := partitions.next_consumer()) is not None:
            can_take = subscription.can_take()
            entry = partitions.choose(subscription, running_ms) if can_take else None
            # the window of a Get looks only at the head to see if it is passing, and this may be another entry
            if not can_take or (subscription.is_get and is_passing(entry)):
                del ring[subscription]
                partitions.became_full(subscription, running_ms)
                subscription.is_listed = False
                subscription.connection.unlist(subscription)
                continue
            if entry is None:
                del partitions.matched[subscription]
                continue
            if 0 < entry.message.expires_ms <= now_ms and entry.is_over:
                self.took(entry)
            else:
                partitions.hand(entry, subscription)
                self.left_ready(entry)
                ring.move_to_end(subscription)
                if partitions.matched.pop(subscription, True) is None:
                    partitions.matched[subscription] = None  # after the others: what has no key may go to any of them
                self.deliver(entry, subscription)
            if partitions.touched:
                partitions.look()
        if self.ledger.stored_expiring:
            self.watch_head()

    def take_head(self) -> Entry | None:
        entry = self.peek_head()
        assert entry is not None
        return entry if self.took(entry) else None

    def took(self, entry: Entry) -> bool:
        """Takes out a READY entry. Returns False if it has expired."""
        self.partitions.take(entry)
        self.left_ready(entry)
        if 0 < entry.message.expires_ms <= self.context.now_ms and entry.is_over:
            self.expire(entry)
            return False
        return True

    @property
    def is_exhausted(self) -> bool:
        return self.partitions.free_head() is None

    @property
    def oldest_ms(self) -> int | None:
        return self.oldest_known_ms()

    def oldest_known_ms(self) -> int | None:
        """Returns what oldest_ms does, for what is in memory."""
        oldest = self.partitions.head()
        return None if oldest is None else max(0, self.context.now_ms - oldest.message.accepted_ms)

    def to_place(self, entry: Entry) -> None:
        self.partitions.add(entry)

    def ack(self, delivery: Delivery, event: Event = Event.ACK) -> None:
        Queue.ack(self, delivery, event)  # each message comes here, and each `super()` makes an object
        if event is Event.WRITTEN:
            self.pump()  # its consumer had room all the time, so nothing else offers it more before the next commit

    def left_out(self, entry: Entry) -> None:
        # inlined, without `super().left_out`: each message comes here
        position = entry.position
        del self.entries_out[position]
        self.out_bytes -= entry.size
        partition = self.partitions.at[position]
        partition.out -= 1
        if not partition.out:
            partition.holder = None

    # ---- what is in memory ------------------------------------------------------------------------------------------

    def head(self) -> Entry | None:
        """Returns the oldest of the entries that may be delivered."""
        return self.partitions.free_head()

    def in_memory(self, most: int | None = None) -> Iterator[Entry]:
        ready, out = [*self.partitions.entries.values()], [*self.entries_out.values()]
        return chain(ready, (delivery.entry for delivery in out))

    @property
    def in_memory_count(self) -> int:
        return len(self.partitions) + len(self.entries_out)

    def droppable(self) -> list[Entry]:
        return self.partitions.in_order()

    def oldest(self) -> Entry | None:
        entry = self.partitions.head()
        if entry is not None:
            self.partitions.take(entry)
            self.left_ready(entry)
        return entry

    def end(self) -> None:
        super().end()
        self.partitions.clear()
