"""What was right of a certificate or a token and is no more: CAs that are swapped, tickets of TLS, users who are gone,
clocks that are wrong, and who may have the broker read all of that again.
"""

import os
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException, HTTPSConnection
from pathlib import Path

import pytest

from radiator.client import Client, ConnectionLost
from tests.acceptance.test_login import TOKEN, hashed, login, sha256
from tests.acceptance.wire import Gone, Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess, environment
from tests.certificates import Authority, MadePair, openssl
from tests.ports import free_ports
from tests.tls_broker import ENCRYPTED, TlsBroker

MUTUAL = ENCRYPTED.replace("[tls]\n", '[tls]\nclient_ca = "trusted.pem"\nclient_certificates = "optional"\n')
OPS = '[user."ops"]\ncertificate = "CN=ops"\nrole = "operator"\n'
SHOP = f'[user."shop"]\npassword = "{hashed("x")}"\nrole = "operator"\n'
CONFIG = MUTUAL + EVERYTHING_MAY_BE_CREATED + SHOP
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


class Trusting(TlsBroker):
    """With a file of the CAs of clients, which is not that of its own."""

    def __init__(self, directory: Path, config_text: str = CONFIG + OPS) -> None:
        self.clients, self.others = (Authority(directory / name, name) for name in ("clients", "others"))
        super().__init__(directory, config_text)
        self.trust(self.clients)

    def trust(self, *authorities: Authority) -> None:
        """What the file says from now on, which nobody has read yet."""
        text = "".join(one.certificate.read_text() for one in authorities)
        (self.directory / "trusted.pem").write_text(text)

    def context(self, own: MadePair, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
        """Of a client with that pair."""
        context = ssl.create_default_context(cafile=self.ca_file)
        context.load_cert_chain(own.certificate, own.key)
        context.minimum_version = context.maximum_version = version
        return context

    def resumed(self, context: ssl.SSLContext, session: ssl.SSLSession | None) -> Wire:
        """After the handshake, with a ticket of an earlier one."""
        wire = Wire((self.host, self.tls_port))
        wire.socket = context.wrap_socket(wire.socket, server_hostname="localhost", session=session)
        return wire

    def gets_in(self, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> bool:
        """Without another login than the certificate."""
        try:
            with self.resumed(context, session) as wire:
                wire.send_frame("CONNECT", login(None, None))
                return wire.read_frame().command == "CONNECTED"
        except (OSError, Gone):  # TLS 1.3: the client hears it only behind its own end of the handshake
            return False


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Trusting]:
    with Trusting(tmp_path) as running:
        yield running
        assert "Traceback" not in running.log, running.log


def session_of(wire: Wire) -> ssl.SSLSession:
    """With TLS 1.3 it comes behind the handshake, with what is read first."""
    assert isinstance(wire.socket, ssl.SSLSocket) and wire.socket.session is not None
    return wire.socket.session


# ---- CAs


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_ca_that_is_swapped_counts_for_all_who_come_from_then_on(
    broker: Trusting, version: ssl.TLSVersion
) -> None:
    old = broker.context(broker.clients.pair("ops", "/CN=ops", ""), version)
    new = broker.context(broker.others.pair("ops", "/CN=ops", ""), version)
    with broker.resumed(old, None) as there:
        there.connect(login(None, None))
        session = session_of(there)
        with broker.resumed(old, session) as again:
            again.connect(login(None, None))
            assert isinstance(again.socket, ssl.SSLSocket) and again.socket.session_reused
        assert not broker.gets_in(new)
        broker.trust(broker.others)
        line = broker.hang_up("setting_changed")
        assert "setting=tls.client_ca" in line and "CN=Trial clients" in line and "CN=Trial others" in line
        broker.wait_for_log(" reloaded")
        there.send("/queue/q", "who is there stays")
        assert not broker.gets_in(old, session), "a ticket of before"
        assert not broker.gets_in(old) and broker.gets_in(new)
        broker.trust(broker.clients, broker.others)
        broker.hang_up("reloaded")
        assert broker.gets_in(old) and broker.gets_in(new)
        broker.trust(broker.others)
        broker.stop()
    broker.start()
    assert not broker.gets_in(old, session), "a ticket of another start"
    assert not broker.gets_in(old) and broker.gets_in(new)


@pytest.mark.parametrize("is_user_gone", [False, True])
def test_who_has_connected_before_a_ca_goes_is_ended_with_the_users_certificate(
    broker: Trusting, is_user_gone: bool
) -> None:
    """As docs/SECURITY.md has it of a CA that has lost its keys."""
    context = broker.context(broker.clients.pair("ops", "/CN=ops", ""))
    with (
        broker.resumed(context, None) as there,
        broker.resumed(context, None) as shaken,
        Wire((broker.host, broker.tls_port)) as silent,
    ):
        there.connect(login(None, None))
        broker.trust(broker.others)
        if is_user_gone:
            broker.config_file.write_text(CONFIG)
        broker.hang_up("reloaded")
        silent.socket = context.wrap_socket(silent.socket, server_hostname="localhost")
        for one in (shaken, silent):
            one.send_frame("CONNECT", login(None, None))
            assert one.read_frame().command == ("ERROR" if is_user_gone else "CONNECTED")
        if is_user_gone:
            assert there.read("ERROR")["code"] == "forbidden"
        else:
            there.send("/queue/q", "still there")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_ticket_of_a_user_who_is_gone_lets_nobody_in(broker: Trusting, version: ssl.TLSVersion) -> None:
    context = broker.context(broker.clients.pair("ops", "/CN=ops", ""), version)
    with broker.resumed(context, None) as there:
        there.connect(login(None, None))
        session = session_of(there)
        broker.config_file.write_text(CONFIG)
        broker.hang_up("reloaded")
        assert there.read("ERROR")["code"] == "forbidden"
    assert not broker.gets_in(context, session) and not broker.gets_in(context)
    broker.stop()
    broker.start()
    assert not broker.gets_in(context, session) and not broker.gets_in(context)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("asked", ["none", "optional"])
def test_a_ticket_of_one_listener_is_none_of_another(tmp_path: Path, version: ssl.TLSVersion, asked: str) -> None:
    """The one asks for no certificate, or takes those of another CA."""
    (port,) = free_ports(1)
    listen = f'"stomps://127.0.0.1:{port}", "stomps://127.0.0.1:0"'  # the last one is that of `tls_port`
    own = f'[tls."stomps://127.0.0.1:{port}"]\nclient_ca = "others/others.pem"\nclient_certificates = "required"\n'
    text = (CONFIG + OPS + own).replace('"stomps://127.0.0.1:0"', listen).replace('"optional"', f'"{asked}"', 1)
    if asked == "none":
        text = text.replace('client_ca = "trusted.pem"\n', "")
    with Trusting(tmp_path, text) as broker:
        context = broker.context(broker.clients.pair("ops", "/CN=ops", ""), version)
        with broker.resumed(context, None) as there:
            there.connect(login("shop", "x") if asked == "none" else login(None, None))
            session = session_of(there)
        assert broker.gets_in(context, session) is (asked == "optional")
        with pytest.raises((OSError, Gone)), Wire(("127.0.0.1", port)) as wire:
            wire.socket = context.wrap_socket(wire.socket, server_hostname="localhost", session=session)
            wire.connect(login(None, None))
        broker.wait_for_log("tls_failed")


def test_who_is_recognised_over_http_is_judged_by_the_users_of_each_request(tmp_path: Path) -> None:
    text = (CONFIG + OPS).replace('"stomps://127.0.0.1:0"', '"stomps://127.0.0.1:0", "https://127.0.0.1:0"')
    with Trusting(tmp_path, text) as broker:
        port = int(broker.wait_for_log("listening address=https://").rpartition(":")[2])
        context = broker.context(broker.clients.pair("ops", "/CN=ops", ""))

        def status(web: HTTPSConnection) -> int:
            web.request("GET", "/v1/stats")
            answer = web.getresponse()
            answer.read()
            return answer.status

        asked, silent = (HTTPSConnection("localhost", port, context=context, timeout=10) for _ in range(2))
        silent.connect()
        assert status(asked) == 200
        broker.config_file.write_text(broker.config_file.read_text().replace("CN=ops", "CN=heir"))
        broker.hang_up("reloaded")
        for web in (asked, silent):
            with suppress(OSError, HTTPException):
                assert status(web) in (401, 403)
            web.close()
        assert status(asked) == 401
        asked.close()


# ---- clocks

MOVED = """
import sys, time
from pathlib import Path
by_s, now_s, now_ns = Path({path!r}), time.time, time.time_ns
time.time = lambda: now_s() + int(by_s.read_text())
time.time_ns = lambda: now_ns() + int(by_s.read_text()) * 10**9
from radiator.tools.cli import main
sys.exit(main())
"""
HOUR_S = 3600


class Moved(TlsBroker):
    """Whose clock is ahead of ours, or behind; that of OpenSSL is not."""

    def __init__(self, directory: Path, config_text: str) -> None:
        self._by_s = directory / "by_s"
        self.move(0)
        super().__init__(directory, config_text, ("-c", MOVED.format(path=str(self._by_s))))

    def move(self, by_s: int) -> None:
        new = self._by_s.with_suffix(".new")
        new.write_text(str(by_s))
        new.rename(self._by_s)

    def connected_as(self, context: ssl.SSLContext | None, given: dict[str, str]) -> Wire:
        wire = self.wire(context)
        wire.send_frame("CONNECT", given)
        return wire

    def answers(self, context: ssl.SSLContext | None, given: dict[str, str]) -> str:
        with self.connected_as(context, given) as wire:
            return wire.read_frame().command


def token_until(end_s: float) -> str:
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end_s))
    return f'[user."ci"]\ntokens = [{{ sha256 = "{sha256(TOKEN)}", until = {until} }}]\nrole = "operator"\n'


