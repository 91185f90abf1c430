"""A peer of the client that plays a script, for what a broker should not do, or does seldom."""

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

CONNECTED = b"CONNECTED\nversion:1.2\nheart-beat:0,0\n\n\0"
MESSAGE = b"MESSAGE\ndestination:/queue/a\nmessage-id:1\nsubscription:s1\nack:1\ncontent-length:3\n\na\0b\0"

Script = Callable[[socket.socket], None]


class Peer:
    """Listens, and plays a script on the first connection; `join` raises what the script has raised."""

    def __init__(self, script: Script) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._script = script
        self.address = f"stomp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._executor = ThreadPoolExecutor(1)
        self._played = self._executor.submit(self._play)

    def _play(self) -> None:
        self._listener.settimeout(10)
        connection, _ = self._listener.accept()
        with connection:
            connection.settimeout(10)
            self._script(connection)

    def join(self) -> None:
        self._played.result(15)
        self._executor.shutdown()
        self._listener.close()


def read_frame(connection: socket.socket) -> bytes:
    frame = b""
    while not frame.endswith(b"\0"):
        data = connection.recv(65536)
        assert data, f"the client has closed the connection after {frame!r}"
        frame += data
    return frame


def read_until_closed(connection: socket.socket) -> bytes:
    seen = b""
    while data := connection.recv(65536):
        seen += data
    return seen


def greet(connection: socket.socket, answer: bytes = CONNECTED) -> None:
    assert read_frame(connection).startswith(b"CONNECT\n")
    connection.sendall(answer)


def receipt_of(frame: bytes) -> bytes:
    return b"RECEIPT\nreceipt-id:%b\n\n\0" % frame.partition(b"receipt:")[2].partition(b"\n")[0]
