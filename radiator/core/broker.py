"""The broker: a pure function of events. Nothing here can wait, and nothing else decides.

`turn` takes the events since the last turn and returns what the server has to do. The server must report every batch
that `seal` returned as Committed, in order, before it asks for the next one. A command for which there is no room
blocks its connection: the server stops reading from it, and the others go on. The parts (parts.py) do the work: two
tables map each command and each report to its handler.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import get_args

from radiator.core import admin
from radiator.core.admin.readiness import reasons_against
from radiator.core.authorization import Authorizer
from radiator.core.connections import Connection
from radiator.core.kinds.reply_queue import ReplyQueueKind
from radiator.core.parts import Machine, Parts
from radiator.core.queues import passing
from radiator.core.reload import Reloading
from radiator.core.routing.publishing import publish
from radiator.core.routing.waiting import FLUSH, REST, Waitable
from radiator.core.turn import Batch, Turn, reply_cost_bytes
from radiator.model.addresses import REPLY
from radiator.model.commands import (
    Abort,
    Ack,
    Administer,
    Begin,
    Closed,
    Command,
    Commit,
    Committed,
    Disconnect,
    Fail,
    Identify,
    InvalidSend,
    LoginRefused,
    Nack,
    NotLinked,
    Open,
    PeerMessage,
    PublishAll,
    Read,
    ReadBackEvent,
    Renew,
    Reread,
    Send,
    Stop,
    Subscribe,
    Tick,
    Unheeded,
    Unsubscribe,
    Written,
)
from radiator.model.commands import Event as ServerEvent
from radiator.model.errors import Refusal
from radiator.model.getting import FindAsker, Get, SetWindow
from radiator.model.leases import Receive, Settle
from radiator.model.limits import BATCH_BYTES, UNAWAITED_QUEUES, Limits
from radiator.model.reads import Found
from radiator.model.recovery import Recovery
from radiator.model.replies import Bye
from radiator.model.settings import Declarations, Node
from radiator.model.writes import Count, StoppedClean


class Broker:
    """One node. It is built from the declarations and from what the store recovered, and then driven by `turn` and
    `seal` alone.
    """

    def __init__(
        self,
        declarations: Declarations,
        limits: Limits,
        recovery: Recovery,
        machine: Machine,
        node: Node | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        """authorizer: checks each command; None: every principal may do everything. Raises StoreError if the store
        contradicts the declarations.
        """
        self.backlog: deque[ServerEvent] = deque()
        self.is_over = False  # the broker has stopped and has told every connection
        self.has_begun = False  # whether the turn has done a part of the command at which it ended
        self.parts = parts = Parts(
            declarations,
            limits,
            recovery,
            machine,
            node,
            authorizer=authorizer,
            carry_out=self.carry_out,
            postpone=self.backlog.appendleft,
        )
        self.context = parts.context
        self.destinations = parts.destinations
        self.admission = parts.admission
        self.acks = parts.acks
        self.cluster = parts.cluster
        self.connections = parts.connections
        self.blocking = parts.blocking
        self.background = parts.background
        parts.reload = self.reloading = Reloading(parts)
        parts.repetitions.ask = partial(admin.ask_again, parts)
        clients = parts.clients
        self._commands = parts.authorization.guard(_command_handlers(parts))
        self._handlers: dict[type, Callable[..., bool]] = {
            Read: self.read,
            Written: clients.written,
            Committed: self.committed,
            **dict.fromkeys(get_args(ReadBackEvent), self.loaded),
            Found: self.found,
            Reread: self.reread,
            Tick: self.ticked,
            Open: clients.opened,
            Closed: clients.closed,
            LoginRefused: clients.login_refused,
            NotLinked: clients.not_linked,
            Stop: self.stop,
        }

    # ---- a turn -----------------------------------------------------------------------------------------------------

    def turn(self, events: list[ServerEvent], now_s: float, now_ms: int) -> Turn:
        """Carries out the events in order. now_s: monotonic seconds; now_ms: milliseconds since the epoch."""
        context, parts = self.context, self.parts
        context.turn = turn = Turn()
        context.turn_number += 1
        context.handled = context.dead_letters_cost = context.settled_cost = 0
        context.now_s, context.now_ms = now_s, parts.clock.at(now_s, now_ms)
        if not context.is_stopping:
            if parts.rounds.looks is not None:
                parts.rounds.step()
            elif parts.memory.is_weighing_due:
                parts.rounds.begin()
        if self.backlog:
            events = self.behind_backlog(events)
        handlers = self._handlers
        for index, event in enumerate(events):
            if not handlers[type(event)](event):
                self.put_behind(events[:index], events[index + 1 :])
                break
        usages = parts.usages
        usages.acting = None
        if not context.is_stopping:
            self.go_on()
            usages.acting = None
        if self.backlog:
            turn.again = turn.is_background = True
        if (
            context.is_stopping
            and not self.is_over
            and context.being_committed is None
            and not context.open.writes
            and not context.open.held
        ):
            self.is_over = True
            turn.again = False
            turn.replies.extend(Bye(number) for number in self.connections)
        turn.stopped = self.is_over
        return turn

    def go_on(self) -> None:
        """Runs, after the events, what they unblocked, a slice of each background task, and what each turn must do."""
        context, turn = self.context, self.context.turn
        blocking = self.blocking
        usages = self.parts.usages
        due_times = context.due_soon.times.keys
        if due_times:
            self.parts.rounds.look_at_due()
        if blocking.can_go_on:
            blocking.retry()
        if self.background:
            usages.acting = None
            self.background.step_all(context)
            if blocking.can_go_on:
                blocking.retry()
        if usages.resuming and usages.offer():
            turn.again = True
        leases = self.parts.leases
        if leases.filled and leases.answer():
            turn.again = True
        readers = self.destinations.readers
        if readers.due:
            readers.end_turn()
        if context.passing and passing.end_turn(context):
            turn.again = True
        if self.cluster is not None:
            self.cluster.end_turn()
        if blocking.can_go_on:
            turn.again = True
        elif (self.background and self.background.can_go_on(context)) or self.parts.rounds.looks is not None:
            turn.again = turn.is_background = True
        elif readers.due:
            # serving thousands of readers, like other long work, keeps the disk threads waiting for the GIL
            turn.again = turn.is_background = True
        elif self.cluster is not None and self.cluster.shares.due:
            turn.again = True
        if due_times:
            turn.wake_in_s = context.due_soon.first_in_s(context.now_ms)
            if turn.wake_in_s == 0:
                turn.again = turn.is_background = True

    def behind_backlog(self, events: list[ServerEvent]) -> list[ServerEvent]:
        """Puts first the events that the backlog may wait for, then the backlog, then the rest, each in order."""
        if any(type(event) is Stop and event.at_once for event in events):
            self.backlog.clear()
        first = [e for e in events if type(e) in _FIRST]
        events = [*first, *self.backlog, *(e for e in events if type(e) not in _FIRST)]
        self.backlog.clear()
        return events

    @property
    def behind(self) -> dict[int, int]:
        """Counts, for each connection, the commands that wait because the last turn was full before it reached them."""
        found: dict[int, int] = {}
        for event in self.backlog:
            if isinstance(event, Open | Read | Closed):
                commands = len(event.commands) if isinstance(event, Read) else 0
                found[event.connection] = found.get(event.connection, 0) + commands
        return found

    def put_behind(self, earlier: list[ServerEvent], later: list[ServerEvent]) -> None:
        """Adds to the backlog the events after a Read within which the turn ended. The rest of that Read comes after
        them, unless they include events of the same connection, or other Reads left no time for any of it: it comes
        first then, as clients whose commands fill a turn each could otherwise keep it waiting for ever.
        """
        rest = self.backlog[-1]
        assert isinstance(rest, Read)
        had_time = self.has_begun or not any(type(event) is Read for event in earlier)
        is_last = had_time and all(getattr(event, "connection", None) != rest.connection for event in later)
        if is_last:
            self.backlog.extendleft(reversed(later))
        else:
            self.backlog.extend(later)

    def seal(self) -> Batch | None:
        """Closes the open batch, adds its ledgers, opens a new batch and returns the closed one. Returns None if the
        open batch is empty or another is being committed.
        """
        context = self.context
        batch = context.open
        if context.being_committed is not None or not self.has_batch:
            return None
        if self.parts.journal is not None:
            self.parts.journal.seal()
        for part in batch.parts:
            batch.writes.append(part.as_write())
        batch.sealed_s, batch.sealed_ms = context.now_s, context.now_ms
        context.being_committed = batch
        context.open = Batch(batch.number + 1)
        self.parts.disk.wrote(batch)
        self.wake_batch_lines()
        self.blocking.wake_waiters(self.acks.batch_wait_list)
        return batch

    @property
    def has_batch(self) -> bool:
        """Whether the open batch holds anything."""
        batch = self.context.open
        return bool(batch.writes or batch.held or batch.then or batch.parts)

    @property
    def is_batch_awaited(self) -> bool:
        """Whether anything waits for the open batch. Nothing does if it only removes messages that were acked without
        a receipt, or left without a command (by expiry, say), and stores, without a receipt, what no consumer is ready
        to take. If it is full, or touches so many queues that checking would take longer than a commit, the answer is
        yes.
        """
        batch = self.context.open
        if batch.held or batch.then or self.admission.batch_lines.is_awaited or self.acks.batch_wait_list.waiters:
            return True
        if batch.size >= BATCH_BYTES or len(batch.parts) > UNAWAITED_QUEUES:
            return True  # tasks that remove or move many messages go on when it is sealed
        return len(batch.writes) > sum(stored.unawaited(part) for stored, part in batch.parts.items())

    @property
    def batch_writes(self) -> int:
        """The number of writes in the open batch."""
        return len(self.context.open.writes)

    @property
    def wants_turn(self) -> bool:
        """Whether a blocked connection can go on, as one may after `seal`."""
        return self.blocking.can_go_on and not self.context.is_stopping

    def committed(self, event: Committed) -> bool:
        """Releases the held replies, which leave from here and nowhere else, and makes stored messages deliverable."""
        context = self.context
        batch = context.being_committed
        assert batch is not None and batch.number == event.number, "batches are committed in order, one at a time"
        context.being_committed = None
        context.committed = batch.number
        context.commits.add((context.now_s - batch.sealed_s) * 1000)
        # D1: the batch is on the disk, synced, before any of this leaves
        context.turn.replies.extend(batch.held)
        for reply in batch.held:
            connection = self.connections.get(reply.connection)
            if connection is not None:
                connection.held_reply_bytes -= reply_cost_bytes(reply)
        for queue, part in batch.parts.items():
            queue.committed(part)
        if not context.is_stopping:
            for then in batch.then:
                then()
        self.wake_batch_lines()
        return True

    def wake_batch_lines(self) -> None:
        """Has those tried again that wait to add to a batch."""
        for line in self.admission.batch_lines.both:
            self.blocking.wake_waiters(line)

    # ---- commands ---------------------------------------------------------------------------------------------------

    def read(self, event: Read) -> bool:
        connection = self.connections.get(event.connection)
        if connection is None or self.context.is_stopping:
            return True
        if connection.is_idle:
            connection.wake()
        if event.buffered_bytes != connection.buffered_bytes:
            self.admission.memory.frames_grown_bytes += event.buffered_bytes - connection.buffered_bytes
        connection.buffered_bytes = event.buffered_bytes
        if connection.blocked:
            self.blocking.add(connection, event.commands)
            return True
        handlers = self._commands
        commands = event.commands
        for index, command in enumerate(commands):
            if connection.is_closing:
                break
            try:  # carry_out, inlined: it saves a call for each command
                blocked = handlers[type(command)](connection, command)
            except Refusal as refusal:
                connection.refused(self.context, command, refusal)
                continue
            if blocked is FLUSH or blocked is REST:
                self.has_begun = blocked is REST
                self.backlog.append(Read(event.connection, commands[index:], event.buffered_bytes))
                return False
            if blocked is not None:
                self.blocking.block(connection, commands[index:], blocked)
                break
        return True

    def carry_out(self, connection: Connection, command: Command) -> Waitable | None:
        """Carries out one command. Returns what it must wait for, or None."""
        try:
            return self._commands[type(command)](connection, command)
        except Refusal as refusal:
            connection.refused(self.context, command, refusal)
            return None

    # ---- reports of the server --------------------------------------------------------------------------------------

    def loaded(self, event: ReadBackEvent) -> bool:
        answered = self.destinations.windows.waiting.pop(event.request)
        if not self.context.is_stopping:
            answered(event)
        return True

    def found(self, event: Found) -> bool:
        self.blocking.wake_waiters(self.admission.found(event.request, event.found))
        return True

    def reread(self, event: Reread) -> bool:
        """Called when config.toml was read again, because somebody asked for it or by a signal."""
        if not self.context.is_stopping:
            self.reloading.read(event)
        return True

    def ticked(self, event: Tick) -> bool:
        """Called as time passes: runs expiry and timeouts, and checks whether disk and memory have room."""
        if self.context.is_stopping:
            return True  # nothing may be written after StoppedClean
        parts = self.parts
        parts.half_open = event.half_open
        parts.certificates_left_s = event.certificates_left_s
        if not event.is_store_behind:
            parts.store_behind_since_s = None
        elif parts.store_behind_since_s is None:
            parts.store_behind_since_s = self.context.now_s
        parts.timers.watch_clock()
        parts.clients.ticked()
        parts.disk.measured(event)
        if parts.usages.waiting or parts.usages.leaving:
            parts.usages.ticked()
        parts.rounds.begin()
        parts.prepared.ticked()
        parts.checkouts.ticked()
        parts.leases.ticked()
        parts.getting.ticked()
        parts.registrations.ticked()
        parts.repetitions.ticked()
        parts.timers.tick_kinds()
        parts.overview.ticked()
        if self.cluster is not None:
            self.cluster.ticked()
        self.context.turn.not_ready = reasons_against(parts)
        return True

    def stop(self, event: Stop) -> bool:
        """Called at SIGTERM: everything accepted is committed, and what is unacked is marked as redelivered, without
        raising its redelivery count (contract 1).
        """
        context = self.context
        if context.is_stopping:
            return True
        self.background.stop()
        context.is_stopping = True
        if self.cluster is not None:
            self.cluster.stop()
        self.blocking.connections.clear()
        for connection in self.connections.values():
            connection.is_closing = True
        for queue in self.destinations.queues.stored.values():
            # D13: exactly the unacked ones
            for position, delivery in queue.entries_out.items():
                context.write(Count(queue.number, position, delivery.entry.redeliveries, True))
        context.write(StoppedClean())
        return True


def _command_handlers(parts: Parts) -> dict[type, Callable[..., Waitable | None]]:
    """Maps each type of command to its handler."""
    clients, transactions, replies = parts.clients, parts.transactions, parts.kinds[REPLY]
    assert isinstance(replies, ReplyQueueKind)
    return {
        Send: parts.admission.send,
        PublishAll: partial(publish, parts.admission, parts.turn_shares),
        Administer: partial(admin.administer, parts),
        Ack: parts.acks.ack,
        Nack: parts.acks.ack,
        Subscribe: parts.subscriptions.subscribe,
        Get: parts.getting.get,
        SetWindow: parts.getting.set_window,
        FindAsker: replies.find_asker,
        Unsubscribe: parts.subscriptions.unsubscribe,
        Begin: transactions.begin,
        Commit: transactions.commit,
        Abort: transactions.abort,
        Identify: clients.identify,
        Renew: clients.renew,
        Disconnect: clients.disconnect,
        Fail: clients.fail,
        InvalidSend: clients.invalid_send,
        PeerMessage: clients.heard,
        Unheeded: clients.unheeded,
        Receive: parts.leases.receive,
        Settle: parts.leases.settle,
    }


_FIRST = frozenset((Written, Committed, Found, *get_args(ReadBackEvent)))
