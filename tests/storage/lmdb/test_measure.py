"""How much of its file a store uses."""

import subprocess
import sys
from pathlib import Path

from radiator.storage.lmdb.measure import snapshots
from tests.storage.scribe import Scribe


def test_used_bytes_follow_what_is_stored_not_the_file(tmp_path: Path, scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    empty = scribe.store.used_bytes()
    puts = [put for _ in range(10) for put in scribe.fill(queue, 100, b"x" * 10_000)]
    full = scribe.store.used_bytes()
    assert empty < 200_000
    assert 10_000_000 < full < 15_000_000
    for start in range(0, 1_000, 100):
        scribe.commit(*[scribe.remove(queue, put.position) for put in puts[start : start + 100]])
    assert scribe.store.used_bytes() < empty + 100_000
    assert (tmp_path / "data" / "data.mdb").stat().st_size >= full - 100_000


def test_used_bytes_agree_with_what_a_compact_copy_needs(tmp_path: Path, scribe: Scribe) -> None:
    from radiator.storage.backup import backup

    queue = scribe.declare("orders")
    puts = [put for _ in range(20) for put in scribe.fill(queue, 200, b"x" * 2_500)]
    for start in range(0, 2_000, 200):
        scribe.commit(*[scribe.remove(queue, put.position) for put in puts[start : start + 200]])
    used = scribe.store.used_bytes()
    scribe.store.close()
    backup(tmp_path / "data", tmp_path / "copy", compact=True)
    copied = (tmp_path / "copy").stat().st_size
    assert copied <= used + 8 * 4096
    assert used <= copied * 1.02 + 8 * 4096


HOLD_SNAPSHOT = """
import sys
from pathlib import Path
from radiator.storage.lmdb.reader import Reader
with Reader(Path(sys.argv[1])) as reader, reader.snapshot() as snapshot:
    print("held", flush=True)
    sys.stdin.read()
"""


def test_reader_that_was_killed_pins_nothing_after_the_reader_check(tmp_path: Path, scribe: Scribe) -> None:
    queue = scribe.declare("orders")
    puts = scribe.fill(queue, 200, b"x" * 10_000)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_SNAPSHOT, str(tmp_path / "data")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
    for start in range(0, 200, 50):
        scribe.commit(*[scribe.remove(queue, put.position) for put in puts[start : start + 50]])
    assert scribe.store.used_bytes() > 2_000_000, "what a reader may still see is not free"
    holder.kill()
    holder.communicate()
    assert scribe.store.used_bytes() > 2_000_000
    scribe.store.reader_check()
    assert scribe.store.used_bytes() < 300_000


def test_snapshots_are_read_from_the_table_of_readers() -> None:
    table = "    pid         thread     txnid\n   12 7f0dc96b1680 -\n   77 7f0dc96b1680 41\n"
    assert snapshots(table) == [41]
    assert snapshots("(no active readers)\n") == []