def test_a_token_ends_by_the_clock_of_the_broker_wherever_that_is_set(tmp_path: Path) -> None:
    given = login("ci", TOKEN)
    with Moved(tmp_path, ENCRYPTED + token_until(time.time() + HOUR_S)) as broker:
        with broker.connected_as(None, given) as wire:
            assert wire.read_frame().command == "CONNECTED"
            broker.move(2 * HOUR_S)
            assert "has expired" in wire.read("ERROR", timeout_s=5)["message"]
        assert broker.answers(None, given) == "ERROR"
        broker.move(0)
        assert broker.answers(None, given) == "CONNECTED", "what was wrong while the clock was is right again"
        broker.stop()
        broker.move(2 * HOUR_S)
        broker.start()
        assert broker.answers(None, given) == "ERROR"


def test_a_clock_that_is_not_followed_refuses_logins_and_ends_none(tmp_path: Path) -> None:
    """Nothing expires by it but what proves who a client is, at the login."""
    given = login("ci", TOKEN)
    with Moved(tmp_path, ENCRYPTED + token_until(time.time() + HOUR_S)) as broker:
        with broker.connected_as(None, given) as wire:
            assert wire.read_frame().command == "CONNECTED"
            broker.move(200 * 24 * HOUR_S)
            broker.wait_for_log("clock_not_followed")
            assert broker.answers(None, given) == "ERROR"
            wire.send_frame("BEGIN", {"transaction": "t", "receipt": "r"})
            assert wire.read("RECEIPT")["receipt-id"] == "r"
        broker.move(0)
        assert broker.answers(None, given) == "CONNECTED"


