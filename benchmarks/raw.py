"""A raw socket that speaks STOMP 1.2 and looks at next to nothing: the least that a client in Python can do."""

import socket

from radiator.tools.cli.load import LoadFailed

READ_BYTES = 64 * 1024
ANSWER_MAX_S = 120.0


def connected(port: int) -> socket.socket:
    """It is CONNECTED, without heart-beats."""
    one = socket.create_connection(("127.0.0.1", port), ANSWER_MAX_S)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    one.sendall(b"CONNECT\naccept-version:1.2\nhost:h\nheart-beat:0,0\n\n\0")
    await_answers(one, b"\0", 1)
    return one


def await_answers(one: socket.socket, answer: bytes, count: int) -> bytes:
    """All that comes until this has come so many times. Raises LoadFailed where the broker closes, or refuses."""
    heard = bytearray()
    while heard.count(answer) < count:
        data = one.recv(READ_BYTES)
        heard += data
        if not data or b"ERROR\n" in data:
            raise LoadFailed(f"The broker refused: {bytes(heard[-300:])!r}.")
    return bytes(heard)
