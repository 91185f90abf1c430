"""Logging in, from outside: a real broker, real sockets, real hashes."""

import os
import resource
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from radiator.auth.scrypt import Cost, made
from radiator.auth.tokens import sha256_of, text_of
from radiator.model.limits import FAILURES_OF_NAME
from radiator.tools.cli.load import process_cpu_s
from tests.acceptance.wire import Frame, Gone, Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess
from tests.campaigns.growth import anonymous_bytes

TOKEN, OLD_TOKEN = text_of(bytes(32)), text_of(bytes([1] * 32))
SECRET = "cor:rect\\ horse"
CROWD, IN_AGAIN_S = 1000, 5.0
CHEAP = Cost(ln=10)


def hashed(password: str, cost: Cost = CHEAP) -> str:
    return str(made(password.encode(), os.urandom(16), cost))


def sha256(token: str) -> str:
    return sha256_of(token.encode())


USERS = f"""
[user."shop"]
password = "{hashed(SECRET)}"
role = "operator"
[user."ci"]
tokens = [{{ sha256 = "{sha256(TOKEN)}" }}, {{ sha256 = "{sha256(OLD_TOKEN)}", until = 2020-01-01 }}]
role = "operator"
"""
CONFIG = SERVER + EVERYTHING_MAY_BE_CREATED + '[logging]\nlevel = "debug"\n' + USERS


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log
        for secret in (SECRET, TOKEN, OLD_TOKEN, "hunter2", "scrypt", sha256(TOKEN)):
            assert secret not in running.log
        assert running.stop() == 0


def login(name: str | None, passcode: str | None, version: str = "1.2") -> dict[str, str]:
    given = {"login": name, "passcode": passcode}
    return {"accept-version": version, "host": "h", **{key: one for key, one in given.items() if one is not None}}


def answer(
    broker: BrokerProcess, name: str | None, passcode: str | None, behind: bytes = b"", source: str = ""
) -> Frame:
    """What CONNECT is answered; after an ERROR the connection is closed."""
    with Wire((broker.host, broker.port), source=source) as wire:
        wire.send_raw(wire.frame("CONNECT", login(name, passcode)) + behind)
        frame = wire.read_frame()
        if frame.command == "ERROR":
            with pytest.raises(Gone):
                wire.read_frame()
        return frame


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
@pytest.mark.parametrize(("name", "passcode"), [("shop", SECRET), ("ci", TOKEN)])
def test_a_user_gets_in_and_works(broker: BrokerProcess, version: str, command: str, name: str, passcode: str) -> None:
    with Wire((broker.host, broker.port), version) as wire:
        opening = wire.frame("CONNECT", login(name, passcode, version)).replace(b"CONNECT", command.encode(), 1)
        wire.send_raw(opening + wire.frame("SEND", {"destination": "/queue/a", "receipt": "r"}, b"x"))
        assert wire.read("CONNECTED")["version"] == version
        assert wire.read("RECEIPT")["receipt-id"] == "r"
        wire.subscribe("/queue/a")
        assert wire.message().body == b"x"


WRONG = [
    ("shop", "hunter2"),
    ("shop", ""),
    ("shop", None),
    ("shop", SECRET + " "),
    ("nobody", SECRET),
    (None, SECRET),
    (None, None),
    ("", ""),
    ("ci", OLD_TOKEN),
    ("ci", SECRET),
    ("ci", sha256(TOKEN)),
    ("shop", TOKEN),
    ("anonymous", None),
]


def test_everybody_else_gets_one_and_the_same_answer(broker: BrokerProcess) -> None:
    found = {repr(answer(broker, name, passcode)) for name, passcode in WRONG}
    assert len(found) == 1, found
    (one,) = found
    assert "'forbidden'" in one and one.startswith("ERROR")


def test_nothing_behind_a_refused_connect_is_carried_out(broker: BrokerProcess) -> None:
    behind = b"SEND\ndestination:/queue/never\nreceipt:r\n\nx\0"
    assert answer(broker, "shop", "hunter2", behind).command == "ERROR"
    assert answer(broker, None, None, b"garbage\0" + behind)["code"] == "forbidden"
    with Wire((broker.host, broker.port)) as wire:
        wire.connect(login("shop", SECRET))
        assert "never" not in str(wire.admin(b'{"do": "stats", "section": "queues"}'))


