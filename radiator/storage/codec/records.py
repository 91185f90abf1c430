"""The bytes on the disk: keys, and the values of every table. docs/FORMAT.md draws them. Pure: no disk access here.

Every value is `version u8 | content | CRC-32 u32`; the CRC covers the key, the version and the content, so a value
under a wrong key is found too. Whole numbers are big-endian, so that keys sort as numbers do.

Changing anything here: give it a new version, keep reading the old one, and add a fixture (docs/FORMAT.md).
"""

import struct
from hashlib import sha256
from zlib import crc32

from radiator.model.errors import DamagedRecord
from radiator.model.headers import ESCAPING_ALL
from radiator.model.message import Message
from radiator.model.writes import KeepPeer, KeepPosition, KeepSegment, Ledger, PeerStore

FORMAT = 6
"""Number of the whole layout: tables, keys, records. A store with a larger one is refused."""

FORMATS_READ = range(1, FORMAT + 1)
"""A start converts an older one to the present one. tables.py lists the tables that each has added."""

RECORD_VERSION = 1
"""Version of the values below, except the ledger's; all tables count together."""

LEDGER_VERSION = 2
"""Version 1 had nothing about delayed messages: it is read, and no longer written."""

PEER_VERSION = 2  # of a peer that had other stores before
EVENTS_VERSION = 3  # the last of a block of events: each one above 1 has one more column

QUEUE_KEY_BYTES = 4
MESSAGE_KEY_BYTES = 16
DELAYED_KEY_BYTES = 24
RECORD_KEY_BYTES = 14
OFFSET_BYTES = 8
OFFSET_END = 2**64 - 1  # after all offsets

POSITION_BYTES = 12
_DUE_BYTES = 8
_BINDING_BYTES = 16
CRC_BYTES = 4
ESCAPING_MASK = 0b11
_VERSION = bytes([RECORD_VERSION])

_MESSAGE_HEAD = struct.Struct(">BBHIQQ")  # version, flags, length of destination, of header block, accepted, expires
_COUNT = struct.Struct(">BBI")  # version, flags, redeliveries
_COUNT_REDELIVERED = 0b1
_LEDGER = struct.Struct(">B17Q")  # version, the fields of Ledger in their order
_LEDGER_1 = struct.Struct(">B15Q")  # without the last two
_NUMBER = struct.Struct(">BQ")  # version, the number
_PLACE = struct.Struct(">BQIQQ")  # version, index, checksum
_PEER = struct.Struct(">B5Q")  # version, the numbers of KeepPeer in their order; the store's id follows
_PEER_STORE = struct.Struct(">4QB")  # the numbers of PeerStore in their order, the length of its id; that follows
_DOUBT = struct.Struct(">BI12s")  # version, queue, position
_RECORD_KEY = struct.Struct(">IHQ")  # log, partition, offset
_SEGMENT = struct.Struct(">B5Q")  # version, the fields of KeepSegment after `first` in their order
_POSITION = struct.Struct(">BH")  # version, number of partitions; their offsets follow
_SEQUENCE_BYTES = 8


# ---- keys ---------------------------------------------------------------------------------------------------------


def queue_key(queue: int) -> bytes:
    """Returns the key of a queue's own rows, and the prefix of its messages' keys."""
    return queue.to_bytes(QUEUE_KEY_BYTES, "big")


def message_key(queue: int, position: int) -> bytes:
    """Returns the key of a message and of its redelivery count: sorts by queue, then boot, then sequence."""
    return queue.to_bytes(QUEUE_KEY_BYTES, "big") + position.to_bytes(POSITION_BYTES, "big")


def queue_of(key: bytes) -> int:
    """Returns the queue's number in a key."""
    return int.from_bytes(key[:QUEUE_KEY_BYTES], "big")


def position_in(key: bytes) -> int:
    """Returns the position in a message's key; a misplaced page may have longer keys."""
    return int.from_bytes(key[QUEUE_KEY_BYTES:MESSAGE_KEY_BYTES], "big")


