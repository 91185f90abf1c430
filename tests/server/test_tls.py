"""TLS below a connection: the pair of certificate and key, the transport, and a broker whose listener encrypts."""

import re
import socket
import ssl
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gevent
import pytest

from radiator.client import Client
from radiator.model.limits import HANDSHAKES_PER_TURN, WRITE_BYTES
from radiator.model.principal import ANYONE, Principal, RecognisedBy
from radiator.model.settings import OPTIONAL, REQUIRED, TlsSettings
from radiator.model.users import User
from radiator.protocols.peer.session import NEEDS_TLS
from radiator.protocols.prometheus.exposition import exposition
from radiator.server import tls
from radiator.server.certificate import read_certificate
from radiator.server.tls import TlsListeners
from radiator.server.tls_pair import load_pair
from radiator.server.transport import PeerActivity, SocketTransport
from tests.acceptance.wire import Wire
from tests.certificates import LOCALHOST, Authority, MadePair
from tests.ports import free_ports
from tests.server.shell import KeptLog
from tests.server.tls_pipe import Ends, Pipe
from tests.tls_broker import CONFIG, TlsBroker

DAY_S = 86_400


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> MadePair:
    return authority.pair("server")


def settings(pair: MadePair, **others: Any) -> TlsSettings:
    return TlsSettings(certificate=pair.certificate, key=pair.key, **others)


# ---- the transport


Open = Callable[..., Pipe]


@pytest.fixture
def log() -> KeptLog:
    return KeptLog()


@pytest.fixture
def opened(pair: MadePair, authority: Authority, log: KeptLog) -> Iterator[Open]:
    made: list[Pipe] = []

    def open_(
        given: TlsSettings | None = None, users: dict[str, User] | None = None, client: ssl.SSLContext | None = None
    ) -> Pipe:
        listeners = TlsListeners(
            gevent.get_hub().loop, load_pair(given or settings(pair)), list((users or {}).values()), log
        )
        made.append(Pipe(listeners, client or ssl.create_default_context(cafile=authority.certificate)))
        return made[-1]

    yield open_
    for one in made:
        one.close()


def test_what_came_with_the_end_of_the_handshake_is_not_left_behind(opened: Open) -> None:
    """No watcher reports what OpenSSL has decrypted already."""
    pipe = opened()
    while True:
        try:
            pipe.tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            pipe.client_sends()
            gevent.sleep(0)
            assert pipe.receive() == b"-"
            pipe.client_takes()
    pipe.tls.write(b"CONNECT")
    pipe.tls.write(b"\n")
    pipe.client_sends()
    assert pipe.receive() == b"CONNECT\n"
    assert pipe.receive() == b"-"


def test_many_records_in_one_read_come_at_once(opened: Open) -> None:
    pipe = opened()
    pipe.shake()
    for _ in range(40):
        pipe.tls.write(b"x" * 500)
    pipe.client_sends()
    assert pipe.receive() == b"x" * 20_000 and pipe.receive() == b"-"


def test_half_a_record_waits_for_the_rest(opened: Open) -> None:
    pipe = opened()
    pipe.shake()
    pipe.tls.write(b"whole")
    record = pipe.output.read()
    pipe.socket.sendall(record[:10])
    assert pipe.receive() == b"-"
    pipe.socket.sendall(record[10:])
    assert pipe.receive() == b"whole"


def test_the_last_byte_counts_only_when_all_is_with_the_system(opened: Open) -> None:
    pipe = opened()
    pipe.shake()
    data = bytes(range(256)) * 8000
    sent, got = 0, b""
    while sent < len(data):
        try:
            taken = pipe.transport.send(data[sent:])
        except BlockingIOError:
            got += pipe.client_reads()
            continue
        assert taken <= WRITE_BYTES
        if sent + taken == len(data):
            assert not pipe.transport._unsent, "nobody would write it on"
        sent += taken
    assert got + pipe.client_reads() == data


def test_a_frame_that_is_dropped_while_its_byte_is_on_the_way_takes_nothing_from_the_next(opened: Open) -> None:
    """A heart-beat is one byte: where the system is full, none of it counts as taken, and it may be dropped."""
    pipe = opened()
    pipe.shake()
    beats = 0
    while pipe.transport.send(b"\n"):
        beats += 1
    with pytest.raises(BlockingIOError):
        pipe.transport.send(b"\n")
    got = pipe.client_reads()
    assert pipe.transport.send(b"ERROR") == 5
    assert got + pipe.client_reads() == b"\n" * (beats + 1) + b"ERROR"


