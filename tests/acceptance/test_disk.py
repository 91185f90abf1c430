"""A slow disk, a disk without room, and a disk that fails (contract 1, 4)."""

import contextlib
import resource
import time
from pathlib import Path

import pytest

from tests.acceptance.conftest import stats
from tests.acceptance.wire import Gone, Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess

QUEUES = EVERYTHING_MAY_BE_CREATED + '[queue."memory"]\npersistent = false\n'


def connected(broker: BrokerProcess) -> Wire:
    wire = Wire((broker.host, broker.port))
    wire.connect()
    return wire


def test_failed_commit_stops_the_broker_with_status_74(tmp_path: Path) -> None:
    """The file may not grow any more: to the broker that is a full disk in the middle of a commit."""
    with BrokerProcess(tmp_path, SERVER + QUEUES) as broker:
        wire = connected(broker)
        wire.send("/queue/q", "receipted")
        size = max(file.stat().st_size for file in broker.data_dir.rglob("*") if file.is_file())
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (size, size))
        receipted = 1
        with contextlib.suppress(Gone, ConnectionError, AssertionError):
            while receipted < 5000:
                wire.send("/queue/q", b"x" * 10_000)
                receipted += 1
        assert receipted < 5000, "it did not fail"
        assert broker.wait(10) == 74
        assert "Traceback" not in broker.log
        last = broker.log.rstrip().splitlines()[-1]
        assert "status=74" in last
        assert str(broker.data_dir) in last
        with broker:
            wire = connected(broker)
            wire.subscribe("/queue/q", ack="auto")
            for _ in range(receipted):
                wire.message()
            # a commit may have been on the disk when bringing the tables up to date failed: its receipt has not left
            if not wire.is_silent():
                assert len(wire.message().body) == 10_000
            assert wire.is_silent(), "no receipt followed the failed commit, and nothing else was kept of it"


@pytest.mark.slow
def test_without_disk_room_sends_wait_and_everything_else_goes_on(tmp_path: Path) -> None:
    full = SERVER.replace('disk_free_min = "16MiB"', 'disk_free_min = "64TiB"')
    config = QUEUES + '[limits]\nblock_timeout_s = 1.5\n[queue."q"]\ndead_letter = "dead"\n'
    broker = BrokerProcess(tmp_path, SERVER + config)
    with broker:
        wire = connected(broker)
        for number in range(4):
            wire.send("/queue/q", str(number))
        assert broker.stop() == 0
    broker.config_file.write_text(full + config)
    with broker:
        sender, reader, other = connected(broker), connected(broker), connected(broker)
        time.sleep(0.6)  # the disk is looked at several times a second
        began_s = time.monotonic()
        asked = sender.begin_ask("SEND", {"destination": "/queue/q"}, b"waits")
        reader.subscribe("/queue/q")
        reader.ack(reader.message())
        reader.nack(reader.message())
        message = reader.message()
        assert message["redelivery-count"] == "1"
        reader.nack(message, {"requeue": "false"})
        assert stats(broker)["queues"]["dead"]["stored"] == 1
        other.send("/queue/memory", "goes on")
        other.subscribe("/topic/t", id="t", ack="auto")
        other.send("/topic/t", "goes on")
        assert other.message().body == b"goes on"
        error = sender.refusal()
        assert error["receipt-id"] == asked
        assert 1.3 < time.monotonic() - began_s < 4
        assert stats(broker)["queues"]["q"]["accepted"] == 4


@pytest.mark.slow
def test_above_the_high_water_mark_sends_wait_until_there_is_room(tmp_path: Path) -> None:
    server = SERVER.replace('map_size = "8GiB"', 'map_size = "16MiB"')
    config = '[limits]\nblock_timeout_s = 20\nmax_frame_bytes = "1MiB"\nmax_batch_bytes = "1MiB"\n[queue."q"]\n'
    with BrokerProcess(tmp_path, server + config) as broker:
        sender, reader = connected(broker), connected(broker)
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < 400:
                asked = sender.begin_ask("SEND", {"destination": "/queue/q"}, b"x" * 100_000)
                sent += 1
                assert sender.read_frame(1.0)["receipt-id"] == asked
        assert 10 < sent < 170, "16 MiB hold no more"
        reader.subscribe("/queue/q", headers={"prefetch-count": "20"})
        for _ in range(sent):
            reader.ack(reader.message())
        assert sender.read("RECEIPT")["receipt-id"] == asked
        for _ in range(sent):  # room comes back for good: the file is used again
            sender.send("/queue/q", b"x" * 100_000)
            reader.ack(reader.message())
        assert broker.stop() == 0


