"""The broker as a process: start, halt, stop, and what the service manager hears."""

import json
import os
import resource
import signal
import socket
import textwrap
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from radiator.model.limits import LOG_LINES_OF_CLIENT
from tests.acceptance.wire import Gone, Wire
from tests.broker_process import DEFAULT_CONFIG, BrokerProcess


def connected(broker: BrokerProcess) -> Wire:
    wire = Wire((broker.host, broker.port))
    wire.connect()
    return wire


def broken(directory: Path, program: str, config: str = DEFAULT_CONFIG) -> BrokerProcess:
    """A broker in which `program` has replaced something before it starts."""
    file = directory / "broken.py"
    ending = "\nimport sys\nfrom radiator.tools.cli import main\nsys.exit(main())\n"
    file.write_text(textwrap.dedent(program) + ending)
    return BrokerProcess(directory, config, [str(file)])


# ---- halt


FAILING_COMMIT = """
    from radiator.model.errors import DiskFailed
    from radiator.storage.lmdb.store import LmdbStore
    whole = LmdbStore.commit
    def commit(store, writes):
        if any(getattr(write, "message", None) is not None and write.message.body == b"bad" for write in writes):
            raise {error}
        whole(store, writes)
    LmdbStore.commit = commit
"""


@pytest.mark.durability("D7")
def test_failed_commit_ends_with_74_one_line_and_no_receipt(tmp_path: Path) -> None:
    with broken(tmp_path, FAILING_COMMIT.format(error='DiskFailed("The disk said no.")')) as broker:
        wire = connected(broker)
        wire.send("/queue/q", "good")
        wire.begin_ask("SEND", {"destination": "/queue/q"}, b"bad")
        with pytest.raises(Gone):
            wire.read_frame()
        assert broker.wait(5) == 74
        last = broker.log.splitlines()[-1]
        assert ' error halted status=74 sentence="The disk said no."' in last
        assert "Traceback" not in broker.log


def test_bug_in_a_commit_ends_with_70_and_its_traceback(tmp_path: Path) -> None:
    with broken(tmp_path, FAILING_COMMIT.format(error='ValueError("a bug")')) as broker:
        wire = connected(broker)
        wire.begin_ask("SEND", {"destination": "/queue/q"}, b"bad")
        assert broker.wait(5) == 70
        assert "Traceback" in broker.log and "ValueError: a bug" in broker.log
        assert "halted status=70" in broker.log.splitlines()[-1]


COUNTING_COMMIT = """
    import os
    import time
    from radiator.server.dispatcher import Dispatcher
    from radiator.storage.lmdb.store import LmdbStore
    turn, whole, turns, commits = Dispatcher._turn, LmdbStore.commit, [0], [0]
    def counted(dispatcher):
        turns[0] += 1
        turn(dispatcher)
    def commit(store, writes):
        if any(getattr(write, "message", None) is not None and write.message.body == b"counted" for write in writes):
            lost = 0  # how often it let go of the lock, and a turn was made before it had it again
            for _ in range(100):
                before = turns[0]
                time.sleep(0)
                lost += turns[0] > before
            commits[0] += 1
            os.write(2, b"commit %d, turns meanwhile: %d\\n" % (commits[0], lost))  # in one piece
        whole(store, writes)
    Dispatcher._turn, LmdbStore.commit = counted, commit
"""


@pytest.mark.parametrize("do", ["stats", "declare"])
def test_a_commit_gets_python_s_lock_beside_background_work(tmp_path: Path, do: str) -> None:
    """It lets go of the lock and wants it back as often as a commit of LMDB does."""
    asked = b'{"do":"stats"}' if do == "stats" else b'{"do":"declare","queue":"q1"}'
    with broken(tmp_path, COUNTING_COMMIT, DEFAULT_CONFIG) as broker, connected(broker) as wire, ExitStack() as stack:
        for number in range(3000):
            wire.send_raw(wire.frame("SEND", {"destination": "/admin"}, b'{"do":"declare","queue":"q%d"}' % number))
        wire.fence()
        for _ in range(8):
            asker = stack.enter_context(connected(broker))
            asker.send_raw(asker.frame("SEND", {"destination": "/admin", "reply-to": "/temp-queue/a"}, asked) * 1000)
        for _ in range(10):
            wire.send("/queue/q", b"counted")
        broker.wait_for_log("commit 10, ")
        found = [int(line.split()[-1]) for line in broker.log.splitlines() if "turns meanwhile" in line]
        assert len(found) == 10 and max(found) < 50, found


