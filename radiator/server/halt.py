"""Immediate exit, where going on is unsafe: one clear line, and an exit status that gives the reason.

Nothing is rolled back or tidied up: what was promised is on the disk, and the next start continues from there. An
uncaught exception, in the hub or in a thread, ends here too.
"""

import os
import threading
import traceback
from typing import Any, NoReturn

from gevent.hub import Hub

from radiator.model.errors import EXIT_BUG, EXIT_DISK_FAILED, DiskFailed, StoreError
from radiator.server.log import EventLog

_halting = threading.RLock()  # the committer and the follower may find the same disk failed at the same moment


def halt(log: EventLog, status: int, sentence: str) -> NoReturn:
    """Ends the process at once. May be called from any thread, even during another thread's commit; the first call ends
    the process, with its sentence.
    """
    with _halting:
        log.error("halted", status=status, sentence=sentence)
        log.close()
        os._exit(status)


def halt_for(log: EventLog, error: BaseException, where: str) -> NoReturn:
    """Ends the process with status 74 if the disk failed or returned damaged data; else with 70, for a bug, and its
    traceback.
    """
    if isinstance(error, DiskFailed | StoreError):
        # D7
        halt(log, EXIT_DISK_FAILED, str(error))
    log.trace("".join(traceback.format_exception(error)))
    halt(log, EXIT_BUG, f"A bug in {where}: {type(error).__name__}: {error}")


def halt_on_uncaught(log: EventLog, hub: Hub) -> None:
    """Lets an uncaught exception in the hub, a greenlet or a thread end the process from now on."""

    def in_hub(context: object, kind: Any, value: Any, trace: Any) -> None:
        error = value if isinstance(value, BaseException) else kind()
        halt_for(log, error if trace is None else error.with_traceback(trace), "the hub")

    def in_thread(failed: threading.ExceptHookArgs) -> None:
        error = failed.exc_value if failed.exc_value is not None else failed.exc_type()
        halt_for(log, error, f"the thread {failed.thread.name if failed.thread else '?'}")

    hub.handle_error = in_hub
    threading.excepthook = in_thread
