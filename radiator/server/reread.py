"""config.toml is read again, as somebody or SIGHUP asks for it: in a thread, beside the dispatcher's turns."""

from collections.abc import Callable
from typing import Any

from radiator.commands import Reread
from radiator.limits import BEAT_S
from radiator.server.inbox import Inbox
from radiator.server.worker import Worker
from radiator.settings import Config

Read = Callable[[Config], Reread]


class Rereader:
    """Used on the hub only; once at a time. running: what is in force. read: reads the file, and compares."""

    def __init__(self, loop: Any, running: Config, read: Read, inbox: Inbox) -> None:
        self.running = running
        self._loop = loop
        self._read = read
        self._inbox = inbox
        self._is_busy = False
        self._is_asked_again = False
        self._found: Reread | None = None

    def ask(self) -> None:
        """Read it; where it is being read, or what was read is being applied, again behind that."""
        if self._is_busy:
            self._is_asked_again = True
            return
        self._is_busy = True
        worker: Worker[Config, Reread] = Worker(self._loop, "reread", self._read, self._answered, lambda: BEAT_S)
        self._worker = worker
        worker.start()
        worker.submit(self.running)

    def _answered(self, found: Reread) -> None:
        self._worker.stop()
        self._found = found
        self._inbox.report(found)

    def applied(self) -> Config:
        """What was read last is in force now."""
        assert self._found is not None and self._found.config is not None, "nothing else can be applied"
        self.running = self._found.config
        return self.running

    def over(self) -> None:
        """The broker is done with what was read last."""
        self._is_busy = False
        if self._is_asked_again:
            self._is_asked_again = False
            self.ask()
