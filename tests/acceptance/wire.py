"""A raw STOMP client: a blocking socket, frames as they stand on the wire, and no cleverness.

It shares nothing with radiator's own code, so that an error in the codec there cannot hide itself here.
"""

import itertools
import socket
import time
from collections.abc import Iterable, Mapping
from typing import Self

Headers = Mapping[str, str] | Iterable[tuple[str, str]]

TIMEOUT_S = 10.0

ESCAPES = {
    "1.0": (),
    "1.1": (("\\", "\\\\"), ("\n", "\\n"), (":", "\\c")),
    "1.2": (("\\", "\\\\"), ("\n", "\\n"), (":", "\\c"), ("\r", "\\r")),
}
UNESCAPED = {"\\": "\\", "n": "\n", "c": ":", "r": "\r"}


class Gone(Exception):
    """The broker has closed the connection."""


class Frame:
    """As read: command, header lines (raw), body. `frame[name]` is the first header of that name, unescaped."""

    def __init__(self, command: str, lines: list[bytes], body: bytes, version: str) -> None:
        self.command = command
        self.lines = lines
        self.body = body
        self.pairs = [
            (unescape(name.decode(), version), unescape(value.decode(), version))
            for name, _, value in (line.partition(b":") for line in lines)
        ]

    def __getitem__(self, name: str) -> str:
        return next(value for other, value in self.pairs if other == name)

    def __contains__(self, name: str) -> bool:
        return any(other == name for other, _ in self.pairs)

    def get(self, name: str) -> str | None:
        return next((value for other, value in self.pairs if other == name), None)

    def __repr__(self) -> str:
        return f"{self.command} {self.pairs} {self.body[:200]!r}"


def escape(text: str, version: str) -> str:
    for plain, escaped in ESCAPES[version]:
        text = text.replace(plain, escaped)
    return text


def unescape(text: str, version: str) -> str:
    if version == "1.0" or "\\" not in text:
        return text
    plain, letters = "", iter(text)
    for letter in letters:
        plain += UNESCAPED[next(letters)] if letter == "\\" else letter
    return plain


