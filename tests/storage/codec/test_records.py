"""Keys sort as they should; every record survives the round trip; no changed byte passes."""

from dataclasses import astuple, fields, replace
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radiator.model.errors import DamagedRecord
from radiator.model.headers import ESCAPING_ALL, ESCAPING_NONE
from radiator.model.journal import ACCEPTED, ACKED, JournalEvent
from radiator.model.message import Message, position_of
from radiator.model.writes import KeepPeer, KeepSegment, Ledger, PeerStore
from radiator.storage.codec import blocks, records

KEY = records.message_key(7, position_of(3, 5))
DELAYED_KEY = records.delayed_key(7, 1_500, position_of(3, 5))
BINDING_KEY = records.binding_key(7, "x", "a.#")
U64 = st.integers(0, 2**64 - 1)
MESSAGES = st.builds(
    Message,
    destination=st.text(max_size=50).map(lambda name: f"/queue/{name}"),
    headers=st.binary(max_size=100),
    escaping=st.integers(ESCAPING_NONE, ESCAPING_ALL),
    body=st.binary(max_size=300),
    accepted_ms=U64,
    expires_ms=U64,
)


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), U64), min_size=2, max_size=20))
def test_message_keys_sort_by_queue_boot_and_sequence(places: list[tuple[int, int, int]]) -> None:
    keys = {place: records.message_key(place[0], position_of(place[1], place[2])) for place in places}
    assert sorted(keys, key=keys.__getitem__) == sorted(keys)
    assert all(len(key) == records.MESSAGE_KEY_BYTES for key in keys.values())


def test_message_key_gives_back_queue_and_position() -> None:
    assert records.queue_of(KEY) == 7
    assert records.position_in(KEY) == position_of(3, 5)
    assert KEY.hex() == "00000007000000030000000000000005"


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), U64, st.integers(0, 2**96 - 1)), min_size=2, max_size=20))
def test_delayed_keys_sort_by_queue_time_and_position_and_give_all_back(places: list[tuple[int, int, int]]) -> None:
    keys = {place: records.delayed_key(*place) for place in places}
    assert sorted(keys, key=keys.__getitem__) == sorted(keys)
    assert all((records.queue_of(key), *records.split_delayed_key(key)) == place for place, key in keys.items())
    assert all(len(key) == records.DELAYED_KEY_BYTES for key in keys.values())


def test_keys_of_bindings_differ_wherever_the_bindings_do() -> None:
    """Where the name ends and the key begins too; and no length of theirs is too much for LMDB."""
    bindings = [(1, "a", "b"), (1, "ab", ""), (1, "", "ab"), (1, "a", "b.c"), (2, "a", "b"), (1, "x" * 255, "é" * 127)]
    keys = {records.binding_key(*binding) for binding in bindings}
    assert len(keys) == len(bindings) and {len(key) for key in keys} == {20}
    assert {records.queue_of(key) for key in keys} == {1, 2}


@pytest.mark.parametrize("key", [b"", b"exchange", b"\0x", b"exchange\0", b"exchange\0a\0b", b"exchange\0\xff"])
def test_key_that_is_of_no_declaration_is_refused(key: bytes) -> None:
    with pytest.raises(DamagedRecord, match=f"The declaration under key {key.hex()} is damaged"):
        records.split_declared_key(key)


def test_dedup_time_keys_sort_by_time() -> None:
    dedup = records.dedup_key(1, b"zzz")
    early, late = records.dedup_time_key(255, dedup), records.dedup_time_key(256, records.dedup_key(0, b"a"))
    assert early < late
    assert records.split_dedup_time_key(early) == (255, dedup)


NAMES = st.text("AZaz09._-", min_size=1, max_size=64)
PEER = KeepPeer("node.b", "0123456789abcdef", 1, 2, 3, 4, 5)
LATER_PEER = replace(PEER, earlier=(PeerStore("fedcba9876543210", 1, 2, 3, 4), PeerStore("0f")))
PEER_KEY = records.peer_key(PEER.peer)


