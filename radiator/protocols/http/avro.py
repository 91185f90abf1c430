"""Messages as `avro/binary`: an array of the record `radiator.v1.Message` of docs/HTTP.md.

That schema never changes, so this code reads and writes it directly, and needs no library.
"""

from collections.abc import Iterator, Mapping, Sequence

from radiator.model.avro_reader import AvroReader, Wrong
from radiator.model.limits import HTTP_BATCH_MESSAGES
from radiator.protocols.http.head import BadRequest

AVRO = b"avro/binary"

Envelope = tuple[str, dict[str, str], bytes]
"""Destination, headers and body of a message."""


def encode(messages: Sequence[tuple[str, Mapping[str, str], bytes]]) -> bytes:
    """Returns an array of these messages."""
    parts: list[bytes] = []
    if messages:
        parts.append(_long(len(messages)))
    for destination, headers, body in messages:
        parts += _sized(destination.encode())
        if headers:
            parts.append(_long(len(headers)))
            for name, value in headers.items():
                parts += _sized(name.encode())
                parts += _sized(value.encode())
        parts += (b"\0", *_sized(body))
    parts.append(b"\0")
    return b"".join(parts)


def decode(data: bytes, max_headers: int) -> list[Envelope]:
    """Returns all messages of an array. Raises BadRequest if `data` is no such array, if the array is empty or has more
    than HTTP_BATCH_MESSAGES messages, if a message has more than max_headers headers, or if bytes follow the array.
    """
    reader = AvroReader(data)
    found: list[Envelope] = []
    try:
        for count in reader.blocks("an array of messages"):
            if len(found) + count > HTTP_BATCH_MESSAGES:
                raise Wrong(f"has more than {HTTP_BATCH_MESSAGES} messages; send several requests")
            for _ in range(count):
                try:
                    found.append(_message(reader, max_headers))
                except Wrong as wrong:
                    wrong.place.append(f"[{len(found)}]")
                    raise
        if not found:
            raise Wrong("has no messages; it must have at least one")
        if reader.at < len(data):
            raise Wrong(f"goes on after its end, at byte {reader.at}; it must end there")
    except Wrong as wrong:
        raise BadRequest(400, f"A body of avro/binary is an array of messages: {wrong.clause('messages')}.") from None
    return found


def _message(reader: AvroReader, max_headers: int) -> Envelope:
    with _At("destination"):
        destination = _text(reader)
    headers: dict[str, str] = {}
    with _At("headers"):
        for name, value in _headers(reader, max_headers):
            if name in headers:
                raise Wrong("has one name twice; it must be a map")
            headers[name] = value
    with _At("body"):
        return destination, headers, _bytes(reader, "bytes")


def _headers(reader: AvroReader, max_headers: int) -> Iterator[tuple[str, str]]:
    left = max_headers
    for count in reader.blocks("a map of texts"):
        left -= count
        if left < 0:
            raise Wrong(f"has more than {max_headers} entries, which is max_headers")
        for _ in range(count):
            yield _text(reader), _text(reader)


def _text(reader: AvroReader) -> str:
    try:
        return _bytes(reader, "a string").decode()
    except UnicodeDecodeError:
        raise Wrong("is not valid UTF-8; it must be a string") from None


def _bytes(reader: AvroReader, a: str) -> bytes:
    at = reader.take(reader.long(a), a)
    return reader.data[at : reader.at]


class _At:
    """Names the field that is wrong, in the sentence of the refusal."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Wrong):
            error.place.append(f".{self.name}")


def _sized(value: bytes) -> tuple[bytes, bytes]:
    return _long(len(value)), value


def _long(value: int) -> bytes:
    """Encodes a number that is not negative."""
    left, found = value << 1, bytearray()
    while left > 127:
        found.append(left & 127 | 128)
        left >>= 7
    found.append(left)
    return bytes(found)