def test_the_log_has_the_name_quoted_and_cut_and_never_the_passcode(broker: BrokerProcess) -> None:
    since = broker.log.count("\n")
    answer(broker, "eve level=error\t\x1b[31m" + "x" * 2000, "hunter2", source="127.0.0.2")
    line = broker.wait_for_log("login_failed", since=since)
    assert 'login="eve level=error\\t\\x1b[31mxxx' in line and len(line) < 1000


def test_the_start_says_who_may_connect(broker: BrokerProcess, tmp_path: Path) -> None:
    assert 'access sentence="2 users, each with a login"' in broker.log
    with BrokerProcess(tmp_path) as open_one:
        assert "this machine only; no password until config.toml has a [user]" in open_one.log
        assert answer(open_one, "whoever", "whatever").command == "CONNECTED"


def test_root_and_the_broker_itself_need_no_login_on_a_unix_socket(broker: BrokerProcess) -> None:
    with Wire(broker.unix_path) as wire:
        wire.connect()
        wire.send("/queue/b", "x")


CONNECT_AS = """
import os, socket, sys
os.setgid(65534); os.setuid(65534)
with socket.socket(socket.AF_UNIX) as one:
    one.connect(sys.argv[1])
    one.sendall(b"CONNECT\\naccept-version:1.2\\nhost:h\\n" + sys.argv[2].encode() + b"\\n\\0")
    print(one.recv(65536).decode())
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be somebody else on a unix socket")
@pytest.mark.parametrize("is_named", [False, True])
def test_others_at_a_unix_socket_are_the_user_that_names_them_or_log_in(is_named: bool) -> None:
    directory = Path(f"/tmp/radiator-login-{os.getpid()}-{is_named}")
    directory.mkdir(mode=0o755)
    path = directory / "s"
    named = '[user.guest]\nunix = "nobody"\nrole = "operator"\n' if is_named else ""
    config = CONFIG.replace('"stomp://127.0.0.1:0"', f'"stomp://127.0.0.1:0", "stomp+unix:{path}?mode=0666"') + named
    try:
        with BrokerProcess(directory, config):

            def answered_to(headers: str) -> str:
                program = [sys.executable, "-c", CONNECT_AS, str(path), headers]
                return subprocess.run(program, capture_output=True, text=True, check=True, timeout=20).stdout

            assert ("CONNECTED" in answered_to("")) is is_named
            assert ("CONNECTED" in answered_to("login:guest\n")) is is_named
            assert "CONNECTED" in answered_to(f"login:shop\npasscode:{SECRET}\n") or is_named
            assert "code:forbidden" in answered_to("login:shop\npasscode:x\n")
    finally:
        subprocess.run(["rm", "-rf", str(directory)], check=True)


def test_whoever_gives_no_login_is_anonymous_where_that_is_a_user(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, CONFIG + '[user.anonymous]\nrole = "operator"\n') as broker:
        assert "2 users, each with a login; a client without a login is anonymous" in broker.log
        assert answer(broker, None, None).command == "CONNECTED"
        assert answer(broker, "shop", SECRET).command == "CONNECTED"
        assert answer(broker, "shop", "hunter2").command == "ERROR"
        assert answer(broker, "anonymous", "x").command == "ERROR"


def test_too_many_failures_are_answered_without_a_hash(tmp_path: Path) -> None:
    dear = SERVER + f'[user.shop]\npassword = "{hashed(SECRET, Cost(ln=15))}"\nrole = "operator"\n'
    with BrokerProcess(tmp_path, dear) as broker:
        assert broker.process is not None
        begun_cpu_s = process_cpu_s(broker.process.pid)
        for n in range(FAILURES_OF_NAME):
            assert answer(broker, "shop", f"wrong{n}")["message"].startswith("CONNECT needs")
        hashed_cpu_s = process_cpu_s(broker.process.pid) - begun_cpu_s
        started_s, begun_cpu_s = time.monotonic(), process_cpu_s(broker.process.pid)
        for n in range(FAILURES_OF_NAME):
            found = answer(broker, "shop", f"more{n}")
            if "Too many logins have failed" not in found["message"]:
                assert time.monotonic() - started_s > 1  # a slow machine: one more was let through in time
        refused_cpu_s = process_cpu_s(broker.process.pid) - begun_cpu_s
        assert refused_cpu_s < hashed_cpu_s / 2, (refused_cpu_s, hashed_cpu_s)


def test_a_thousand_clients_of_one_user_are_in_again_soon_after_a_restart(tmp_path: Path) -> None:
    """With the hash that `radiator password` makes, all at once and from one address; whoever had to make way, since so
    many were not logged in, comes again at once.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * CROWD), hard))
    dear = SERVER + f'[user.shop]\npassword = "{hashed(SECRET, Cost())}"\nrole = "operator"\n'
    opening = f"CONNECT\naccept-version:1.2\nhost:h\nlogin:shop\npasscode:{SECRET}\n\n\0".encode()
    try:
        with BrokerProcess(tmp_path, dear) as broker, ExitStack() as stack, selectors.DefaultSelector() as selector:
            for _ in range(2):  # again after a restart
                began_s = time.monotonic()
                assert crowd(broker, opening, stack, selector) == CROWD
                took_s = time.monotonic() - began_s
                assert broker.stop() == 0
                broker.start()
            assert took_s < IN_AGAIN_S, took_s
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def crowd(broker: BrokerProcess, opening: bytes, stack: ExitStack, selector: selectors.BaseSelector) -> int:
    """How many of CROWD are connected, once all are, or none comes any more."""

    def dial() -> None:
        one = stack.enter_context(socket.create_connection((broker.host, broker.port), 10))
        one.sendall(opening)
        one.setblocking(False)
        selector.register(one, selectors.EVENT_READ)

    for _ in range(CROWD):
        dial()
    connected = 0
    while connected < CROWD and (ready := selector.select(10)):
        for key, _ in ready:
            selector.unregister(key.fileobj)
            try:
                is_in = socket.socket.recv(key.fileobj, 4096).startswith(b"CONNECTED")  # type: ignore[arg-type]
            except ConnectionError:
                is_in = False
            connected += is_in
            if not is_in:
                key.fileobj.close()  # type: ignore[union-attr]
                dial()
    return connected


