"""Cases in forked children, many in each: a case may kill its process, or hang, and the next one gets a new process.

What is imported and built before is there in every child, so a case costs milliseconds. Nothing of this process may
hold an open store or a second thread when it forks.
"""

import json
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import IO

Report = Callable[[str], None]
"""Says what is about to be done: the last of it is what a case died of."""

Work = Callable[[int, Report], list[str]]
"""Does the case with that number: the promises that it found broken, a sentence each."""


class Failed(Exception):
    """A case raised what it should not have: its traceback."""


def run_cases(work: Work, cases: Sequence[int], limit_s: int) -> Iterator[tuple[int, list[str]]]:
    """Every case with what it found. A case that dies, or takes longer than limit_s, has found that."""
    left = list(cases)
    while left:
        child, lines = _forked(work, left, limit_s)
        doing = ""
        is_read = False
        try:
            for line in lines:
                kind, found = json.loads(line)
                if kind == "tell":
                    doing = found
                elif kind == "failed":
                    raise Failed(found)
                else:
                    yield left.pop(0), found
            is_read = True
        finally:
            if not is_read:
                os.kill(child, signal.SIGKILL)  # nobody wants to know more
            lines.close()
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if left:
            yield left.pop(0), [f"{doing}: {_death(status, limit_s)}"]


def _death(status: int, limit_s: int) -> str:
    if status == -signal.SIGALRM:
        return f"it took longer than {limit_s} s"
    return f"the process was killed by {signal.Signals(-status).name}" if status < 0 else f"it ended with {status}"


def _forked(work: Work, cases: Sequence[int], limit_s: int) -> tuple[int, IO[str]]:
    ours, its = os.pipe()
    child = os.fork()
    if child:
        os.close(its)
        return child, os.fdopen(ours)
    try:
        os.close(ours)
        with os.fdopen(its, "w") as out:

            def say(kind: str, what: object) -> None:
                out.write(json.dumps((kind, what)) + "\n")
                out.flush()

            try:
                for case in cases:
                    signal.alarm(limit_s)
                    say("done", work(case, lambda sentence: say("tell", sentence)))
            except BaseException:  # noqa: BLE001 - told to whoever started this child
                say("failed", traceback.format_exc())
    finally:
        os._exit(0)