def test_a_token_that_is_over_ends_as_soon_as_a_clock_that_was_behind_is_right(tmp_path: Path) -> None:
    given = login("ci", TOKEN)
    broker = Moved(tmp_path, ENCRYPTED + token_until(time.time() - HOUR_S))
    broker.move(-2 * HOUR_S)
    with broker, broker.connected_as(None, given) as wire:
        assert wire.read_frame().command == "CONNECTED"
        broker.move(0)
        assert "has expired" in wire.read("ERROR", timeout_s=5)["message"]
        assert broker.answers(None, given) == "ERROR"


def test_a_certificate_ends_by_the_clock_of_the_broker_too(tmp_path: Path) -> None:
    text = (MUTUAL + OPS).replace("trusted.pem", "ca.pem")
    given = login(None, None)
    with Moved(tmp_path, text) as broker:
        own = broker.authority.pair("ops", "/CN=ops", "", days=2)
        context = ssl.create_default_context(cafile=broker.ca_file)
        context.load_cert_chain(own.certificate, own.key)
        with broker.connected_as(context, given) as wire:
            assert wire.read_frame().command == "CONNECTED"
            broker.move(72 * HOUR_S)
            assert "has expired" in wire.read("ERROR", timeout_s=5)["message"]
        with pytest.raises((OSError, Gone)):
            broker.answers(context, given)
        broker.wait_for_log('reason="the client\'s certificate has expired, or its CA"')
        broker.move(0)
        assert broker.answers(context, given) == "CONNECTED"