def test_a_byte_that_was_on_the_way_is_not_sent_twice(opened: Open) -> None:
    pipe = opened()
    pipe.shake()
    beats = 0
    while pipe.transport.send(b"\n"):
        beats += 1
    got = pipe.client_reads()
    assert pipe.transport.send(b"\n") == 1
    assert got + pipe.client_reads() == b"\n" * (beats + 1)


def test_who_says_that_nothing_follows_has_hung_up(opened: Open) -> None:
    """close_notify alone, and close_notify behind bytes that come first; the socket itself stays open."""
    pipe = opened()
    pipe.shake()
    with pytest.raises(ssl.SSLWantReadError):
        pipe.tls.unwrap()
    pipe.client_sends()
    assert pipe.receive() == b""
    pipe = opened()
    pipe.shake()
    pipe.tls.write(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        pipe.tls.unwrap()
    pipe.client_sends()
    assert pipe.receive() == b"last" and pipe.receive() == b""


def test_the_goodbye_is_sent_before_the_end(opened: Open) -> None:
    pipe = opened()
    pipe.shake()
    assert pipe.transport.send(b"bye") == 3
    pipe.transport.finish()
    pipe.client_takes()
    assert pipe.tls.read(100) == b"bye"
    with pytest.raises(ssl.SSLZeroReturnError):
        pipe.tls.read(100)
        raise ssl.SSLZeroReturnError  # a read that returns b"" says the same


def test_who_holds_a_transport_that_is_closed_holds_nothing_of_openssl(opened: Open) -> None:
    """Thousands may come and go within a second."""
    pipe = opened()
    pipe.shake()
    tls = weakref.ref(pipe.transport._tls)
    assert tls() is not None
    pipe.transport.close()
    assert tls() is None
    with pytest.raises(OSError):
        pipe.transport.send(b"x")
    with pytest.raises(OSError):
        pipe.transport.receive(1000)


def test_nothing_is_sent_before_the_handshake_is_over(opened: Open) -> None:
    pipe = opened()
    assert not pipe.transport.says_first
    with pytest.raises(ConnectionAbortedError):
        pipe.transport.send(b"ERROR")
    pipe.shake()
    assert pipe.transport.says_first


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (
            b"CONNECT\naccept-version:1.2\n\n\0",
            "the client does not speak TLS: it needs stomps://, amqps:// or https://, or another port",
        ),
        (b"\x16\x03\x01\x00\x05hello", "unexpected message|length mismatch|bad"),
        (b"\x16" + bytes(64), "wrong version number"),
    ],
)
def test_what_is_no_tls_is_one_line_with_the_reason(opened: Open, log: KeptLog, data: bytes, reason: str) -> None:
    pipe = opened()
    pipe.socket.sendall(data)
    with pytest.raises(ConnectionAbortedError):
        pipe.transport.receive(65_536)
    ((level, event, fields),) = log.lines
    assert (level, event, fields["peer"]) == ("warning", "tls_failed", "peer")
    assert re.search(reason, fields["reason"]), fields


def test_so_many_steps_of_handshakes_are_made_in_one_turn(opened: Open, pair: MadePair, authority: Authority) -> None:
    first = opened()
    listeners = first.transport._listeners
    client = ssl.create_default_context(cafile=authority.certificate)
    others = [Pipe(listeners, client) for _ in range(HANDSHAKES_PER_TURN)]
    pipes = [first, *others]
    for pipe in pipes:
        with pytest.raises(ssl.SSLWantReadError):
            pipe.tls.do_handshake()
        pipe.client_sends()
    gevent.sleep(0.001)
    for pipe in pipes:
        assert pipe.receive() == b"-"
    answered = []
    for pipe in pipes:
        pipe.client_takes()
        answered.append(pipe.input.pending > 0)
    assert answered == [True] * HANDSHAKES_PER_TURN + [False]
    gevent.sleep(0.001)  # the next turn
    assert pipes[-1].receive() == b"-"
    pipes[-1].client_takes()
    assert pipes[-1].input.pending > 0
    for pipe in others:
        pipe.close()