@given(st.lists(st.tuples(NAMES, U64), min_size=2, max_size=20))
def test_doubt_keys_sort_by_peer_and_sequence_and_give_both_back(places: list[tuple[str, int]]) -> None:
    keys = {place: records.doubt_key(*place) for place in places}
    assert sorted(keys, key=keys.__getitem__) == sorted(keys)
    assert all(records.split_doubt_key(key) == place for place, key in keys.items())


@pytest.mark.parametrize(
    "key", [b"", b"b", bytes(8), bytes(9), b"\xff" + bytes(9), b"a\0b" + bytes(9), b"node.b\1" + bytes(8)]
)
def test_key_that_is_of_no_doubt_is_refused(key: bytes) -> None:
    with pytest.raises(DamagedRecord, match=f"The doubt under key {key.hex()} is damaged"):
        records.split_doubt_key(key)


@given(MESSAGES)
def test_message_survives_the_round_trip(message: Message) -> None:
    value = records.encode_message(KEY, message)
    assert records.decode_message(KEY, value) == message
    assert records.message_bytes(value) == (message.size, message.expires_ms != 0)


@given(MESSAGES, st.integers(0, 300), st.integers(0, 300))
def test_a_part_of_a_body_is_that_part(message: Message, first: int, most: int) -> None:
    value = memoryview(records.encode_message(KEY, message))
    part = replace(message, body=message.body[first : first + most])
    assert records.decode_message_part(KEY, value, first, most) == (part, len(message.body))


def part_of(key: bytes, value: bytes) -> tuple[Message, int]:
    return records.decode_message_part(key, memoryview(value), 1, 2)


@given(MESSAGES, st.integers(0, 2**32 - 1), st.booleans())
def test_delayed_message_survives_the_round_trip(message: Message, redeliveries: int, redelivered: bool) -> None:
    value = records.encode_delayed(DELAYED_KEY, message, redeliveries, redelivered)
    assert records.decode_delayed(DELAYED_KEY, value) == (message, redeliveries, redelivered)
    assert records.delayed_bytes(memoryview(value)) == (message.size, message.expires_ms != 0)


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_binding_survives_the_round_trip(exchange: str, binding: str) -> None:
    key = records.binding_key(7, exchange, binding)
    assert records.decode_binding(key, records.encode_binding(key, exchange, binding)) == (exchange, binding)


def test_delayed_message_is_written_as_the_format_says() -> None:
    """The bytes of docs/FORMAT.md too."""
    message = Message("/queue/a", b"k:v\n", ESCAPING_ALL, b"hello", 1_000, 2_000)
    value = records.encode_delayed(DELAYED_KEY, message, 3, True)
    assert DELAYED_KEY.hex(" ") == "00 00 00 07 00 00 00 00 00 00 05 dc 00 00 00 03 00 00 00 00 00 00 00 05"
    assert value[:6].hex(" ") == "01 01 00 00 00 03"
    assert value[6:-4] == records.encode_message(KEY, message)[:-4]
    assert value[-4:].hex(" ") == "27 55 68 d2"


def test_message_is_written_as_the_format_says() -> None:
    """The bytes of docs/FORMAT.md, fixed: if this fails, the format has changed, and needs a new version."""
    value = records.encode_message(KEY, Message("/queue/a", b"k:v\n", ESCAPING_ALL, b"hello", 1_000, 2_000))
    assert value.hex(" ") == (
        "01 02 00 08 00 00 00 04 00 00 00 00 00 00 03 e8 00 00 00 00 00 00 07 d0 "
        "2f 71 75 65 75 65 2f 61 6b 3a 76 0a 68 65 6c 6c 6f 8d 87 c0 95"
    )


