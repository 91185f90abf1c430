"""T1d: commands that work on a data directory are killed as they enter a system call, for each that changes the disk.

Then a start, and the same command again: nothing is served that is empty or half, what was there is there, the command
comes to its end, and nothing that the killed one left stays. The archiver has a test of its own (tests/tools/archive/),
and the broker T1. A kill loses nothing that was handed to the operating system: what a power cut does is not seen here.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from radiator.model.errors import RadiatorError, StoreError
from radiator.model.limits import MIB
from radiator.storage.backup import backup, restore
from radiator.storage.check import check
from radiator.storage.compact import compact
from radiator.storage.lmdb.store import open_store
from radiator.storage.rename import rename
from tests.broker_process import environment
from tests.campaigns import trace
from tests.campaigns.campaign import Campaign, Run
from tests.storage.scribe import filled

CALLS = (*trace.DISK_CALLS, "flock", "chmod", "fchmod", "copy_file_range", "sendfile", "fallocate")
COMMAND_MAX_S = 60.0
MAP_BYTES = 64 * MIB
OF_A_STORE = ["data.mdb", "lock.mdb", "radiator.lock", "wal"]


class Case:
    """A directory with a store in `data` and a backup of it in `backups/old`. messages: how many both hold. into_empty:
    where a restore goes is there already.
    """

    def __init__(self, directory: Path, into_empty: bool) -> None:
        directory.mkdir()
        self.into_empty = into_empty
        self.directory = directory
        self.data, self.backups, self.new = directory / "data", directory / "backups", directory / "new"
        filled(self.data)
        self.backups.mkdir()
        backup(self.data, self.backups / "old")
        self.messages = check(self.data).messages
        if into_empty:
            self.new.mkdir()

    def run(self, arguments: list[str], options: list[str]) -> None:
        """A command under strace; it may be killed."""
        subprocess.run(
            ["strace", "-f", "-qq", *options, sys.executable, "-m", "radiator", *arguments],
            cwd=self.directory,
            env={**environment(), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=COMMAND_MAX_S,
            check=False,
        )

    def has_all(self, data_dir: Path) -> str:
        """What is wrong with a store that must have all, be served, and be alone in its directory; "" if nothing."""
        report = check(data_dir)
        if report.findings or report.messages != self.messages:
            return f"{data_dir.name} has {report.messages} messages of {self.messages}: {report.findings[:3]}"
        open_store(data_dir, MAP_BYTES).close()
        there = sorted(os.listdir(data_dir))
        return "" if there == OF_A_STORE else f"{data_dir.name} holds {there}"


def after_backup(case: Case) -> str:
    """A backup by that name is whole, and the next one clears up."""
    for name in sorted(os.listdir(case.backups)):
        if name in ("old", "copy"):
            restored = case.directory / f"of-{name}"
            if restore(case.backups / name, restored).messages != case.messages:
                return f"the backup {name} is not whole"
    backup(case.data, case.backups / "next")
    left = set(os.listdir(case.backups)) - {"old", "copy", "next"}
    return f"it left {sorted(left)}, and the next backup did not clear up" if left else case.has_all(case.data)


def after_restore(case: Case) -> str:
    """It is whole, or not begun, or not served; said again it comes to its end."""
    if not (case.new / "data.mdb").exists():
        # without a file it is as it was before; a start would make a store of its own there, as it may
        if set(os.listdir(case.new) if case.new.exists() else ()) - {"radiator.lock"}:
            try:
                open_store(case.new, MAP_BYTES).close()
            except StoreError:
                pass
            else:
                return "a start served an empty store where the restore had not come to its end"
        elif case.new.exists() and not case.into_empty:
            return "a start would take the directory for an empty one: the restore left no mark in it"
        restore(case.backups / "old", case.new)
    left = set(os.listdir(case.directory)) - {"data", "backups", "new"}
    return f"it left {sorted(left)}" if left else case.has_all(case.new)


def after_rename(case: Case) -> str:
    """The store is whole under either name, and one process has it, whatever was removed."""
    rename(case.data, "b")
    held = open_store(case.data, MAP_BYTES)
    (case.data / "radiator.lock").unlink()
    # another process: LMDB itself opens no file twice in one
    code = f"from radiator.storage.lmdb.store import open_store; open_store('data', {MAP_BYTES})"
    second = subprocess.run(
        [sys.executable, "-c", code], cwd=case.directory, env=environment(), capture_output=True, check=False
    )
    held.close()
    if b"in use by another broker" not in second.stderr:
        return "two processes have the store open: its radiator.lock was removed"
    return case.has_all(case.data)


def after_compact(case: Case) -> str:
    """The store is the old one or the new one, whole, and nothing is beside it after a start."""
    complaint = case.has_all(case.data)
    if complaint:
        return complaint
    compact(case.data)
    return case.has_all(case.data)


@dataclass(frozen=True, slots=True)
class Deed:
    """A command, and what must be so after it was killed."""

    arguments: list[str]
    judge: Callable[[Case], str]
    into_empty: bool = False

    def __str__(self) -> str:
        return f"{' '.join(self.arguments)}{' (which is there, and empty)' if self.into_empty else ''}"


DEEDS = (
    Deed(["restore", "backups/old", "new"], after_restore),
    Deed(["backup", "data", "backups/copy"], after_backup),
    Deed(["restore", "backups/old", "new"], after_restore, into_empty=True),
    Deed(["backup", "--compact", "data", "backups/old"], after_backup),
    Deed(["rename", "data", "b"], after_rename),
    Deed(["compact", "data"], after_compact),
)


def points(deed: Deed, directory: Path) -> list[tuple[str, int]]:
    """Every call that changes the disk, by its name and number: a run without a kill is counted."""
    case = Case(directory, deed.into_empty)
    record = directory / "record"
    case.run(deed.arguments, ["-e", f"trace={','.join(CALLS)}", "-s", "0", "-o", str(record)])
    counts = trace.counted(record)
    return [(call, number + 1) for call in sorted(counts) for number in range(counts[call])]


def in_turn(run: Run, name: str) -> Iterator[tuple[Deed, str, int]]:
    """Points of all deeds alternately, each once."""
    chance: Random = run.chance
    lists = []
    for number, deed in enumerate(DEEDS):
        found = points(deed, run.directory / f"counted-{name}-{number}")
        run.figures["points"] = int(run.figures.get("points", 0)) + len(found)
        lists.append([(deed, *point) for point in chance.sample(found, len(found))])
    while lists:
        for left in lists:
            yield left.pop()
        lists = [left for left in lists if left]


def kill_commands(run: Run) -> None:
    """Every point once, and then all of them again."""
    rounds = 0
    while not run.is_over:
        rounds += 1
        for number, (deed, call, nth) in enumerate(in_turn(run, f"{rounds}")):
            if run.is_over:
                return
            case = Case(run.directory / f"case-{rounds}-{number}", deed.into_empty)
            case.run(deed.arguments, trace.kill_at(call, nth))
            try:
                complaint = deed.judge(case)
            except RadiatorError as error:
                complaint = f"what must be possible is refused: {error}"
            run.case()
            if complaint:
                run.violation(f"`radiator {deed}`, killed at {call} {nth}: {complaint}")


CAMPAIGNS = (
    Campaign(
        number="T1d",
        name="command-kills",
        title="kills backup, restore, rename and compact at every call by which they change the disk",
        unit="kills",
        run=kill_commands,
        cases=(10, 150, 150),
        mutants=("unfinished-restore-served", "killed-backup-stays", "data-file-not-locked", "compact-in-two-steps"),
        mutant_cases=100,
        needs=("strace",),
    ),
)
