"""Checks of a client's identity that take too long for the hub, such as a password's hash: one thread runs them one
after another, in the order in which sessions asked.

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
        self._waiting: dict[int, tuple[Check, Answered]] = {}
        self._connection = 0  # whose check is being run
        self._answered: Answered | None = None  # gets the verdict
        self._worker: Worker[Check, tuple[Verdict, str]] | None = None

    def ask(self, connection: int, check: Check, answered: Answered) -> None:
        """Queues the check; `answered` is called on the hub, unless `drop` comes before. Where too many checks wait, it
        is refused at once.
        """
        if len(self._waiting) >= CHECKS_WAITING_MAX:
            answered(Refusal("connections", "Too many connections wait to be recognised: try again later."))
            return
        self._waiting[connection] = check, answered
        self._go_on()

    def drop(self, connection: int) -> None:
        """From now on the verdict about that connection is dropped."""
        self._waiting.pop(connection, None)
        if connection == self._connection:
            self._answered = None

    def stop(self) -> None:
        """No further check is begun. A running one ends with the process."""
        self._waiting.clear()
        self._answered = None
        if self._worker is not None and not self._worker.is_busy:
            self._worker.stop()
            self._worker = None

    def _go_on(self) -> None:
        if self._worker is None:
            self._worker = Worker(self._loop, "checks", _run, self._ran, lambda: BEAT_S)
            self._worker.start()
        if self._waiting and not self._worker.is_busy:
            self._connection = next(iter(self._waiting))
            check, self._answered = self._waiting.pop(self._connection)
            self._worker.submit(check)

    def _ran(self, found: tuple[Verdict, str]) -> None:
        verdict, failure = found
        connection, answered = self._connection, self._answered
        self._connection, self._answered = 0, None
        if failure:
            self._log.trace(failure)
            self._log.error("check_failed", connection=connection)
        self._go_on()
        if answered is not None:
            answered(verdict)


def _run(check: Check) -> tuple[Verdict, str]:
    """In the thread: the verdict, and where the check failed. A check that fails in any way recognises nobody."""
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
