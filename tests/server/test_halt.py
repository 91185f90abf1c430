"""The end without a goodbye: one line, an exit status that says why, and whatever nobody catches ends so too."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from radiator.model.errors import EXIT_BUG, EXIT_DISK_FAILED, DamagedRecord, DiskFailed, RadiatorError, StoreError
from radiator.server import halt as halting
from radiator.server.halt import halt, halt_for, halt_on_uncaught
from tests.server.shell import KeptLog


class Exited(BaseException):
    """In place of the end of the process."""


@pytest.fixture
def statuses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []

    def end(status: int) -> None:
        found.append(status)
        raise Exited

    monkeypatch.setattr(halting.os, "_exit", end)
    return found


def test_the_last_line_is_written_before_the_process_ends(statuses: list[int]) -> None:
    log = KeptLog()
    with pytest.raises(Exited):
        halt(log, 74, "The disk failed.")
    assert statuses == [74] and log.is_closed
    assert log.lines == [("error", "halted", {"status": 74, "sentence": "The disk failed."})]


def test_of_two_threads_that_fail_at_once_one_has_the_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    log, is_ending, is_over = KeptLog(), threading.Event(), threading.Event()

    def end(status: int) -> None:
        is_ending.set()
        assert is_over.wait(10)

    monkeypatch.setattr(halting.os, "_exit", end)
    threads = [threading.Thread(target=halt, args=(log, 74, f"The disk failed, says {name}.")) for name in "ab"]
    threads[0].start()
    assert is_ending.wait(10)
    threads[1].start()
    threads[1].join(0.2)
    assert len(log.lines) == 1
    is_over.set()
    for thread in threads:
        thread.join(10)


@pytest.mark.parametrize("error", [DiskFailed("No."), StoreError("No."), DamagedRecord("No.")])
def test_a_failed_or_damaged_disk_is_a_sentence_and_no_traceback(statuses: list[int], error: RadiatorError) -> None:
    log = KeptLog()
    with pytest.raises(Exited):
        halt_for(log, error, "a commit")
    assert statuses == [EXIT_DISK_FAILED] and log.traces == [] and log.lines[-1][2]["sentence"] == "No."


def test_anything_else_is_a_bug_with_its_traceback(statuses: list[int]) -> None:
    log = KeptLog()
    with pytest.raises(Exited):
        halt_for(log, KeyError("x"), "a commit")
    assert statuses == [EXIT_BUG] and "KeyError" in log.traces[0]
    assert log.lines[-1][2]["sentence"] == "A bug in a commit: KeyError: 'x'"


def test_what_nobody_catches_in_the_hub_or_a_thread_ends_the_process(
    statuses: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, hub = KeptLog(), SimpleNamespace(handle_error=None)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    halt_on_uncaught(log, hub)  # type: ignore[arg-type]
    handle: Any = hub.handle_error
    with pytest.raises(Exited):
        handle(None, ValueError, ValueError("in the hub"), None)
    with pytest.raises(Exited):
        handle(None, ValueError, None, None)
    failed = threading.ExceptHookArgs((OSError, OSError("in it"), None, threading.Thread(name="loader")))
    with pytest.raises(Exited):
        threading.excepthook(failed)
    assert statuses == [EXIT_BUG] * 3
    sentences = [fields["sentence"] for _, _, fields in log.lines]
    assert sentences[0].startswith("A bug in the hub: ValueError") and "the thread loader" in sentences[2]