def test_others_are_served_while_a_login_is_checked(tmp_path: Path) -> None:
    """A hash of 128 MiB takes half a second, and nobody waits for it but who has asked."""
    dear = CONFIG + f'[user.slow]\npassword = "{hashed(SECRET, Cost(ln=17))}"\n'
    with BrokerProcess(tmp_path, dear) as broker, Wire((broker.host, broker.port)) as bystander:
        bystander.connect(login("ci", TOKEN))
        with Wire((broker.host, broker.port)) as slow:
            slow.send_frame("CONNECT", login("slow", SECRET))
            before, started_s = 0, time.monotonic()
            slow.socket.setblocking(False)
            while time.monotonic() - started_s < 20:
                bystander.fence()
                before += 1
                try:
                    slow.buffer += slow.socket.recv(4096)
                    break
                except BlockingIOError:
                    continue
            assert before > 10 and slow.buffer.startswith(b"CONNECTED")


def test_little_is_held_of_those_whose_login_is_being_judged(tmp_path: Path) -> None:
    """Each says 64 KiB behind its CONNECT, of which at most 8 are read."""
    count, behind = 300, b"\n" * 65_536
    dear = SERVER + f'[user.slow]\npassword = "{hashed(SECRET, Cost(ln=17))}"\n'
    opening = f"CONNECT\naccept-version:1.2\nhost:h\nlogin:slow\npasscode:{SECRET}\n\n\0".encode()
    with BrokerProcess(tmp_path, dear) as broker, ExitStack() as stack:
        answer(broker, "slow", "x")  # the thread, and what its first hash takes, is there
        before_bytes = most_bytes = anonymous_bytes(broker.pid)
        wires = [stack.enter_context(Wire((broker.host, broker.port))) for _ in range(count)]
        for wire in wires:
            wire.send_raw(opening + behind)
        for wire in wires[-1:]:
            while not wire.buffer:
                most_bytes = max(most_bytes, anonymous_bytes(broker.pid))
                wire.socket.settimeout(0.01)
                with suppress(TimeoutError):
                    wire.buffer = wire.socket.recv(4096)
        hash_bytes = 128 << 20
        assert most_bytes - before_bytes - hash_bytes < count * 32_768