def test_other_rows_are_written_as_the_format_says() -> None:
    assert records.encode_count(KEY, 3, True).hex() == "010100000003" + "ce67d4da"
    assert records.encode_number(b"boot", 9).hex() == "010000000000000009" + "69343115"
    assert records.encode_text(b"\0\0\0\1", "orders").hex() == "016f7264657273" + "55b7e68b"
    assert records.doubt_key("b", 258).hex() == "62" + "00" + "0000000000000102"
    assert (
        records.encode_doubt(records.doubt_key("b", 258), 7, position_of(3, 5)).hex() == "01" + KEY.hex() + "b82c7704"
    )
    assert records.settings_key(7).hex() == "0000000700"
    assert records.declared_key("exchange", "x") == b"exchange\0x"
    assert records.binding_key(7, "x", "a.#").hex() == "00000007" + "fab1bcc00113951e8b414751801ea30a"
    assert records.encode_binding(BINDING_KEY, "x", "a.#")[:-4] == b"\1x\0a.#"
    ledger = Ledger(*range(1, 18))
    assert records.encode_ledger(b"\0\0\0\1", ledger)[:-4].hex() == "02" + "".join(f"{n:016x}" for n in range(1, 18))
    numbers = "".join(f"{number:016x}" for number in range(1, 6))
    assert records.encode_peer(b"b", KeepPeer("b", "0f", 1, 2, 3, 4, 5)).hex() == "01" + numbers + "3066" + "23c224be"
    earlier = (PeerStore("a1", 1, 2, 3, 4), PeerStore("", 0, 0, 0, 5))
    value = records.encode_peer(b"b", KeepPeer("b", "0f", 1, 2, 3, 4, 5, earlier))
    stores = numbers[:64] + "02" + "6131" + "".join(f"{number:016x}" for number in (0, 0, 0, 5, 0))[:-14]
    assert value[:-4].hex() == "02" + numbers + "02" + stores + "3066"


def test_rows_of_logs_are_written_as_the_format_says() -> None:
    key = records.record_key(1, 2, 258)
    assert key.hex() == "00000001" + "0002" + "0000000000000102"
    assert records.log_key(7).hex() == "0000000701"
    assert records.group_key(7, "g").hex() == "0000000767"
    message = Message("/log/l", b"k:v\n", ESCAPING_ALL, b"hello", 1_000, 2_000)
    _, block = blocks.pack(key, [message, message])
    one = "02" + "0006" + "00000004" + "00000000000003e8" + "00000000000007d0" + b"/log/lk:v\nhello".hex()
    assert block[:-4].hex() == "01" + "00" + "0002" + "00000026" * 2 + one * 2
    events = [
        JournalEvent(ACKED, 1_002, "q", position_of(3, 5), "1/a", 2, 300),
        JournalEvent(ACCEPTED, 1_000, "q", position_of(3, 6)),
    ]
    _, block = blocks.pack(key, events)
    names = "0004" + "0005" + "0008" + "0001" + "0003" + b"ackedacceptedq1/a".hex()
    columns = "010102" + "010303" + "010400" + "00" * 3 + "010200" + "02012c0000" + "00"
    times = "00000000000003e8" + "010200"
    positions = "0c" + "000000030000000000000005" + "000000030000000000000006" + "00"
    assert block[:-4].hex() == "01" + "01" + "0002" + names + columns + times + positions
    traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    _, block = blocks.pack(key, [events[0], events[1]._replace(traceparent=traceparent)])
    names = (
        "0005" + "0005" + "0008" + "0001" + "0003" + "0037" + b"ackedacceptedq1/a".hex() + traceparent.encode().hex()
    )
    assert block[:-4].hex() == "02" + "01" + "0002" + names + columns + times + positions + "010005"
    _, block = blocks.pack(key, [events[0], events[1]._replace(correlation_id="task")])
    names = "0005" + "0005" + "0008" + "0001" + "0003" + "0004" + b"ackedacceptedq1/atask".hex()
    assert block[:-4].hex() == "03" + "01" + "0002" + names + columns + times + positions + "00" + "010005"
    segment = KeepSegment(1, 2, 258, 1, 2, 3, 4, 5)
    numbers = "".join(f"{number:016x}" for number in range(1, 6))
    assert records.encode_segment(key, segment)[:-4].hex() == "01" + numbers
    assert records.encode_position(records.group_key(7, "g"), [1, 258])[:-4].hex() == (
        "01" + "0002" + "0000000000000001" + "0000000000000102"
    )


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_count_survives_the_round_trip(redeliveries: int, redelivered: bool) -> None:
    value = records.encode_count(KEY, redeliveries, redelivered)
    assert records.decode_count(KEY, value) == (redeliveries, redelivered)


