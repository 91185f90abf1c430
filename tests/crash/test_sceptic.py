"""What somebody who believed nothing has broken once. Each of these failed before it was mended."""

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.model.commands import Stop, Tick
from radiator.model.limits import GIB, MIB
from radiator.model.settings import Declarations, QueueSettings
from radiator.storage.lmdb.store import open_store
from tests.acceptance.wire import Gone, Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess
from tests.campaigns.needs import CannotRun, NotInstalled, loop_mount
from tests.core.node import Node
from tests.core.words import nack, send, subscribe

DISK_MIB = 64
BODY = b"x" * 200_000


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(QueueSettings(dedup_window_s=1), id="dedup-ids are forgotten"),
        pytest.param(QueueSettings(message_ttl_ms=1000), id="messages expire"),
    ],
)
def test_nothing_is_written_behind_a_clean_stop(settings: QueueSettings) -> None:
    node = Node(Declarations(queues={"q": settings}))
    node.open(1)
    node.say(send(1, "q"))
    node.auto = False
    node.turn([Stop()])
    assert node.seal()
    node.now_s, node.now_ms = node.now_s + 60, node.now_ms + 60_000
    node.turn([Tick(GIB, 0)])
    node.commit()
    assert node.stopped and not node.seal() and node.disk.platter.is_clean


def test_disk_free_min_holds_between_two_ticks() -> None:
    node = Node(auto=False)
    node.broker.parts.disk.free_min = 16 * MIB
    node.open(1)
    node.turn([Tick(24 * MIB, 0)])
    for _ in range(2):
        node.say(*(send(1, "q", BODY) for _ in range(18)))
        assert node.seal() and not node.paused
        node.commit()
    node.say(send(1, "q", BODY))
    assert node.paused == {1}
    node.turn([Tick(24 * MIB, 0)])
    assert node.paused == set()


def test_failed_start_marks_nothing_redelivered(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path).start()
    try:
        with Wire((broker.host, broker.port)) as wire:
            wire.connect()
            wire.send("/queue/q", "m")
        assert broker.stop() == 0
        config = broker.config_file.read_text()
        with socket.create_server(("127.0.0.1", 0)) as taken:
            broker.config_file.write_text(config.replace("127.0.0.1:0", f"127.0.0.1:{taken.getsockname()[1]}"))
            assert broker.start_and_fail() == 1
        broker.config_file.write_text(config)
        broker.start()
        with Wire((broker.host, broker.port)) as wire:
            wire.connect()
            wire.subscribe("/queue/q")
            assert wire.message()["redelivered"] == "false"
    finally:
        broker.kill()


def test_every_start_syncs_the_name_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start that renamed it may have been killed before the name was on the disk."""
    open_store(tmp_path / "data", GIB).close()
    synced = []
    fsync = os.fsync

    def noted(file: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{file}"))
        fsync(file)

    monkeypatch.setattr(os, "fsync", noted)
    open_store(tmp_path / "data", GIB).close()
    assert str(tmp_path / "data") in synced


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """An ext4 of its own, DISK_MIB large."""
    image, mounted = tmp_path / "image", tmp_path / "disk"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(DISK_MIB * MIB)
    try:
        loop_mount()
    except (CannotRun, NotInstalled) as why:
        pytest.skip(f"a small disk is mounted: {why}")
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m0", image], check=True, capture_output=True)
    subprocess.run(["mount", "-o", "loop", image, mounted], check=True, capture_output=True)
    yield mounted
    subprocess.run(["umount", mounted], check=True)


@pytest.mark.slow
def test_flood_waits_before_the_disk_is_full(small_disk: Path, tmp_path: Path) -> None:
    server = SERVER.replace('"data"', f'"{small_disk / "data"}"')
    broker = BrokerProcess(tmp_path, f"{server}\n{EVERYTHING_MAY_BE_CREATED}")
    receipts = []

    def flood() -> None:
        try:
            with Wire((broker.host, broker.port)) as wire:
                wire.connect()
                while True:
                    for _ in range(16):
                        wire.send_frame("SEND", {"destination": "/queue/q", "receipt": "r"}, BODY)
                    for _ in range(16):
                        wire.read("RECEIPT")
                        receipts.append(True)
        except (Gone, OSError):
            pass

    with broker:
        producers = [threading.Thread(target=flood) for _ in range(4)]
        for producer in producers:
            producer.start()
        broker.wait_for_log("disk_tight", 30)
        time.sleep(2)
        assert broker.is_running, broker.log
        assert broker.stop() == 0
    for producer in producers:
        producer.join()
    broker.start()
    try:
        with Wire((broker.host, broker.port)) as wire:
            wire.connect()
            wire.subscribe("/queue/q")
            for _ in receipts:
                wire.ack(wire.message())
    finally:
        broker.kill()


def test_queue_in_memory_cannot_take_the_place_of_a_deleted_dead_letter_queue() -> None:
    """A dead letter is in exactly one of its two queues (D9), so not in one that a crash forgets."""
    node = Node(Declarations())
    node.open(1, 2)
    assert node.admin(1, do="declare", queue="dead")["created"]
    assert node.admin(1, do="declare", queue="q", dead_letter="dead")["created"]
    assert node.admin(1, do="delete", queue="dead")["ok"]
    answer = node.admin(1, do="declare", queue="dead", persistent=False)
    assert not answer["ok"] and "/queue/q" in answer["error"]
    node.say(send(2, "q"), subscribe(2, "q"))
    node.say(nack(node.message(2), requeue=False))
    assert node.crashed().stored("dead") == [b"x"], "it is made again as it is needed, on the disk"


def test_durable_subscription_that_is_on_no_disk_yet_is_receipted_to_nobody() -> None:
    """Not to the second either, who finds it there: a crash now would take it away, and what is sent then is lost."""
    node = Node(auto=False)
    node.open(1, 2)
    for connection in (1, 2):
        node.say(subscribe(connection, "/topic/t", name=b"d", receipt=b"r", durable=True))
    assert node.receipts(1) == node.receipts(2) == []
    node.seal()
    node.commit()
    assert node.receipts(1) == node.receipts(2) == [b"r"]


def test_clock_that_is_set_back_wakes_nothing_before_its_time() -> None:
    """One that expires before it is due is looked for as it expires; it is let go of, whatever the clock says then."""
    node = Node(Declarations(queues={"q": QueueSettings(message_ttl_ms=100)}))
    node.open(1, 2)
    node.say(subscribe(2, "q"), send(1, "q", delay_ms=5000))
    node.auto = False
    node.wait(0.2)
    assert node.read_requests
    node.now_ms -= 10_000
    node.auto = True
    node.turn([])
    assert node.messages(2) == [] and node.numbers("q")["expired"] == 1


def test_oldest_that_is_dropped_may_just_be_waking() -> None:
    node = Node(Declarations(queues={"q": QueueSettings(max_messages=2, overflow="drop-oldest")}))
    node.open(1)
    node.say(send(1, "q", b"late", delay_ms=100), send(1, "q", b"new"))
    node.auto = False
    node.wait(0.2)
    node.answer()
    node.say(send(1, "q", b"newest"))
    node.auto = True
    node.turn([])
    assert node.stored("q") == [b"new", b"newest"]
