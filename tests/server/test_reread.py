"""config.toml is read again beside the turns: once at a time, and what is asked meanwhile is done behind it."""

import threading
from collections.abc import Callable
from pathlib import Path

import gevent
import pytest

from radiator.model.commands import Reread
from radiator.model.limits import Limits
from radiator.model.settings import Config, Declarations
from radiator.server.inbox import Inbox
from radiator.server.reread import Rereader
from tests.server.shell import KeptLog, until

CONFIG = Config(data_dir=Path("/d"), disk_free_min=0, declarations=Declarations(), limits=Limits())


def rereader(read: Callable[[Config], Reread]) -> tuple[Rereader, Inbox, KeptLog]:
    inbox, log = Inbox(), KeptLog()
    inbox.summon = lambda: None
    return Rereader(gevent.get_hub().loop, CONFIG, read, inbox, log), inbox, log


def reported(inbox: Inbox) -> list[Reread]:
    found: list[Reread] = []

    def is_there() -> bool:
        found.extend(event for event in inbox.take() if isinstance(event, Reread))
        return bool(found)

    until(is_there)
    return found


def test_it_is_read_in_a_thread_and_is_in_force_once_it_was_applied() -> None:
    threads = []
    other = Config(data_dir=Path("/e"), disk_free_min=0, declarations=Declarations(), limits=Limits())

    def read(running: Config) -> Reread:
        threads.append((threading.get_ident(), running))
        return Reread(other)

    one, inbox, _ = rereader(read)
    one.ask()
    (found,) = reported(inbox)
    assert found.config is other and threads == [(threads[0][0], CONFIG)] and threads[0][0] != threading.get_ident()
    assert one.running is CONFIG
    assert one.applied() is other is one.running
    one.over()


def test_what_is_asked_meanwhile_is_one_more_read_behind_it() -> None:
    count = []
    one, inbox, _ = rereader(lambda running: count.append(1) or Reread(running))  # type: ignore[func-returns-value]
    for _ in range(3):
        one.ask()
    assert len(reported(inbox)) == 1
    one.over()
    assert len(reported(inbox)) == 1
    one.over()
    gevent.sleep(0.01)
    assert len(count) == 2


def test_a_bug_in_reading_is_a_mistake_and_no_end() -> None:
    def read(running: Config) -> Reread:
        raise KeyError("x")

    one, inbox, log = rereader(read)
    one.ask()
    (found,) = reported(inbox)
    assert found.config is None and found.mistakes == ["A bug in reading the file (KeyError): the log has it."]
    assert "KeyError" in log.traces[0]
    one.over()


def test_nothing_that_was_not_read_can_be_applied() -> None:
    one, _, _ = rereader(Reread)
    with pytest.raises(AssertionError, match="nothing else can be applied"):
        one.applied()
