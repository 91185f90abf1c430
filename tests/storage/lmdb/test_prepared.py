"""Prepared transactions and versions in LmdbStore, over several boots; what is damaged is counted, and found."""

from dataclasses import replace
from pathlib import Path

import pytest

from radiator.model.commands import LoadedPrepared, Send
from radiator.model.errors import DamagedRecord, StoreError
from radiator.model.headers import ESCAPING_ALL, ESCAPING_NONE
from radiator.model.reads import ReadPrepared
from radiator.model.writes import (
    DropApp,
    DropTransaction,
    KeepApp,
    KeepTransaction,
    RemovePrepared,
    StorePrepared,
    Write,
)
from radiator.storage.check import check
from radiator.storage.codec import records, transactions
from radiator.storage.codec.tables import APPS, PREPARED_SENDS, TRANSACTIONS
from radiator.storage.lmdb.store import LmdbStore, open_store
from tests.storage.breaking import rewrite
from tests.storage.opened import opened_store
from tests.storage.scribe import MAP_BYTES, send_of

NOW_MS = 1_800_000_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def store(path: Path) -> LmdbStore:
    """One transaction of five SENDs is prepared in it, and one app has a version."""
    store = opened_store(path, MAP_BYTES)
    sends = [send_of(number) for number in range(5)]
    store.commit([row(5), StorePrepared(1, 0, sends), KeepApp("app", 3, NOW_MS)])
    return store


def row(count: int, applied: int = 0, name: str = "ö", transaction: int = 1) -> KeepTransaction:
    size = sum(send_of(number).size for number in range(count))
    return KeepTransaction(transaction, name, count, size, applied, NOW_MS)


def again(store: LmdbStore, path: Path) -> LmdbStore:
    store.close()
    return opened_store(path, MAP_BYTES)


def load(
    store: LmdbStore, first: int = 0, most: int = 100, bytes_max: int = 1 << 30, transaction: int = 1
) -> LoadedPrepared:
    return store.load_prepared(ReadPrepared(7, transaction, first, most, bytes_max))


@pytest.mark.parametrize(
    "send",
    [
        Send(0, "", b"", ESCAPING_NONE, b""),
        Send(0, "/queue/ö", b"a:b\n", ESCAPING_ALL, b"body", expires_ms=0, deliver_at_ms=0, dedup_id=b""),
        Send(0, "/exchange/x/" + "k" * 500, b"h" * 70_000, 1, b"b" * 10, expires_ms=2**63, dedup_id=b"d" * 255),
        Send(0, "/log/l", b"", 2, b"x", deliver_at_ms=10**15 - 1),
    ],
)
def test_sends_come_back_as_they_were_prepared(path: Path, store: LmdbStore, send: Send) -> None:
    store.commit([replace(row(0, transaction=2, name="other"), count=1, size=send.size), StorePrepared(2, 0, [send])])
    assert load(again(store, path), transaction=2) == LoadedPrepared(7, [send], 0)


def test_load_goes_on_from_a_number_up_to_its_limits(path: Path, store: LmdbStore) -> None:
    store.commit([KeepTransaction(2, "next", 1, send_of(9).size, 0, 1), StorePrepared(2, 0, [send_of(9)])])
    store = again(store, path)
    assert load(store).sends == [send_of(number) for number in range(5)]
    assert load(store, 3).sends == [send_of(3), send_of(4)]
    assert (
        load(store, 5).sends == [] and load(store, transaction=3).sends == [] and load(store, transaction=0).sends == []
    )
    assert load(store, 1, most=2).sends == [send_of(1), send_of(2)]
    size = send_of(0).size
    for bytes_max, taken in ((0, 1), (2 * size - 1, 1), (2 * size, 2)):
        assert len(load(store, bytes_max=bytes_max).sends) == taken


def test_later_sends_have_the_next_numbers(path: Path, store: LmdbStore) -> None:
    store.commit([StorePrepared(1, 5, [send_of(5)]), StorePrepared(1, 6, [send_of(6)]), row(7)])
    assert load(again(store, path), 4).sends == [send_of(4), send_of(5), send_of(6)]


def test_transaction_is_applied_in_slices_and_over(path: Path, store: LmdbStore) -> None:
    assert store.recovery.transactions == []
    store.commit([row(5, name=""), KeepApp("app", 4, NOW_MS + 1), KeepApp("other\0", 0, 0)])
    store.commit([RemovePrepared(1, 0, 2), row(5, 2, name="")])
    store = again(store, path)
    assert store.recovery.transactions == [row(5, 2, name="")]
    assert store.recovery.apps == [KeepApp("app", 4, NOW_MS + 1), KeepApp("other\0", 0, 0)]
    assert load(store).sends == [send_of(2), send_of(3), send_of(4)]
    store.commit([RemovePrepared(1, 2, 5), DropTransaction(1), DropApp("app")])
    store = again(store, path)
    assert (store.recovery.transactions, [one.app for one in store.recovery.apps]) == ([], ["other\0"])
    store.close()
    assert check(path).findings == []


