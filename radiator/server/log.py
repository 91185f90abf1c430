"""The log: stderr, one line an event: `2026-11-21T08:00:00.000Z info connected connection=7 peer=127.0.0.1:50312`.

Nothing that a client said can forge a line or a field: values with anything but plain printable ASCII are quoted and
escaped, and cut at LOG_VALUE_CHARACTERS. Nor can it fill a disk: of each event LOG_LINES_PER_S are told, the others
only counted; errors are always told. Writing never holds up the broker: a thread does it, and when stderr takes
nothing for so long that LOG_LINES_MAX wait, further lines are dropped. How many were dropped is told in one line, at
most one every LOG_DROPPED_EVERY_S, however many other lines are told meanwhile.
"""

import os
import re
import threading
import time
from collections import deque
from collections.abc import Mapping

from radiator.limits import (
    LOG_DROPPED_EVERY_S,
    LOG_FLUSH_MAX_S,
    LOG_LINES_MAX,
    LOG_LINES_PER_S,
    LOG_VALUE_CHARACTERS,
)

Value = str | int | float | bool

_PLAIN = re.compile(r"[!#-<>-\[\]-~]+")  # printable ASCII without space, quote, equals sign and backslash


def shown(value: Value) -> str:
    """A value as it stands in a line."""
    if not isinstance(value, str):
        return str(value).lower() if isinstance(value, bool) else str(value)
    is_cut = len(value) > LOG_VALUE_CHARACTERS
    text = value[:LOG_VALUE_CHARACTERS]
    if not is_cut and _PLAIN.fullmatch(text):
        return text
    escaped = "".join(_escaped(character) for character in text)
    return f'"{escaped}{"..." if is_cut else ""}"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def line(level: str, event: str, fields: Mapping[str, Value], now_s: float) -> str:
    """One line. now_s: seconds since the epoch."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_s))
    told = "".join(f" {name}={shown(value)}" for name, value in fields.items())
    return f"{moment}.{int(now_s * 1000) % 1000:03d}Z {level} {event}{told}\n"


class Log:
    """May be written to from every thread. `close` before the process ends, or the last lines are lost."""

    def __init__(self, file: int = 2) -> None:
        self._file = file
        self._lines: deque[str] = deque()
        self._dropped = 0  # lines that nothing has told of yet
        self._tell_dropped_s = 0.0  # when that is due
        self._second = 0
        self._told: dict[str, int] = {}  # how often each event was told within this second
        self._changed = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def info(self, event: str, **fields: Value) -> None:
        self.write("info", event, fields)

    def warning(self, event: str, **fields: Value) -> None:
        self.write("warning", event, fields)

    def error(self, event: str, **fields: Value) -> None:
        self.write("error", event, fields)

    def write(self, level: str, event: str, fields: Mapping[str, Value]) -> None:
        """One event. `level`, `event` and the names are ours; values may be anybody's."""
        now_s = time.time()
        with self._changed:
            if level != "error" and self._is_flood(event, int(now_s)):
                self._drop()
            else:
                self._add(line(level, event, fields, now_s))

    def trace(self, text: str) -> None:
        """A traceback, as it is: only for bugs."""
        self._add(text)

    def close(self) -> None:
        """Waits until all is written, for LOG_FLUSH_MAX_S at most. May be called again."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(LOG_FLUSH_MAX_S)

    def _is_flood(self, event: str, second: int) -> bool:
        if second != self._second:
            self._second = second
            self._told.clear()
        self._told[event] = told = self._told.get(event, 0) + 1
        return told > LOG_LINES_PER_S

    def _add(self, text: str) -> None:
        with self._changed:
            if len(self._lines) >= LOG_LINES_MAX:
                self._drop()
                return
            self._lines.append(text)
            self._changed.notify()

    def _drop(self) -> None:
        """One line is only counted."""
        if not self._dropped:
            self._tell_dropped_s = time.monotonic() + LOG_DROPPED_EVERY_S
            self._changed.notify()
        self._dropped += 1

    def _write(self) -> None:
        while True:
            with self._changed:
                while not (self._lines or self._is_closing or self._dropped_wait_s() == 0):
                    self._changed.wait(self._dropped_wait_s())
                if self._dropped and (self._is_closing or self._dropped_wait_s() == 0):
                    self._lines.append(line("warning", "log_lines_dropped", {"lines": self._dropped}, time.time()))
                    self._dropped = 0
                if not self._lines:
                    return
                text = "".join(self._lines)
                self._lines.clear()
            self._write_all(text.encode("utf-8", "backslashreplace"))

    def _dropped_wait_s(self) -> float | None:
        """How long until it is told how many lines were dropped; None: none were."""
        return max(0.0, self._tell_dropped_s - time.monotonic()) if self._dropped else None

    def _write_all(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError:
            pass  # nobody reads it any more; the broker goes on
