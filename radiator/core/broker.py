"""The broker: a pure function of events. Nothing here can wait, and nothing else decides.

`turn` takes what has happened and says what is to be done. The shell must report every batch that `seal` gave it by
Committed, in order, before it asks for the next one. A command for which there is no room is parked with its
connection, whose reader stops; the others go on.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import fields
from itertools import takewhile
from math import inf
from operator import itemgetter

from radiator.core import admin
from radiator.core.admin import unbinding
from radiator.core.answers import Answers, Turnstile
from radiator.core.background import BackgroundTask, Expiring, Purging, ReleaseDelayed, Requeue, Sweeping
from radiator.core.clock import Clock
from radiator.core.cluster.cluster import Cluster
from radiator.core.connections import MESSAGE_COST_BYTES, Connection, Delivery, Transaction, reply_cost_bytes
from radiator.core.deliveries import bytes_stored_anew, named_by, needs_bytes, settle
from radiator.core.histogram import COMMIT_BUCKETS_MS, Histogram
from radiator.core.journal_writer import JournalWriter
from radiator.core.logs.checkouts import Checkouts
from radiator.core.memory import Memory, Weighing, held_by
from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.queues.entry import Entry
from radiator.core.queues.memory_queue import MemoryQueue
from radiator.core.queues.queue import Queue
from radiator.core.queues.target import Target
from radiator.core.reading import Reading, one_slice
from radiator.core.reload import Reload
from radiator.core.rounds import Round
from radiator.core.routing.admission import FLUSH, Admission, Waitable, WaitList
from radiator.core.routing.destinations import Destinations
from radiator.core.routing.router import Plan
from radiator.core.states import Event
from radiator.core.subscriptions import OffsetSearch, Subscriptions
from radiator.core.transactions.applying import Applying, PreparedDelivery
from radiator.core.transactions.prepared import PreparedTransactions
from radiator.core.turn import WRITE_COST_BYTES, Batch, Turn, TurnContext
from radiator.model.addresses import EXISTING, LOG, QUEUE, REPLY, split
from radiator.model.commands import (
    Abort,
    Ack,
    Begin,
    Closed,
    Command,
    Commit,
    Committed,
    Disconnect,
    Fail,
    Found,
    Loaded,
    LoadedDelayed,
    LoadedLog,
    LoadedPrepared,
    Nack,
    NotLinked,
    Open,
    PeerMessage,
    Read,
    Reread,
    Send,
    Stop,
    Subscribe,
    Tick,
    Unheeded,
    Unsubscribe,
    Written,
)
from radiator.model.commands import Event as ShellEvent
from radiator.model.errors import Refusal, shown
from radiator.model.headers import (
    DEAD_LETTER_REASON,
    EXPIRATION,
    EXPIRES,
    NODE_PATH,
    ORIGINAL_DESTINATION,
    ORIGINAL_MESSAGE_ID,
    REDELIVERY_COUNT,
    block_of,
    without,
)
from radiator.model.journal import BURIED, DEAD_LETTERED, CameFrom
from radiator.model.limits import (
    BATCH_BYTES,
    CHORE_MESSAGES,
    CLOCK_KEPT_IDLE_S,
    CLOCK_KEPT_S,
    FORGET_BUSY_S,
    FORGET_IDLE_S,
    FORGET_MESSAGES,
    REFUSED_LOOKS,
    UNHEEDED_TOLD,
    Limits,
    high_water_bytes,
)
from radiator.model.message import Message
from radiator.model.recovery import Recovery
from radiator.model.replies import Bye, Pause, Receipt, Refuse, RefusedReceipt, Resume
from radiator.model.settings import JOURNAL, Declarations, Node
from radiator.model.writes import Count, Forget, KeepTime, StoppedClean

# What a dead letter does not take along: the broker sets these anew, or they belong to the queue that it died in.
NOT_MOVED = (NODE_PATH, REDELIVERY_COUNT)
NOT_BURIED = (
    *NOT_MOVED,
    EXPIRATION,
    EXPIRES,
    DEAD_LETTER_REASON,
    ORIGINAL_DESTINATION,
    ORIGINAL_MESSAGE_ID,
)


class Broker:
    """One node. Built from what is declared and what the store found; then driven by `turn` and `seal` alone.

    map_size, disk_free_min: bytes. entropy: gives so many random bytes (for addresses of replies).
    trust_clock: the system's clock is right, however far it is from the time that the store has kept.
    Raises StoreError where what is stored contradicts what is declared.
    """

    def __init__(
        self,
        declarations: Declarations,
        limits: Limits,
        recovery: Recovery,
        *,
        map_size: int,
        disk_free_min: int,
        entropy: Callable[[int], bytes],
        version: str,
        now_s: float,
        now_ms: int,
        node: Node | None = None,
        trust_clock: bool = False,
    ) -> None:
        self.limits = limits
        self.recovery = recovery
        self.version = version
        self.started_s = now_s
        self.map_size = map_size
        self.high_water_bytes = high_water_bytes(map_size, limits)
        self.disk_free_min = disk_free_min
        self.store_used_bytes = 0
        self.checked_percent = 0
        self.disk_free_bytes = disk_free_min + map_size  # until the first Tick tells
        self.file_system_free_bytes = self.reusable_bytes = self.half_open = 0
        self.context = context = TurnContext(recovery.store_id, recovery.boot)
        self.clock = Clock(0 if trust_clock else recovery.time_ms, now_s, now_ms)
        self.is_clock_told = False
        self.unheeded_told: set[str] = set()  # destinations
        self.time_kept_s = -inf
        self.time_kept_in = 0
        context.now_s, context.now_ms = now_s, self.clock.at(now_s, now_ms)
        if declarations.has_journal:
            context.journal = JournalWriter(context)
        self.destinations: Destinations = Destinations(
            declarations, recovery, context, limits, entropy, self.dead_letter, self.freed_queue, node is not None
        )
        self.unblocked: dict[Waitable, None] = {}
        self.subscriptions = Subscriptions(
            context, self.destinations, limits, self.delete, self.maybe_delete, self.unblocked
        )
        self.memory = Memory(self.destinations, limits)
        self.admission = Admission(context, self.destinations, limits, self.memory)
        self.judge_disk()
        self.cluster: Cluster | None = None
        if node is not None or recovery.doubts:
            self.cluster = Cluster(
                node, declarations, recovery, context, self.destinations, self.admission, self.refuse
            )
            if node is not None:
                self.destinations.spread(self.cluster.gossip, self.cluster.standing)
        self.connections: dict[int, Connection] = {}
        self.transactions: dict[Transaction, Connection] = {}  # all that are open, the oldest first
        self.blocked: dict[int, Connection] = {}
        self.backlog: deque[ShellEvent] = deque()
        self.tasks: deque[BackgroundTask] = deque(
            Sweeping(context, number, left) for number, left in self.destinations.retired.items()
        )
        context.wake = self.tasks.append
        applying = Applying(context, self.destinations, self.admission, self.unblocked, self.tasks.append)
        self.staging = PreparedTransactions(context, self.admission, limits, recovery, applying, self.tasks.append)
        self.checkouts = Checkouts(context, self.destinations, self.tasks.append)
        self.answers = Answers(self.tasks.append, self.unblocked)
        self.expiring: set[Queue] = set()
        self.round: Round | None = None  # what the last Tick has begun, and has not done
        self.reload: Reload | None = None
        self.is_stopping = False
        self.is_said = False
        self.forget_s = now_s
        self.batches = 0
        self.commits = Histogram(COMMIT_BUCKETS_MS)
        if context.journal is not None:
            context.journal.started(self.destinations.logs[JOURNAL], self.destinations.everything(), recovery.was_clean)

    # ---- the door ---------------------------------------------------------------------------------------------------

    def turn(self, events: list[ShellEvent], now_s: float, now_ms: int) -> Turn:
        """Carry out the events in order. now_s: monotonic seconds; now_ms: milliseconds since the epoch."""
        context = self.context
        context.turn = turn = Turn()
        context.turn_number += 1
        context.handled = 0
        context.now_s, context.now_ms = now_s, self.clock.at(now_s, now_ms)
        if self.round is not None and not self.is_stopping:
            self.look_round()
        if self.backlog:
            if any(type(event) is Stop and event.at_once for event in events):
                self.backlog.clear()
            # what the backlog has waited for comes first; all else stays behind it, in order
            first = [e for e in events if type(e) in _FIRST]
            events = [*first, *self.backlog, *(e for e in events if type(e) not in _FIRST)]
            self.backlog = deque()
        for index, event in enumerate(events):
            if not _HANDLERS[type(event)](self, event):
                self.put_behind(events[index + 1 :])
                break
        if not self.is_stopping:
            if self.unblocked:
                self.retry_freed()
            if self.tasks:
                self.step_chores()
                if self.unblocked:
                    self.retry_freed()
        readers = self.destinations.readers
        if readers.due and not self.is_stopping:
            readers.end_turn()
        if self.cluster is not None and not self.is_stopping:
            self.cluster.end_turn()
        if not self.is_stopping:
            # a full batch keeps every chore waiting: `committed` goes on
            chores_go_on = context.open.size < BATCH_BYTES and any(task.can_go_on for task in self.tasks)
            if chores_go_on or self.round is not None:
                turn.again = turn.is_background = True
            elif (self.cluster is not None and self.cluster.due) or readers.due:
                turn.again = True
        if self.backlog:
            turn.again = True
        if (
            self.is_stopping
            and not self.is_said
            and context.being_committed is None
            and not context.open.writes
            and not context.open.held
        ):
            self.is_said = True
            turn.again = False
            turn.replies.extend(Bye(number) for number in self.connections)
        turn.stopped = self.is_said
        return turn

    @property
    def is_behind(self) -> bool:
        """Whether the last turn was full before all that clients had said was carried out."""
        return bool(self.backlog)

    def put_behind(self, later: list[ShellEvent]) -> None:
        """The turn has ended within a Read, whose rest is the backlog: it goes on behind the others, if its own
        connection has said no more.
        """
        rest = self.backlog[-1]
        assert isinstance(rest, Read)
        is_last = all(getattr(event, "connection", None) != rest.connection for event in later)
        if is_last:
            self.backlog.extendleft(reversed(later))
        else:
            self.backlog.extend(later)

    def seal(self) -> Batch | None:
        """The open batch, complete with its ledgers, where it holds anything; a new one opens. Never while one is
        at sea.
        """
        context = self.context
        batch = context.open
        if context.being_committed is not None or not self.has_batch:
            return None
        if context.journal is not None:
            context.journal.seal()
        for part in batch.parts:
            batch.writes.append(part.books())
        batch.sealed_s = context.now_s
        context.being_committed = batch
        context.open = Batch(batch.number + 1)
        self.batches += 1
        # until the next Tick tells: the marks must hold between two Ticks too
        self.store_used_bytes += batch.disk_bytes
        self.disk_free_bytes -= min(batch.disk_bytes, max(0, self.disk_free_bytes))
        self.judge_disk()
        if self.admission.batch_room.waiters:
            self.unblocked[self.admission.batch_room] = None
        return batch

    @property
    def has_batch(self) -> bool:
        """Whether the open batch holds anything."""
        batch = self.context.open
        return bool(batch.writes or batch.held or batch.then or batch.parts)

    @property
    def is_batch_awaited(self) -> bool:
        """Whether anything waits for the open batch. Not where all it does is to remove what was acked without a
        receipt, or has gone without anybody's asking.
        """
        batch = self.context.open
        if batch.held or batch.then or self.admission.batch_room.waiters:
            return True
        return len(batch.writes) > sum(len(part.removing) for part in batch.parts.values())

    @property
    def batch_writes(self) -> int:
        """How many writes the open batch has."""
        return len(self.context.open.writes)

    @property
    def wants_turn(self) -> bool:
        """Whether somebody parked can go on since `seal`."""
        return bool(self.unblocked) and not self.is_stopping

    # ---- reports of the shell ---------------------------------------------------------------------------------------

    def opened(self, event: Open) -> bool:
        connection = Connection(event.connection, self.limits.outbox_filled_bytes)
        self.connections[event.connection] = connection
        if event.peer is not None:
            if self.cluster is None or self.is_stopping:
                self.refuse(connection, "unknown-node", "This broker is not one of several.", None)
            else:
                self.cluster.opened(connection, event.peer)
        return True

    def not_linked(self, event: NotLinked) -> bool:
        if self.cluster is not None:
            self.cluster.not_linked(event)
        return True

    def read(self, event: Read) -> bool:
        connection = self.connections.get(event.connection)
        if connection is None or self.is_stopping:
            return True
        connection.buffered_bytes = event.buffered_bytes
        if connection.blocked:
            connection.blocked.extend(event.commands)
            connection.parked_bytes += sum(c.size for c in event.commands if type(c) is Send)
            return True
        commands = event.commands
        for index, command in enumerate(commands):
            if connection.is_closing:
                break
            try:  # as in carry_out: a call less for each command
                blocked = _COMMANDS[type(command)](self, connection, command)
            except Refusal as refusal:
                self.refused(connection, command, refusal)
                continue
            if blocked is FLUSH:
                self.backlog.append(Read(event.connection, commands[index:], event.buffered_bytes))
                return False
            if blocked is not None:
                self.block(connection, commands[index:], blocked)
                break
        return True

    def committed(self, event: Committed) -> bool:
        """What was held comes out here and nowhere else; what was stored becomes deliverable."""
        context = self.context
        batch = context.being_committed
        assert batch is not None and batch.number == event.number, "batches are committed in order, one at a time"
        context.being_committed = None
        context.committed = batch.number
        self.commits.add((context.now_s - batch.sealed_s) * 1000)
        # D1: the batch is on the disk, synced, before any of this leaves
        context.turn.replies.extend(batch.held)
        for reply in batch.held:
            connection = self.connections.get(reply.connection)
            if connection is not None:
                connection.held_reply_bytes -= reply_cost_bytes(reply)
        for queue, part in batch.parts.items():
            queue.committed(part)
        if not self.is_stopping:
            for then in batch.then:
                then()
        if self.admission.batch_room.waiters:
            self.unblocked[self.admission.batch_room] = None
        return True

    def loaded(self, event: Loaded | LoadedDelayed | LoadedLog | LoadedPrepared) -> bool:
        waiting = self.destinations.windows.waiting.pop(event.request)
        if not self.is_stopping:
            waiting(event)
        return True

    def found(self, event: Found) -> bool:
        room = self.admission.found(event.request, event.found)
        if room.waiters:
            self.unblocked[room] = None
        return True

    def written(self, event: Written) -> bool:
        """The outgoing buffer got smaller; an `auto` message whose last byte is with the operating system is acked."""
        connection = self.connections.get(event.connection)
        if connection is None or self.is_stopping:
            return True
        was_full = connection.outbox_bytes >= connection.outbox_max_bytes
        unwritten = connection.unwritten
        while connection.written < event.delivers:
            connection.written += 1
            size, delivery = unwritten.popleft()
            connection.outbox_bytes -= size
            if delivery is not None and delivery.is_out:
                delivery.leave_window()
                queue = delivery.subscription.queue
                queue.ack(delivery, Event.WRITTEN)
                self.maybe_delete(queue)
        if was_full and connection.outbox_bytes < connection.outbox_max_bytes:
            connection.offer()
            self.answers.has_room(connection)
        if connection.link is not None and self.cluster is not None:
            self.cluster.written(connection)
        return True

    def closed(self, event: Closed) -> bool:
        """What was out with it comes back; what it had open leaves no trace."""
        connection = self.connections.pop(event.connection, None)
        if connection is None or self.is_stopping:
            return True
        connection.is_closing = True
        if self.cluster is not None and connection.link is not None:
            self.cluster.closed(connection, event.cause)
        if connection.waits_for is not None:
            self.unblock(connection)
        for transaction in connection.transactions.values():
            transaction.release()
            del self.transactions[transaction]
        queues = self.subscriptions.closed(connection)
        lost = [
            *connection.unacked.values(),
            *(delivery for _, delivery in connection.unwritten if delivery is not None and delivery.is_out),
        ]
        connection.unwritten.clear()

        def given(touched: dict[Queue, None]) -> None:
            for queue in queues | touched:
                self.maybe_delete(queue)

        giving = Requeue(self.context, Event.LOST, lost, given)
        if not lost or self.context.handled < CHORE_MESSAGES:
            giving.step()
        if not giving.is_done:
            self.tasks.append(giving)
        return True

    def reread(self, event: Reread) -> bool:
        """config.toml was read again: for who has asked, or else by a signal."""
        if not self.is_stopping:
            self.reload = self.reload or Reload(self)
            self.reload.read(event)
        return True

    def use_limits(self, limits: Limits, disk_free_min: int) -> None:
        """They are in force from now on, for all who hold `limits`."""
        for one in fields(Limits):
            setattr(self.limits, one.name, getattr(limits, one.name))
        self.memory.bound(limits)
        windows, readers = self.destinations.windows, self.destinations.readers
        windows.bound(limits.max_memory_bytes)
        readers.out_max = windows.out_max
        self.disk_free_min = disk_free_min
        self.judge_disk()

    def ticked(self, event: Tick) -> bool:
        """Time has passed: expiry, timeouts, and whether disk and memory have room."""
        if self.is_stopping:
            return True  # nothing may be written behind StoppedClean
        self.disk_free_bytes = event.disk_free_bytes
        self.file_system_free_bytes = event.file_system_free_bytes
        self.reusable_bytes = event.reusable_bytes
        self.half_open = event.half_open
        self.store_used_bytes = event.store_used_bytes
        self.checked_percent = event.checked_percent
        self.watch_clock()
        self.judge_disk()
        if self.round is None:
            self.round = Round(self)
            self.look_round()
        self.staging.ticked()
        self.checkouts.ticked()
        self.tick_logs()
        if self.cluster is not None:
            self.cluster.ticked()
        return True

    def look_round(self) -> None:
        """A slice of what the Tick has begun."""
        if self.round is not None and self.round.step():
            self.round = None

    def forget_dedup_ids(self) -> None:
        """Those whose windows are over, from time to time."""
        admission = self.admission
        if self.context.now_s >= self.forget_s:
            # twice as many as came in: the table shrinks to what its windows hold, however fast ids come
            self.context.write(Forget(self.context.now_ms, FORGET_MESSAGES + 2 * admission.remembered))
            self.forget_s = self.context.now_s + (FORGET_BUSY_S if admission.remembered else FORGET_IDLE_S)
            admission.remembered = 0

    def watch_clock(self) -> None:
        """The log tells where the system's clock is not followed, and the store keeps the time from time to time."""
        context, ahead_s = self.context, self.clock.ahead_ms // 1000
        if bool(ahead_s) != self.is_clock_told:
            self.is_clock_told = bool(ahead_s)
            if ahead_s:
                context.note("error", "clock_not_followed", ahead_s=ahead_s, time_ms=context.now_ms)
            else:
                context.note("info", "clock_followed", time_ms=context.now_ms)
        since_s = context.now_s - self.time_kept_s
        if since_s >= CLOCK_KEPT_IDLE_S or (since_s >= CLOCK_KEPT_S and self.batches != self.time_kept_in):
            context.write(KeepTime(context.now_ms), 0)  # in the place of the last one
            self.time_kept_s, self.time_kept_in = context.now_s, self.batches + 1

    def tick_logs(self) -> None:
        """What a log keeps no longer; who waits for one, or reads until a time."""
        destinations = self.destinations
        if self.context.journal is not None:
            self.context.journal.ticked(destinations.retention, self.admission.disk_room.is_tight)
        if destinations.retention.look() and destinations.retention not in self.tasks:
            self.tasks.append(destinations.retention)
        for log in destinations.logs.values():
            log.tell_waiting()
        destinations.readers.ticked()

    def stop(self, event: Stop) -> bool:
        """SIGTERM: all that was accepted is committed; what is out is marked, without raising its count (contract
        1).
        """
        context = self.context
        if self.is_stopping:
            return True
        for task in self.tasks:
            if isinstance(task, Requeue):
                task.finish()
        self.is_stopping = True
        if self.cluster is not None:
            self.cluster.stop()
        self.blocked.clear()
        for connection in self.connections.values():
            connection.is_closing = True
        for queue in self.destinations.stored_queues():
            # D13: exactly those that are out
            for position, delivery in queue.entries_out.items():
                context.write(Count(queue.number, position, delivery.entry.redeliveries, True))
        context.write(StoppedClean())
        return True

    # ---- commands ---------------------------------------------------------------------------------------------------

    def carry_out(self, connection: Connection, command: Command) -> Waitable | None:
        """One command. Returns the room that it must wait for."""
        try:
            return _COMMANDS[type(command)](self, connection, command)
        except Refusal as refusal:
            self.refused(connection, command, refusal)
            return None

    def refused(self, connection: Connection, command: Command, refusal: Refusal) -> None:
        """What came of it is told: by an ERROR that ends the connection, or as the SEND asked for."""
        if type(command) is Send and command.survives_refusal and command.receipt is not None:
            self.context.count("refusals")
            connection.say(self.context, RefusedReceipt(connection.number, command.receipt, refusal.code, str(refusal)))
        else:
            self.refuse(connection, refusal.code, str(refusal), command.receipt)

    def refuse(self, connection: Connection, code: str, sentence: str, receipt: bytes | None) -> None:
        """ERROR behind the RECEIPTs due before it; the connection is closed by the shell."""
        connection.is_closing = True
        self.context.count("refusals")
        self.context.note("info", "refused", connection=connection.number, code=code, sentence=sentence)
        connection.say(self.context, Refuse(connection.number, code, sentence, receipt))

    def receipt(self, connection: Connection, command: Command, durable: bool = False) -> None:
        """The RECEIPT, where one was asked for."""
        if command.receipt is not None:
            connection.say(self.context, Receipt(connection.number, command.receipt), durable)

    def send(self, connection: Connection, command: Send) -> Waitable | None:
        if command.transaction is not None:
            return self.send_in_transaction(connection, command)
        admission = self.admission
        address = command.destination
        queue: Target | None
        queue = self.destinations.queues.get(address[7:]) if address.startswith("/queue/") else None
        if queue is None:
            if address == "/admin":
                waits = admin.request(self, connection, command)
                if waits is None:
                    self.receipt(connection, command)
                return waits
            kind, name = split(address)
            if kind == QUEUE and not command.immediate:
                queue = self.destinations.queue(name)
            elif kind == LOG:
                queue = admission.router.log(command, name)
            elif kind == EXISTING:
                queue = self.destinations.queues.get(name)
            elif kind == REPLY and admission.reply(connection, name, command):
                self.receipt(connection, command)
                return None
        if queue is not None:
            blocked = admission.send_to_queue(connection, queue, command)
            is_persistent = queue.is_persistent and (command.dedup_id is None or not queue.settings.dedup_window_s)
        else:
            blocked = admission.apply_plan(connection, admission.router.plan_send(connection, command, Plan()))
            is_persistent = False  # apply_plan has said what a RECEIPT waits for
        if blocked is None and command.receipt is not None:
            connection.say(self.context, Receipt(connection.number, command.receipt), is_persistent)
        return blocked

    def subscribe(self, connection: Connection, command: Subscribe) -> Waitable | None:
        return self.subscriptions.subscribe(connection, command)

    def unsubscribe(self, connection: Connection, command: Unsubscribe) -> Waitable | None:
        self.subscriptions.unsubscribe(connection, command)
        return None

    def ack(self, connection: Connection, command: Ack | Nack) -> Waitable | None:
        transaction = self.transaction(connection, command.transaction) if command.transaction is not None else None
        deliveries = named_by(connection, command, self.context.store_id)
        if transaction is not None:
            for delivery in deliveries:
                delivery.transaction = command.transaction
            transaction.settlements.append((command, deliveries))
            size = sum(bytes_stored_anew(command, delivery) for delivery in deliveries)
            self.grow(connection, transaction, MESSAGE_COST_BYTES * (1 + len(deliveries)) + size)
            self.receipt(connection, command)
            return None
        if type(command) is Nack:
            lacking = [delivery for delivery in deliveries if needs_bytes(command, delivery)]
            if lacking:
                # those before it now: so the whole of many need not be in memory at once
                self.settle_before(command, deliveries, lacking[0])
                return self.read_back(one_slice(lacking))
        is_persistent = False
        queues: list[Queue] = []
        for delivery in deliveries:
            delivery.leave_window()
            settle(command, delivery)
            queue = delivery.subscription.queue
            if queue not in queues:
                queues.append(queue)
            is_persistent = is_persistent or queue.is_persistent
        if command.receipt is not None:
            # D4: its Remove or Count is in the same batch
            self.receipt(connection, command, durable=is_persistent)
        connection.offer()
        for queue in queues:
            queue.pump()
            if queue.settings.auto_delete:
                self.maybe_delete(queue)
        return None

    def settle_before(self, command: Nack, deliveries: list[Delivery], last: Delivery) -> None:
        """Its RECEIPT comes with the rest."""
        queues: dict[Queue, None] = {}
        for delivery in takewhile(lambda delivery: delivery is not last, deliveries):
            delivery.leave_window()
            settle(command, delivery)
            queues[delivery.subscription.queue] = None
        for queue in queues:
            queue.pump()

    def read_back(self, deliveries: list[Delivery]) -> WaitList:
        """The room to wait for while bytes of what is out are read back."""

        def read(reading: Reading) -> None:
            if reading.waiters:
                self.unblocked[reading] = None

        return Reading(deliveries, read)

    def disconnect(self, connection: Connection, command: Disconnect) -> Waitable | None:
        connection.is_closing = True
        self.receipt(connection, command)
        connection.say(self.context, Bye(connection.number))
        return None

    def fail(self, connection: Connection, command: Fail) -> Waitable | None:
        self.refuse(connection, command.code, command.sentence, command.receipt)
        if self.cluster is not None and connection.link is not None:
            self.cluster.refused(connection, command.code, command.sentence)
        return None

    def unheeded(self, connection: Connection, command: Unheeded) -> Waitable | None:
        """Once a destination."""
        told, address = self.unheeded_told, command.destination
        if address not in told and len(told) < UNHEEDED_TOLD:
            told.add(address)
            self.context.note(
                "warning",
                "header_unheeded",
                connection=connection.number,
                header=command.header,
                destination=address,
                sentence=command.sentence,
            )
        return None

    def heard(self, connection: Connection, command: PeerMessage) -> Waitable | None:
        if self.cluster is None:
            raise Refusal("unknown-node", "This broker is not one of several.")
        return self.cluster.heard(connection, command.word)

    # ---- transactions -----------------------------------------------------------------------------------------------

    def transaction(self, connection: Connection, name: bytes) -> Transaction:
        found = connection.transactions.get(name)
        if found is None:
            raise Refusal(
                "transaction", f"There is no open transaction {shown(name)} on this connection: BEGIN comes first."
            )
        return found

    def grow(self, connection: Connection, transaction: Transaction, size: int) -> None:
        """A transaction holds more. Raises Refusal past max_batch_bytes."""
        if transaction.size + size > self.limits.max_batch_bytes:
            raise Refusal("too-large", f"The transaction passes max_batch_bytes, {self.limits.max_batch_bytes}.")
        transaction.size += size
        connection.transaction_bytes += size
        self.memory.bytes += size

    def send_in_transaction(self, connection: Connection, command: Send) -> Waitable | None:
        assert command.transaction is not None
        transaction = self.transaction(connection, command.transaction)
        blocked = self.admission.blocked(connection, None, False, 0)
        if blocked is not None:
            return blocked
        self.grow(connection, transaction, command.size + WRITE_COST_BYTES)
        transaction.sends.append(command)
        self.receipt(connection, command)
        return None

    def begin(self, connection: Connection, command: Begin) -> Waitable | None:
        if command.transaction in connection.transactions:
            raise Refusal(
                "transaction", f"The transaction {shown(command.transaction)} is open on this connection already."
            )
        if len(connection.transactions) >= self.limits.max_transactions:
            raise Refusal(
                "too-many-transactions",
                f"This connection has {len(connection.transactions)} open transactions: "
                f"max_transactions is {self.limits.max_transactions}.",
            )
        transaction = Transaction(self.context.now_s, connection.parked_total_s)
        connection.transactions[command.transaction] = transaction
        self.transactions[transaction] = connection
        self.receipt(connection, command)
        return None

    def commit(self, connection: Connection, command: Commit) -> Waitable | None:
        if command.prepare is not None:
            return self.prepare(connection, command, command.prepare)
        if command.app is not None and command.transaction not in connection.transactions:
            self.staging.commit((command.transaction.decode(errors="replace"),), command.app, command.version)
            self.receipt(connection, command, durable=True)
            return None
        transaction = self.transaction(connection, command.transaction)
        if command.app is not None:
            if self.staging.is_committed(command.app, command.version):
                transaction.release()
                self.end(connection, command.transaction)
                self.receipt(connection, command, durable=True)
                return None
            self.staging.check_app(command.app)
            # what is for memory waits until the version is on the disk: else it came again after a crash
            connection.rest_batch = self.context.open.number
        lacking = [
            delivery for nack, named in transaction.settlements for delivery in named if needs_bytes(nack, delivery)
        ]
        if lacking:
            return self.read_back(lacking)
        plan = Plan()
        for send in transaction.sends:
            self.admission.router.plan_send(connection, send, plan)
        blocked = self.admission.apply_plan(connection, plan, transaction)
        if blocked is None:
            if command.app is not None:
                # D30: in the batch that carries it out
                self.staging.keep_app(command.app, command.version)
            self.end(connection, command.transaction)
            self.receipt(connection, command, durable=command.app is not None)
            connection.offer()
            queues = {d.subscription.queue: None for _, ds in transaction.settlements for d in ds}

            def settled() -> None:
                for queue in queues:
                    self.maybe_delete(queue)

            settled()
            if self.context.open.then:
                self.context.open.then.append(settled)
        return blocked

    def prepare(self, connection: Connection, command: Commit, name: str) -> Waitable | None:
        transaction = self.transaction(connection, command.transaction)
        blocked = self.staging.prepare(connection, transaction, name)
        if blocked is None:
            self.end(connection, command.transaction)
            self.receipt(connection, command, durable=True)
        return blocked

    def abort(self, connection: Connection, command: Abort) -> Waitable | None:
        self.transaction(connection, command.transaction).release()
        self.end(connection, command.transaction)
        self.receipt(connection, command)
        return None

    def end(self, connection: Connection, name: bytes) -> None:
        transaction = connection.transactions.pop(name)
        connection.transaction_bytes -= transaction.size
        del self.transactions[transaction]

    def refuse_long_open(self) -> Iterator[int]:
        """What a transaction holds is nowhere else: none stays open for ever. The clock of a parked connection stands
        still. What that costs as it goes on, as in `Round`.
        """
        for transaction, connection in [*self.transactions.items()]:
            age_s = self.context.now_s - transaction.begun_s
            if age_s < self.limits.transaction_max_s:
                return
            age_s -= connection.parked_total_s - transaction.parked_s
            is_late = age_s >= self.limits.transaction_max_s and connection.waits_for is None
            if not is_late or connection.is_closing or transaction not in self.transactions:
                yield 1
                continue
            name = next(iter(connection.transactions))
            self.refuse(
                connection,
                "transaction-timeout",
                f"The transaction {shown(name)} is open for longer than {self.limits.transaction_max_s:g} s "
                "(transaction_max_s): nothing of it was carried out.",
                None,
            )
            yield REFUSED_LOOKS

    # ---- waiting for room -------------------------------------------------------------------------------------------

    def block(self, connection: Connection, commands: list[Command], room: Waitable) -> None:
        """Its reader stops; its commands wait in order."""
        connection.blocked.extend(commands)
        connection.parked_bytes = sum(c.size for c in commands if type(c) is Send)
        connection.parked_since_s = self.context.now_s
        connection.waits_for = room
        room.waiters.append(connection)
        self.blocked[connection.number] = connection
        self.context.post(Pause(connection.number))

    def unblock(self, connection: Connection) -> None:
        """It waits no longer."""
        room = connection.waits_for
        assert isinstance(room, WaitList | Target)
        room.waiters.remove(connection)
        if room.waiters:
            self.unblocked[room] = None
        connection.waits_for = None
        connection.blocked.clear()
        connection.parked_bytes = 0
        connection.parked_total_s += self.context.now_s - connection.parked_since_s
        self.admission.forget_found(connection)
        del self.blocked[connection.number]

    def freed_queue(self, queue: Queue) -> None:
        self.unblocked[queue] = None

    def retry_freed(self) -> None:
        """Parked commands go first come, first served, as far as there is room. Of one connection's that need much room
        each, one goes, and then it is the turn of the next.
        """
        while self.unblocked:
            room = next(iter(self.unblocked))
            del self.unblocked[room]
            while room.waiters and self.go_on(room.waiters[0], room):
                pass

    def go_on(self, connection: Connection, room: Waitable) -> bool:
        """Carry out what it has parked. False: it still waits for this very room."""
        if isinstance(connection, PreparedDelivery):
            return self.staging.applying.go_on(connection, room)
        went_on = False
        while connection.blocked and not connection.is_closing:
            blocked = self.carry_out(connection, connection.blocked[0])
            if blocked is FLUSH:
                commands = list(connection.blocked)
                self.unblock(connection)
                self.context.post(Resume(connection.number))
                self.backlog.appendleft(Read(connection.number, commands, connection.buffered_bytes))
                return True
            if blocked is room and not (went_on and len(room.waiters) > 1):
                return False
            if blocked is not None:
                room.waiters.remove(connection)
                blocked.waiters.append(connection)
                connection.waits_for = blocked
                return True
            connection.blocked.popleft()
            went_on = True
        if connection.number in self.blocked:
            self.unblock(connection)
            self.context.post(Resume(connection.number))
        return True

    def refuse_long_parked(self) -> Iterator[int]:
        """After block_timeout_s a SEND is refused as with `reject`. `blocked` is ordered by the time of parking. What
        that costs as it goes on, as in `Round`.
        """
        for connection in [*self.blocked.values()]:
            if self.context.now_s - connection.parked_since_s < self.limits.block_timeout_s:
                return
            yield 1
            # it may have gone on, or gone, while others had their turns; what was read with it has waited as long
            while connection.number in self.blocked and self.refuse_parked(connection):
                yield REFUSED_LOOKS

    def refuse_parked(self, connection: Connection) -> bool:
        """Its first command, where it has waited for too long: what is behind it goes on, if it asked for that in
        `on-refusal`. False: it has not.
        """
        now_s, limit_s, room = self.context.now_s, self.limits.block_timeout_s, connection.waits_for
        if isinstance(room, OffsetSearch | Turnstile | Reading) or now_s - connection.parked_since_s < limit_s:
            return False  # the three need no room, and end
        assert isinstance(room, WaitList | Target)
        name = f"/queue/{room.name}" if isinstance(room, Target) else room.name
        refusal = Refusal("blocked", f"No room for {limit_s:g} s: {name} has none (block_timeout_s).")
        command = connection.blocked[0]
        if not (type(command) is Send and command.survives_refusal):
            self.unblock(connection)
            self.refused(connection, command, refusal)
            return True
        self.refused(connection, command, refusal)
        connection.blocked.popleft()
        connection.parked_bytes -= command.size
        self.admission.forget_found(connection)
        self.go_on(connection, room)
        if room.waiters:
            self.unblocked[room] = None
        if connection.waits_for not in (None, room):  # for other room it has only begun to wait
            connection.parked_total_s += now_s - connection.parked_since_s
            connection.parked_since_s = now_s
            self.blocked[connection.number] = self.blocked.pop(connection.number)
        return True

    # ---- queues over time -------------------------------------------------------------------------------------------

    def watch(self, queue: Queue) -> None:
        """Expiry at its head, consumer or not; what is due; deliveries that are overdue; whether it is used at all."""
        if queue.ledger.stored_expiring and queue not in self.expiring:
            expiring = Expiring(self.context, queue, self.expiring.discard)
            if not expiring.is_done:
                self.expiring.add(queue)
                self.tasks.append(expiring)
        if 0 < queue.next_due_ms <= self.context.now_ms:
            had_due = queue.has_due
            if queue.release_due() and not had_due:
                self.tasks.append(ReleaseDelayed(queue))
        if queue.settings.expires_ms is not None and queue.has_outlived() and not self.checkouts.has(queue):
            self.end_queue(queue)
        if not queue.timeouts:
            return
        lacking: list[Delivery] = []
        for delivery in queue.overdue():
            connection = delivery.subscription.connection
            if queue.needs_bytes(delivery.entry, Event.OVERDUE):
                lacking.append(delivery)
            else:
                delivery.leave_window()
                queue.give_back(delivery, Event.OVERDUE)
            if connection.is_closing:
                continue
            self.refuse(
                connection,
                "ack-timeout",
                f"{shown(delivery.message_id)} of {queue.address} was not acked within "
                f"{delivery.subscription.ack_timeout_s or 0:g} s.",
                None,
            )
        if lacking:
            self.tasks.append(Requeue(self.context, Event.OVERDUE, lacking, lambda _: queue.pump()))
        queue.pump()

    def maybe_delete(self, queue: Queue) -> None:
        """auto_delete: it had consumers, the last of them has gone, and nothing is unacked."""
        is_over = queue.had_consumer and queue.is_idle and not queue.is_gone
        if queue.settings.auto_delete and is_over and not self.is_stopping and not self.checkouts.has(queue):
            self.end_queue(queue)

    def end_queue(self, queue: Queue) -> None:
        """It goes by itself: at once, unless it has very many bindings."""
        exchanges = self.destinations.exchanges
        if len(exchanges.bound.get(queue, ())) <= CHORE_MESSAGES and queue not in exchanges.leaving:
            self.delete(queue)
        elif queue not in exchanges.leaving:
            self.tasks.append(unbinding.leaving(self.context, exchanges, queue, lambda: self.delete(queue)))

    def delete(self, queue: Queue) -> None:
        if isinstance(queue, MemoryQueue) and queue.ledger.stored > CHORE_MESSAGES:
            # without its queue it would go all at once
            self.tasks.append(Purging(self.context, queue, lambda _: None))
        self.destinations.delete(queue)
        if not queue.is_short_lived or queue.ledger.stored:
            self.context.note("info", "queue_deleted", queue=queue.name, messages=queue.ledger.stored)
        if isinstance(queue, DurableQueue) and queue.ledger.stored:
            self.tasks.append(Sweeping(self.context, queue.number, queue.ledger.stored))
        if queue.waiters:
            self.unblocked[queue] = None

    def dead_letter(self, queue: Queue, entry: Entry, reason: str) -> None:
        """A dead letter: a new message in the dead-letter queue, put in the batch that removes the old one (D9)."""
        assert queue.settings.dead_letter is not None
        target = self.destinations.target(queue.settings.dead_letter)
        # D9: `leave` puts the Remove into this same batch
        target.put(self.moved(queue, entry, target, reason), CameFrom(BURIED, entry.position, queue.name))
        if queue.journal is not None:
            position = self.context.last_position
            queue.journal.write(DEAD_LETTERED, queue.name, entry, reason, other=position, where=target.name)
        if not target.is_persistent:
            target.pump()

    def moved(self, queue: Queue, entry: Entry, target: Target, reason: str | None) -> Message:
        """The message as it enters another queue; with a reason, as a dead letter."""
        old = entry.message
        # a dead letter's count is not that of the queue which it is moved to
        headers = without(old.headers, NOT_MOVED if reason is None else NOT_BURIED)
        expires_ms = old.expires_ms
        if reason is not None:
            expires_ms = 0
            headers += block_of(
                old.escaping,
                (DEAD_LETTER_REASON, reason.encode()),
                (ORIGINAL_DESTINATION, b"/queue/" + queue.name.encode()),
                (ORIGINAL_MESSAGE_ID, self.context.message_id(entry.position)),
                (REDELIVERY_COUNT, b"%d" % entry.redeliveries),
            )
        if target.settings.message_ttl_ms is not None:
            by_queue = self.context.now_ms + target.settings.message_ttl_ms
            expires_ms = min(expires_ms, by_queue) if expires_ms else by_queue
        return Message(f"/queue/{target.name}", headers, old.escaping, old.body, self.context.now_ms, expires_ms)

    def step_chores(self) -> None:
        """Long works, a slice each, while the open batch has room, and this turn."""
        for _ in range(len(self.tasks)):
            if self.context.open.size >= BATCH_BYTES or self.context.handled >= CHORE_MESSAGES:
                return
            task = self.tasks.popleft()
            task.step()
            if not task.is_done:
                self.tasks.append(task)

    def judge_disk(self) -> None:
        """Whether SENDs to persistent queues must wait for the disk; said once when it changes."""
        room = self.admission.disk_room
        left_bytes = self.admission.disk_left_bytes = min(
            self.high_water_bytes - self.store_used_bytes, self.disk_free_bytes - self.disk_free_min
        )
        promised = self.admission.promised_bytes
        is_tight = left_bytes < promised + promised // 2
        if is_tight != room.is_tight:
            room.is_tight = self.destinations.windows.is_disk_tight = is_tight
            if is_tight:
                self.context.note("warning", "disk_tight", **self.disk_numbers())
            else:
                self.context.note("info", "disk_has_room", **self.disk_numbers())
        if not is_tight and room.waiters:
            self.unblocked[room] = None

    # ---- memory -----------------------------------------------------------------------------------------------------

    def memory_in_use(self) -> int:
        """All that is held now, what is on the disk too included, in bytes. Takes long where there is much."""
        weighing = Weighing(self.memory)
        for queue in self.destinations.queues.values():
            if not queue.is_persistent:
                weighing.queue(queue)
        weighing.begin_connections()
        for connection in self.connections.values():
            if not connection.is_closing:
                weighing.connection(connection)
        return weighing.bytes + self.memory.on_disk_too

    def judge_memory(self, weighing: Weighing) -> Iterator[int]:
        """Past 80 % of the bound who holds much waits, or goes where it goes on; past it the largest holder goes. What
        that costs as it goes on, as in `Round`.
        """
        memory, room = self.memory, self.admission.memory_room
        weighing.end()
        size = weighing.bytes
        is_tight = size > memory.tight_bytes
        if is_tight and self.destinations.readers.tails_bytes:
            for log in self.destinations.logs.values():
                log.clear_tails()
        self.destinations.topics.is_pressed = size > memory.bound_bytes // 2
        gone: dict[Connection, None] = {}
        if is_tight != room.is_tight:
            room.is_tight = is_tight
            if is_tight:
                self.context.note(
                    "warning", "memory_tight", bytes=size, bound=memory.bound_bytes, holders=memory.told()
                )
            else:
                self.context.note("info", "memory_has_room", bytes=size, bound=memory.bound_bytes)
        elif is_tight:
            # few: each holds more than its share
            gone = dict.fromkeys(one for one in weighing.growing if self.is_refused_for_going_on(one))
            size -= sum(one.weighed_bytes for one in gone)
        is_unread = memory.is_awaited and weighing.unread > size // 2
        memory.is_awaited = False
        if room.waiters:
            room.waiters = deque(sorted(room.waiters, key=held_by))
            self.unblocked[room] = None
        self.unblocked.update((queue, None) for queue in weighing.awaited if queue.waiters)
        if size > memory.bound_bytes:
            there = [pair for pair in weighing.large if pair[1] not in gone]
            yield from self.close_largest(held_by, there, memory.bound_bytes, size)
        elif is_unread:
            # a queue may be consumed, but who does not read never will: without this, producers wait for nothing
            there = [(one.outbox_bytes, one) for _, one in weighing.large if one not in gone]
            yield from self.close_largest(_outbox_bytes, there, memory.tight_bytes, size)

    def is_refused_for_going_on(self, connection: Connection) -> bool:
        """Who holds more than its share, and more than when it was last weighed, is refused. Not one that waits: it is
        not read from.
        """
        if connection.waits_for is not None or connection.is_closing:
            return False
        memory = self.memory
        self.refuse(
            connection,
            "memory",
            f"Memory is short (max_memory_bytes {memory.bound_bytes}): this connection holds "
            f"{connection.weighed_bytes} bytes, more than its share of {memory.share_bytes}, and takes more.",
            None,
        )
        return True

    def close_largest(
        self,
        held_by: Callable[[Connection], int],
        there: list[tuple[int, Connection]],
        mark: int,
        size: int,
    ) -> Iterator[int]:
        """As many of the largest holders as it takes to come below the mark; nobody who holds next to nothing."""
        sentence = f"Out of memory (max_memory_bytes {self.limits.max_memory_bytes}): this connection holds most, "
        there.sort(key=itemgetter(0), reverse=True)
        for held, largest in there:
            if size <= mark or held < self.memory.least_bytes:
                return
            size -= held
            held = held_by(largest)
            # it may have let go of it while others had their turns
            if held >= self.memory.least_bytes and not largest.is_closing:
                self.refuse(largest, "memory", f"{sentence}{held} bytes.", None)
            yield REFUSED_LOOKS

    def disk_numbers(self) -> dict[str, int]:
        """What is said of the disk in the log and in `stats`."""
        return {
            "used_bytes": self.store_used_bytes,
            "map_size": self.map_size,
            "high_water_bytes": self.high_water_bytes,
            "reusable_bytes": self.reusable_bytes,
            "disk_free_bytes": self.file_system_free_bytes,
            "disk_room_bytes": self.disk_free_bytes,
            "disk_free_min": self.disk_free_min,
            "checked_percent": self.checked_percent,
        }


