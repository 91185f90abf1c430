"""Where everything meets: what clients say comes to the broker, what it says comes back, and receipts wait for commits.

A real broker over a real store, in this process, on this hub.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest

from radiator.core.broker import Broker
from radiator.core.parts import Machine
from radiator.model.commands import Reread
from radiator.model.errors import StoreError
from radiator.model.limits import GIB, MIB, Limits
from radiator.model.settings import Config, Declarations
from radiator.server import disk
from radiator.server.dialer import Dialer
from radiator.server.dispatcher import Dispatcher
from radiator.server.links import LinkRegistry
from radiator.server.reread import Rereader
from radiator.storage.lmdb.store import LmdbStore, open_store
from tests.server.shell import Shell, read, until

CONNECT = b"CONNECT\naccept-version:1.2\nhost:h\n\n\0"
DECLARED = Declarations(create_queues=True)


class Running(Shell):
    """commits: how many writes each had."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.store: LmdbStore = open_store(path, 64 * MIB)
        self.commits: list[int] = []
        self.applied: list[Config] = []
        commit = self.store.commit

        def counted(writes: Any) -> Any:
            self.commits.append(len(writes))
            return commit(writes)

        self.store.commit = counted  # type: ignore[method-assign]
        machine = Machine(GIB, 0, os.urandom, "test", time.monotonic(), time.time_ns() // 1_000_000, False)
        self.broker = Broker(DECLARED, Limits(), self.store.recovery, machine, None)
        config = Config(data_dir=path, disk_free_min=0, declarations=DECLARED, limits=Limits())
        rereader = Rereader(self.loop, config, lambda running: Reread(running), self.inbox, self.log)
        links = LinkRegistry(None, "s", Limits(), self.log, self.inbox.report)
        dialer = Dialer(links, self.connections, Limits())
        self.dispatcher = Dispatcher(
            self.loop, self.broker, self.store, path, self.inbox, self.connections, dialer, self.log, 0.0, rereader,
            self.applied.append,
        )  # fmt: skip
        self.dispatcher.start()

    def connected(self) -> Any:
        other = self.client()
        other.send(CONNECT)
        assert read(other).startswith(b"CONNECTED\n")
        return other

    def close(self) -> None:
        self.dispatcher.sync_at_once()
        self.inbox.stop()
        until(lambda: self.dispatcher.is_stopped and self.dispatcher.is_at_rest)
        super().close()
        until(lambda: self.dispatcher.is_at_rest)
        self.dispatcher.finish()
        self.store.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path)
    yield made
    made.close()


def test_a_receipt_comes_behind_the_commit_of_its_message(running: Running) -> None:
    client, before = running.connected(), sum(running.commits)
    client.send(b"SEND\ndestination:/queue/q\nreceipt:r\n\nx\0")
    assert read(client) == b"RECEIPT\nreceipt-id:r\n\n\0\n"
    assert sum(running.commits) > before


def test_what_one_sends_another_gets(running: Running) -> None:
    producer, consumer = running.connected(), running.connected()
    consumer.send(b"SUBSCRIBE\nid:1\ndestination:/queue/q\nack:auto\n\n\0")
    producer.send(b"SEND\ndestination:/queue/q\n\nhello\0")
    assert read(consumer).endswith(b"\n\nhello\0\n")


def test_those_who_wait_for_the_disk_share_commits(running: Running) -> None:
    clients = [running.connected() for _ in range(4)]
    before = len(running.commits)
    for _ in range(5):
        for client in clients:
            client.send(b"SEND\ndestination:/queue/q\nreceipt:r\n\nx\0")
        for client in clients:
            assert b"receipt-id:r" in read(client)
    assert len(running.commits) - before <= 10, "20 receipts"


def test_no_more_often_than_the_interval_says_and_at_once_for_the_stop(running: Running) -> None:
    client = running.connected()
    running.dispatcher.use(Config(data_dir=Path(), sync_interval_ms=60_000))
    client.send(b"SEND\ndestination:/queue/q\nreceipt:1\n\nx\0")
    assert b"receipt-id:1" in read(client), "the last one was before"
    client.send(b"SEND\ndestination:/queue/q\nreceipt:2\n\nx\0")
    gevent.sleep(0.05)
    with pytest.raises(BlockingIOError):
        client.recv(100)
    running.dispatcher.sync_at_once()
    running.inbox.wake()
    assert b"receipt-id:2" in read(client)


