"""One connection: a transport that never waits, the session that knows its protocol, and the bytes on their way.

    OPENING --Open--> OPEN --ERROR or Bye posted--> ENDING --all written--> LINGERING --hung up--> CLOSED
       `--no CONNECT, or a wrong one--> ENDING        `------ from every state: lost, or out of time ------'

The broker gets Open and Closed once each, in this order, and between them the client's commands, in order. Nothing here
waits: what the transport does not take at once is written when the system reports it writable, and a connection that
must not be read from is not watched for input.
"""

import time
import traceback
from functools import partial
from math import inf
from typing import Any

from radiator.model.commands import Closed, Disconnect, Fail, Heard, Open, Read, Written
from radiator.model.limits import (
    COMMANDS_AT_ONCE,
    CONNECT_MAX_BYTES,
    GOODBYE_MAX_S,
    HTTP_ANSWERS_BYTES,
    LINGER_BYTES,
    LINGER_S,
    LOOKS_PER_TCP_TIMEOUT,
    READ_BYTES,
    WRITE_BYTES,
    WRITTEN_AT_ONCE_BYTES,
)
from radiator.model.principal import Check, Verdict
from radiator.model.replies import Answered, Bye, Deliver, Pause, Receipt, Refuse, Reply, Resume, SendToPeer
from radiator.protocols import Session
from radiator.server.channels import Channels
from radiator.server.frame_clock import FrameClock
from radiator.server.liveness import Liveness
from radiator.server.outbox import ChannelsBuffer, OutgoingBuffer
from radiator.server.presence import Presence
from radiator.server.shared import Shared
from radiator.server.tls import HANDSHAKE
from radiator.server.transport import Transport

_OPENING, _OPEN, _ENDING, _LINGERING, _CLOSED = range(5)

# why nothing is read from a connection; a bit each
_PAUSED = 1  # the broker has blocked a command of it
_OUTBOX_FULL = 2  # the client does not read what it is sent
_INBOX_FULL = 4  # the broker has not caught up
_BEHIND = 8  # the broker has not taken all its commands
_OVER = 16  # its input is ignored
_CHECKED = 32  # its client's identity is being checked
_UNANSWERED = 64  # its session reads on only after the broker has answered
_COSTLY = 128  # its session's next step takes long, and waits for its turn

_SPEAKS_TLS = (
    "the client speaks TLS at a listener without it: it needs stomp:// or amqp://, or the port of stomps:// or amqps://"
)

_LAST_WORDS = (Disconnect, Fail)
_HOLDS_TOO_MUCH = ("memory", "slow-subscriber")  # codes of an ERROR about unsent bytes: it goes first

_READABLE, _WRITABLE = 1, 2  # libev's names for what a watcher waits for


