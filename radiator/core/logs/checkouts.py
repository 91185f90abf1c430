"""Checkout: a group takes messages out of a queue, under consecutive numbers, and reads them as often as it needs.

They become records of a log, `$checkout/QUEUE/GROUP`, until they are acked, or released back to the queue.
"""

from collections.abc import Callable
from functools import partial
from itertools import islice

from radiator.core.logs.log import Log
from radiator.core.logs.waiters import Waiters
from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.queues.queue import Queue
from radiator.core.queues.target import Target
from radiator.core.routing.destinations import Destinations
from radiator.core.states import Event
from radiator.core.turn import BackgroundTask, TurnContext
from radiator.model.errors import Refusal, count_text
from radiator.model.journal import RELEASED, CameFrom
from radiator.model.limits import AWAITS_OF_ONE_MAX, BATCH_BYTES, LOAD_BYTES, LOAD_MESSAGES, STEP_MESSAGES
from radiator.model.patterns import name_mistake
from radiator.model.reads import LoadedLog, StoredRecord
from radiator.model.settings import LogSettings
from radiator.model.validation import RESERVED_LOGS

PREFIX = RESERVED_LOGS[0]
SETTINGS = LogSettings(partitions=1, retention_ms=None, retention_bytes=None)
GROUPS_NAMED = 3  # in one sentence