def test_what_needs_no_receipt_is_committed_though_nobody_waits_for_it(running: Running) -> None:
    client = running.connected()
    client.send(b"SEND\ndestination:/queue/q\nreceipt:r\n\nx\0")
    assert b"receipt-id:r" in read(client)
    before = len(running.commits)
    client.send(b"SEND\ndestination:/queue/q\n\nx\0")
    until(lambda: len(running.commits) == before + 1)


def test_what_needs_no_receipt_waits_for_more_until_somebody_can_take_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("radiator.server.dispatcher.UNAWAITED_MAX_S", 60.0)
    running = Running(tmp_path)
    client, consumer = running.connected(), running.connected()
    client.send(b"SEND\ndestination:/queue/q\nreceipt:r\n\n1\0")
    assert b"receipt-id:r" in read(client)
    before = len(running.commits)
    for _ in range(5):
        client.send(b"SEND\ndestination:/queue/q\n\n2\0")
        gevent.sleep(0.01)
    assert len(running.commits) == before
    consumer.send(b"SUBSCRIBE\nid:1\ndestination:/queue/q\nack:auto\n\n\0")
    until(lambda: running.broker.destinations.queues.all["q"].ledger.acked == 6)
    assert len(running.commits) > before
    running.close()


def test_what_the_broker_notes_is_logged_with_whose_it_is(running: Running) -> None:
    client = running.connected()
    client.send(b"SUBSCRIBE\nid:1\ndestination:/queue/a.*\n\n\0")
    assert read(client).startswith(b"ERROR\n")
    (fields,) = [fields for _, event, fields in running.log.lines if event == "refused"]
    assert fields["peer"] == "peer" and fields["code"] == "wildcard"


def test_the_clock_ticks_with_what_the_disk_has(running: Running) -> None:
    client = running.connected()
    client.send(b"SEND\ndestination:/queue/q\nreceipt:1\n\n" + b"x" * 100_000 + b"\0")
    read(client)
    before = running.broker.parts.disk.store_used_bytes
    running.dispatcher._ticked()
    until(lambda: running.broker.parts.disk.store_used_bytes != before)
    assert running.broker.parts.disk.store_used_bytes < 64 * MIB


@pytest.mark.parametrize("header", ["delay", "expiration"])
def test_what_is_due_at_a_time_has_a_turn_then_though_the_clock_does_not_tick(running: Running, header: str) -> None:
    client, queues = running.connected(), running.broker.destinations.queues
    client.send(b"SEND\ndestination:/queue/q\nreceipt:r\n%b:300\n\nx\0" % header.encode())
    assert b"receipt-id:r" in read(client)
    running.dispatcher._tick.stop()
    sent_s, ledger = time.monotonic(), queues.all["q"].ledger
    until(lambda: queues.all["q"].ready_count == 1 if header == "delay" else ledger.expired == 1)
    assert time.monotonic() - sent_s > 0.2, "a receipt may take some of the 0.3 s"


def test_of_what_is_due_at_no_time_there_are_no_more_turns(running: Running) -> None:
    client = running.connected()
    client.send(b"SEND\ndestination:/queue/q\nreceipt:r\n\nx\0")
    assert b"receipt-id:r" in read(client)
    running.dispatcher._tick.stop()
    gevent.sleep(0.3)  # the follower, and what the last Tick has asked for
    before = running.dispatcher.turns
    gevent.sleep(0.5)
    assert running.dispatcher.turns == before


def test_what_the_loader_does_not_get_to_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "READS_S", 0.0)  # one at a time
    before = Running(tmp_path)
    client = before.connected()
    client.send(b"".join(b"SEND\ndestination:/queue/%d\n\nmessage %d\0" % (number, number) for number in range(8)))
    client.send(b"SEND\ndestination:/queue/8\nreceipt:r\n\n\0")
    assert b"receipt-id:r" in read(client)
    before.close()
    after = Running(tmp_path)
    try:
        client, received = after.connected(), b""
        subscribe = b"SUBSCRIBE\nid:%d\ndestination:/queue/%d\nack:auto\n\n\0"
        client.send(b"".join(subscribe % (number, number) for number in range(8)))
        while received.count(b"MESSAGE\n") < 8:
            received += read(client)
        assert all(b"\n\nmessage %d\0" % number in received for number in range(8))
    finally:
        after.close()


def test_damage_that_a_turn_meets_is_told_with_its_store(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def turn(*_: object) -> None:
        raise StoreError("/queue/q has message 5 behind message 7")

    with monkeypatch.context() as patch:
        patch.setattr(running.broker, "turn", turn)
        with pytest.raises(StoreError, match="In the store in .* /queue/q has message 5 .* `radiator check`"):
            running.dispatcher._turn()
    running.dispatcher._is_in_turn = False
