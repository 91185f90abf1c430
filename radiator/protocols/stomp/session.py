"""The server's side of one STOMP connection: bytes in, commands out; replies in, bytes out. Pure: no clock, no socket.

It keeps the Session contract (protocols/__init__.py): whatever a peer sends, `receive` never raises, holds no more than
the limits allow, and after the first broken rule returns one Fail and nothing more.

    CONNECTING --CONNECT--> OPEN --DISCONNECT or Fail--> ENDED
         `--anything else: ERROR by itself, is_closing--> ENDED

If there are users, CONNECT is answered only after the verdict on its login: what follows it stays unread until then.
"""

from collections.abc import Callable
from math import inf

from radiator import __version__
from radiator.model.addresses import ADMIN, queue_address
from radiator.model.commands import (
    AUTO,
    CLIENT,
    CLIENT_INDIVIDUAL,
    Abort,
    Ack,
    Administer,
    Begin,
    Command,
    Commit,
    Disconnect,
    Fail,
    Heard,
    InvalidSend,
    Nack,
    Open,
    Send,
    Subscribe,
    Unheeded,
    Unsubscribe,
)
from radiator.model.errors import Refusal, Violation, shown
from radiator.model.limits import (
    ADDRESSES_KEPT,
    PARTITIONS_MAX,
    PREFETCH_COUNT_MAX,
    SIZE_MAX,
    TIME_MAX_MS,
    Limits,
)
from radiator.model.principal import ANYONE, Check, Login, Principal, Verdict
from radiator.model.replies import Answered, Deliver, Receipt, Refuse, RefusedReceipt, Reply, Scope
from radiator.protocols.administration import JSON
from radiator.protocols.stomp.durability import check_client_id, durable_name
from radiator.protocols.stomp.frame import (
    FRAME_END,
    BrokenFrame,
    Frame,
    encode_error,
    encode_message,
    encode_published,
    encode_receipt,
    encode_refused,
)
from radiator.protocols.stomp.options import (
    ack_timeout_s,
    asks_for_receipt,
    check_ids,
    consumer_name_of,
    consumer_priority_of,
    dedup_id,
    group_of,
    survives_refusal,
    temp_queue_of,
)
from radiator.protocols.stomp.parser import Parser
from radiator.protocols.stomp.spec import (
    ALL_VERSIONS,
    CLIENT_COMMANDS,
    CONNECT_COMMANDS,
    V1_0,
    V1_1,
    V1_2,
    VERSION_NAMES,
)
from radiator.protocols.stomp.unheeded import OF_SEND, OF_SUBSCRIBE, unheeded
from radiator.protocols.stomp.values import (
    address,
    agreed_s,
    flag,
    heart_beats,
    highest_version,
    name,
    number,
    offered_heart_beats,
    place,
    producer_id,
    stored_block,
)

PROTOCOL_CODE = "protocol"  # the `code` of an ERROR for a broken rule (docs/PROTOCOL.md)

_ACK_MODES = {b"auto": AUTO, b"client": CLIENT, b"client-individual": CLIENT_INDIVIDUAL}
_SEND_OPTIONS = frozenset(
    [
        b"transaction",
        b"expiration",
        b"expires",
        b"reply-to",
        b"mandatory",
        b"dedup-id",
        b"correlation-id",
        b"delay",
        b"deliver-at",
        b"immediate",
        b"on-refusal",
        *OF_SEND,
    ]
)

_CONNECTING, _OPEN, _ENDED = range(3)


