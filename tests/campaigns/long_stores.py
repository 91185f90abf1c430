"""T16c: stores that are too long to be looked through at a start are damaged in LMDB's own structure, and served all
the same: read, acked, written on, and started again.

Bits are flipped in the heads, pointers and keys of pages that are in use; pages are duplicated and swapped, with their
numbers put right. Whatever comes of it, nothing is withheld or doubled without a word: the broker ends with a sentence,
or its process by a signal, or it says which messages are damaged; or every message comes once. In half of the cases the
look through the structure that goes on beside serving must find each damage that it promises to find. Half of the
stores have entries in their log that the tables lack: a start carries them out on the damaged tables.

It drives the core on the real store, without sockets. It cannot see damage that happens while a page lies in the cache.
"""

import os
import shutil
import signal
import sys
from collections import Counter
from pathlib import Path
from random import Random

from lmdb.verify import _Verifier

from radiator.model.commands import Command, Read
from radiator.model.errors import DiskFailed, StoreError
from radiator.model.replies import Deliver
from radiator.model.settings import Declarations, LogSettings
from radiator.storage.lmdb import datafile
from radiator.storage.lmdb.directory import DATA_FILE
from radiator.storage.lmdb.store import LmdbStore, open_store
from tests.campaigns.campaign import Campaign, Run
from tests.campaigns.children import Report, run_cases
from tests.campaigns.damage import Files, files_of, write_files
from tests.core.node import Node
from tests.core.words import ack, send, subscribe
from tests.storage.scribe import MAP_BYTES

PAGE_BYTES = 4096
QUEUES = ("orders", "mail", "jobs")
MESSAGES = 1500
RECORDS = 300
COMMANDS_AT_ONCE = 60
SOUND_SHARE = 0.05
SOUND = "no damage"  # such a one must not be called damaged
LATE = 10  # sent when nothing is read any more
SENT_ON = 20  # while the store is read
CASES_OF_A_STORE = 20
CASE_MAX_S = 60
ROUNDS_MAX = 4000
DELAY_MS = 10_000
GOOD, WRONG = 0, 3
_LMDB_ENDS = (signal.SIGABRT, signal.SIGBUS, signal.SIGSEGV)  # LMDB's own end, of which the broker leaves a line


def declared() -> Declarations:
    return Declarations(create_queues=True, create_topics=True, logs={"l": LogSettings(partitions=2)})


def on_disk(data_dir: Path) -> tuple[Node, LmdbStore]:
    """A broker's core on the real store, which is opened as one too long to be read through."""
    datafile.STRUCTURE_CHECKED_BYTES = 0
    store = open_store(data_dir, MAP_BYTES)
    node = Node(declared(), disk=store)
    node.open(1, 2)
    return node, store


def written(directory: Path, chance: Random, *, is_behind: bool) -> tuple[Files, Counter[tuple[str, bytes]]]:
    """A store, and how often each body is in each destination: once. is_behind: its tables lack what the log has."""
    node, store = on_disk(directory)
    there: Counter[tuple[str, bytes]] = Counter()
    sends: list[Command] = []
    for number in range(MESSAGES):
        name = chance.choice(QUEUES)
        body = b"m%d " % number + b"x" * chance.choice((30, 100, 300, 1000, 1000, 3000, 9000))
        delay_ms = DELAY_MS if chance.random() < 0.15 else None
        sends.append(send(1, name, body, delay_ms=delay_ms))
        there["/queue/" + name, body] += 1
    for number in range(RECORDS):
        body = b"r%d " % number + b"y" * chance.choice((30, 300, 3000))
        sends.append(send(1, "/log/l", body, headers=b"partition-key:%d\n" % chance.randrange(9)))
        there["/log/l", body] += 1
    chance.shuffle(sends)
    for first in range(0, len(sends), COMMANDS_AT_ONCE):
        say_together(node, sends[first : first + COMMANDS_AT_ONCE])
    for name in QUEUES:  # so that pages are free, and those in use do not stand in their order
        node.say(subscribe(2, name, prefetch_count=chance.randrange(50, 150)))
        delivers = node.messages(2)
        say_together(node, [ack(deliver) for deliver in delivers])
        for deliver in delivers:
            there[deliver.message.destination, deliver.message.body] -= 1
    node.close(2)
    for number in range(LATE):
        body = b"l%d " % number + b"x" * chance.choice((30, 1000, 9000))
        node.say(send(1, QUEUES[0], body))
        there["/queue/" + QUEUES[0], body] += 1
    node.stop()
    if not is_behind:
        store.catch_up()
    files = files_of(directory)
    store.close()
    return files, +there


