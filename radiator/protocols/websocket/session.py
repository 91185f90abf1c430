"""STOMP over WebSocket (RFC 6455), after the handshake: a StompSession whose bytes travel in messages. Pure.

A message may hold several STOMP frames, or a part of one: only the sequence of bytes counts. Binary and text messages
are read, binary ones are written. The sans-IO core of `websockets` checks the rules of WebSocket; nothing is
compressed.
"""

from codecs import getincrementaldecoder

from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import SERVER, Protocol, State

from radiator.model.commands import Disconnect, Fail, Heard
from radiator.model.limits import (
    CONNECT_MAX_BYTES,
    WEBSOCKET_FRAGMENTS,
    WEBSOCKET_FRAMES_AT_ONCE,
    WEBSOCKET_MORE_BYTES,
    WEBSOCKET_SLICE_BYTES,
    Limits,
)
from radiator.model.principal import Check, Principal, Verdict
from radiator.model.replies import Answered, Bye, Deliver, Refuse, Reply
from radiator.protocols.stomp.session import StompSession

_DATA = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)
_FINAL_BINARY = 0x82


class WebSocketSession:
    """See the Session contract (protocols/__init__.py). session: the STOMP session inside."""

    is_full = is_ordered = has_channels = False

    __slots__ = (
        "_connection",
        "_decoder",
        "_floods",
        "_fragments",
        "_is_over",
        "_is_text",
        "_outgoing",
        "_session",
        "_unread",
        "_ws",
        "closing_cause",
        "is_costly",
    )

    def __init__(self, connection: int, limits: Limits, session: StompSession) -> None:
        self.closing_cause = session.closing_cause
        self._connection = connection
        self._session = session
        self._ws = Protocol(SERVER, state=State.OPEN, max_size=limits.max_frame_bytes + WEBSOCKET_MORE_BYTES)
        self._decoder = getincrementaldecoder("utf-8")()
        self._is_text = False
        self._fragments = 0  # the fragments of the message that is being read
        self._is_over = False  # nothing more is read
        self._unread = b""
        self.is_costly = False
        self._floods = False  # the last read had so many frames that the next one waits for its turn
        self._outgoing = b""

    # ---- what the server asks

    @property
    def is_open(self) -> bool:
        return self._session.is_open

    @property
    def is_closing(self) -> bool:
        return self._session.is_closing or (self._is_over and not self._session.is_open)

    @property
    def buffered_bytes(self) -> int:
        if self._is_over:
            return 0
        return len(self._unread) + len(self._ws.reader.buffer) + self._session.buffered_bytes

    @property
    def frame_bytes(self) -> int:
        return max(self.buffered_bytes, self._session.frame_bytes)

    @property
    def heart_beat_send_s(self) -> float:
        return self._session.heart_beat_send_s

    @property
    def heart_beat_expect_s(self) -> float:
        return self._session.heart_beat_expect_s

    @property
    def silence_max_s(self) -> float:
        return self._session.silence_max_s

    @property
    def pending(self) -> Check | None:
        return self._session.pending

    @property
    def has_unread(self) -> bool:
        return bool(self._unread)

    def recognise(self, principal: Principal) -> None:
        self._session.recognise(principal)

    # ---- reading

    def receive(self, data: bytes) -> list[Heard]:
        commands: list[Heard] = []
        if self._is_over:
            return commands
        ws = self._ws
        is_its_turn = not data
        data = self._unread + data if self._unread else data
        if self._floods and not is_its_turn:
            # otherwise a slice of what each of thousands of clients sends would be read at once
            self._unread, self.is_costly = data, True
            return commands
        taken: list[bytes] = []  # the data of all frames, which the session reads in one call
        frames = at = 0
        while at < len(data) and frames < WEBSOCKET_FRAMES_AT_ONCE and ws.state is State.OPEN:
            ws.receive_data(data[at : at + WEBSOCKET_SLICE_BYTES])
            at += WEBSOCKET_SLICE_BYTES
            for event in ws.events_received():
                frames += 1
                if isinstance(event, Frame) and event.opcode in _DATA and not self._take(event, taken):
                    break
        self._unread = data[at:] if ws.state is State.OPEN else b""
        self.is_costly = bool(self._unread)
        self._floods = frames >= WEBSOCKET_FRAMES_AT_ONCE
        if taken:
            commands += self._session.receive(b"".join(taken))
        if not self.is_open and len(ws.reader.buffer) > CONNECT_MAX_BYTES:
            ws.fail(CloseCode.MESSAGE_TOO_BIG, "the message with CONNECT is too long")
        self._outgoing += b"".join(ws.data_to_send())
        if ws.state is not State.OPEN and not self._is_over:
            self._end(commands)
        return commands

    def _take(self, frame: Frame, taken: list[bytes]) -> bool:
        """Takes a data frame. Returns whether the next frame may be read."""
        if frame.opcode is not Opcode.CONT:
            self._is_text = frame.opcode is Opcode.TEXT
            self._fragments = 0
        self._fragments += 1
        if self._fragments > WEBSOCKET_FRAGMENTS:
            self._ws.fail(CloseCode.POLICY_VIOLATION, f"a message has more than {WEBSOCKET_FRAGMENTS} fragments")
            return False
        data = bytes(frame.data)
        if self._is_text:
            try:
                self._decoder.decode(data, frame.fin)
            except UnicodeDecodeError:
                self._decoder.reset()
                self._ws.fail(CloseCode.INVALID_DATA, "a text message is not valid UTF-8")
                return False
        if data:
            taken.append(data)
        return True

    def _end(self, commands: list[Heard]) -> None:
        """Ends the session: the client has closed the WebSocket or broken its rules, and a close frame is on its
        way.
        """
        self._is_over = True
        broken = self._ws.parser_exc if self._ws.close_rcvd is None else None
        sentence = "The WebSocket was closed."
        if self._ws.close_rcvd is None:
            cause = broken or self._ws.close_sent and self._ws.close_sent.reason
            sentence = f"The client broke the WebSocket protocol: {cause}."
        self.closing_cause = sentence.rstrip(".").lower()
        if self._session.is_open:
            last = Fail(self._connection, sentence) if self._ws.close_rcvd is None else Disconnect(self._connection)
            commands.append(last)

    def answered(self, verdict: Verdict) -> list[Heard]:
        return self._session.answered(verdict)

    def forget(self) -> None:
        self._is_over = True
        self._unread = self._outgoing = b""
        self._ws.reader.buffer.clear()
        self._session.forget()

    # ---- writing

    def take_outgoing(self) -> bytes:
        outgoing, self._outgoing = self._outgoing, b""
        sent = self._session.take_outgoing()
        if sent and self._ws.state is State.OPEN:
            outgoing += _framed(sent)
        if self._session.is_closing:
            outgoing += self._closed(CloseCode.POLICY_VIOLATION)
        return outgoing

    def encode(self, reply: Reply) -> bytes:
        """Returns b"" after a close frame, which is the last frame that either side sends."""
        if self._ws.state is not State.OPEN:
            return b""
        data = self._session.encode(reply)
        if type(reply) is Deliver:
            return _framed(data)
        framed = _framed(data) if data else b""
        if isinstance(reply, Refuse) and reply.scope >= self._session.closes_at:
            code = CloseCode.PROTOCOL_ERROR if reply.code == "protocol" else CloseCode.POLICY_VIOLATION
            return framed + self._closed(code)
        if isinstance(reply, Bye):
            return framed + self._closed(CloseCode.NORMAL_CLOSURE)
        return framed

    def pieces(self, reply: Deliver | Answered) -> tuple[bytes, ...]:
        if self._ws.state is not State.OPEN:
            return ()
        pieces = self._session.pieces(reply)
        return (_head(sum(map(len, pieces))), *pieces)

    def heart_beat(self) -> bytes:
        return _framed(self._session.heart_beat()) if self._ws.state is State.OPEN else b""

    def _closed(self, code: CloseCode) -> bytes:
        if self._ws.state is not State.OPEN:
            return b""
        self._ws.send_close(code)
        return b"".join(self._ws.data_to_send())


def _framed(data: bytes) -> bytes:
    return _head(len(data)) + data


def _head(size: int) -> bytes:
    """Returns the head of a binary message in one unmasked frame, as a server sends it (RFC 6455, section 5.2)."""
    if size < 126:
        return bytes((_FINAL_BINARY, size))
    if size < 1 << 16:
        return bytes((_FINAL_BINARY, 126)) + size.to_bytes(2)
    return bytes((_FINAL_BINARY, 127)) + size.to_bytes(8)