BUGS = {
    "turn": """
        from radiator.core.broker import Broker
        whole = Broker.turn
        def turn(broker, events, now_s, now_ms):
            assert not any(type(event).__name__ == "Open" for event in events), "a bug"
            return whole(broker, events, now_s, now_ms)
        Broker.turn = turn
    """,
    "loader": """
        from radiator.storage.lmdb.store import LmdbStore
        from radiator.server import disk
        def free_bytes(data_dir):
            assert len(calls) < 3, "a bug"
            calls.append(1)
            return 10**12
        calls = []
        disk.free_bytes = free_bytes
    """,
    "timetable": """
        from radiator.server.connection import ServerConnection
        def look(connection, now_s):
            raise AssertionError("a bug")
        ServerConnection.look = look
    """,
}


@pytest.mark.parametrize("place", BUGS)
def test_bug_ends_with_70_wherever_it_is(tmp_path: Path, place: str) -> None:
    config = DEFAULT_CONFIG + "\n[limits]\nconnect_timeout_s = 1\n"
    with broken(tmp_path, BUGS[place], config) as broker:
        with socket.create_connection((broker.host, broker.port)) as client:
            if place == "turn":
                client.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
            assert broker.wait(5) == 70
        assert "Traceback" in broker.log and "a bug" in broker.log
        assert "halted status=70" in broker.log.splitlines()[-1]


def test_bug_in_a_session_costs_its_own_connection_only(tmp_path: Path) -> None:
    program = """
        from radiator.protocols.stomp.session import StompSession
        whole = StompSession.receive
        def receive(session, data):
            assert b"bad" not in data, "a bug"
            return whole(session, data)
        StompSession.receive = receive
    """
    with broken(tmp_path, program) as broker:
        bad, good = connected(broker), connected(broker)
        bad.send_raw(b"bad")
        assert bad.is_closed()
        good.send("/queue/q", "good")
        broker.wait_for_log(" error session_bug connection=")
        assert "Traceback" in broker.log
        assert broker.stop() == 0


def test_bug_in_what_a_session_writes_costs_its_own_connection_only(tmp_path: Path) -> None:
    program = """
        from radiator.protocols.stomp.session import StompSession
        whole = StompSession.encode
        def encode(session, reply):
            assert getattr(reply, "receipt", b"") != b"bad", "a bug"
            return whole(session, reply)
        StompSession.encode = encode
    """
    with broken(tmp_path, program) as broker:
        bad, good = connected(broker), connected(broker)
        bad.send_raw(b"SEND\ndestination:/queue/q\nreceipt:bad\n\nstored\0")
        assert bad.is_closed()
        good.send("/queue/q", "good")
        broker.wait_for_log(" error session_bug connection=")
        assert "Traceback" in broker.log
        assert broker.stop() == 0


def test_bug_in_a_transport_costs_its_own_connection_only(tmp_path: Path) -> None:
    program = """
        from radiator.server.transport import SocketTransport
        whole = SocketTransport.__init__
        def init(transport, connected, *given):
            whole(transport, connected, *given)
            def receive(most_bytes):
                data = connected.recv(most_bytes)
                assert b"bad" not in data, "a bug"
                return data
            transport.receive = receive
        SocketTransport.__init__ = init
    """
    with broken(tmp_path, program) as broker:
        bad, good = connected(broker), connected(broker)
        bad.send_raw(b"bad")
        assert bad.is_closed()
        good.send("/queue/q", "good")
        broker.wait_for_log(" error session_bug connection=")
        assert broker.stop() == 0


# ---- start


