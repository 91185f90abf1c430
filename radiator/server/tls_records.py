"""The records of TLS that one end gets (RFC 8446, section 5.1): cut apart by their headers, which are not encrypted.

OpenSSL does not say that it has handled a record without data, such as one that changes the keys, which takes 10 to 20
us, and has no bound on them.
"""

from collections.abc import Iterator

from radiator.model.limits import TLS_EMPTY_RECORDS, TLS_EMPTY_S, TLS_SLICE_BYTES

_HEADER_BYTES = 5  # the kind, a version, and two bytes for the length of what follows


class TlsRecords:
    """The records of one connection, from its first byte on."""

    __slots__ = ("_empty", "_head", "_left", "_since_s")

    def __init__(self) -> None:
        self._head = b""  # the beginning of a header that has not arrived whole
        self._left = 0  # how much of the last record is still to come
        self._empty = 0
        self._since_s = 0.0

    def cut(self, data: bytes) -> Iterator[tuple[bytes, int]]:
        """Yields the next bytes in portions of at most TLS_SLICE_BYTES and TLS_EMPTY_RECORDS ends of records; with each
        the number of records that end in it.
        """
        begin = whole = at = ended = 0  # whole: the end of the last record that is in this portion as a whole
        left, size = self._left, len(data)
        while at < size:
            if not left:
                if self._head or size - at < _HEADER_BYTES:
                    head = self._head + data[at : at + _HEADER_BYTES - len(self._head)]
                    at += len(head) - len(self._head)
                    self._head = head
                    if len(head) < _HEADER_BYTES:
                        break
                    self._head = b""
                    left = head[3] << 8 | head[4]
                else:
                    left = data[at + 3] << 8 | data[at + 4]
                    at += _HEADER_BYTES
            end = at + left
            if end <= size and (end - begin <= TLS_SLICE_BYTES or not left):
                left, at, whole = 0, end, end
                ended += 1
                if ended == TLS_EMPTY_RECORDS:
                    yield data[begin:at], ended
                    begin, ended = at, 0
            elif begin < whole:
                yield data[begin:whole], ended  # without a part of the next: OpenSSL would ask for the rest, for 1 us
                begin, ended = whole, 0
            else:
                end = max(at, min(begin + TLS_SLICE_BYTES, size))
                left -= end - at
                at = end
                if at - begin >= TLS_SLICE_BYTES:
                    yield data[begin:at], 0
                    begin = whole = at
        self._left = left
        if begin < size:
            yield data[begin:], ended

    def are_too_many(self, empty: int, now_s: float) -> bool:
        """Notes that so many records without data have come. Returns whether more than TLS_EMPTY_RECORDS of them came
        within TLS_EMPTY_S.
        """
        if now_s >= self._since_s + TLS_EMPTY_S:
            self._empty, self._since_s = 0, now_s
        self._empty += empty
        return self._empty > TLS_EMPTY_RECORDS
