"""Unix sockets from outside: the operators' own way in, and others that are listed."""

import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.acceptance.wire import Gone, Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess, environment

DEBUG = '[logging]\nlevel = "debug"\n'


def connected(address: tuple[str, int] | str) -> Wire:
    wire = Wire(address)
    wire.connect()
    return wire


def listening(*addresses: str, more: str = "") -> str:
    listed = ", ".join(f'"{address}"' for address in ("stomp://127.0.0.1:0", *addresses))
    server = SERVER.replace('"stomp://127.0.0.1:0"', listed)
    return f"{server}{more}\n{EVERYTHING_MAY_BE_CREATED}"


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory whose path leaves room for more."""
    made = Path(f"/tmp/radiator-{os.getpid()}")
    made.mkdir(mode=0o700)
    yield made
    shutil.rmtree(made)


def test_the_operators_socket_is_there_without_being_listed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, EVERYTHING_MAY_BE_CREATED + DEBUG) as broker:
        broker.wait_for_log(f"listening address=stomp+unix:{broker.unix_path}")
        found = os.stat(broker.unix_path)
        assert stat.S_ISSOCK(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o600
        with connected(broker.unix_path) as near, connected((broker.host, broker.port)) as far:
            near.send("/queue/q", b"x" * 4_000_000)
            far.subscribe("/queue/q")
            assert far.message().body == b"x" * 4_000_000
            broker.wait_for_log(f"peer=unix/pid:{os.getpid()}/uid:{os.getuid()}")
        assert broker.stop() == 0
        assert not os.path.exists(broker.unix_path)


def test_a_large_message_goes_out_and_a_slow_reader_gets_all(tmp_path: Path) -> None:
    with (
        BrokerProcess(tmp_path, EVERYTHING_MAY_BE_CREATED) as broker,
        connected(broker.unix_path) as sender,
        connected(broker.unix_path) as reader,
    ):
        body = bytes(range(256)) * 16_384
        reader.subscribe("/queue/large")
        for _ in range(3):
            sender.send("/queue/large", body)
        for _ in range(3):
            message = reader.message()
            assert message.body == body
            reader.ack(message)
        reader.send_frame("DISCONNECT", {"receipt": "bye"})
        assert reader.read("RECEIPT")["receipt-id"] == "bye"
        assert reader.is_closed()


def test_error_reaches_a_client_that_is_still_writing(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, EVERYTHING_MAY_BE_CREATED) as broker, connected(broker.unix_path) as wire:
        wire.send_raw(b"NOSUCH\n\n\0" + b"x" * 100_000)
        assert wire.read_frame().command == "ERROR"


def test_without_it_there_is_none(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, listening(more="unix = false")) as broker:
        assert not os.path.exists(broker.unix_path) and "stomp+unix" not in broker.log


def test_operators_get_in_when_tcp_is_full(tmp_path: Path) -> None:
    config = EVERYTHING_MAY_BE_CREATED + "[limits]\nmax_connections = 2\n"
    with BrokerProcess(tmp_path, config) as broker, ExitStack() as stack:
        tcp = (broker.host, broker.port)
        for _ in range(2):
            stack.enter_context(connected(tcp))
        with Wire(tcp) as refused:
            refused.send_frame("CONNECT", {"accept-version": "1.2", "host": "x"})
            assert "max_connections" in refused.read_frame().body.decode()
        stack.enter_context(connected(broker.unix_path)).send("/queue/q", "in")


def test_the_operators_socket_is_bounded_by_itself(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, EVERYTHING_MAY_BE_CREATED) as broker, ExitStack() as stack:
        for _ in range(32):
            stack.enter_context(connected(broker.unix_path))
        with Wire(broker.unix_path) as refused:
            refused.send_frame("CONNECT", {"accept-version": "1.2", "host": "x"})
            sentence = refused.read_frame().body.decode()
            assert "All 32 connections (of radiator.sock) are taken" in sentence
        broker.wait_for_log("connections_full connections=32 peer=unix/pid:")
        with connected((broker.host, broker.port)) as client:
            client.send("/queue/q", "by TCP")


def test_a_listed_socket_shares_the_bound_of_clients(tmp_path: Path, short_path: Path) -> None:
    path = str(short_path / "clients.sock")
    config = listening(f"stomp+unix:{path}?mode=0660") + "[limits]\nmax_connections = 1\n"
    with BrokerProcess(tmp_path, config) as broker:
        broker.wait_for_log(f'listening address="stomp+unix:{path}?mode=0660"')
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
        with connected(path), Wire((broker.host, broker.port)) as refused:
            refused.send_frame("CONNECT", {"accept-version": "1.2", "host": "x"})
            assert "max_connections" in refused.read_frame().body.decode()


def test_what_a_killed_broker_has_left_is_replaced(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, listening("stomp+unix:radiator.sock")) as broker:
        with connected(broker.unix_path) as wire:
            wire.send("/queue/q", "kept")
        broker.kill()
        assert os.path.exists(broker.unix_path)
        broker.start()
        with connected(broker.unix_path) as wire:
            wire.subscribe("/queue/q")
            assert wire.message().body == b"kept"


def test_a_socket_that_another_broker_serves_is_left_to_it(tmp_path: Path, short_path: Path) -> None:
    path = str(short_path / "one.sock")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with BrokerProcess(tmp_path / "a", listening(f"stomp+unix:{path}")):
        other = BrokerProcess(tmp_path / "b", listening(f"stomp+unix:{path}"))
        assert other.start_and_fail() == 1
        assert f"Cannot listen on {path}: another process serves it." in other.log
        assert not os.path.exists(other.unix_path), "nothing of the start that failed is left"
        connected(path).close()


def test_a_regular_file_in_the_way_stays(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, listening("stomp+unix:radiator.sock"))
    broker.data_dir.mkdir(mode=0o700)
    precious = broker.data_dir / "radiator.sock"
    precious.write_text("precious")
    assert broker.start_and_fail() == 1
    assert "it is no socket, which is not replaced" in broker.log and precious.read_text() == "precious"
    broker.config_file.write_text(listening())
    with broker:
        broker.wait_for_log("no_operators_socket")
        connected((broker.host, broker.port)).close()
    assert precious.read_text() == "precious"


def test_a_data_directory_with_a_long_path_is_served_by_tcp(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 100)
    directory.mkdir()
    with BrokerProcess(directory, EVERYTHING_MAY_BE_CREATED) as broker:
        assert "where a unix socket has at most 107" in broker.wait_for_log("warning no_operators_socket")
        connected((broker.host, broker.port)).close()
        broker.stop()
    listed = BrokerProcess(directory, listening("stomp+unix:radiator.sock"))
    assert listed.start_and_fail() == 2
    assert "where a unix socket has at most 107" in listed.log


@pytest.mark.parametrize("group", ["no-such-group"])
def test_a_group_that_is_not_there_stops_the_start(tmp_path: Path, short_path: Path, group: str) -> None:
    broker = BrokerProcess(tmp_path, listening(f"stomp+unix:{short_path}/s?mode=0660&group={group}"))
    assert broker.start_and_fail() == 1
    assert f"there is no group '{group}'" in broker.log and not (short_path / "s").exists()


@pytest.mark.parametrize("command", ["check DATA", "compact DATA", "backup DATA copy", "restore copy DATA"])
def test_commands_about_the_data_do_not_mind_a_socket_that_was_left(tmp_path: Path, command: str) -> None:
    with BrokerProcess(tmp_path, EVERYTHING_MAY_BE_CREATED) as broker:
        with connected(broker.unix_path) as wire:
            wire.send("/queue/q", "kept")
        broker.kill()
        made = radiator(tmp_path, "backup", "data", "copy") if command.startswith("restore") else None
        assert made is None or made.returncode == 0, made
        if command.startswith("restore"):
            (broker.data_dir / "data.mdb").unlink()
            shutil.rmtree(broker.data_dir / "wal")
        ended = radiator(tmp_path, *command.replace("DATA", "data").split())
        assert ended.returncode == 0, ended
        assert "radiator.sock" not in ended.stdout + ended.stderr
        broker.start()
        with connected(broker.unix_path) as wire:
            wire.subscribe("/queue/q")
            assert wire.message().body == b"kept"


def radiator(directory: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "radiator", *words],
        cwd=directory,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_producer_that_dies_while_it_waits_is_let_go_of(tmp_path: Path) -> None:
    """Nothing is read from it, so only the system can say that it is gone."""
    config = (
        EVERYTHING_MAY_BE_CREATED + DEBUG + "[queue.one]\npersistent = false\nmax_messages = 1\n"
        "[limits]\ntcp_timeout_s = 4\n"
    )
    with BrokerProcess(tmp_path, config) as broker, connected(broker.unix_path) as consumer:
        producer = connected(broker.unix_path)
        producer.subscribe("/queue/answers", headers={"prefetch-count": "10"})
        producer.send("/queue/one", "first")
        producer.begin_ask("SEND", {"destination": "/queue/one"}, b"second")
        consumer.send("/queue/answers", "unread")
        producer.socket.recv(1, socket.MSG_PEEK)
        producer.close()
        broker.wait_for_log('cause="the other end has reset the connection"')


def test_whoever_may_not_write_to_it_does_not_get_in(tmp_path: Path, short_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can be somebody else")
    path = short_path / "s"
    with BrokerProcess(tmp_path, listening(f"stomp+unix:{path}")):
        short_path.chmod(0o755)
        program = f"import os, socket; os.setuid(65534); socket.socket(socket.AF_UNIX).connect({str(path)!r})"
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert "PermissionError" in ended.stderr
        connected(str(path)).close()


def test_gone_is_seen(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, EVERYTHING_MAY_BE_CREATED) as broker, connected(broker.unix_path) as wire:
        broker.kill()
        with pytest.raises(Gone):
            wire.read_frame()
