"""The event loop: takes the events, asks the broker for a turn, and carries out everything that the turn asks for.

It runs as a callback of the hub, never waits, and never runs twice at once, so the broker needs no lock. Between two
turns the hub always looks at sockets and timers, so heart-beats are not late, however much there is to do. One batch
is committed while the next one fills; this module does not know what a batch holds.
"""

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from radiator.core.broker import Broker
from radiator.core.turn import Note
from radiator.model.commands import Committed, Read, Tick
from radiator.model.errors import StoreError
from radiator.model.limits import (
    BACKGROUND_REST_S,
    GATHER_MAX_S,
    GATHER_WRITES,
    READS_AT_ONCE,
    TICK_S,
    UNAWAITED_MAX_S,
)
from radiator.model.reads import ReadRequest
from radiator.model.replies import Reply
from radiator.model.settings import Config
from radiator.server.connection import ServerConnection
from radiator.server.connections import Connections
from radiator.server.dialer import Dialer
from radiator.server.disk import CheckedStore, Findings, Inquiry, committer, follower, loader, measured
from radiator.server.inbox import Inbox
from radiator.server.log import EventLog
from radiator.server.reread import Rereader
from radiator.server.wake_timer import WakeTimer


class Dispatcher:
    """Used only on the hub. turns: how many there were. is_stopped: the broker has nothing more to send."""

    def __init__(
        self,
        loop: Any,
        broker: Broker,
        store: CheckedStore,
        data_dir: Path,
        inbox: Inbox,
        connections: Connections,
        dialer: Dialer,
        log: EventLog,
        sync_interval_s: float,
        rereader: Rereader,
        apply: Callable[[Config], None],
    ) -> None:
        """apply: puts another configuration into force in the rest of the server."""
        self.turns = 0
        self.is_stopped = False
        self._loop = loop
        self._broker = broker
        self._data_dir = data_dir
        self._inbox = inbox
        inbox.summon = self._summon
        self._is_in_turn = False
        self._connections = connections
        self._dialer = dialer
        self._log = log
        self._rereader = rereader
        self._apply = apply
        self._sync_interval_s = sync_interval_s
        self._sync_at_s = 0.0
        self._unawaited_max_s = UNAWAITED_MAX_S
        self._begun_s: float | None = None  # when the open batch was first seen to hold anything
        self._read_requests: deque[ReadRequest] = deque()
        self._measure_due = False
        # what was measured last, and the bytes of batches that this measurement may not include
        self._space = measured(store, data_dir)
        self._checked_percent = store.checked_percent
        self._unseen_bytes = 0
        self._unseen_by_measure_bytes = 0
        self._submitted_bytes = 0
        self._again = loop.timer(0)
        self._rest = loop.timer(BACKGROUND_REST_S, BACKGROUND_REST_S)
        self._can_rest = False
        self._tick = loop.timer(TICK_S, TICK_S)
        self._sealing = WakeTimer(loop, inbox.wake)
        self._due_soon = WakeTimer(loop, inbox.wake)
        # gathering: how many connections the last batch answered, and how long the next one waits for them
        self._has_committed = False
        self._submitted_s = 0.0
        self._awaited = 0
        self._gather_until_s = 0.0
        self._gathering = loop.timer(0)
        self.certificates_left_s: Callable[[], dict[str, int]] = dict
        self.committer = committer(loop, store, self._committed)
        self._loader = loader(loop, store, data_dir, self._found)
        self._store = store
        self._follower = follower(loop, store)

    def start(self) -> None:
        """Starts the threads and the clock."""
        self.committer.start()
        self._loader.start()
        self._follower.start()
        self._tick.start(self._ticked)
        self._ticked()

    @property
    def is_at_rest(self) -> bool:
        """Whether no thread of the disk has a job."""
        return not (self.committer.is_busy or self._loader.is_busy or self._follower.is_busy)

    def finish(self) -> None:
        """Stops the clock and the threads. Call this only at rest; afterwards the store may be closed."""
        self._tick.stop()
        self._sealing.stop()
        self._due_soon.stop()
        self.committer.stop()
        self._loader.stop()
        self._follower.stop()

    # ---- a turn -----------------------------------------------------------------------------------------------------

    def _summon(self) -> None:
        """Schedules the next turn, after everything that can be read now has been read. A turn's own reports and
        leftovers wait until the hub has looked at the sockets once more: it runs many callbacks before it does.

        Background work rests between two turns while a disk thread is busy. If turns follow each other at once, the GIL
        is released too briefly to wake a thread that waits for it, and a commit takes the GIL some thirty times: a
        commit took 590 ms during a flood of requests to /admin.
        """
        if not self._is_in_turn:
            self._loop.run_callback(self._turn)
        elif self._can_rest and not self.is_at_rest:
            self._rest.again(self._rested, update=True)  # `start` would continue the last interval
        else:
            self._again.start(self._turn)

    def _rested(self) -> None:
        self._rest.stop()
        self._turn()

    def _turn(self) -> None:
        """Runs one turn, and carries out everything that it asks for."""
        self._is_in_turn = True
        events = self._inbox.take(self._broker.behind)
        now_s = time.monotonic()
        try:
            turn = self._broker.turn(events, now_s, time.time_ns() // 1_000_000)
        except StoreError as error:
            advice = "That is damage, or a bug in Radiator. Run `radiator check` on it"
            raise StoreError(f"In the store in {self._data_dir} {error}. {advice}.") from error
        self.turns += 1
        self.is_stopped = turn.stopped
        if turn.notes:
            self._log_notes(turn.notes)  # before a refused connection is gone
        if self._has_committed:
            self._has_committed = False
            self._awaited = self._post(turn.replies)
            self._gather_until_s = now_s + min(GATHER_MAX_S, now_s - self._submitted_s)
            self._seal(now_s)
        else:
            self._awaited -= sum(type(event) is Read for event in events)
            self._seal(now_s)
            self._post(turn.replies)
        if turn.notes:
            self._log_notes(turn.notes)  # what sealing has noted
        if turn.read_requests:
            self._read_requests.extend(turn.read_requests)
            self._ask()
        if turn.not_ready is not None:
            self._connections.web_state.not_ready = turn.not_ready
        if turn.applied:
            self._apply(self._rereader.applied())
        if turn.reread_over:
            self._rereader.over()
        if turn.reread:
            self._rereader.ask()
        for name, address in turn.dials:
            self._dialer.add(name, address)
        if turn.wake_in_s is not None:
            self._due_soon.at(now_s + turn.wake_in_s, now_s)
        self._can_rest = turn.is_background
        if turn.again or self._inbox.has_more or self._broker.wants_turn:
            self._inbox.wake()
        self._is_in_turn = False

    def _post(self, replies: list[Reply]) -> int:
        """Posts each reply, then makes one write per connection. Returns the number of connections."""
        connections = self._connections.open
        touched: list[ServerConnection] = []
        for reply in replies:
            connection = connections.get(reply.connection)
            if connection is not None:
                try:
                    connection.post(reply)
                except Exception as bug:  # noqa: BLE001  # a door: a session's bug must not end the broker
                    connection.close_for(bug)
                    continue
                if not connection.is_touched:
                    connection.is_touched = True
                    touched.append(connection)
        for connection in touched:
            connection.flush()
        return len(touched)

    def _log_notes(self, notes: list[Note]) -> None:
        """Logs each note once, with the address of its connection: most connections have no other line in the log."""
        for note in notes:
            connection = self._connections.open.get(int(note.fields.get("connection", 0)))
            if connection is None:
                self._log.write(note.level, note.event, note.fields)
            else:
                fields = {**note.fields, "peer": connection.peer}
                self._log.write(note.level, note.event, fields, connection.network)
        notes.clear()

    # ---- the disk ---------------------------------------------------------------------------------------------------

    def _seal(self, now_s: float) -> None:
        """Submits the open batch if the last one is committed, the awaited clients have sent something or the batch has
        filled without them, and sync_interval_ms has passed.

        Clients that a batch has answered send again at once. If the first did not wait for the others, its messages
        would be committed alone, and the others would wait for that commit: with 8 + 8 connections end to end the wait
        saves a quarter of the CPU (116 µs a message without it, 86 with it). A batch that nobody awaits waits longer.
        """
        if self.committer.is_busy or not self._broker.has_batch:
            return
        due_s = self._sync_at_s
        if not self._broker.is_batch_awaited:
            if self._begun_s is None:
                self._begun_s = now_s
            due_s = max(due_s, self._begun_s + self._unawaited_max_s)
        elif self._is_gathering():
            # the hub polls without sleeping: its timers are no finer than a millisecond
            self._gathering.start(self._gathered)
            return
        if now_s < due_s:
            self._sealing.at(due_s, now_s)
            return
        batch = self._broker.seal()
        assert batch is not None
        self._awaited = 0
        self._begun_s = None
        self._submitted_s = now_s
        self._sync_at_s = now_s + self._sync_interval_s
        self._submitted_bytes = batch.disk_bytes
        self._unseen_bytes += batch.disk_bytes
        self._unseen_by_measure_bytes += batch.disk_bytes
        self.committer.submit(batch)

    def _is_gathering(self) -> bool:
        """Whether to wait for the awaited clients: no longer once the open batch has filled without them (producers
        with wide windows), or time is up.
        """
        worth = self._awaited * GATHER_WRITES
        return self._broker.batch_writes < worth and time.monotonic() < self._gather_until_s

    def _gathered(self) -> None:
        if self._is_gathering():
            self._gathering.start(self._gathered)
        else:
            self._inbox.wake()

    def _committed(self, number: int) -> None:
        self._has_committed = True
        self._submitted_bytes = 0
        if self._store.is_far_behind and not self._follower.is_busy:
            self._follower.submit(True)
        self._inbox.report(Committed(number))

    def use(self, config: Config) -> None:
        """Puts the disk settings of this configuration into force."""
        self._sync_interval_s = config.sync_interval_ms / 1000
        self._store.use_disk_free_min(config.disk_free_min)

    def sync_at_once(self) -> None:
        """Called when the broker stops: from now on no batch waits."""
        self._sync_interval_s = self._sync_at_s = self._unawaited_max_s = 0.0

    # ---- what is read back ------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        if self._loader.is_busy or not (self._read_requests or self._measure_due):
            return
        count = min(len(self._read_requests), READS_AT_ONCE)
        inquiry = Inquiry([self._read_requests.popleft() for _ in range(count)], self._measure_due)
        if self._measure_due:
            self._unseen_by_measure_bytes = self._submitted_bytes
        self._measure_due = False
        self._loader.submit(inquiry)

    def _found(self, findings: Findings) -> None:
        if findings.space is not None:
            self._space = findings.space
            self._unseen_bytes = self._unseen_by_measure_bytes
            if self._checked_percent < findings.checked_percent == 100:
                self._log.info("structure_checked", data_dir=str(self._data_dir))
            self._checked_percent = findings.checked_percent
        for event in findings.events:
            self._inbox.report(event)
        self._read_requests.extendleft(reversed(findings.unread))
        self._ask()

    def _ticked(self) -> None:
        """Reports a Tick, even while the disk is slow: with the last measurement, less what was written since."""
        space, unseen_bytes = self._space, self._unseen_bytes
        self._inbox.report(
            Tick(
                max(0, space.for_messages_bytes - unseen_bytes),
                space.used_bytes + unseen_bytes,
                self._checked_percent,
                space.free_bytes,
                space.reusable_bytes,
                self._connections.half_open,
                space.wal_bytes,
                space.wal_kept_bytes,
                self.certificates_left_s(),
                self._store.is_far_behind,
                space.wal,
                space.total_bytes,
            )
        )
        self._measure_due = True
        self._ask()
