"""The Store contract on keys of messages: LMDB and the simulated disk, by examples and by random histories."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random

import pytest

from radiator.model.limits import MIB
from radiator.model.message import position_of
from radiator.model.reads import KeyMessages, LoadedHeld, LoadedKeys, ReadHeld, ReadKeys, StoredMessage
from radiator.model.writes import (
    Count,
    Declare,
    Delay,
    MakeDue,
    Put,
    Remove,
    Retire,
    StoppedClean,
    Sweep,
    Write,
)
from radiator.storage.check import check
from radiator.storage.contract import Store
from tests.contracts.test_store import Again, books, closing, delayed_books, lmdb_again, put, refuses, sim_again
from tests.storage.key_batches import HASHES, KeyBatches

A, B, C = HASHES[:3]
END = position_of(1, 1 << 40)
LAST = (1 << 96) - 1
SIZE = 7  # of each message here


@pytest.fixture(params=[lmdb_again, sim_again], ids=["lmdb", "simulated"])
def again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Again]:
    yield from closing(request.param(tmp_path))


def at(number: int) -> int:
    return position_of(1, number)


def keyed(number: int, key: bytes, queue: int = 1) -> Put:
    return replace(put(queue, number), key=key)


KEYS = {1: A, 2: A, 3: B, 4: b"", 5: A, 6: C, 7: B, 8: A}


def filled(again: Again) -> Store:
    """Of key A four, of B two, of C one, one without; and as many of A in another queue, at the same positions."""
    store = again(None)
    puts = [keyed(number, key) for number, key in KEYS.items()]
    store.commit([Declare(1, "q"), Declare(2, "r"), *puts, books(1, 8)])
    store.commit([*(keyed(number, A, 2) for number in KEYS), books(2, 8)])
    return store


def ask(
    keys: list[tuple[bytes, int]], through: int = END, most: int = 100, bytes_max: int = MIB, queue: int = 1
) -> ReadKeys:
    return ReadKeys(7, queue, [(key, at(after) if after else 0) for key, after in keys], through, most, bytes_max)


def numbers(loaded: LoadedKeys) -> list[tuple[list[int], bool]]:
    return [([one.position & (1 << 64) - 1 for one in key.messages], key.is_complete) for key in loaded.found]


def test_messages_of_each_key_come_in_order_and_as_they_were_put(again: Again) -> None:
    store = filled(again)
    store.commit([Count(1, at(2), 3), books(1, 8)])
    loaded = store.load_keys(ask([(B, 0), (A, 0), (HASHES[3], 0), (C, 0)]))
    assert numbers(loaded) == [([3, 7], True), ([1, 2, 5, 8], True), ([], True), ([6], True)]
    assert loaded.request == 7
    message = put(1, 1).message
    assert loaded.found[1].messages[:2] == [
        StoredMessage(at(1), message, 0, redelivered=False),
        StoredMessage(at(2), message, 3, redelivered=True),
    ]


@pytest.mark.parametrize(
    ("after", "through", "expected"),
    [(0, 8, [1, 2, 5, 8]), (1, 8, [2, 5, 8]), (2, 7, [5]), (3, 5, [5]), (4, 4, []), (8, 9, []), (5, 5, []), (9, 8, [])],
)
def test_only_those_behind_a_position_and_through_another_are_loaded(
    again: Again, after: int, through: int, expected: list[int]
) -> None:
    loaded = filled(again).load_keys(ask([(A, after), (B, 7)], at(through)))
    assert numbers(loaded) == [(expected, True), ([], True)]


@pytest.mark.parametrize(("most", "is_complete"), [(1, False), (2, False), (3, False), (4, True), (5, True)])
def test_no_more_of_each_key_are_loaded_than_are_asked_for(again: Again, most: int, is_complete: bool) -> None:
    found = numbers(filled(again).load_keys(ask([(A, 0), (B, 0)], most=most)))
    assert found == [([1, 2, 5, 8][:most], is_complete), ([3, 7][:most], most >= 2)]


def test_a_key_is_complete_where_further_ones_come_behind_the_end(again: Again) -> None:
    assert numbers(filled(again).load_keys(ask([(A, 0)], at(7), most=3))) == [([1, 2, 5], True)]


@pytest.mark.parametrize(
    ("bytes_max", "expected"),
    [
        (0, [([1], False), ([], False), ([], False)]),
        (2 * SIZE - 1, [([1], False), ([], False), ([], False)]),
        (2 * SIZE, [([1, 2], False), ([], False), ([], False)]),
        (4 * SIZE, [([1, 2, 5, 8], True), ([], False), ([], False)]),
        (5 * SIZE, [([1, 2, 5, 8], True), ([3], False), ([], False)]),
        (6 * SIZE, [([1, 2, 5, 8], True), ([3, 7], True), ([], False)]),
        (7 * SIZE, [([1, 2, 5, 8], True), ([3, 7], True), ([6], True)]),
    ],
)
def test_all_keys_together_have_one_limit(again: Again, bytes_max: int, expected: list[tuple[list[int], bool]]) -> None:
    assert numbers(filled(again).load_keys(ask([(A, 0), (B, 0), (C, 0)], bytes_max=bytes_max))) == expected


def test_one_message_of_any_size_is_loaded_of_the_first_key_that_has_one(again: Again) -> None:
    found = filled(again).load_keys(ask([(HASHES[3], 0), (C, 0), (A, 0)], bytes_max=0))
    assert numbers(found) == [([], True), ([6], True), ([], False)]


def test_nothing_is_loaded_of_no_keys_or_of_no_queue(again: Again) -> None:
    store = filled(again)
    assert store.load_keys(ask([])) == LoadedKeys(7)
    assert store.load_keys(ask([(A, 0)], queue=3)) == LoadedKeys(7, [KeyMessages([], True)])


def test_one_key_may_be_asked_for_twice(again: Again) -> None:
    assert numbers(filled(again).load_keys(ask([(A, 5), (A, 0)]))) == [([8], True), ([1, 2, 5, 8], True)]


def test_removed_messages_are_not_found_any_more(again: Again) -> None:
    store = filled(again)
    store.commit([Remove(1, at(2), A), Remove(1, at(4)), keyed(9, C), Remove(1, at(9), C), books(1, 6)])
    for _ in range(2):
        assert numbers(store.load_keys(ask([(A, 0), (C, 0)]))) == [([1, 5, 8], True), ([6], True)]
        store = again(store)


def test_restart_finds_all_by_their_keys_and_marks_them(again: Again) -> None:
    store = again(filled(again))
    loaded = store.load_keys(ask([(B, 0)]))
    assert [one.redelivered for one in loaded.found[0].messages] == [True, True]
    store.commit([replace(put(1, 1, boot=2), key=B), books(1, 9), StoppedClean()])
    loaded = again(store).load_keys(ask([(B, 0)], position_of(3, 0)))
    assert [one.redelivered for one in loaded.found[0].messages] == [True, True, False]


# ---- what is held ---------------------------------------------------------------------------------------------------


def late(number: int, due_ms: int, held: bytes = b"") -> Delay:
    return Delay(1, due_ms, at(number), put(1, number).message, held=held)


def holding(again: Again) -> Store:
    """Three of four delayed messages hold their keys, two of them one."""
    store = again(None)
    delays = [late(4, 10, A), late(2, 30, B), late(3, 20), late(1, 40, A)]
    store.commit([Declare(1, "q"), Declare(2, "r"), *delays, delayed_books(4, 4)])
    return store


HELD = [(at(1), A), (at(2), B), (at(4), A)]


@pytest.mark.parametrize(("after", "most"), [*product(range(6), (1, 2, 3, 4))])
def test_what_is_held_comes_in_order_up_to_its_limit(again: Again, after: int, most: int) -> None:
    left = [one for one in HELD if one[0] > at(after)]
    found = holding(again).load_held(ReadHeld(8, 1, at(after), most))
    assert found == LoadedHeld(8, left[:most], len(left) > most)


def test_nothing_is_held_elsewhere(again: Again) -> None:
    store = holding(again)
    assert store.load_held(ReadHeld(1, 2, 0, 9)) == store.load_held(ReadHeld(1, 3, 0, 9)) == LoadedHeld(1)
    assert numbers(store.load_keys(ask([(A, 0)]))) == [([], True)], "a delayed message is not found by its key"


def test_what_is_held_is_let_go_when_it_is_due_and_stays_over_a_restart(again: Again) -> None:
    store = holding(again)
    store.commit([MakeDue(1, 40, at(1), A), keyed(1, A), MakeDue(1, 20, at(3)), delayed_books(3, 2)])
    for _ in range(2):
        assert store.load_held(ReadHeld(1, 1, 0, 9)).held == HELD[1:]
        assert numbers(store.load_keys(ask([(A, 0)]))) == [([1], True)]
        store = again(store)


def test_message_comes_back_and_holds_its_key_until_it_is_due(again: Again) -> None:
    store = filled(again)
    message = put(1, 1).message
    back: list[Write] = [Remove(1, at(2), A), Delay(1, 50, at(2), message, 1, True, A)]
    store.commit([*back, delayed_books(8, 1)])
    assert store.load_held(ReadHeld(1, 1, 0, 9)).held == [(at(2), A)]
    assert numbers(store.load_keys(ask([(A, 0)]))) == [([1, 5, 8], True)]
    store = again(store)
    later = Delay(1, 60, at(2), message, 2, True, A)
    store.commit([MakeDue(1, 50, at(2), A), later, delayed_books(8, 1)])
    assert store.load_held(ReadHeld(1, 1, 0, 9)).held == [(at(2), A)], "it was due and came back in one batch"
    store.commit([MakeDue(1, 60, at(2), A), keyed(2, A), Count(1, at(2), 2), delayed_books(8, 0)])
    assert store.load_held(ReadHeld(1, 1, 0, 9)).held == []
    [found] = store.load_keys(ask([(A, 0)])).found
    assert [(one.position, one.redeliveries) for one in found.messages][1] == (at(2), 2)


# ---- deleted queues -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slices", [[10], [1] * 10, [3, 7], [9, 1]])
def test_deleted_queue_has_nothing_by_its_keys_while_it_is_swept(again: Again, slices: list[int]) -> None:
    store = filled(again)
    store.commit([late(11, 50, B), late(12, 40, A), delayed_books(10, 2)])
    store.commit([Retire(1, "q", 10)])
    left = 10
    for count in slices:
        left -= count
        store.commit([Sweep(1, count, left)])
        assert store.load_keys(ask([(A, 0), (B, 2)])) == LoadedKeys(7, [KeyMessages([], True)] * 2)
        assert store.load_held(ReadHeld(1, 1, 0, 9)) == LoadedHeld(1)
    store = again(store)
    assert store.recovery.retired == {}
    assert numbers(store.load_keys(ask([(A, 6)], queue=2))) == [([7, 8], True)], "other queues keep theirs"


@pytest.mark.parametrize(
    "wrong",
    [
        [replace(put(1, 9), key=b"h" * 7)],
        [replace(put(1, 9), key=b"h" * 9)],
        [Remove(1, at(3), A)],
        [Remove(1, at(4), A)],
        [keyed(9, A), Remove(1, at(9), B)],
        [late(9, 5, b"h")],
        [late(9, 5, b"h" * 9)],
        [MakeDue(1, 60, at(11), A)],
        [MakeDue(1, 60, at(10), b"h")],
        [Remove(1, at(1), A), Remove(1, at(1), A)],
    ],
    ids=["short", "long", "of-another-key", "of-no-key", "put-with-another", "held-short", "held-long",
         "due-of-none", "due-short", "twice"],
)  # fmt: skip
def test_key_that_contradicts_the_store_is_a_bug(again: Again, wrong: list[Write]) -> None:
    store = filled(again)
    if any(isinstance(write, MakeDue) for write in wrong):
        store.commit([late(10, 60, B), late(11, 60), delayed_books(10, 2)])
    refuses(again, store, wrong)


# ---- random histories -----------------------------------------------------------------------------------------------


def assert_same_answers(real: Store, simulated: Store, history: KeyBatches) -> None:
    chance = history.chance
    positions = [0, *(position for _, position in [*history.messages, *history.delayed])]
    for queue in range(1, history.next_queue + 1):
        for _ in range(3):
            asked = chance.choices([*HASHES, bytes(8)], k=chance.randrange(6))
            keys = [(hashed, chance.choice(positions)) for hashed in asked]
            through = chance.choice([*positions, LAST])
            bytes_max = chance.choice((0, 100, 500, MIB))
            read_keys = ReadKeys(1, queue, keys, through, chance.choice((1, 2, 100)), bytes_max)
            assert real.load_keys(read_keys) == simulated.load_keys(read_keys), read_keys
            read_held = ReadHeld(2, queue, chance.choice(positions), chance.choice((1, 2, 100)))
            assert real.load_held(read_held) == simulated.load_held(read_held), read_held


def assert_all_is_found(store: Store, history: KeyBatches) -> None:
    """Each message by its key, and no other."""
    for queue in history.queues:
        loaded = store.load_keys(ReadKeys(1, queue, [(key, 0) for key in HASHES], LAST, 10_000, 1 << 40))
        for key, found in zip(HASHES, loaded.found, strict=True):
            wanted = sorted(place for place, its in history.keys.items() if its == key and place[0] == queue)
            assert [(queue, one.position) for one in found.messages] == wanted and found.is_complete
            assert [one.message for one in found.messages] == [history.messages[place] for place in wanted]
        of_queue = sorted((delay.position, delay.held) for delay in history.delayed.values() if delay.queue == queue)
        assert store.load_held(ReadHeld(1, queue, 0, 10_000)).held == [one for one in of_queue if one[1]]


@pytest.mark.parametrize("seed", range(12))
def test_both_stores_give_the_same_of_any_history(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    history = KeyBatches(chance)
    again = lmdb_again(tmp_path), sim_again(tmp_path)
    real, simulated = (open_it(None) for open_it in again)
    seen: set[type] = set()
    for _ in range(60):
        batch = history.batch()
        seen |= {type(write) for write in batch}
        for store in (real, simulated):
            store.commit(batch)
        if chance.random() < 0.3:
            assert_same_answers(real, simulated, history)
        if chance.random() < 0.1:
            real, simulated = again[0](real), again[1](simulated)
            history.boot = real.recovery.boot
            assert real.recovery.retired == simulated.recovery.retired == history.left
    assert_same_answers(real, simulated, history)
    assert_all_is_found(real, history)
    assert seen >= {Put, Remove, Delay, MakeDue, Retire, Sweep}, "the history says too little"
    real.close()
    assert check(tmp_path / "data").findings == []
