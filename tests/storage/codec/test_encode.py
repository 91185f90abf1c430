"""`encode` is pure, and its operations are the whole truth: whoever carries them out, at once or later, has the rows
that the store on LMDB has.
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import get_args

import pytest

from radiator.model.commands import AUTO, CLIENT
from radiator.model.settings import QueueSettings
from radiator.model.writes import Append, AppendEvent, Count, Delay, MakeDue, Put, Remove, SaveLedger, Write
from radiator.storage import changes
from radiator.storage.codec import encode as encode_module
from radiator.storage.codec.encode import encode
from radiator.storage.codec.operations import MakeTable, Operation
from radiator.storage.lmdb.store import open_store
from tests.core.conftest import SMALL, shrink
from tests.core.node import Node
from tests.core.words import ack, begin, commit, nack, queues, send, subscribe
from tests.sim.disk import SimDisk
from tests.storage.key_batches import KeyBatches
from tests.storage.log_batches import LogBatches
from tests.storage.scribe import MAP_BYTES
from tests.storage.small_store import write_small_backup
from tests.storage.tree import Rows, Tree, rows_in, rows_of

GATHERED = {Put, Remove, Count, SaveLedger, Delay, MakeDue, Append, AppendEvent}
FORMATS = Path(__file__).parent.parent / "formats"

Batches = list[list[Write]]
History = Callable[[int, pytest.MonkeyPatch], Batches]


class Recorder(SimDisk):
    """A simulated disk that keeps what it was told."""

    batches: Batches

    def commit(self, writes: Sequence[Write]) -> None:
        self.batches.append(deepcopy([*writes]))
        super().commit([*writes])


def of_queues(seed: int, monkeypatch: pytest.MonkeyPatch) -> Batches:
    """What a broker writes of queues, delays, dead letters, dedup-ids, bindings and deletions."""
    shrink(monkeypatch, SMALL)
    chance = Random(seed)
    disk = Recorder()
    disk.batches = []
    declared = queues(
        q=QueueSettings(dead_letter="dead", max_redeliveries=1),
        once=QueueSettings(dedup_window_s=3),
        slow=QueueSettings(redelivery_delay_ms=300, message_ttl_ms=2_000),
    )
    node = Node(declared, disk=disk, seed=seed)
    node.open(1, 2, 9)
    node.admin(9, do="declare", queue="few", max_messages=5, overflow="drop-oldest")
    node.admin(9, do="declare", exchange="x", type="topic")
    node.admin(9, do="declare", log="l", partitions=2)
    node.admin(9, do="declare", fanout="pair", children=["q", "few"])
    node.say(subscribe(2, "/topic/a.#", CLIENT, durable=True))
    for number in range(60):
        made = f"made{number // 20}"
        to = chance.choice(["q", "once", made, "slow", "/fanout/pair", "/exchange/x/a.b", "/topic/a.b", "/log/l"])
        if node.has(made) and chance.random() < 0.1:
            node.admin(9, do="bind", exchange="x", key=f"a.{number}", queue=made)
        delay_ms = None if to[0] == "/" else chance.choice([None, None, 200, 10_000])
        dedup_id = None if to[0] == "/" else b"%d" % chance.randrange(9)
        node.say(send(9, to, b"%d" % number, dedup_id=dedup_id, delay_ms=delay_ms))
        if number == 5:
            node.say(subscribe(1, "q"), subscribe(1, "once", AUTO), subscribe(1, "slow", prefetch_count=4))
        for deliver in node.messages(1):
            if deliver.ack_due and chance.random() < 0.7:
                node.say(chance.choice([ack, nack])(deliver))
        if chance.random() < 0.2:
            node.say(begin(9), send(9, "q", b"t", transaction=b"t"), commit(9))
        if number % 20 == 19:
            node.admin(9, do="delete", queue=made)
        node.wait(chance.choice([0, 0, 0.5, 2]))
    node.stop()
    return disk.batches


def of_logs(seed: int, _: pytest.MonkeyPatch) -> Batches:
    """Logs, the journal, groups and prepared transactions."""
    history = LogBatches(Random(seed))
    return [history.batch() for _ in range(60)]


def of_keys(seed: int, _: pytest.MonkeyPatch) -> Batches:
    """Messages with keys, and delayed ones that hold them."""
    history = KeyBatches(Random(seed))
    return [history.batch() for _ in range(60)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("history", [of_queues, of_logs, of_keys])
def test_a_store_has_the_rows_that_its_operations_make(
    tmp_path: Path, history: History, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = history(seed, monkeypatch)
    assert len({type(write) for batch in batches for write in batch}) >= 8, "the history says too little"
    store = open_store(tmp_path / "data", MAP_BYTES)
    tree = Tree(rows_of(store))
    for number, batch in enumerate(batches):
        store.commit(batch)
        tree.apply(encode(batch))
        if number % 10 == 0 or batch is batches[-1]:
            assert rows_of(store) == tree.rows
    store.close()


@pytest.mark.parametrize("history", [of_queues, of_logs, of_keys])
def test_batches_may_be_carried_out_together_and_later(
    tmp_path: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = history(7, monkeypatch)
    chance = Random(7)
    rows: list[Rows] = []
    for name, most in (("one-by-one", 1), ("together", 20)):
        store = open_store(tmp_path / name, MAP_BYTES)
        left = [encode(batch) for batch in batches]
        while left:
            count = chance.randint(1, most)
            store._writer.apply([operation for operations in left[:count] for operation in operations])
            del left[:count]
        rows.append(rows_of(store))
        store.close()
        rows[-1][b"meta"].pop(b"store_id")
    assert rows[0] == rows[1]


@pytest.mark.parametrize("history", [of_queues, of_logs])
def test_the_same_writes_are_the_same_operations_and_stay_as_they_are(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch in history(3, monkeypatch):
        before = deepcopy(batch)
        first = deepcopy(encode(batch))
        assert encode(batch) == first == encode(before)
        assert batch == before
        assert_plain(first)


def assert_plain(value: object) -> None:
    """Bytes and numbers, and lists of them: nothing that a log of operations could not hold."""
    if isinstance(value, list | tuple):
        for one in value:
            assert_plain(one)
    else:
        assert isinstance(value, bytes | int), f"{value!r} is no bytes and no number"


def test_it_is_encoded_without_lmdb() -> None:
    program = (
        "import sys, radiator.storage.codec.encode, radiator.storage.guard, radiator.core.broker;"
        " sys.exit(bool({'lmdb', 'gevent'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)


def test_every_write_is_encoded_and_every_operation_carried_out() -> None:
    assert {*get_args(Write)} == GATHERED | encode_module._ENCODERS.keys()
    assert not GATHERED & encode_module._ENCODERS.keys()
    assert {*get_args(Operation)} == changes._CARRY_OUT.keys() | {MakeTable}


def test_what_is_written_today_is_byte_for_byte_what_format_4_has(tmp_path: Path) -> None:
    """The fixture was written before writes were encoded apart from LMDB, before there was a log, and before keys."""
    write_small_backup(tmp_path / "small.mdb", has_keys=False)
    written, kept = rows_in(tmp_path / "small.mdb"), rows_in(FORMATS / "format-4.mdb")
    for rows in (written, kept):
        rows[b"meta"].pop(b"store_id")
        rows[b"meta"].pop(b"format")
    assert written == kept