def test_transaction_that_is_let_go_of_takes_its_sends_with_it(path: Path, store: LmdbStore) -> None:
    store.commit([KeepTransaction(2, "next", 1, send_of(9).size, 0, 1), StorePrepared(2, 0, [send_of(9)])])
    store.commit([DropTransaction(1)])
    assert load(store).sends == []
    assert load(store, transaction=2).sends == [send_of(9)]
    store.close()
    assert check(path).findings == []


@pytest.mark.parametrize(
    "writes", [[RemovePrepared(1, 4, 6)], [RemovePrepared(2, 0, 1)], [DropTransaction(2)], [DropApp("other")]]
)
def test_a_batch_that_contradicts_the_store_is_a_bug_and_leaves_nothing(
    path: Path, store: LmdbStore, writes: list[Write]
) -> None:
    with pytest.raises(AssertionError):
        store.commit([KeepApp("new", 1, 1), *writes])
    store = again(store, path)
    assert ([one.app for one in store.recovery.apps], len(load(store).sends)) == (["app"], 5)


def test_damaged_sends_are_counted(path: Path, store: LmdbStore) -> None:
    store.close()
    for number in (1, 2):
        rewrite(path, PREPARED_SENDS, transactions.send_key(1, number), b"x" * 80)
    store = opened_store(path, MAP_BYTES)
    assert load(store) == LoadedPrepared(7, [send_of(0), send_of(3), send_of(4)], 2)
    assert load(store, 1, most=2) == LoadedPrepared(7, [], 2)
    store.close()
    findings = check(path).findings
    assert len(findings) == 2 and all("The prepared SEND under key" in finding for finding in findings)


def transaction_row(transaction: KeepTransaction) -> tuple[bytes, bytes]:
    key = transactions.transaction_key(transaction.transaction)
    return key, transactions.encode_transaction(key, transaction)


@pytest.mark.parametrize(
    ("table", "key", "value", "sentence"),
    [
        (TRANSACTIONS, *transaction_row(row(5, 6)), "6 of 5"),
        (TRANSACTIONS, *transaction_row(row(5, 1)), "the first 1 of 5|1 of 5 are out"),
        (TRANSACTIONS, *transaction_row(row(6)), "5 SENDs left"),
        (TRANSACTIONS, *transaction_row(row(0, transaction=2)), "one name, 'ö'"),
        (TRANSACTIONS, transactions.transaction_key(1), None, "There are 5 SENDs of transaction 1"),
        (TRANSACTIONS, transactions.transaction_key(1), b"x" * 50, "The prepared transaction under key"),
        (PREPARED_SENDS, transactions.send_key(1, 4), None, "4 SENDs left"),
        (PREPARED_SENDS, transactions.send_key(3, 4), b"", "There are 1 SENDs of transaction 3"),
        (APPS, transactions.app_key("app"), b"x" * 21, "The version of a producer-id under key"),
    ],
)
def test_start_refuses_damaged_books_and_check_says_what_they_are(
    path: Path, store: LmdbStore, table: bytes, key: bytes, value: bytes | None, sentence: str
) -> None:
    store.close()
    assert check(path).findings == []
    rewrite(path, table, key, value)
    assert any(part in finding for finding in check(path).findings for part in sentence.split("|"))
    with pytest.raises(StoreError, match="radiator check"):
        open_store(path, MAP_BYTES)


def test_more_that_are_out_than_there_were_are_not_made_up_for_by_another_one(path: Path, store: LmdbStore) -> None:
    store.commit([row(5, 6, name=""), row(6, transaction=2, name="other")])
    store.close()
    with pytest.raises(StoreError, match="6 of 5 SENDs of transaction 1 are out"):
        open_store(path, MAP_BYTES)
    assert len(check(path).findings) == 2


def test_check_finds_bytes_that_the_row_does_not_say(path: Path, store: LmdbStore) -> None:
    store.commit([replace(row(5), size=1)])
    store.close()
    [finding] = check(path).findings
    assert finding == "The prepared transaction 1 has SENDs of 50 bytes; its row says 1."


def test_what_belongs_to_the_connection_is_not_kept(store: LmdbStore) -> None:
    sent = replace(send_of(9), connection=5, receipt=b"r", transaction=b"t")
    store.commit([KeepTransaction(2, "t", 1, sent.size, 0, 1), StorePrepared(2, 0, [sent])])
    assert load(store, transaction=2).sends == [send_of(9)]


@pytest.mark.parametrize("at", [1, 2, 4, 6])
def test_send_of_impossible_lengths_or_flags_is_damaged(at: int) -> None:
    key = transactions.send_key(1, 0)
    value = bytearray(transactions.encode_send(key, send_of(0))[:-4])
    value[at] ^= 0xE0
    with pytest.raises(DamagedRecord, match="impossible"):
        transactions.decode_send(key, records.seal(key, bytes(value)))
