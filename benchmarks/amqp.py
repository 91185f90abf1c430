"""As much AMQP 0-9-1 as it takes to delete a queue: what RabbitMQ's STOMP has no frame for."""

import socket
import struct

_ANSWER_MAX_S = 60.0
_START_OK, _TUNE, _TUNE_OK, _OPEN = (10, 11), (10, 30), (10, 31), (10, 40)
_CHANNEL_OPEN, _QUEUE_DELETE, _CLOSE = (20, 10), (50, 40), (10, 50)


def delete_queue(port: int, name: str) -> None:
    """Deletes it with what is in it; a queue that does not exist is as good."""
    with socket.create_connection(("127.0.0.1", port), _ANSWER_MAX_S) as connection:
        connection.sendall(b"AMQP\0\0\x09\x01")
        _answer(connection)  # Connection.Start
        _say(connection, 0, _START_OK, _table() + _short(b"PLAIN") + _long(b"\0guest\0guest") + _short(b"en_US"))
        tune = _answer(connection)
        _say(connection, 0, _TUNE_OK, tune[4:10] + b"\0\0")  # its bounds, no heart-beats
        _say(connection, 0, _OPEN, _short(b"/") + _short(b"") + b"\0")
        _answer(connection)
        _say(connection, 1, _CHANNEL_OPEN, _short(b""))
        _answer(connection)
        _say(connection, 1, _QUEUE_DELETE, b"\0\0" + _short(name.encode()) + b"\0")
        _answer(connection)
        _say(connection, 0, _CLOSE, struct.pack(">H", 200) + _short(b"") + b"\0\0\0\0")
        _answer(connection)


def _say(connection: socket.socket, channel: int, method: tuple[int, int], arguments: bytes) -> None:
    payload = struct.pack(">HH", *method) + arguments
    connection.sendall(struct.pack(">BHI", 1, channel, len(payload)) + payload + b"\xce")


def _answer(connection: socket.socket) -> bytes:
    """The payload of the next frame."""
    _, _, size = struct.unpack(">BHI", _exactly(connection, 7))
    return _exactly(connection, size + 1)[:-1]


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("RabbitMQ hung up on AMQP.")
        data += more
    return data


def _short(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def _long(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def _table() -> bytes:
    return _long(b"")