def test_nodes_share_the_steps_of_handshakes_with_clients(opened: Open, authority: Authority) -> None:
    """The port for nodes is no way round the bound."""
    first = opened()
    client = ssl.create_default_context(cafile=authority.certificate)
    nodes = [Pipe(first.transport._listeners, client, is_link=True) for _ in range(HANDSHAKES_PER_TURN)]
    for pipe in (*nodes, first):
        with pytest.raises(ssl.SSLWantReadError):
            pipe.tls.do_handshake()
        pipe.client_sends()
    gevent.sleep(0.001)
    for pipe in (*nodes, first):
        assert pipe.receive() == b"-"
        pipe.client_takes()
    assert [pipe.input.pending > 0 for pipe in (*nodes, first)] == [True] * HANDSHAKES_PER_TURN + [False]
    for pipe in nodes:
        pipe.close()


# ---- between nodes


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_both_ends_of_a_link_know_the_certificate_that_was_shown(
    pair: MadePair, authority: Authority, log: KeptLog, host: str
) -> None:
    ends = Ends(settings(pair, peer_ca=authority.certificate), log, host)
    before = ends.listeners.pair
    assert ends.dialler.certificate_sha256 == b"" and not ends.dialler.says_first
    assert ends.dialler.tls is ends.acceptor.tls is None
    ends.listeners.use(load_pair(settings(authority.pair("renewed"))))
    ends.shake()
    shown = bytes.fromhex(before.certificate.sha256)
    assert ends.dialler.certificate_sha256 == ends.acceptor.certificate_sha256 == shown
    assert ends.dialler.tls == ends.acceptor.tls == "TLSv1.3"
    assert ends.listeners.pair.certificate.sha256 != before.certificate.sha256
    assert ends.dialler.send(b"radiator-link/3\n") == 16 and ends.acceptor.receive(100) == b"radiator-link/3\n"
    assert ends.dialler._tls.selected_alpn_protocol() == "radiator-link"


@pytest.mark.parametrize("host", ["other.example", "127.0.0.2", "::1", "fe80::1%eth0"])
def test_a_name_that_the_certificate_has_not_ends_the_handshake(
    pair: MadePair, authority: Authority, log: KeptLog, host: str
) -> None:
    ends = Ends(settings(pair, peer_ca=authority.certificate), log, host)
    with pytest.raises(ConnectionAbortedError, match="the certificate is not accepted: .* mismatch"):
        ends.shake()
    with pytest.raises(ConnectionAbortedError, match="alert"):
        ends.acceptor.receive(65_536)
    assert not ends.acceptor.says_first and log.lines == [], "who has dialled, or accepted, says it"


def test_without_a_ca_of_nodes_nobody_is_dialled(pair: MadePair, authority: Authority, log: KeptLog) -> None:
    ends = Ends(settings(pair, peer_ca=authority.certificate), log)
    ends.listeners.use(load_pair(settings(pair)))
    with pytest.raises(OSError, match="has no peer_ca any more"):
        ends.listeners.wrap_dialled(ends.below, "localhost")


def test_a_node_that_speaks_no_tls_is_told_so_without(pair: MadePair, authority: Authority, log: KeptLog) -> None:
    ends = Ends(settings(pair, peer_ca=authority.certificate), log)
    one, other = socket.socketpair()
    with other:
        one.setblocking(False)
        accepted = ends.listeners.wrap_link(SocketTransport(one, "a", "", lambda _: PeerActivity()))
        other.sendall(b"radiator-link/2 radiator/0.1.0\n")
        gevent.sleep(0)
        with pytest.raises(ConnectionAbortedError, match="it must have peers:// in this node's address"):
            accepted.receive(65_536)
        assert other.recv(1000) == NEEDS_TLS
        accepted.close()
    assert log.lines == []


