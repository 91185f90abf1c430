"""A message and its identity: the words that every floor shares.

Its headers are one block of bytes, just as the sender wrote them; `escaping` says how names and values are escaped.
Their codec (headers.py) reads one where it is needed, and no sooner: most messages pass through unread.

A position is one whole number, boot << 64 | sequence: it orders the messages of a queue, and with the store's id it is
the message id. Boot and sequence never repeat within a store.
"""

from dataclasses import dataclass

from radiator.model.headers import Field, node_path

SEQUENCE_BITS = 64
TOPIC_MARK = b"t"  # behind the id of a message that was published to a topic: it is in no queue, and never unacked


@dataclass(slots=True)
class Message:
    """What a sender said, as it is stored and delivered. Never changed after construction: copies share it.

    destination: the full address that was sent to (`/queue/foo`, `/fanout/events`, ...), as text.
    headers: the sender's header block as bytes, without those that belong to the hop.
    escaping: how that is escaped, by its numbers in headers.py.
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

    def field(self, field: Field) -> bytes | None:
        """The value of that header, unescaped; None if the message does not have it."""
        return field.value(self.headers, self.escaping)

    @property
    def node_path(self) -> list[str]:
        """The nodes that it has been on, as brokers wrote them."""
        return node_path(self.headers)


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


def is_topic_id(message_id: bytes) -> bool:
    """Whether a broker, this one or another node, gave that id to a topic's message."""
    return message_id.endswith(TOPIC_MARK) and message_id.count(b"-") == 2


def is_id_of(message_id: bytes, store_id: str) -> bool:
    """Whether it is an id of that store."""
    return message_id.startswith(store_id.encode() + b"-")


def position_in(message_id: bytes) -> int:
    """The position in an id that `message_id` made."""
    _, boot, sequence = message_id.rsplit(b"-", 2)
    return position_of(int(boot), int(sequence))


def expires_by(expires_ms: int, ttl_ms: int, now_ms: int) -> int:
    """The earlier of `expires_ms` (0: none) and `ttl_ms` from now, in milliseconds since the epoch."""
    by_ttl = now_ms + ttl_ms
    return min(expires_ms, by_ttl) if expires_ms else by_ttl
