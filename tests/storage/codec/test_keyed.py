"""Rows of keys: their bytes, and which of them a batch adds and removes."""

import pytest

from radiator.model.errors import DamagedRecord
from radiator.model.message import Message
from radiator.model.writes import Delay, MakeDue, Put, Remove
from radiator.storage.codec import keyed, records
from radiator.storage.codec.encode import encode
from radiator.storage.codec.operations import Delete, Insert
from radiator.storage.codec.tables import BY_KEY, HELD

HASH, OTHER = bytes(range(8)), b"\xff" * 8
MESSAGE = Message("/queue/q", b"", 2, b"", 1, 0)


def test_rows_are_written_as_the_format_says() -> None:
    key = keyed.by_key_key(7, HASH, 3 << 64 | 5)
    assert key.hex() == "00000007" + "0001020304050607" + "00000003" + "0000000000000005"
    assert keyed.encode_by_key(key).hex() == "01" + "d8622b21"
    key = records.message_key(7, 3 << 64 | 5)
    assert keyed.encode_held(key, HASH).hex() == "01" + "0001020304050607" + "7a4a855c"


@pytest.mark.parametrize("position", [0, 1, 2**96 - 1])
@pytest.mark.parametrize("hashed", [bytes(8), HASH, OTHER])
def test_rows_survive_the_round_trip(hashed: bytes, position: int) -> None:
    key = keyed.by_key_key(2**32 - 1, hashed, position)
    assert keyed.decode_by_key(key, keyed.encode_by_key(key)) == (hashed, position) == keyed.split_by_key_key(key)
    place = records.message_key(2**32 - 1, position)
    assert keyed.place_of(key) == place
    assert keyed.decode_held(place, keyed.encode_held(place, hashed)) == (position, hashed)


def test_keys_sort_by_queue_then_hash_then_position() -> None:
    keys = [keyed.by_key_key(queue, *one) for queue in (1, 256) for one in ((HASH, 1), (HASH, 2 << 64), (OTHER, 0))]
    assert keys == sorted(keys)


@pytest.mark.parametrize("bit", range(0, 5 * 8, 3))
def test_every_flipped_bit_is_found(bit: int) -> None:
    key = keyed.by_key_key(1, HASH, 1)
    value = bytearray(keyed.encode_by_key(key))
    value[bit // 8] ^= 1 << bit % 8
    with pytest.raises(DamagedRecord, match="row of by_key"):
        keyed.decode_by_key(key, bytes(value))


@pytest.mark.parametrize("bit", range(0, 13 * 8, 3))
def test_every_flipped_bit_of_what_is_held_is_found(bit: int) -> None:
    key = records.message_key(1, 1)
    value = bytearray(keyed.encode_held(key, HASH))
    value[bit // 8] ^= 1 << bit % 8
    with pytest.raises(DamagedRecord, match="row of held"):
        keyed.decode_held(key, bytes(value))


@pytest.mark.parametrize("key", [b"k" * 23, b"k" * 25])
def test_row_under_a_key_of_another_length_is_damaged(key: bytes) -> None:
    with pytest.raises(DamagedRecord, match=f"has {len(key)} bytes, not 24"):
        keyed.decode_by_key(key, keyed.encode_by_key(key))


@pytest.mark.parametrize("key", [b"k" * 15, b"k" * 17])
def test_what_is_held_under_a_key_of_another_length_is_damaged(key: bytes) -> None:
    with pytest.raises(DamagedRecord, match=f"has {len(key)} bytes, not 16"):
        keyed.decode_held(key, keyed.encode_held(key, HASH))


def test_value_of_another_table_is_damaged() -> None:
    key = records.message_key(1, 1)
    with pytest.raises(DamagedRecord, match="has 10 bytes"):
        keyed.decode_held(key, records.encode_count(key, 1, True))


# ---- what a batch does ----------------------------------------------------------------------------------------------


def put(number: int, hashed: bytes) -> Put:
    return Put(1, number, MESSAGE, hashed)


def delay(number: int, due_ms: int, hashed: bytes) -> Delay:
    return Delay(1, due_ms, number, MESSAGE, held=hashed)


def row_of(number: int, hashed: bytes) -> tuple[bytes, bytes]:
    key = keyed.by_key_key(1, hashed, number)
    return key, keyed.encode_by_key(key)


def held(number: int, hashed: bytes) -> tuple[bytes, bytes]:
    key = records.message_key(1, number)
    return key, keyed.encode_held(key, hashed)


def by_key_of(number: int, hashed: bytes) -> bytes:
    return keyed.by_key_of(records.message_key(1, number), hashed)


def test_keys_of_what_is_put_are_added_before_those_of_what_is_removed_go() -> None:
    assert by_key_of(2, HASH) == keyed.by_key_key(1, HASH, 2)
    added, gone = (
        [by_key_of(3, OTHER), by_key_of(2, HASH), by_key_of(4, HASH)],
        [by_key_of(2, HASH), by_key_of(1, HASH)],
    )
    assert keyed.of_keys([*added], [*gone]) == [
        Insert(BY_KEY, [row_of(2, HASH), row_of(4, HASH), row_of(3, OTHER)]),
        Delete(BY_KEY, [row_of(1, HASH)[0], row_of(2, HASH)[0]]),
    ]
    assert keyed.of_keys([by_key_of(1, HASH)], []) == [Insert(BY_KEY, [row_of(1, HASH)])]
    assert keyed.of_keys([], [by_key_of(1, HASH)]) == [Delete(BY_KEY, [row_of(1, HASH)[0]])]
    assert keyed.of_keys([], []) == []


def test_what_is_delayed_and_due_in_one_batch_holds_nothing() -> None:
    assert keyed.of_held([delay(1, 10, HASH), MakeDue(1, 10, 1, HASH)]) == []


def test_what_is_due_and_delayed_again_in_one_batch_holds_its_key() -> None:
    writes = [MakeDue(1, 10, 1, HASH), delay(1, 20, HASH), MakeDue(1, 5, 2, OTHER), delay(3, 7, OTHER)]
    assert keyed.of_held(writes) == [
        Delete(HELD, [records.message_key(1, 1), records.message_key(1, 2)]),
        Insert(HELD, [held(1, HASH), held(3, OTHER)]),
    ]


@pytest.mark.parametrize("wrong", [b"h", b"h" * 7, b"h" * 9])
def test_hash_of_another_length_is_a_bug(wrong: bytes) -> None:
    for write in (put(1, wrong), Remove(1, 1, wrong)):
        with pytest.raises(AssertionError, match=f"a hash of {len(wrong)} bytes"):
            encode([write])
    for holding in ([delay(1, 1, wrong)], [MakeDue(1, 1, 1, wrong)]):
        with pytest.raises(AssertionError, match=f"a hash of {len(wrong)} bytes"):
            keyed.of_held(holding)  # type: ignore[arg-type]
