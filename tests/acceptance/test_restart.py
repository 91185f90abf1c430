"""What is there after a stop, a kill, and a start on the same data (contract 1)."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from radiator.storage.codec.tables import MESSAGES
from radiator.storage.lmdb.reader import Reader
from radiator.tools.cli.load import process_cpu_s
from tests.acceptance.conftest import queues_that_do_not_add_up, stats
from tests.acceptance.wire import Frame, Gone, Wire
from tests.broker_process import DEFAULT_CONFIG, SERVER, BrokerProcess, environment

WIDE = {"prefetch-count": "1000"}

pytestmark = pytest.mark.slow


@pytest.fixture
def broker(tmp_path: Path) -> BrokerProcess:
    """A broker of this test's own, not started."""
    return BrokerProcess(tmp_path)


def connected(broker: BrokerProcess) -> Wire:
    wire = Wire((broker.host, broker.port))
    wire.connect()
    return wire


def drain(broker: BrokerProcess, queue: str) -> list[Frame]:
    """Everything in the queue, acked."""
    wire = connected(broker)
    wire.send(queue, "end of drain")
    wire.subscribe(queue, ack="client", headers={"prefetch-count": "10000"})
    got = []
    while (message := wire.message()).body != b"end of drain":
        got.append(message)
    wire.ack(message)
    wire.close()
    return got


def marks(messages: list[Frame]) -> list[tuple[str, str, str | None]]:
    return [(one.body.decode(), one["redelivered"], one.get("redelivery-count")) for one in messages]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_everything_receipted_is_found_once_and_in_order(broker: BrokerProcess, end: str) -> None:
    queues = [f"/queue/q{number}" for number in range(3)]
    with broker:
        wire = connected(broker)
        for number in range(300):
            wire.send_frame("SEND", {"destination": queues[number % 3], "n": str(number)}, b"body %d" % number)
        wire.fence()
        wire.send(queues[0], "last")
        broker.stop() if end == "stop" else broker.kill()
        with broker:
            for index, queue in enumerate(queues):
                got = drain(broker, queue)
                wanted = [f"body {number}" for number in range(index, 300, 3)]
                assert [one.body.decode() for one in got] == wanted + ["last"] * (index == 0)
                assert {one["redelivered"] for one in got} == {"true" if end == "kill" else "false"}
                assert all("redelivery-count" not in one for one in got)
            assert queues_that_do_not_add_up(broker) == []


def test_clean_stop_marks_exactly_what_was_out_and_raises_no_count(broker: BrokerProcess) -> None:
    with broker:
        wire = connected(broker)
        for number in range(4):
            wire.send("/queue/q", str(number))
        wire.subscribe("/queue/q", headers={"prefetch-count": "2"})
        wire.nack(wire.messages(2)[1])
        wire.message()
        assert broker.stop() == 0
        with broker:
            got = marks(drain(broker, "/queue/q"))
    assert got == [("0", "true", None), ("1", "true", "1"), ("2", "false", None), ("3", "false", None)]


def test_unclean_stop_marks_everything_and_keeps_the_last_synced_count(broker: BrokerProcess) -> None:
    with broker:
        wire = connected(broker)
        for number in range(3):
            wire.send("/queue/q", str(number))
        wire.subscribe("/queue/q")
        wire.nack(wire.message())
        wire.nack(wire.message())
        wire.message()
        broker.kill()
        with broker:
            got = marks(drain(broker, "/queue/q"))
    assert got == [("0", "true", "2"), ("1", "true", None), ("2", "true", None)]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_acked_with_receipt_is_never_delivered_again(broker: BrokerProcess, end: str) -> None:
    with broker:
        wire = connected(broker)
        for number in range(20):
            wire.send("/queue/q", str(number))
        wire.subscribe("/queue/q", headers=WIDE)
        for message in wire.messages(20)[::2]:
            wire.ack(message)
        broker.stop() if end == "stop" else broker.kill()
        with broker:
            assert [one.body for one in drain(broker, "/queue/q")] == [b"%d" % number for number in range(1, 20, 2)]


def test_memory_queue_is_empty_after_a_restart(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, '[queue."m"]\npersistent = false\n') as broker:
        connected(broker).send("/queue/m", "x")
        assert broker.stop() == 0
        with broker:
            assert drain(broker, "/queue/m") == []


def test_created_queue_outlives_a_restart_and_needs_no_create_then(broker: BrokerProcess) -> None:
    with broker:
        connected(broker).send("/queue/created", "x")
        wire = connected(broker)
        wire.subscribe("/queue/empty")
        wire.fence()
        wire.send("/queue/other", "commits the creation of the empty one at the latest")
        assert broker.stop() == 0
        broker.config_file.write_text(SERVER)  # no [create] any more
        with broker:
            assert [one.body for one in drain(broker, "/queue/created")] == [b"x"]
            assert drain(broker, "/queue/empty") == []
            wire = connected(broker)
            wire.send_frame("SEND", {"destination": "/queue/new"}, b"x")
            wire.refusal()


