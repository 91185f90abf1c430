"""A client of AMQP at a plain socket: what it sends is made by hand, frame by frame."""

import socket
import time
from contextlib import suppress
from typing import Any, Self

from radiator.protocols.amqp.codec import decode_method
from radiator.protocols.amqp.connection_methods import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from radiator.protocols.amqp.frame import AmqpFrame
from radiator.protocols.amqp.methods import ChannelOpen, ChannelOpenOk
from radiator.protocols.amqp.parser import FrameParser
from radiator.protocols.amqp.spec import FRAME_METHOD, PROTOCOL_HEADER
from tests.protocols.amqp.talking import method

WAIT_S = 10.0
CAPABILITIES = {"authentication_failure_close": True, "consumer_cancel_notify": True, "connection.blocked": True}


def start_ok(user: str, secret: str, **properties: Any) -> bytes:
    response = f"\0{user}\0{secret}".encode()
    return method(0, ConnectionStartOk({"capabilities": CAPABILITIES, **properties}, "PLAIN", response))


class AmqpWire:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), WAIT_S)
        self._parser = FrameParser()
        self._parser.use(1 << 20)
        list(self._parser.frames(PROTOCOL_HEADER))
        self._frames: list[AmqpFrame] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *parts: bytes) -> None:
        self.socket.sendall(b"".join(parts))

    def hear(self, kind: type[Any]) -> Any:
        """The next method of that type; others are passed over, but no close."""
        while True:
            found = self.next()
            assert found is not None, f"closed without {kind.__name__}"
            if isinstance(found, kind):
                return found
            assert not isinstance(found, ConnectionClose) and type(found).__name__ != "ChannelClose", found

    def next(self) -> Any:
        """The next method, or the payload of another frame; None: it is closed."""
        while not self._frames:
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionError:
                return None
            if not data:
                return None
            self._frames += self._parser.frames(data)
        frame = self._frames.pop(0)
        return decode_method(frame.payload) if frame.type == FRAME_METHOD else frame.payload

    def greet(self, user: str = "guest", secret: str = "guest", frame_max: int = 0) -> None:
        """Its connection is open, behind this."""
        self.send(PROTOCOL_HEADER, start_ok(user, secret))
        self.hear(ConnectionTune)
        self.send(method(0, ConnectionTuneOk(0, frame_max, 0)), method(0, ConnectionOpen()))
        self.hear(ConnectionOpenOk)

    def open(self, wire: int = 1) -> None:
        self.send(method(wire, ChannelOpen()))
        self.hear(ChannelOpenOk)

    def ending(self, within_s: float = WAIT_S) -> tuple[int, str]:
        """Why the broker has closed it, which is answered; 0 and "" where it says nothing."""
        until_s = time.monotonic() + within_s
        self.socket.settimeout(within_s)
        reason = (0, "")
        while (found := self.next()) is not None:
            assert time.monotonic() < until_s
            if isinstance(found, ConnectionClose):
                reason = (found.reply_code, found.reply_text)
                with suppress(OSError):
                    self.send(method(0, ConnectionCloseOk()))
        return reason
