"""Links over TLS: real nodes, who stands between them, and what each end says where it comes to nothing."""

import contextlib
import hashlib
import select
import shutil
import signal
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from radiator.model.limits import Limits
from radiator.model.settings import Node
from radiator.protocols.peer.session import PeerSession
from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess
from tests.certificates import Authority, MadePair
from tests.server.test_links import HEART_BEAT_MS, SECRET, Place, eventually, lines_of, why

pytestmark = pytest.mark.slow

TLS = '[tls]\ncertificate = "../server.pem"\nkey = "../server.key"\npeer_ca = "../ca.pem"\n'
SHARED = '[queue."work"]\nscope = "cluster"\n[topic."news.#"]\nscope = "cluster"\n'


class TlsPlace(Place):
    """All nodes show one pair, whose CA they all trust."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, "peers", TLS)
        self.authority = Authority(directory)
        self.authority.pair("server")

    def replace(self, made: MadePair) -> None:
        made.key.rename(self.directory / "server.key")
        made.certificate.rename(self.directory / "server.pem")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[TlsPlace]:
    place = TlsPlace(tmp_path)
    yield place
    for broker in place.nodes.values():
        broker.kill()
        assert "Traceback" not in broker.log, broker.log
        assert SECRET.decode() not in broker.log


class Between:
    """Somebody on the way, with a certificate of his own, who passes on what each end says to the other."""

    def __init__(self, port: int, shown: MadePair) -> None:
        self._target = port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(shown.certificate, shown.key)
        self._trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._trusting.check_hostname = False
        self._trusting.verify_mode = ssl.CERT_NONE
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.passed_on = b""  # to the node that was dialled
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                plain, _ = self._server.accept()
                with contextlib.suppress(OSError):
                    dialler = self._context.wrap_socket(plain, server_side=True)
                    acceptor = self._trusting.wrap_socket(socket.create_connection(("127.0.0.1", self._target)))
                    threading.Thread(target=self._pass_on, args=(dialler, acceptor), daemon=True).start()

    def _pass_on(self, dialler: ssl.SSLSocket, acceptor: ssl.SSLSocket) -> None:
        """By one thread: OpenSSL lets no two use one connection, not even one to read and one to write."""
        others = {dialler: acceptor, acceptor: dialler}
        with contextlib.suppress(OSError):
            while True:
                for source in [one for one in others if one.pending()] or select.select([*others], [], [])[0]:
                    source.settimeout(0)
                    try:
                        data = source.recv(65_536)
                    except ssl.SSLWantReadError:
                        continue
                    if not data:
                        raise ConnectionResetError
                    if source is dialler:
                        self.passed_on += data
                    others[source].settimeout(10)
                    others[source].sendall(data)
        for one in others:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._server.close()


@contextmanager
def between(port: int, shown: MadePair) -> Iterator[Between]:
    one = Between(port, shown)
    try:
        yield one
    finally:
        one.close()


def reloaded(broker: BrokerProcess) -> None:
    since = len(broker.log.splitlines())
    assert broker.process is not None
    broker.process.send_signal(signal.SIGHUP)
    broker.wait_for_log(" reloaded", since=since)


def caller(place: TlsPlace, port: int) -> ssl.SSLSocket:
    """A connection to a node, after the handshake of TLS."""
    context = ssl.create_default_context(cafile=place.authority.certificate)
    plain = socket.create_connection(("127.0.0.1", port), 5)
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


def publish(node: BrokerProcess, over: threading.Event) -> None:
    """Ten times a second."""
    with Wire((node.host, node.port)) as wire:
        wire.connect()
        while not over.wait(0.1):
            wire.send("/topic/news.eu", b"news")


# ---- links that come up


def test_messages_cross_a_link_that_nobody_can_read(place: TlsPlace) -> None:
    b = place.node("b", {"a": None}, tables=SHARED).start()
    with between(place.port("b"), MadePair(place.directory / "server.pem", place.directory / "server.key")) as tap:
        a = place.node("a", {"b": tap.port}, listens=False, tables=SHARED).start()
        a.wait_for_log(" linked ")
        b.wait_for_log(" linked ")
        with Wire((a.host, a.port)) as sender, Wire((b.host, b.port)) as receiver:
            sender.connect()
            receiver.connect()
            receiver.subscribe("/queue/work", ack="auto", id="w")
            sender.send("/queue/work", b"a job " * 40_000)
            assert receiver.message().body == b"a job " * 40_000
            receiver.subscribe("/topic/news.eu", id="n")
            over = threading.Event()  # it is lost until a has heard that somebody wants it
            threading.Thread(target=publish, args=(a, over), daemon=True).start()
            assert receiver.message().body == b"news"
            over.set()
        assert tap.passed_on.startswith(b"radiator-link/3 "), "who has its key and pair reads along: the control"
    assert not lines_of(a, "tls_failed") and not lines_of(b, "tls_failed")
    assert not lines_of(a, "links_not_encrypted")


def test_of_two_that_dial_each_other_over_tls_one_link_stays(place: TlsPlace) -> None:
    a = place.node("a", {"b": place.port("b")}).start()
    b = place.node("b", {"a": place.port("a")}).start()
    for broker in (a, b):
        broker.wait_for_log(" linked ")
    time.sleep(HEART_BEAT_MS / 1000 * 3)
    for broker in (a, b):
        assert len(lines_of(broker, "linked")) - len(lines_of(broker, "unlinked")) == 1


def test_nodes_that_are_learned_are_dialled_over_tls(place: TlsPlace) -> None:
    lines = "discover = true"
    a = place.node("a", {"b": place.port("b")}, lines=lines).start()
    c = place.node("c", {"b": place.port("b")}, lines=lines).start()
    place.node("b", {"a": None, "c": None}, lines=lines).start()
    eventually(lambda: any(" node=c " in line for line in lines_of(a, "linked")), 10)
    eventually(lambda: any(" node=a " in line for line in lines_of(c, "linked")), 10)


def test_the_proof_is_of_the_certificate_that_the_connection_has_begun_with(place: TlsPlace) -> None:
    """A reload stands between the handshake of TLS and the proof."""
    b = place.node("b", {"a": None}).start()
    b.wait_for_log("address=peers://")
    with caller(place, place.port("b")) as early:
        place.replace(place.authority.pair("next"))
        reloaded(b)
        with caller(place, place.port("b")) as late:
            before, after = shown(early), shown(late)
        assert before != after and is_taken(early, before)
    for certificate_sha256, is_right in ((before, False), (after, True)):
        with caller(place, place.port("b")) as one:
            assert is_taken(one, certificate_sha256) is is_right


def shown(one: ssl.SSLSocket) -> bytes:
    """SHA-256 of the certificate that the other end has shown."""
    return hashlib.sha256(one.getpeercert(binary_form=True) or b"").digest()


def is_taken(one: ssl.SSLSocket, certificate_sha256: bytes) -> bool:
    """Whether the other end takes a node whose proof is of that certificate, and proves the same."""
    node = Node(name="a", secret=SECRET, heart_beat_ms=HEART_BEAT_MS)
    session = PeerSession(1, Limits(), node, "fake1", bytes(range(32)), "b", lambda name: True, certificate_sha256)
    one.sendall(session.take_outgoing())
    while not session.is_open and not session.is_closing:
        data = one.recv(65_536)
        if not data:
            break
        session.receive(data)
        if outgoing := session.take_outgoing():
            one.sendall(outgoing)
    return session.is_open


# ---- who stands between


def test_who_stands_between_with_another_certificate_of_the_same_ca_gets_no_link(place: TlsPlace) -> None:
    b = place.node("b", {"a": None}).start()
    b.wait_for_log("address=peers://")
    with between(place.port("b"), place.authority.pair("mallory", "/CN=mallory")) as mallory:
        a = place.node("a", {"b": mallory.port}, listens=False).start()
        assert "wrong-secret" in a.wait_for_log("link_refused")
        sentence = "or somebody between the two nodes has shown it another certificate."
        assert sentence in b.wait_for_log("link_refused")
        eventually(lambda: why(a, "b")[0] == "refused" and sentence in why(a, "b")[1])
        assert mallory.passed_on, "both handshakes of TLS came to their end, and the proof was passed on"
    assert not lines_of(a, "linked") and not lines_of(b, "linked")


def test_plain_version_of_the_link_is_refused_over_tls(place: TlsPlace) -> None:
    """Its proof is not of the certificate."""
    b = place.node("b", {"a": None}).start()
    b.wait_for_log("address=peers://")
    with caller(place, place.port("b")) as one:
        assert not is_taken(one, b"")
    assert "and this node 'radiator-link/3': over TLS no other version is taken." in b.wait_for_log("link_refused")


# ---- certificates that are not accepted


@pytest.mark.parametrize("what", ["another CA", "another name", "expired"])
def test_certificate_that_does_not_verify_ends_in_a_line_at_each_end(
    place: TlsPlace, what: str, tmp_path: Path
) -> None:
    names = "DNS:other.example,IP:127.0.0.2" if what == "another name" else "DNS:localhost,IP:127.0.0.1"
    authority = Authority(tmp_path / "other") if what == "another CA" else place.authority
    made = authority.pair("wrong", names=names, days=-1 if what == "expired" else 90)
    b = place.node("b", {"a": None})
    b.config_file.write_text(b.config_file.read_text().replace("../server.", f"{made.key.with_suffix('')}."))
    b.start()
    a = place.node("a", {"b": place.port("b")}, listens=False).start()
    reason = {
        "another CA": "unable to get local issuer certificate",
        "another name": "IP address mismatch, certificate is not valid for '127.0.0.1'.",
        "expired": "certificate has expired",
    }[what]
    cause = f"cannot be dialled: TLS: the certificate is not accepted: {reason}"
    a.wait_for_log("link_refused node=b")
    eventually(lambda: why(a, "b") == ("down", cause))
    assert "alert" in b.wait_for_log("link_refused peer=")
    time.sleep(1.0)
    assert len(lines_of(a, "link_refused")) == len(lines_of(b, "link_refused")) == 1, "told once, not once a try"
    assert not lines_of(b, "tls_failed")


def test_name_is_that_of_the_address_which_was_dialled(place: TlsPlace) -> None:
    place.replace(place.authority.pair("named", names="DNS:localhost"))
    place.node("b", {"a": None}).start()
    a = place.node("a", {"b": place.port("b")}, listens=False, host="localhost").start()
    a.wait_for_log(" linked ")
    a.stop()
    a = place.node("a", {"b": place.port("b")}, listens=False).start()
    assert "IP address mismatch" in a.wait_for_log("link_refused")


def test_renewed_ca_counts_after_a_reload(place: TlsPlace, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    shutil.move(other.pair("server").certificate, place.directory / "server.pem")
    shutil.move(tmp_path / "other" / "server.key", place.directory / "server.key")
    place.node("b", {"a": None}).start()
    a = place.node("a", {"b": place.port("b")}, listens=False).start()
    assert "unable to get local issuer certificate" in a.wait_for_log("the certificate is not accepted", 20)
    shutil.copy(other.certificate, place.directory / "ca.pem")
    reloaded(a)
    a.wait_for_log(" linked ", 25)


def test_swapped_ca_leaves_the_link_that_is_there_and_counts_for_the_next(place: TlsPlace, tmp_path: Path) -> None:
    a, b = place.pair()
    for one in (a, b):
        one.wait_for_log(" linked ")
    other = Authority(tmp_path / "other")
    shutil.copy(other.certificate, place.directory / "ca.pem")
    reloaded(a)
    assert "setting=tls.peer_ca" in "".join(lines_of(a, "setting_changed"))
    time.sleep(3 * HEART_BEAT_MS / 1000)
    assert why(a, "b")[0] == "up" and not lines_of(a, "link_lost")
    b.stop()
    b.start()
    assert "unable to get local issuer certificate" in a.wait_for_log("the certificate is not accepted", 20)
    place.replace(other.pair("server"))
    reloaded(b)
    begun = len(a.log.splitlines())
    a.wait_for_log(" linked ", 25, since=begun)


# ---- TLS at one end only


def test_plain_node_that_dials_a_listener_over_tls_is_told(place: TlsPlace) -> None:
    b = place.node("b", {"a": None}).start()
    a = place.node("a", {"b": place.port("b")}, listens=False, scheme="peer").start()
    cause = "b refused: link-version: This node listens for others over TLS: its address is peers://HOST:PORT."
    a.wait_for_log("link_refused node=b")
    eventually(lambda: why(a, "b") == ("refused", cause))
    assert "TLS: the other side does not speak TLS: it must have peers://" in b.wait_for_log("link_refused peer=")
    time.sleep(1.0)
    for broker in (a, b):
        assert len(lines_of(broker, "link_refused")) == 1 and not lines_of(broker, "tls_failed")


def test_node_that_dials_a_plain_listener_over_tls_is_told(place: TlsPlace) -> None:
    b = place.node("b", {"a": None}, scheme="peer").start()
    a = place.node("a", {"b": place.port("b")}, listens=False).start()
    a.wait_for_log("link_refused node=b")
    cause = "cannot be dialled: TLS: the other side does not speak TLS: is peer:// its address?"
    eventually(lambda: why(a, "b") == ("down", cause))
    assert "The other side speaks TLS, and this listener does not" in b.wait_for_log("link_refused peer=")
    time.sleep(1.0)
    for broker in (a, b):
        assert len(lines_of(broker, "link_refused")) == 1 and not lines_of(broker, "tls_failed")


def test_plain_addresses_beyond_loopback_are_warned_of(place: TlsPlace) -> None:
    place.node("a", {"b": 1, "c": None}, scheme="peer", host="192.0.2.1").start()
    line = place.nodes["a"].wait_for_log("links_not_encrypted")
    assert "peer://192.0.2.1:1. Write peers://." in line
    b = place.node("b", {"a": 1}, scheme="peer").start()
    b.wait_for_log("listening")
    assert not lines_of(b, "links_not_encrypted")


# ---- bounds


def test_handshake_that_does_not_end_is_ended_at_both_sides(place: TlsPlace) -> None:
    tables = "[limits]\nconnect_timeout_s = 0.5\n"
    b = place.node("b", {"a": None}, tables=tables).start()
    b.wait_for_log("address=peers://")
    with socket.create_connection(("127.0.0.1", place.port("b")), 5) as silent:
        silent.sendall(b"\x16")
        assert silent.recv(1) == b""
    assert "did not prove in time who it is" in b.wait_for_log("link_refused")
    with socket.create_server(("127.0.0.1", place.port("c"))):
        a = place.node("a", {"c": place.port("c")}, listens=False, tables=tables).start()
        assert "cannot be dialled: it does not answer" in a.wait_for_log("link_refused node=c")
        began_s = time.monotonic()
        assert a.stop() == 0
        assert time.monotonic() - began_s < 2


def test_who_hangs_up_in_the_handshake_is_told_of(place: TlsPlace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        a = place.node("a", {"b": server.getsockname()[1]}, listens=False).start()
        with server.accept()[0] as one:
            one.recv(65_536)  # else the system would reset the connection
        assert "TLS: it hung up" in a.wait_for_log("link_refused node=b")


def test_who_answers_in_tls_and_speaks_first_is_no_node(place: TlsPlace) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # in which this side has the last word of the handshake
    context.load_cert_chain(place.directory / "server.pem", place.directory / "server.key")
    heard, answer = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(heard, answer, server_side=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        a = place.node("a", {"b": server.getsockname()[1]}, listens=False).start()
        with server.accept()[0] as one:
            for _ in range(2):
                heard.write(one.recv(65_536))
                with contextlib.suppress(ssl.SSLWantReadError):
                    tls.do_handshake()
                    tls.write(b"radiator-link/3 radiator/0.1.0\n")
                one.sendall(answer.read())
            assert "TLS: it speaks first" in a.wait_for_log("link_refused node=b")
