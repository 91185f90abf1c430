"""What is read back of the last committed state: in order, within its limits, and nothing that is damaged."""

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from radiator.model.errors import DiskFailed, StoreError
from radiator.model.message import position_of
from radiator.model.reads import DedupLookup, ReadDelayed, ReadHeld, ReadKeys, ReadQueue
from radiator.model.writes import (
    Count,
    MakeDue,
    Put,
    Remember,
    StoppedClean,
)
from radiator.storage.codec import keyed, records
from radiator.storage.codec.tables import BY_KEY, HELD, MESSAGES
from radiator.storage.lmdb.store import open_store
from tests.storage.breaking import checked, flipped_copy, marks, reopened, rewrite, rewritten, run_forked, some_bits
from tests.storage.scribe import DUE_MS, MAP_BYTES, Scribe, filled, hash_of, message_of


def test_message_is_read_back_as_it_was_written(tmp_path: Path, scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    put = scribe.put(queue, bytes(range(256)) * 50, expires_ms=77)
    scribe.commit(put)
    for _ in range(2):
        [found] = scribe.store.load(ReadQueue(1, queue, 0, 10, 1 << 20)).messages
        assert found.message == put.message
        assert (found.position, found.redeliveries, found.redelivered) == (put.position, 0, False)
        scribe = reopened(scribe, tmp_path / "data", clean=True)


def test_messages_come_in_order_and_of_their_own_queue_alone(scribe: Scribe) -> None:
    queues = [scribe.declare(f"q{number}") for number in range(5)]
    puts = [scribe.put(queue, b"%d-%d" % (queue, nth)) for nth in range(50) for queue in queues]
    random.Random(1).shuffle(puts)
    for start in range(0, len(puts), 60):
        scribe.commit(*puts[start : start + 60])
    for queue in queues:
        assert scribe.bodies(queue) == [b"%d-%d" % (queue, nth) for nth in range(50)]


def test_later_boots_come_after_earlier_ones(tmp_path: Path, scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    scribe.commit(*[scribe.put(queue, b"1-%d" % nth) for nth in range(300)])
    scribe = reopened(scribe, tmp_path / "data")
    scribe.commit(scribe.put(queue, b"2-0"))
    assert scribe.bodies(queue)[-2:] == [b"1-299", b"2-0"]


def test_load_goes_on_after_a_position_and_keeps_both_limits(scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    puts = scribe.fill(queue, 10, b"x" * 1000)
    load = ReadQueue(1, queue, 0, 1_000, 1 << 20)
    assert [found.position for found in scribe.store.load(load).messages] == [put.position for put in puts]
    assert len(scribe.store.load(replace(load, messages_max=3)).messages) == 3
    assert len(scribe.store.load(replace(load, bytes_max=3_500)).messages) == 3
    assert len(scribe.store.load(replace(load, after=puts[6].position)).messages) == 3
    assert scribe.store.load(replace(load, after=puts[9].position)).messages == []
    assert scribe.store.load(replace(load, queue=99)).messages == []


def test_load_gives_one_message_however_large(scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    scribe.fill(queue, 2, b"x" * 100_000)
    assert len(scribe.store.load(ReadQueue(1, queue, 0, 10, 1)).messages) == 1


def test_flipped_bit_never_gives_a_wrong_message(tmp_path: Path) -> None:
    """Refused at the start, marked as damaged, or the process dies in LMDB: but what is given out was put in."""
    expected, _ = filled(tmp_path / "data")

    def load_all() -> None:
        try:
            store = open_store(tmp_path / "flipped", MAP_BYTES)
            for queue in (1, 2, 3):
                for found in store.load(ReadQueue(1, queue, 0, 1_000_000, 1 << 40)).messages:
                    if found.message is not None and expected.get((queue, found.position)) != found.message:
                        os._exit(7)
        except (StoreError, DiskFailed):
            pass

    for bit in some_bits(tmp_path / "data", 150):
        flipped_copy(tmp_path / "data", tmp_path / "flipped", bit)
        assert run_forked(load_all) not in (7, 99), f"bit {bit} gave a wrong message, or an exception of no known kind"


def test_damaged_message_is_withheld_and_the_others_are_given(tmp_path: Path, scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    puts = [scribe.put(queue, b"body-%d" % nth) for nth in range(5)]
    scribe.commit(*puts)
    scribe.store.close()
    key = records.message_key(queue, puts[2].position)
    value = records.encode_message(key, message_of(b"body-2"))
    rewrite(tmp_path / "data", MESSAGES, key, value.replace(b"body-2", b"body-3"))
    scribe = Scribe(tmp_path / "data")
    assert scribe.bodies(queue) == [b"body-0", b"body-1", None, b"body-3", b"body-4"]
    found = scribe.store.load(ReadQueue(1, queue, 0, 10, 1 << 20)).messages[2]
    assert (found.position, found.message) == (puts[2].position, None)


@pytest.mark.parametrize("sequence", [0, 2**40])
def test_message_under_a_damaged_key_is_given_as_the_disk_has_it(tmp_path: Path, scribe: Scribe, sequence: int) -> None:
    """Its place means nothing: whoever asks sees that the positions do not ascend."""
    queue = scribe.declare("orders")
    puts = scribe.fill(queue, 4)
    file = tmp_path / "data" / "data.mdb"
    key, damaged = (records.message_key(queue, place) for place in (puts[1].position, position_of(1, sequence)))
    whole = file.read_bytes()
    assert whole.count(key) == 1
    with file.open("r+b") as served:  # a start would refuse so short a file: it is damaged while it is served
        served.seek(whole.index(key))
        served.write(damaged)
    found = scribe.store.load(ReadQueue(1, queue, 0, 10, 1 << 20)).messages
    places = [puts[nth].position for nth in range(4)]
    assert [stored.position for stored in found] == [places[0], position_of(1, sequence), *places[2:]]
    assert found[1].message is None


def test_damaged_count_says_redelivered_and_damaged_dedup_id_is_not_remembered(tmp_path: Path, scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    put = scribe.fill(queue, 1)[0]
    scribe.store.commit([Count(queue, put.position, 9, redelivered=False), Remember(queue, b"x", 9)])
    scribe = reopened(scribe, tmp_path / "data", clean=True)
    scribe.store.commit([StoppedClean()])
    scribe.store.close()
    key, dedup = records.message_key(queue, put.position), records.dedup_key(queue, b"x")
    rewrite(tmp_path / "data", b"counts", key, records.encode_count(key, 9, False)[:-1] + b"?")
    rewrite(tmp_path / "data", b"dedup", dedup, records.encode_number(dedup, 9)[:-1] + b"?")
    scribe = Scribe(tmp_path / "data")
    assert marks(scribe, queue) == [(0, True)]
    assert not scribe.store.look_up(DedupLookup(1, queue, b"x", 0))
    assert len(checked(scribe).findings) == 3  # and the time that has lost its id


@pytest.mark.parametrize(("most", "bytes_max"), [(2, 1 << 20), (9, 1)])
def test_damaged_delayed_message_comes_without_message_and_keeps_no_other_back(
    tmp_path: Path, scribe: Scribe, most: int, bytes_max: int
) -> None:
    """However many there are before it: they stay where they are, and come in every answer."""
    queue = scribe.declare("orders")
    delays = [scribe.delay(queue, DUE_MS + nth, b"body-%d" % nth) for nth in range(8)]
    scribe.commit(*delays)
    scribe = rewritten(tmp_path / "data", scribe, [*delays[:5], delays[6]])
    found = scribe.store.load_delayed(ReadDelayed(1, queue, DUE_MS + 9, most, bytes_max))
    bodies = [one.stored.message and one.stored.message.body for one in found.messages]
    assert bodies == [None] * 5 + ([b"body-5", None, b"body-7"] if most == 2 else [b"body-5"])
    assert [one.due_ms for one in found.messages] == [delay.due_ms for delay in delays[: len(bodies)]]
    assert [one.stored.position for one in found.messages] == [delay.position for delay in delays[: len(bodies)]]
    assert found.next_due_ms == (0 if most == 2 else DUE_MS + 6)
    sound = [one for one in found.messages if one.stored.message is not None]
    wakes = [MakeDue(queue, one.due_ms, one.stored.position) for one in sound]
    scribe.store.commit(wakes)
    again = scribe.store.load_delayed(ReadDelayed(2, queue, DUE_MS + 7, 9, 1 << 20))
    assert [one.stored.message for one in again.messages] == [None] * 6


# ---- by keys --------------------------------------------------------------------------------------------------------

ALL = (1 << 96) - 1


def of_key(scribe: Scribe, key: bytes = hash_of(0), after: int = 0) -> list[bytes | None]:
    """The bodies of queue 1 that have that key."""
    [found] = scribe.store.load_keys(ReadKeys(1, 1, [(key, after)], ALL, 100, 1 << 20)).found
    assert found.is_complete
    return [stored.message and stored.message.body for stored in found.messages]


def keyed_store(scribe: Scribe) -> list[Put]:
    """Closed: four messages of key 0, and as many of key 1 between them."""
    queue = scribe.declare("orders")
    puts = [scribe.put(queue, b"body %d" % number, key=hash_of(number % 2)) for number in range(8)]
    scribe.commit(*puts)
    scribe.store.close()
    return puts


def test_damaged_message_of_a_key_keeps_its_place(tmp_path: Path, scribe: Scribe) -> None:
    puts = keyed_store(scribe)
    for put in puts[2], puts[4]:
        key = records.message_key(1, put.position)
        value = records.encode_message(key, put.message).replace(b"body", b"bode")
        rewrite(tmp_path / "data", MESSAGES, key, value)
    again = Scribe(tmp_path / "data")
    assert of_key(again) == [b"body 0", None, None, b"body 6"]
    [found] = again.store.load_keys(ReadKeys(1, 1, [(hash_of(0), puts[0].position)], ALL, 2, 0)).found
    assert [stored.message for stored in found.messages] == [None] and not found.is_complete, (
        "it counts as the others do"
    )
    assert of_key(again, hash_of(1)) == [b"body %d" % number for number in (1, 3, 5, 7)]


@pytest.mark.durability("D32")
def test_row_of_a_key_whose_message_is_gone_is_told_with_its_queue(tmp_path: Path, scribe: Scribe) -> None:
    puts = keyed_store(scribe)
    # another one is there, so that as many are as the ledger says
    place, stray = (records.message_key(1, position) for position in (puts[4].position, puts[7].position + 9))
    rewrite(tmp_path / "data", MESSAGES, place, None)
    rewrite(tmp_path / "data", MESSAGES, stray, records.encode_message(stray, puts[4].message))
    again = Scribe(tmp_path / "data")
    with pytest.raises(StoreError, match=f"queue 'orders' has the key of message {place.hex()}, which is not there"):
        of_key(again)
    assert of_key(again, after=puts[4].position) == [b"body 6"]
    assert of_key(again, hash_of(1)) == [b"body %d" % number for number in (1, 3, 5, 7)]


@pytest.mark.parametrize("is_longer", [False, True])
def test_damaged_row_of_a_key_is_damage(tmp_path: Path, scribe: Scribe, is_longer: bool) -> None:
    puts = keyed_store(scribe)
    key = keyed.by_key_key(1, hash_of(0), puts[4].position) + b"\0" * is_longer
    value = keyed.encode_by_key(key)
    rewrite(tmp_path / "data", BY_KEY, key, value if is_longer else value[:-1] + b"?")
    with pytest.raises(
        StoreError, match=f"is damaged: The row .*under key {key.hex()} is damaged: .* Run `radiator check`"
    ):
        of_key(Scribe(tmp_path / "data"))


def test_damaged_row_of_what_is_held_is_damage(tmp_path: Path, scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    delays = [scribe.delay(queue, DUE_MS, b"late", held=hash_of(number)) for number in range(3)]
    scribe.commit(*delays)
    scribe.store.close()
    key = records.message_key(queue, delays[1].position)
    rewrite(tmp_path / "data", HELD, key, keyed.encode_held(key, hash_of(1))[:-1] + b"?")
    store = Scribe(tmp_path / "data").store
    assert store.load_held(ReadHeld(1, queue, 0, 1)).held == [(delays[0].position, hash_of(0))]
    assert store.load_held(ReadHeld(1, queue, delays[1].position, 9)).held == [(delays[2].position, hash_of(2))]
    with pytest.raises(StoreError, match=f"is damaged: The row of held under key {key.hex()} is damaged"):
        store.load_held(ReadHeld(1, queue, 0, 2))


def test_what_is_read_by_keys_is_never_older_than_what_was_committed(scribe: Scribe) -> None:
    """Right behind each commit: the tables have none of it yet."""
    scribe.keeps_up = False
    queue = scribe.declare("orders")
    put = scribe.put(queue, b"body", key=hash_of(0))
    scribe.commit(put)
    assert len(scribe.store._follower._open.tables) > 2
    assert of_key(scribe) == [b"body"]
    scribe.commit(scribe.remove(queue, put.position))
    assert of_key(scribe) == []
    delay = scribe.delay(queue, DUE_MS, b"late", held=hash_of(0))
    scribe.commit(delay)
    assert scribe.store.load_held(ReadHeld(1, queue, 0, 9)).held == [(delay.position, hash_of(0))]
    scribe.commit(*scribe.wake(queue, delay.position))
    assert scribe.store.load_held(ReadHeld(1, queue, 0, 9)).held == []
    assert of_key(scribe) == [b"late"]