def behind(prefix: bytes) -> bytes:
    """Returns the least key after all those with this prefix. Numbers of queues and transactions never reach the last
    prefix, after which there is none.
    """
    return (int.from_bytes(prefix, "big") + 1).to_bytes(len(prefix), "big")


def delayed_key(queue: int, due_ms: int, position: int = 0) -> bytes:
    """Returns the key of a delayed message: sorts by queue, then time, then position."""
    return queue_key(queue) + due_ms.to_bytes(_DUE_BYTES, "big") + position.to_bytes(POSITION_BYTES, "big")


def split_delayed_key(key: bytes) -> tuple[int, int]:
    """due_ms and position; a misplaced page may have longer keys."""
    at = QUEUE_KEY_BYTES + _DUE_BYTES
    return int.from_bytes(key[QUEUE_KEY_BYTES:at], "big"), int.from_bytes(key[at:DELAYED_KEY_BYTES], "big")


def place_of_delayed(key: bytes) -> bytes:
    """Returns the message's key when it is at its place."""
    return key[:QUEUE_KEY_BYTES] + key[QUEUE_KEY_BYTES + _DUE_BYTES :]


def settings_key(queue: int) -> bytes:
    """Returns the key of a queue's settings. It differs from that of its name, also a text: one must not be taken for
    the other.
    """
    return queue_key(queue) + b"\0"


def binding_key(queue: int, exchange: str, key: str) -> bytes:
    """Returns the key of a binding: all of a queue are adjacent. Names and keys together are longer than LMDB's keys
    may be.
    """
    return queue_key(queue) + sha256(f"{exchange}\0{key}".encode()).digest()[:_BINDING_BYTES]


def declared_key(kind: str, name: str) -> bytes:
    """Returns the key of what was declared at run time: sorts by kind, then name."""
    return f"{kind}\0{name}".encode()


def split_declared_key(key: bytes) -> tuple[str, str]:
    """Kind and name. Raises DamagedRecord for any other key."""
    kind, nul, name = key.partition(b"\0")
    if not nul:
        raise DamagedRecord(f"The declaration under key {key.hex()} is damaged: no kind and name are in its key.")
    return _name_in(kind, key, "declaration"), _name_in(name, key, "declaration")


def log_key(log: int) -> bytes:
    """Returns the key of a log's name: it differs from that of a queue's name or settings, which are texts too."""
    return queue_key(log) + b"\1"


def record_key(log: int, partition: int, offset: int) -> bytes:
    """Returns the key of a block of records by its first offset, and of a segment: sorts by log, then partition, then
    offset.
    """
    return _RECORD_KEY.pack(log, partition, offset)


def split_record_key(key: bytes) -> tuple[int, int, int]:
    """Log, partition and offset. Raises DamagedRecord for any other key."""
    if len(key) != RECORD_KEY_BYTES:
        raise DamagedRecord(f"The row under key {key.hex()} is damaged: its key has {len(key)} bytes, not 14.")
    log, partition, offset = _RECORD_KEY.unpack(key)
    return log, partition, offset


def partition_key(log: int, partition: int) -> bytes:
    """Returns the prefix of the keys of a partition's blocks and segments."""
    return record_key(log, partition, 0)[:-OFFSET_BYTES]


def group_key(log: int, group: str) -> bytes:
    """Returns the key of a group's position: at most 4 + 255 bytes; LMDB holds 511."""
    return queue_key(log) + group.encode()


def dedup_key(queue: int, dedup_id: bytes) -> bytes:
    """Returns the key of a remembered dedup-id: at most 4 + 255 bytes; LMDB holds 511."""
    return queue_key(queue) + dedup_id


def dedup_time_key(until_ms: int, dedup: bytes) -> bytes:
    """Returns the key of the same in the order of time; `dedup` is its dedup_key."""
    return until_ms.to_bytes(8, "big") + dedup


def split_dedup_time_key(key: bytes) -> tuple[int, bytes]:
    """until_ms and dedup_key."""
    return int.from_bytes(key[:8], "big"), key[8:]


