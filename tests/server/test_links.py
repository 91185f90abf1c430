"""Links between nodes: real processes, and strangers at the port for nodes."""

import json
import re
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from radiator.model.commands import Open, PeerMessage
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import LOG_LINES_OF_CLIENT, Limits
from radiator.model.message import Message
from radiator.model.peer import Digest, NodeState, PeerFrame, Publish, Version
from radiator.model.replies import SendToPeer
from radiator.model.settings import Node
from radiator.protocols.peer.session import PeerSession
from tests.acceptance.wire import Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, BrokerProcess
from tests.ports import free_port

pytestmark = pytest.mark.slow

HEART_BEAT_MS = 400
SECRET = b"0123456789abcdef0123456789abcdef"


class Place:
    """Where nodes of one test live: a directory, and for each name a port that stays. End all with `stop`.

    scheme: of their addresses. tls: the table [tls] of each.
    """

    def __init__(self, directory: Path, scheme: str = "peer", tls: str = "") -> None:
        self.directory = directory
        self.scheme, self.tls = scheme, tls
        self.nodes: dict[str, BrokerProcess] = {}
        self.ports: dict[str, int] = {}

    def port(self, name: str) -> int:
        if name not in self.ports:
            self.ports[name] = free_port()
        return self.ports[name]

    def node(
        self,
        name: str,
        peers: dict[str, int | None],
        *,
        secret: bytes = SECRET,
        listens: bool = True,
        lines: str = "",
        tables: str = "",
        heart_beat_ms: int = HEART_BEAT_MS,
        scheme: str | None = None,
        host: str = "127.0.0.1",
    ) -> BrokerProcess:
        """Not started yet. peers: the port that each is dialled at, and host its name. lines: more of [node]."""
        scheme = scheme or self.scheme
        directory = self.directory / name
        directory.mkdir(exist_ok=True)
        (directory / "secret").touch(0o600)
        (directory / "secret").write_bytes(secret)
        tables += self.tls if scheme == "peers" else ""
        text = f'{EVERYTHING_MAY_BE_CREATED}\n{tables}\n[node]\nname = "{name}"\nsecret_file = "secret"\n'
        text += f"heart_beat_ms = {heart_beat_ms}\n{lines}\n"
        if listens:
            text += f'listen = "{scheme}://127.0.0.1:{self.port(name)}"\n'
        for peer, port in peers.items():
            text += f'[peer."{peer}"]\n' + (f'address = "{scheme}://{host}:{port}"\n' if port is not None else "")
        self.nodes[name] = broker = BrokerProcess(directory, text)
        return broker

    def pair(self) -> tuple[BrokerProcess, BrokerProcess]:
        """a dials b, and both run."""
        b = self.node("b", {"a": None}).start()
        return self.node("a", {"b": self.port("b")}, listens=False).start(), b


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    for broker in place.nodes.values():
        broker.kill()
        assert "Traceback" not in broker.log, broker.log
        assert SECRET.decode() not in broker.log


def lines_of(broker: BrokerProcess, event: str) -> list[str]:
    return [line for line in broker.log.splitlines() if line.split(" ")[2:3] == [event]]


def moment_s(line: str) -> float:
    """The time that stands before a line of the log."""
    return datetime.fromisoformat(line.split(" ")[0]).timestamp()


