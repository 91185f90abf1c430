"""The client's side of one STOMP connection, the mirror of session.py: calls in, bytes out; bytes in, events out.

Pure: no clock, no socket. Calls are checked first: one that would break the protocol raises Violation and sends
nothing. Whatever a server sends, `receive` never raises; after Broken (the server broke the protocol) it has no events.

    NEW --connect--> CONNECTING --CONNECTED--> OPEN --disconnect--> CLOSING --its RECEIPT--> CLOSED
    in every state:  --ERROR or a broken frame--> CLOSED
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from radiator.model.commands import AUTO, CLIENT, CLIENT_INDIVIDUAL
from radiator.model.errors import Violation, shown
from radiator.model.limits import CLIENT_LIMITS, Limits
from radiator.protocols.stomp.frame import Frame, encode_frame
from radiator.protocols.stomp.parser import Parser
from radiator.protocols.stomp.spec import (
    ANSWER_COMMANDS,
    CLIENT_COMMANDS,
    SERVER_COMMANDS,
    V1_0,
    V1_1,
    V1_2,
    VERSION_NAMES,
    VERSIONS,
)
from radiator.protocols.stomp.values import agreed_s, heart_beats

Headers = Mapping[str, str] | Iterable[tuple[str, str]]

NEW, CONNECTING, OPEN, CLOSING, CLOSED = "new", "connecting", "open", "closing", "closed"

# what may be sent in which state; a heart-beat is an end of line, which may follow any frame
_MAY_SEND: dict[str, frozenset[str]] = {
    NEW: frozenset(["CONNECT"]),
    CONNECTING: frozenset(),
    OPEN: frozenset(name.decode() for name in CLIENT_COMMANDS[V1_2]) - {"CONNECT", "STOMP"},
    CLOSING: frozenset(),  # "Clients MUST NOT send any more frames after the DISCONNECT frame is sent."
    CLOSED: frozenset(),
}

_KNOWN_1_0 = frozenset(name.decode() for name in CLIENT_COMMANDS[V1_0]) - {"NACK"}  # other servers refuse NACK in 1.0

_ARGUMENTS = frozenset(["receipt", "transaction"])  # not allowed in a call's `headers`: they would escape its checks
_PLAIN_RECEIPT = re.compile(rb"RECEIPT\nreceipt-id:([ !-9;-\[\]-~]*)\n\n\0\n?")
_BACKSLASH, _CR, _NUL = b"\\\r\0"  # looked for as numbers, which is faster (parser.py)
_PLAIN_HEAD_BYTES, _PLAIN_HEADERS, _PLAIN_LENGTH_DIGITS = 8192, 64, 7  # well within CLIENT_LIMITS
_BEGUN_MAX_BYTES = 64 * 1024  # a larger beginning would be copied too often: it goes to the parser
_MIME_TYPE = re.compile(r"[\w.+!#$&^-]+/[\w.+!#$&^-]+ *(;.*)?", re.ASCII | re.DOTALL)


@dataclass(slots=True)
class Connected:
    """CONNECTED. version: `1.0`, `1.1` or `1.2`."""

    version: str
    headers: dict[str, str]


@dataclass(slots=True)
class Message:
    """MESSAGE. headers: decoded; the first of repeated names. connection: the receiver's connection it arrived on."""

    headers: dict[str, str]
    body: bytes
    connection: int = field(default=0, compare=False, repr=False)

    @property
    def destination(self) -> str:
        """The full address that the message was sent to."""
        return self.headers["destination"]

    @property
    def message_id(self) -> str:
        """The message's id, which never repeats."""
        return self.headers["message-id"]

    @property
    def subscription(self) -> str | None:
        """The subscription that it arrived on; None in 1.0 if the server names none."""
        return self.headers.get("subscription")


@dataclass(slots=True)
class Receipt:
    """RECEIPT. refused: the code of a refusal that arrived as a RECEIPT; message: its sentence; else both are empty."""

    receipt: str
    refused: str = ""
    message: str = ""


