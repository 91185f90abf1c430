"""A connection to a broker as a client of AMQP has it: bytes out, events in. It never blocks.

What came is taken from `events`, in its order. `wait` is the only place where time passes.
"""

import select
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from radiator.model.errors import RadiatorError, Violation
from radiator.model.errors import shown as shown_bytes
from radiator.protocols.amqp.codec import decode_method, encode_method
from radiator.protocols.amqp.connection_methods import (
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUnblocked,
)
from radiator.protocols.amqp.frame import HEARTBEAT, decode_content_header, encode_frame
from radiator.protocols.amqp.methods import (
    BasicDeliver,
    BasicGetOk,
    BasicReturn,
    Method,
)
from radiator.protocols.amqp.parser import FrameParser
from radiator.protocols.amqp.spec import (
    CLASS_BASIC,
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    FRAME_MIN_BYTES,
    FRAME_OVERHEAD_BYTES,
    PROTOCOL_HEADER,
)
from radiator.tools.migrate.place import AmqpPlace

CONNECT_MAX_S = 20.0
READ_BYTES = 256 * 1024
PENDING_BYTES = 1024 * 1024
"""How many bytes may wait to be written before nothing more is made for that connection."""
BODY_MAX_BYTES = 512 * 1024 * 1024  # RabbitMQ's own most
_CONTENT = struct.Struct(">HHQ")
_CONTENT_METHODS = (BasicDeliver, BasicGetOk, BasicReturn)


class WireLost(RadiatorError):
    """A connection is over, or was never there. The sentence says which, and why."""


class AmqpEvent(NamedTuple):
    """A method that came, with its content where it has one."""

    channel: int
    method: Method
    properties: bytes = b""
    body: bytes = b""


