"""S35: who else on the machine may read or write what the broker keeps: nobody, whatever the umask was.

Stores, backups and restored stores are made and used under many umasks, in directories that were open to all, and
behind what an earlier crash, or somebody with bad intentions, left there. Directories must be 0700, files 0600, and a
file of somebody else that a link points to stays as it was. Links in place of the store itself are in strange.py. It
does not see what others could do between two system calls, nor what root may.
"""

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess, environment
from tests.campaigns.bystander import upright
from tests.campaigns.campaign import Campaign, Run

UMASKS = (0o000, 0o022, 0o002, 0o007, 0o070, 0o077)
WIDE = (0o777, 0o755, 0o750, 0o711, 0o666, 0o644, 0o640, 0o604, 0o600, 0o000)
PRECIOUS = b"a file of somebody else\n"
REFUSED_WITHIN_S = 5.0
CONFIG = "[create]\nqueues = true\n"
FILES = ("data.mdb", "lock.mdb", "wal", "radiator.lock", "radiator.sock")
SEGMENT = re.compile(r"[0-9]{10}\.wal")
IN_THE_MAKING = "wal/next.new"  # the next segment; a start removes what a kill has left of it

NOTHING, EMPTY, WIDENED, CRASHED, LEFTOVER, LINKED = (
    "nothing", "an empty directory", "a widened store", "a crashed store, widened", "a leftover of a start",
    "a link where a store is made",
)  # fmt: skip


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def judge(run: Run, path: Path, case: str, *allowed: str) -> None:
    """A data directory, with its log, or a single file. allowed: what may lie there besides the files of a store."""
    found = [path, *sorted(path.rglob("*"))]
    for one in found:
        with suppress(FileNotFoundError):  # a running broker renames and removes segments
            found_mode = one.lstat().st_mode
            mode = stat.S_IMODE(found_mode)
            if mode != (0o700 if stat.S_ISDIR(found_mode) else 0o600):
                run.violation(f"{one.name} has the mode {mode:04o}: {case}.")
    strange = {str(one.relative_to(path)) for one in found[1:] if not SEGMENT.fullmatch(one.name)}
    strange -= {*FILES, *allowed}
    if strange:
        run.violation(f"There is {sorted(strange)} beside the store: {case}.")


def radiator(run: Run, directory: Path, case: str, *words: str, status: int = 0) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "radiator", *words], cwd=directory, env=environment(), capture_output=True, text=True
    )
    if done.returncode != status:
        run.violation(f"radiator {' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}; {case}.")


def send(broker: BrokerProcess) -> None:
    with Wire((broker.host, broker.port)) as wire:
        wire.connect()
        for number in range(5):
            wire.send("/queue/x", f"{number}")


def widen(run: Run, data_dir: Path) -> None:
    """As a copy, a restore by other tools, or an operator may leave it."""
    for one in sorted(data_dir.rglob("*"), reverse=True):
        one.chmod(run.chance.choice(WIDE))
    data_dir.chmod(run.chance.choice(WIDE))


def prepare(run: Run, broker: BrokerProcess, before: str, precious: Path) -> None:
    data_dir = broker.data_dir
    if before in (WIDENED, CRASHED):
        with broker:
            send(broker)
            if before == WIDENED and broker.stop() != 0:
                run.violation(f"The broker did not stop clean: {broker.log[-2000:]}")
        widen(run, data_dir)
    elif before != NOTHING:
        data_dir.mkdir()
        if before == LEFTOVER:
            (data_dir / "data.mdb.new").write_bytes(run.chance.randbytes(20_000))
        elif before == LINKED:
            (data_dir / "data.mdb.new").symlink_to(precious)
        data_dir.chmod(run.chance.choice(WIDE))


def check_precious(run: Run, precious: Path, case: str) -> None:
    if precious.read_bytes() != PRECIOUS or stat.S_IMODE(precious.stat().st_mode) != 0o644:
        run.violation(f"A file of somebody else was changed: {case}.")


def one(run: Run, directory: Path, mask: int, before: str) -> None:
    what = f"with umask {mask:03o}, {before} before"
    precious = directory / "precious"
    precious.write_bytes(PRECIOUS)
    precious.chmod(0o644)
    broker = BrokerProcess(directory, CONFIG)
    prepare(run, broker, before, precious)
    with umask(mask):
        if before == LINKED:
            if not is_refused(broker) or "Traceback" in broker.log:
                run.violation(f"A link in the data directory is not refused, or not in a sentence: {broker.log}")
        else:
            with broker:
                with upright(run, broker):
                    send(broker)
                    judge(run, broker.data_dir, f"running {what}", IN_THE_MAKING)
                    keep(run, directory, what)
                is_stopped = run.chance.random() < 0.5
                if is_stopped:
                    broker.stop()
            judge(run, broker.data_dir, f"after the end, {what}", *(() if is_stopped else (IN_THE_MAKING,)))
        check_precious(run, precious, what)
    run.case()


def is_refused(broker: BrokerProcess) -> bool:
    try:
        return broker.start_and_fail(REFUSED_WITHIN_S) == 1
    except subprocess.TimeoutExpired:
        return False
    finally:
        broker.kill()


def keep(run: Run, directory: Path, case: str) -> None:
    """Backups and what is made of them; one where a link leads to somebody else's file."""
    radiator(run, directory, case, "backup", "data", "kept")
    radiator(run, directory, case, "backup", "data", "kept", *run.chance.choice(([], ["--compact"])))
    judge(run, directory / "kept", f"a backup {case}")
    (directory / "link").symlink_to(directory / "precious")
    radiator(run, directory, case, "backup", "data", "link", status=1)
    if run.chance.random() < 0.5:
        (directory / "again").mkdir()
        (directory / "again").chmod(run.chance.choice((0o777, 0o755, 0o700)))
    radiator(run, directory, case, "restore", "kept", "again")
    judge(run, directory / "again", f"a restored store {case}")


def file_modes(run: Run) -> None:
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # nor may the package get files with these modes
    kinds: list[str] = []
    for number in range(run.cases):
        if run.is_over:
            break
        kinds = kinds or run.chance.sample((NOTHING, EMPTY, WIDENED, CRASHED, LEFTOVER, LINKED), 6)
        directory = run.directory / str(number)
        directory.mkdir()
        one(run, directory, run.chance.choice(UMASKS), kinds.pop())
        shutil.rmtree(directory)


CAMPAIGNS = (
    Campaign(
        number="S35",
        name="file-modes",
        title="stores, backups and restores under every umask, where everything was open to all",
        unit="directories",
        run=file_modes,
        cases=(12, 240, 5_000),
        mutants=("files-readable-by-all", "directory-left-open", "links-followed", "backup-readable-by-all"),
        mutant_cases=12,
        quick_mutants=4,
        needs=("linux",),
    ),
)
