"""The log: stderr, one line an event: `2026-11-21T08:00:00.000Z info connected connection=7 peer=127.0.0.1:50312`, or
the same as a JSON object. `Logging` sets the lowest level, the form, and whether lines have journald's priorities.

Nothing that a client sends can forge a line or a field: values with anything but plain printable ASCII are quoted and
escaped, and cut at LOG_VALUE_CHARACTERS. Nor can it fill a disk: of each event LOG_LINES_PER_S are written, the others
are only counted; errors are always written. One client causes at most LOG_LINES_OF_CLIENT of an event in
LOG_CLIENT_EVERY_S, so that it hides no other client's. Writing never blocks the broker: a thread does it, and when
stderr blocks for so long that LOG_LINES_MAX lines wait, further ones are dropped. A line gives their number, at most
one every LOG_DROPPED_EVERY_S, however many others are written meanwhile; for clients, at the end of their period.
"""

import json
import os
import re
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from heapq import nlargest

from radiator.model.limits import (
    LOG_CLIENT_EVERY_S,
    LOG_CLIENTS_LISTED,
    LOG_CLIENTS_MAX,
    LOG_DROPPED_EVERY_S,
    LOG_FLUSH_MAX_S,
    LOG_LINES_MAX,
    LOG_LINES_OF_CLIENT,
    LOG_LINES_PER_S,
    LOG_TRACE_LINES_MAX,
    LOG_VALUE_CHARACTERS,
)
from radiator.model.log_lines import KeptLines
from radiator.model.settings import ALWAYS, AUTO, JSON, LOG_LEVELS, Logging
from radiator.server.last_lines import LastLines

Value = str | int | float | bool

_PLAIN = re.compile(r"[!#-<>-\[\]-~]+")  # printable ASCII without space, quote, equals sign and backslash


def shown(value: Value) -> str:
    """Returns a value as a line of the log shows it."""
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


@dataclass(slots=True, frozen=True)
class Form:
    """How a line is written. has_priorities: with journald's `<N>` before it."""

    is_json: bool = False
    has_priorities: bool = False


TEXT = Form()
_PRIORITIES = {"debug": 7, "info": 6, "warning": 4, "error": 3}  # the levels of syslog


def form_of(logging: Logging, file: int) -> Form:
    """Returns the configured form for that open file: `auto` means priorities if the file is connected to journald."""
    has_priorities = logging.priorities == ALWAYS or (logging.priorities == AUTO and _is_journal(file))
    return Form(logging.format == JSON, has_priorities)


