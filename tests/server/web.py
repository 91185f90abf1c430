"""A real broker with `http://` and `https://`, users, and clients of it at plain sockets."""

import re
import socket
import ssl
import time
from base64 import b64encode
from collections.abc import Iterable
from typing import Self

from radiator.auth.scrypt import Cost, made
from radiator.auth.tokens import sha256_of, text_of
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER
from tests.protocols.http.asking import Answer, answers, request
from tests.tls_broker import TlsBroker

SECRET = "cor:rect horse"
TOKEN = text_of(bytes(32))
LISTEN = SERVER.replace('"stomp://127.0.0.1:0"', '"stomp://127.0.0.1:0", "stomps://127.0.0.1:0", "http://127.0.0.1:0"')
OPEN = (
    SERVER.replace('"stomp://127.0.0.1:0"', '"stomp://127.0.0.1:0", "http://127.0.0.1:0"') + EVERYTHING_MAY_BE_CREATED
)
HASH = made(SECRET.encode(), bytes(16), Cost(ln=10))
USERS = (
    LISTEN.replace('"http://127.0.0.1:0"', '"http://127.0.0.1:0", "https://127.0.0.1:0"')
    + '[tls]\ncertificate = "server.pem"\nkey = "server.key"\n'
    + EVERYTHING_MAY_BE_CREATED
    + f'[user.ann]\npassword = "{HASH}"\nrole = "operator"\n'
    + f'[user.bob]\npassword = "{HASH}"\nwrite = ["/queue/of-bob"]\nread = ["/queue/of-bob"]\n'
    + f'[user.ci]\ntokens = [{{ sha256 = "{sha256_of(TOKEN.encode())}" }}]\nwrite = ["/queue/of-ci"]\n'
    + f'[user.anyone]\npassword = "{HASH}"\nrole = "operator"\n'
)
WAIT_S = 10.0


def basic(name: str, secret: str = SECRET) -> str:
    return "Basic " + b64encode(f"{name}:{secret}".encode()).decode()


def port_of(log: str, scheme: str) -> int:
    found = re.findall(rf"listening address=\"?{scheme}://127.0.0.1:(\d+)", log)
    assert found, log
    return int(found[-1])


class WebBroker(TlsBroker):
    """With USERS, or another config_text that has the listeners of it."""

    def __init__(self, directory, config_text: str = USERS) -> None:  # type: ignore[no-untyped-def]
        super().__init__(directory, config_text)

    def start(self) -> Self:
        super().start()
        self.wait_for_log("listening address=https://")
        return self

    def client(self, is_encrypted: bool = False) -> "WebClient":
        made = WebClient(port_of(self.log, "https" if is_encrypted else "http"))
        if is_encrypted:
            context = ssl.create_default_context(cafile=self.ca_file)
            made.socket = context.wrap_socket(made.socket, server_hostname="localhost")
        return made


class WebClient:
    """One connection. Responses are read by their Content-Length; what has come of the next one is kept."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), WAIT_S)
        self._read = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str | None) -> Answer:
        self.send(request(method, path, body, **headers))
        return self.answer()

    def answer(self) -> Answer:
        """The next one. ConnectionAbortedError where the broker has closed instead."""
        while True:
            head, end, rest = self._read.partition(b"\r\n\r\n")
            if end:
                length = re.search(rb"\r\nContent-Length: (\d+)", head)
                size = len(head) + 4 + (int(length[1]) if length else 0)
                if len(self._read) >= size:
                    (found,) = answers(self._read[:size])
                    self._read = self._read[size:]
                    return found
            data = self.socket.recv(1 << 16)
            if not data:
                raise ConnectionAbortedError(f"closed behind {self._read!r}")
            self._read += data

    def rest(self) -> bytes:
        """All that comes until the broker closes."""
        found, self._read = self._read, b""
        while data := self.socket.recv(1 << 16):
            found += data
        return found

    def send_slowly(self, pieces: Iterable[bytes], pause_s: float) -> float:
        """Until the broker closes: how many seconds that took."""
        began_s = time.monotonic()
        self.socket.settimeout(pause_s)
        for piece in pieces:
            try:
                self.socket.sendall(piece)
                if not self.socket.recv(1 << 16):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        self.socket.settimeout(WAIT_S)
        return time.monotonic() - began_s