def eventually(is_so: Callable[[], bool], within_s: float = 5.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline_s, "it did not come to that"
        time.sleep(0.02)


def why(broker: BrokerProcess, name: str) -> tuple[str, str]:
    """What it says of its link with that node: the state, and the cause where there is none."""
    with Wire((broker.host, broker.port)) as wire:
        wire.connect()
        peers = json.loads(wire.admin(b'{"do": "peers"}'))["peers"]
    return next((peer["state"], peer["cause"]) for peer in peers if peer["name"] == name)


# ---- links of real nodes


def test_link_comes_up_and_ends_with_its_node(place: Place) -> None:
    a, b = place.pair()
    assert f" node=b peer=127.0.0.1:{place.port('b')}" in a.wait_for_log(" linked ")
    assert " node=a peer=127.0.0.1:" in b.wait_for_log(" linked ")
    time.sleep(HEART_BEAT_MS / 1000 * 3)
    assert not lines_of(a, "unlinked") and not lines_of(b, "unlinked"), "heart-beats keep it"
    assert a.stop() == 0
    assert " node=b peer=127.0.0.1:" in lines_of(a, "unlinked")[0] and "cause=closed" in lines_of(a, "unlinked")[0]
    assert 'cause="hung up"' in b.wait_for_log(" unlinked ")
    assert "disconnected" not in a.log + b.log and " connected " not in a.log + b.log


def test_of_two_that_dial_each_other_one_link_stays(place: Place) -> None:
    a = place.node("a", {"b": place.port("b")}).start()
    b = place.node("b", {"a": place.port("a")}).start()
    for broker in (a, b):
        broker.wait_for_log(" linked ")
    time.sleep(1.5)
    for broker in (a, b):
        assert len(lines_of(broker, "linked")) - len(lines_of(broker, "unlinked")) == 1
        assert len(lines_of(broker, "linked")) <= 2, "no further tries while there is a link"


def test_wrong_secret_is_refused_at_both_ends_and_told_once(place: Place) -> None:
    b = place.node("b", {"a": None}).start()
    a = place.node("a", {"b": place.port("b")}, listens=False, secret=b"quite another secret").start()
    assert "it does not have this node's secret" in a.wait_for_log("link_refused")
    assert "wrong-secret" in b.wait_for_log("link_refused")
    sentence = "refused: wrong-secret: The proof of a is wrong: it does not have this node's secret."
    eventually(lambda: why(a, "b") == ("refused", f"b {sentence}"))
    eventually(lambda: why(b, "a") == ("refused", sentence))
    time.sleep(1.5)  # three or four tries more
    assert len(lines_of(a, "link_refused")) == len(lines_of(b, "link_refused")) == 1
    assert "linked " not in (a.log + b.log).replace("unlinked ", "")
    a.stop()
    place.node("a", {"b": place.port("b")}, listens=False).start().wait_for_log(" linked ")


def test_other_heart_beat_is_refused_at_both_ends(place: Place) -> None:
    b = place.node("b", {"a": None}).start()
    a = place.node("a", {"b": place.port("b")}, listens=False, heart_beat_ms=HEART_BEAT_MS + 1).start()
    sentence = f"refused: other-limits: heart_beat_ms is {HEART_BEAT_MS + 1} on a and {HEART_BEAT_MS} on b: "
    for broker in (a, b):
        assert sentence in broker.wait_for_log("link_refused")
    eventually(lambda: why(b, "a") == ("refused", f"{sentence}set it alike in [node] of all nodes."))
    assert not lines_of(a, "linked") and not lines_of(b, "linked")


def test_node_that_has_gone_is_down_because_it_hung_up(place: Place) -> None:
    a, b = place.pair()
    b.wait_for_log(" linked ")
    eventually(lambda: why(b, "a") == ("up", ""))
    assert a.stop() == 0
    eventually(lambda: why(b, "a") == ("down", "hung up"))


def test_refusal_of_an_open_link_has_its_code_at_both_ends(place: Place) -> None:
    """b has a link with a of another store already."""
    b = place.node("b", {"a": None}).start()
    b.wait_for_log("address=peer://")
    fake = FakeNode(place.port("b"))
    # else b gives it up while a starts, where that takes long
    with fake.beating():
        a = place.node("a", {"b": place.port("b")}, listens=False).start()
        assert "code=other-store" in a.wait_for_log(" refused ")
        assert 'cause="refused: other-store"' in a.wait_for_log(" unlinked ")
        assert 'cause="refused: other-store"' in b.wait_for_log(" unlinked ")
        eventually(lambda: why(a, "b")[1].startswith("other-store: b refused: 'a' is linked already"))
        assert why(a, "b")[0] == "refused"
    fake.socket.close()


def test_node_that_is_not_in_the_list_is_refused(place: Place) -> None:
    b = place.node("b", {"c": None}).start()
    a = place.node("a", {"b": place.port("b")}, listens=False).start()
    assert "unknown-node" in a.wait_for_log("link_refused")
    assert "The node a is not among the peers that are configured here." in b.wait_for_log("link_refused")
    assert not lines_of(b, "linked")


def test_another_node_at_the_address_is_refused(place: Place) -> None:
    place.node("c", {"a": None}).start()
    a = place.node("a", {"b": place.port("c")}, listens=False).start()
    assert "The node b was dialled, and c answers." in a.wait_for_log("link_refused")


def test_killed_node_is_dialled_until_it_is_back(place: Place) -> None:
    a, b = place.pair()
    a.wait_for_log(" linked ")
    b.kill()
    a.wait_for_log(" unlinked ")
    assert "node=b" in a.wait_for_log("cannot be dialled: Connection refused")
    eventually(lambda: why(a, "b") == ("down", "cannot be dialled: Connection refused"))
    time.sleep(1.0)
    assert len(lines_of(a, "link_refused")) == 1, "told once, not once a try"
    b.start()
    eventually(lambda: len(lines_of(a, "linked")) == 2)


@pytest.mark.alone("clocks of half a second are held to a tenth")
def test_stopped_node_is_dropped_within_one_and_a_half_heart_beats(place: Place) -> None:
    a, b = place.pair()
    a.wait_for_log(" linked ")
    b.wait_for_log(" linked ")
    assert b.process is not None
    stopped_s = time.time()
    b.process.send_signal(signal.SIGSTOP)
    line = a.wait_for_log(" unlinked ")
    b.process.send_signal(signal.SIGCONT)
    assert 'cause="heart-beats missing"' in line
    after_s = moment_s(line) - stopped_s
    assert HEART_BEAT_MS / 1000 * 0.9 < after_s < HEART_BEAT_MS / 1000 * 2
    eventually(lambda: len(lines_of(a, "linked")) == 2)


@pytest.mark.alone("clocks of half a second are held to a tenth")
def test_node_is_dialled_less_and_less_often(place: Place) -> None:
    with socket.create_server(("127.0.0.1", place.port("b"))) as server:
        server.settimeout(10)
        place.node("a", {"b": place.port("b")}, listens=False).start()
        tries_s = []
        for _ in range(6):
            server.accept()[0].close()
            tries_s.append(time.monotonic())
    gaps_s = [later - earlier for earlier, later in zip(tries_s, tries_s[1:], strict=False)]
    for tries, gap_s in enumerate(gaps_s, start=1):
        assert 0.1 * 2**tries / 2 - 0.02 < gap_s < 0.1 * 2**tries + 0.3, gaps_s


def test_dialling_in_vain_does_not_hold_up_the_stop(place: Place) -> None:
    with socket.create_server(("127.0.0.1", place.port("b")), backlog=0):
        a = place.node("a", {"b": place.port("b"), "c": place.port("c")}, listens=False).start()
        a.wait_for_log("link_refused node=c")
        began_s = time.monotonic()
        assert a.stop() == 0
        assert time.monotonic() - began_s < 2


def test_unknown_host_is_said(place: Place) -> None:
    a = place.node("a", {"b": place.port("b")}, listens=False, tables='[peer."c"]\naddress = "peer://no.invalid:1"\n')
    line = a.start().wait_for_log("link_refused node=c", timeout_s=15)
    assert 'cause="cannot be dialled: ' in line
    with Wire((a.host, a.port)) as wire:
        wire.connect()
        wire.fence()


def test_port_for_nodes_that_is_taken_is_said(place: Place) -> None:
    with socket.create_server(("127.0.0.1", place.port("a"))):
        assert place.node("a", {"b": None}).start_and_fail() == 1
    assert "Give another [node] listen." in place.nodes["a"].log


def test_nodes_that_are_learned_are_linked(place: Place) -> None:
    lines = "discover = true"
    a = place.node("a", {"b": place.port("b")}, lines=lines).start()
    c = place.node("c", {"b": place.port("b")}, lines=lines).start()
    place.node("b", {"a": None, "c": None}, lines=lines).start()
    a.wait_for_log(" linked connection=", 10)
    eventually(lambda: any(" node=c " in line for line in lines_of(a, "linked")), 10)
    eventually(lambda: any(" node=a " in line for line in lines_of(c, "linked")), 10)


def test_with_discover_one_entry_of_the_new_node_is_enough(place: Place) -> None:
    lines = "discover = true"
    a = place.node("a", {"b": place.port("b")}, lines=lines).start()
    b = place.node("b", {"a": None}, lines=lines).start()
    a.wait_for_log(" linked ")
    place.node("d", {"b": place.port("b")}, lines=lines).start()
    eventually(lambda: any(" node=d " in line for line in lines_of(b, "linked")), 10)
    eventually(lambda: any(" node=d " in line for line in lines_of(a, "linked")), 10)


# ---- how many there may be


def test_clients_that_have_taken_all_places_keep_no_node_out(place: Place) -> None:
    b = place.node("b", {"a": None}, tables="[limits]\nmax_connections = 1\n[logging]\nlevel = 'debug'").start()
    with Wire((b.host, b.port)) as client:
        client.connect()
        a = place.node("a", {"b": place.port("b")}, listens=False).start()
        a.wait_for_log(" linked ")
        with Wire((b.host, b.port)) as refused:
            assert refused.refusal()["code"] == "connections"
    eventually(lambda: len(lines_of(b, "disconnected")) >= 1)
    with Wire((b.host, b.port)) as client:
        client.connect()  # the link takes no place of a client


def strangers(port: int, count: int, host: str = "127.0.0.2") -> list[socket.socket]:
    """So many connections of that address, which say nothing."""
    return [socket.create_connection(("127.0.0.1", port), 5, (host, 0)) for _ in range(count)]


def are_open(crowd: list[socket.socket]) -> int:
    return sum(not select.select([one], [], [], 0)[0] for one in crowd)


def test_strangers_take_so_many_sockets_and_no_more(place: Place) -> None:
    b = place.node("b", {"a": None}, tables="[limits]\nconnect_timeout_s = 2").start()
    b.wait_for_log("address=peer://")
    crowd = strangers(place.port("b"), 8)
    time.sleep(0.2)
    assert are_open(crowd) == 8
    crowd += strangers(place.port("b"), 1)
    assert "gave way to another, since all 8 sockets for links are in use" in b.wait_for_log("link_refused")
    assert are_open(crowd) == 8
    b.wait_for_log('cause="did not prove in time who it is"')
    eventually(lambda: are_open(crowd) == 0)
    for one in crowd:
        one.close()


def test_strangers_who_come_again_and_again_keep_no_node_out(place: Place) -> None:
    """Whoever comes when all sockets are in use gets that of another stranger: of his own address, if he has one."""
    b = place.node("b", {"a": None}).start()
    b.wait_for_log("address=peer")
    over = threading.Event()

    def come_again() -> None:
        crowd: list[socket.socket] = []
        while not over.wait(0.005):
            crowd += strangers(place.port("b"), 1)
        for one in crowd:
            one.close()

    flood = threading.Thread(target=come_again, daemon=True)
    flood.start()
    b.wait_for_log("gave way to another")
    a = place.node("a", {"b": place.port("b")}, listens=False).start()
    a.wait_for_log(" linked ")
    time.sleep(1.0)
    over.set()
    flood.join()
    assert not lines_of(a, "unlinked") and not lines_of(b, "unlinked"), "a link gives way to nobody"


def test_few_lines_are_of_one_stranger(place: Place) -> None:
    """Though each says something else, so that no cause is like another."""
    b = place.node("b", {"a": None}).start()
    b.wait_for_log("address=peer")
    for number in range(30):
        with socket.create_connection(("127.0.0.1", place.port("b")), 5) as one:
            one.sendall(b"nonsense %d\n" % number)
            assert one.recv(1000)
    time.sleep(0.2)
    assert len(lines_of(b, "link_refused")) == LOG_LINES_OF_CLIENT


def test_client_at_the_port_for_nodes_is_told(place: Place) -> None:
    b = place.node("b", {"a": None}).start()
    b.wait_for_log("address=peer://")
    with socket.create_connection(("127.0.0.1", place.port("b"))) as client:
        client.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
        client.settimeout(5)
        assert b"A link begins with the line" in client.recv(1000)
    assert "peer=127.0.0.1:" in b.wait_for_log("link_refused")


# ---- a node of our own, that does what no node should


class FakeNode:
    """The node "a" by our own session on a blocking socket. It reads only where it is told to."""

    def __init__(self, port: int, store_id: str = "fake1") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 5)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        node = Node(name="a", secret=SECRET, heart_beat_ms=HEART_BEAT_MS)
        self.session = PeerSession(1, Limits(), node, store_id, bytes(range(32)), "b", lambda name: True)
        self.heard: list[PeerFrame] = []
        self.socket.sendall(self.session.take_outgoing())
        while not self.session.is_open:
            self.read()

    def read(self) -> None:
        for commands in self.session.receive(self.socket.recv(65536)):
            if isinstance(commands, PeerMessage):
                self.heard.append(commands.word)
            else:
                assert isinstance(commands, Open), commands
        if outgoing := self.session.take_outgoing():
            self.socket.sendall(outgoing)

    @contextmanager
    def beating(self) -> Iterator[None]:
        """It is heard all the time."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(HEART_BEAT_MS / 4000):
                self.socket.sendall(self.session.heart_beat())

        thread = threading.Thread(target=beat)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def send(self, word: PeerFrame) -> None:
        self.socket.sendall(self.session.encode(SendToPeer(1, word)))


def test_node_that_does_not_read_is_heard_all_the_same(place: Place) -> None:
    """Two full links would wait for each other for ever."""
    tables = '[limits]\noutbox_max_bytes = "64KiB"\n[topic."#"]\nscope = "cluster"'
    b = place.node("b", {"a": None}, tables=tables).start()
    b.wait_for_log("address=peer://")
    fake = FakeNode(place.port("b"))
    with Wire((b.host, b.port)) as client:
        client.connect()
        client.subscribe("/topic/from.a")
        fake.send(Digest([]))
        fake.send(NodeState(Version("a", 1, 1), True, ["b"], [], ["to.a"], [], ""))
        while not any(isinstance(word, NodeState) for word in fake.heard):
            fake.read()
        sent = 0
        for number in range(1, 31):
            sent += 1
            client.send("/topic/to.a", b"x" * 200_000)  # 6 MB: more than sockets hold
            message = Message("/topic/from.a", b"", ESCAPING_ALL, b"%d" % number, int(time.time() * 1000))
            fake.send(Publish("a", 1, number, 1, b"fake1-1-%dt" % number, message))
            assert client.message().body == b"%d" % number
    assert not lines_of(b, "unlinked")
    while sum(isinstance(word, Publish) for word in fake.heard) < sent:
        fake.read()
    fake.socket.close()
    assert re.search(r'unlinked connection=\d+ node=a peer=\S+ cause="hung up"', b.wait_for_log(" unlinked "))