@dataclass(slots=True)
class Error:
    """ERROR: the server closes the connection after it. message: its `message`, or the body if it has none."""

    message: str
    headers: dict[str, str]
    body: bytes

    @property
    def receipt(self) -> str | None:
        """The receipt id of the frame that caused it, if the server named it."""
        return self.headers.get("receipt-id")


@dataclass(slots=True)
class Broken:
    """The server broke the protocol: close the connection."""

    sentence: str


ServerEvent = Connected | Message | Receipt | Error | Broken


class ClientSession:
    """One connection. Used by one thread at a time. Each sending method returns the bytes to send, or raises Violation.

    state: one of NEW, CONNECTING, OPEN, CLOSING, CLOSED. version: None until CONNECTED.
    heart_beat_send_s: how often at least one byte must be sent; heart_beat_expect_s: how often one comes; 0: never.
    store: the id of the broker's store, as CONNECTED gives it; "" before, and if it gives none.
    """

    __slots__ = (
        "_begun",
        "_disconnect_receipt",
        "_heart_beat_ms",
        "_is_plain_read",
        "_limits",
        "_parser",
        "_subscriptions",
        "_transactions",
        "_version",
        "_versions",
        "heart_beat_expect_s",
        "heart_beat_send_s",
        "state",
        "store",
    )

    def __init__(self, limits: Limits = CLIENT_LIMITS) -> None:
        self.state = NEW
        self.store = ""
        self.heart_beat_send_s = 0.0
        self.heart_beat_expect_s = 0.0
        self._heart_beat_ms = (0, 0)
        self._parser = Parser(limits, ANSWER_COMMANDS)
        self._begun = b""  # the beginning of a plain MESSAGE
        self._is_plain_read = False
        self._limits = limits
        self._versions: tuple[str, ...] = ()
        self._version: int | None = None
        self._subscriptions: set[str] = set()
        self._transactions: set[str] = set()
        self._disconnect_receipt: str | None = None

    @property
    def version(self) -> str | None:
        """The negotiated version."""
        return None if self._version is None else VERSION_NAMES[self._version]

    # ---- what is sent ---------------------------------------------------------------------------------------------

    def connect(
        self,
        host: str,
        *,
        versions: Iterable[str] = ("1.0", "1.1", "1.2"),
        login: str | None = None,
        passcode: str | None = None,
        heart_beat_ms: tuple[int, int] = (0, 0),
        headers: Headers = (),
    ) -> bytes:
        """Returns CONNECT. heart_beat_ms: how often this side can send, and wants to receive, in ms; 0: not at all."""
        offered = tuple(sorted(set(versions)))
        if not offered or not all(name.encode() in VERSIONS for name in offered):
            raise Violation(f"The versions {offered} must be some of 1.0, 1.1 and 1.2.")
        if (
            not isinstance(heart_beat_ms, tuple | list)
            or len(heart_beat_ms) != 2
            or not all(isinstance(one, int) and 0 <= one < 10**10 for one in heart_beat_ms)
        ):
            raise Violation(f"heart_beat_ms {heart_beat_ms} must be two whole numbers of milliseconds, 0 or more.")
        own = [
            ("accept-version", ",".join(offered)),
            ("host", host),
            ("heart-beat", f"{heart_beat_ms[0]},{heart_beat_ms[1]}"),
        ]
        own += [("login", login)] if login is not None else []
        own += [("passcode", passcode)] if passcode is not None else []
        frame = self._frame("CONNECT", own, headers)
        self._versions, self._heart_beat_ms = offered, heart_beat_ms
        self.state = CONNECTING
        return frame

    def send(
        self,
        destination: str,
        body: bytes = b"",
        *,
        content_type: str | None = None,
        receipt: str | None = None,
        transaction: str | None = None,
        dedup_id: str | None = None,
        headers: Headers = (),
    ) -> bytes:
        """Returns SEND, always with `content-length`, so that the body may contain any octets."""
        self._check_transaction(transaction)
        own = [("destination", destination), ("content-length", str(len(body)))]
        own += [("dedup-id", dedup_id)] if dedup_id is not None else []
        own += self._checked("SEND", [], [("content-type", content_type)]) if content_type is not None else []
        own += _hop_headers(receipt, transaction)
        return self._frame("SEND", own, headers, body)

    def subscribe(
        self,
        subscription: str,
        destination: str,
        *,
        ack: str = AUTO,
        receipt: str | None = None,
        headers: Headers = (),
    ) -> bytes:
        """Returns SUBSCRIBE, always with an id (`subscription`). ack: `auto`, `client` or `client-individual`."""
        if ack not in (AUTO, CLIENT, CLIENT_INDIVIDUAL):
            raise Violation(f"ack {ack!r} must be auto, client or client-individual.")
        if subscription in self._subscriptions:
            raise Violation(f"The subscription {subscription!r} exists already: each must have an id of its own.")
        own = [("id", subscription), ("destination", destination), ("ack", ack), *_hop_headers(receipt)]
        frame = self._frame("SUBSCRIBE", own, headers)
        self._subscriptions.add(subscription)
        return frame

    def unsubscribe(self, subscription: str, *, receipt: str | None = None, forget: str | None = None) -> bytes:
        """Returns UNSUBSCRIBE. MESSAGEs that are on their way still arrive.

        forget: the destination of a durable subscription, of this connection or not, that is to end for good.
        """
        if subscription not in self._subscriptions and forget is None:
            raise Violation(f"There is no subscription {subscription!r} to end.")
        own = [("id", subscription), *_hop_headers(receipt)]
        own += [("destination", forget), ("durable", "true")] if forget is not None else []
        frame = self._frame("UNSUBSCRIBE", own)
        self._subscriptions.discard(subscription)
        return frame

    def ack(self, message: Message, *, receipt: str | None = None, transaction: str | None = None) -> bytes:
        """Returns ACK of a message that was received on this connection."""
        self._check_transaction(transaction)
        return self._frame("ACK", self._acked(message) + _hop_headers(receipt, transaction))

    def nack(
        self,
        message: Message,
        *,
        receipt: str | None = None,
        transaction: str | None = None,
        requeue: bool = True,
        delay_ms: int | None = None,
    ) -> bytes:
        """Returns NACK; not in 1.0. requeue False: dead-letter it now. delay_ms: redeliver it after that time."""
        self._check_transaction(transaction)
        own = self._acked(message) + _hop_headers(receipt, transaction)
        own += [] if requeue else [("requeue", "false")]
        own += [] if delay_ms is None else [("delay", str(delay_ms))]
        return self._frame("NACK", own)

    def begin(self, transaction: str, *, receipt: str | None = None) -> bytes:
        """Returns BEGIN."""
        if transaction in self._transactions:
            raise Violation(f"The transaction {transaction!r} is open already: each must have an id of its own.")
        frame = self._frame("BEGIN", [("transaction", transaction), *_hop_headers(receipt)])
        self._transactions.add(transaction)
        return frame

    def commit(self, transaction: str, *, receipt: str | None = None, prepare: str | None = None) -> bytes:
        """Returns COMMIT. prepare: the name under which to prepare the transaction, instead of committing it."""
        return self._end_transaction("COMMIT", transaction, receipt, [] if prepare is None else [("prepare", prepare)])

    def abort(self, transaction: str, *, receipt: str | None = None) -> bytes:
        """Returns ABORT."""
        return self._end_transaction("ABORT", transaction, receipt)

    def disconnect(self, *, receipt: str | None = None) -> bytes:
        """Returns DISCONNECT: nothing may be sent after it. With a receipt, the state is CLOSED when that arrives."""
        frame = self._frame("DISCONNECT", _hop_headers(receipt))
        self.state = CLOSED if receipt is None else CLOSING
        self._disconnect_receipt = receipt
        return frame

    def heart_beat(self) -> bytes:
        """Returns one end of line. Allowed only once connected, and not after DISCONNECT."""
        if self.state != OPEN:
            raise Violation(f"A heart-beat cannot be sent: the connection is {self.state}.")
        return b"\n"

    # ---- what is received -----------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[ServerEvent]:
        """Returns the events in those bytes, in order. After Error or Broken, and once CLOSED, there are none."""
        events: list[ServerEvent] = []
        if self._begun:
            data, self._begun = self._begun + data, b""
        if self.state == OPEN and self._is_plain_read and not self._parser.held_bytes:
            data = self._plain_frames(data, events)
        if self.state == CLOSED or not data:
            return events
        try:
            for frame in self._parser.frames(data):
                events.append(self._event(frame))
                if self.state == CLOSED:
                    break
        except Violation as broken:
            self.state = CLOSED
            events.append(Broken(str(broken)))
        return events

    def _plain_frames(self, data: bytes, events: list[ServerEvent]) -> bytes:
        """Reads frames fast if they have the form that brokers usually write; returns what is left for the parser."""
        position = 0
        while True:
            if data.startswith(b"\n", position):
                position += 1
            elif data.startswith(b"RECEIPT\nreceipt-id:", position):
                receipt = _PLAIN_RECEIPT.match(data, position)
                if receipt is None:
                    break
                events.append(Receipt(receipt[1].decode()))
                position = receipt.end()
            elif data.startswith(b"MESSAGE\n", position):
                message, end = _plain_message(data, position)
                if message is None:
                    if end and len(data) - position <= _BEGUN_MAX_BYTES:
                        self._begun, position = data[position:], len(data)
                    break
                events.append(message)
                position = end
            else:
                break
        return data[position:]

    def _event(self, frame: Frame) -> ServerEvent:
        headers: dict[str, str] = {}
        for name, value in frame.headers.items():
            headers[name.decode()] = value.decode()
        if frame.command == b"MESSAGE":
            return Message(headers, frame.body)
        if frame.command == b"RECEIPT":
            return self._receipt(headers["receipt-id"], headers.get("refused", ""), headers.get("message", ""))
        if frame.command == b"ERROR":
            self.state = CLOSED
            return Error(headers.get("message") or frame.body.decode("utf-8", "replace"), headers, frame.body)
        return self._connected(frame, headers)

    def _connected(self, frame: Frame, headers: dict[str, str]) -> Connected:
        if self.state != CONNECTING:
            raise Violation(f"The server sent CONNECTED, but the connection is {self.state}.")
        version = headers.get("version", "1.0")
        if version not in self._versions:
            raise Violation(
                f"The server speaks version {version!r}, which was not offered: {', '.join(self._versions)}."
            )
        server_can_ms, server_wants_ms = heart_beats(frame.headers.get(b"heart-beat"))
        can_ms, want_ms = self._heart_beat_ms
        self.heart_beat_send_s = agreed_s(can_ms, server_wants_ms)
        self.heart_beat_expect_s = agreed_s(server_can_ms, want_ms)
        self._version = VERSIONS[version.encode()]
        self._parser.speak(self._version, SERVER_COMMANDS[self._version])
        self._is_plain_read = self._version != V1_0 and (
            self._limits.max_header_bytes >= _PLAIN_HEAD_BYTES
            and self._limits.max_headers >= _PLAIN_HEADERS
            and self._limits.max_frame_bytes >= _PLAIN_HEAD_BYTES + 10**_PLAIN_LENGTH_DIGITS
        )
        self.store = headers.get("session", "").partition("-")[0]
        self.state = OPEN
        return Connected(version, headers)

    def _receipt(self, receipt: str, refused: str = "", message: str = "") -> Receipt:
        if self.state == CLOSING and receipt == self._disconnect_receipt:
            self.state = CLOSED
        return Receipt(receipt, refused, message)

    # ---- rules of sending -----------------------------------------------------------------------------------------

    def _frame(self, command: str, own: list[tuple[str, str]], headers: Headers = (), body: bytes = b"") -> bytes:
        if command not in _MAY_SEND[self.state]:
            raise Violation(f"{command} cannot be sent: the connection is {self.state}.")
        if self._version == V1_0 and command not in _KNOWN_1_0:
            raise Violation(f"{command} cannot be sent: STOMP {self.version} does not have it.")
        pairs = [*own, *self._checked(command, own, headers)] if headers else own
        text = "".join([f"{name}:{value}\n" for name, value in pairs])
        try:
            if self._version is None or not _is_plain(text, len(pairs)):
                return encode_frame(command.encode(), pairs, body, self._version)
            return b"".join((f"{command}\n{text}\n".encode(), body, b"\0"))
        except UnicodeEncodeError as wrong:
            octets = wrong.object[wrong.start : wrong.end]
            raise Violation(f"{command} cannot be sent: a header has {octets!r}, which is not valid UTF-8.") from None

    def _checked(self, command: str, own: list[tuple[str, str]], headers: Headers) -> list[tuple[str, str]]:
        """Returns the headers that the application adds. Raises Violation for one that an argument sets."""
        more = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
        taken = _ARGUMENTS.union([name for name, _ in own])
        for name, value in more:
            if name in taken:
                raise Violation(f"The header {name!r} of {command} is set by its argument, not among the headers.")
            if name == "content-type" and not _MIME_TYPE.fullmatch(value):
                raise Violation(f"content-type {value!r} is not a MIME type, as text/plain is.")
        return more

    def _acked(self, message: Message) -> list[tuple[str, str]]:
        """Returns the headers by which ACK and NACK name a message: each version has its own."""
        if self._version == V1_2:
            ack_id = message.headers.get("ack")
            if ack_id is None:
                raise Violation(f"The message {shown(message.message_id.encode())} has no `ack`: none is due for it.")
            return [("id", ack_id)]
        named = [("message-id", message.message_id)]
        if self._version == V1_1:
            return [("subscription", message.headers["subscription"]), *named]
        return named

    def _check_transaction(self, transaction: str | None) -> None:
        if transaction is not None and transaction not in self._transactions:
            raise Violation(f"There is no open transaction {transaction!r}: BEGIN comes first.")

    def _end_transaction(self, command: str, transaction: str, receipt: str | None, more: Headers = ()) -> bytes:
        self._check_transaction(transaction)
        frame = self._frame(command, [("transaction", transaction), *_hop_headers(receipt)], more)
        self._transactions.remove(transaction)
        return frame