def _outbox_bytes(connection: Connection) -> int:
    return connection.outbox_bytes


_HANDLERS: dict[type, Callable[..., bool]] = {
    Read: Broker.read,
    Written: Broker.written,
    Committed: Broker.committed,
    Loaded: Broker.loaded,
    LoadedDelayed: Broker.loaded,
    LoadedLog: Broker.loaded,
    LoadedPrepared: Broker.loaded,
    Found: Broker.found,
    Reread: Broker.reread,
    Tick: Broker.ticked,
    Open: Broker.opened,
    Closed: Broker.closed,
    NotLinked: Broker.not_linked,
    Stop: Broker.stop,
}
_FIRST = frozenset((Written, Committed, Loaded, LoadedDelayed, LoadedLog, LoadedPrepared, Found))
_COMMANDS: dict[type, Callable[..., Waitable | None]] = {
    Send: Broker.send,
    Ack: Broker.ack,
    Nack: Broker.ack,
    Subscribe: Broker.subscribe,
    Unsubscribe: Broker.unsubscribe,
    Begin: Broker.begin,
    Commit: Broker.commit,
    Abort: Broker.abort,
    Disconnect: Broker.disconnect,
    Fail: Broker.fail,
    PeerMessage: Broker.heard,
    Unheeded: Broker.unheeded,
}