def peer_key(peer: str) -> bytes:
    """Returns the key of what is known of a linked node: its name."""
    return peer.encode()


def doubt_key(peer: str, sequence: int) -> bytes:
    """Returns the key of a message in doubt: sorts by peer, then sequence."""
    return peer.encode() + b"\0" + sequence.to_bytes(_SEQUENCE_BYTES, "big")


def split_doubt_key(key: bytes) -> tuple[str, int]:
    """Peer and sequence. Raises DamagedRecord for any other key."""
    name, nul = key[: -_SEQUENCE_BYTES - 1], key[-_SEQUENCE_BYTES - 1 : -_SEQUENCE_BYTES]
    if nul != b"\0":
        raise DamagedRecord(f"The doubt under key {key.hex()} is damaged: no name and sequence are in its key.")
    return _name_in(name, key, "doubt"), int.from_bytes(key[-_SEQUENCE_BYTES:], "big")


def _name_in(name: bytes, key: bytes, what: str) -> str:
    """Returns a name in a key: there is no NUL in it."""
    return word_in(b"" if b"\0" in name else name, key, what)


def word_in(word: bytes, key: bytes, what: str) -> str:
    """Returns a name that a client has given, in a key."""
    try:
        if word:
            return word.decode()
    except UnicodeDecodeError:
        pass
    raise DamagedRecord(f"The {what} under key {key.hex()} is damaged: no name is in its key.")


# ---- the seal of every value --------------------------------------------------------------------------------------


def seal(key: bytes, content: bytes) -> bytes:
    """Returns the value of that content, version included, under that key."""
    return content + crc32(content, crc32(key)).to_bytes(CRC_BYTES, "big")


def check(
    key: bytes,
    value: bytes | memoryview,
    least_bytes: int,
    what: str,
    *,
    is_longer: bool = False,
    version: int = RECORD_VERSION,
) -> None:
    """Raises DamagedRecord unless length, checksum and version are what was written.

    The checksum comes before the version: a flipped bit in the version byte is damage, not a newer record. is_longer: a
    text or a body follows. Any other length is of another table, whose keys may be the same: a page in the wrong place
    has right checksums.
    """
    # D11
    size = len(value) - CRC_BYTES
    if size < least_bytes or (size > least_bytes and not is_longer):
        raise DamagedRecord(f"The {what} under key {key.hex()} is damaged: it has {len(value)} bytes.")
    stored = int.from_bytes(value[-CRC_BYTES:], "big")
    actual = crc32(memoryview(value)[:-CRC_BYTES], crc32(key))
    if stored != actual:
        raise DamagedRecord(
            f"The {what} under key {key.hex()} is damaged: its checksum is {stored:08x}, its bytes give {actual:08x}."
        )
    if value[0] != version:
        raise DamagedRecord(
            f"The {what} under key {key.hex()} has version {value[0]}; this program reads version {version}."
        )


# ---- messages -----------------------------------------------------------------------------------------------------


def encode_message(key: bytes, message: Message) -> bytes:
    """Returns the record of a message."""
    destination = message.destination.encode()
    head = _MESSAGE_HEAD.pack(
        RECORD_VERSION,
        message.escaping,
        len(destination),
        len(message.headers),
        message.accepted_ms,
        message.expires_ms,
    )
    content = b"".join((head, destination, message.headers, message.body))
    return content + crc32(content, crc32(key)).to_bytes(CRC_BYTES, "big")


def message_bytes(value: bytes | memoryview) -> tuple[int, bool]:
    """Returns the bytes of header block and body, and whether it expires: from the record's head alone, unchecked."""
    if len(value) < _MESSAGE_HEAD.size + CRC_BYTES:
        return 0, False
    _, _, destination_bytes, _, _, expires_ms = _MESSAGE_HEAD.unpack_from(value)
    return len(value) - _MESSAGE_HEAD.size - destination_bytes - CRC_BYTES, expires_ms != 0