class ServerConnection:
    """Used on the hub only. The dispatcher calls `post` and then `flush`; the timetable calls `look`.

    presence: the connection as the rest of the server counts it, from beginning to end. peer: the other end, as the log
    names it. network: connections of one network are counted together.
    """

    __slots__ = (
        "_beat_at_s", "_cause", "_channels", "_deadline_s", "_frame_clock", "_holds", "_is_report_due",
        "_last_heard", "_lingered_bytes", "_liveness", "_outbox", "_presence", "_reader", "_reported_bytes", "_session",
        "__weakref__", "_shared", "_state", "_transport", "_was_read_s", "_writer", "is_touched", "look_at_s",
        "network", "number", "peer",
    )  # fmt: skip

    def __init__(
        self,
        shared: "Shared[ServerConnection]",
        number: int,
        transport: Transport,
        session: Session,
        presence: Presence,
    ) -> None:
        now_s = time.monotonic()
        self.number = number
        self.peer = transport.peer
        self.network = transport.network
        self.is_touched = False  # something was posted in this turn
        self.look_at_s = 0.0
        self._shared = shared
        self._transport = transport
        self._session = session
        self._presence = presence
        self._state = _OPENING
        self._deadline_s = now_s + shared.limits.connect_timeout_s
        self._holds = 0
        self._was_read_s = now_s
        self._frame_clock: FrameClock | None = None  # since its first frame that arrived in pieces
        self._reported_bytes = 0  # of an unfinished frame, as the broker knows it
        self._outbox = OutgoingBuffer()
        self._channels: Channels[ServerConnection] | None = None
        if session.has_channels:
            self._outbox = outbox = ChannelsBuffer()
            self._channels = Channels(shared, self, number, outbox)
        self._liveness = Liveness(shared.limits.tcp_timeout_s)
        self._is_report_due = False  # the broker waits for a Deliver to be written
        self._cause = "closed"  # what the log says of its end
        self._beat_at_s = 0.0
        self._lingered_bytes = 0
        self._last_heard = b""  # the end of what has arrived since the last byte was written
        self._writer: Any = None
        self._reader: Any = shared.loop.io(transport.fileno(), _READABLE)
        self._reader.start(self._readable)
        shared.timetable.enter(self, self._deadline_s)
        shared.by_number[number] = self
        if session.is_link:
            self._outbox.append(session.take_outgoing())
            self._write()

    # ---- reading ----------------------------------------------------------------------------------------------------

    def _readable(self) -> None:
        try:
            # bytes after a CONNECT whose login is pending are held here: from a stranger, no more than this
            data = self._transport.receive(READ_BYTES if self._state != _OPENING else CONNECT_MAX_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(f"read: {error.strerror}")
            return
        except Exception as bug:  # noqa: BLE001  # a door: as below, for what decrypts the bytes of strangers
            self.close_for(bug)
            return
        if not data:
            self.close("hung up")
            return
        self._was_read_s = time.monotonic()
        if not self.look_at_s:
            self._wake(self._was_read_s)
        if self._state >= _LINGERING:
            self._drop(data)
            return
        if self._state == _OPENING:
            self._session.recognise(self._transport.principal)
            if data[0] == HANDSHAKE and not self._session.buffered_bytes and not self._session.is_link:
                self._shared.log.write(
                    "warning", "tls_failed", {"peer": self.peer, "reason": _SPEAKS_TLS}, self.network
                )
        try:
            commands = self._session.receive(data)
        except Exception as bug:  # noqa: BLE001  # a door: a session's bug must cost its own connection only
            self.close_for(bug)
            return
        self._heard(commands, len(data))

    def close_for(self, bug: Exception) -> None:
        """Closes the connection for a bug in its session, which costs no other connection."""
        self._shared.log.trace("".join(traceback.format_exception(bug)))
        self._shared.log.error("session_bug", connection=self.number, peer=self.peer)
        self.close("a bug in the session")

    def _heard(self, commands: list[Heard], size: int) -> None:
        """Handles what the session made of `size` bytes: writes its own answers, passes its commands to the broker, and
        its check to the thread of checks. Nothing is read while the broker has not caught up.
        """
        session = self._session
        held_bytes = session.buffered_bytes
        if held_bytes or self._frame_clock is not None:
            self._time_frame(size, held_bytes)
        outgoing = session.take_outgoing()
        if commands and self._state == _OPENING and self._presence.is_full():
            self.refuse_as_full()
            return
        if outgoing:
            self._outbox.append(outgoing)
            self._write()
        is_changed = commands or (held_bytes != self._reported_bytes and self._state == _OPEN)
        if is_changed and (self._state == _OPEN or self._opened(commands)):
            inbox = self._shared.inbox
            self._reported_bytes = held_bytes
            behind = self.number if len(commands) > COMMANDS_AT_ONCE else 0
            if self._channels is not None:
                behind = self._channels.put(commands, size, held_bytes, self.peer, self.tls)
            else:
                inbox.put(Read(self.number, commands, held_bytes), size)  # type: ignore[arg-type]  # Open came first
            if commands and type(commands[-1]) in _LAST_WORDS and commands[-1].connection == self.number:
                self._hold(_OVER)
            elif behind:
                self._hold(_BEHIND)
                inbox.when_taken(behind, partial(self._release, _BEHIND))
            elif inbox.is_full:
                self._hold(_INBOX_FULL)
                inbox.when_not_full(partial(self._release, _INBOX_FULL))
        if session.is_closing:
            self.end(session.closing_cause)
        if session.pending is not None:
            self._ask(session.pending)
        elif session.is_full:
            self._hold(_UNANSWERED)
        if session.is_costly and not self._holds & _OVER:
            self._hold(_COSTLY)
            self._shared.costly.add(self.number, self._go_on)

    def _opened(self, commands: list[Heard]) -> bool:
        """Takes Open, the first command, and passes it on. False: the connection was lost while it was greeted."""
        if self._state != _OPENING:
            return False
        event = commands.pop(0)
        assert isinstance(event, Open)
        event.address, event.tls = self.peer, self.tls
        self._state = _OPEN
        self._shared.open[self.number] = self
        self._shared.inbox.put(event)
        self._presence.opened(event)
        now_s = self._was_read_s
        self._beat_at_s = now_s + self._session.heart_beat_send_s
        self._shared.timetable.enter(self, self._look_open(now_s))
        return True

    def _ask(self, check: Check) -> None:
        """Starts a check. Nothing is read until it is answered, within connect_timeout_s at most."""
        if self._holds & _OVER:
            return
        self._hold(_CHECKED)
        if self._state == _OPEN:
            self._deadline_s = time.monotonic() + self._shared.limits.connect_timeout_s
            self._shared.timetable.enter(self, self._deadline_s)
        self._shared.checks.ask(self.number, check, self._answered)

    def _answered(self, verdict: Verdict) -> None:
        self._release(_CHECKED)
        if self._holds & _OVER:
            return
        try:
            commands = self._session.answered(verdict)
        except Exception as bug:  # noqa: BLE001  # as in _readable
            self.close_for(bug)
            return
        self._heard(commands, 0)

    def read_pending(self) -> None:
        """Reads what arrived while the broker was busy, before a connection without a CONNECT is closed."""
        if self._state == _OPENING and not self._holds & _CHECKED:
            self._readable()

    def _time_frame(self, size: int, held_bytes: int) -> None:
        if self._frame_clock is None:
            self._frame_clock = FrameClock(self._shared.limits.frame_timeout_s)
        self._frame_clock.read(self._was_read_s, size, held_bytes)

    def _hold(self, reason: int) -> None:
        if not self._holds and self._state < _LINGERING:
            self._reader.stop()
            if not self.look_at_s:
                self._wake(time.monotonic())
            if self._frame_clock is not None:
                self._frame_clock.stand_still(time.monotonic())
        self._holds |= reason

    def _release(self, reason: int) -> None:
        if self._holds & reason:
            self._holds &= ~reason
            if not self._holds and self._state < _LINGERING:
                # its clocks stood still while nothing was read
                self._was_read_s = time.monotonic()
                if self._frame_clock is not None:
                    self._frame_clock.go_on(self._was_read_s)
                if self._session.has_unread:
                    # first: else a client that sends faster than it is answered has more and more read per answer
                    self._shared.loop.run_callback(self._read_on)
                else:
                    self._reader.start(self._readable)

    def _go_on(self) -> None:
        """Called when it is this connection's turn for a costly step, which waits if nothing may be read now."""
        self._release(_COSTLY)
        self._read_on()

    def _read_on(self) -> None:
        """Has the session read what it holds unread, then watches for input again."""
        if self._state > _OPEN or self._holds:
            return
        if self._session.has_unread:
            try:
                commands = self._session.receive(b"")
            except Exception as bug:  # noqa: BLE001  # as in _readable
                self.close_for(bug)
                return
            self._heard(commands, 0)
        if self._state < _LINGERING and not self._holds:
            self._reader.start(self._readable)

    # ---- writing ----------------------------------------------------------------------------------------------------

    def post(self, reply: Reply) -> None:
        """Sends this, or does it, after everything posted before; `flush` must follow. Drops it unless OPEN."""
        if self._state != _OPEN:
            return
        if type(reply) is Deliver:
            if len(reply.message.body) > WRITE_BYTES:
                self._outbox.append_pieces(self._session.pieces(reply), True, reply.connection)
            else:
                self._outbox.append(self._session.encode(reply), True, reply.connection)
            if reply.written_due:
                self._is_report_due = True
        elif type(reply) is Receipt:  # a RefusedReceipt is written below
            self._outbox.append(self._session.encode(reply))
        elif type(reply) is SendToPeer:
            self._outbox.append(self._session.encode(reply), is_deliver=True)
        elif self._channels is not None:
            self._post_on_channel(reply, self._channels)
        elif isinstance(reply, Pause):
            self._hold(_PAUSED)
        elif isinstance(reply, Resume):
            self._release(_PAUSED)
        elif isinstance(reply, Refuse) and reply.scope >= self._session.closes_at:
            # what holds too much is dropped first; a client that tells answers by their order then gets no refusal
            if reply.code not in _HOLDS_TOO_MUCH or not self._outbox.drop() or not self._session.is_ordered:
                self._outbox.append(self._session.encode(reply))
            self._start_ending(f"refused: {reply.code}")
        else:
            is_again = isinstance(reply, Answered) and reply.is_again
            self._is_report_due = self._is_report_due or is_again
            if isinstance(reply, Answered) and len(reply.body) > WRITE_BYTES:
                self._outbox.append_pieces(self._session.pieces(reply), is_deliver=is_again)
            else:
                self._outbox.append(self._session.encode(reply), is_deliver=is_again)
            if isinstance(reply, Bye):
                self._start_ending("closed")
            elif self._session.is_closing:
                self._start_ending(self._session.closing_cause)
            self._was_read_s = time.monotonic()  # until now the broker was the silent one

    def _post_on_channel(self, reply: Reply, channels: Channels["ServerConnection"]) -> None:
        """Sends a reply that may end a channel, or the connection itself with all its channels."""
        session = self._session
        is_end = isinstance(reply, Bye) or (isinstance(reply, Refuse) and reply.scope >= session.closes_at)
        self._outbox.append(session.encode(reply))
        cause = f"refused: {reply.code}" if isinstance(reply, Refuse) else "closed"
        if session.is_closing:
            self._start_ending(session.closing_cause)
        elif is_end and reply.connection == self.number:
            self._start_ending(cause)
        elif is_end:
            channels.over(reply.connection, cause)

    def flush(self) -> None:
        """Writes everything posted in one write, unless an earlier one is still going on."""
        self.is_touched = False
        if self._state >= _LINGERING:
            return
        if not self.look_at_s:
            self._wake(time.monotonic())
        if self._channels is not None and (outgoing := self._session.take_outgoing()):
            self._outbox.append(outgoing)
        if self._state == _ENDING:
            self._session.forget()  # else a part of a frame stays in memory while the client takes its time
        if self._holds & _UNANSWERED and not self._session.is_full:
            self._release(_UNANSWERED)
        elif self._channels is not None and not self._holds and self._session.has_unread:
            self._shared.loop.run_callback(self._read_on)
        if self._writer is None:
            self._write()
        else:
            self._hold_if_full()

    def end(self, cause: str) -> None:
        """Hangs up once everything posted so far is written, within GOODBYE_MAX_S."""
        if self._state < _ENDING:
            if self._state == _OPENING:
                self._presence.not_opened(self._session, cause)
            self._start_ending(cause)
            self.flush()

    def _start_ending(self, cause: str) -> None:
        self._hold(_OVER)
        self._state = _ENDING
        self._cause = cause
        self._deadline_s = time.monotonic() + GOODBYE_MAX_S
        self._shared.timetable.enter(self, self._deadline_s)

    def _write(self) -> None:
        """Sends once, as much as the system takes."""
        outbox = self._outbox
        if outbox.pending_bytes:
            data = outbox.next()
            try:
                sent_bytes = self._transport.send(data)
            except BlockingIOError:
                sent_bytes = 0
            except OSError as error:
                self.close(f"write: {error.strerror}")
                return
            if outbox.took(sent_bytes):
                at_once = self._is_report_due or self._writer is not None or sent_bytes > WRITTEN_AT_ONCE_BYTES
                for number, delivered in outbox.taken(self.number):
                    self._shared.inbox.report(Written(number, delivered), at_once)
        if outbox.pending_bytes:
            self._write_on()
        elif self._writer is not None or self._is_report_due or self._state == _ENDING:
            self._all_is_written()

    def _write_on(self) -> None:
        """Writes the rest when the system can take more."""
        if self._writer is None:
            self._writer = self._shared.loop.io(self._transport.fileno(), _WRITABLE)
            self._writer.start(self._write)
        self._hold_if_full()

    def _hold_if_full(self) -> None:
        """Stops reading from a client that does not read: its answers would only pile up. A link is always read: two
        nodes that each wait for the other to read would wait for ever, and the broker bounds what it sends to nodes.
        """
        if self._session.is_link:
            return
        # nobody else counts the answers over HTTP that a client leaves unread
        is_uncounted = self._state == _OPENING or self._session.is_ordered
        most_bytes = HTTP_ANSWERS_BYTES if is_uncounted else self._shared.limits.outbox_filled_bytes
        if self._outbox.pending_bytes > most_bytes:
            self._hold(_OUTBOX_FULL)
        else:
            self._release(_OUTBOX_FULL)

    def _all_is_written(self) -> None:
        self._is_report_due = False
        if self._writer is not None:
            self._stop_writer()
            self._release(_OUTBOX_FULL)
        if self._state == _ENDING:
            self._linger()

    def _stop_writer(self) -> None:
        if self._writer is not None:
            self._writer.stop()
            self._writer.close()
            self._writer = None

    # ---- the end ----------------------------------------------------------------------------------------------------

    def _linger(self) -> None:
        """Called when the last byte is written. If the socket were closed with input unread, the system would reset the
        connection, which can destroy the last bytes before the client reads them: so input is read and dropped.
        """
        self._state = _LINGERING
        self._report_closed(self._cause)
        if not self._session.last_answer and not self._has_finished():
            return
        self._reader.start(self._readable)
        self._deadline_s = time.monotonic() + LINGER_S
        self._shared.timetable.enter(self, self._deadline_s)

    def _has_finished(self) -> bool:
        """Tells the client that nothing more comes. Returns False if that fails."""
        try:
            self._transport.finish()
        except OSError:
            self.close("")
            return False
        return True

    def _drop(self, data: bytes) -> None:
        self._lingered_bytes += len(data)
        if self._lingered_bytes > LINGER_BYTES:
            self.close("")
            return
        if answer := self._session.last_answer:
            self._last_heard = (self._last_heard + data)[-len(answer) :]
            if self._last_heard == answer:
                self._has_finished()

    def close(self, cause: str) -> None:
        """Closes at once; unwritten bytes are lost. May be called again."""
        if self._state == _CLOSED:
            return
        was_opening = self._state == _OPENING
        self._state = _CLOSED
        self._holds |= _OVER
        self._shared.checks.drop(self.number)
        self._shared.costly.drop(self.number)
        self.look_at_s = 0.0
        self._stop_writer()
        self._reader.stop()
        self._reader.close()
        self._reader = None  # it refers to this connection: without the cycle both are freed at once
        self._transport.close()
        self._outbox.clear()
        self._session.forget()  # the inbox may hold this connection for a while yet
        del self._shared.by_number[self.number]
        if was_opening:
            self._presence.not_opened(self._session, cause)
        self._report_closed(cause)
        self._channels = None  # they refer to this connection, as its reader does
        self._presence.gone()

    def _report_closed(self, cause: str) -> None:
        """Reports Closed to the broker, once, and only if it has heard of Open."""
        if self._shared.open.pop(self.number, None) is not None:
            if self._channels is not None:
                self._channels.all_over(cause)
            self._presence.closed(cause)
            self._shared.inbox.put(Closed(self.number, cause))

    # ---- time -------------------------------------------------------------------------------------------------------

    def look(self, now_s: float) -> float:
        """Does what is due: heart-beats, timeouts, a dead peer. Returns when to look again; 0: not until `_wake`."""
        if self._state != _OPEN or self._holds & _CHECKED:
            if now_s >= self._deadline_s:
                self.close(self._why_too_late())
                return 0.0
            if self._state != _OPEN:
                return self._deadline_s
        if self._is_silent(now_s):
            self._readable()  # what arrived while the broker was busy counts
            if self._state == _OPEN and self._is_silent(now_s):
                self.close("stalled within a frame" if self._session.buffered_bytes else "heart-beats missing")
        if self._is_frame_late(now_s):
            self._readable()
            if self._state == _OPEN and self._is_frame_late(now_s):
                self._end_late_frame()
        if self._state == _OPEN and now_s >= self._liveness.due_s:
            cause = self._liveness.look(now_s, self._outbox.sent_bytes, self._holds != 0, self._transport.ask)
            if cause:
                self.close(cause)
        if self._state == _OPEN and self._session.heart_beat_send_s and now_s >= self._beat_at_s:
            self._beat(now_s)
        if self._state != _OPEN:
            return self._deadline_s if self._state != _CLOSED else 0.0
        return 0.0 if self._is_at_rest() else self._look_open(now_s)

    def _why_too_late(self) -> str:
        if self._state > _OPEN:
            return "did not read in time"
        if self._holds & _CHECKED:
            return "could not be recognised in time"
        return "did not prove in time who it is" if self._session.is_link else "sent no whole CONNECT in time"

    def _wake(self, now_s: float) -> None:
        """Has the connection looked at again: something was read or sent, or reading is held."""
        if self._state == _OPEN:
            self._shared.timetable.enter(self, now_s + self._look_every_s)

    @property
    def _look_every_s(self) -> float:
        """How long after a look, or after an event, to look again, since something may be due by then."""
        limits = self._shared.limits
        return min(limits.connect_timeout_s, limits.frame_timeout_s, limits.tcp_timeout_s / LOOKS_PER_TCP_TIMEOUT)

    def _is_at_rest(self) -> bool:
        """Whether nothing can be due before something is read or sent: so 10,000 idle clients cost nothing."""
        session = self._session
        return (
            not (self._holds or session.heart_beat_send_s or session.buffered_bytes or self._outbox.pending_bytes)
            and session.silence_max_s == inf
            and self._liveness.is_settled(self._outbox.sent_bytes)
        )

    def _look_open(self, now_s: float) -> float:
        """Returns when the next thing may be due."""
        due_s = now_s + self._look_every_s
        if self._session.heart_beat_send_s:
            due_s = min(due_s, self._beat_at_s)
        if self._holds:
            due_s = min(due_s, self._liveness.due_s)
            if self._holds & _CHECKED:
                due_s = min(due_s, self._deadline_s)
        else:
            due_s = min(due_s, self._was_read_s + self._silence_max_s())
            if self._session.buffered_bytes and self._frame_clock is not None:
                due_s = min(due_s, self._frame_clock.due_s(self._session.frame_bytes))
        return due_s

    def _silence_max_s(self) -> float:
        if self._session.buffered_bytes:
            return min(self._session.silence_max_s, self._shared.limits.connect_timeout_s)
        return self._session.silence_max_s

    def _is_silent(self, now_s: float) -> bool:
        """Whether a heart-beat from the other end is overdue. Time in which nothing is read does not count."""
        return not self._holds and now_s - self._was_read_s >= self._silence_max_s()

    def _is_frame_late(self, now_s: float) -> bool:
        """Whether a frame should be complete by now. Time in which nothing is read does not count."""
        if self._state != _OPEN or self._holds or not self._session.buffered_bytes or self._frame_clock is None:
            return False
        return now_s >= self._frame_clock.due_s(self._session.frame_bytes)

    def _end_late_frame(self) -> None:
        """Ends the connection for a late frame: a client gets an ERROR, after the replies that are due to it."""
        if self._session.is_link:
            self.close("took too long for a frame")
            return
        assert self._frame_clock is not None
        self._heard([Fail(self.number, self._frame_clock.too_long(self._session.buffered_bytes))], 0)

    def _beat(self, now_s: float) -> None:
        """Sends a heart-beat if one is needed: any byte that is on its way already counts as one."""
        self._beat_at_s = max(self._beat_at_s, now_s) + self._session.heart_beat_send_s
        if not self._outbox.pending_bytes:
            self._outbox.append(self._session.heart_beat())
            self._write()

    # ---- the stop ---------------------------------------------------------------------------------------------------

    def stop_reading(self) -> None:
        """Ignores further input; closes a connection that is not open yet."""
        if self._state == _OPENING:
            self.close("the broker stops")
        elif self._state == _OPEN:
            self._hold(_OVER)

    @property
    def tls(self) -> str | None:
        """The version of TLS; None: without TLS."""
        return self._transport.tls

    @property
    def is_written(self) -> bool:
        """Whether nothing is left to be sent."""
        return not self._outbox.pending_bytes

    def refuse_as_full(self) -> None:
        """Refuses a connection that there is no place for: ERROR is the first and last frame that it gets."""
        self._append_error("connections", self._presence.full_sentence)
        self.end("connections")

    def give_way(self) -> None:
        """Closes at once a connection that has not sent CONNECT, or whose login is pending, since its place is needed;
        with an ERROR if the system takes that.
        """
        lacks = "is not logged in yet" if self._holds & _CHECKED else "has not sent CONNECT"
        if self._state == _OPENING:
            sentence = f"This connection {lacks}, and others need its place: send CONNECT right after connecting."
            self._append_error("connections", sentence)
            self._write()
        self.close("gave way to another, without a CONNECT")

    def _append_error(self, code: str, sentence: str) -> None:
        self._outbox.append(self._session.encode(Refuse(self.number, code, sentence)))