@pytest.mark.alone("what waits is told from what does not by a second")
@pytest.mark.slow
def test_slow_sync_holds_up_only_what_waits_for_it(tmp_path: Path) -> None:
    server = SERVER + "sync_interval_ms = 1000\n"
    with BrokerProcess(tmp_path, server + QUEUES) as broker:
        slow, other, reader = connected(broker), connected(broker), connected(broker)
        reader.subscribe("/queue/q", ack="auto")
        slow.send("/queue/q", "syncs")
        reader.message()
        began_s = time.monotonic()
        asked = slow.begin_ask("SEND", {"destination": "/queue/q"}, b"waits for the next sync")
        after = slow.begin_ask("SEND", {"destination": "/queue/memory"}, b"its receipt waits too: their order holds")
        other.send("/queue/memory", "does not wait")
        other.subscribe("/topic/t", ack="auto")
        other.send("/topic/t", "does not wait")
        assert other.message().body == b"does not wait"
        connected(broker).fence()
        assert reader.is_silent(), "deliverable after the sync, not before"
        assert time.monotonic() - began_s < 0.9
        slow.await_receipt(asked)
        slow.await_receipt(after)
        assert time.monotonic() - began_s > 0.7
        assert reader.message().body == b"waits for the next sync"


@pytest.mark.slow
def test_syncs_are_shared(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, SERVER + "sync_interval_ms = 300\n" + QUEUES) as broker:
        wires = [connected(broker) for _ in range(20)]
        wires[0].send("/queue/q", "starts the interval")
        before = stats(broker)["batches"]
        asked = [wire.begin_ask("SEND", {"destination": "/queue/q"}, b"x") for wire in wires]
        for wire, receipt in zip(wires, asked, strict=True):
            wire.await_receipt(receipt)
        assert stats(broker)["batches"] - before <= 3


@pytest.mark.slow
def test_memory_part_of_a_transaction_waits_for_its_persistent_part(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, SERVER + "sync_interval_ms = 1000\n" + QUEUES) as broker:
        sender, reader = connected(broker), connected(broker)
        for place in ("/queue/q", "/queue/memory", "/topic/t"):
            reader.subscribe(place, id=place, ack="auto")
        sender.send("/queue/q", "starts the interval")
        reader.message()
        for name in ("with", "without"):
            sender.ask("BEGIN", {"transaction": name})
        for place in ("/queue/q", "/queue/memory", "/topic/t"):
            sender.send_frame("SEND", {"destination": place, "transaction": "with"}, b"with")
        asked = sender.begin_ask("COMMIT", {"transaction": "with"})
        other = connected(broker)
        other.ask("BEGIN", {"transaction": "without"})
        for place in ("/queue/memory", "/topic/t"):
            other.send_frame("SEND", {"destination": place, "transaction": "without"}, b"without")
        other.ask("COMMIT", {"transaction": "without"})
        assert reader.bodies(2) == ["without", "without"], "a transaction without a persistent part happens at once"
        assert reader.is_silent()
        sender.await_receipt(asked)
        assert reader.bodies(3) == ["with"] * 3


@pytest.mark.slow
def test_second_send_with_a_dedup_id_is_receipted_once_the_first_is_synced(tmp_path: Path) -> None:
    config = "sync_interval_ms = 1000\n" + QUEUES + '[queue."once"]\ndedup_window_s = 60\n'
    with BrokerProcess(tmp_path, SERVER + config) as broker:
        first, second = connected(broker), connected(broker)
        first.send("/queue/q", "starts the interval")
        began_s = time.monotonic()
        asked = first.begin_ask("SEND", {"destination": "/queue/once", "dedup-id": "same"}, b"x")
        second.fence()
        again = second.begin_ask("SEND", {"destination": "/queue/once", "dedup-id": "same"}, b"x")
        second.await_receipt(again)
        assert time.monotonic() - began_s > 0.6
        first.await_receipt(asked)
        assert stats(broker)["queues"]["once"]["accepted"] == 1
