"""Prepared transactions, their SENDs, and the last versions of producer-ids: keys and values, as docs/FORMAT.md has
them. Pure; every value is sealed as in records.py.
"""

import struct

from radiator.model.commands import Send
from radiator.model.errors import DamagedRecord
from radiator.model.headers import ESCAPING_ALL
from radiator.model.writes import KeepApp, KeepTransaction
from radiator.storage.codec.records import CRC_BYTES, ESCAPING_MASK, RECORD_VERSION, check, seal, word_in

_TRANSACTION = struct.Struct(">B4Q")  # version, count, size, applied, prepared; the name follows
_SEND_KEY = struct.Struct(">QI")  # transaction, number of the SEND
_SEND_HEAD = struct.Struct(">BBHHIQQ")  # version, flags, lengths of destination, dedup-id, headers; expires, due
_EXPIRY_GIVEN, _TIME_GIVEN, _DEDUP_GIVEN = 0b100, 0b1000, 0b10000  # flags of a SEND
_SEND_FLAGS = ESCAPING_MASK | _EXPIRY_GIVEN | _TIME_GIVEN | _DEDUP_GIVEN
_APP = struct.Struct(">BQQ")  # version, the app's version, committed
_NUMBER_BYTES = 8


def transaction_key(transaction: int) -> bytes:
    """Returns the key of a prepared transaction, and the prefix of its SENDs' keys."""
    return transaction.to_bytes(_NUMBER_BYTES, "big")


def send_key(transaction: int, number: int) -> bytes:
    """Returns the key of one SEND of a prepared transaction: sorts by transaction, then number."""
    return _SEND_KEY.pack(transaction, number)


def split_send_key(key: bytes) -> tuple[int, int]:
    """Prepared transaction and number; a misplaced page may have longer keys."""
    return int.from_bytes(key[:_NUMBER_BYTES], "big"), int.from_bytes(key[_NUMBER_BYTES : _SEND_KEY.size], "big")


def app_key(app: str) -> bytes:
    """Returns the key of the last version of a producer-id: the id."""
    return app.encode()


def encode_transaction(key: bytes, kept: KeepTransaction) -> bytes:
    """Encodes what is known of a prepared transaction."""
    head = _TRANSACTION.pack(RECORD_VERSION, kept.count, kept.size, kept.applied, kept.prepared_ms)
    return seal(key, head + kept.name.encode())


def decode_transaction(key: bytes, value: bytes) -> KeepTransaction:
    """Returns what is known of a prepared transaction. Raises DamagedRecord."""
    check(key, value, _TRANSACTION.size, "prepared transaction", is_longer=True)
    try:
        name = value[_TRANSACTION.size : -CRC_BYTES].decode()
    except UnicodeDecodeError:
        raise DamagedRecord(f"The prepared transaction under key {key.hex()} is damaged: its name is none.") from None
    _, count, size, applied, prepared_ms = _TRANSACTION.unpack_from(value)
    return KeepTransaction(int.from_bytes(key, "big"), name, count, size, applied, prepared_ms)


def encode_send(key: bytes, send: Send) -> bytes:
    """Encodes a SEND of a prepared transaction, as it is kept until it is in its destinations."""
    destination, dedup_id = send.destination.encode(), send.dedup_id or b""
    flags = send.escaping
    flags |= (send.expires_ms is not None) * _EXPIRY_GIVEN | (send.deliver_at_ms is not None) * _TIME_GIVEN
    flags |= (send.dedup_id is not None) * _DEDUP_GIVEN
    head = _SEND_HEAD.pack(
        RECORD_VERSION,
        flags,
        len(destination),
        len(dedup_id),
        len(send.headers),
        send.expires_ms or 0,
        send.deliver_at_ms or 0,
    )
    return seal(key, b"".join((head, destination, dedup_id, send.headers, send.body)))


def decode_send(key: bytes, value: bytes) -> Send:
    """Returns a SEND of a prepared transaction. Raises DamagedRecord."""
    check(key, value, _SEND_HEAD.size, "prepared SEND", is_longer=True)
    _, flags, destination_bytes, dedup_bytes, headers_bytes, expires_ms, due_ms = _SEND_HEAD.unpack_from(value)
    dedup_at = _SEND_HEAD.size + destination_bytes
    headers_at = dedup_at + dedup_bytes
    body_at = headers_at + headers_bytes
    escaping = flags & ESCAPING_MASK
    is_key = len(key) == _SEND_KEY.size
    if not is_key or body_at > len(value) - CRC_BYTES or escaping > ESCAPING_ALL or flags & ~_SEND_FLAGS:
        raise DamagedRecord(f"The prepared SEND under key {key.hex()} is damaged: its lengths or flags are impossible.")
    return Send(
        0,
        value[_SEND_HEAD.size : dedup_at].decode(),
        value[headers_at:body_at],
        escaping,
        value[body_at:-CRC_BYTES],
        expires_ms=expires_ms if flags & _EXPIRY_GIVEN else None,
        deliver_at_ms=due_ms if flags & _TIME_GIVEN else None,
        dedup_id=value[dedup_at:headers_at] if flags & _DEDUP_GIVEN else None,
    )


def encode_app(key: bytes, app: KeepApp) -> bytes:
    """Encodes the last version that was committed for a producer-id."""
    return seal(key, _APP.pack(RECORD_VERSION, app.version, app.committed_ms))


def decode_app(key: bytes, value: bytes) -> KeepApp:
    """Returns the last version that was committed for a producer-id. Raises DamagedRecord."""
    check(key, value, _APP.size, "version of a producer-id")
    return KeepApp(word_in(key, key, "version"), *_APP.unpack_from(value)[1:])