def test_start_on_a_port_that_is_taken_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broker = BrokerProcess(tmp_path, DEFAULT_CONFIG.replace("127.0.0.1:0", f"127.0.0.1:{port}"))
        assert broker.start_and_fail() == 1
    assert f"Cannot listen on stomp://127.0.0.1:{port}: Address already in use." in broker.log
    assert "Traceback" not in broker.log


def test_the_web_on_loopback_is_left_out_where_its_port_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        web = f"http://127.0.0.1:{taken.getsockname()[1]}"
        config = DEFAULT_CONFIG.replace('"stomp://127.0.0.1:0"', f'"stomp://127.0.0.1:0", "{web}"')
        with BrokerProcess(tmp_path, config) as broker:
            broker.wait_for_log(f"Cannot listen on {web}: Address already in use.")
            assert "warning listener_left_out" in broker.log
            sender = connected(broker)
            sender.subscribe("/queue/q")
            sender.send("/queue/q", "as before")
            assert sender.message().body == b"as before"


def test_several_listeners_serve_one_broker(tmp_path: Path) -> None:
    two = '["stomp://127.0.0.1:0", "stomp://localhost:0"]'
    with BrokerProcess(tmp_path, DEFAULT_CONFIG.replace('["stomp://127.0.0.1:0"]', two)) as broker:
        second = broker.wait_for_log(
            "listening", since=[" listening " in x for x in broker.log.splitlines()].index(True) + 1
        )
        host, _, port = second.strip().rpartition("stomp://")[2].rpartition(":")
        sender, reader = connected(broker), Wire((host.strip("[]"), int(port)))
        reader.connect()
        reader.subscribe("/queue/q")
        sender.send("/queue/q", "over both")
        assert reader.message().body == b"over both"


def test_connections_never_take_the_last_files(tmp_path: Path) -> None:
    program = """
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (184, 184))
    """
    with broken(tmp_path, program) as broker:
        assert "few_files" not in broker.log, "it has not been asked for more"
        crowd = [connected(broker) for _ in range(24)]
        with Wire((broker.host, broker.port)) as refused:
            assert refused.refusal()["code"] == "connections"
        broker.wait_for_log(" warning connections_full connections=24 ")
        crowd[0].send("/queue/q", "still here")
        crowd.pop().close()
        time.sleep(0.1)
        connected(broker).send("/queue/q", "again")


@pytest.mark.parametrize("files", [63, 64])
def test_too_few_files_for_the_broker_itself_refuse_the_start(tmp_path: Path, files: int) -> None:
    """Strangers who say nothing took the last one, and the log's next segment was a failed disk."""
    broker = broken(tmp_path, f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}))")
    if files < 64:
        assert broker.start_and_fail() == 1
        assert "may open 63 files, and a broker needs 64 at least" in broker.log and "ulimit -n" in broker.log
        return
    with broker:
        crowd = [socket.create_connection((broker.host, broker.port)) for _ in range(100)]
        connected(broker).send("/queue/q", "still here")
        assert broker.stop() == 0 and len(crowd) == 100


@pytest.mark.parametrize("setting", ["max_connections = 20000", "max_half_open = 2000"])
def test_asked_for_more_connections_than_there_are_files_for_it_says_so(tmp_path: Path, setting: str) -> None:
    program = """
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 184))
    """
    with broken(tmp_path, program, f"{DEFAULT_CONFIG}\n[limits]\n{setting}\n") as broker:
        assert " warning few_files open_files=184 " in broker.log and " room_for=24" in broker.log


def test_without_files_for_new_connections_the_old_ones_go_on(tmp_path: Path) -> None:
    """Somebody else took the files: the system gives none for a connection."""
    program = """
        import os, resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
        taken = [os.open("/dev/null", os.O_RDONLY) for _ in range(260)]
    """
    with broken(tmp_path, program) as broker:
        first = connected(broker)
        first.subscribe("/topic/t")
        crowd = [socket.create_connection((broker.host, broker.port)) for _ in range(40)]
        broker.wait_for_log("cannot_accept")
        first.send("/topic/t", "still here")
        time.sleep(1.2)
        assert broker.log.count("cannot_accept") == 1, "said once, not once a try"
        for one in crowd:
            one.close()
        connected(broker).send("/topic/t", "again")
        assert broker.stop() == 0