def test_message_ids_do_not_repeat_over_restarts(broker: BrokerProcess) -> None:
    seen: set[str] = set()
    for end in ("kill", "stop", "kill"):
        with broker:
            wire = connected(broker)
            for _ in range(20):
                wire.send("/queue/q", "x")
            got = {one["message-id"] for one in drain(broker, "/queue/q")}
            assert len(got) == 20
            assert not seen & got
            seen |= got
            broker.stop() if end == "stop" else broker.kill()


def test_order_holds_over_restarts(broker: BrokerProcess) -> None:
    for run in range(3):
        with broker:
            wire = connected(broker)
            for number in range(5):
                wire.send("/queue/q", f"{run}.{number}")
            broker.kill() if run % 2 else broker.stop()
    with broker:
        got = [one.body.decode() for one in drain(broker, "/queue/q")]
    assert got == [f"{run}.{number}" for run in range(3) for number in range(5)]


def test_expiry_goes_on_over_a_restart(broker: BrokerProcess) -> None:
    with broker:
        wire = connected(broker)
        wire.send("/queue/q", "late", {"expiration": "200"})
        wire.send("/queue/q", "good", {"expiration": "60000"})
        broker.kill()
    time.sleep(0.2)
    with broker:
        assert [one.body for one in drain(broker, "/queue/q")] == [b"good"]
        assert stats(broker)["queues"]["q"]["expired"] == 1


def test_transaction_is_there_whole_or_not_at_all(broker: BrokerProcess) -> None:
    with broker:
        wire = connected(broker)
        for name in ("kept", "lost"):
            wire.ask("BEGIN", {"transaction": name})
            for number in range(3):
                wire.send(f"/queue/{number}", name, {"transaction": name})
        wire.ask("COMMIT", {"transaction": "kept"})
        broker.kill()
    with broker:
        for number in range(3):
            assert [one.body for one in drain(broker, f"/queue/{number}")] == [b"kept"]


def test_sigterm_commits_what_was_accepted_and_sends_its_receipts(broker: BrokerProcess) -> None:
    with broker:
        wire = connected(broker)
        data = [wire.frame("SEND", {"destination": "/queue/q", "receipt": str(n)}, b"%d" % n) for n in range(3000)]
        wire.send_raw(b"".join(data))
        began_s = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - began_s < 5
        receipted = []
        try:
            while True:
                receipted.append(wire.read("RECEIPT")["receipt-id"])
        except Gone:
            pass
        assert receipted == [str(n) for n in range(len(receipted))]
        with broker:
            got = [one.body.decode() for one in drain(broker, "/queue/q")]
        assert got[: len(receipted)] == receipted
        assert len(got) == len(receipted), "what was accepted was receipted"


def test_sigterm_ends_within_5_s_though_clients_are_stuck(broker: BrokerProcess) -> None:
    with broker:
        stuck = connected(broker)
        stuck.subscribe("/topic/x", ack="auto")
        stuck.send_raw(b"SEND\ndestination:/queue/half")
        sender = connected(broker)
        for _ in range(12):
            sender.send_frame("SEND", {"destination": "/topic/x"}, b"x" * 1_000_000)
        sender.fence()
        began_s = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - began_s < 5


def test_sigint_stops_clean_too(broker: BrokerProcess) -> None:
    with broker:
        connected(broker).send("/queue/q", "x")
        os.kill(broker.pid, signal.SIGINT)
        assert broker.wait(5) == 0
        with broker:
            assert marks(drain(broker, "/queue/q")) == [("x", "false", None)]


def test_sighup_is_ignored(broker: BrokerProcess) -> None:
    with broker:
        wire = connected(broker)
        os.kill(broker.pid, signal.SIGHUP)
        time.sleep(0.2)
        wire.send("/queue/q", "x")


def test_nothing_is_accepted_while_it_stops(broker: BrokerProcess) -> None:
    with broker:
        address = (broker.host, broker.port)
        assert broker.stop() == 0
    with pytest.raises(ConnectionRefusedError):
        Wire(address)


def test_second_broker_on_one_data_directory_is_refused(broker: BrokerProcess) -> None:
    with broker:
        wire = connected(broker)
        wire.send("/queue/q", "x")
        second = subprocess.run(
            [sys.executable, "-m", "radiator", "serve", "--config", str(broker.config_file)],
            cwd=broker.directory,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=20,
        )
        assert second.returncode == 1
        assert str(broker.data_dir) in second.stderr
        assert "Traceback" not in second.stderr
        wire.send("/queue/q", "y")
        assert [one.body for one in drain(broker, "/queue/q")] == [b"x", b"y"]