@pytest.mark.parametrize(("certificate", "name"), [("CN=ops,O=Shop", "operations"), ("Till.example", "operations")])
def test_a_clients_certificate_says_who_it_is(
    opened: Open, authority: Authority, pair: MadePair, certificate: str, name: str
) -> None:
    own = authority.pair("client", "/O=Shop/CN=ops", "DNS:till.example")
    client = ssl.create_default_context(cafile=authority.certificate)
    client.load_cert_chain(own.certificate, own.key)
    given = settings(pair, client_ca=authority.certificate, client_certificates=OPTIONAL)
    pipe = opened(given, {name: User(name=name, certificate=certificate)}, client)
    assert pipe.transport.principal == ANYONE
    pipe.shake()
    until_ms = int(read_certificate(own.certificate.read_text()).valid_to_s) * 1000
    assert pipe.transport.principal == Principal(name, RecognisedBy.CERTIFICATE, until_ms=until_ms)
    stranger = opened(given, {"other": User(name="other", certificate="CN=other")}, client)
    stranger.shake()
    assert stranger.transport.principal == ANYONE
    # a reload may give the certificate to somebody else before the client has said CONNECT
    pipe.transport._listeners.users = [User(name="heir", certificate=certificate)]
    assert pipe.transport.principal == Principal("heir", RecognisedBy.CERTIFICATE, until_ms=until_ms)
    pipe.transport._listeners.users = []
    assert pipe.transport.principal == ANYONE


