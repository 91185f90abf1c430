"""`radiator check`: keys of messages, and what delayed messages hold."""

from collections.abc import Iterable

from radiator.model.errors import count_text
from radiator.model.limits import CHECK_SLICE_RECORDS
from radiator.storage.codec import keyed, records
from radiator.storage.codec.tables import BY_KEY, DELAYED, HELD, MESSAGES, RETIRED
from radiator.storage.lmdb.reader import Reader, Snapshot
from radiator.storage.report import Report


def check_by_key(rows: Iterable[tuple[Snapshot, bytes, memoryview]], report: Report) -> None:
    """Checks the rows by which messages are found by key. rows: all of the table, each with a snapshot that has it."""
    for snapshot, key, value in rows:
        if report.decoded(keyed.decode_by_key, key, value) is None or _is_swept(snapshot, key):
            continue
        if snapshot.get(MESSAGES, keyed.place_of(key)) is None:
            report.find(f"There is a key of a message under {key.hex()}, but no such message at its place.")


def check_held(reader: Reader, report: Report) -> None:
    """Checks every row of a held key, some at a time: a delayed message is found only by looking through all of its
    queue's, in the same snapshot.
    """
    start: bytes | None = b""
    done = 0
    while start is not None:
        with reader.snapshot() as snapshot:
            report.progress("verifying the table held", "rows", done, snapshot.entries(HELD))
            places: set[bytes] = set()
            slice_start, start = start, None
            for read, (key, value) in enumerate(snapshot.rows(HELD, slice_start), 1):
                done += 1
                if report.decoded(keyed.decode_held, key, value) is not None and not _is_swept(snapshot, key):
                    places.add(key)
                if read == CHECK_SLICE_RECORDS:
                    start = key + b"\0"
                    break
            for place in sorted(places.difference(_delayed_of(snapshot, places))):
                report.find(f"There is a key held under {place.hex()}, but no such delayed message.")


def _delayed_of(snapshot: Snapshot, places: Iterable[bytes]) -> Iterable[bytes]:
    """Yields the places of all delayed messages of the same queues."""
    for prefix in sorted({place[: records.QUEUE_KEY_BYTES] for place in places}):
        for key, _ in snapshot.rows(DELAYED, prefix):
            if not key.startswith(prefix):
                break
            yield records.place_of_delayed(key)


def _is_swept(snapshot: Snapshot, key: bytes) -> bool:
    """Whether its queue is deleted: then its rows and its messages are removed in different orders."""
    return snapshot.get(RETIRED, key[: records.QUEUE_KEY_BYTES]) is not None


def check_count_of_keys(snapshot: Snapshot, queue: int, stored: int, report: Report) -> None:
    """Reports a queue that has more rows of keys than messages: once it is deleted, some would stay for ever."""
    prefix = records.queue_key(queue)
    count = 0
    for table in (BY_KEY, HELD):
        for key, _ in snapshot.rows(table, prefix):
            if not key.startswith(prefix):
                break
            count += 1
    if count > stored:
        report.find(f"Queue {queue} stores {count_text(stored, 'message')}, and has {count} rows of keys of messages.")
