"""Run as a process of its own: archives STORE into DIRECTORY/0, /1, ... in children that kill themselves at the first,
second, ... step that touches the disk, until one comes to its end. Prints how each ended.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from radiator.tools.archive.archiver import ArchivePlan, Archiver, locked
from radiator.tools.archive.source import Source


def main(store: Path, directory: Path, seal_rows: int) -> None:
    step = 0
    while True:
        child = os.fork()
        if child == 0:
            _die_at(step)
            _archive(store, directory / str(step), seal_rows)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print("killed" if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status), flush=True)
        if not os.WIFSIGNALED(status):
            return
        step += 1


def _archive(store: Path, directory: Path, seal_rows: int) -> None:
    with locked(directory), Source(store) as source:
        Archiver(source, ArchivePlan(directory=directory, seal_rows=seal_rows), lambda sentence: None).run()


def _die_at(step: int) -> None:
    """The steps are counted before and behind each call, so that what a call leaves undone or done is both met."""
    left = [step]

    def tick() -> None:
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1

    def watched(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def call(*arguments: Any, **named: Any) -> Any:
            tick()
            result = real(*arguments, **named)
            tick()
            return result

        setattr(owner, name, call)

    for name in ("fsync", "truncate"):
        watched(os, name)
    for name in ("rename", "unlink", "mkdir"):
        watched(Path, name)
    for name in ("write_table", "close"):
        watched(pq.ParquetWriter, name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