def test_ledger_survives_the_round_trip_field_by_field() -> None:
    ledger = Ledger(*range(1, len(fields(Ledger)) + 1))
    decoded = records.decode_ledger(b"\0\0\0\1", records.encode_ledger(b"\0\0\0\1", ledger))
    assert decoded == ledger
    assert astuple(decoded) == tuple(range(1, 18))


LEDGER_1 = "01" + "".join(f"{number:016x}" for number in range(1, 16)) + "a8a6a090"


def test_ledger_of_version_1_has_nothing_delayed() -> None:
    """As formats 1 and 2 wrote it."""
    decoded = records.decode_ledger(b"\0\0\0\1", bytes.fromhex(LEDGER_1))
    assert astuple(decoded) == (*range(1, 16), 0, 0)


@given(st.builds(KeepPeer, NAMES, st.text(max_size=32), U64, U64, U64, U64, U64))
def test_peer_survives_the_round_trip_field_by_field(peer: KeepPeer) -> None:
    key = records.peer_key(peer.peer)
    assert records.decode_peer(key, records.encode_peer(key, peer)) == peer


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**96 - 1))
def test_doubt_survives_the_round_trip(queue: int, position: int) -> None:
    key = records.doubt_key("b", 1)
    assert records.decode_doubt(key, records.encode_doubt(key, queue, position)) == (queue, position)


@given(U64, st.text(max_size=300))
def test_numbers_and_texts_survive_the_round_trip(number: int, text: str) -> None:
    assert records.decode_number(b"boot", records.encode_number(b"boot", number)) == number
    assert records.decode_text(b"name", records.encode_text(b"name", text)) == text


ROWS = [
    (
        records.decode_message,
        KEY,
        records.encode_message(KEY, Message("/queue/a", b"k:v\n", ESCAPING_ALL, b"hello", 1, 2)),
    ),
    (records.decode_message, KEY, records.encode_message(KEY, Message("", b"", ESCAPING_NONE, b"", 0))),
    (part_of, KEY, records.encode_message(KEY, Message("/queue/a", b"k:v\n", ESCAPING_ALL, b"hello", 1, 2))),
    (records.decode_count, KEY, records.encode_count(KEY, 3, True)),
    (records.decode_ledger, KEY, records.encode_ledger(KEY, Ledger(accepted=1, stored=1))),
    (records.decode_ledger, b"\0\0\0\1", bytes.fromhex(LEDGER_1)),
    (
        records.decode_delayed,
        DELAYED_KEY,
        records.encode_delayed(DELAYED_KEY, Message("/queue/a", b"k:v\n", ESCAPING_ALL, b"hello", 1, 2), 3, True),
    ),
    (records.decode_binding, BINDING_KEY, records.encode_binding(BINDING_KEY, "x", "a.#")),
    (records.decode_number, KEY, records.encode_number(KEY, 5)),
    (records.decode_text, KEY, records.encode_text(KEY, "orders")),
    (records.decode_peer, PEER_KEY, records.encode_peer(PEER_KEY, PEER)),
    (records.decode_peer, PEER_KEY, records.encode_peer(PEER_KEY, LATER_PEER)),
    (records.decode_doubt, KEY, records.encode_doubt(KEY, 7, position_of(3, 5))),
]


