"""T28: ACKs in a store that is nearly full, in any order, however many at once; beside backups, and over kills.

A map of some size is filled to where SENDs would wait. Then messages are removed, in batches of up to as many as a
commit of the broker has: every second one, say, so that each copies a page, and pages that are freed are not used again
at once. The tables follow when they must, or sooner. A backup is made now and then. Nothing of this may fail; after
it, and after the start that follows a kill, what is left must be there, and what was removed must not; and the file
must not be longer than the map and what removing may copy.
"""

import os
from pathlib import Path
from random import Random

from radiator.model.errors import DiskFailed, StoreError
from radiator.model.limits import BATCH_WRITES, MIB
from radiator.storage.backup import backup, restore
from tests.campaigns.campaign import Campaign, Run
from tests.storage.scribe import Scribe

MAPS_BYTES = (24 * MIB, 48 * MIB, 96 * MIB)
BODY_BYTES = (300, 900, 1700, 3500)
FULL_SHARE = 0.85  # SENDs wait above nine tenths, or less
COPIED_BYTES = 64 * MIB  # the pages of two runs of the rows that may wait for the tables
LEFT, KILLED = 0, 1
QUEUE = "orders"


def order_of(chance: Random, positions: list[int]) -> list[int]:
    """Which are removed, one after the other."""
    kind = chance.randrange(3)
    if kind == 0:
        step = chance.randint(2, 5)
        return positions[chance.randrange(step) :: step]
    some = chance.sample(positions, len(positions) * chance.randint(3, 9) // 10)
    return some if kind == 1 else sorted(some, reverse=True)


def filled(chance: Random, path: Path, map_size: int) -> tuple[Scribe, list[int]]:
    scribe = Scribe(path, map_size)
    queue, body = scribe.declare(QUEUE), b"x" * chance.choice(BODY_BYTES)
    positions: list[int] = []
    while scribe.store.used_bytes() < FULL_SHARE * map_size:
        positions += [put.position for put in scribe.fill(queue, 500, body)]
    return scribe, positions


def remove(scribe: Scribe, chance: Random, order: list[int]) -> None:
    """In batches, each of which is committed when this returns."""
    scribe.keeps_up = False
    begin = 0
    while begin < len(order):
        count = chance.choice((1, 100, BATCH_WRITES, BATCH_WRITES))
        scribe.commit(*(scribe.remove(1, position) for position in order[begin : begin + count]))
        begin += count
        if chance.random() < 0.1:
            scribe.store.catch_up()


def live(path: Path, map_size: int, seed: str, is_killed: bool) -> None:
    """Fills it, and removes some: in a process of its own. Fails as the broker would."""
    chance = Random(seed)
    scribe, positions = filled(chance, path, map_size)
    remove(scribe, chance, order_of(chance, positions))
    (path.parent / "left").write_text(str(len(scribe.messages)))
    if not is_killed:
        scribe.store.close()
    os._exit(0)


def full_map(run: Run, number: int) -> None:
    """One store."""
    directory = run.directory / str(number)
    directory.mkdir()
    chance, path, map_size = run.chance, directory / "data", run.chance.choice(MAPS_BYTES)
    seed, is_killed = f"{run.seed}/{number}", chance.random() < 0.5
    child = os.fork()
    if not child:
        try:
            live(path, map_size, seed, is_killed)
        except (DiskFailed, StoreError) as error:
            (directory / "wrong").write_text(str(error))
        finally:
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        wrong = directory / "wrong"
        run.violation(f"{seed}: ACKs failed: {wrong.read_text() if wrong.exists() else 'it ended'}")
        return
    left = int((directory / "left").read_text())
    try:
        if chance.random() < 0.5:
            backup(path, directory / "copy", compact=chance.random() < 0.5)
            if restore(directory / "copy", directory / "restored").messages != left:
                run.violation(f"{seed}: the backup has not the {left} messages that are left")
        scribe = Scribe(path, map_size)
        bodies = scribe.bodies(1)
        if len(bodies) != left or None in bodies:
            run.violation(f"{seed}: {len(bodies)} messages are there, and {left} were left")
        scribe.store.close()
    except (DiskFailed, StoreError) as error:
        run.violation(f"{seed}: {error}")
        return
    file_bytes = (path / "data.mdb").stat().st_size
    if file_bytes > map_size + COPIED_BYTES:
        run.violation(f"{seed}: the file has {file_bytes} bytes, the map {map_size}")


def full_maps(run: Run) -> None:
    number = 0
    while not run.is_over:
        full_map(run, number)
        number += 1
        run.case()


CAMPAIGNS = (
    Campaign(
        number="T28",
        name="full-maps",
        title="ACKs messages of a nearly full store in any order and number, over kills and backups",
        unit="stores",
        run=full_maps,
        cases=(6, 300, 3_000),
        mutants=("map-without-room-for-acks", "rows-wait-without-bound"),
        mutant_cases=40,
        quick_mutants=2,
        needs=("linux",),
    ),
)
