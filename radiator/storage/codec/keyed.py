"""Keys of messages: the rows by which a queue's messages are found by a hash of their key, and those of the keys that
delayed messages hold. Pure; docs/FORMAT.md draws them.
"""

from collections.abc import Iterable

from radiator.model.errors import DamagedRecord
from radiator.model.writes import Delay, MakeDue
from radiator.storage.codec import records
from radiator.storage.codec.operations import Delete, Insert, Operation
from radiator.storage.codec.tables import BY_KEY, HELD

HASH_BYTES = 8
KEY_BYTES = records.QUEUE_KEY_BYTES + HASH_BYTES + records.POSITION_BYTES

_HASH_AT = records.QUEUE_KEY_BYTES
_POSITION_AT = _HASH_AT + HASH_BYTES
_VERSION = bytes([records.RECORD_VERSION])


# ---- rows ---------------------------------------------------------------------------------------------------------


def by_key_key(queue: int, hashed: bytes, position: int = 0) -> bytes:
    """Returns the key of the row by which a message is found: sorts by queue, then hash, then position."""
    return records.queue_key(queue) + hashed + position.to_bytes(records.POSITION_BYTES, "big")


def by_key_of(message_key: bytes, hashed: bytes) -> bytes:
    """Returns the same for the message that has this key."""
    assert len(hashed) == HASH_BYTES, f"message {message_key.hex()} has a hash of {len(hashed)} bytes"
    return message_key[:_HASH_AT] + hashed + message_key[_HASH_AT:]


def split_by_key_key(key: bytes) -> tuple[bytes, int]:
    """Hash and position; a misplaced page may have longer keys."""
    return key[_HASH_AT:_POSITION_AT], int.from_bytes(key[_POSITION_AT:KEY_BYTES], "big")


def place_of(key: bytes) -> bytes:
    """Returns the message's key, from that of its row."""
    return key[:_HASH_AT] + key[_POSITION_AT:]


def encode_by_key(key: bytes) -> bytes:
    """Returns the row that says that a message has that key: all of it is in the row's own key."""
    return records.seal(key, _VERSION)


def decode_by_key(key: bytes, value: bytes) -> tuple[bytes, int]:
    """Hash and position. Raises DamagedRecord."""
    records.check(key, value, len(_VERSION), "row of by_key")
    _check_length(key, KEY_BYTES)
    return split_by_key_key(key)


def encode_held(key: bytes, hashed: bytes) -> bytes:
    """Encodes the hash of the key that a delayed message holds, under the key that the message has at its place."""
    return records.seal(key, _VERSION + hashed)


def decode_held(key: bytes, value: bytes) -> tuple[int, bytes]:
    """Position of the message, and the hash of its key. Raises DamagedRecord."""
    records.check(key, value, len(_VERSION) + HASH_BYTES, "row of held")
    _check_length(key, records.MESSAGE_KEY_BYTES)
    return records.position_in(key), value[len(_VERSION) : -records.CRC_BYTES]


def _check_length(key: bytes, size: int) -> None:
    if len(key) != size:
        raise DamagedRecord(f"The row under key {key.hex()} is damaged: its key has {len(key)} bytes, not {size}.")


# ---- what a batch does with them ----------------------------------------------------------------------------------


def of_keys(added: list[bytes], gone: list[bytes]) -> list[Operation]:
    """Returns the operations for messages that all have a key, by the keys of their rows: first those that are put, as
    a batch may remove them too.
    """
    operations: list[Operation] = []
    if added:
        added.sort()
        operations.append(Insert(BY_KEY, [(key, records.seal(key, _VERSION)) for key in added]))
    if gone:
        gone.sort()
        operations.append(Delete(BY_KEY, gone))
    return operations


def of_held(writes: Iterable[Delay | MakeDue]) -> list[Operation]:
    """Returns the operations for what is held once all writes are carried out: a batch may make a message due and delay
    it again, under one key of the table.
    """
    after: dict[bytes, bytes] = {}
    was_there: list[bytes] = []
    for write in writes:
        assert len(write.held) == HASH_BYTES, f"{write} has a hash of {len(write.held)} bytes"
        key = records.message_key(write.queue, write.position)
        is_held = isinstance(write, Delay)
        if not is_held and key not in after:
            was_there.append(key)
        after[key] = write.held if is_held else b""
    added = sorted((key, encode_held(key, hashed)) for key, hashed in after.items() if hashed)
    operations: list[Operation] = [Delete(HELD, sorted(was_there))] if was_there else []
    if added:
        operations.append(Insert(HELD, added))
    return operations