class Wire:
    """One connection. What is not asked for is not done: no heart-beats, no ACKs, no reconnect. address: host and port,
    or the path of a unix socket. source: the address that it comes from, where that matters.
    """

    receipts = itertools.count(1)

    def __init__(self, address: tuple[str, int] | str, version: str = "1.2", source: str = "") -> None:
        self.version = version
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.settimeout(TIMEOUT_S)
            self.socket.connect(address)
        else:
            self.socket = socket.create_connection(address, TIMEOUT_S, (source, 0) if source else None)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.ends_of_line = 0  # heart-beats read so far
        self.early: list[Frame] = []  # MESSAGEs that came while something else was waited for

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Lost: no DISCONNECT."""
        self.socket.close()

    # ---- bytes and frames

    def send_raw(self, data: bytes) -> None:
        self.socket.sendall(data)

    def frame(self, command: str, headers: Headers = (), body: bytes = b"") -> bytes:
        """The bytes of a frame, with a content-length where there is a body."""
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
        if body:
            pairs.append(("content-length", str(len(body))))
        version = "1.0" if command == "CONNECT" else self.version
        lines = [f"{escape(name, version)}:{escape(value, version)}\n" for name, value in pairs]
        return f"{command}\n{''.join(lines)}\n".encode() + body + b"\0"

    def send_frame(self, command: str, headers: Headers = (), body: bytes = b"") -> None:
        self.send_raw(self.frame(command, headers, body))

    def read_frame(self, timeout_s: float = TIMEOUT_S) -> Frame:
        """The next frame. TimeoutError where none comes, Gone where none can."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            stripped = self.buffer.lstrip(b"\n")
            self.ends_of_line += len(self.buffer) - len(stripped)
            self.buffer = stripped
            found = self._cut()
            if found is not None:
                return found
            self._fill(deadline_s)

    def _cut(self) -> Frame | None:
        """The first frame of the buffer, if it is whole."""
        end = self.buffer.find(b"\n\n")
        if end < 0:
            return None
        command, *lines = self.buffer[:end].split(b"\n")
        version = "1.0" if command == b"CONNECTED" else self.version
        lengths = [int(line[15:]) for line in lines if line.startswith(b"content-length:")]
        begin = end + 2
        finish = begin + lengths[0] if lengths else self.buffer.find(b"\0", begin)
        if finish < 0 or len(self.buffer) <= finish + 1:
            return None
        assert self.buffer[finish] == 0, "content-length does not end at a NUL"
        assert self.buffer[finish + 1 : finish + 2] == b"\n", "no line feed behind the NUL"
        body, self.buffer = self.buffer[begin:finish], self.buffer[finish + 2 :]
        return Frame(command.decode(), lines, body, version)

    def _fill(self, deadline_s: float) -> None:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("no frame came in time")
        self.socket.settimeout(left_s)
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionError:
            data = b""
        finally:
            self.socket.settimeout(TIMEOUT_S)
        if not data:
            raise Gone(f"the broker closed the connection; before that it said {self.buffer!r}")
        self.buffer += data

    # ---- what tests say again and again

    def connect(self, headers: Headers = ()) -> Frame:
        own = {"accept-version": self.version, "host": "test"} if self.version != "1.0" else {}
        self.send_frame("CONNECT", {**own, **dict(headers)})
        return self.read("CONNECTED")

    def read(self, command: str, timeout_s: float = TIMEOUT_S) -> Frame:
        """The next frame, which must be one of that command."""
        frame = self.read_frame(timeout_s)
        assert frame.command == command, frame
        return frame

    def message(self, timeout_s: float = TIMEOUT_S) -> Frame:
        """The next MESSAGE, be it one that came early."""
        return self.early.pop(0) if self.early else self.read("MESSAGE", timeout_s)

    def messages(self, count: int) -> list[Frame]:
        return [self.message() for _ in range(count)]

    def bodies(self, count: int) -> list[str]:
        return [frame.body.decode() for frame in self.messages(count)]

    def begin_ask(self, command: str, headers: Headers = (), body: bytes = b"") -> str:
        """Sends it with a receipt asked for: the receipt's id."""
        receipt = f"r{next(self.receipts)}"
        self.send_frame(command, {**dict(headers), "receipt": receipt}, body)
        return receipt

    def await_receipt(self, receipt: str, timeout_s: float = TIMEOUT_S) -> None:
        while (frame := self.read_frame(timeout_s)).command == "MESSAGE":
            self.early.append(frame)
        assert frame.command == "RECEIPT", frame
        assert frame["receipt-id"] == receipt, frame

    def ask(self, command: str, headers: Headers = (), body: bytes = b"") -> None:
        """Sends it and returns with its RECEIPT; MESSAGEs that come first are kept for `message`."""
        self.await_receipt(self.begin_ask(command, headers, body))

    def send(self, destination: str, body: str | bytes = b"", headers: Headers = ()) -> None:
        """SEND, receipted."""
        data = body.encode() if isinstance(body, str) else body
        self.ask("SEND", {"destination": destination, **dict(headers)}, data)

    def subscribe(self, destination: str, id: str = "0", ack: str = "client-individual", headers: Headers = ()) -> None:
        self.ask("SUBSCRIBE", {"id": id, "destination": destination, "ack": ack, **dict(headers)})

    def naming(self, message: Frame) -> dict[str, str]:
        """The headers by which an ACK or NACK of this version names the message."""
        if self.version == "1.2":
            return {"id": message["ack"]}
        if self.version == "1.1":
            return {"message-id": message["message-id"], "subscription": message["subscription"]}
        return {"message-id": message["message-id"]}

    def ack(self, message: Frame, headers: Headers = ()) -> None:
        self.ask("ACK", {**self.naming(message), **dict(headers)})

    def nack(self, message: Frame, headers: Headers = ()) -> None:
        self.ask("NACK", {**self.naming(message), **dict(headers)})

    def fence(self) -> None:
        """Returns when all that was said before is carried out: what it sent to us at once has been read."""
        name = f"fence-{next(self.receipts)}"
        self.ask("BEGIN", {"transaction": name})
        self.ask("ABORT", {"transaction": name})

    def is_silent(self) -> bool:
        """Whether no MESSAGE is there that could have come by now."""
        self.fence()
        return not self.early

    def refusal(self, timeout_s: float = TIMEOUT_S) -> Frame:
        """The ERROR that comes next; the broker closes behind it."""
        error = self.read("ERROR", timeout_s)
        assert error["message"]
        assert error["version"] == "1.0,1.1,1.2"
        assert error["content-type"] == "text/plain"
        assert error.body
        assert self.is_closed()
        return error

    def is_closed(self, timeout_s: float = TIMEOUT_S) -> bool:
        """Whether the broker closes, and says nothing before it."""
        try:
            frame = self.read_frame(timeout_s)
        except Gone:
            return True
        except TimeoutError:
            return False
        raise AssertionError(f"the broker still said {frame}")

    # ---- /admin

    def admin(self, request: bytes) -> bytes:
        """The body of the answer to a request to /admin."""
        self.send_frame("SEND", {"destination": "/admin", "reply-to": "/temp-queue/admin"}, request)
        while True:
            frame = self.read_frame()
            if frame.command == "MESSAGE" and frame["subscription"] == "/temp-queue/admin":
                return frame.body
            assert frame.command == "MESSAGE", frame
            self.early.append(frame)