@pytest.mark.durability("D11")
@pytest.mark.parametrize(("decode", "key", "value"), ROWS)
def test_every_flipped_bit_is_found(decode, key: bytes, value: bytes) -> None:  # type: ignore[no-untyped-def]
    decode(key, value)
    for bit in range(len(value) * 8):
        flipped = bytearray(value)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedRecord, match="damaged"):
            decode(key, bytes(flipped))


@pytest.mark.parametrize(("decode", "key", "value"), ROWS)
def test_every_shortened_value_is_found(decode, key: bytes, value: bytes) -> None:  # type: ignore[no-untyped-def]
    for length in range(len(value)):
        with pytest.raises(DamagedRecord):
            decode(key, value[:length])


@pytest.mark.parametrize(("decode", "key", "value"), ROWS)
def test_value_under_another_key_is_found(decode, key: bytes, value: bytes) -> None:  # type: ignore[no-untyped-def]
    for bit in range(len(key) * 8):
        other = bytearray(key)
        other[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedRecord):
            decode(bytes(other), value)


def sealed(content: bytes) -> bytes:
    """A value with a right checksum, whatever is in it."""
    return content + crc32(content, crc32(KEY)).to_bytes(4, "big")


def test_record_of_another_version_is_refused_by_number() -> None:
    content = bytearray(records.encode_message(KEY, Message("", b"", ESCAPING_NONE, b"", 0))[:-4])
    content[0] = 2
    with pytest.raises(DamagedRecord, match="version 2; this program reads version 1"):
        records.decode_message(KEY, sealed(bytes(content)))


@pytest.mark.parametrize("flags", [3, 4, 0x80])
def test_message_with_unknown_flags_is_refused(flags: int) -> None:
    content = bytearray(records.encode_message(KEY, Message("", b"", ESCAPING_NONE, b"", 0))[:-4])
    content[1] = flags
    with pytest.raises(DamagedRecord, match="impossible"):
        records.decode_message(KEY, sealed(bytes(content)))


@pytest.mark.parametrize(("at", "byte"), [(1, 2), (1, 0x81), (6, 2), (7, 3), (7, 4)])
def test_delayed_message_with_unknown_flags_or_versions_is_refused(at: int, byte: int) -> None:
    content = bytearray(records.encode_delayed(DELAYED_KEY, Message("", b"", ESCAPING_NONE, b"", 0), 0, False)[:-4])
    content[at] = byte
    value = bytes(content) + crc32(content, crc32(DELAYED_KEY)).to_bytes(4, "big")
    with pytest.raises(DamagedRecord, match="impossible"):
        records.decode_delayed(DELAYED_KEY, value)


@pytest.mark.parametrize("key", [KEY, DELAYED_KEY + b"\0"])
def test_delayed_message_under_a_key_of_another_length_is_refused(key: bytes) -> None:
    value = records.encode_delayed(key, Message("/queue/a", b"", ESCAPING_NONE, b"12", 0), 0, False)
    with pytest.raises(DamagedRecord, match="impossible"):
        records.decode_delayed(key, value)


def test_text_that_is_a_number_is_refused() -> None:
    """A page in the wrong place has right checksums."""
    with pytest.raises(DamagedRecord, match="is not text"):
        records.decode_text(KEY, sealed(b"\1\xff"))


def test_message_with_impossible_lengths_is_refused() -> None:
    content = bytearray(records.encode_message(KEY, Message("/queue/a", b"", ESCAPING_NONE, b"12", 0))[:-4])
    content[7] = 2
    assert records.decode_message(KEY, sealed(bytes(content))).body == b""
    content[7] = 3
    with pytest.raises(DamagedRecord, match="impossible"):
        records.decode_message(KEY, sealed(bytes(content)))