def decode_message(key: bytes, value: bytes) -> Message:
    """Returns the message of a record, every byte checked. Raises DamagedRecord."""
    check(key, value, _MESSAGE_HEAD.size, "message", is_longer=True)
    if len(key) != MESSAGE_KEY_BYTES:
        raise DamagedRecord(f"The message under key {key.hex()} is damaged: its key has {len(key)} bytes, not 16.")
    return _message_in(key, value)


def _message_in(key: bytes, value: bytes) -> Message:
    _, flags, destination_bytes, headers_bytes, accepted_ms, expires_ms = _MESSAGE_HEAD.unpack_from(value)
    headers_at = _MESSAGE_HEAD.size + destination_bytes
    body_at = headers_at + headers_bytes
    escaping = flags & ESCAPING_MASK
    if body_at > len(value) - CRC_BYTES or escaping > ESCAPING_ALL or flags != escaping:
        raise DamagedRecord(f"The message under key {key.hex()} is damaged: its lengths or flags are impossible.")
    return Message(
        destination=value[_MESSAGE_HEAD.size : headers_at].decode(),
        headers=value[headers_at:body_at],
        escaping=escaping,
        body=value[body_at:-CRC_BYTES],
        accepted_ms=accepted_ms,
        expires_ms=expires_ms,
    )


def decode_message_part(key: bytes, value: memoryview, first: int, most: int) -> tuple[Message, int]:
    """Returns the same with at most `most` bytes of its body, from byte `first` on, and how many the whole body has: no
    more is copied, however large it is. Raises DamagedRecord.
    """
    check(key, value, _MESSAGE_HEAD.size, "message", is_longer=True)
    _, _, destination_bytes, headers_bytes, _, _ = _MESSAGE_HEAD.unpack_from(value)
    body_at, end = _MESSAGE_HEAD.size + destination_bytes + headers_bytes, len(value) - CRC_BYTES
    part = value[min(body_at + first, end) : min(body_at + first + most, end)]
    return _message_in(key, b"".join((value[: min(body_at, end)], part, bytes(CRC_BYTES)))), end - body_at


# ---- delayed messages: the redelivery count, then the record of the message ---------------------------------------


def encode_delayed(key: bytes, message: Message, redeliveries: int, redelivered: bool) -> bytes:
    """Returns the record of a delayed message."""
    count = _COUNT.pack(RECORD_VERSION, _COUNT_REDELIVERED if redelivered else 0, redeliveries)
    return seal(key, count + encode_message(key, message)[:-CRC_BYTES])


def delayed_bytes(value: bytes | memoryview) -> tuple[int, bool]:
    """Returns for a delayed message what message_bytes returns."""
    return message_bytes(memoryview(value)[_COUNT.size :])


def decode_delayed(key: bytes, value: bytes) -> tuple[Message, int, bool]:
    """Returns the message of a record, its redelivery count, and whether it is marked redelivered. Raises
    DamagedRecord.
    """
    check(key, value, _COUNT.size + _MESSAGE_HEAD.size, "delayed message", is_longer=True)
    _, flags, redeliveries = _COUNT.unpack_from(value)
    if len(key) != DELAYED_KEY_BYTES or flags & ~_COUNT_REDELIVERED or value[_COUNT.size] != RECORD_VERSION:
        raise DamagedRecord(f"The delayed message under key {key.hex()} is damaged: its key or flags are impossible.")
    return _message_in(key, value[_COUNT.size :]), redeliveries, bool(flags & _COUNT_REDELIVERED)


# ---- redelivery counts --------------------------------------------------------------------------------------------


def encode_count(key: bytes, redeliveries: int, redelivered: bool) -> bytes:
    """Encodes the redelivery count of a message, under the message's key in a table of its own."""
    return seal(key, _COUNT.pack(RECORD_VERSION, _COUNT_REDELIVERED if redelivered else 0, redeliveries))


def decode_count(key: bytes, value: bytes) -> tuple[int, bool]:
    """Returns the redelivery count of the message, and whether it is marked redelivered. Raises DamagedRecord."""
    check(key, value, _COUNT.size, "redelivery count")
    _, flags, redeliveries = _COUNT.unpack_from(value)
    return redeliveries, bool(flags & _COUNT_REDELIVERED)