class Checkouts:
    """The logs of all groups, by the names of queue and group. ending: logs whose messages go back to the queue, with
    the function that begins this once nothing of theirs is in `growing` (None: it has begun); growing: how many
    requests to take more are under way; waiting: by queue, the requests that wait for a message to take, and the
    queue's observer for them.
    """

    __slots__ = ("tasks", "context", "destinations", "ending", "groups", "growing", "waiting")

    def __init__(
        self, context: TurnContext, destinations: Destinations, tasks: Callable[[BackgroundTask], None]
    ) -> None:
        self.context = context
        self.destinations = destinations
        self.tasks = tasks
        self.groups: dict[str, dict[str, Log]] = {}
        self.ending: dict[Log, Callable[[], None] | None] = {}
        self.growing: dict[Log, int] = {}
        self.waiting: dict[DurableQueue, tuple[Waiters, Callable[[], None]]] = {}
        for name, log in destinations.logs.all.items():
            if name.startswith(PREFIX):
                queue, _, group = name.removeprefix(PREFIX).rpartition("/")
                self.groups.setdefault(queue, {})[group] = log

    def has(self, queue: Queue) -> bool:
        """Whether a group has messages of the queue checked out: it cannot be deleted then."""
        return queue.name in self.groups

    def count(self, queue: Queue) -> int:
        """Returns how many messages of the queue are checked out and not acked."""
        return sum(log.records for log in self.groups.get(queue.name, {}).values())

    def described(self, queue: Queue) -> str:
        """Returns a sentence about what keeps the queue from being deleted."""
        groups = self.groups[queue.name]
        first = ", ".join(
            f"{group} ({count_text(log.records, 'message')})" for group, log in islice(groups.items(), GROUPS_NAMED)
        )
        more = f" and {len(groups) - GROUPS_NAMED} more" if len(groups) > GROUPS_NAMED else ""
        return f"{queue.address} is checked out by {first}{more}: `radiator release {queue.name} GROUP` ends that."

    # ---- what a group does ------------------------------------------------------------------------------------------

    def log(self, queue: str, group: str) -> Log:
        """Returns the log of the group. Raises Refusal where there is none, or it is ending."""
        found = self.groups.get(queue, {}).get(group)
        if found is None:
            raise Refusal(
                "no-such-destination", f"The group {group!r:.80} has nothing of /queue/{queue:.255} checked out."
            )
        if found in self.ending:
            raise Refusal("in-use", f"{found.name} is being released: wait for its end.")
        return found

    def take(self, queue: Queue, group: str, most: int, bytes_max: int | None, done: Callable[[Log], None]) -> None:
        """Takes up to `most` more of the queue's messages, the oldest that are ready. `done` is called when they are on
        the disk, as records of the group's log. Raises Refusal.
        """
        queue = self.stored(queue)
        if group not in self.groups.get(queue.name, {}):
            self.begin(queue.name, group)
        log = self.log(queue.name, group)
        queue.used()
        self.growing[log] = self.growing.get(log, 0) + 1

        def taken() -> None:
            self.growing[log] -= 1
            if not self.growing[log]:
                del self.growing[log]
            done(log)
            begin = self.ending.get(log) if log not in self.growing else None
            if begin is not None:
                begin()

        taking = Taking(self.context, queue, log, group, most, bytes_max, taken)
        taking.step()
        if not taking.is_done:
            self.tasks(taking)

    def stored(self, queue: Queue) -> DurableQueue:
        """Returns the queue, if its messages can be checked out. Raises Refusal."""
        found = self.destinations.queues.stored.get(queue.number)
        if found is None:
            raise Refusal("bad-request", f"{queue.address} is in memory: only what is on the disk can be checked out.")
        if queue.name not in self.destinations.queues.all:
            raise Refusal("reserved", f"{queue.address} is a queue that the broker keeps for itself.")
        if queue.settings.max_priority is not None:
            raise Refusal("bad-request", f"{queue.address} has max_priority, and a checkout takes what is oldest.")
        return found

    def wait(self, queue: DurableQueue, timeout_ms: int, done: Callable[[], None], is_over: Callable[[], bool]) -> None:
        """`done` is called once a message is ready, or after timeout_ms, unless is_over() by then. If AWAITS_OF_ONE_MAX
        wait already, the first of them is called at once.
        """
        waiters, _ = self.waiting.get(queue) or self.begin_waiting(queue)
        waiters.wait(timeout_ms, AWAITS_OF_ONE_MAX, is_met=lambda: not queue.is_exhausted, done=done, is_over=is_over)
        self.end_waiting(queue)

    def begin_waiting(self, queue: DurableQueue) -> tuple[Waiters, Callable[[], None]]:
        """Observes the queue, for a request that waits for its messages."""
        self.waiting[queue] = found = Waiters(self.context), partial(self.pumped, queue)
        queue.observe(found[1])
        return found

    def end_waiting(self, queue: DurableQueue) -> None:
        """Stops observing the queue, unless another request waits."""
        waiters, observer = self.waiting.get(queue, (None, None))
        if waiters is not None and observer is not None and not waiters.all:
            del self.waiting[queue]
            queue.ignore(observer)

    def pumped(self, queue: DurableQueue) -> None:
        """Called when there may be something to take."""
        if not queue.is_exhausted:
            self.wake_waiting(queue)

    def wake_waiting(self, queue: DurableQueue) -> None:
        """Calls the requests whose time has come, or all of them if there is something to take."""
        self.waiting[queue][0].wake(queue.is_gone)
        self.end_waiting(queue)

    def ticked(self) -> None:
        """Called at each Tick."""
        for queue in [*self.waiting]:
            self.wake_waiting(queue)

    def begin(self, queue: str, group: str) -> None:
        """Makes a log for the group. Raises Refusal."""
        name = f"{PREFIX}{queue}/{group}"
        wrong = "has a / in it" if "/" in group else name_mistake(name)
        if wrong:
            raise Refusal(
                "bad-request", f"{group!r:.80} cannot be `group`: it, or {name!r:.80} as the name of a log, {wrong}."
            )
        self.destinations.logs.declare(name, SETTINGS, may_be_reserved=True)
        self.groups.setdefault(queue, {})[group] = self.destinations.logs.all[name]

    def ack(self, queue: str, group: str, before: int) -> Log:
        """Acks everything before that number, with the open batch. Raises Refusal."""
        log = self.log(queue, group)
        end = log.partitions[0].committed
        if before > end:
            raise Refusal("no-such-offset", f"{log.name} ends at offset {end}: {before} is beyond it.")
        log.let_go(before)
        return log

    def release(self, queue: str, group: str, done: Callable[[int], None], refused: Callable[[Refusal], None]) -> None:
        """Puts what it has, and what is being taken for it, back at the end of its queue, and ends the group. `done`:
        gets how many, by the open batch; `refused`: called if a consumer has begun to read it meanwhile. Raises
        Refusal.
        """
        log = self.log(queue, group)
        if log.has_readers:
            raise Refusal("in-use", f"{log.name} is being read: end its subscriptions first.")
        target = self.destinations.target(queue)
        if not target.is_persistent:
            raise Refusal("bad-request", f"{target.address} is in memory now: a crash would lose what went back to it.")

        def released(count: int) -> None:
            del self.ending[log]
            try:
                self.destinations.logs.delete(log, may_be_reserved=True)
            except Refusal as refusal:
                refused(refusal)
                return
            del self.groups[queue][group]
            if not self.groups[queue]:
                del self.groups[queue]
            done(count)

        def begin() -> None:
            self.ending[log] = None
            self.tasks(Releasing(self.context, log, target, released))

        self.ending[log] = begin
        if log not in self.growing:
            begin()


