"""Sessions of STOMP over HTTP: two streams of bytes, of which nothing is missed and nothing comes twice."""

import socket
from collections.abc import Iterator

import gevent
import pytest

from radiator.model.errors import FORBIDDEN, Refusal
from radiator.model.limits import HTTP_IDLE_S, TUNNEL_BYTES, TUNNEL_LEAST_BYTES, TUNNELS_BYTES
from radiator.model.principal import ANYONE, Principal
from radiator.model.replies import Answered, RefusedReceipt
from radiator.protocols.http.tunnel import CloseTunnel, OpenTunnel, PollBytes, SendBytes, TunnelRequest
from radiator.server import tunnels
from radiator.server.places import Places
from radiator.server.timetable import Timetable
from radiator.server.transport import SocketTransport
from radiator.server.tunnels import HttpTunnels, KnownLogin
from tests.server.shell import KeptLog, until

ANN = Principal("ann")


class Carried:
    """HttpTunnels, and the transports that it has given away. ask: the answer, or what is refused."""

    def __init__(self, connections: int = 10) -> None:
        self.loop = gevent.get_hub().loop
        self.places = Places(connections, 5, 5, KeptLog())
        self.timetable = Timetable(self.loop)
        self.admitted: list[SocketTransport] = []
        self.replies: dict[bytes, Answered | RefusedReceipt] = {}
        self.asked = 0
        self.all = HttpTunnels(
            self.loop,
            self.timetable,
            self.places,
            lambda _: ("peer", "net", "TLSv1.3"),
            self.admitted.append,
            self.post,
        )

    def post(self, reply: Answered | RefusedReceipt) -> None:
        assert reply.receipt not in self.replies, "one answer for each request"
        self.replies[reply.receipt] = reply

    def begin(self, request: TunnelRequest, principal: Principal = ANYONE) -> bytes:
        self.asked += 1
        receipt = b"%d" % self.asked
        self.all.ask(7, receipt, principal, request)
        return receipt

    def answer(self, receipt: bytes) -> bytes | str:
        """The body; or the code of the refusal."""
        until(lambda: receipt in self.replies)
        reply = self.replies[receipt]
        return reply.body if isinstance(reply, Answered) else reply.code

    def ask(self, request: TunnelRequest, principal: Principal = ANYONE) -> bytes | str:
        return self.answer(self.begin(request, principal))

    def open(self, principal: Principal = ANYONE) -> tuple[str, SocketTransport]:
        name = self.ask(OpenTunnel(), principal)
        assert isinstance(name, bytes)
        return name.decode(), self.admitted[-1]

    def look(self, name: str, after_s: float) -> float:
        """As the timetable does, so much later than it was last used."""
        tunnel = self.all._tunnels[name]
        return tunnel.look(tunnel.used_s + after_s)

    @property
    def room(self) -> int:
        return self.places.connections_max - len(self.places._connected)


@pytest.fixture
def carried() -> Iterator[Carried]:
    made = Carried()
    yield made
    made.all.close()
    for transport in made.admitted:
        transport.close()
    assert made.room == made.places.connections_max and not made.all._tunnels
    assert not made.all._kept.size_bytes


@pytest.mark.durability("D42")
def test_what_is_sent_comes_once_however_often_it_is_sent(carried: Carried) -> None:
    name, there = carried.open()
    assert carried.ask(SendBytes(name, 0, b"abc")) == b"3"
    assert carried.ask(SendBytes(name, 0, b"abc")) == b"3", "its answer was lost"
    assert carried.ask(SendBytes(name, 1, b"bcde")) == b"5", "some of it was there"
    assert carried.ask(SendBytes(name, 5, b"")) == b"5"
    assert carried.ask(SendBytes(name, 6, b"g")) == "wrong-offset"
    assert there.receive(100) == b"abcde"


@pytest.mark.durability("D42")
def test_what_is_fetched_comes_again_until_the_next_request_has_it(carried: Carried) -> None:
    name, there = carried.open()
    there.send(b"abc")
    assert carried.ask(PollBytes(name, 0, 0)) == b"abc"
    there.send(b"de")
    assert carried.ask(PollBytes(name, 0, 0)) == b"abcde", "its answer was lost"
    assert carried.ask(PollBytes(name, 3, 0)) == b"de"
    assert carried.ask(PollBytes(name, 2, 0)) == "wrong-offset"
    assert carried.ask(PollBytes(name, 6, 0)) == "wrong-offset"
    assert carried.ask(PollBytes(name, 5, 0)) == b""