class AmqpWire:
    """One connection. name: "the old broker", as sentences begin. blocked: why it takes no messages now; "": it does.

    events: what came and has not been taken. written_bytes: in all. closed_for: the code with which the broker has
    closed it, and why.
    """

    def __init__(self, name: str, place: AmqpPlace) -> None:
        self.name = name
        self.place = place
        self.written_bytes = 0
        self.connect()

    def connect(self) -> None:
        """Connects; nothing of an earlier connection counts."""
        self.frame_max = FRAME_MIN_BYTES
        self.events: deque[AmqpEvent] = deque()
        self.blocked = ""
        self.closed_for = 0
        self.closed_why = ""
        self._parser = FrameParser()
        for _ in self._parser.frames(PROTOCOL_HEADER):
            pass  # only a client says it
        self._is_first = True
        self._pending = bytearray()
        self._content: tuple[int, Method] | None = None
        self._properties = b""
        self._body_bytes = -1
        self._body = bytearray()
        self._socket = self._connected()
        self._socket.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def pending_bytes(self) -> int:
        """What waits to be written."""
        return len(self._pending)

    def use(self, frame_max: int) -> None:
        """Uses the frame size that was agreed on."""
        self.frame_max = frame_max
        self._parser.use(frame_max)

    def send(self, data: bytes) -> None:
        """Queues these bytes, which the next `wait` writes."""
        self._pending += data

    def send_method(self, channel: int, method: Method) -> None:
        """Queues a method."""
        self._pending += encode_method(channel, method)

    def send_content(self, channel: int, properties: bytes, body: bytes) -> None:
        """Queues the content of a basic.publish, right after it."""
        head = _CONTENT.pack(CLASS_BASIC, 0, len(body)) + properties
        self._pending += encode_frame(FRAME_HEADER, channel, head)
        step = self.frame_max - FRAME_OVERHEAD_BYTES
        for start in range(0, len(body), step):
            self._pending += encode_frame(FRAME_BODY, channel, body[start : start + step])

    def flush(self) -> None:
        """Writes what the system takes."""
        while self._pending:
            try:
                sent = self._socket.send(self._pending[:READ_BYTES])
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return
            except OSError as failed:
                self.read()  # it may have said why
                raise self.lost(failed.strerror or str(failed)) from None
            del self._pending[:sent]
            self.written_bytes += sent

    def read(self) -> None:
        """Takes what has come, at most once READ_BYTES."""
        data = b""
        while True:
            try:
                part = self._socket.recv(READ_BYTES)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            except OSError as failed:
                if data:
                    break  # what it said before goes first
                raise self.lost(failed.strerror or str(failed)) from None
            if not part:
                if data:
                    break
                raise self.lost("it has closed the connection")
            data += part
            if len(data) >= READ_BYTES and not self.has_more():
                break
        if data:
            self._take(data)

    def has_more(self) -> bool:
        """Whether TLS holds bytes already, which no `select` sees."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def close(self) -> None:
        """Closes the socket without a word."""
        self._socket.close()

    def lost(self, why: str) -> WireLost:
        """Returns the error to raise."""
        return WireLost(f"The connection to {self.name} at {self.place} is lost: {why.rstrip('.')}.")

    # ---- what comes

    def _take(self, data: bytes) -> None:
        if self._is_first:
            self._is_first = False
            if data[:1] not in (b"\1", b"A") or data[:4] == b"HTTP":
                raise WireLost(f"What answers at {self.place} is not AMQP: it says {shown_bytes(data[:40])}.")
            if data[:1] == b"A":
                raise WireLost(f"{self.name[:1].upper()}{self.name[1:]} at {self.place} does not speak AMQP 0-9-1.")
        try:
            for frame in (frame for read in self._parser.frames(data) for frame in read.frames):
                if frame.type == FRAME_METHOD:
                    self._take_method(frame.channel, decode_method(frame.payload))
                elif frame.type == FRAME_HEADER:
                    _, self._body_bytes, self._properties = decode_content_header(frame.payload)
                    if self._body_bytes > BODY_MAX_BYTES:
                        raise self.lost(f"a message of {self._body_bytes} bytes came; {BODY_MAX_BYTES} is the most")
                    self._take_body(b"")
                elif frame.type == FRAME_BODY:
                    self._take_body(frame.payload)
                elif frame.type == FRAME_HEARTBEAT:
                    self.send(HEARTBEAT)
        except Violation as broken:
            raise self.lost(f"it sent what is not AMQP: {broken}") from None

    def _take_method(self, channel: int, method: Method) -> None:
        if isinstance(method, _CONTENT_METHODS):
            self._content, self._body_bytes = (channel, method), -1
            self._body = bytearray()
        elif isinstance(method, ConnectionClose):
            self.closed_for = method.reply_code
            self.closed_why = f"{self._capital} says {method.reply_code} {method.reply_text.rstrip('.')}."
            self.send_method(0, ConnectionCloseOk())
            raise self.lost(f"it says {method.reply_code} {method.reply_text}")
        elif isinstance(method, ConnectionBlocked):
            self.blocked = method.reason or "it has no room"
        elif isinstance(method, ConnectionUnblocked):
            self.blocked = ""
        else:
            self.events.append(AmqpEvent(channel, method))

    def _take_body(self, part: bytes) -> None:
        self._body += part
        if self._content is None or len(self._body) > self._body_bytes:
            raise self.lost("content came that belongs to no message")
        if len(self._body) == self._body_bytes:
            channel, method = self._content
            self.events.append(AmqpEvent(channel, method, self._properties, bytes(self._body)))
            self._content = None
            self._body = bytearray()

    # ---- the socket

    def _connected(self) -> socket.socket:
        place = self.place
        try:
            if place.path:
                made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                made.settimeout(CONNECT_MAX_S)
                made.connect(place.path)
                return made
            made = socket.create_connection((place.host, place.port), CONNECT_MAX_S)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if place.is_tls:
                context = ssl.create_default_context(cafile=place.ca_file or None)
                context.minimum_version = ssl.TLSVersion.TLSv1_2
                return context.wrap_socket(made, server_hostname=place.host)
            return made
        except ssl.SSLError as failed:
            why = getattr(failed, "verify_message", "") or failed.reason or str(failed)
            raise WireLost(f"{self._capital} at {place} cannot be spoken to under TLS: {why}.") from None
        except OSError as failed:
            why = failed.strerror or str(failed)
            raise WireLost(f"{self._capital} is not reached at {place}: {why}. Does it listen there?") from None

    @property
    def _capital(self) -> str:
        return self.name[:1].upper() + self.name[1:]


def wait(wires: Sequence[AmqpWire], timeout_s: float, silent: Sequence[AmqpWire] = ()) -> bool:
    """Waits until one of these has something, or has written all, for at most timeout_s. silent: those that are only
    written to. Returns whether anything came.
    """
    for wire in (*wires, *silent):
        wire.flush()
    if any(wire.has_more() for wire in wires):
        timeout_s = 0
    writing = [wire for wire in (*wires, *silent) if wire.pending_bytes]
    readable, _, _ = select.select(wires, writing, [], max(0.0, timeout_s))
    before = sum(len(wire.events) for wire in wires)
    for wire in wires:
        if wire in readable or wire.has_more():
            wire.read()
    for wire in writing:
        wire.flush()
    return sum(len(wire.events) for wire in wires) > before


def deadline(seconds: float) -> float:
    """Returns a moment of `time.monotonic`."""
    return time.monotonic() + seconds
