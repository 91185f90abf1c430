"""A message and its identity: the words that every floor shares.

A header block is bytes, one `name:value\\n` line each, just as the sender wrote them; `escaping` says by which STOMP
version's rules. It is decoded only where a rule needs it and never re-encoded unless the receiver's version differs.

A position is one whole number, boot << 64 | sequence: it orders the messages of a queue, and with the store's id it is
the message id. Boot and sequence never repeat within a store.
"""

from dataclasses import dataclass

SEQUENCE_BITS = 64

# How a header block is escaped: the number of the STOMP minor version whose rules its sender used.
ESCAPING_1_0 = 0  # nothing is escaped
ESCAPING_1_1 = 1  # \\ \n \c
ESCAPING_1_2 = 2  # \\ \n \c \r


@dataclass(slots=True)
class Message:
    """What a sender said, as it is stored and delivered. Never changed after construction: copies share it.

    destination: the full address that was sent to (`/queue/foo`, `/fanout/events`, ...), as text.
    headers: the sender's header block as bytes, without those that belong to the hop.
    escaping: ESCAPING_1_0, ESCAPING_1_1 or ESCAPING_1_2: how `headers` is written.
    accepted_ms, expires_ms: milliseconds since the epoch; expires_ms 0 means never.
    """

    destination: str
    headers: bytes
    escaping: int
    body: bytes
    accepted_ms: int
    expires_ms: int = 0

    @property
    def size(self) -> int:
        """Bytes of header block and body: what bounds and ledgers count."""
        return len(self.headers) + len(self.body)


def position_of(boot: int, sequence: int) -> int:
    """The position of the `sequence`-th message accepted in the `boot`-th run of its store."""
    return boot << SEQUENCE_BITS | sequence


def split_position(position: int) -> tuple[int, int]:
    """Boot and sequence."""
    return position >> SEQUENCE_BITS, position & (1 << SEQUENCE_BITS) - 1


def message_id(store_id: str, position: int) -> bytes:
    """The id on the wire: `STORE-BOOT-SEQUENCE`, unique across queues, restarts, restored backups and nodes."""
    boot, sequence = split_position(position)
    return b"%b-%d-%d" % (store_id.encode(), boot, sequence)


_ESCAPES_1_1 = ((b"\\", b"\\\\"), (b"\n", b"\\n"), (b":", b"\\c"))
_ESCAPES = {ESCAPING_1_0: (), ESCAPING_1_1: _ESCAPES_1_1, ESCAPING_1_2: (*_ESCAPES_1_1, (b"\r", b"\\r"))}


def escape(value: bytes, escaping: int) -> bytes:
    """`value` as it stands in a header of that version (STOMP 1.2, "Value Encoding"). 1.0 cannot express a line feed:
    the caller leaves such a header out."""
    for plain, escaped in _ESCAPES[escaping]:
        value = value.replace(plain, escaped)
    return value


def unescape(value: bytes, escaping: int) -> bytes:
    """What `escape` undoes; an undefined escape stays as it is (a session has refused it before)."""
    if b"\\" not in value or escaping == ESCAPING_1_0:
        return value
    plain = {escaped[1:]: raw for raw, escaped in _ESCAPES[escaping]}
    first, *parts = value.split(b"\\")
    unescaped, skip = first, False
    for index, part in enumerate(parts):
        if skip:
            unescaped, skip = unescaped + part, False
        elif part == b"" and index + 1 < len(parts):
            unescaped, skip = unescaped + b"\\", True
        else:
            unescaped += plain.get(part[:1], b"\\" + part[:1]) + part[1:]
    return unescaped


def header_line(name: bytes, value: bytes, escaping: int) -> bytes:
    """One line of a header block, for a header that the broker adds to a stored block."""
    return b"%b:%b\n" % (name, escape(value, escaping))


def without_headers(block: bytes, names: frozenset[bytes]) -> bytes:
    """The block without the lines of those names. The names must have no character that any version escapes."""
    lines = block.split(b"\n")[:-1]
    kept = [line for line in lines if line.partition(b":")[0] not in names]
    return block if len(kept) == len(lines) else b"".join([line + b"\n" for line in kept])