# ---- stop


def test_second_signal_ends_at_once(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, DEFAULT_CONFIG) as broker:
        stuck, sender = connected(broker), connected(broker)
        stuck.subscribe("/topic/t")
        for _ in range(3):
            sender.send("/topic/t", b"x" * 1_000_000)
        assert broker.process is not None
        broker.process.send_signal(signal.SIGTERM)
        broker.wait_for_log("stopping")
        time.sleep(0.3)
        assert broker.is_running, "it waits for the one who does not read"
        began_s = time.monotonic()
        broker.process.send_signal(signal.SIGTERM)
        assert broker.wait(5) == 143
        assert time.monotonic() - began_s < 2


LEFT = """
    import atexit, gc, os
    from radiator.model.message import Message
    def tell():
        seen = sum(isinstance(one, Message) for one in gc.get_objects())
        os.write(2, f"AT EXIT {seen} messages\\n".encode())
    atexit.register(tell)
"""


def test_stop_ends_as_any_program_does_and_leaves_nothing_to_be_looked_through(tmp_path: Path) -> None:
    with broken(tmp_path, LEFT) as broker:
        connected(broker).send("/queue/q", "message")
        assert broker.stop() == 0
        assert broker.log.endswith(" info stopped\nAT EXIT 0 messages\n")


@pytest.mark.slow
def test_stop_with_very_many_messages_in_memory_ends_at_once(tmp_path: Path) -> None:
    """Told by CPU time, which does not depend on who else is busy: to look through these takes 0.3 s."""
    program = """
        import time
        from radiator.server.log import EventLog
        close = EventLog.close
        def closed(log):
            close(log)
            open("stopped_cpu_s", "w").write(repr(time.process_time()))
        EventLog.close = closed
    """
    config = DEFAULT_CONFIG + '\n[queue.m]\npersistent = false\nmax_messages = 1000000\nmax_bytes = "1GiB"\n'
    with broken(tmp_path, program, config) as broker:
        wire = connected(broker)
        for _ in range(40):
            wire.send_raw(wire.frame("SEND", {"destination": "/queue/m"}, b"x") * 10_000)
            wire.fence()
        before_s = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert broker.stop() == 0
        after_s = resource.getrusage(resource.RUSAGE_CHILDREN)
    whole_s = after_s.ru_utime - before_s.ru_utime + after_s.ru_stime - before_s.ru_stime
    ending_s = whole_s - float((tmp_path / "stopped_cpu_s").read_text())
    assert ending_s < 0.15, f"{ending_s:.2f} s of CPU behind `stopped`"


@pytest.mark.alone("what must be at once is told from half a second later")
def test_stop_does_not_wait_for_the_sync_interval(tmp_path: Path) -> None:
    config = DEFAULT_CONFIG.replace("[server]", "[server]\nsync_interval_ms = 3000")
    with BrokerProcess(tmp_path, config) as broker:
        wire = connected(broker)
        wire.send("/queue/q", "first")
        waiting = wire.begin_ask("SEND", {"destination": "/queue/q"}, b"second")
        with pytest.raises(TimeoutError):
            wire.read_frame(0.5)
        assert broker.process is not None
        began_s = time.monotonic()
        broker.process.send_signal(signal.SIGTERM)
        wire.await_receipt(waiting)
        assert broker.wait(5) == 0
        assert time.monotonic() - began_s < 1.5


@pytest.mark.alone("what must be at once is told from half a second later")
def test_sync_interval_delays_a_receipt_and_no_more(tmp_path: Path) -> None:
    config = DEFAULT_CONFIG.replace("[server]", "[server]\nsync_interval_ms = 400")
    with BrokerProcess(tmp_path, config) as broker:
        wire = connected(broker)
        wire.send("/queue/q", "first")
        began_s = time.monotonic()
        wire.send("/queue/q", "second")
        assert 0.3 < time.monotonic() - began_s < 1.5
        began_s = time.monotonic()
        wire.fence()
        assert time.monotonic() - began_s < 0.3
        time.sleep(0.5)
        began_s = time.monotonic()
        wire.send("/queue/q", "third")
        assert time.monotonic() - began_s < 0.3, "after a quiet time it is synced at once"