def test_a_poll_waits_for_what_comes(carried: Carried) -> None:
    name, there = carried.open()
    receipt = carried.begin(PollBytes(name, 0, 60_000))
    gevent.sleep(0.01)
    assert receipt not in carried.replies
    there.send(b"abc")
    assert carried.answer(receipt) == b"abc"


def test_a_poll_ends_when_its_time_is_over(carried: Carried) -> None:
    name, _ = carried.open()
    receipt = carried.begin(PollBytes(name, 0, 5_000))
    gevent.sleep(0.01)
    assert carried.look(name, 4.9) and receipt not in carried.replies
    assert carried.look(name, 5.0)
    assert carried.answer(receipt) == b""


def test_a_newer_poll_ends_the_older_one(carried: Carried) -> None:
    """The client of which may be gone, without anybody having seen it."""
    name, there = carried.open()
    older, newer = carried.begin(PollBytes(name, 0, 60_000)), carried.begin(PollBytes(name, 0, 60_000))
    assert carried.answer(older) == b""
    there.send(b"abc")
    assert carried.answer(newer) == b"abc"


def test_who_fetches_nothing_is_not_read_from(carried: Carried) -> None:
    name, there = carried.open()
    sent = 0
    for _ in range(20):
        with pytest.raises(BlockingIOError):
            while True:
                sent += there.send(bytes(4096))
        gevent.sleep(0.001)
    assert TUNNEL_BYTES < sent < 3 * TUNNEL_BYTES
    found = 0
    while found < sent:
        body = carried.ask(PollBytes(name, found, 1000))
        assert isinstance(body, bytes) and 0 < len(body) <= TUNNEL_BYTES
        found += len(body)
    there.send(b"more")
    assert carried.ask(PollBytes(name, found, 1000)) == b"more"