def say_together(node: Node, commands: list[Command]) -> None:
    """In one read of each connection, so in few commits."""
    node.turn([Read(number, [one for one in commands if one.connection == number]) for number in node.inbox])


def pages_in_use(file: Path) -> list[int]:
    with file.open("rb") as opened:
        verifier = _Verifier(opened, file.stat().st_size)  # type: ignore[no-untyped-call]
        assert not verifier.verify()  # type: ignore[no-untyped-call]
        return [number for number, is_live in enumerate(verifier.live) if is_live and number > 1]


def damaged(data: bytearray, pages: list[int], chance: Random) -> str:
    """Does something to pages that are no second and later ones of a large value, and says what."""
    heads = [page for page in pages if data[page * PAGE_BYTES] == page & 255 and data[page * PAGE_BYTES + 10] in (1, 2)]
    branches = [page for page in heads if data[page * PAGE_BYTES + 10] == 1]
    page, other = chance.choice(heads), chance.choice(heads)
    if branches and chance.random() < 0.25:
        page = chance.choice(branches)
    at = page * PAGE_BYTES
    kind = chance.choice(("head", "pointer", "row", "row", "duplicate", "swap"))
    if chance.random() < SOUND_SHARE:
        return SOUND
    if kind == "duplicate":
        data[at + 8 : at + PAGE_BYTES] = data[other * PAGE_BYTES + 8 : (other + 1) * PAGE_BYTES]
        return f"page {other} in the place of page {page} too"
    if kind == "swap":
        one, two = bytes(data[at + 8 : at + PAGE_BYTES]), slice(other * PAGE_BYTES + 8, (other + 1) * PAGE_BYTES)
        data[at + 8 : at + PAGE_BYTES], data[two] = data[two], one
        return f"the contents of pages {page} and {other} swapped"
    count = (int.from_bytes(data[at + 12 : at + 14], sys.byteorder) - 16) // 2
    nth = chance.randrange(max(1, count))
    row = int.from_bytes(data[at + 16 + 2 * nth : at + 18 + 2 * nth], sys.byteorder)
    byte = {"head": chance.randrange(16), "pointer": 16 + 2 * nth + chance.randrange(2)}.get(
        kind, row + chance.randrange(8 + 16)
    )
    bit = chance.randrange(8)
    data[at + min(byte, PAGE_BYTES - 1)] ^= 1 << bit
    return f"bit {bit} of byte {byte} of page {page} flipped ({kind} of row {nth})"


