"""The server's side of one AMQP connection: bytes in, commands out; replies in, bytes out. Pure: no clock, no socket.

It keeps the Session contract (protocols/__init__.py). The broker has one connection for it, and one for each channel.

    HEADER --AMQP 0-9-1--> STARTING --start-ok--> TUNING --tune-ok--> OPENING --open: Open--> OPEN
    OPEN --connection.close--> CLOSING --every channel has ended: close-ok--> ENDED
    OPEN --a broken rule: Fail--> ENDED, and the Refuse that answers it is the connection.close
    any before OPEN --an error: connection.close, or nothing if its client could not read that--> ENDED

In TUNING the login may still be pending: frames that arrive after it are kept until the verdict.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from math import inf
from typing import Any

from radiator.model.amqp_limits import (
    AMQP_CHANNELS_MAX,
    AMQP_FRAME_BYTES,
    AMQP_FRAMES_AT_ONCE,
    AMQP_HEART_BEAT_S,
    AMQP_HELD_BYTES,
)
from radiator.model.commands import Closed, Fail, Heard, Open, Renew
from radiator.model.errors import Refusal
from radiator.model.getting import SetWindow
from radiator.model.limits import Limits
from radiator.model.principal import ANYONE, Check, Login, Principal, Verdict
from radiator.model.replies import Answered, Bye, Deliver, Pause, Receipt, Refuse, Reply, Resume, Scope
from radiator.protocols.amqp import refusals, spec
from radiator.protocols.amqp.blocked import BlockedChannels
from radiator.protocols.amqp.busy import BusyChannels
from radiator.protocols.amqp.channel import CLOSED, GONE, OPEN, Channel
from radiator.protocols.amqp.codec import decode_method, encode_method
from radiator.protocols.amqp.common import CommonToChannels
from radiator.protocols.amqp.connection_methods import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)
from radiator.protocols.amqp.frame import HEARTBEAT, AmqpFrame, AmqpMessage, BrokenAmqp
from radiator.protocols.amqp.handlers import TAKES
from radiator.protocols.amqp.login import Greeting, greeting_of, start_for
from radiator.protocols.amqp.methods import (
    NAMES,
    NUMBERS,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    Method,
)
from radiator.protocols.amqp.parser import FrameParser
from radiator.protocols.amqp.sentences import login_refused, secret_refused

_HEADER, _STARTING, _TUNING, _OPENING, _OPEN, _CLOSING, _ENDED = range(7)
_STOPPING = "broker forced connection closure with reason 'shutdown'"


class AmqpSession:
    """One connection. next_number: returns a number for each channel. new_name: returns an unguessable name, for queues
    and consumers that have none. Used by one greenlet at a time.
    """

    is_link = is_ordered = False
    has_channels = True
    other = ""

    __slots__ = (
        "_blocked", "_busy", "_by_number", "_channels", "_channels_max", "_client", "_confirming",
        "_connection", "_early", "_failure", "_greeting", "_late", "_login", "_next_number", "_outgoing",
        "_parser", "_principal", "_shared", "_state", "_transport_principal", "_unread", "_unread_bytes", "closes_at",
        "closing_cause", "heart_beat_expect_s", "heart_beat_send_s", "is_closing", "is_open", "last_answer", "pending",
        "silence_max_s",
    )  # fmt: skip

    def __init__(
        self,
        connection: int,
        limits: Limits,
        next_number: Callable[[], int],
        new_name: Callable[[], str],
        principal: Principal = ANYONE,
        login: Login | None = None,
    ) -> None:
        self.is_open = self.is_closing = False
        self.last_answer = b""
        self.closing_cause = "broke the protocol before it was connected"
        self.closes_at = Scope.COMMAND
        self.heart_beat_send_s = self.heart_beat_expect_s = 0.0
        self.silence_max_s = inf
        self.pending: Check | None = None
        self._connection = connection
        self._next_number = next_number
        self._principal = self._transport_principal = principal
        self._login = login
        self._state = _HEADER
        self._parser = FrameParser()
        self._unread: Iterator[AmqpFrame | AmqpMessage] | None = None  # what the last step had no time for
        self._unread_bytes = 0  # the size of the data that it is in
        self._early: list[AmqpFrame] = []  # frames that arrived while the login was pending
        self._greeting: Greeting | None = None
        self._channels_max = AMQP_CHANNELS_MAX
        self._shared = CommonToChannels(
            AMQP_FRAME_BYTES, limits.max_frame_bytes, limits.max_header_bytes, "", new_name, can_cancel=False
        )
        self._channels: dict[int, Channel] = {}  # by the channel number in their frames
        self._by_number: dict[int, Channel] = {}
        self._confirming: dict[int, Channel] = {}  # channels with confirms to send
        self._blocked = BlockedChannels()
        self._late: list[Heard] = []  # what the broker is told when the connection is next read
        self._busy = BusyChannels()
        self._failure: BrokenAmqp | None = None  # why this side closes the connection
        self._client = ""
        self._outgoing: list[bytes] = []

    # ---- what the server asks ---------------------------------------------------------------------------------------

    @property
    def buffered_bytes(self) -> int:
        """The bytes of unfinished frames and messages, and of held frames."""
        size = self._parser.held_bytes + self._busy.held_bytes + self._busy.content_bytes + self._unread_bytes
        if self._early:
            size += sum(len(frame.payload) for frame in self._early)
        return size

    @property
    def frame_bytes(self) -> int:
        """The size of the unfinished frame; if there is none, the bytes held."""
        return self._parser.frame_bytes or self.buffered_bytes

    @property
    def is_full(self) -> bool:
        """Whether so much is held that nothing more may be read, and none of it can be processed yet."""
        return self._busy.held_bytes > AMQP_HELD_BYTES and not self.has_unread

    @property
    def has_unread(self) -> bool:
        """Whether a channel can go on with what it holds, or the broker must still be told of one that has ended."""
        if self._state == _ENDED:
            return False
        return bool(self._late or self._busy.ready or self._unread)

    @property
    def is_costly(self) -> bool:
        """Whether the last step has left frames to the next."""
        return self._unread is not None

    def recognise(self, principal: Principal) -> None:
        """Sets in whose name the client will be connected, unless it logs in."""
        self._transport_principal = principal
        if self._state <= _STARTING and self.pending is None:
            self._principal = principal

    def receive(self, data: bytes) -> list[Heard]:
        """Returns the commands in those bytes, and in the held frames of channels that can go on."""
        commands, self._late = self._late, []
        if self._state == _ENDED:
            return []
        try:
            if self._early:
                self._take_early(commands)
            if self._busy.ready:
                for wire in [*self._busy.ready]:
                    self._go_on(wire, commands)
            if data or self._unread is not None:
                self._read(data, commands)
        except BrokenAmqp as failure:
            if self._state != _ENDED:  # else it has come behind the end
                self._fail(failure, commands)
        return commands

    def answered(self, verdict: Verdict) -> list[Heard]:
        """Takes the verdict on the login or the new secret, then reads what arrived after it."""
        self.pending = None
        greeting, self._greeting = self._greeting, None
        if self._login is None or self._state == _ENDED:
            return []
        try:
            principal = self._login.answered(verdict)
        except Refusal as refused:
            if greeting is None:
                failed: list[Heard] = []
                self._fail(BrokenAmqp(spec.ACCESS_REFUSED, secret_refused(self._principal.name)), failed)
                return failed
            self._turn_away(greeting, refused)
            return []
        renewed: list[Heard] = []
        if greeting is None:
            self._renewed(principal, renewed)
        else:
            self._logged_in(principal, greeting)
        return [*renewed, *self.receive(b"")]

    def take_outgoing(self) -> bytes:
        """Returns what the session itself has to send, and the confirms that are due."""
        if self._shared.out:
            self._outgoing += self._shared.out
            self._shared.out.clear()
        if self._confirming:
            self._outgoing += [channel.confirmed() for channel in self._confirming.values()]
            self._confirming.clear()
        if not self._outgoing:
            return b""
        outgoing = b"".join(self._outgoing)
        self._outgoing.clear()
        return outgoing

    def heart_beat(self) -> bytes:
        """Returns a heartbeat frame (section 4.2.7)."""
        return HEARTBEAT

    def forget(self) -> None:
        """Releases what was read: the connection is over."""
        self._state = _ENDED
        self._parser = FrameParser()
        self._unread, self._unread_bytes = None, 0
        self._early.clear()
        self._channels.clear()
        self._by_number.clear()
        self._busy = BusyChannels()
        self._confirming.clear()
        self._late.clear()
        self._shared.out.clear()
        self._outgoing.clear()
        self._greeting = self.pending = None

    # ---- frames -----------------------------------------------------------------------------------------------------

    def _read(self, data: bytes, commands: list[Heard]) -> None:
        """Takes AMQP_FRAMES_AT_ONCE frames at most: those that the last step has left first, then those of `data`."""
        frames: Iterator[AmqpFrame | AmqpMessage] = self._parser.frames(data)
        size = self._unread_bytes + len(data)
        if self._unread is not None:
            frames = chain(self._unread, frames)  # the parser looks at `data` only after all earlier frames
        self._unread, self._unread_bytes = None, 0
        for number, read in enumerate(frames, 1):
            if number > AMQP_FRAMES_AT_ONCE:
                self._unread, self._unread_bytes = chain((read,), frames), size
                return
            if type(read) is AmqpMessage and self.pending is None and self._state == _OPEN:
                channel = self._channels.get(read.channel)
                if channel is not None and channel.take_message(read, commands):
                    continue
            for frame in read.frames:
                if self.pending is not None:
                    self._early.append(frame)
                elif self._state != _ENDED:
                    self._take(frame, commands)

    def _take_early(self, commands: list[Heard]) -> None:
        early, self._early = self._early, []
        for frame in early:
            if self._state != _ENDED:
                self._take(frame, commands)

    def _take(self, frame: AmqpFrame, commands: list[Heard]) -> None:
        wire = frame.channel
        if wire:
            if frame.type == spec.FRAME_HEARTBEAT:
                raise BrokenAmqp(spec.UNEXPECTED_FRAME, f"a heartbeat came on channel {wire}: it belongs on channel 0")
            if self._state == _CLOSING:
                return  # nothing counts after a connection.close
            channel = self._channels.get(wire)
            if channel is not None and channel.must_hold:
                channel.hold(frame)
                self._busy.note(channel)
            else:
                self._give(wire, channel, frame, commands)
        elif frame.type == spec.FRAME_METHOD:
            self._take_method(frame.payload, commands)
        elif frame.type == spec.PROTOCOL_OPENING:
            self._state = _STARTING
            self._say(start_for(self._principal != ANYONE))
        elif frame.type != spec.FRAME_HEARTBEAT:
            raise BrokenAmqp(spec.UNEXPECTED_FRAME, f"a frame of type {frame.type} came on channel 0")

    def _give(self, wire: int, channel: Channel | None, frame: AmqpFrame, commands: list[Heard]) -> None:
        if channel is None or channel.state != OPEN:
            self._open_or_close_channel(wire, channel, frame, commands)
        else:
            channel.take(frame, commands)
            self._busy.note(channel)

    def _go_on(self, wire: int, commands: list[Heard]) -> None:
        """Processes what that channel holds, as far as it may. A held frame may open the number again after its end."""
        channel = self._channels[wire]
        while channel.can_go_on:
            if channel.held:
                self._give(wire, channel, channel.release(), commands)
            else:
                channel.end(commands, is_asked=False)
            if wire not in self._channels:
                self._busy.forget(wire)
                return
            channel = self._channels[wire]
        self._busy.note(channel)

    def _open_or_close_channel(
        self, wire: int, channel: Channel | None, frame: AmqpFrame, commands: list[Heard]
    ) -> None:
        """Processes a frame on a channel that is not open. If the broker closed it, its client may not know yet: only
        close-ok and close are heeded, open is an error, and all else is ignored.
        """
        if not self.is_open:
            raise BrokenAmqp(spec.CHANNEL_ERROR, f"channel {wire} is used before connection.open")
        method = type(decode_method(frame.payload)) if frame.type == spec.FRAME_METHOD else None
        if self._state != _OPEN:
            return  # held on a channel that was closed; the client is closing the connection
        if channel is None or channel.state == GONE or channel.is_close_asked:
            if method is ChannelOpen:
                self._open_channel(wire, channel, commands)
            elif method is ChannelCloseOk and channel is not None and channel.state == CLOSED:
                self._remove(channel)
            else:
                raise _on_no_channel(wire, method)
        elif method is ChannelOpen:
            raise BrokenAmqp(spec.CHANNEL_ERROR, f"channel {wire} is open already")
        elif method is ChannelCloseOk:
            self._remove(channel)
        elif method is ChannelClose:
            # both sides closed it at once; some clients then send no close-ok, but open the channel again
            self._shared.out.append(encode_method(wire, ChannelCloseOk()))
            channel.is_close_asked = True

    def _remove(self, channel: Channel) -> None:
        """Frees the channel's number. If frames are held after its end, the first of them may open it again."""
        channel.state = GONE
        if not channel.held and self._channels.get(channel.wire) is channel:
            del self._channels[channel.wire]
            self._busy.forget(channel.wire)

    def _open_channel(self, wire: int, before: Channel | None, commands: list[Heard]) -> None:
        """Opens a channel. before: the one that had the number. The count of channels is bounded, not their numbers:
        some clients count up to 65,535 before they start over, and reach high numbers with few channels open.
        """
        if before is None and len(self._channels) >= self._channels_max:
            sentence = f"channel {wire} cannot be opened: {self._channels_max} are open, the negotiated channel_max"
            raise BrokenAmqp(spec.NOT_ALLOWED, sentence, NUMBERS[ChannelOpen])
        channel = Channel(self._next_number(), wire, self._shared, TAKES)
        if before is not None:
            channel.held, channel.held_bytes = before.held, before.held_bytes
        self._channels[wire] = self._by_number[channel.number] = channel
        commands.append(self._opened(channel.number, f"AMQP 0-9-1 channel {wire}", self._connection))
        most = self._shared.frame_max - spec.FRAME_OVERHEAD_BYTES - spec.CONTENT_HEAD_BYTES
        commands.append(SetWindow(channel.number, 0, properties_max_bytes=most))
        self._shared.out.append(encode_method(wire, ChannelOpenOk()))

    # ---- methods of the connection ----------------------------------------------------------------------------------

    def _take_method(self, payload: bytes, commands: list[Heard]) -> None:
        method = decode_method(payload)
        take = _TAKES.get((self._state, type(method)))
        if take is None:
            sentence = f"{NAMES[type(method)]} came where it has no meaning"
            raise BrokenAmqp(spec.CHANNEL_ERROR, sentence, NUMBERS[type(method)])
        take(self, method, commands)

    def _start_ok(self, method: ConnectionStartOk, commands: list[Heard]) -> None:
        greeting = greeting_of(method)
        self._state = _TUNING
        if self._login is None:
            self._logged_in(self._principal, greeting)
            return
        try:
            found = self._login.begin(self._principal, greeting.user, greeting.secret)
        except Refusal as refused:
            self._turn_away(greeting, refused)
            return
        if isinstance(found, Principal):
            self._logged_in(found, greeting)
        else:
            self._greeting, self.pending = greeting, found

    def _logged_in(self, principal: Principal, greeting: Greeting) -> None:
        self._principal = principal
        shared = self._shared
        shared.user = greeting.user.decode("utf-8", "replace") if self._login is None else principal.name
        shared.can_cancel = greeting.can("consumer_cancel_notify")
        self._blocked.is_wanted = greeting.can("connection.blocked")
        self._client = greeting.client
        self._say(ConnectionTune(AMQP_CHANNELS_MAX, AMQP_FRAME_BYTES, AMQP_HEART_BEAT_S))

    def _turn_away(self, greeting: Greeting, refused: Refusal) -> None:
        """Refuses the login, by a frame only if the client says that it reads it: others would see a broken frame."""
        if greeting.can("authentication_failure_close"):
            text = refusals.reply_text(spec.ACCESS_REFUSED, login_refused(str(refused), greeting.mechanism))
            self._outgoing.append(self._frame_of(ConnectionClose(spec.ACCESS_REFUSED, text)))
        self._end(f"refused: {refused.code}")

    def _tune_ok(self, method: ConnectionTuneOk, commands: list[Heard]) -> None:
        frame_max = method.frame_max or AMQP_FRAME_BYTES
        if not spec.FRAME_MIN_BYTES <= frame_max <= AMQP_FRAME_BYTES:
            sentence = f"frame_max is {frame_max}: {spec.FRAME_MIN_BYTES} to {AMQP_FRAME_BYTES} were offered"
            raise BrokenAmqp(spec.NOT_ALLOWED, sentence)
        self._shared.frame_max = frame_max
        self._parser.use(frame_max)
        self._channels_max = min(method.channel_max or AMQP_CHANNELS_MAX, AMQP_CHANNELS_MAX)
        if method.heartbeat:
            self.heart_beat_send_s = method.heartbeat / 2
            self.heart_beat_expect_s = float(method.heartbeat)
            self.silence_max_s = 2 * self.heart_beat_expect_s + 1
        self._state = _OPENING

    def _open(self, method: ConnectionOpen, commands: list[Heard]) -> None:
        if method.virtual_host not in ("/", ""):
            sentence = f"vhost {method.virtual_host!r:.80} not found: the only one is /"
            raise BrokenAmqp(spec.NOT_ALLOWED, sentence)
        self._state = _OPEN
        self.is_open = True
        self._say(ConnectionOpenOk())
        commands.append(self._opened(self._connection, "AMQP 0-9-1"))

    def _opened(self, number: int, protocol: str, channel_of: int = 0) -> Open:
        return Open(
            number, None, self.closes_at, self._principal, channel_of=channel_of, protocol=protocol, client=self._client
        )

    def _update_secret(self, method: ConnectionUpdateSecret, commands: list[Heard]) -> None:
        """Takes another token of the same user, before the one it logged in with expires."""
        if self._login is None:
            self._say(ConnectionUpdateSecretOk())
            return
        try:
            found = self._login.begin(self._transport_principal, self._principal.name.encode(), method.new_secret)
        except Refusal as refused:
            raise BrokenAmqp(spec.ACCESS_REFUSED, secret_refused(self._principal.name)) from refused
        if isinstance(found, Principal):
            self._renewed(found, commands)
        else:
            self.pending = found

    def _renewed(self, principal: Principal, commands: list[Heard]) -> None:
        self._principal = principal
        commands.append(Renew(self._connection, principal))
        self._say(ConnectionUpdateSecretOk())

    def _close(self, method: ConnectionClose, commands: list[Heard]) -> None:
        """Ends every channel as channel.close would, after what it holds; sends close-ok when all have ended."""
        self._state = _CLOSING
        for channel in self._by_number.values():
            if channel.must_hold:
                channel.is_last = channel.state == OPEN
                self._busy.note(channel)
            elif channel.state == OPEN:
                channel.end(commands, is_asked=False)
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._state == _CLOSING and not self._by_number:
            self._say(ConnectionCloseOk())
            self._end("closed")

    def _say(self, method: Method) -> None:
        """Queues a method of the connection, after what the channels have queued."""
        self._outgoing += self._shared.out
        self._shared.out.clear()
        self._outgoing.append(encode_method(0, method))

    def _end(self, cause: str) -> None:
        """Stops reading; what is outgoing is still sent."""
        self._state = _ENDED
        self.is_closing = True
        self.closing_cause = cause
        self._early.clear()

    def _fail(self, failure: BrokenAmqp, commands: list[Heard]) -> None:
        """Ends the connection because the client broke a rule. If it is open, the broker is told, and the client first
        gets what is due to it.
        """
        if self.is_open:
            self._failure = failure.without_trace()
            commands.append(Fail(self._connection, str(failure)))
            self._state = _ENDED
            return
        if self._state == _HEADER:
            self._outgoing.append(spec.PROTOCOL_HEADER)  # section 4.2.2: the version that is spoken here
        else:
            text = refusals.reply_text(failure.code, str(failure))
            self._outgoing.append(self._frame_of(ConnectionClose(failure.code, text, *failure.method)))
        self._end(self.closing_cause)

    # ---- replies ----------------------------------------------------------------------------------------------------

    def encode(self, reply: Reply) -> bytes:
        """Returns the frames of a reply. Confirms are left to `take_outgoing`, which batches them for each channel."""
        channel = self._by_number.get(reply.connection)
        if channel is None:
            if isinstance(reply, Refuse) and reply.connection == self._connection:
                return self._closed(refusals.closing_code(reply.code), reply.sentence)
            if isinstance(reply, Bye) and reply.connection == self._connection and self._state == _OPEN:
                # the client did not ask for it, so the broker is stopping. By RabbitMQ's words libraries tell a
                # shutdown, after which they reconnect, from a mistake of their own
                return self._closed(spec.CONNECTION_FORCED, _STOPPING)
            return b""
        frames = self._encode(channel, reply)
        if self._busy.sizes:
            self._note(channel)
        return frames

    def _note(self, channel: Channel) -> None:
        """Updates the busy channels: a reply may let this one go on, or end it."""
        if channel.wire in self._busy.sizes and self._channels.get(channel.wire) is channel:
            self._busy.note(channel)

    def _encode(self, channel: Channel, reply: Reply) -> bytes:
        kind = type(reply)
        if kind is Receipt:
            frames = channel.encode(reply)
            if channel.has_confirms:
                self._confirming[channel.number] = channel
            return frames
        if kind is Deliver:
            return channel.encode(reply)
        if isinstance(reply, Pause):
            channel.is_paused = True
            return self._blocked.pause(channel.number, reply.cause)
        if isinstance(reply, Resume):
            channel.is_paused = False
            return self._blocked.resume(channel.number)
        frames = b"" if kind is Bye else channel.encode(reply)
        if channel.is_over:
            channel.is_over = False
            self._late.append(Closed(channel.number, "refused"))
            self._forget(channel)
        elif kind is Bye or kind is Refuse:
            self._forget(channel)
        return frames

    def pieces(self, reply: Deliver | Answered) -> Sequence[bytes | memoryview]:
        """Returns the frames of a reply in pieces, so that a large body is not copied."""
        channel = self._by_number.get(reply.connection)
        if channel is None or not isinstance(reply, Deliver):
            return (b"",)
        pieces = channel.deliver_pieces(reply)
        self._note(channel)
        return pieces

    def _closed(self, code: int, sentence: str) -> bytes:
        """Returns connection.close, after everything that is still to be sent."""
        failure, self._failure = self._failure, None
        self._state = _ENDED
        method = (0, 0)
        if failure is not None:
            code, sentence, method = failure.code, str(failure), failure.method
        return self.take_outgoing() + self._frame_of(
            ConnectionClose(code, refusals.reply_text(code, sentence), *method)
        )

    def _frame_of(self, method: ConnectionClose) -> bytes:
        """Returns the frame of connection.close, and notes how the client will answer it."""
        self.last_answer = encode_method(0, ConnectionCloseOk())
        return encode_method(0, method)

    def _forget(self, channel: Channel) -> None:
        """Drops the channel: its connection in the broker has ended."""
        self._by_number.pop(channel.number, None)
        self._confirming.pop(channel.number, None)
        channel.is_paused = False
        self._outgoing.append(self._blocked.resume(channel.number))
        if channel.state == GONE:
            self._remove(channel)
        self._close_if_done()


def _on_no_channel(wire: int, method: type[Method] | None) -> BrokenAmqp:
    """Returns the error for a frame on a channel that is not open. method: None if the frame is not a method."""
    sentence = f"channel {wire} is not open"
    if method is None:
        return BrokenAmqp(spec.UNEXPECTED_FRAME, sentence)
    return BrokenAmqp(spec.CHANNEL_ERROR, sentence, NUMBERS[method])


_TAKES: dict[tuple[int, type[Method]], Callable[[AmqpSession, Any, list[Heard]], None]] = {
    (_STARTING, ConnectionStartOk): AmqpSession._start_ok,
    (_TUNING, ConnectionTuneOk): AmqpSession._tune_ok,
    (_OPENING, ConnectionOpen): AmqpSession._open,
    (_OPEN, ConnectionUpdateSecret): AmqpSession._update_secret,
    (_OPEN, ConnectionClose): AmqpSession._close,
}
