"""The server's side of one HTTP connection: requests in order, and their answers in the same order. Pure.

    OPENING --a request that the broker answers: Open--> OPEN --the last answer, or a broken request--> ENDED
       `--/ws, with all that RFC 6455 asks for: 101--> a WebSocketSession, until the end

A request is read to its end, then becomes commands; the replies with its receipt become its response. Several may be
on their way at once where none of them is alone (HttpExchange.is_alone). Each has a login of its own: where it is
another one than before, the broker is told by an Identify.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from math import inf

from radiator.model.commands import Heard, Identify, Open
from radiator.model.errors import Refusal
from radiator.model.leases import Leased, Settled
from radiator.model.limits import (
    HTTP_ANSWERS_BYTES,
    HTTP_EVENTS_BEAT_S,
    HTTP_IDLE_S,
    HTTP_PIPELINED,
    HTTP_REQUESTS_AT_ONCE,
    Limits,
)
from radiator.model.principal import ANYONE, Check, Login, Principal, Verdict
from radiator.model.replies import (
    Answered,
    Bye,
    Deliver,
    Published,
    Receipt,
    Refuse,
    RefusedReceipt,
    Reply,
    Scope,
)
from radiator.protocols.http.access import allowed_origin, cookie_over, login_refused, preflight
from radiator.protocols.http.body import Body
from radiator.protocols.http.browser_session import logged_in
from radiator.protocols.http.context import DEFAULT_CONTEXT, WebContext
from radiator.protocols.http.exchange import HttpRequest, LoginGiven, Stream, found_by
from radiator.protocols.http.head import BadRequest, RequestHead, head_bytes, parse_head
from radiator.protocols.http.judged_head import JudgedHead
from radiator.protocols.http.progress import Arrival, Slot
from radiator.protocols.http.recognition import Recognition
from radiator.protocols.http.responses import (
    CONTINUE,
    Headers,
    Response,
    encoded,
    encoded_pieces,
    opening_of_events,
    problem,
    refused,
)
from radiator.protocols.http.upgrade import accepted
from radiator.protocols.stomp.session import StompSession
from radiator.protocols.websocket.session import WebSocketSession

_ANSWERS = (Receipt, RefusedReceipt, Published, Answered, Leased, Settled, Refuse)


class WebSession:
    """See the Session contract (protocols/__init__.py)."""

    has_channels = False
    last_answer = b""

    __slots__ = (
        "_connection", "_data", "_date", "_inner", "_is_costly", "_is_over", "_is_waiting", "_let_in", "_limits",
        "_may_be_costly", "_name", "_next_receipt", "_opened_as", "_outgoing", "_reading", "_recognition",
        "_requests_left", "_slots", "_state", "_stream", "_tunnels", "_unanswered", "_web", "closes_at", "is_link",
        "other", "pending_check",
    )  # fmt: skip

    def __init__(
        self,
        connection: int,
        session_name: str,
        limits: Limits,
        principal: Principal = ANYONE,
        login: Login | None = None,
        context: WebContext = DEFAULT_CONTEXT,
    ) -> None:
        self.closes_at = Scope.CONNECTION
        self.is_link = False
        self.other = ""
        self.pending_check: Check | None = None
        self._connection = connection
        self._name = session_name
        self._limits = limits
        self._recognition = Recognition(connection, principal, login, context.cookies, context.is_encrypted)
        self._web = context.settings
        self._tunnels = context.tunnels
        self._date = context.date
        self._state = context.state
        self._data = b""  # unread
        self._let_in: JudgedHead | None = None  # the last head that was let in
        self._reading: Arrival | None = None
        self._slots: deque[Slot] = deque()
        self._unanswered: dict[bytes, Slot] = {}  # by receipt
        self._next_receipt = 0
        self._opened_as: Principal | None = None
        self._is_waiting = False  # what is unread is read after some answers
        self._is_costly = self._may_be_costly = False
        self._requests_left = 0  # how many may be begun before other connections have their turn
        self._is_over = False  # nothing more is read
        self._inner: WebSocketSession | None = None
        self._stream: Stream | None = None
        self._outgoing = b""

    # ---- what the server asks

    @property
    def is_open(self) -> bool:
        return self._opened_as is not None if self._inner is None else self._inner.is_open

    @property
    def is_closing(self) -> bool:
        return self._is_over and not self._slots if self._inner is None else self._inner.is_closing

    @property
    def closing_cause(self) -> str:
        return "its last request is answered" if self._inner is None else self._inner.closing_cause

    @property
    def buffered_bytes(self) -> int:
        if self._inner is not None:
            return self._inner.buffered_bytes
        return len(self._data) + (self._reading.read_bytes if self._reading is not None else 0)

    @property
    def frame_bytes(self) -> int:
        if self._inner is not None:
            return self._inner.frame_bytes
        return self._reading.size if self._reading is not None else len(self._data)

    @property
    def heart_beat_send_s(self) -> float:
        if self._inner is not None:
            return self._inner.heart_beat_send_s
        return 0.0 if self._stream is None else HTTP_EVENTS_BEAT_S

    @property
    def heart_beat_expect_s(self) -> float:
        return 0.0 if self._inner is None else self._inner.heart_beat_expect_s

    @property
    def silence_max_s(self) -> float:
        if self._inner is not None:
            return self._inner.silence_max_s
        return inf if self._slots or self._stream is not None else HTTP_IDLE_S

    @property
    def pending(self) -> Check | None:
        return self.pending_check if self._inner is None else self._inner.pending

    @property
    def is_ordered(self) -> bool:
        return self._inner is None and self._stream is None

    @property
    def is_full(self) -> bool:
        return self._is_waiting

    @property
    def has_unread(self) -> bool:
        if self._inner is not None:
            return self._inner.has_unread
        return not self._is_waiting and not self._is_over and bool(self._data or self._reading)

    @property
    def is_costly(self) -> bool:
        return self._is_costly if self._inner is None else self._inner.is_costly

    def recognise(self, principal: Principal) -> None:
        self._recognition.transport = principal
        if self._inner is not None:
            self._inner.recognise(principal)

    # ---- reading

    def receive(self, data: bytes) -> list[Heard]:
        if self._inner is not None:
            return self._inner.receive(data)
        commands: list[Heard] = []
        if self._is_over or self._stream is not None:
            return commands  # a client that is sent a stream has nothing more to say
        self._data = self._data + data if self._data else data
        self._read_on(commands)
        return commands

    def answered(self, verdict: Verdict) -> list[Heard]:
        if self._inner is not None:
            return self._inner.answered(verdict)
        commands: list[Heard] = []
        self.pending_check = None
        reading = self._reading
        if reading is None:
            return commands
        self._recognise(reading, lambda: self._recognition.answered(reading.head, verdict))
        self._read_on(commands)
        return commands

    def forget(self) -> None:
        self._is_over = True
        self._data = self._outgoing = b""
        self._reading = self._stream = self.pending_check = self._let_in = None
        self._slots.clear()
        self._unanswered.clear()
        self._recognition.release()
        if self._inner is not None:
            self._inner.forget()

    def _read_on(self, commands: list[Heard]) -> None:
        self._is_waiting = False
        self._may_be_costly, self._is_costly = self._is_costly, False
        self._requests_left = HTTP_REQUESTS_AT_ONCE
        try:
            while not self._is_over and self._inner is None and self._read_one(commands):
                pass
        except BadRequest as bad:
            head = self._reading.head if self._reading is not None else None
            self._respond(head, problem(bad.status, bad.code, str(bad), bad.headers), is_last=True)
        if self._inner is not None and self._data:
            unread, self._data = self._data, b""
            commands += self._inner.receive(unread)

    def _read_one(self, commands: list[Heard]) -> bool:
        """Reads one request, or what has arrived of it. Returns whether another one may follow. Raises BadRequest for
        what ends the connection.
        """
        if self._reading is None and not self._begin():
            return False
        reading = self._reading
        if reading is None or self.pending_check is not None:
            return reading is None and not self._is_over
        if self._opened_as is None and reading.principal is not None:
            # its body may take a while: from here on the timeouts of an open connection apply
            self._speak_as(reading.principal, reading.head, commands)
        if reading.is_continue_due and self._slots:
            self._is_waiting = True  # `100 Continue` would come before the answers that are due
            return False
        self._data = reading.body.take(self._data)
        if not reading.body.is_whole:
            if reading.is_continue_due and not reading.body.taken_bytes and not self._data:
                self._outgoing += CONTINUE
            reading.is_continue_due = False
            return False
        if self._must_wait(reading):
            self._is_waiting = True
            return False
        if reading.is_costly and not self._may_be_costly:
            self._is_costly = True
            return False
        self._may_be_costly = False
        self._reading = None
        self._carry_out(reading, commands)
        return bool(self._data)

    def _begin(self) -> bool:
        """Reads the head of the next request. Returns whether it has arrived. Raises BadRequest."""
        if self._slots and (len(self._slots) >= HTTP_PIPELINED or self._slots[-1].is_last or self._is_alone()):
            self._is_waiting = bool(self._data)
            return False
        if not self._requests_left or len(self._outgoing) > HTTP_ANSWERS_BYTES:
            self._is_costly = bool(self._data)
            return False
        size = head_bytes(self._data)
        if not size:
            return False
        self._requests_left -= 1
        data, self._data = self._data[:size], self._data[size:]
        if self._let_in is None or self._let_in.data != data:
            self._let_in = None
            self._look_at(JudgedHead(data, parse_head(data)))
        else:
            self._look_at(self._let_in)
        return True

    def _is_alone(self) -> bool:
        exchange = self._slots[-1].exchange
        return exchange is not None and exchange.is_alone

    def _look_at(self, entry: JudgedHead) -> None:
        """Judges a head before anything of the body is kept. A refused request that has a body ends the connection,
        since the body is not read. Raises BadRequest.
        """
        try:
            self._admit(entry)
        except BadRequest as bad:
            self._reading, head = None, entry.head
            is_last = head.has_body or not head.keeps_alive
            self._respond(head, problem(bad.status, bad.code, str(bad), bad.headers), is_last)

    def _admit(self, entry: JudgedHead) -> None:
        head = entry.head
        if entry is not self._let_in:
            entry.judge(self._web, self._limits)
            if entry.route is None:
                self._respond(head, preflight(head), is_last=True)
                return
            self._let_in = entry
        route = entry.route
        assert route is not None, "who was let in has one"
        if route.to_strangers is not None and self._recognition.is_stranger(head):
            route = route.to_strangers
        body = Body(head, entry.body_max)
        is_continue_due = head.expects_continue and head.version == "1.1" and not body.is_whole
        self._reading = reading = Arrival(head, len(entry.data), route, entry.names, body, is_continue_due)
        if not route.is_free:
            self._recognise(reading, lambda: self._recognition.begin(head))

    def _recognise(self, reading: Arrival, find: Callable[[], Principal | Check]) -> None:
        """Sets who makes the request, or the check that will find out; answers a login. Raises BadRequest."""
        try:
            found = find()
        except Refusal as refusal:
            self._turn_away(reading, refusal)
            return
        if not isinstance(found, Principal):
            self._reading, self.pending_check = reading, found
        elif reading.route.logs_in:
            self._reading, head = None, reading.head
            self._respond(head, logged_in(self._recognition, head, found), not head.keeps_alive)
        else:
            reading.principal = found

    def _turn_away(self, reading: Arrival, refusal: Refusal) -> None:
        self._reading = None
        self._respond(reading.head, login_refused(reading.head, refusal, reading.route.logs_in), is_last=True)

    def _must_wait(self, reading: Arrival) -> bool:
        """Whether the request may begin only after those before it are answered."""
        if not self._slots:
            return False
        is_another = reading.principal is not None and reading.principal != self._opened_as
        return is_another or reading.route.is_websocket

    def _carry_out(self, reading: Arrival, commands: list[Heard]) -> None:
        head = reading.head
        if reading.route.is_websocket:
            self._upgrade(head)
            return
        self._next_receipt += 1
        receipt = b"%d" % self._next_receipt
        body, state = reading.body.whole(), self._state
        by, principal = self._recognition, reading.principal or ANYONE
        request = HttpRequest(self._connection, receipt, head, reading.names, body, self._limits, state, principal, by)
        found = found_by(reading.route.resource, request)
        is_last = not head.keeps_alive
        if isinstance(found, Response):
            self._respond(head, found, is_last)
            return
        if isinstance(found, LoginGiven):
            name, secret = found.name, found.secret
            self._recognise(reading, lambda: by.log_in(name, secret))
            return
        self._speak_as(principal, head, commands)
        commands += found.commands
        slot = Slot(head, found, None, is_last)
        self._slots.append(slot)
        self._unanswered[receipt] = slot
        self._is_over = is_last
        if found.tunnel_request is not None:
            assert self._tunnels is not None, "a server's session has them"
            self._tunnels.ask(self._connection, receipt, principal, found.tunnel_request)

    def _speak_as(self, principal: Principal, head: RequestHead, commands: list[Heard]) -> None:
        """Tells the broker in whose name the commands that follow are."""
        if self._opened_as is None:
            opened = Open(self._connection, closes_at=self.closes_at, principal=principal, protocol="HTTP")
            opened.client = head.headers.get(b"user-agent", b"").decode("utf-8", "replace")
            commands.append(opened)
        elif principal != self._opened_as:
            commands.append(Identify(self._connection, principal))
        self._opened_as = principal

    def _upgrade(self, head: RequestHead) -> None:
        """Opens a WebSocket. Raises BadRequest."""
        opening = accepted(head, self._opened_as is not None)
        by = self._recognition  # no cookie: CONNECT has the login
        over = " over WebSocket"
        stomp = StompSession(self._connection, self._name, self._limits, by.transport, by.login, over)
        self._inner = WebSocketSession(self._connection, self._limits, stomp)
        self.closes_at = stomp.closes_at
        self._outgoing += opening

    # ---- answering

    def _respond(self, head: RequestHead | None, response: Response, is_last: bool) -> None:
        """Answers a request without the broker: at once, or after the answers that are due before it."""
        if is_last:
            self._is_over, self._data, self._reading = True, b"", None
        if not self._slots:
            self._outgoing += encoded(response, *self._how(head), is_last)
        else:
            self._slots.append(Slot(head or _UNREADABLE, None, response, is_last))

    def _how(self, head: RequestHead | None) -> tuple[Headers, bool]:
        """Returns the further headers of a response, and whether its body is left out."""
        more: Headers = () if self._date is None else ((b"Date", self._date()),)
        if head is None:
            return more, False
        return (*more, *allowed_origin(head, self._web)), head.method == "HEAD"

    def take_outgoing(self) -> bytes:
        outgoing, self._outgoing = self._outgoing, b""
        return outgoing if self._inner is None else outgoing + self._inner.take_outgoing()

    def encode(self, reply: Reply) -> bytes:
        if self._inner is not None:
            return self._inner.encode(reply)
        if isinstance(reply, Bye):
            self._is_over = True
            return b""
        if isinstance(reply, _ANSWERS):
            slot = self._unanswered.get(reply.receipt or b"")
            if slot is not None:
                return b"".join(self._answer(slot, reply))
        if self._stream is not None:
            self._is_over = isinstance(reply, Refuse)  # of the subscription, or of the whole connection
            return self._stream.encode(reply)
        if isinstance(reply, Refuse) and reply.scope >= self.closes_at:
            return self._end(reply)
        return b""

    def _answer(
        self, slot: Slot, reply: Receipt | Published | Answered | Leased | Settled | Refuse
    ) -> tuple[bytes, ...]:
        """Returns the responses that can be sent now: this one, and those that waited for it, unless an earlier one is
        missing.
        """
        assert slot.exchange is not None and reply.receipt is not None
        if isinstance(reply, Refuse | RefusedReceipt):
            answer: Response | Stream | None = refused(reply.code, reply.sentence)
        else:
            answer = slot.exchange.answer(reply)
        if answer is None:
            return ()
        del self._unanswered[reply.receipt]
        if not isinstance(answer, Response):
            return (self._begin_stream(slot, answer),)
        slot.response = replace(answer, more=reply.more) if isinstance(reply, Answered) and reply.more else answer
        sent: list[bytes] = []
        while self._slots and (response := self._slots[0].response) is not None:
            first = self._slots.popleft()
            sent += encoded_pieces(response, *self._how(first.head), first.is_last)
        if not self._slots:
            self._is_waiting = False
        return tuple(sent)

    def _begin_stream(self, slot: Slot, stream: Stream) -> bytes:
        """Begins a stream. Its request is alone, so no answer is due before it, and none follows it."""
        self._slots.clear()
        self._stream = stream
        self._data, self._is_waiting = b"", False
        self._is_over = False  # Connection: close on the request had set it
        opening = opening_of_events(self._how(slot.head)[0]) + stream.opening
        if self._recognition.hold():
            return opening
        self._is_over = True
        return opening + stream.encode(cookie_over(self._connection))

    def _end(self, reply: Refuse) -> bytes:
        """Closes the connection, as the broker says: the refusal answers the first request without an answer, or the
        one being read.
        """
        self._is_over = True
        head = self._slots[0].head if self._slots else None
        if head is None and self._reading is not None:
            head = self._reading.head
        has_request = head is not None or bool(self._data) or self._opened_as is None
        self._slots.clear()
        self._unanswered.clear()
        if not has_request:
            return b""
        response = refused(reply.code, reply.sentence)
        return encoded(response, *self._how(head), is_last=True)

    def pieces(self, reply: Deliver | Answered) -> tuple[bytes, ...]:
        if self._inner is not None:
            return self._inner.pieces(reply)
        slot = self._unanswered.get(reply.receipt) if isinstance(reply, Answered) else None
        if slot is None or not isinstance(reply, Answered):
            return (self.encode(reply),)
        return self._answer(slot, reply)

    def heart_beat(self) -> bytes:
        if self._inner is not None:
            return self._inner.heart_beat()
        return b":\n\n" if self._stream is not None else b""


_UNREADABLE = RequestHead("GET", b"/", b"", {}, "1.1")  # stands for the head of a request that could not be read