def served(data_dir: Path, there: Counter[tuple[str, bytes]], chance: Random, *, is_looked_at: bool) -> str:
    """All is consumed while more is sent, then started again: what was done without a word. "": nothing."""
    node, store = on_disk(data_dir)
    there = there.copy()
    node.open(3)
    for name in QUEUES:
        node.say(subscribe(1, name, prefetch_count=40))
    node.say(subscribe(3, "/log/l", prefetch_count=40, group="g", start=("first", 0)))
    got: Counter[tuple[str, bytes]] = Counter()
    sent, quiet = 0, 0
    for _ in range(ROUNDS_MAX):
        if is_looked_at:
            store.go_on_checking()
        delivers: list[Deliver] = [*node.messages(1), *node.messages(3)]
        for deliver in delivers:
            got[deliver.message.destination, deliver.message.body] += 1
        say_together(node, [ack(deliver) for deliver in delivers])
        if sent < SENT_ON and chance.random() < 0.5:
            sent += 1
            name, body = chance.choice(QUEUES), b"s%d " % sent + b"z" * chance.choice((10, 2000))
            node.say(send(2, name, body))
            there["/queue/" + name, body] += 1
        node.wait(1)
        quiet = 0 if delivers else quiet + 1
        if quiet > 15 and sent == SENT_ON and store.checked_percent == (100 if is_looked_at else store.checked_percent):
            break
    replies = sum(1 for note in node.notes if note.event == "damaged_record")
    replies += sum(int(note.fields["records"]) for note in node.notes if note.event == "damaged_log")
    missing, doubled = there - got, got - there
    if doubled:
        return f"{doubled.total()} came that were not there, or twice, like {next(iter(doubled))[1][:20]!r}"
    if missing.total() > replies:
        where = Counter(name for name, _ in missing.elements())
        return f"{dict(where)} did not come, and {replies} were told of"
    node.stop()
    store.close()
    return again(data_dir)


def again(data_dir: Path) -> str:
    """The next start gives nothing that was acked."""
    node, store = on_disk(data_dir)
    for name in QUEUES:
        node.say(subscribe(1, name, prefetch_count=40))
    node.say(subscribe(1, "/log/l", prefetch_count=40, group="g", start=("first", 0)))
    for _ in range(20):
        node.wait(1)
    delivers = node.messages(1)
    store.close()
    return f"{len(delivers)} came again that were acked" if delivers else ""


def case(
    original: Files, pages: list[int], there: Counter[tuple[str, bytes]], directory: Path, seed: int, report: Report
) -> list[str]:
    chance = Random(seed)
    data = bytearray(original[DATA_FILE])
    is_looked_at = chance.random() < 0.3
    how = damaged(data, pages, chance) + (", looked at" if is_looked_at else "")
    report(how)
    shutil.rmtree(directory, ignore_errors=True)
    write_files({**original, DATA_FILE: data}, directory)
    ours, its = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            fault = served(directory, there, chance, is_looked_at=is_looked_at)
        except (StoreError, DiskFailed) as error:
            fault = str(error) if how.startswith(SOUND) else ""
        except BaseException as error:  # noqa: BLE001 - a traceback is no sentence
            fault = f"{type(error).__name__}: {error}"
        os.write(its, fault.encode()[:4000])
        os._exit(WRONG if fault else GOOD)
    os.close(its)
    with os.fdopen(ours, "rb") as found:
        fault = found.read().decode()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == GOOD or (-status in _LMDB_ENDS and not how.startswith(SOUND)):
        return []
    return [f"{how}: {fault or f'it ended with {status}'}"]


def long_stores(run: Run) -> None:
    nth = 0
    while not run.is_over:
        nth += 1
        directory = run.directory / f"original-{nth}"
        original, there = written(directory, run.chance, is_behind=nth % 2 == 1)
        write_files(original, directory.with_suffix(".copy"))
        pages = pages_in_use(directory.with_suffix(".copy") / DATA_FILE)
        seeds = [run.chance.randrange(1 << 60) for _ in range(min(CASES_OF_A_STORE, run.cases - run.done))]

        def work(
            seed: int,
            report: Report,
            original: Files = original,
            pages: list[int] = pages,
            there: Counter[tuple[str, bytes]] = there,
        ) -> list[str]:
            return case(original, pages, there, run.directory / "damaged", seed, report)

        for seed, faults in run_cases(work, seeds, CASE_MAX_S):
            run.case()
            for fault in faults:
                run.violation(f"a long store with {fault} (damage {seed})")


CAMPAIGNS = (
    Campaign(
        number="T16c",
        name="long-stores",
        title="damages the structure of stores too long to be looked through at a start, and serves them",
        unit="damaged stores",
        run=long_stores,
        cases=(40, 3000, 20_000),
        mutants=("end-not-checked", "damaged-time-believed"),
        mutant_cases=300,
        needs=("linux",),
    ),
)
