"""What is on the disk, byte by byte: keys, and the values of every table. docs/FORMAT.md draws it. Pure: no disk here.

Every value is `version u8 | content | CRC-32 u32`; the CRC covers the key, the version and the content, so a value that
lies under a wrong key is found too. Whole numbers are big-endian, so that keys sort as numbers do.

Changing anything here: give it a new version, keep reading the old one, and add a fixture (docs/FORMAT.md).
"""

import struct
from zlib import crc32

from radiator.errors import DamagedRecord
from radiator.message import ESCAPING_1_2, Message
from radiator.writes import KeepPeer, Ledger

FORMAT = 2
"""Number of the whole layout: tables, keys, records. A store with a larger one is refused."""

FORMATS_READ = (1, FORMAT)
"""A start makes the present one of an older one. 1 had no tables `peers` and `doubts`."""

RECORD_VERSION = 1
"""Version of the values below; all tables count together."""

QUEUE_KEY_BYTES = 4
MESSAGE_KEY_BYTES = 16

_POSITION_BYTES = 12
_CRC_BYTES = 4
_ESCAPING_MASK = 0b11
_VERSION = bytes([RECORD_VERSION])

_MESSAGE_HEAD = struct.Struct(">BBHIQQ")  # version, flags, length of destination, of header block, accepted, expires
_COUNT = struct.Struct(">BBI")  # version, flags, redeliveries
_COUNT_REDELIVERED = 0b1
_LEDGER = struct.Struct(">B15Q")  # version, the fields of Ledger in their order
_NUMBER = struct.Struct(">BQ")  # version, the number
_PEER = struct.Struct(">B5Q")  # version, the numbers of KeepPeer in their order; the store's id follows
_DOUBT = struct.Struct(">BI12s")  # version, queue, position
_SEQUENCE_BYTES = 8


# ---- keys ---------------------------------------------------------------------------------------------------------


def queue_key(queue: int) -> bytes:
    """Key of a queue's own rows, and what the keys of its messages begin with."""
    return queue.to_bytes(QUEUE_KEY_BYTES, "big")


def message_key(queue: int, position: int) -> bytes:
    """Key of a message and of its redelivery count: sorts by queue, then boot, then sequence."""
    return queue.to_bytes(QUEUE_KEY_BYTES, "big") + position.to_bytes(_POSITION_BYTES, "big")


def queue_of(key: bytes) -> int:
    """The queue's number in a key."""
    return int.from_bytes(key[:QUEUE_KEY_BYTES], "big")


def position_in(key: bytes) -> int:
    """The position in a message's key."""
    return int.from_bytes(key[QUEUE_KEY_BYTES:], "big")


def dedup_key(queue: int, dedup_id: bytes) -> bytes:
    """Key of a remembered dedup-id: at most 4 + 255 bytes; LMDB holds 511."""
    return queue_key(queue) + dedup_id


def dedup_time_key(until_ms: int, dedup: bytes) -> bytes:
    """Key of the same in the order of time; `dedup` is its dedup_key."""
    return until_ms.to_bytes(8, "big") + dedup


def split_dedup_time_key(key: bytes) -> tuple[int, bytes]:
    """until_ms and dedup_key."""
    return int.from_bytes(key[:8], "big"), key[8:]


def peer_key(peer: str) -> bytes:
    """Key of what is known of a linked node: its name."""
    return peer.encode()


def doubt_key(peer: str, sequence: int) -> bytes:
    """Key of a message in doubt: sorts by peer, then sequence."""
    return peer.encode() + b"\0" + sequence.to_bytes(_SEQUENCE_BYTES, "big")


def split_doubt_key(key: bytes) -> tuple[str, int]:
    """Peer and sequence. Raises DamagedRecord for what is no such key."""
    name, nul = key[: -_SEQUENCE_BYTES - 1], key[-_SEQUENCE_BYTES - 1 : -_SEQUENCE_BYTES]
    if nul != b"\0":
        raise DamagedRecord(f"The doubt under key {key.hex()} is damaged: no name and sequence are in its key.")
    return _name_in(name, key, "doubt"), int.from_bytes(key[-_SEQUENCE_BYTES:], "big")


def _name_in(name: bytes, key: bytes, what: str) -> str:
    try:
        if name and b"\0" not in name:
            return name.decode()
    except UnicodeDecodeError:
        pass
    raise DamagedRecord(f"The {what} under key {key.hex()} is damaged: no name of a node is in its key.")


# ---- the seal of every value --------------------------------------------------------------------------------------


def _seal(key: bytes, content: bytes) -> bytes:
    return content + crc32(content, crc32(key)).to_bytes(_CRC_BYTES, "big")


def _check(key: bytes, value: bytes, least_bytes: int, what: str, *, is_longer: bool = False) -> None:
    """Raises DamagedRecord unless length, checksum and version are what was written.

    The checksum comes before the version: a flipped bit in the version byte is damage, not a newer record.
    is_longer: a text or a body follows. Any other length is of another table, whose keys may be the same: a page in
    the wrong place has right checksums.
    """
    # D11
    size = len(value) - _CRC_BYTES
    if size < least_bytes or (size > least_bytes and not is_longer):
        raise DamagedRecord(f"The {what} under key {key.hex()} is damaged: it has {len(value)} bytes.")
    stored = int.from_bytes(value[-_CRC_BYTES:], "big")
    actual = crc32(memoryview(value)[:-_CRC_BYTES], crc32(key))
    if stored != actual:
        raise DamagedRecord(
            f"The {what} under key {key.hex()} is damaged: its checksum is {stored:08x}, its bytes give {actual:08x}."
        )
    if value[0] != RECORD_VERSION:
        raise DamagedRecord(
            f"The {what} under key {key.hex()} has version {value[0]}; this program reads version {RECORD_VERSION}."
        )


