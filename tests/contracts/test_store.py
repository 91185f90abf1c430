"""The Store contract (radiator/storage/contract.py): one suite over the store on LMDB and the simulated disk.

The simulated disk is only worth something if it does what the real one does: so the same tests run on both, and a whole
broker writes to both at once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, replace
from functools import partial
from pathlib import Path
from random import Random

import pytest

from radiator.model.commands import AUTO, CLIENT
from radiator.model.limits import MIB, PEER_STORES_KEPT
from radiator.model.message import Message, position_of
from radiator.model.reads import (
    DedupLookup,
    Loaded,
    LoadedDelayed,
    LoadedHeld,
    LoadedKeys,
    ReadDelayed,
    ReadHeld,
    ReadKeys,
    ReadQueue,
    StoredDelayed,
    StoredMessage,
)
from radiator.model.recovery import StoredDoubt
from radiator.model.settings import QueueSettings
from radiator.model.writes import (
    Bind,
    Count,
    Declare,
    Delay,
    Doubt,
    DropDeclared,
    Forget,
    KeepDeclared,
    KeepPeer,
    KeepSettings,
    KeepTime,
    Ledger,
    MakeDue,
    PeerStore,
    Put,
    Remember,
    Remove,
    Retire,
    SaveLedger,
    Settle,
    StoppedClean,
    Sweep,
    Unbind,
    Write,
)
from radiator.storage.contract import Store
from radiator.storage.lmdb.store import open_store
from tests.core.conftest import SMALL, shrink
from tests.core.node import Node
from tests.core.words import ack, begin, commit, nack, queues, send, subscribe
from tests.sim.disk import SimDisk

Again = Callable[[Store | None], Store]  # opens the store, or opens it again after a stop or a crash


def lmdb_again(path: Path) -> Again:
    def again(store: Store | None) -> Store:
        if store is not None:
            store.close()
        return open_store(path / "data", 64 * MIB)

    return again


def sim_again(path: Path) -> Again:
    return lambda store: SimDisk(store.platter if isinstance(store, SimDisk) else None)


def closing(again: Again) -> Iterator[Again]:
    """The same, for a fixture; what was opened last is closed behind the test."""
    opened: list[Store] = []

    def closed_later(store: Store | None) -> Store:
        opened[:] = [again(store)]
        return opened[0]

    yield closed_later
    for store in opened:
        store.close()


@pytest.fixture(params=[lmdb_again, sim_again], ids=["lmdb", "simulated"])
def again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Again]:
    yield from closing(request.param(tmp_path))


def put(queue: int, number: int, size: int = 3, boot: int = 1) -> Put:
    return Put(queue, position_of(boot, number), Message("/queue/q", b"a:b\n", 2, bytes(size), 1, 2))


def books(queue: int, messages: int, size: int = 7) -> SaveLedger:
    return SaveLedger(queue, Ledger(messages, messages * size, messages, messages * size, stored_expiring=messages))


def filled(again: Again, count: int = 5) -> Store:
    store = again(None)
    store.commit([Declare(1, "q"), *(put(1, n) for n in range(1, count + 1)), books(1, count)])
    return store


def sequences(loaded: Loaded) -> list[int]:
    return [stored.position & (1 << 64) - 1 for stored in loaded.messages]


def test_messages_are_loaded_in_order_and_as_they_were_put(again: Again) -> None:
    store = again(None)
    writes: list[Write] = [Declare(1, "q"), Declare(2, "r"), put(2, 9), put(1, 3), put(1, 1), put(1, 2)]
    store.commit([*writes, books(1, 3), books(2, 1)])
    loaded = store.load(ReadQueue(1, 1, 0, 100, MIB))
    found = loaded.messages
    assert sequences(loaded) == [1, 2, 3] and not loaded.has_more
    assert found[0].message == put(1, 1).message
    assert [(s.redeliveries, s.redelivered) for s in found] == [(0, False)] * 3


@pytest.mark.parametrize(
    "after, most, expected", [(0, 2, [1, 2]), (2, 2, [3, 4]), (4, 9, [5]), (5, 9, []), (3, 1, [4])]
)
def test_load_goes_on_after_a_position_up_to_its_limit(
    again: Again, after: int, most: int, expected: list[int]
) -> None:
    store = filled(again)
    loaded = store.load(ReadQueue(1, 1, position_of(1, after), most, MIB))
    assert (sequences(loaded), loaded.has_more) == (expected, after + len(expected) < 5)


def test_load_gives_at_least_one_message_of_any_size(again: Again) -> None:
    store = again(None)
    store.commit([Declare(1, "q"), put(1, 1, 5000), put(1, 2, 5000), books(1, 2, 5004)])
    loaded = store.load(ReadQueue(1, 1, 0, 100, 1))
    assert (sequences(loaded), loaded.has_more) == ([1], True)


@pytest.mark.parametrize("first", [0, 1, 4999, 5000, 5001, 2**62])
@pytest.mark.parametrize("most", [1, 300, 5000, 2**62])
def test_load_gives_a_part_of_a_body(again: Again, first: int, most: int) -> None:
    store = again(None)
    whole = Message("/queue/q", b"a:b\n", 2, bytes(range(250)) * 20, 1000)
    other, no_body = replace(whole, body=b"x"), replace(whole, body=b"")
    places = [position_of(1, n) for n in (1, 2, 3, 4)]
    writes = [Put(1, place, message) for place, message in zip(places, (whole, other, no_body), strict=False)]
    size = sum(write.message.size for write in writes)
    store.commit([Declare(1, "q"), *writes, books(1, 3, size), Count(1, places[0], 3, True)])
    loaded = store.load(ReadQueue(7, 1, 0, 4, 0, tuple(places), (first, most)))
    assert (loaded.request, loaded.has_more) == (7, False)
    assert loaded.messages == [
        StoredMessage(
            place,
            replace(message, body=message.body[first : first + most]),
            3 if message is whole else 0,
            message is whole,
            len(message.body),
        )
        for place, message in zip(places, (whole, other, no_body), strict=False)
    ]


def test_removed_message_is_gone_with_its_count(again: Again) -> None:
    store = filled(again)
    store.commit([Count(1, position_of(1, 2), 4), Count(1, position_of(1, 3), 0, True), books(1, 5)])
    assert [(s.redeliveries, s.redelivered) for s in store.load(ReadQueue(1, 1, 0, 3, MIB)).messages] == [
        (0, False),
        (4, True),
        (0, True),
    ]
    store.commit([Remove(1, position_of(1, 2)), books(1, 4)])
    assert sequences(store.load(ReadQueue(2, 1, 0, 9, MIB))) == [1, 3, 4, 5]


@pytest.mark.parametrize("clean", [True, False])
def test_restart_finds_everything_and_marks_it_after_an_unclean_stop(again: Again, clean: bool) -> None:
    store = filled(again)
    first = store.recovery
    store.commit([Count(1, position_of(1, 2), 0, True), *([StoppedClean()] if clean else [])])
    store = again(store)
    recovery = store.recovery
    assert recovery.store_id == first.store_id and recovery.boot == first.boot + 1
    assert recovery.was_clean == clean and recovery.next_queue == 2
    assert [(q.number, q.name, astuple(q.ledger)) for q in recovery.queues] == [(1, "q", astuple(books(1, 5).ledger))]
    marks = [s.redelivered for s in store.load(ReadQueue(1, 1, 0, 9, MIB)).messages]
    assert marks == ([False, True, False, False, False] if clean else [True] * 5)


def test_marks_of_an_unclean_stop_stay_over_a_clean_one(again: Again) -> None:
    store = again(filled(again))
    store.commit([put(1, 1, boot=2), books(1, 6), StoppedClean()])
    store = again(store)
    assert [s.redelivered for s in store.load(ReadQueue(1, 1, 0, 9, MIB)).messages] == [True] * 5 + [False]


def test_dedup_id_is_remembered_until_its_time(again: Again) -> None:
    store = again(None)
    store.commit([Declare(1, "q"), Declare(2, "r"), Remember(1, b"i", 100), books(1, 0), books(2, 0)])
    assert [store.look_up(DedupLookup(1, 1, b"i", now_ms)) for now_ms in (0, 100, 101)] == [True, True, False]
    assert not store.look_up(DedupLookup(1, 2, b"i", 0)) and not store.look_up(DedupLookup(1, 1, b"j", 0))


def test_forget_drops_what_is_past_and_nothing_else(again: Again) -> None:
    store = again(None)
    store.commit([Declare(1, "q"), *(Remember(1, b"%d" % n, n) for n in range(10)), books(1, 0)])
    store.commit([Forget(5, 100)])
    assert [store.look_up(DedupLookup(1, 1, b"%d" % n, 0)) for n in range(10)] == [False] * 5 + [True] * 5


def test_dedup_id_remembered_again_keeps_its_later_time(again: Again) -> None:
    store = again(None)
    store.commit([Declare(1, "q"), Remember(1, b"i", 10), books(1, 0)])
    store.commit([Remember(1, b"i", 50)])
    store.commit([Forget(20, 100)])
    assert store.look_up(DedupLookup(1, 1, b"i", 30))


def test_retired_queue_is_swept_in_slices_over_a_restart(again: Again) -> None:
    store = filled(again)
    store.commit([books(1, 5), Retire(1, "q", 5), Declare(2, "q"), put(2, 9), books(2, 1)])
    store.commit([Sweep(1, 2, 3)])
    store = again(store)
    assert store.recovery.retired == {1: 3} and [q.number for q in store.recovery.queues] == [2]
    store.commit([Sweep(1, 3, 0)])
    store = again(store)
    assert store.recovery.retired == {} and sequences(store.load(ReadQueue(1, 2, 0, 9, MIB))) == [9]


def test_queue_numbers_are_never_used_again(again: Again) -> None:
    store = filled(again, 1)
    store.commit([Remove(1, position_of(1, 1)), books(1, 0), Retire(1, "q", 0)])
    store = again(store)
    assert store.recovery.next_queue == 2 and store.recovery.queues == []
    with pytest.raises(AssertionError):
        store.commit([Declare(1, "q")])


@pytest.mark.parametrize("late", [put(1, 9), books(1, 1), Delay(1, 20, position_of(1, 9), put(1, 9).message)])
def test_nothing_is_written_in_a_queue_that_is_gone(again: Again, late: Write) -> None:
    """Else the next start would find a ledger, or messages, without a queue."""
    store = filled(again)
    store.commit([Declare(2, "other"), put(1, 6), books(1, 6), Retire(1, "q", 6)])  # in one batch it may
    with pytest.raises(AssertionError, match="which are not there|there is no row .* in queues"):
        store.commit([late])


@pytest.mark.parametrize("wrong", [put(1, 1), Remove(1, position_of(1, 9)), Retire(1, "q", 5)])
def test_write_that_contradicts_the_store_is_a_bug(again: Again, wrong: Write) -> None:
    store = filled(again)
    if isinstance(wrong, Retire):
        store.commit([books(1, 5), wrong])
    with pytest.raises((AssertionError, KeyError)):
        store.commit([wrong])


# ---- linked nodes ---------------------------------------------------------------------------------------------------

B = KeepPeer("b", "0123456789abcdef", 1, 0, 3, 4, 5)
LEAST = KeepPeer("a", "", 0, 0, 0, 0, 0)
EARLIER = tuple(PeerStore("é" * 32, *[2**64 - 1] * 4) for _ in range(PEER_STORES_KEPT))
MOST = KeepPeer("z" * 64, "é" * 32, *[2**64 - 1] * 5, EARLIER)


def doubt(sequence: int, number: int, peer: str = "b") -> Doubt:
    return Doubt(peer, sequence, 1, position_of(1, number))


def test_message_may_be_doubted_settled_and_removed_in_one_batch(again: Again) -> None:
    store = filled(again)
    store.commit([B, doubt(1, 1), Settle("b", 1), Remove(1, position_of(1, 1)), books(1, 4)])
    store = again(store)
    assert store.recovery.doubts == [] and sequences(store.load(ReadQueue(1, 1, 0, 9, MIB))) == [2, 3, 4, 5]


def test_new_store_knows_no_nodes(again: Again) -> None:
    recovery = again(None).recovery
    assert (recovery.peers, recovery.doubts) == ([], [])


def test_linked_nodes_come_back_by_name_each_as_it_was_last_kept(again: Again) -> None:
    store = again(None)
    store.commit([KeepPeer("b", "fedcba9876543210", 9, 9, 9, 9, 9), MOST])
    store.commit([B, LEAST])
    store = again(store)
    assert store.recovery.peers == [LEAST, B, MOST]
    store.commit([replace(B, in_last=6)])
    assert again(store).recovery.peers == [LEAST, replace(B, in_last=6), MOST]


def test_doubts_come_back_by_peer_and_sequence_with_size_and_expiry(again: Again) -> None:
    store = filled(again)
    message = Message("/queue/orders", b"a:b\n", 2, b"12", 1, 0)
    ledger = Ledger(6, 41, 6, 41, stored_expiring=5)
    store.commit([Put(1, position_of(1, 9), message), SaveLedger(1, ledger)])
    last = 2**64 - 1
    store.commit([KeepPeer(name, "", 1, 6, last, 1, 0) for name in ("b.c", "a", "b")])
    store.commit([doubt(last, 1), doubt(256, 2), doubt(255, 9), doubt(7, 3, "b.c"), doubt(8, 4, "a")])
    store = again(store)
    assert store.recovery.doubts == [
        StoredDoubt("a", 8, 1, position_of(1, 4), 7, True),
        StoredDoubt("b", 255, 1, position_of(1, 9), 6, False),
        StoredDoubt("b", 256, 1, position_of(1, 2), 7, True),
        StoredDoubt("b", last, 1, position_of(1, 1), 7, True),
        StoredDoubt("b.c", 7, 1, position_of(1, 3), 7, True),
    ]
    store.commit([Count(1, position_of(1, 2), 3)])
    store = again(store)
    assert [found.redeliveries for found in store.recovery.doubts] == [0, 0, 3, 0, 0]
    assert sequences(store.load(ReadQueue(1, 1, 0, 9, MIB))) == [1, 2, 3, 4, 5, 9], "they are stored as the others are"


def test_settled_message_is_removed_or_offered_again(again: Again) -> None:
    store = filled(again)
    store.commit([doubt(1, 1), doubt(2, 2), doubt(3, 3), B])
    store = again(store)  # also of an earlier boot
    store.commit([Remove(1, position_of(1, 1)), books(1, 4), Settle("b", 1), Settle("b", 2), Settle("b", 3)])
    store.commit([doubt(2, 3)])
    store.commit([Settle("b", 2), doubt(2, 2, "b"), doubt(2, 3, "c"), replace(B, peer="c")])
    store = again(store)
    assert [(found.peer, found.sequence, found.position) for found in store.recovery.doubts] == [
        ("b", 2, position_of(1, 2)),
        ("c", 2, position_of(1, 3)),
    ]
    store.commit([Settle("b", 2), Settle("c", 2), books(1, 4), Retire(1, "q", 4)])
    assert again(store).recovery.doubts == []


def test_message_and_its_doubt_may_come_in_one_batch(again: Again) -> None:
    store = again(None)
    store.commit([Declare(1, "q"), put(1, 1), doubt(1, 1), books(1, 1), B])
    assert len(again(store).recovery.doubts) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        [doubt(2, 9)],
        [Doubt("b", 2, 2, position_of(1, 2))],
        [doubt(1, 2)],
        [doubt(2, 1)],
        [doubt(2, 1, "c")],
        [doubt(2, 2), doubt(3, 2)],
        [Settle("b", 2)],
        [Settle("c", 1)],
        [Settle("b", 1), Settle("b", 1)],
        [Remove(1, position_of(1, 1)), books(1, 4)],
        [Remove(1, position_of(1, 2)), doubt(2, 2), books(1, 4)],
        [books(1, 5), Retire(1, "q", 5)],
    ],
    ids=["of-nothing", "of-another-queue", "over-another", "twice", "with-two-nodes", "twice-at-once", "not-in-doubt",
         "of-another-node", "settled-twice", "removed-in-doubt", "removed-at-once", "retired-in-doubt"],
)  # fmt: skip
def test_doubt_that_contradicts_the_store_is_a_bug(again: Again, wrong: list[Write]) -> None:
    store = filled(again)
    store.commit([doubt(1, 1), B])
    with pytest.raises((AssertionError, KeyError)):
        store.commit([LEAST, replace(B, peer="c"), *wrong])
    if isinstance(store, SimDisk):
        return
    assert again(store).recovery.peers == [B], "something of the batch was kept"


# ---- delayed messages -----------------------------------------------------------------------------------------------


def delay(number: int, due_ms: int, queue: int = 1, **given: int) -> Delay:
    return Delay(queue, due_ms, position_of(1, number), put(queue, number).message, **given)


def wake(number: int, due_ms: int) -> MakeDue:
    return MakeDue(1, due_ms, position_of(1, number))


def delayed_books(messages: int, delayed: int, size: int = 7) -> SaveLedger:
    """Of so many stored messages, of which some are delayed."""
    ledger = books(1, messages).ledger
    return SaveLedger(1, replace(ledger, stored_delayed=delayed, stored_delayed_bytes=delayed * size))


DUE = [(20, 4), (30, 2), (30, 3), (1 << 50, 1)]  # due_ms, number


def delaying(again: Again) -> Store:
    """One message at its place, and four delayed ones."""
    store = again(None)
    delays = [delay(number, due_ms) for due_ms, number in reversed(DUE)]
    store.commit([Declare(1, "q"), Declare(2, "r"), *delays, put(1, 9), delayed_books(5, 4)])
    return store


def due(found: LoadedDelayed) -> list[tuple[int, int]]:
    return [(one.due_ms, one.stored.position & (1 << 64) - 1) for one in found.messages]


def test_delayed_messages_come_by_time_then_position(again: Again) -> None:
    store = delaying(again)
    found = store.load_delayed(ReadDelayed(7, 1, 31, 100, MIB))
    assert (found.request, due(found), found.next_due_ms) == (7, DUE[:3], 1 << 50)
    assert found.messages[0] == StoredDelayed(
        20, StoredMessage(position_of(1, 4), put(1, 4).message, 0, redelivered=False)
    )
    assert sequences(store.load(ReadQueue(1, 1, 0, 9, MIB))) == [9], "they are at their places only when they are woken"
    assert store.load_delayed(ReadDelayed(8, 2, 1 << 60, 100, MIB)) == LoadedDelayed(8)


@pytest.mark.parametrize(
    ("before_ms", "most", "bytes_max", "expected"),
    [(20, 9, MIB, 0), (21, 9, MIB, 1), (30, 9, MIB, 1), (31, 9, MIB, 3), (31, 2, MIB, 2), (31, 9, 1, 1), (1, 9, 1, 0)],
)
def test_no_more_are_loaded_than_are_asked_for(
    again: Again, before_ms: int, most: int, bytes_max: int, expected: int
) -> None:
    found = delaying(again).load_delayed(ReadDelayed(1, 1, before_ms, most, bytes_max))
    assert (due(found), found.next_due_ms) == (DUE[:expected], DUE[expected][0])


@pytest.mark.parametrize(
    ("after_ms", "number", "expected"),
    [(19, 9, 0), (20, 3, 0), (20, 4, 1), (30, 1, 1), (30, 2, 2), (30, 3, 3), (31, 0, 3), (1 << 50, 1, 4)],
)
def test_only_those_behind_a_time_and_a_position_are_loaded(
    again: Again, after_ms: int, number: int, expected: int
) -> None:
    found = delaying(again).load_delayed(ReadDelayed(1, 1, 1 << 60, 1, MIB, after_ms, position_of(1, number)))
    left = DUE[expected:]
    assert (due(found), found.next_due_ms) == (left[:1], left[1][0] if len(left) > 1 else 0)


def test_last_one_is_followed_by_none(again: Again) -> None:
    found = delaying(again).load_delayed(ReadDelayed(1, 1, 1 << 60, 4, MIB))
    assert (due(found), found.next_due_ms) == (DUE, 0)


@pytest.mark.parametrize("clean", [True, False])
def test_delayed_messages_survive_a_restart_with_their_counts(again: Again, clean: bool) -> None:
    store = delaying(again)
    returned = [
        delay(number, 10 + number, redeliveries=count, redelivered=is_marked)
        for number, count, is_marked in ((5, 0, False), (6, 2**31 - 1, True))
    ]
    store.commit([*returned, delayed_books(7, 6)])
    if clean:
        store.commit([StoppedClean()])
    store = again(store)
    assert [(queue.name, queue.next_due_ms) for queue in store.recovery.queues] == [("q", 15), ("r", 0)]
    assert store.recovery.queues[0].ledger == delayed_books(7, 6).ledger
    found = store.load_delayed(ReadDelayed(1, 1, 20, 9, MIB))
    marks = [(one.stored.redeliveries, one.stored.redelivered) for one in found.messages]
    assert marks == [(0, not clean), (2**31 - 1, True)]


def test_woken_message_is_at_its_place_with_its_count(again: Again) -> None:
    store = delaying(again)
    store.commit([wake(2, 30), put(1, 2), Count(1, position_of(1, 2), 3), wake(4, 20), delayed_books(4, 2)])
    store = again(store)
    assert store.recovery.queues[0].next_due_ms == 30
    assert [(s.position, s.redeliveries) for s in store.load(ReadQueue(1, 1, 0, 9, MIB)).messages] == [
        (position_of(1, 2), 3),
        (position_of(1, 9), 0),
    ]
    assert due(store.load_delayed(ReadDelayed(1, 1, 1 << 60, 9, MIB))) == [(30, 3), (1 << 50, 1)]


def test_message_is_delayed_from_its_place_and_back(again: Again) -> None:
    store = delaying(again)
    away: list[Write] = [Remove(1, position_of(1, 9)), delay(9, 25, redeliveries=1, redelivered=True)]
    store.commit([*away, delayed_books(5, 5)])
    assert store.load(ReadQueue(1, 1, 0, 9, MIB)).messages == []
    store.commit([wake(9, 25), put(1, 9), delayed_books(5, 4)])
    store.commit([*away, delayed_books(5, 5)])
    assert due(again(store).load_delayed(ReadDelayed(1, 1, 26, 9, MIB))) == [(20, 4), (25, 9)]


@pytest.mark.parametrize("slices", [[5], [1] * 5, [2, 3], [4, 1]])
def test_delayed_messages_of_a_retired_queue_are_swept_too(again: Again, slices: list[int]) -> None:
    store = delaying(again)
    store.commit([Retire(1, "q", 5), delay(1, 50, queue=2), SaveLedger(2, replace(delayed_books(1, 1).ledger))])
    left = 5
    for count in slices:
        store = again(store)
        assert store.recovery.retired == {1: left}
        left -= count
        store.commit([Sweep(1, count, left)])
    store = again(store)
    assert (store.recovery.retired, store.recovery.queues[0].next_due_ms) == ({}, 50)


@pytest.mark.parametrize(
    "wrong",
    [
        [delay(4, 20)],
        [delay(8, 0)],
        [delay(9, 5)],
        [put(1, 8), delay(8, 5)],
        [delay(8, 5), delay(8, 5)],
        [wake(4, 21)],
        [wake(9, 20)],
        [MakeDue(2, 20, position_of(1, 4))],
        [wake(4, 20), wake(4, 20)],
    ],
    ids=["over-another", "of-no-time", "of-one-at-its-place", "of-one-put", "twice", "woken-at-another-time",
         "woken-that-is-not", "woken-elsewhere", "woken-twice"],
)  # fmt: skip
def test_delay_that_contradicts_the_store_is_a_bug(again: Again, wrong: list[Write]) -> None:
    refuses(again, delaying(again), wrong)


def refuses(again: Again, store: Store, wrong: list[Write]) -> None:
    with pytest.raises((AssertionError, KeyError)):
        store.commit([LEAST, *wrong])
    if not isinstance(store, SimDisk):
        assert again(store).recovery.peers == [], "something of the batch was kept"


# ---- what is declared at run time ----------------------------------------------------------------------------------


def test_settings_and_declarations_come_back_each_as_it_was_last_kept(again: Again) -> None:
    store = again(None)
    store.commit([Declare(1, "q"), KeepSettings(1, "{}"), Declare(2, "r"), KeepSettings(2, "{}"), Declare(3, "s")])
    text = '{"dead_letter": "größe"}' + " " * 70_000
    store.commit([KeepSettings(2, text), KeepDeclared("exchange", "x", "1"), KeepDeclared("fanout", "x", "2")])
    store.commit([KeepDeclared("exchange", "é" * 127, "3"), KeepDeclared("exchange", "x", "4")])
    store = again(store)
    assert [queue.settings for queue in store.recovery.queues] == ["{}", text, ""]
    assert store.recovery.declared == [
        KeepDeclared("exchange", "x", "4"),
        KeepDeclared("exchange", "é" * 127, "3"),
        KeepDeclared("fanout", "x", "2"),
    ]
    store.commit([DropDeclared("exchange", "x"), Retire(1, "q", 0)])
    store.commit([Declare(4, "q"), KeepDeclared("exchange", "a", "5")])
    store = again(store)
    assert [(queue.name, queue.settings) for queue in store.recovery.queues] == [("r", text), ("s", ""), ("q", "")]
    assert [declared.name for declared in store.recovery.declared] == ["a", "é" * 127, "x"]


LONG = Bind("x" * 255, "#." + "k" * 253, 2)
BINDINGS = [
    Bind("", "a.*.#", 1), Bind("amq.topic", "", 1), Bind("amq.topic", "k", 1), Bind("amq.topic", "k", 2), LONG
]  # fmt: skip


def bound(again: Again) -> Store:
    store = again(None)
    store.commit([Declare(1, "q"), Declare(2, "r"), KeepDeclared("exchange", "x" * 255, "{}"), *BINDINGS])
    return store


def in_order(bindings: list[Bind]) -> list[Bind]:
    return sorted(bindings, key=astuple)


def test_bindings_come_back(again: Again) -> None:
    store = again(bound(again))
    assert in_order(store.recovery.bindings) == BINDINGS
    store.commit([Unbind("amq.topic", "k", 1), Bind("amq.topic", "kk", 1)])
    store.commit([Bind("amq.topic", "k", 1), Unbind("amq.topic", "k", 2)])
    store = again(store)
    expected = [*BINDINGS[:3], Bind("amq.topic", "kk", 1), LONG]
    assert in_order(store.recovery.bindings) == expected
    exchange, key = LONG.exchange, LONG.key
    store.commit([Retire(2, "r", 0), Unbind(exchange, key, 2)])
    store = again(store)
    assert in_order(store.recovery.bindings) == expected[:-1]
    store.commit([DropDeclared("exchange", exchange)])
    assert again(store).recovery.declared == []


@pytest.mark.parametrize(
    "wrong",
    [
        [KeepSettings(3, "{}")],
        [Retire(1, "q", 0), KeepSettings(1, "{}")],
        [DropDeclared("exchange", "q")],
        [DropDeclared("fanout", "x" * 255)],
        [Bind("amq.topic", "k", 3)],
        [Bind("amq.topic", "k", 1)],
        [Bind("amq.fanout", "", 1), Bind("amq.fanout", "", 1)],
        [Unbind("amq.topic", "kk", 1)],
        [Unbind("amq.fanout", "k", 1)],
        [Unbind("amq.topic", "k", 1), Unbind("amq.topic", "k", 1)],
        [Unbind("amq.topic", "k", 2), Retire(2, "r", 0)],
        [Retire(2, "r", 0), Bind("amq.direct", "k", 2)],
    ],
    ids=["settings-of-no-queue", "settings-of-one-retired", "drop-of-nothing", "drop-of-another-kind", "bind-no-queue",
         "bind-twice", "bind-twice-at-once", "unbind-key", "unbind-exchange", "unbind-twice", "retired-while-bound",
         "bind-retired"],
)  # fmt: skip
def test_declaration_that_contradicts_the_store_is_a_bug(again: Again, wrong: list[Write]) -> None:
    refuses(again, bound(again), wrong)


# ---- a whole broker on both -----------------------------------------------------------------------------------------


class Both(SimDisk):
    """Each batch goes to both; each answer must be the same."""

    real: Store

    def commit(self, writes: Sequence[Write]) -> None:
        self.real.commit(writes)
        super().commit(writes)

    def load(self, load: ReadQueue) -> Loaded:
        found = super().load(load)
        assert self.real.load(load) == found
        return found

    def load_keys(self, load: ReadKeys) -> LoadedKeys:
        found = super().load_keys(load)
        assert self.real.load_keys(load) == found
        return found

    def load_held(self, load: ReadHeld) -> LoadedHeld:
        found = super().load_held(load)
        assert self.real.load_held(load) == found
        return found

    def load_delayed(self, load: ReadDelayed) -> LoadedDelayed:
        found = super().load_delayed(load)
        assert self.real.load_delayed(load) == found
        return found

    def look_up(self, look_up: DedupLookup) -> bool:
        found = super().look_up(look_up)
        assert self.real.look_up(look_up) == found
        return found


@pytest.mark.parametrize("seed", range(4))
def test_broker_finds_the_same_on_both(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, SMALL)
    random = Random(seed)
    declared = queues(
        q=QueueSettings(dead_letter="dead", max_redeliveries=1),
        once=QueueSettings(dedup_window_s=3),
        tmp=QueueSettings(),
        slow=QueueSettings(redelivery_delay_ms=300, message_ttl_ms=2_000),
    )
    real = open_store(tmp_path / "data", 64 * MIB)
    monkeypatch.setattr("tests.core.node.SimDisk", Both)
    monkeypatch.setattr(Both, "real", real, raising=False)
    node = Node(declared)
    seen: set[str] = set()
    for boot in range(3):
        node.open(1, 2, 9)
        node.admin(9, do="declare", queue="few", max_messages=5, overflow="drop-oldest")
        node.admin(9, do="declare", exchange=f"x{boot}", type="topic")
        node.admin(9, do="declare", fanout="pair", children=["q", "few"])
        node.say(subscribe(2, "/topic/a.#", CLIENT, durable=True))
        for number in range(40):
            body = b"%d.%d" % (boot, number)
            to = random.choice(["q", "once", "tmp", "made", "slow", "/fanout/pair", "/exchange/x0/a.b", "/topic/a.b"])
            if node.has("made") and boot != 1:
                node.admin(9, do="bind", exchange="x0", key="a.*", queue=random.choice(["made", "few"]))
            delay_ms = None if to[:2] in ("/t", "/e") else random.choice([None, None, 200, 1_000, 10_000])
            id_of_20 = None if to[0] == "/" else b"%d" % random.randrange(20)
            ttl_ms = random.choice([None, 900])
            node.say(send(9, to, body, dedup_id=id_of_20, expiration_ms=ttl_ms, delay_ms=delay_ms))
            if number == 5:
                node.say(subscribe(1, "q"), subscribe(1, "tmp", AUTO), subscribe(2, "once", CLIENT, prefetch_count=5))
                node.say(subscribe(1, "slow", prefetch_count=4))
            for deliver in node.messages(1) + node.messages(2):
                if deliver.ack_due and random.random() < 0.7:
                    later = partial(nack, delay_ms=random.choice([0, 400, 5_000]))
                    node.say(random.choice([ack, nack, later])(deliver))
            if random.random() < 0.2:
                node.say(begin(9), send(9, "q", b"t" + body, transaction=b"t"), commit(9))
            if random.random() < 0.1:
                node.admin(9, do="purge", queue=random.choice(["tmp", "q", "slow"]))
            node.wait(random.choice([0, 0, 0.5]))
        if node.has("made"):
            node.admin(9, do="delete", queue="made")
        if boot == 1:
            node.admin(9, do="unbind", exchange="x0", key="a.*", queue="few")
        if boot == 1:
            node.stop()
        real.close()
        real = open_store(tmp_path / "data", 64 * MIB)
        monkeypatch.setattr(Both, "real", real, raising=False)
        node = node.again_on(node.disk.platter)
        found, simulated = real.recovery, node.disk.recovery
        assert (found.boot, found.was_clean, found.next_queue) == (
            simulated.boot,
            simulated.was_clean,
            simulated.next_queue,
        )
        assert found.queues == simulated.queues and found.retired == simulated.retired
        assert found.peers == simulated.peers and found.doubts == simulated.doubts
        assert found.declared == simulated.declared and in_order(found.bindings) == simulated.bindings
        seen |= {"settings"} if any(queue.settings for queue in found.queues) else set()
        seen |= {"delayed"} if any(queue.next_due_ms for queue in found.queues) else set()
        seen |= {declared.kind for declared in found.declared} | {binding.exchange for binding in found.bindings}
    real.close()
    assert seen >= {"settings", "delayed", "exchange", "fanout", "", "x0"}, "some of it was never stored over a restart"


def test_the_last_time_is_kept(again: Again) -> None:
    store = again(None)
    assert store.recovery.time_ms == 0
    store.commit([KeepTime(7)])
    store.commit([KeepTime(5)])
    assert again(store).recovery.time_ms == 5