class StompSession:
    """One connection. Used by one greenlet at a time; see the Session contract for the order of calls."""

    is_full = has_unread = is_costly = is_ordered = has_channels = False
    last_answer = b""

    __slots__ = (
        "_addresses",
        "_carrier",
        "_client_id",
        "_connection",
        "_greeting",
        "_limits",
        "_login",
        "_name",
        "_outgoing",
        "_parser",
        "_principal",
        "_state",
        "_unheeded",
        "_unread",
        "_version",
        "_written",
        "buffered_bytes",
        "closing_cause",
        "heart_beat_expect_s",
        "heart_beat_send_s",
        "is_closing",
        "closes_at",
        "is_link",
        "is_open",
        "other",
        "pending",
        "silence_max_s",
    )

    def __init__(
        self,
        connection: int,
        session_name: str,
        limits: Limits,
        principal: Principal = ANYONE,
        login: Login | None = None,
        carrier: str = "",
    ) -> None:
        """carrier: what STOMP is carried by, in words for people: ` over WebSocket`; "": by nothing else."""
        self.is_open = False
        self.is_closing = False
        self.buffered_bytes = 0
        self.heart_beat_send_s = 0.0
        self.heart_beat_expect_s = 0.0
        self.silence_max_s = inf
        self.closing_cause = "broke the protocol before it was connected"
        self.is_link = False
        self.closes_at = Scope.COMMAND
        self.other = ""
        self.pending: Check | None = None
        self._connection = connection
        self._name = session_name
        self._limits = limits
        self._principal = principal
        self._login = login
        self._carrier = carrier
        self._greeting: Frame | None = None  # CONNECT, while its login is checked
        self._unread = b""  # the bytes that arrived after it
        self._parser = Parser(limits, CONNECT_COMMANDS)
        self._state = _CONNECTING
        self._version = V1_2
        self._outgoing = b""
        self._client_id: bytes | None = None
        self._addresses: dict[bytes, str] | None = None
        self._written: dict[bytes, tuple[str, str]] = {}
        self._unheeded: Unheeded | bool = False  # to be reported; True: it has been

    def recognise(self, principal: Principal) -> None:
        """Sets in whose name the client will be connected."""
        self._principal = principal

    def receive(self, data: bytes) -> list[Heard]:
        """Returns the commands in those bytes, in order. Reads nothing after DISCONNECT, Fail or a refused CONNECT."""
        commands: list[Heard] = []
        if self._state == _ENDED:
            return commands
        if self._login is not None and self._state == _CONNECTING:
            return self._log_in(self._login, data)
        try:
            for frame in self._parser.frames(data):
                if self._state == _OPEN:
                    commands.append(self._command(frame))
                else:
                    commands.append(self._connect(frame))
                if self._state == _ENDED:
                    break
        except Violation as broken:
            self._fail(broken, commands)
        if self._unheeded is not False:
            self._say_unheeded(commands)
        self.buffered_bytes = 0 if self._state == _ENDED else self._parser.held_bytes
        return commands

    def answered(self, verdict: Verdict) -> list[Heard]:
        """Takes the verdict on the login: sends CONNECTED and reads what followed CONNECT, or sends ERROR."""
        frame, self._greeting, self.pending = self._greeting, None, None
        if self._login is None or frame is None:
            return []
        try:
            return self._logged_in(frame, self._login.answered(verdict))
        except Refusal as refused:
            self._turn_away(refused)
            return []

    def _log_in(self, login: Login, data: bytes) -> list[Heard]:
        """Reads CONNECT, and nothing after it, and begins its login."""
        try:
            frame, self._unread = self._parser.first(data)
            if frame is None:
                self.buffered_bytes = self._parser.held_bytes
                return []
            name, secret = frame.headers.pop(b"login", b""), frame.headers.pop(b"passcode", b"")
            frame.lines.clear()  # which have them too
            found = login.begin(self._principal, name, secret)
        except Violation as broken:
            self._fail(broken, [])
            return []
        except Refusal as refused:
            self._turn_away(refused)
            return []
        if isinstance(found, Principal):
            return self._logged_in(frame, found)
        self._greeting, self.pending = frame, found
        self.buffered_bytes = len(self._unread)
        return []

    def _logged_in(self, frame: Frame, principal: Principal) -> list[Heard]:
        self._principal = principal
        unread, self._unread = self._unread, b""
        self.buffered_bytes = 0
        try:
            opened = self._connect(frame)
        except Violation as broken:
            self._fail(broken, [])
            return []
        return [opened, *self.receive(unread)]

    def _turn_away(self, refused: Refusal) -> None:
        self._outgoing = encode_error(refused.code, str(refused), None, None)
        self._unread = b""
        self.buffered_bytes = 0
        self.closing_cause = f"refused: {refused.code}"
        self.is_closing = True
        self._state = _ENDED

    @property
    def frame_bytes(self) -> int:
        """The size of the unfinished frame if its content-length gives it; else the bytes held of it."""
        return self._parser.frame_bytes

    def forget(self) -> None:
        """Releases what was read: the connection is over."""
        self._state = _ENDED
        self._parser = Parser(self._limits, CONNECT_COMMANDS)
        self._outgoing = self._unread = b""
        self._greeting = self.pending = None

    def take_outgoing(self) -> bytes:
        """Returns CONNECTED, or the ERROR for a refused CONNECT, once."""
        outgoing, self._outgoing = self._outgoing, b""
        return outgoing

    def encode(self, reply: Reply) -> bytes:
        """Returns the bytes of a reply, in the negotiated version."""
        if type(reply) is Deliver:
            if reply.is_published:
                return encode_published(
                    reply.message, reply.message_id, reply.subscription, reply.ack_due, self._version
                )
            return encode_message(
                reply.message,
                reply.message_id,
                reply.subscription,
                reply.ack_due,
                reply.redelivered,
                reply.redeliveries,
                self._version,
                True,
                self._destination(reply) if self._written else None,
                reply.log,
            )
        if type(reply) is Receipt:
            return encode_receipt(reply.receipt, self._version)
        if isinstance(reply, RefusedReceipt):
            return encode_refused(reply.receipt, self._version, reply.code, reply.sentence)
        if isinstance(reply, Refuse):
            version = self._version if self.is_open else None
            return encode_error(reply.code, reply.sentence, reply.receipt, version)
        return b""

    def pieces(self, reply: Deliver | Answered) -> tuple[bytes, ...]:
        """Returns the bytes of a MESSAGE in pieces, if its body is too large to be copied for each delivery."""
        assert isinstance(reply, Deliver), "its requests are answered by messages"
        head = encode_message(
            reply.message,
            reply.message_id,
            reply.subscription,
            reply.ack_due,
            reply.redelivered,
            reply.redeliveries,
            self._version,
            is_whole=False,
            destination=self._destination(reply) if self._written else None,
            log=reply.log,
        )
        return head, reply.message.body, FRAME_END

    def heart_beat(self) -> bytes:
        """Returns one end of line, in every version."""
        return b"\n"

    def _destination(self, reply: Deliver) -> str:
        """Returns the destination as the subscription wrote it, if that names the message's queue."""
        queue = queue_address(reply.message.destination)
        written = self._written.get(reply.subscription or queue.encode())
        return written[1] if written is not None and written[0] == queue else queue

    # ---- the connection -------------------------------------------------------------------------------------------

    def _connect(self, frame: Frame) -> Open:
        version = highest_version(frame.headers.get(b"accept-version"))
        if version is None:
            raise Violation(
                f"accept-version {shown(frame.headers[b'accept-version'])} has no version that is spoken here: "
                f"{ALL_VERSIONS.decode()}."
            )
        if frame.body and version != V1_0:
            raise Violation(f"A {frame.command.decode()} frame has a body: STOMP {VERSION_NAMES[version]} forbids it.")
        can_ms, want_ms = heart_beats(frame.headers.get(b"heart-beat"))
        our_can_ms, our_want_ms = offered_heart_beats(self._limits.heart_beat_ms, (can_ms, want_ms))
        self.heart_beat_send_s = agreed_s(our_can_ms, want_ms)
        self.heart_beat_expect_s = agreed_s(can_ms, our_want_ms)
        self.silence_max_s = 2 * self.heart_beat_expect_s + 1 if self.heart_beat_expect_s else inf
        self._client_id = check_client_id(frame.headers)
        self._version = version
        self._parser.speak(version, CLIENT_COMMANDS[version])
        self._state = _OPEN
        self.is_open = True
        self._outgoing = (
            f"CONNECTED\nversion:{VERSION_NAMES[version]}\nheart-beat:{our_can_ms},{our_want_ms}\n"
            f"session:{self._name}\nserver:radiator/{__version__}\n\n\0\n"
        ).encode()
        protocol = f"STOMP {VERSION_NAMES[version]}{self._carrier}"
        client = (self._client_id or b"").decode()
        return Open(
            self._connection, closes_at=self.closes_at, principal=self._principal, protocol=protocol, client=client
        )

    def _fail(self, broken: Violation, commands: list[Heard]) -> None:
        receipt = broken.receipt if isinstance(broken, BrokenFrame) else None
        if self.is_open:
            commands.append(Fail(self._connection, str(broken), receipt))
        else:
            self._outgoing = encode_error(PROTOCOL_CODE, str(broken), None, None)
            self.is_closing = True
        self._state = _ENDED

    def _look_for_unheeded(self, headers: dict[bytes, bytes], known: dict[bytes, str], destination: str) -> None:
        header = unheeded(headers, known)
        if header is not None:
            self._unheeded = Unheeded(self._connection, destination, header.decode(), known[header])

    def _say_unheeded(self, commands: list[Heard]) -> None:
        """Adds the report of an unheeded header: once, and never after the last command."""
        if isinstance(self._unheeded, Unheeded) and self._state == _OPEN:
            commands.append(self._unheeded)
            self._unheeded = True

    # ---- commands -------------------------------------------------------------------------------------------------

    def _command(self, frame: Frame) -> Command:
        headers = frame.headers
        receipt = headers.get(b"receipt")
        try:
            if b"id" in headers or b"transaction" in headers:
                check_ids(headers)
            return _READERS[frame.command](self, frame, receipt)
        except Violation as broken:
            if frame.command == b"SEND" and receipt is not None and asks_for_receipt(headers):
                return InvalidSend(self._connection, str(broken), receipt)
            raise BrokenFrame(str(broken), receipt) from None

    def _second_connect(self, frame: Frame, receipt: bytes | None) -> Command:
        raise Violation(f"A second {frame.command.decode()}: this connection is already connected.")

    def _send(self, frame: Frame, receipt: bytes | None) -> Command:
        headers = frame.headers
        destination = self._address(headers[b"destination"])
        if _SEND_OPTIONS.isdisjoint(headers):
            block = stored_block(headers, frame.lines, False)
            if destination == ADMIN:
                return Administer(self._connection, frame.body, JSON, self._version, receipt)
            return Send(self._connection, destination, block, self._version, frame.body, receipt)
        if not self._unheeded:
            self._look_for_unheeded(headers, OF_SEND, destination)
        reply_to = temp_queue_of(headers)
        send = Send(
            self._connection,
            destination,
            stored_block(headers, frame.lines, reply_to is not None),
            self._version,
            frame.body,
            receipt,
            headers.get(b"transaction"),
            number(headers, b"expiration", 0, TIME_MAX_MS),
            number(headers, b"expires", 0, TIME_MAX_MS),
            reply_to,
            flag(headers, b"mandatory", absent=False),
            dedup_id(headers),
            headers.get(b"correlation-id"),
            number(headers, b"delay", 0, TIME_MAX_MS),
            number(headers, b"deliver-at", 0, TIME_MAX_MS),
            flag(headers, b"immediate", absent=False),
            survives_refusal(headers),
        )
        return request_of(send) if destination == ADMIN else send

    def _subscribe(self, frame: Frame, receipt: bytes | None) -> Command:
        headers = frame.headers
        if flag(headers, b"browser", absent=False):
            raise Violation(
                "browser is not supported: it would take messages from the queue. `peek` of /admin only shows them."
            )
        if b"selector" in headers:
            raise Violation(
                "selector is not supported: subscribe to a destination of its own, or filter as you receive."
            )
        ack = _ACK_MODES.get(headers.get(b"ack", b"auto"))
        if ack is None:
            raise Violation(f"ack {shown(headers[b'ack'])} must be one of auto, client, client-individual.")
        destination = self._address(headers[b"destination"])
        if not self._unheeded:
            self._look_for_unheeded(headers, OF_SUBSCRIBE, destination)
        given = headers.get(b"id")
        # as other brokers do, even where the specification requires an id (1.1, 1.2, "SUBSCRIBE id Header")
        queue, written = queue_address(destination), headers[b"destination"].decode()
        subscription = queue.encode() if given is None else given
        if queue != written:
            self._written[subscription] = queue, written
        durable = durable_name(headers, given, self._client_id, destination)
        prefetch_count = number(headers, b"prefetch-count", 1, PREFETCH_COUNT_MAX)
        activemq_prefetch = number(headers, b"activemq.prefetchSize", 1, PREFETCH_COUNT_MAX)
        return Subscribe(
            self._connection,
            subscription,
            destination,
            ack,
            activemq_prefetch if prefetch_count is None else prefetch_count,
            flag(headers, b"exclusive", absent=False) | flag(headers, b"activemq.exclusive", absent=False),
            number(headers, b"buffer-max-bytes", 1, SIZE_MAX),
            number(headers, b"buffer-max-messages", 1, SIZE_MAX),
            receipt,
            named=given is not None or self._version != V1_0,
            durable=durable is not None,
            ack_timeout_s=ack_timeout_s(headers),
            is_getter=not flag(headers, b"auto-delete", absent=True),
            start=place(headers, b"from"),
            until=place(headers, b"until"),
            partition=number(headers, b"partition", 0, PARTITIONS_MAX - 1),
            group=group_of(headers, destination, ack),
            durable_name=None if durable == given else durable,
            consumer_name=consumer_name_of(headers, destination),
            consumer_priority=consumer_priority_of(headers, destination),
        )

    def _unsubscribe(self, frame: Frame, receipt: bytes | None) -> Command:
        headers = frame.headers
        subscription = headers.get(b"id")
        destination = self._address(headers[b"destination"]) if b"destination" in headers else None
        mistake = None
        try:
            durable = durable_name(headers, subscription, self._client_id, destination or "")
        except Violation as broken:
            if subscription is None or destination is not None:
                raise
            durable_name(headers, subscription, self._client_id, "/queue/")  # raises for mistakes on a queue too
            durable, mistake = subscription, str(broken)
        if subscription is None:
            if destination is None and durable is None:
                raise Violation("UNSUBSCRIBE without the header 'id' or 'destination': one of them must be there.")
            subscription = queue_address(destination or "").encode()
        self._written.pop(subscription, None)
        if durable is None:
            return Unsubscribe(self._connection, subscription, receipt)
        named = None if durable == subscription else durable
        return Unsubscribe(self._connection, subscription, receipt, True, destination, named, mistake)

    def _ack(self, frame: Frame, receipt: bytes | None) -> Command:
        message_id, subscription = self._acked(frame.headers)
        return Ack(self._connection, message_id, subscription, frame.headers.get(b"transaction"), receipt)

    def _nack(self, frame: Frame, receipt: bytes | None) -> Command:
        message_id, subscription = self._acked(frame.headers)
        requeue = flag(frame.headers, b"requeue", absent=True)
        delay_ms = number(frame.headers, b"delay", 0, TIME_MAX_MS)
        if delay_ms is not None and not requeue:
            raise Violation("NACK with both delay and requeue:false: a message that does not come back has no delay.")
        transaction = frame.headers.get(b"transaction")
        return Nack(self._connection, message_id, subscription, transaction, receipt, requeue, delay_ms)

    def _acked(self, headers: dict[bytes, bytes]) -> tuple[bytes, bytes | None]:
        """Returns the message id and the subscription of an ACK or NACK: each version has headers of its own."""
        if self._version == V1_2:
            return headers[b"id"], None
        return headers[b"message-id"], headers.get(b"subscription") if self._version == V1_1 else None

    def _begin(self, frame: Frame, receipt: bytes | None) -> Command:
        return Begin(self._connection, frame.headers[b"transaction"], receipt)

    def _commit(self, frame: Frame, receipt: bytes | None) -> Command:
        headers = frame.headers
        prepare, app = name(headers, b"prepare"), producer_id(headers)
        version = number(headers, b"txn-version", 0, TIME_MAX_MS)
        if (app is None) != (version is None):
            raise Violation("COMMIT with one of producer-id and txn-version: each needs the other.")
        if prepare is not None and app is not None:
            raise Violation(
                "COMMIT with both prepare and producer-id: what is prepared is committed by another COMMIT."
            )
        return Commit(self._connection, headers[b"transaction"], receipt, prepare, app, version or 0)

    def _abort(self, frame: Frame, receipt: bytes | None) -> Command:
        return Abort(self._connection, frame.headers[b"transaction"], receipt)

    def _disconnect(self, frame: Frame, receipt: bytes | None) -> Command:
        self._state = _ENDED
        return Disconnect(self._connection, receipt)

    def _address(self, value: bytes) -> str:
        known = self._addresses
        if known is None or len(known) >= ADDRESSES_KEPT:
            known = self._addresses = {}
        found = known.get(value)
        if found is None:
            found = known[value] = address(value)
        return found


_READERS: dict[bytes, Callable[[StompSession, Frame, bytes | None], Command]] = {
    b"CONNECT": StompSession._second_connect,
    b"STOMP": StompSession._second_connect,
    b"SEND": StompSession._send,
    b"SUBSCRIBE": StompSession._subscribe,
    b"UNSUBSCRIBE": StompSession._unsubscribe,
    b"BEGIN": StompSession._begin,
    b"COMMIT": StompSession._commit,
    b"ABORT": StompSession._abort,
    b"ACK": StompSession._ack,
    b"NACK": StompSession._nack,
    b"DISCONNECT": StompSession._disconnect,
}


def request_of(send: Send) -> Send | Administer:
    """Returns a SEND to /admin as a request; one in a transaction stays a SEND, which the broker refuses."""
    if send.transaction is not None:
        return send
    return Administer(
        send.connection,
        send.body,
        JSON,
        send.escaping,
        send.receipt,
        send.reply_to,
        send.correlation_id,
        send.survives_refusal,
    )