CA_OF_DAYS = """
[ca]
default_ca = one
[one]
database = {directory}/index.txt
new_certs_dir = {directory}
rand_serial = yes
default_md = sha256
policy = any
[any]
commonName = supplied
"""


def ca_of_days(directory: Path, more: str = "") -> None:
    (directory / "index.txt").write_text("")
    (directory / "ca.cnf").write_text(CA_OF_DAYS.format(directory=directory) + more)


def between(directory: Path, from_s: float, to_s: float) -> list[str]:
    """Arguments of `openssl ca`: of a certificate for that time."""
    begin, end = (time.strftime("%Y%m%d%H%M%SZ", time.gmtime(one)) for one in (from_s, to_s))
    return ["-batch", "-notext", "-config", f"{directory}/ca.cnf", "-startdate", begin, "-enddate", end]


def valid_within(authority: Authority, name: str, from_s: float, to_s: float) -> MadePair:
    """That pair with another certificate, for that time."""
    made = authority.pair(name, f"/CN={name}")
    ca_of_days(made.key.parent)
    openssl(
        "ca", "-cert", authority.certificate, "-keyfile", authority.key, "-in", made.key.with_suffix(".csr"),
        "-extfile", made.key.with_suffix(".ext"), *between(made.key.parent, from_s, to_s), "-out", made.certificate,
    )  # fmt: skip
    return made


@pytest.mark.parametrize(
    ("begins_in_s", "ends_in_s", "reason"),
    [
        (-HOUR_S, HOUR_S, ""),
        (HOUR_S, 2 * HOUR_S, "certificate is not yet valid"),
        (-2 * HOUR_S, -HOUR_S, "certificate has expired"),
    ],
)
def test_a_certificate_that_is_not_of_now_lets_nobody_in(
    broker: Trusting, begins_in_s: int, ends_in_s: int, reason: str
) -> None:
    now_s = time.time()
    context = broker.context(valid_within(broker.clients, "ops", now_s + begins_in_s, now_s + ends_in_s))
    assert broker.gets_in(context) is not reason
    if reason:
        assert reason in broker.wait_for_log("tls_failed")


def test_a_broker_whose_certificate_begins_later_is_told_of_at_both_ends(tmp_path: Path) -> None:
    broker = TlsBroker(tmp_path, ENCRYPTED)
    now_s = time.time()
    made = valid_within(broker.authority, "server", now_s + HOUR_S, now_s + 2 * HOUR_S)
    assert made.certificate == broker.directory / "server.pem"
    with broker:
        broker.wait_for_log("certificate_not_valid of=[tls]")
        with pytest.raises(ConnectionLost, match="is not valid yet: look at the clocks of both machines"):
            Client(broker.tls_address, ca_file=broker.ca_file)


