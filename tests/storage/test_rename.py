"""A store keeps the name of its node, and is refused to another; `rename` gives it away."""

from dataclasses import replace
from pathlib import Path

import pytest

from radiator.model.errors import StoreError
from radiator.model.recovery import Recovery
from radiator.model.writes import Declare, Doubt, KeepPeer, Ledger, Put, SaveLedger, Settle
from radiator.storage.backup import backup, restore
from radiator.storage.check import check
from radiator.storage.codec import records
from radiator.storage.codec.tables import FORMAT, META, NODE, PEERS, STORE_ID
from radiator.storage.lmdb.datafile import write_meta
from radiator.storage.lmdb.reader import Reader
from radiator.storage.lmdb.store import open_store
from radiator.storage.rename import rename
from tests.storage.scribe import MAP_BYTES, message_of

FORMATS = Path(__file__).with_name("formats")


def start(path: Path, node: str = "") -> Recovery:
    store = open_store(path, MAP_BYTES, node)
    store.close()
    return store.recovery


def rows(path: Path, table: bytes) -> dict[bytes, bytes]:
    with Reader(path) as reader, reader.snapshot() as snapshot:
        return {key: bytes(value) for key, value in snapshot.rows(table)}


def test_store_is_that_of_the_node_which_first_started_on_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    start(data)
    start(data, "a")
    before = rows(data, META)
    with pytest.raises(StoreError, match=rf"data directory of the node 'a'.*`radiator rename {data} b`"):
        start(data, "b")
    assert rows(data, META) == before, "a refused start leaves it as it was"
    start(data, "a")
    start(data)
    assert records.decode_text(NODE, rows(data, META)[NODE]) == "a" and check(data).findings == []


@pytest.mark.parametrize("number", range(1, records.FORMAT + 1))
def test_store_of_each_format_adopts_the_configured_name_and_can_be_renamed(tmp_path: Path, number: int) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "data.mdb").write_bytes((FORMATS / f"format-{number}.mdb").read_bytes())
    write_meta(data / "data.mdb", {b"backup": None, b"applied": None}, MAP_BYTES)
    assert rename(data, "a") == ""
    assert records.decode_number(FORMAT, rows(data, META)[FORMAT]) == number
    with pytest.raises(StoreError, match="of the node 'a'"):
        start(data, "b")
    start(data, "a")
    assert check(data).findings == []


def test_renamed_store_is_given_to_that_node_alone_with_all_that_is_in_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    store = open_store(data, MAP_BYTES, "a")
    of_b, of_c = KeepPeer("b", "0123456789abcdef", 1, 2, 3, 4, 5), KeepPeer("c", "0123456789abcdef", 1, 0, 0, 1, 0)
    store.commit([of_b, of_c])
    store_id = store.recovery.store_id
    store.close()
    assert rename(data, "b") == "a"
    with pytest.raises(StoreError, match="of the node 'b'"):
        start(data, "a")
    start(data, "b")
    assert [*rows(data, PEERS)] == [b"a", b"c"], "nothing is kept of a node that it is itself"
    assert start(data, "b").peers == [replace(of_b, peer="a"), of_c], "two disks that are swapped know each other"
    assert rename(data, "c") == "b"
    assert start(data, "c").peers == [replace(of_b, peer="a"), replace(of_c, peer="b")]
    assert rename(data, "a") == "c"
    assert rename(data, "b") == "a"
    assert start(data, "b").peers == [replace(of_c, peer="a"), replace(of_b, peer="c")]
    assert records.decode_text(STORE_ID, rows(data, META)[STORE_ID]) == store_id


def test_store_is_not_given_to_a_node_with_which_messages_are_in_doubt(tmp_path: Path) -> None:
    data = tmp_path / "data"
    store = open_store(data, MAP_BYTES, "a")
    message = message_of(b"x", 0)
    ledger = Ledger(1, message.size, 1, message.size)
    store.commit([Declare(1, "q"), Put(1, 1 << 64, message), SaveLedger(1, ledger)])
    store.commit([KeepPeer("b", "0123456789abcdef", 1, 0, 7, 1, 0), Doubt("b", 7, 1, 1 << 64)])
    with pytest.raises(StoreError, match="in use by another broker"):
        rename(data, "c")
    store.close()
    before = rows(data, META)
    with pytest.raises(StoreError, match="`radiator peer release b --force` first"):
        rename(data, "b")
    assert rows(data, META) == before
    assert rename(data, "c") == "a", "with others there may be doubts"
    store = open_store(data, MAP_BYTES, "c")
    store.commit([Settle("b", 7)])
    store.close()
    assert rename(data, "b") == "c"


@pytest.mark.parametrize("name", ["", ".a", "a b", "a\n", "x" * 65])
def test_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    start(tmp_path / "data")
    with pytest.raises(StoreError, match="not a valid name for a node"):
        rename(tmp_path / "data", name)


def test_what_is_no_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not a data directory"):
        rename(tmp_path, "a")
    assert [*tmp_path.iterdir()] == []


def test_restored_backup_is_that_of_the_same_node(tmp_path: Path) -> None:
    start(tmp_path / "data", "a")
    backup(tmp_path / "data", tmp_path / "file")
    assert restore(tmp_path / "file", tmp_path / "again").findings == []
    with pytest.raises(StoreError, match="of the node 'a'"):
        start(tmp_path / "again", "b")
    start(tmp_path / "again", "a")


def test_damaged_name_is_found_and_set_anew(tmp_path: Path) -> None:
    data = tmp_path / "data"
    start(data, "a")
    write_meta(data / "data.mdb", {NODE: b"\1b\0\0\0\0"}, MAP_BYTES)
    assert len(check(data).findings) == 1
    with pytest.raises(StoreError, match="damaged"):
        start(data, "a")
    assert rename(data, "a") == ""
    start(data, "a")
    assert check(data).findings == []