# ---- messages -----------------------------------------------------------------------------------------------------


def encode_message(key: bytes, message: Message) -> bytes:
    """The record of a message."""
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
    return content + crc32(content, crc32(key)).to_bytes(_CRC_BYTES, "big")


def message_bytes(value: bytes | memoryview) -> tuple[int, bool]:
    """Bytes of header block and body, and whether it expires: from the record's head alone, unchecked."""
    if len(value) < _MESSAGE_HEAD.size + _CRC_BYTES:
        return 0, False
    _, _, destination_bytes, _, _, expires_ms = _MESSAGE_HEAD.unpack_from(value)
    return len(value) - _MESSAGE_HEAD.size - destination_bytes - _CRC_BYTES, expires_ms != 0


def decode_message(key: bytes, value: bytes) -> Message:
    """The message of a record, every byte checked. Raises DamagedRecord."""
    _check(key, value, _MESSAGE_HEAD.size, "message", is_longer=True)
    if len(key) != MESSAGE_KEY_BYTES:
        raise DamagedRecord(f"The message under key {key.hex()} is damaged: its key has {len(key)} bytes, not 16.")
    _, flags, destination_bytes, headers_bytes, accepted_ms, expires_ms = _MESSAGE_HEAD.unpack_from(value)
    headers_at = _MESSAGE_HEAD.size + destination_bytes
    body_at = headers_at + headers_bytes
    escaping = flags & _ESCAPING_MASK
    if body_at > len(value) - _CRC_BYTES or escaping > ESCAPING_1_2 or flags != escaping:
        raise DamagedRecord(f"The message under key {key.hex()} is damaged: its lengths or flags are impossible.")
    return Message(
        destination=value[_MESSAGE_HEAD.size : headers_at].decode(),
        headers=value[headers_at:body_at],
        escaping=escaping,
        body=value[body_at:-_CRC_BYTES],
        accepted_ms=accepted_ms,
        expires_ms=expires_ms,
    )


# ---- redelivery counts --------------------------------------------------------------------------------------------


def encode_count(key: bytes, redeliveries: int, redelivered: bool) -> bytes:
    """The redelivery count of a message, under the message's key in a table of its own."""
    return _seal(key, _COUNT.pack(RECORD_VERSION, _COUNT_REDELIVERED if redelivered else 0, redeliveries))


def decode_count(key: bytes, value: bytes) -> tuple[int, bool]:
    """How often the message came back, and whether it is marked redelivered. Raises DamagedRecord."""
    _check(key, value, _COUNT.size, "redelivery count")
    _, flags, redeliveries = _COUNT.unpack_from(value)
    return redeliveries, bool(flags & _COUNT_REDELIVERED)


# ---- queues -------------------------------------------------------------------------------------------------------


def encode_ledger(key: bytes, ledger: Ledger) -> bytes:
    """A queue's ledger."""
    return _seal(
        key,
        _LEDGER.pack(
            RECORD_VERSION,
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
        ),
    )


def decode_ledger(key: bytes, value: bytes) -> Ledger:
    """A queue's ledger. Raises DamagedRecord; whether it adds up is for the reader to ask."""
    _check(key, value, _LEDGER.size, "ledger")
    return Ledger(*_LEDGER.unpack_from(value)[1:])


# ---- linked nodes -------------------------------------------------------------------------------------------------


def encode_peer(key: bytes, peer: KeepPeer) -> bytes:
    """What is known of a linked node."""
    head = _PEER.pack(RECORD_VERSION, peer.out_epoch, peer.out_taken, peer.out_offered, peer.in_epoch, peer.in_last)
    return _seal(key, head + peer.store_id.encode())


def decode_peer(key: bytes, value: bytes) -> KeepPeer:
    """What is known of a linked node. Raises DamagedRecord."""
    _check(key, value, _PEER.size, "peer", is_longer=True)
    return KeepPeer(_name_in(key, key, "peer"), value[_PEER.size : -_CRC_BYTES].decode(), *_PEER.unpack_from(value)[1:])


def encode_doubt(key: bytes, queue: int, position: int) -> bytes:
    """Which message is in doubt."""
    return _seal(key, _DOUBT.pack(RECORD_VERSION, queue, position.to_bytes(_POSITION_BYTES, "big")))


def decode_doubt(key: bytes, value: bytes) -> tuple[int, int]:
    """Queue and position of the message in doubt. Raises DamagedRecord."""
    _check(key, value, _DOUBT.size, "doubt")
    _, queue, position = _DOUBT.unpack_from(value)
    return queue, int.from_bytes(position, "big")


# ---- texts and numbers: names of queues, what is left of retired ones, dedup-ids, meta ----------------------------


def encode_text(key: bytes, text: str) -> bytes:
    """A text: a queue's name, the store's id."""
    return _seal(key, _VERSION + text.encode())


def decode_text(key: bytes, value: bytes) -> str:
    """A text. Raises DamagedRecord."""
    _check(key, value, 1, "row", is_longer=True)
    return value[1:-_CRC_BYTES].decode()


def encode_number(key: bytes, number: int) -> bytes:
    """A whole number below 2**64: a count, a time, a meta row."""
    return _seal(key, _NUMBER.pack(RECORD_VERSION, number))


def decode_number(key: bytes, value: bytes) -> int:
    """A whole number. Raises DamagedRecord."""
    _check(key, value, _NUMBER.size, "row")
    number: int = _NUMBER.unpack_from(value)[1]
    return number
