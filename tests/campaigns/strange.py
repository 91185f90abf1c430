"""T16: what lies in the place of a store is none, or not ours to use; each kind through a whole broker.

A foreign or newer file, a link, a device, a store of somebody else, in use, on a read-only file system, cut off, among
other files: refused with one sentence that names it and status 1, and left as it was. What only looks strange (files
left over, rubbish in lock files) is served.

It cannot see what a network file system does: none is mounted.
"""

import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import lmdb

from radiator.model.errors import EXIT_REFUSED
from radiator.model.limits import MIB
from radiator.storage.backup import backup
from radiator.storage.codec import records
from radiator.storage.codec.tables import FORMAT, META
from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess
from tests.campaigns.campaign import Campaign, Run
from tests.campaigns.disks import command, mount_for_this_process_only
from tests.storage.scribe import Scribe

SERVED = ""
LONG_BYTES = 80 * MIB
MAP_BYTES = 256 * MIB
STRANGER = 12345


@dataclass(slots=True)
class Place:
    """Where a broker will look for its store. bodies: what it should give if it serves."""

    data_dir: Path
    run: Run

    @property
    def file(self) -> Path:
        return self.data_dir / "data.mdb"

    @property
    def beside(self) -> Path:
        return self.data_dir.parent / "beside"

    def store(self, data_dir: Path | None = None, body: bytes = b"kept") -> None:
        """A good store with one message."""
        scribe = Scribe(data_dir or self.data_dir, MAP_BYTES)
        scribe.commit(scribe.put(scribe.declare("orders"), body))
        scribe.store.close()

    def holds(self, content: bytes) -> None:
        self.data_dir.mkdir()
        self.file.write_bytes(content)


Making = Callable[[Place], None]
MAKINGS: list[tuple[Making, str]] = []


def strange(words: str) -> Callable[[Making], Making]:
    """A kind of place, and words of the sentence by which it is refused."""

    def enter(making: Making) -> Making:
        MAKINGS.append((making, words))
        return making

    return enter


# ---- files of others ------------------------------------------------------------------------------------------------


@strange("is not an LMDB 0.9 file")
def rubbish(place: Place) -> None:
    place.holds(place.run.chance.randbytes(place.run.chance.randrange(200, 100_000)))


@strange("is not an LMDB 0.9 file")
def zeros(place: Place) -> None:
    place.holds(bytes(65536))


@strange("cut off")
def empty_file(place: Place) -> None:
    place.holds(b"")


@strange("is not an LMDB 0.9 file")
def program(place: Place) -> None:
    place.holds(Path(sys.executable).read_bytes()[:100_000])


@strange("is not an LMDB 0.9 file")
def sqlite(place: Place) -> None:
    place.data_dir.mkdir()
    with sqlite3.connect(place.file) as database:
        database.execute("create table messages (body blob)")


@strange("is an LMDB file, but not a store of Radiator")
def lmdb_of_another_program(place: Place) -> None:
    place.data_dir.mkdir()
    with lmdb.open(str(place.data_dir), lib_version=0) as env, env.begin(write=True) as txn:
        txn.put(b"theirs", b"value")
    (place.data_dir / "lock.mdb").unlink()


def of_format(place: Place, number: int) -> None:
    place.store()
    with lmdb.open(str(place.data_dir), lib_version=0, max_dbs=1) as env:
        table = env.open_db(META, create=False)
        with env.begin(write=True) as txn:
            txn.put(FORMAT, records.encode_number(FORMAT, number), db=table)


@strange(f"has format {records.FORMAT + 1}")
def next_format(place: Place) -> None:
    of_format(place, records.FORMAT + 1)


@strange(f"has format {1 << 40}")
def far_newer_format(place: Place) -> None:
    of_format(place, 1 << 40)


@strange("has format 0")
def format_that_never_was(place: Place) -> None:
    of_format(place, 0)


@strange("is a backup")
def bare_backup(place: Place) -> None:
    place.store(place.beside)
    place.data_dir.mkdir()
    backup(place.beside, place.file)


@strange("is a backup")
def backup_as_directory(place: Place) -> None:
    place.store(place.beside)
    backup(place.beside, place.data_dir)