def test_a_ticket_of_a_certificate_that_is_over_lets_nobody_in(
    opened: Open, authority: Authority, pair: MadePair, log: KeptLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resumed handshake verifies no certificate."""
    own = authority.pair("client", "/O=Shop/CN=ops")
    client = ssl.create_default_context(cafile=authority.certificate)
    client.load_cert_chain(own.certificate, own.key)
    given = settings(pair, client_ca=authority.certificate, client_certificates=REQUIRED)
    first = opened(given, {"ops": User(name="ops", certificate="CN=ops,O=Shop")}, client)
    first.shake()
    first.transport.send(b"hello")
    assert first.client_reads() == b"hello"

    def resumed() -> Pipe:
        pipe = Pipe(first.transport._listeners, client)
        session = first.tls.session
        pipe.tls = client.wrap_bio(pipe.input, pipe.output, server_hostname="localhost", session=session)
        return pipe

    again = resumed()
    again.shake()
    assert again.tls.session_reused and again.transport.principal.name == "ops"
    end_s = read_certificate(own.certificate.read_text()).valid_to_s
    monkeypatch.setattr(tls, "time", SimpleNamespace(time=lambda: end_s, monotonic=time.monotonic))
    late = resumed()
    with pytest.raises(ConnectionAbortedError):
        late.shake()
    assert log.lines[-1][2]["reason"] == "the client's certificate has expired, or its CA"
    for one in (again, late):
        one.close()


@pytest.mark.parametrize(
    "extension",
    ("DER:30:04:82:02:ff:fe", "DNS:a.example\ncrlDistributionPoints=DER:30:0b:30:09:a0:07:a0:05:86:03:ff:fe:fd"),
)
def test_a_certificate_with_names_that_are_no_text_costs_its_own_connection(
    opened: Open, authority: Authority, pair: MadePair, extension: str
) -> None:
    own = authority.pair("odd", "/CN=odd", extension)
    client = ssl.create_default_context(cafile=authority.certificate)
    client.load_cert_chain(own.certificate, own.key)
    pipe = opened(settings(pair, client_ca=authority.certificate, client_certificates=OPTIONAL), {}, client)
    with pytest.raises(ConnectionAbortedError, match="certificate has a name that is not text"):
        pipe.shake()
    assert not pipe.transport.says_first and pipe.transport.principal == ANYONE


# ---- the end of a certificate


@pytest.mark.parametrize(
    ("left_s", "events"),
    [
        (30 * DAY_S, []),
        (30 * DAY_S - 1, ["certificate_ends"]),
        (1, ["certificate_ends"]),
        (0, ["certificate_not_valid"]),
    ],
)
def test_from_30_days_before_its_end_on_the_log_warns(
    pair: MadePair, log: KeptLog, left_s: int, events: list[str]
) -> None:
    listeners = TlsListeners(gevent.get_hub().loop, load_pair(settings(pair)), [], log)
    assert log.events == []
    listeners.look(listeners.pair.certificate.valid_to_s - left_s)
    assert log.events == events


def test_each_certificate_is_looked_at(authority: Authority, pair: MadePair, log: KeptLog) -> None:
    own = {"stomps://a:1": load_pair(settings(authority.pair("own", days=20)))}
    listeners = TlsListeners(gevent.get_hub().loop, load_pair(settings(pair)), [], log, own)
    assert log.events == ["certificate_ends"]
    left_s = listeners.left_s()
    assert 19 * DAY_S < left_s["stomps://a:1"] <= 20 * DAY_S and 89 * DAY_S < left_s[""] <= 90 * DAY_S
    listeners.use(listeners.pair)
    assert [*listeners.left_s()] == [""] and log.events == ["certificate_ends"]


def test_one_that_is_not_valid_yet_is_a_warning(pair: MadePair, log: KeptLog) -> None:
    listeners = TlsListeners(gevent.get_hub().loop, load_pair(settings(pair)), [], log)
    listeners.look(listeners.pair.certificate.valid_from_s - 1)
    assert log.events == ["certificate_not_valid"]


# ---- a broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TlsBroker]:
    with TlsBroker(tmp_path) as running:
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log


def test_a_plain_client_at_this_port_and_one_with_tls_at_the_other_are_told_apart(broker: TlsBroker) -> None:
    with Wire((broker.host, broker.tls_port)) as plain:
        plain.send_raw(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
        assert plain.is_closed()
    with socket.create_connection((broker.host, broker.tls_port)) as browser:
        browser.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert browser.recv(4096).startswith(b"HTTP/1.1 400 ")
    broker.wait_for_log(
        'reason="the client does not speak TLS: it needs stomps://, amqps:// or https://, or another port"'
    )
    with (
        pytest.raises(ssl.SSLError),
        socket.create_connection((broker.host, broker.port)) as caller,
    ):
        ssl.create_default_context().wrap_socket(caller, server_hostname="localhost")
    broker.wait_for_log('reason="the client speaks TLS at a listener without it: it needs stomp:// or amqp://')


def test_a_client_that_does_not_trust_the_certificate_is_a_line(broker: TlsBroker) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        broker.wire(ssl.create_default_context())
    broker.wait_for_log('reason="tlsv1 alert unknown ca"')


@pytest.mark.parametrize("data", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"])
def test_a_handshake_that_does_not_end_is_bounded_in_time(broker: TlsBroker, data: bytes) -> None:
    with Wire((broker.host, broker.tls_port)) as silent:
        silent.send_raw(data)
        began_s = time.monotonic()
        assert silent.is_closed(5)
        assert 0.9 <= time.monotonic() - began_s < 3


def test_who_has_no_place_hears_it_through_tls(broker: TlsBroker) -> None:
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(broker.connected())
        with broker.wire() as fourth:
            fourth.send_frame("CONNECT", {"accept-version": "1.2", "host": "x"})
            assert fourth.refusal()["code"] == "connections"


def test_a_reload_swaps_the_pair_and_the_connections_there_are_stay(broker: TlsBroker) -> None:
    with broker.connected() as before:
        old = before.socket.getpeercert(True)  # type: ignore[attr-defined]
        broker.replaced(broker.authority.pair("new"))
        line = broker.hang_up("reloaded")
        assert "reloaded changed=1 wait_for_restart=0" in line
        broker.wait_for_log("setting_changed setting=tls.certificate")
        before.send("/queue/q", "still here")
        with broker.connected() as after:
            assert after.socket.getpeercert(True) != old  # type: ignore[attr-defined]


def test_stats_and_metrics_say_how_long_it_is_valid(broker: TlsBroker) -> None:
    with Client(broker.address) as client:
        answer = client.admin({"do": "stats"})
        assert 89 * DAY_S < answer["certificate_left_s"] <= 90 * DAY_S
        assert f"radiator_certificate_left_seconds {answer['certificate_left_s']}\n" in exposition(answer)
        broker.replaced(broker.authority.pair("new", days=10))
        broker.hang_up("reloaded")
        answers = (client.admin({"do": "stats"})["certificate_left_s"] for _ in range(10_000))
        assert next(left_s for left_s in answers if left_s <= 10 * DAY_S) > 9 * DAY_S


OWN = """
[tls."stomps://127.0.0.1:{port}"]
certificate = "own.pem"
key = "own.key"
"""


def two_listeners(text: str, port: int) -> str:
    return text.replace('"stomps://127.0.0.1:0"', f'"stomps://127.0.0.1:0", "stomps://127.0.0.1:{port}"')


def shown_at(broker: TlsBroker, port: int, client: ssl.SSLContext | None = None) -> bytes:
    """The certificate of the listener there, verified."""
    context = client or ssl.create_default_context(cafile=broker.authority.certificate)
    with (
        socket.create_connection(("127.0.0.1", port), 5) as one,
        context.wrap_socket(one, server_hostname="localhost") as tls,
    ):
        tls.recv(0)
        return tls.getpeercert(True) or b""


def test_a_listener_has_a_pair_of_its_own_and_a_reload_swaps_each(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    broker = TlsBroker(tmp_path, two_listeners(CONFIG, port) + OWN.format(port=port))
    broker.authority.pair("own", days=20)
    with broker, Client(broker.address) as client:
        broker.wait_for_log(f"certificate_ends of=stomps://127.0.0.1:{port} days=19")
        ours, own = shown_at(broker, broker_port(broker, port)), shown_at(broker, port)
        assert ours != own
        answer = client.admin({"do": "stats"})
        assert answer["certificates_left_s"].keys() == {f"stomps://127.0.0.1:{port}"}
        assert answer["certificates_left_s"][f"stomps://127.0.0.1:{port}"] == answer["certificate_left_s"] < 20 * DAY_S
        metric = f'radiator_listener_certificate_left_seconds{{listener="stomps://127.0.0.1:{port}"}}'
        assert f"{metric} {answer['certificate_left_s']}\n" in exposition(answer)
        # one of the two is wrong: neither changes
        broker.replaced(broker.authority.pair("new"))
        made = broker.authority.pair("other")
        made.certificate.rename(tmp_path / "own.pem")
        line = broker.hang_up("reload_refused")
        assert f"For stomps://127.0.0.1:{port}, tls.key is" in line and "does not belong to the certificate" in line
        assert (shown_at(broker, broker_port(broker, port)), shown_at(broker, port)) == (ours, own)
        made.key.rename(tmp_path / "own.key")
        broker.hang_up("reloaded")
        assert shown_at(broker, broker_port(broker, port)) != ours and shown_at(broker, port) != own
        assert "setting_changed setting=tls.certificate" in broker.log
        assert re.search(rf"setting=.*tls.*127.0.0.1:{port}.*certificate", broker.log)


def broker_port(broker: TlsBroker, other: int) -> int:
    """Of the listener without a pair of its own."""
    found = [int(one) for one in re.findall(r"listening address=stomps://127.0.0.1:(\d+)", broker.log)]
    return next(one for one in found if one != other)


def test_a_listener_asks_for_certificates_of_clients_that_the_other_does_not(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    own = f'[tls."stomps://127.0.0.1:{port}"]\nclient_ca = "ca.pem"\nclient_certificates = "required"\n'
    with TlsBroker(tmp_path, two_listeners(CONFIG, port) + own) as broker:
        shown_at(broker, broker_port(broker, port))
        context = ssl.create_default_context(cafile=broker.authority.certificate)
        with (
            socket.create_connection(("127.0.0.1", port), 5) as one,
            pytest.raises((ssl.SSLError, ConnectionResetError)),
        ):
            context.wrap_socket(one, server_hostname="localhost").recv(1)
        mine = broker.authority.pair("me", "/CN=me", "")
        context = ssl.create_default_context(cafile=broker.authority.certificate)
        context.load_cert_chain(mine.certificate, mine.key)
        assert shown_at(broker, port, context)


def test_a_reload_of_a_wrong_pair_leaves_the_old_one_in_force(broker: TlsBroker) -> None:
    with broker.connected() as one:
        old = one.socket.getpeercert(True)  # type: ignore[attr-defined]
    made = broker.authority.pair("new")
    made.certificate.rename(broker.directory / "server.pem")
    assert "does not belong to the certificate" in broker.hang_up("reload_refused")
    with broker.connected() as one:
        assert one.socket.getpeercert(True) == old  # type: ignore[attr-defined]
    made.key.rename(broker.directory / "server.key")
    broker.hang_up("reloaded")
    with broker.connected() as one:
        assert one.socket.getpeercert(True) != old  # type: ignore[attr-defined]


def test_a_wrong_pair_stops_the_start_before_anything_listens(tmp_path: Path) -> None:
    with ExitStack() as stack:
        broker = TlsBroker(tmp_path)
        stack.callback(broker.kill)
        (tmp_path / "server.key").chmod(0o644)
        assert broker.start_and_fail() == 2
        assert "of mode 0644, so others may read or change it" in broker.log and "listening" not in broker.log
        assert not broker.data_dir.exists()


def test_a_certificate_that_is_over_is_served_with_a_warning(tmp_path: Path) -> None:
    broker = TlsBroker(tmp_path)
    broker.replaced(broker.authority.pair("over", days=-1))
    with broker:
        broker.wait_for_log("certificate_not_valid")
        with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
            broker.wire()


def is_turned_away(wire: Wire) -> bool:
    """TLS 1.3: the client hears it only behind its own end of the handshake."""
    try:
        return wire.is_closed()
    except ssl.SSLError:
        return True


MUTUAL = '[tls]\nclient_ca = "ca.pem"\nclient_certificates = "{}"\n'


@pytest.mark.parametrize("wanted", ["optional", "required"])
def test_clients_show_certificates_of_the_ca_that_is_named(tmp_path: Path, wanted: str) -> None:
    broker = TlsBroker(tmp_path, CONFIG.replace("[tls]\n", MUTUAL.format(wanted)))
    stranger = Authority(tmp_path / "stranger")
    with broker:
        for authority, is_known in ((broker.authority, True), (stranger, False)):
            own = authority.pair("client", "/CN=client", "")
            context = ssl.create_default_context(cafile=broker.authority.certificate)
            context.load_cert_chain(own.certificate, own.key)
            with broker.wire(context) as wire:
                if is_known:
                    wire.connect()
                else:
                    assert is_turned_away(wire)
        broker.wait_for_log("tls_failed")
        with broker.wire() as wire:
            if wanted == "optional":
                wire.connect()
            else:
                assert is_turned_away(wire)
                broker.wait_for_log('reason="peer did not return a certificate"')


def test_a_clients_certificate_is_not_known_by_its_issuer_and_serial(tmp_path: Path) -> None:
    """Whoever makes a CA chooses its name and its numbers."""
    broker = TlsBroker(tmp_path, CONFIG.replace("[tls]\n", MUTUAL.format("required")))
    stranger = Authority(tmp_path / "stranger")
    with broker:
        for authority, is_right in ((broker.authority, True), (stranger, False), (broker.authority, True)):
            own = authority.pair("client", "/CN=client", "", serial=4711)
            context = ssl.create_default_context(cafile=broker.authority.certificate)
            context.load_cert_chain(own.certificate, own.key)
            with broker.wire(context) as wire:
                if is_right:
                    wire.connect()
                else:
                    assert is_turned_away(wire)
        broker.wait_for_log("tls_failed")


def test_of_one_issuer_and_serial_each_certificate_is_its_own_subjects(
    opened: Open, authority: Authority, pair: MadePair
) -> None:
    users = {name: User(name=name, certificate=f"CN={name}") for name in ("ann", "bob")}
    for name in ("ann", "bob", "eve"):
        own = authority.pair("client", f"/CN={name}", "", serial=4711)
        client = ssl.create_default_context(cafile=authority.certificate)
        client.load_cert_chain(own.certificate, own.key)
        pipe = opened(settings(pair, client_ca=authority.certificate, client_certificates=OPTIONAL), users, client)
        pipe.shake()
        assert pipe.transport.principal.name == (name if name in users else ANYONE.name)


def test_a_certificate_for_servers_is_none_of_a_client(tmp_path: Path) -> None:
    broker = TlsBroker(tmp_path, CONFIG.replace("[tls]\n", MUTUAL.format("required")))
    with broker:
        own = broker.authority.pair("client", "/CN=client", LOCALHOST + "\nextendedKeyUsage=serverAuth")
        context = ssl.create_default_context(cafile=broker.authority.certificate)
        context.load_cert_chain(own.certificate, own.key)
        with broker.wire(context) as wire:
            assert is_turned_away(wire)
        broker.wait_for_log("tls_failed")