def _hop_headers(receipt: str | None, transaction: str | None = None) -> list[tuple[str, str]]:
    headers = [] if receipt is None else [("receipt", receipt)]
    return headers if transaction is None else [*headers, ("transaction", transaction)]


def _is_plain(text: str, lines: int) -> bool:
    """Returns whether these header lines need no escape, and can be sent in every version."""
    return (
        text.count(":") == lines
        and text.count("\n") == lines
        and not text.startswith(":")
        and "\n:" not in text
        and "\\" not in text
        and "\r" not in text
        and "\0" not in text
    )


def _plain_message(data: bytes, start: int) -> tuple[Message | None, int]:
    """Returns the MESSAGE that begins at `start`, and its end; or None, and an end if only the body is incomplete."""
    block_end = data.find(b"\n\n", start, start + _PLAIN_HEAD_BYTES)
    if block_end < 0:
        return None, 0
    block = data[start + len(b"MESSAGE\n") : block_end]
    if not block.isascii() or _BACKSLASH in block or _CR in block or _NUL in block:
        return None, 0
    lines = block.decode().split("\n")
    try:
        headers: dict[str, str] = dict([line.split(":", 1) for line in lines])
        length = headers["content-length"]
        headers["destination"], headers["message-id"], headers["subscription"]
    except (ValueError, KeyError):
        return None, 0
    if len(headers) != len(lines) or len(lines) > _PLAIN_HEADERS or "" in headers:
        return None, 0
    if not length.isdigit() or len(length) > _PLAIN_LENGTH_DIGITS:
        return None, 0
    body_start = block_end + 2
    end = body_start + int(length)
    if end >= len(data):
        return None, end
    return (Message(headers, data[body_start:end]), end + 1) if data[end] == 0 else (None, 0)