def _is_journal(file: int) -> bool:
    """Whether systemd has connected it to the journal: JOURNAL_STREAM has its device and inode (systemd.exec(5))."""
    try:
        found = os.fstat(file)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def line(level: str, event: str, fields: Mapping[str, Value], now_s: float, form: Form = TEXT) -> str:
    """Returns one line. now_s: seconds since the epoch."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_s)) + f".{int(now_s * 1000) % 1000:03d}Z"
    priority = f"<{_PRIORITIES[level]}>" if form.has_priorities else ""
    if form.is_json:
        cut = {name: _cut(value) for name, value in fields.items()}
        return priority + json.dumps({"time": moment, "level": level, "event": event, **cut}) + "\n"
    text = "".join(f" {name}={shown(value)}" for name, value in fields.items())
    return f"{priority}{moment} {level} {event}{text}\n"


def _cut(value: Value) -> Value:
    if not isinstance(value, str) or len(value) <= LOG_VALUE_CHARACTERS:
        return value
    return f"{value[:LOG_VALUE_CHARACTERS]}..."


class EventLog:
    """The log. May be written to from any thread. `close` must be called before the process ends, or the last lines are
    lost.
    """

    def __init__(
        self, file: int = 2, logging: Logging | None = None, client_every_s: float = LOG_CLIENT_EVERY_S
    ) -> None:
        self._file = file
        self._lines: deque[str] = deque()
        self._last = LastLines()
        self._dropped = 0  # lines that were dropped, and not reported yet
        self._report_dropped_s = 0.0  # when they are to be reported
        self._second = 0
        self._written: dict[str, int] = {}  # how often each event was written within this second
        # how often each client has caused each event in this period, when the period ends, and whether any event of a
        # client was left out
        self._client_every_s = client_every_s
        self._of_clients: dict[tuple[str, str], int] = {}
        self._clients_until_s = 0.0
        self._is_client_left_out = False
        self._changed = threading.Condition()
        self._is_closing = False
        self.use(logging or Logging())
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def use(self, logging: Logging) -> None:
        """Applies these settings from the next line on."""
        self._least = LOG_LEVELS.index(logging.level)
        self.form = form_of(logging, self._file)

    def debug(self, event: str, **fields: Value) -> None:
        self.write("debug", event, fields)

    def info(self, event: str, **fields: Value) -> None:
        self.write("info", event, fields)

    def warning(self, event: str, **fields: Value) -> None:
        self.write("warning", event, fields)

    def error(self, event: str, **fields: Value) -> None:
        self.write("error", event, fields)

    def write(self, level: str, event: str, fields: Mapping[str, Value], client: str = "") -> None:
        """Logs one event. `level`, `event` and the names are the broker's own; values may come from clients. client:
        the network of the client that caused it, or "".
        """
        if LOG_LEVELS.index(level) < self._least:
            return
        now_s = time.time()
        with self._changed:
            if level != "error" and client and self._is_left_out(client, event):
                return
            if level != "error" and self._is_flood(event, int(now_s)):
                self._drop()
            else:
                self._say(level, event, fields, now_s)

    def _say(self, level: str, event: str, fields: Mapping[str, Value], now_s: float) -> None:
        text = line(level, event, fields, now_s, self.form)
        self._keep(level, event, fields, now_s, text)
        self._add(text)

    def _keep(self, level: str, event: str, fields: Mapping[str, Value], now_s: float, text: str) -> None:
        """Keeps a line in `last`, even if stderr takes no lines."""
        self._last.add(level, event, {name: _cut(value) for name, value in fields.items()}, now_s, len(text))

    def last(self, after: int | None, limit: int, level: str) -> KeptLines:
        """Returns lines that are still kept (model/log_lines.py)."""
        with self._changed:
            return self._last.read(after, limit, level)

    @property
    def waiting(self) -> int:
        """The number of lines that stderr has not taken yet."""
        return len(self._lines)

    def trace(self, text: str) -> None:
        """Logs the traceback of a bug: as plain text, or as the lines of one JSON object (only the last ones of a long
        one). `last` gets its last line only.
        """
        with self._changed:
            last = text.rstrip().rpartition("\n")[2]
            self._keep("error", "trace", {"sentence": last}, time.time(), last)
        if self.form.is_json:
            lines = [_cut(one) for one in text.splitlines()[-LOG_TRACE_LINES_MAX:]]
            text = line("error", "trace", {}, time.time(), self.form)[:-2] + f', "lines": {json.dumps(lines)}}}\n'
        elif self.form.has_priorities:
            text = "".join(f"<{_PRIORITIES['error']}>{one}\n" for one in text.splitlines())
        self._add(text)

    def close(self) -> None:
        """Waits until all lines are written, but at most LOG_FLUSH_MAX_S. May be called again."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(LOG_FLUSH_MAX_S)

    def _is_flood(self, event: str, second: int) -> bool:
        if second != self._second:
            self._second = second
            self._written.clear()
        self._written[event] = count = self._written.get(event, 0) + 1
        return count > LOG_LINES_PER_S

    def _is_left_out(self, client: str, event: str) -> bool:
        """Whether this client has reached its bound for that event. Where too many clients are counted, only the
        event's own bound holds for the others.
        """
        now_s = time.monotonic()
        if now_s >= self._clients_until_s:
            self._report_clients()
            self._clients_until_s = now_s + self._client_every_s
        count = self._of_clients.get((client, event), 0)
        if not count and len(self._of_clients) >= LOG_CLIENTS_MAX:
            return False
        self._of_clients[client, event] = count + 1
        if count < LOG_LINES_OF_CLIENT:
            return False
        if not self._is_client_left_out:
            self._is_client_left_out = True
            self._changed.notify()  # the thread must wake at the end of their period
        return True

    def _report_clients(self) -> None:
        """Ends the period: writes a line for each of the clients with the most events left out. The other clients'
        events are counted in the next line about everything that was dropped.
        """
        left_out = {key: count - LOG_LINES_OF_CLIENT for key, count in self._of_clients.items()}
        self._of_clients = {}
        if not self._is_client_left_out:
            return
        self._is_client_left_out = False
        most = nlargest(LOG_CLIENTS_LISTED, left_out, key=lambda key: left_out[key])
        for client, event in most:
            lines = left_out[client, event]
            if lines > 0 and len(self._lines) < LOG_LINES_MAX:
                del left_out[client, event]
                self._say(
                    "warning", "client_lines_dropped", {"client": client, "of": event, "lines": lines}, time.time()
                )
        for lines in left_out.values():
            if lines > 0:
                self._drop(lines)

    def _add(self, text: str) -> None:
        with self._changed:
            if len(self._lines) >= LOG_LINES_MAX:
                self._drop()
                return
            self._lines.append(text)
            self._changed.notify()

    def _drop(self, lines: int = 1) -> None:
        """Counts lines as dropped."""
        if not self._dropped:
            self._report_dropped_s = time.monotonic() + LOG_DROPPED_EVERY_S
            self._changed.notify()
        self._dropped += lines

    def _write(self) -> None:
        while True:
            with self._changed:
                while not (self._lines or self._is_closing or self._wait_s() == 0):
                    self._changed.wait(self._wait_s())
                if self._is_client_left_out and (self._is_closing or time.monotonic() >= self._clients_until_s):
                    self._report_clients()
                if self._dropped and (self._is_closing or self._dropped_wait_s() == 0):
                    now_s, fields = time.time(), {"lines": self._dropped}
                    text = line("warning", "log_lines_dropped", fields, now_s, self.form)
                    self._keep("warning", "log_lines_dropped", fields, now_s, text)
                    self._lines.append(text)
                    self._dropped = 0
                if not self._lines:
                    if not self._is_closing:
                        continue
                    return
                text = "".join(self._lines)
                self._lines.clear()
            self._write_all(text.encode("utf-8", "backslashreplace"))

    def _wait_s(self) -> float | None:
        """Returns the seconds until a line must report what was left out; None: nothing was."""
        waits = [self._dropped_wait_s()]
        if self._is_client_left_out:
            waits.append(max(0.0, self._clients_until_s - time.monotonic()))
        return min((wait for wait in waits if wait is not None), default=None)

    def _dropped_wait_s(self) -> float | None:
        """Returns the seconds until a line must report how many lines were dropped; None: none were."""
        return max(0.0, self._report_dropped_s - time.monotonic()) if self._dropped else None

    def _write_all(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError:
            pass  # the log cannot be written any more; the broker goes on
