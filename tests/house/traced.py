"""The broker's command, with a list of the functions that it enters.

    python -m tests.house.traced FILE serve --config CONFIG

Each function of the package is written to FILE once, when it is first entered, in whichever thread or greenlet: its
path within the package, its first line and its qualified name, between tabs. A line is written whole and at once, so
that the list is complete up to the moment of a kill. The `__init__` that a dataclass writes counts as its class: the
first line is 0.
"""

import os
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import greenlet

import radiator

PACKAGE = f"{Path(radiator.__file__).resolve().parent}{os.sep}"
MADE_BY_DATACLASSES = "<string>"


def trace_to(path: Path) -> None:
    """Begins with this thread and this greenlet; every later one is traced from its first step."""
    listed = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    seen: set[CodeType] = set()

    def entered(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or frame.f_code in seen:
            return
        code = frame.f_code
        seen.add(code)
        if line := _line(frame, code):
            os.write(listed, line.encode())

    def switched(event: str, greenlets: Any) -> None:
        sys.setprofile(entered)  # a greenlet has a profile of its own

    threading.setprofile(entered)
    greenlet.settrace(switched)
    sys.setprofile(entered)


def _line(frame: FrameType, code: CodeType) -> str:
    if code.co_filename.startswith(PACKAGE):
        return f"{code.co_filename.removeprefix(PACKAGE)}\t{code.co_firstlineno}\t{code.co_qualname}\n"
    module = frame.f_globals.get("__name__", "")
    if code.co_filename == MADE_BY_DATACLASSES and module.startswith("radiator.") and code.co_name == "__init__":
        made = type(frame.f_locals[code.co_varnames[0]])
        return f"{made.__module__.removeprefix('radiator.').replace('.', os.sep)}.py\t0\t{made.__qualname__}\n"
    return ""


if __name__ == "__main__":
    from radiator.tools.cli import main

    trace_to(Path(sys.argv.pop(1)))
    sys.exit(main())
