"""Shows the progress of a long task: one line on a terminal, rewritten a few times a second, with rate and time left.

On stderr, and only where that is a terminal: a program that reads a pipe has no use for it.
"""

import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

from radiator.tools.cli.text import bytes_text, cut, duration_text, width_of

EVERY_S = 0.25
BEGINS_S = 0.5  # what is over sooner shows nothing
BYTES = "bytes"


class Progress:
    """Call it with what is being done, the unit that is counted, how much is done, and of how much.

    Use it in a `with`, which removes the line at the end. stream: stderr; now_s: returns monotonic seconds.
    """

    def __init__(self, command: str, stream: TextIO | None = None, now_s: Callable[[], float] = time.monotonic) -> None:
        self._command = command
        self._stream = sys.stderr if stream is None else stream
        self._now_s = now_s
        self._is_shown = self._stream.isatty()
        self._begun_s = now_s()
        self._what = ""
        self._what_begun_s = self._next_s = 0.0
        self._before = 0  # of what is done, when this was first called for it
        self._columns = 0  # of the line that is shown

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    @property
    def took(self) -> str:
        """How long it has gone on, in words."""
        return f"{self._now_s() - self._begun_s:.1f} s"

    def __call__(self, what: str, unit: str, done: int, whole: int) -> None:
        if not self._is_shown:
            return
        now_s = self._now_s()
        if what != self._what:
            self._what, self._what_begun_s, self._before = what, now_s, done
            self._next_s = max(self._next_s, self._begun_s + BEGINS_S)
        if now_s >= self._next_s:
            self._next_s = now_s + EVERY_S
            self._write(self._line(unit, done, whole, now_s - self._what_begun_s))

    def clear(self) -> None:
        """Removes the line: something else is to be written there."""
        if self._columns:
            self._write("")

    def _line(self, unit: str, done: int, whole: int, passed_s: float) -> str:
        def shown(count: float) -> str:
            return bytes_text(int(count)) if unit == BYTES else f"{count:.{2 if count % 1 and count < 10 else 0}f}"

        name = "" if unit == BYTES else f" {unit}"
        line = f"{self._command}: {self._what}: {shown(done)}"
        if whole:
            line += f" of {shown(whole)}{name} ({min(done, whole) * 100 // whole} %)"
        else:
            line += name
        rate = (done - self._before) / passed_s if passed_s > 0 else 0.0
        if rate:
            line += f", {shown(rate)}/s"
            if whole > done:
                line += f", {duration_text((whole - done) / rate + 0.5)} left"
        return line

    def _write(self, line: str) -> None:
        columns = shutil.get_terminal_size().columns
        line = cut(line, columns - 1)
        blank = " " * (self._columns - width_of(line))
        self._stream.write(f"\r{line}{blank}" + ("" if line else "\r"))
        self._stream.flush()
        self._columns = width_of(line)