# ---- queues -------------------------------------------------------------------------------------------------------


def encode_ledger(key: bytes, ledger: Ledger) -> bytes:
    """Encodes a queue's ledger."""
    return seal(
        key,
        _LEDGER.pack(
            LEDGER_VERSION,
            ledger.accepted,
            ledger.accepted_bytes,
            ledger.stored,
            ledger.stored_bytes,
            ledger.acked,
            ledger.acked_bytes,
            ledger.expired,
            ledger.expired_bytes,
            ledger.dropped,
            ledger.dropped_bytes,
            ledger.purged,
            ledger.purged_bytes,
            ledger.dead_lettered,
            ledger.dead_lettered_bytes,
            ledger.stored_expiring,
            ledger.stored_delayed,
            ledger.stored_delayed_bytes,
        ),
    )


def decode_ledger(key: bytes, value: bytes) -> Ledger:
    """Returns a queue's ledger. Raises DamagedRecord; whether it balances is for the caller to check."""
    if len(value) == _LEDGER_1.size + CRC_BYTES:
        check(key, value, _LEDGER_1.size, "ledger")
        return Ledger(*_LEDGER_1.unpack_from(value)[1:])
    check(key, value, _LEDGER.size, "ledger", version=LEDGER_VERSION)
    return Ledger(*_LEDGER.unpack_from(value)[1:])


# ---- bindings -----------------------------------------------------------------------------------------------------


def encode_binding(key: bytes, exchange: str, binding: str) -> bytes:
    """Encodes a binding: the names of exchanges have no NUL."""
    return encode_text(key, f"{exchange}\0{binding}")


def decode_binding(key: bytes, value: bytes) -> tuple[str, str]:
    """Exchange and key of a binding. Raises DamagedRecord."""
    exchange, nul, binding = decode_text(key, value).partition("\0")
    if not nul or key != binding_key(queue_of(key), exchange, binding):
        raise DamagedRecord(f"The binding under key {key.hex()} is damaged: it is another one's.")
    return exchange, binding


# ---- linked nodes -------------------------------------------------------------------------------------------------


def encode_peer(key: bytes, peer: KeepPeer) -> bytes:
    """Encodes what is known of a linked node."""
    version = PEER_VERSION if peer.earlier else RECORD_VERSION
    head = _PEER.pack(version, peer.out_epoch, peer.out_taken, peer.out_offered, peer.in_epoch, peer.in_last)
    parts = [head]
    for store in peer.earlier:
        store_id = store.store_id.encode()
        parts += (
            _PEER_STORE.pack(store.out_taken, store.out_offered, store.in_epoch, store.in_last, len(store_id)),
            store_id,
        )
    if peer.earlier:
        parts.insert(1, bytes([len(peer.earlier)]))
    return seal(key, b"".join(parts) + peer.store_id.encode())


def decode_peer(key: bytes, value: bytes) -> KeepPeer:
    """Returns what is known of a linked node. Raises DamagedRecord."""
    has_earlier = value[:1] == bytes([PEER_VERSION])
    version = PEER_VERSION if has_earlier else RECORD_VERSION
    check(key, value, _PEER.size + has_earlier, "peer", is_longer=True, version=version)
    at = _PEER.size
    earlier: list[PeerStore] = []
    if has_earlier:
        count, at = value[at], at + 1
        for _ in range(count):
            at += _PEER_STORE.size
            numbers = _PEER_STORE.unpack_from(value, at - _PEER_STORE.size) if at <= len(value) else (0,)
            at += numbers[-1]
            if at > len(value) - CRC_BYTES:
                raise DamagedRecord(f"The peer under key {key.hex()} is damaged: it has not {count} earlier stores.")
            earlier.append(PeerStore(value[at - numbers[-1] : at].decode(), *numbers[:-1]))
    store_id = value[at:-CRC_BYTES].decode()
    kept = KeepPeer(_name_in(key, key, "peer"), store_id, *_PEER.unpack_from(value)[1:])
    kept.earlier = tuple(earlier)
    return kept