# ---- the service manager


@pytest.mark.slow
def test_service_manager_hears_ready_watchdog_and_stopping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    monkeypatch.setenv("WATCHDOG_USEC", "1000000")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(5)
        with BrokerProcess(tmp_path, DEFAULT_CONFIG) as broker:
            assert manager.recv(100) == b"READY=1"
            connected(broker).close()
            began_s = time.monotonic()
            pings = [manager.recv(100) for _ in range(3)]
            assert pings == [b"WATCHDOG=1"] * 3
            assert time.monotonic() - began_s < 4
            assert broker.stop() == 0
        seen = [b"WATCHDOG=1"]
        while seen[-1] == b"WATCHDOG=1":
            seen.append(manager.recv(100))
        assert seen[-1] == b"STOPPING=1"


@pytest.mark.slow
def test_watchdog_is_silent_while_a_commit_is_stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    monkeypatch.setenv("WATCHDOG_USEC", "400000")
    program = """
        import time
        from radiator.storage.lmdb.store import LmdbStore
        whole = LmdbStore.commit
        def commit(store, writes):
            time.sleep(2)
            whole(store, writes)
        LmdbStore.commit = commit
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, broken(tmp_path, program) as broker:
        manager.bind(path)
        manager.settimeout(5)
        wire = connected(broker)
        wire.begin_ask("SEND", {"destination": "/queue/q"}, b"x")
        time.sleep(0.4)
        manager.setblocking(False)
        try:
            while True:
                manager.recv(100)
        except BlockingIOError:
            pass
        time.sleep(1.0)
        with pytest.raises(BlockingIOError):
            manager.recv(100)
        assert os.path.exists(path)


# ---- the log


def refused_once(broker: BrokerProcess) -> int:
    """The port that a client was refused at."""
    with connected(broker) as wire:
        port: int = wire.socket.getsockname()[1]
        wire.send_raw(b"NONSENSE\n\n\0")
        assert wire.refusal()["code"] == "protocol"
        return port


def test_who_comes_and_goes_is_not_told_but_who_is_refused_by_address(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        with connected(broker):
            pass
        port = refused_once(broker)
        line = broker.wait_for_log(" refused ")
        assert f" peer=127.0.0.1:{port}" in line
        assert broker.stop() == 0
    assert [reported.split()[2] for reported in broker.log.splitlines()] == [
        "start", "access", "listening", "listening", "refused", "stopping", "stopped",
    ]  # fmt: skip


def test_one_who_is_refused_again_and_again_fills_no_log(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        for _ in range(LOG_LINES_OF_CLIENT + 5):
            refused_once(broker)
        assert broker.stop() == 0
    lines = broker.log.splitlines()
    assert sum(" info refused " in reported for reported in lines) == LOG_LINES_OF_CLIENT
    assert any(reported.endswith(" client_lines_dropped client=127.0.0.1 of=refused lines=5") for reported in lines)


def test_every_line_is_an_object_with_its_priority_where_that_is_wanted(tmp_path: Path) -> None:
    logging = '[logging]\nlevel = "debug"\nformat = "json"\npriorities = "always"\n'
    broker = BrokerProcess(tmp_path, DEFAULT_CONFIG + logging + "[queue.a]\noverflow = 'reject'\n")
    broker._spawn()
    try:
        broker.wait_for_log('"listening"')
        assert broker.stop() == 0
    finally:
        broker.kill()
    lines = broker.log.splitlines()
    found = [json.loads(line[3:]) for line in lines]
    assert {line[:3] for line in lines} == {"<6>", "<4>"}
    assert [one["event"] for one in found] == [
        "start", "access", "no_effect", "listening", "listening", "stopping", "stopped",
    ]  # fmt: skip
    assert "queue.a.overflow has no effect" in found[2]["sentence"] and all("time" in one for one in found)
