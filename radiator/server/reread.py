"""Reads config.toml again on an operator's request or on SIGHUP: in a thread, beside the dispatcher's turns."""

import traceback
from collections.abc import Callable
from typing import Any

from radiator.model.commands import Reread
from radiator.model.limits import BEAT_S
from radiator.model.settings import Config
from radiator.server.inbox import Inbox
from radiator.server.log import EventLog
from radiator.server.worker import Worker

Read = Callable[[Config], Reread]


class Rereader:
    """Used on the hub only, one reading at a time. running: the configuration in force. read: reads the file, and
    compares it with `running`.
    """

    def __init__(self, loop: Any, running: Config, read: Read, inbox: Inbox, log: EventLog) -> None:
        self.running = running
        self._loop = loop
        self._read = read
        self._inbox = inbox
        self._log = log
        self._is_busy = False
        self._is_asked_again = False
        self._found: Reread | None = None

    def ask(self) -> None:
        """Reads the file; while an earlier reading goes on or is being applied, reads it again after that."""
        if self._is_busy:
            self._is_asked_again = True
            return
        self._is_busy = True
        worker: Worker[Config, Reread] = Worker(self._loop, "reread", self._reads, self._answered, lambda: BEAT_S)
        self._worker = worker
        worker.start()
        worker.submit(self.running)

    def _reads(self, running: Config) -> Reread:
        """Runs in the thread."""
        try:
            return self._read(running)
        except Exception as bug:  # noqa: BLE001  # a door: a bug in what a file may say must not end a running broker
            self._log.trace("".join(traceback.format_exception(bug)))
            return Reread(None, mistakes=[f"A bug in reading the file ({type(bug).__name__}): the log has it."])

    def _answered(self, found: Reread) -> None:
        self._worker.stop()
        self._found = found
        self._inbox.report(found)

    def applied(self) -> Config:
        """Returns the configuration that was read last, which is now in force."""
        assert self._found is not None and self._found.config is not None, "nothing else can be applied"
        self.running = self._found.config
        return self.running

    def over(self) -> None:
        """Called when the broker has finished with the configuration that was read last: reads again, if asked to
        meanwhile.
        """
        self._is_busy = False
        if self._is_asked_again:
            self._is_asked_again = False
            self.ask()
