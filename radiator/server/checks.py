"""Checks of a client's identity that take too long for the hub, such as a password's hash: one thread runs them one
after another, in the order in which sessions asked. Sessions that ask for the very same check share one run of it.

The thread starts with the first check. A stop waits for none of them: a verdict that comes later is dropped.
"""

import traceback
from collections.abc import Callable
from typing import Any

from radiator.model.errors import Refusal
from radiator.model.limits import BEAT_S, CHECKS_WAITING_MAX
from radiator.model.principal import Check, Principal, Verdict
from radiator.server.log import EventLog
from radiator.server.worker import Worker

Answered = Callable[[Verdict], None]


class Checks:
    """Used on the hub only. A connection is identified by its number, and has one check at a time."""

    def __init__(self, loop: Any, log: EventLog) -> None:
        self._loop = loop
        self._log = log
        self._waiting: dict[Check, dict[int, Answered]] = {}  # each check, and the connections that get its verdict
        self._asked: dict[int, Check] = {}  # the check of each connection, until its verdict
        self._running: Check | None = None
        self._heard: dict[int, Answered] = {}  # who gets the verdict of the check that is running
        self._worker: Worker[Check, tuple[Verdict, str]] | None = None

    @property
    def waiting(self) -> int:
        """The number of checks that have not begun."""
        return len(self._waiting)

    def ask(self, connection: int, check: Check, answered: Answered) -> None:
        """Queues a check, whose verdict is passed to `answered` on the hub, unless `drop` is called before. If too many
        checks wait, the verdict is a refusal, at once.
        """
        if check is self._running:
            self._heard[connection] = answered
        elif check in self._waiting:
            self._waiting[check][connection] = answered
        elif len(self._waiting) >= CHECKS_WAITING_MAX:
            answered(Refusal("connections", "Too many connections wait to be recognised: try again later."))
            return
        else:
            self._waiting[check] = {connection: answered}
        self._asked[connection] = check
        self._go_on()

    def drop(self, connection: int) -> None:
        """Drops the verdict on that connection."""
        check = self._asked.pop(connection, None)
        if check is None:
            return
        self._heard.pop(connection, None)
        if check in self._waiting:
            self._waiting[check].pop(connection, None)
            if not self._waiting[check]:
                del self._waiting[check]

    def stop(self) -> None:
        """Begins no further check. A running one ends with the process."""
        self._waiting.clear()
        self._asked.clear()
        self._heard.clear()
        if self._worker is not None and not self._worker.is_busy:
            self._worker.stop()
            self._worker = None

    def _go_on(self) -> None:
        if self._worker is None:
            self._worker = Worker(self._loop, "checks", _run, self._ran, lambda: BEAT_S)
            self._worker.start()
        if self._waiting and not self._worker.is_busy:
            self._running = next(iter(self._waiting))
            self._heard = self._waiting.pop(self._running)
            self._worker.submit(self._running)

    def _ran(self, found: tuple[Verdict, str]) -> None:
        verdict, failure = found
        heard, self._heard, self._running = self._heard, {}, None
        if failure:
            self._log.trace(failure)
            self._log.error("check_failed", connection=next(iter(heard), 0))
        for connection in heard:
            del self._asked[connection]
        self._go_on()
        for answered in heard.values():
            answered(verdict)


def _run(check: Check) -> tuple[Verdict, str]:
    """Runs in the thread. Returns the verdict, and where the check failed, if it did: a check that raises anything
    recognises nobody.
    """
    try:
        found = check()
        if not isinstance(found, Principal):
            raise TypeError("a check gives a Principal, or raises Refusal")
    except Refusal as refusal:
        return refusal, ""
    except BaseException as bug:  # noqa: BLE001  # a door: a bug in a check must cost its own connection only
        # without the text of the error: it may contain what was checked
        failure = "".join(traceback.format_tb(bug.__traceback__)) + type(bug).__name__ + "\n"
        sentence = "Who this connection is could not be found out, because of a bug that the log tells of."
        return Refusal("connections", sentence), failure
    return found, ""