def encode_doubt(key: bytes, queue: int, position: int) -> bytes:
    """Encodes which message is in doubt."""
    return seal(key, _DOUBT.pack(RECORD_VERSION, queue, position.to_bytes(POSITION_BYTES, "big")))


def decode_doubt(key: bytes, value: bytes) -> tuple[int, int]:
    """Queue and position of the message in doubt. Raises DamagedRecord."""
    check(key, value, _DOUBT.size, "doubt")
    _, queue, position = _DOUBT.unpack_from(value)
    return queue, int.from_bytes(position, "big")


# ---- logs: what is known of them; their records lie in blocks (blocks.py, events.py) -------------------------------


def encode_segment(key: bytes, segment: KeepSegment) -> bytes:
    """Encodes the counters of a segment, under the key of its first record."""
    return seal(
        key,
        _SEGMENT.pack(RECORD_VERSION, segment.begin, segment.count, segment.size, segment.first_ms, segment.last_ms),
    )


def decode_segment(key: bytes, value: bytes) -> KeepSegment:
    """Returns the counters of a segment. Raises DamagedRecord."""
    check(key, value, _SEGMENT.size, "segment")
    return KeepSegment(*split_record_key(key), *_SEGMENT.unpack_from(value)[1:])


def encode_position(key: bytes, offsets: list[int]) -> bytes:
    """Encodes a group's position: an offset for each partition."""
    return seal(key, _POSITION.pack(RECORD_VERSION, len(offsets)) + struct.pack(f">{len(offsets)}Q", *offsets))


def decode_position(key: bytes, value: bytes) -> KeepPosition:
    """Returns a group's position. Raises DamagedRecord."""
    check(key, value, _POSITION.size, "position", is_longer=True)
    _, partitions = _POSITION.unpack_from(value)
    if len(value) != _POSITION.size + partitions * OFFSET_BYTES + CRC_BYTES:
        raise DamagedRecord(f"The position under key {key.hex()} is damaged: it has not {partitions} offsets.")
    offsets = [*struct.unpack_from(f">{partitions}Q", value, _POSITION.size)]
    return KeepPosition(queue_of(key), word_in(key[QUEUE_KEY_BYTES:], key, "position"), offsets)


# ---- texts and numbers: names and settings of queues, what is left of retired ones, dedup-ids, meta ---------------


def encode_text(key: bytes, text: str) -> bytes:
    """Encodes a text: a queue's name, its settings, the store's id."""
    return seal(key, _VERSION + text.encode())


def decode_text(key: bytes, value: bytes) -> str:
    """Returns a text. Raises DamagedRecord."""
    check(key, value, 1, "row", is_longer=True)
    try:
        return value[1:-CRC_BYTES].decode()
    except UnicodeDecodeError:
        raise DamagedRecord(f"The row under key {key.hex()} is damaged: it is not text.") from None


def encode_number(key: bytes, number: int) -> bytes:
    """Encodes a whole number below 2**64: a count, a time, a meta row."""
    return seal(key, _NUMBER.pack(RECORD_VERSION, number))


def decode_number(key: bytes, value: bytes) -> int:
    """Returns a whole number. Raises DamagedRecord."""
    check(key, value, _NUMBER.size, "row")
    number: int = _NUMBER.unpack_from(value)[1]
    return number


def encode_place(key: bytes, index: int, crc: int, number: int, at: int) -> bytes:
    """Encodes which entry of the log, its checksum, and where it ends: in which segment, at which byte."""
    return seal(key, _PLACE.pack(RECORD_VERSION, index, crc, number, at))


def decode_place(key: bytes, value: bytes) -> tuple[int, int, int, int]:
    """Returns the same. Raises DamagedRecord."""
    check(key, value, _PLACE.size, "row")
    _, index, crc, number, at = _PLACE.unpack_from(value)
    return index, crc, number, at