def test_stored_queue_that_is_now_declared_memory_stops_the_start(broker: BrokerProcess) -> None:
    with broker:
        connected(broker).send("/queue/q", "x")
        assert broker.stop() == 0
        broker.config_file.write_text(DEFAULT_CONFIG + '[queue."q"]\npersistent = false\n')
        assert broker.start_and_fail() == 1
        assert "/queue/q" in broker.log
        assert "Traceback" not in broker.log
        broker.config_file.write_text(DEFAULT_CONFIG)
        with broker:
            assert len(drain(broker, "/queue/q")) == 1


def test_queue_above_a_lowered_bound_keeps_what_it_has(broker: BrokerProcess) -> None:
    with broker:
        wire = connected(broker)
        for number in range(5):
            wire.send("/queue/q", str(number))
        assert broker.stop() == 0
        broker.config_file.write_text(DEFAULT_CONFIG + '[queue."q"]\nmax_messages = 2\noverflow = "reject"\n')
        with broker:
            wire = connected(broker)
            wire.send_frame("SEND", {"destination": "/queue/q"}, b"x")
            wire.refusal()
            wire = connected(broker)
            wire.subscribe("/queue/q", ack="auto")
            assert wire.bodies(5) == [str(number) for number in range(5)]


def test_data_directory_and_its_files_are_private(broker: BrokerProcess) -> None:
    with broker:
        connected(broker).send("/queue/q", "x")
        assert broker.data_dir.stat().st_mode & 0o777 == 0o700
        for file in broker.data_dir.rglob("*"):
            assert file.stat().st_mode & 0o777 == (0o700 if file.is_dir() else 0o600), file


def test_start_does_not_read_the_messages(broker: BrokerProcess) -> None:
    """A start after kill -9 on a backlog takes hardly longer than one on an empty store."""
    with broker:
        wire = connected(broker)
        assert broker.process is not None
        empty_cpu_s = process_cpu_s(broker.process.pid)
        for _ in range(80):
            wire.send_raw(499 * wire.frame("SEND", {"destination": "/queue/long"}, b"x" * 200))
            wire.send("/queue/long", b"x" * 200)  # its receipt says that all before it are stored too
        broker.kill()
        with broker:
            wire = connected(broker)
            assert process_cpu_s(broker.process.pid) < 1.5 * empty_cpu_s
            wire.subscribe("/queue/long")
            assert wire.message()["redelivered"] == "true"
            assert stats(broker)["queues"]["long"]["stored"] == 40_000


def test_send_that_waits_for_room_at_sigterm_is_neither_receipted_nor_stored(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, '[queue."one"]\nmax_messages = 1\n') as broker:
        wire, blocked = connected(broker), connected(broker)
        wire.send("/queue/one", "1")
        blocked.begin_ask("SEND", {"destination": "/queue/one"}, b"2")
        with pytest.raises(TimeoutError):
            blocked.read_frame(0.1)
        assert broker.stop() == 0
        with pytest.raises(Gone):
            blocked.read_frame()
        with broker:
            assert stats(broker)["queues"]["one"]["messages"] == 1


def test_open_transaction_leaves_no_trace_of_a_stop(broker: BrokerProcess) -> None:
    with broker:
        wire = connected(broker)
        wire.send("/queue/q", "work")
        wire.subscribe("/queue/q")
        wire.ask("BEGIN", {"transaction": "t"})
        wire.send("/queue/out", "x", {"transaction": "t"})
        wire.ack(wire.message(), {"transaction": "t"})
        assert broker.stop() == 0
        with broker:
            assert marks(drain(broker, "/queue/q")) == [("work", "true", None)]
            assert drain(broker, "/queue/out") == []


def stored_in(data_dir: Path) -> int:
    """How many messages there are, in the tables and the log."""
    with Reader(data_dir) as reader, reader.snapshot() as snapshot:
        return snapshot.entries(MESSAGES)


def test_ack_without_a_receipt_reaches_the_disk_though_nothing_follows_it(broker: BrokerProcess) -> None:
    with broker:
        wire = connected(broker)
        wire.send("/queue/q", "done")
        wire.subscribe("/queue/q")
        message = wire.message()
        assert stored_in(broker.data_dir) == 1
        wire.send_frame("ACK", wire.naming(message))
        end_s = time.monotonic() + 5
        # of the files themselves: the broker counts a batch before it is committed
        while stored_in(broker.data_dir) == 1 and time.monotonic() < end_s:
            time.sleep(0.01)
        broker.kill()
        with broker:
            assert drain(broker, "/queue/q") == []