class Taking:
    """A background task: moves messages out of the queue and into the log, each slice in one batch."""

    __slots__ = ("bytes_left", "context", "done", "group", "is_done", "left", "log", "queue", "taken")

    def __init__(
        self,
        context: TurnContext,
        queue: Queue,
        log: Log,
        group: str,
        most: int,
        bytes_max: int | None,
        done: Callable[[], None],
    ) -> None:
        self.context = context
        self.queue = queue
        self.log = log
        self.group = group
        self.left = most
        self.bytes_left = bytes_max
        self.done = done
        self.taken = 0
        self.is_done = False

    @property
    def can_go_on(self) -> bool:
        return self.queue.peek_head() is not None and self.context.open.size < BATCH_BYTES

    def step(self) -> None:
        queue = self.queue
        is_enough = queue.is_gone or self.left == 0
        for _ in range(min(STEP_MESSAGES, self.left)):
            if self.context.open.size >= BATCH_BYTES or is_enough:
                break
            head = queue.peek_head()
            if head is None:
                queue.refill(is_needed=True)
                break
            if self.bytes_left is not None and self.taken and head.size > self.bytes_left:
                is_enough = True
                break
            entry = queue.take_head()
            self.context.handled += 1
            if entry is None:
                continue  # it had expired
            # D29: the record and the message's removal are in one batch
            self.log.put(entry.message)
            if queue.journal is not None:
                queue.journal.checked_out(queue.name, entry, self.log.name, self.group)
            queue.ledger.acked += 1
            queue.ledger.acked_bytes += entry.size
            queue.leave(entry, Event.DROP)
            self.taken += 1
            self.left -= 1
            if self.bytes_left is not None:
                self.bytes_left -= entry.size
        queue.watch_head()
        if self.left == 0 or is_enough or queue.is_exhausted:
            self.is_done = True
            self.context.open.then.append(self.done)


class Releasing:
    """A background task: moves messages out of the log to the end of the queue, each slice in one batch, even beyond
    the queue's bounds.
    """

    __slots__ = ("context", "done", "is_done", "log", "queue", "records", "total")

    def __init__(self, context: TurnContext, log: Log, queue: Target, done: Callable[[int], None]) -> None:
        self.context = context
        self.log = log
        self.queue = queue
        self.done = done
        self.total = 0
        self.is_done = False
        self.records: list[StoredRecord] = []
        self.read()

    @property
    def can_go_on(self) -> bool:
        return bool(self.records) and self.context.open.size < BATCH_BYTES

    def read(self) -> None:
        """Asks for the next slice, or ends."""
        partition = self.log.partitions[0]
        if partition.first < partition.committed:
            self.log.read(0, partition.first, LOAD_MESSAGES, LOAD_BYTES, self.answered)
        else:
            self.is_done = True
            self.done(self.total)

    def answered(self, answer: LoadedLog) -> None:
        self.records = answer.records

    def step(self) -> None:
        if not self.records:
            return
        for record in self.records:
            if record.message is None:
                self.context.note("error", "damaged_record", queue=self.log.name, position=f"{record.offset:x}")
                continue
            # D29: the record goes in the batch that has the message's Put
            self.queue.put(record.message, CameFrom(RELEASED, 0, self.log.name))
            self.total += 1
        self.context.handled += len(self.records)
        self.log.let_go(self.records[-1].offset + 1)
        self.records = []
        self.queue.pump()
        self.read()
