"""The body of an HTTP/1.1 request (RFC 9112, sections 6 and 7), of a known length or in chunks.

Its size is compared with the bound before anything of it is kept. Chunk extensions and trailers are refused: nobody
needs them, and two readers may understand them differently.
"""

from radiator.model.errors import shown
from radiator.model.limits import NUMBER_DIGITS_MAX
from radiator.protocols.http.head import BadRequest, RequestHead

_LINE_END = b"\r\n"
_HEX = frozenset(b"0123456789abcdefABCDEF")
_SIZE_LINE_BYTES = 8 + len(_LINE_END)

_SIZE, _DATA, _DATA_END, _LAST_END = range(4)  # what is expected next in a body that comes in chunks


class Body:
    """Collects one body. most: the most bytes that it may have.

    is_whole: all of it has arrived. size: its bytes, if the head gives them; else those of the chunks that have begun.
    taken_bytes: the bytes read for it, with the sizes and line ends of chunks.
    """

    __slots__ = ("_at", "_held", "_left", "_most", "is_chunked", "is_whole", "size", "taken_bytes")

    def __init__(self, head: RequestHead, most: int) -> None:
        """Raises BadRequest if the head gives no valid length, or one beyond `most`."""
        self._most = most
        self._at = _SIZE
        self._held: bytes | bytearray = b""
        self.taken_bytes = 0
        self.is_chunked = b"transfer-encoding" in head.headers
        given = head.headers.get(b"content-length")
        if given is not None and not (given.isdigit() and len(given) <= NUMBER_DIGITS_MAX):
            raise BadRequest(400, f"Content-Length is {shown(given)}; it must be a whole number of bytes.")
        if self.is_chunked and given is not None:
            raise BadRequest(400, "The request has both Content-Length and Transfer-Encoding.")
        encoding = head.headers.get(b"content-encoding", b"identity")
        if encoding.lower() != b"identity":
            raise BadRequest(415, f"Content-Encoding is {shown(encoding)}; a body must not be compressed.")
        self.size = 0 if given is None else int(given)
        self._left = self.size
        self.is_whole = not self.is_chunked and self.size == 0
        if self.size > most:
            raise self._too_large()

    def take(self, data: bytes) -> bytes:
        """Takes the bytes at the beginning of `data` that belong to the body, and returns the rest. Raises
        BadRequest.
        """
        if self.is_whole:
            return data
        if self.is_chunked:
            rest = self._take_chunks(data)
        else:
            rest = data[self._left :]
            self._keep(data if not rest else data[: self._left])
            self.is_whole = self._left == 0
        self.taken_bytes += len(data) - len(rest)
        return rest

    def whole(self) -> bytes:
        """Returns the body, once it is whole."""
        return bytes(self._held)

    def _keep(self, piece: bytes) -> None:
        # in one buffer: a bytes object for each piece would take some 40 bytes more, which no bound counts
        if not self._held:
            self._held = piece
        else:
            if isinstance(self._held, bytes):
                self._held = bytearray(self._held)
            self._held += piece
        self._left -= len(piece)

    def _take_chunks(self, data: bytes) -> bytes:
        at = 0  # `data` is cut once, at the end: otherwise each of very many small chunks would copy the rest of it
        while not self.is_whole:
            if self._at == _DATA:
                if at == len(data):
                    break
                piece = data[at : at + self._left]
                self._keep(piece)
                at += len(piece)
                if not self._left:
                    self._at = _DATA_END
            elif self._at == _SIZE:
                end = data.find(_LINE_END, at, at + _SIZE_LINE_BYTES)
                if end < 0:
                    if len(data) - at >= _SIZE_LINE_BYTES:
                        raise _no_size(data[at : at + _SIZE_LINE_BYTES])
                    break
                self._begin_chunk(data[at:end])
                at = end + len(_LINE_END)
            else:
                if len(data) - at < len(_LINE_END):
                    break
                if not data.startswith(_LINE_END, at):
                    what = "A chunk" if self._at == _DATA_END else "The last chunk"
                    followed = shown(data[at : at + 16])
                    raise BadRequest(400, f"{what} is followed by {followed}; a line end must follow.")
                at += len(_LINE_END)
                self.is_whole = self._at == _LAST_END
                self._at = _SIZE
        return data[at:]

    def _begin_chunk(self, digits: bytes) -> None:
        if not digits or not _HEX.issuperset(digits):
            raise _no_size(digits)
        self._left = int(digits, 16)
        if self.size + self._left > self._most:
            raise self._too_large()
        self.size += self._left
        self._at = _DATA if self._left else _LAST_END

    def _too_large(self) -> BadRequest:
        return BadRequest(413, f"The body has more than {self._most} bytes, the most that this resource takes.")


def _no_size(line: bytes) -> BadRequest:
    right = "1 to 8 hexadecimal digits, and nothing after them"
    return BadRequest(400, f"{shown(line)} is not the size of a chunk: {right}.")