# ---- reload


def reloaded(broker: BrokerProcess, config: str) -> str:
    """What the log says of a reload with that text."""
    since = broker.log.count("\n")
    broker.config_file.write_text(config)
    assert broker.process is not None
    broker.process.send_signal(1)
    broker.wait_for_log("reloaded", since=since)
    return "\n".join(broker.log.splitlines()[since:])


def test_a_token_that_runs_out_ends_its_connections(tmp_path: Path) -> None:
    for valid_s in (3, 10, 30):  # on a busy machine a broker may take longer to start than a token of 3 s is valid
        until_s = time.time() + valid_s
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(until_s))
        users = f'[user."ci"]\ntokens = [{{ sha256 = "{sha256(TOKEN)}", until = {until} }}]\nrole = "operator"\n'
        directory = tmp_path / str(valid_s)
        directory.mkdir()
        with BrokerProcess(directory, SERVER + users) as broker, Wire((broker.host, broker.port)) as wire:
            wire.send_frame("CONNECT", {"accept-version": "1.2", "host": "h", **login("ci", TOKEN)})
            answer = wire.read_frame()
            if answer.command == "ERROR":
                assert time.time() >= until_s - 1, answer
                continue
            error = wire.read("ERROR", timeout_s=valid_s + 7)
            assert error["code"] == "forbidden" and "has expired" in error["message"]
            assert until_s - 1 <= time.time() < until_s + 3
            return
    raise AssertionError("no token was still valid when its client came")


def test_a_reload_changes_who_may_log_in_at_once(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, CONFIG) as broker:
        assert answer(broker, "shop", SECRET).command == "CONNECTED"
        other = hashed("new")
        lines = reloaded(broker, SERVER + f'[user.shop]\npassword = "{other}"\n[user.late]\npassword = "{other}"\n')
        assert "user.shop.password" in lines and "another secret" in lines and "scrypt" not in lines
        assert "user.late" in lines and "user.ci" in lines and other not in lines
        assert answer(broker, "shop", SECRET).command == "ERROR"
        assert answer(broker, "ci", TOKEN).command == "ERROR"
        assert answer(broker, "shop", "new").command == answer(broker, "late", "new").command == "CONNECTED"


@pytest.mark.parametrize("begins_with", [USERS, ""])
def test_whether_there_are_users_waits_for_a_restart(tmp_path: Path, begins_with: str) -> None:
    with BrokerProcess(tmp_path, SERVER + begins_with) as broker:
        lines = reloaded(broker, SERVER + ("" if begins_with else USERS))
        assert "user.shop" in lines and "takes_effect=restart" in lines
        assert answer(broker, None, None).command == ("ERROR" if begins_with else "CONNECTED")


def test_users_in_a_file_of_their_own_are_read_again_too(tmp_path: Path) -> None:
    users = tmp_path / "users.toml"
    users.write_text(USERS)
    users.chmod(0o600)
    config = SERVER + 'users_file = "users.toml"\n'
    with BrokerProcess(tmp_path, config) as broker:
        assert answer(broker, "shop", SECRET).command == "CONNECTED"
        users.write_text(USERS.replace('"shop"', '"store"'))
        reloaded(broker, config)
        assert answer(broker, "shop", SECRET).command == "ERROR"
        assert answer(broker, "store", SECRET).command == "CONNECTED"
        since = broker.log.count("\n")
        users.write_text("")
        assert broker.process is not None
        broker.process.send_signal(1)
        broker.wait_for_log("has no users", since=since)
        assert answer(broker, "store", SECRET).command == "CONNECTED"