def test_while_all_sessions_keep_much_each_keeps_little_and_misses_nothing(carried: Carried) -> None:
    name, there = carried.open()
    carried.all._kept.size_bytes += TUNNELS_BYTES
    sent = bytes(range(256)) * (4 * TUNNEL_LEAST_BYTES // 256)
    assert there.send(sent) == len(sent)
    found = b""
    while len(found) < len(sent):
        body = carried.ask(PollBytes(name, len(found), 1000))
        assert isinstance(body, bytes) and 0 < len(body) <= TUNNEL_LEAST_BYTES
        found += body
    assert found == sent
    carried.all._kept.size_bytes -= TUNNELS_BYTES


@pytest.mark.parametrize("is_hung_up", [False, True])
def test_what_a_session_keeps_is_freed_at_its_end(carried: Carried, is_hung_up: bool) -> None:
    """Whatever holds the session itself."""
    name, there = carried.open()
    tunnel = carried.all._tunnels[name]
    there.send(bytes(100_000))
    assert carried.ask(PollBytes(name, 0, 1000)) == bytes(100_000)
    assert carried.all._kept.size_bytes == len(tunnel._unfetched) == 100_000
    if is_hung_up:
        there.close()
        assert carried.ask(PollBytes(name, 100_000, 1000)) == "session-over"
    else:
        carried.ask(CloseTunnel(name))
    assert carried.all._kept.size_bytes == len(tunnel._unfetched) == 0


def test_a_session_that_reads_nothing_takes_what_it_has_room_for(carried: Carried) -> None:
    name, there = carried.open()
    taken, answer = 0, b""
    data = bytes(TUNNEL_BYTES)
    while (answer := carried.ask(SendBytes(name, taken, data))) != "blocked":  # type: ignore[assignment]
        assert taken < int(answer) <= taken + len(data)
        taken = int(answer)
    assert len(there.receive(10_000_000)) <= taken
    assert carried.ask(SendBytes(name, taken, b"abc")) == b"%d" % (taken + 3)


def test_a_session_belongs_to_who_has_opened_it(carried: Carried) -> None:
    name, there = carried.open(ANN)
    there.send(b"abc")
    for request in (PollBytes(name, 0, 0), SendBytes(name, 0, b"x"), CloseTunnel(name)):
        assert carried.ask(request, Principal("bob")) == "session-over"
    assert carried.ask(PollBytes(name[:-1], 0, 0), ANN) == "session-over"
    assert carried.ask(PollBytes(name, 0, 0), ANN) == b"abc"
    assert (there.principal, there.peer, there.network, there.tls) == (ANN, "peer over HTTP", "net", "TLSv1.3")


def test_what_a_session_has_sent_is_fetched_after_its_end(carried: Carried) -> None:
    name, there = carried.open()
    there.send(b"ERROR")
    there.close()
    assert carried.ask(PollBytes(name, 0, 60_000)) == b"ERROR"
    assert carried.ask(PollBytes(name, 0, 60_000)) == b"ERROR"
    assert carried.ask(SendBytes(name, 0, b"x")) == "session-over"
    assert carried.ask(PollBytes(name, 5, 60_000)) == "session-over"
    assert not carried.all._tunnels


def test_a_poll_that_waits_hears_of_the_end(carried: Carried) -> None:
    name, there = carried.open()
    receipt = carried.begin(PollBytes(name, 0, 60_000))
    gevent.sleep(0.01)
    there.close()
    assert carried.answer(receipt) == "session-over"


def test_who_closes_a_session_hangs_up(carried: Carried) -> None:
    name, there = carried.open()
    receipt = carried.begin(PollBytes(name, 0, 60_000))
    assert carried.ask(CloseTunnel(name)) == b""
    assert carried.answer(receipt) == "session-over" and there.receive(10) == b""
    assert carried.ask(CloseTunnel(name)) == "session-over"


def test_a_session_that_is_asked_nothing_is_closed(carried: Carried) -> None:
    name, there = carried.open()
    assert carried.look(name, HTTP_IDLE_S - 0.1)
    carried.begin(PollBytes(name, 0, 1000))
    gevent.sleep(0.01)
    assert carried.look(name, HTTP_IDLE_S), "the poll was until now"
    assert not carried.look(name, HTTP_IDLE_S)
    assert there.receive(10) == b""


def connect(carried: Carried, name: str, there: SocketTransport) -> None:
    there.send(b"CONNECTED\nversion:1.2\n\n\0")
    assert carried.ask(PollBytes(name, 0, 5_000)) == b"CONNECTED\nversion:1.2\n\n\0"


def test_a_session_takes_a_place_of_its_own_from_its_connect_on() -> None:
    carried = Carried(connections=2)
    first, second, third = (carried.open() for _ in range(3))
    assert carried.room == 2, "who says nothing keeps nobody out"
    connect(carried, *first)
    connect(carried, *second)
    assert carried.room == 0 and carried.ask(OpenTunnel()) == "connections"
    carried.ask(CloseTunnel(first[0]))
    assert carried.room == 1
    second[1].send(b"ERROR\n\n\0CONNECTED\n")
    second[1].close()
    until(lambda: carried.room == 2)
    carried.all.close()
    assert carried.room == 2
    for _, there in (first, third):
        there.close()


def test_of_sessions_that_have_ended_so_many_are_remembered(carried: Carried, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnels, "TUNNELS_ENDED", 2)
    opened = [carried.open() for _ in range(4)]
    for _, there in opened[:3]:
        there.send(b"bye")
        there.close()
        gevent.sleep(0.01)
    assert carried.ask(PollBytes(opened[0][0], 0, 0)) == "session-over"
    assert [carried.ask(PollBytes(name, 0, 0)) for name, _ in opened[1:3]] == [b"bye", b"bye"]
    assert carried.ask(PollBytes(opened[3][0], 0, 0)) == b""


def test_nobody_gets_a_session_who_is_gone(carried: Carried) -> None:
    carried.all._peer = lambda _: ("", "", None)
    assert carried.ask(OpenTunnel()) == "session-over" and not carried.admitted


def test_a_session_that_its_last_poll_has_ended_is_not_looked_at_again(carried: Carried) -> None:
    name, there = carried.open()
    tunnel = carried.all._tunnels[name]
    there.close()
    assert carried.ask(PollBytes(name, 0, 5_000)) == "session-over"
    assert tunnel.look_at_s == 0.0


def test_no_socket_for_a_session_is_a_refusal(carried: Carried, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(socket, "socketpair", none_left)
    assert carried.ask(OpenTunnel()) == "connections"


def test_connect_needs_no_login_and_may_have_no_other() -> None:
    login = KnownLogin()
    assert login.begin(ANN, b"", b"") is ANN and login.begin(ANN, b"ann", b"whatever") is ANN
    for name, secret in ((b"bob", b""), (b"bob", b"whatever"), (b"", b"a token"), (b"\xff", b"")):
        with pytest.raises(Refusal, match="The requests are made by ann: CONNECT needs no login here") as caught:
            login.begin(ANN, name, secret)
        assert caught.value.code == FORBIDDEN