@strange("cut off")
def long_file_that_is_cut(place: Place) -> None:
    """Long enough that nobody reads all of it at each start."""
    place.store(body=b"x" * LONG_BYTES)
    os.truncate(place.file, place.run.chance.randrange(LONG_BYTES // 2, LONG_BYTES))


# ---- not where a store may be ---------------------------------------------------------------------------------------


@strange("is a file")
def file_as_directory(place: Place) -> None:
    place.data_dir.write_text("no store")


@strange("holds no store, but it holds 'letter.txt'")
def files_of_others(place: Place) -> None:
    place.data_dir.mkdir()
    (place.data_dir / "letter.txt").write_text("dear")


@strange("cannot be")
def link_to_nowhere(place: Place) -> None:
    place.data_dir.symlink_to(place.beside / "nowhere")


@strange("not a regular file")
def link_to_a_store(place: Place) -> None:
    place.store(place.beside)
    place.data_dir.mkdir()
    place.file.symlink_to(place.beside / "data.mdb")


@strange("not a regular file")
def link_to_itself(place: Place) -> None:
    place.data_dir.mkdir()
    place.file.symlink_to(place.file)


@strange("not a regular file")
def directory_as_file(place: Place) -> None:
    place.file.mkdir(parents=True)


@strange("not a regular file")
def pipe(place: Place) -> None:
    place.data_dir.mkdir()
    os.mkfifo(place.file)


@strange("not a regular file")
def device(place: Place) -> None:
    place.data_dir.mkdir()
    os.mknod(place.file, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero


@strange("not a regular file")
def unix_socket(place: Place) -> None:
    place.data_dir.mkdir()
    here = os.getcwd()
    os.chdir(place.data_dir)  # its path may be too long for a socket's name
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("data.mdb")
    finally:
        os.chdir(here)


@strange("not a regular file")
def link_as_the_brokers_lock(place: Place) -> None:
    place.store()
    (place.data_dir / "radiator.lock").unlink()
    place.beside.write_text("of somebody else")
    (place.data_dir / "radiator.lock").symlink_to(place.beside)


@strange("not a regular file")
def link_as_the_lock_of_lmdb(place: Place) -> None:
    place.store()
    (place.data_dir / "lock.mdb").unlink()
    place.beside.write_text("of somebody else")
    (place.data_dir / "lock.mdb").symlink_to(place.beside)


# ---- not ours to use ------------------------------------------------------------------------------------------------


@strange(f"belongs to user {STRANGER}")
def store_of_another_user(place: Place) -> None:
    place.store()
    os.chown(place.data_dir, STRANGER, STRANGER)


@strange("Read-only file system")
def read_only_file_system(place: Place) -> None:
    place.store(place.beside)
    place.data_dir.mkdir()
    read_only(place)


@strange("Read-only file system")
def empty_read_only_file_system(place: Place) -> None:
    place.beside.mkdir()
    place.data_dir.mkdir()
    read_only(place)


def read_only(place: Place) -> None:
    command("mount", "--bind", place.beside, place.data_dir)
    command("mount", "-o", "remount,bind,ro", place.data_dir)


# ---- only strange to look at ----------------------------------------------------------------------------------------


@strange(SERVED)
def rubbish_in_the_lock_files(place: Place) -> None:
    place.store()
    (place.data_dir / "lock.mdb").write_bytes(place.run.chance.randbytes(8192))
    (place.data_dir / "radiator.lock").write_bytes(place.run.chance.randbytes(100))


@strange(SERVED)
def no_lock_files(place: Place) -> None:
    place.store()
    (place.data_dir / "lock.mdb").unlink()
    (place.data_dir / "radiator.lock").unlink()


@strange(SERVED)
def left_over_of_a_start(place: Place) -> None:
    place.store()
    (place.data_dir / "data.mdb.new").write_bytes(b"half a store")


@strange(SERVED)
def open_to_everybody(place: Place) -> None:
    place.store()
    place.data_dir.chmod(0o777)
    place.file.chmod(0o666)


@strange(SERVED)
def files_beside_the_store(place: Place) -> None:
    place.store()
    (place.data_dir / "letter.txt").write_text("dear")


@strange(SERVED)
def longer_than_it_says(place: Place) -> None:
    place.store()
    with place.file.open("ab") as file:
        file.write(bytes(100_000))


# ---- the judgement --------------------------------------------------------------------------------------------------


@contextmanager
def strange_place(run: Run) -> Iterator[tuple[BrokerProcess, Place]]:
    directory = run.directory / "strange"
    directory.mkdir()
    broker = BrokerProcess(directory)
    try:
        yield broker, Place(broker.data_dir, run)
    finally:
        broker.kill()
        subprocess.run(["umount", broker.data_dir], capture_output=True)
        shutil.rmtree(directory)


def files(directory: Path) -> dict[str, bytes | str]:
    """What is there: the bytes of files, where links lead."""
    return {
        str(found.relative_to(directory)): str(found.readlink()) if found.is_symlink() else found.read_bytes()
        for found in sorted(directory.rglob("*"))
        if found.is_symlink() or found.is_file()
    }


def judge(run: Run, making: Making, words: str) -> None:
    with strange_place(run) as (broker, place):
        making(place)
        faults = faults_of_serving(broker) if words == SERVED else faults_of_refusing(broker, words)
        for fault in faults:
            run.violation(f"{making.__name__.replace('_', ' ')}: {fault}")


def faults_of_refusing(broker: BrokerProcess, words: str) -> list[str]:
    before = files(broker.directory)
    try:
        broker.start()
        return [f"the broker serves it: {broker.log}"]
    except AssertionError:
        status = broker.wait(10)
    faults = []
    lines = [line for line in broker.log.splitlines() if " warning " not in line]
    if status != EXIT_REFUSED or len(lines) != 1 or not lines[0].startswith("radiator: ") or words not in lines[0]:
        faults.append(f"it should be refused with status 1 and {words!r}; it ended with {status} and {broker.log}")
    if str(broker.data_dir) not in broker.log:
        faults.append(f"the sentence does not name it: {broker.log}")
    after = files(broker.directory)
    changed = [name for name in before if name in after and after[name] != before[name] and "lock" not in name]
    gone = [name for name in before if name not in after]
    if changed or gone:
        faults.append(f"refused, but {changed} are changed and {gone} are gone")
    return faults


def faults_of_serving(broker: BrokerProcess) -> list[str]:
    try:
        broker.start()
    except AssertionError as refused:
        return [f"it was not served: {refused}"]
    with Wire((broker.host, broker.port)) as wire:
        wire.connect()
        wire.subscribe("/queue/orders")
        body = wire.message().body
    status = broker.stop()
    if body != b"kept" or status != 0 or (broker.data_dir / "data.mdb.new").exists():
        return [f"it gave {body!r}, and ended with {status}: {broker.log}"]
    return []


def second_broker(run: Run) -> None:
    """Of two brokers on one store the second is refused, and the first does not notice."""
    with strange_place(run) as (first, place):
        place.store()
        first.start()
        beside = run.directory / "strange" / "second"
        beside.mkdir()
        second = BrokerProcess(beside, first.config_file.read_text().replace('"data"', f'"{first.data_dir}"'))
        second.data_dir = first.data_dir
        try:
            faults = faults_of_refusing(second, f"in use by another broker (process {first.pid})")
        finally:
            second.kill()
        first_body = body_of_the_first(first)
        if faults or first_body != b"kept" or first.stop() != 0:
            run.violation(f"two brokers on one store: {faults}, {first_body!r}, {first.log}")


def body_of_the_first(broker: BrokerProcess) -> bytes:
    with Wire((broker.host, broker.port)) as wire:
        wire.connect()
        wire.send("/queue/orders", "another")
        wire.subscribe("/queue/orders")
        return wire.message().body


def look_at_strange_places(run: Run) -> None:
    mount_for_this_process_only()
    while not run.is_over:
        order = run.chance.sample(MAKINGS, len(MAKINGS))
        for making, words in order:
            judge(run, making, words)
            run.case()
            if run.is_over:
                return
        second_broker(run)
        run.case()


CAMPAIGNS = (
    Campaign(
        number="T16b",
        name="strange-stores",
        title="starts brokers where a store is none of ours, in use, read-only, newer, or no file",
        unit="starts",
        run=look_at_strange_places,
        cases=(len(MAKINGS) + 1, 20 * (len(MAKINGS) + 1), 100 * (len(MAKINGS) + 1)),
        mutants=("no-length-check", "newer-version-accepted"),
        mutant_cases=len(MAKINGS) + 1,
        quick_mutants=2,
        needs=("own_mounts",),
    ),
)
