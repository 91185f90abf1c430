"""As much AMQP 0-9-1 as the loads take: frames that are made beforehand, and queues that are declared and deleted."""

import socket
import struct

from radiator.tools.cli.load import LoadFailed

Method = tuple[int, int]  # the numbers of its class and of itself

FRAME_MAX_BYTES = 131_072
FRAME_ROUND_BYTES = 8  # what a frame has around its payload: seven before, one behind
FRAME_END = b"\xce"
START_OK, TUNE_OK, OPEN, CLOSE, CLOSE_OK = (10, 11), (10, 31), (10, 40), (10, 50), (10, 51)
CHANNEL_OPEN, CHANNEL_OPEN_OK, CHANNEL_CLOSE = (20, 10), (20, 11), (20, 40)
QUEUE_DECLARE, QUEUE_DECLARE_OK, QUEUE_DELETE, QUEUE_DELETE_OK = (50, 10), (50, 11), (50, 40), (50, 41)
_ANSWER_MAX_S = 60.0


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + FRAME_END


def method_frame(channel: int, method: Method, arguments: bytes = b"") -> bytes:
    return frame(1, channel, struct.pack(">HH", *method) + arguments)


def short(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def long(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


NO_TABLE = long(b"")

HELLO = b"".join(
    [
        b"AMQP\0\0\x09\x01",
        method_frame(0, START_OK, NO_TABLE + short(b"PLAIN") + long(b"\0guest\0guest") + short(b"en_US")),
        method_frame(0, TUNE_OK, struct.pack(">HIH", 2047, FRAME_MAX_BYTES, 0)),  # no heart-beats
        method_frame(0, OPEN, short(b"/") + short(b"") + b"\0"),
        method_frame(1, CHANNEL_OPEN, short(b"")),
    ]
)
"""All that a client says until channel 1 is open, without waiting for an answer: it is known what they will be."""
CHANNEL_IS_OPEN = method_frame(1, CHANNEL_OPEN_OK, long(b""))


def declare_queue(port: int, name: str, is_durable: bool) -> None:
    arguments = b"\0\0" + short(name.encode()) + bytes([0b10 if is_durable else 0]) + NO_TABLE
    _ask(port, QUEUE_DECLARE, arguments, QUEUE_DECLARE_OK)


def delete_queue(port: int, name: str) -> None:
    """Deletes it with what is in it; a queue that does not exist is as good."""
    _ask(port, QUEUE_DELETE, b"\0\0" + short(name.encode()) + b"\0", QUEUE_DELETE_OK)


def _ask(port: int, method: Method, arguments: bytes, answer: Method) -> None:
    """On a connection of its own. Raises LoadFailed where it is refused."""
    with socket.create_connection(("127.0.0.1", port), _ANSWER_MAX_S) as connection:
        connection.sendall(HELLO + method_frame(1, method, arguments))
        _await(connection, answer)
        connection.sendall(method_frame(0, CLOSE, struct.pack(">H", 200) + short(b"") + b"\0\0\0\0"))
        _await(connection, CLOSE_OK)


def _await(connection: socket.socket, wanted: Method) -> None:
    """Passes over what comes before it."""
    found = None
    while found != wanted:
        _, _, size = struct.unpack(">BHI", _exactly(connection, 7))
        payload = _exactly(connection, size + 1)[:-1]
        found = struct.unpack_from(">HH", payload)
        if found in (CLOSE, CHANNEL_CLOSE):
            raise LoadFailed(f"The broker refused what the load needs: {payload[4:]!r}.")


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise LoadFailed("The broker hung up on AMQP.")
        data += more
    return data
