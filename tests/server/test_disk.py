"""How much room there is: what is free on the file system, and what is reusable in the store's own file."""

import os
import time
from pathlib import Path

import gevent
import pytest

from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import LOAD_BYTES, LOAD_MESSAGES, MIB, READS_AT_ONCE, READS_S
from radiator.model.message import Message
from radiator.model.reads import Loaded, ReadQueue
from radiator.model.settings import LogKeep
from radiator.model.writes import Declare, Put, Remove
from radiator.server.disk import DiskSpace, Findings, Inquiry, loader, measured
from radiator.storage.lmdb.store import open_store


@pytest.mark.parametrize(
    ("reusable_bytes", "wanted"),
    [(0, 100), (40, 100), (50, 100), (51, 151)],
)
def test_reusable_pages_are_room_once_they_are_more_than_what_is_used(reusable_bytes: int, wanted: int) -> None:
    assert DiskSpace(100, reusable_bytes, 50).for_messages_bytes == wanted


def test_removed_messages_make_room_in_the_file_and_none_on_the_file_system(tmp_path: Path) -> None:
    store = open_store(tmp_path / "data", 64 * MIB)
    try:
        store.commit([Declare(1, "q")])
        before = measured(store, tmp_path)
        message = Message("/queue/q", b"", ESCAPING_ALL, os.urandom(MIB), 1)
        store.commit([Put(1, position, message) for position in range(1, 9)])
        store.catch_up()
        full = measured(store, tmp_path)
        assert full.used_bytes >= before.used_bytes + 8 * MIB
        store.commit([Remove(1, position) for position in range(1, 9)])
        store.commit([Declare(2, "r")])
        store.catch_up()
        emptied = measured(store, tmp_path)
        assert emptied.used_bytes < full.used_bytes - 7 * MIB
        assert emptied.reusable_bytes > full.reusable_bytes + 7 * MIB
        reported = os.statvfs(tmp_path)
        assert abs(emptied.free_bytes - reported.f_bavail * reported.f_frsize) < 64 * MIB
        assert emptied.for_messages_bytes == emptied.free_bytes + emptied.reusable_bytes
    finally:
        store.close()


def test_the_log_is_measured_with_what_of_it_is_kept(tmp_path: Path) -> None:
    store = open_store(tmp_path / "data", 64 * MIB, log_keep=LogKeep(max_bytes=64 * MIB))
    try:
        store.commit([Declare(1, "q")])
        new = measured(store, tmp_path)
        assert (new.wal_bytes, new.wal_kept_bytes) == (2 * MIB, 0)
        for position in range(1, 5):
            store.commit([Put(1, position, Message("/queue/q", b"", ESCAPING_ALL, os.urandom(MIB // 2), 1))])
        store.catch_up()
        later = measured(store, tmp_path)
        files = sum(file.stat().st_size for file in (tmp_path / "data" / "wal").iterdir())
        assert later.wal_bytes == files
        assert MIB <= later.wal_kept_bytes < files
    finally:
        store.close()


def test_the_log_is_measured_with_what_is_not_applied(tmp_path: Path) -> None:
    store = open_store(tmp_path / "data", 64 * MIB)
    try:
        store.catch_up()
        applied = measured(store, tmp_path).wal
        assert (applied.unapplied_entries, applied.unapplied_bytes) == (0, 0)
        store.commit([Declare(1, "q")])
        store.commit([Put(1, 1, Message("/queue/q", b"", ESCAPING_ALL, os.urandom(MIB), 1))])
        found = measured(store, tmp_path)
        files = [*(tmp_path / "data" / "wal").iterdir()]
        assert found.wal.segments == len(files) and found.wal.unapplied_entries == 2
        assert MIB < found.wal.unapplied_bytes < found.wal.unapplied_max_bytes <= 4 * MIB
        assert found.total_bytes >= found.free_bytes > 0
        store.catch_up()
        assert measured(store, tmp_path).wal.spare == 1
    finally:
        store.close()


def test_what_the_tables_do_not_have_yet_counts_as_used(tmp_path: Path) -> None:
    store = open_store(tmp_path / "data", 64 * MIB)
    try:
        store.commit([Declare(1, "q")])
        before = measured(store, tmp_path)
        store.commit([Put(1, 1, Message("/queue/q", b"", ESCAPING_ALL, os.urandom(MIB), 1))])
        assert measured(store, tmp_path).used_bytes >= before.used_bytes + MIB
    finally:
        store.close()


def test_what_is_read_back_at_once_takes_no_longer_than_a_turn_may(tmp_path: Path) -> None:
    store = open_store(tmp_path / "data", 64 * MIB)
    found: list[Findings] = []
    reader = loader(gevent.get_hub().loop, store, tmp_path, found.append)
    reader.start()
    try:
        store.commit([Declare(1, "q")])
        message = Message("/queue/q", b"", ESCAPING_ALL, b"x", 1)
        store.commit([Put(1, position, message) for position in range(1, LOAD_MESSAGES + 1)])
        store.catch_up()
        asked = [ReadQueue(number, 1, 0, LOAD_MESSAGES, LOAD_BYTES) for number in range(READS_AT_ONCE)]
        left = asked
        while left:
            before = len(found)
            reader.submit(Inquiry(left, measure=False))
            deadline_s = time.monotonic() + 10
            while len(found) == before and time.monotonic() < deadline_s:
                gevent.sleep(0.001)
            assert len(found[-1].events) + len(found[-1].unread) == len(left) and found[-1].events
            left = found[-1].unread
        assert len(found) > 2, f"{READS_AT_ONCE * LOAD_MESSAGES} messages take longer than {READS_S} s"
        events = [event for findings in found for event in findings.events]
        assert [event.request for event in events if isinstance(event, Loaded)] == [one.request for one in asked]
        assert all(isinstance(event, Loaded) and len(event.messages) == LOAD_MESSAGES for event in events)
    finally:
        reader.stop()
        store.close()