CA_EXTENSIONS = "[ca_extensions]\nbasicConstraints = critical,CA:TRUE\nkeyUsage = critical,keyCertSign\n"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_end_of_a_ca_ends_what_was_recognised_by_it_and_its_tickets(
    broker: Trusting, version: ssl.TLSVersion
) -> None:
    authority, directory, end_s = broker.clients, broker.clients.certificate.parent, int(time.time()) + 5
    context = broker.context(authority.pair("ops", "/CN=ops", ""), version)
    ca_of_days(directory, CA_EXTENSIONS)
    openssl("req", "-new", "-key", authority.key, "-subj", "/CN=Trial clients", "-out", directory / "again.csr")
    openssl(
        "ca", "-selfsign", "-keyfile", authority.key, "-in", directory / "again.csr", "-extensions", "ca_extensions",
        *between(directory, end_s - HOUR_S, end_s), "-out", authority.certificate,
    )  # fmt: skip
    broker.trust(authority)
    broker.hang_up("reloaded")
    with broker.resumed(context, None) as there:
        there.connect(login(None, None))
        session = session_of(there)
        assert broker.gets_in(context, session)
        assert "has expired" in there.read("ERROR", timeout_s=15)["message"]
    assert end_s - 1 <= time.time() < end_s + 3
    assert not broker.gets_in(context, session)
    broker.wait_for_log('reason="the client\'s certificate has expired, or its CA"')
    assert not broker.gets_in(context)
    broker.wait_for_log("not accepted: certificate has expired")


# ---- who may reload

AS_NOBODY = """
import os, sys
from radiator.tools.cli import COMMANDS, command_called, login, main
for name in COMMANDS:
    command_called(name)  # whose files nobody may read, perhaps
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
sys.exit(main(["reload", *sys.argv[1:]]))
"""
AS_ROOT = "import sys; from radiator.tools.cli import main; sys.exit(main(['reload', *sys.argv[1:]]))"


def reload(program: str, *arguments: str) -> tuple[int, str]:
    """Its exit status, and what it has printed."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**environment(), "RADIATOR_PASSWORD": "x", "HOME": "/"},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stderr + done.stdout


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be somebody else")
def test_another_user_of_the_system_reloads_only_where_a_login_lets_him() -> None:
    directory = Path(f"/tmp/radiator-reload-{os.getpid()}")
    directory.mkdir(mode=0o755)
    open_to_all = f"stomp+unix:{directory / 's'}"
    text = SERVER.replace('"stomp://127.0.0.1:0"', f'"stomp://127.0.0.1:0", "{open_to_all}?mode=0666"')
    viewer = f'[user."guest"]\npassword = "{hashed("x")}"\nrole = "viewer"\n'
    try:
        with BrokerProcess(directory, text + SHOP + viewer) as broker:
            operators = f"stomp+unix:{broker.unix_path}"
            for words in ([], ["--dry-run"]):
                for address in (open_to_all, operators, broker.address):
                    for user in ([], ["--user", "guest"]):
                        status, printed = reload(AS_NOBODY, "--broker", address, *user, *words)
                        assert status not in (0, 2) and "setting" not in printed, printed
                        if user and address != operators:
                            assert "guest" in printed and "admin" in printed
                status, printed = reload(AS_NOBODY, "--config", str(broker.config_file), *words)
                assert status == 2 and "cannot be read: Permission denied" in printed
            assert " reloaded" not in broker.log
            for address in (open_to_all, broker.address):
                assert reload(AS_NOBODY, "--broker", address, "--user", "shop")[0] == 0
            assert reload(AS_ROOT, "--broker", operators)[0] == 0
            assert broker.log.count(" reloaded") == 3
    finally:
        shutil.rmtree(directory)
