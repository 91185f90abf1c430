"""The seam for event loops: a file descriptor, `pump`, callbacks, and what is read and not handed out."""

import selectors
import socket
from collections.abc import Callable, Iterator

import pytest

from radiator.client import Client, ConnectionLost, Message
from tests.broker_process import BrokerProcess
from tests.client.peer import CONNECTED, MESSAGE, Script, greet, read_frame, read_until_closed, receipt_of


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[Client]:
    one = Client(broker.address)
    yield one
    one.abandon()


def is_readable(client: Client, timeout_s: float = 0) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(client.fileno(), selectors.EVENT_READ)
        return bool(selector.select(timeout_s))


def test_message_that_came_with_an_answer_waits_to_be_handed_out(peer: Callable[[Script], str]) -> None:
    """The trap of every event loop: it is read, so the descriptor does not become readable for it."""

    def script(connection: socket.socket) -> None:
        greet(connection)
        subscribe = read_frame(connection)
        connection.sendall(receipt_of(subscribe))
        connection.sendall(MESSAGE + receipt_of(read_frame(connection)))
        read_until_closed(connection)

    called: list[Message] = []
    client = Client(peer(script))
    client.subscribe("/queue/a", subscription="s1", ack="client-individual", callback=called.append)
    client.send("/queue/b")
    assert called == [], "a callback must not be called from within another call"
    assert (client.waiting, is_readable(client)) == (1, False)
    assert client.pump() == 1
    assert ([message.body for message in called], client.waiting) == ([b"a\0b"], 0)
    assert client.pump() == 0
    client.abandon()


def test_loop_over_the_descriptor_misses_nothing(client: Client, broker: BrokerProcess) -> None:
    """Callbacks that ask the broker themselves, as a worker does; the loop knows only descriptor and `waiting`."""
    many, bodies = 300, []

    def work(message: Message) -> None:
        bodies.append(message.body)
        client.send("/queue/loop.results", message.body, confirm=len(bodies) % 3 == 0)
        assert client.ack(message, confirm=None if len(bodies) % 2 else True)

    with Client(broker.address) as producer:
        producer.send_many("/queue/loop.jobs", [str(number) for number in range(many)])
    client.subscribe("/queue/loop.jobs", ack="client-individual", prefetch=10, callback=work)
    with selectors.DefaultSelector() as selector:
        selector.register(client.fileno(), selectors.EVENT_READ)
        while len(bodies) < many:
            assert client.waiting or selector.select(10), f"only {len(bodies)} of {many} were seen"
            client.pump()
    client.flush()
    assert bodies == [b"%d" % number for number in range(many)]
    assert client.admin({"do": "describe", "queue": "loop.results"})["messages"] == many


def test_pump_waits_for_the_first_and_no_longer(client: Client) -> None:
    called: list[Message] = []
    client.subscribe("/queue/pumped", callback=called.append)
    assert client.pump(0.05) == 0
    client.send("/queue/pumped", "x")
    assert client.pump(10) == 1


def test_receive_returns_what_has_no_callback_and_calls_the_others(client: Client) -> None:
    called: list[Message] = []
    client.subscribe("/queue/with", callback=called.append)
    client.subscribe("/queue/without")
    client.send("/queue/with", "1")
    client.send("/queue/without", "2")
    message = client.receive(10)
    assert message is not None
    assert message.body == b"2"
    assert client.receive(0.05) is None
    assert [one.body for one in called] == [b"1"]


def test_callback_that_raises_loses_only_its_own_message(client: Client) -> None:
    seen = []

    def fail_first(message: Message) -> None:
        seen.append(message.body)
        if len(seen) == 1:
            raise ZeroDivisionError

    client.subscribe("/topic/raises", callback=fail_first)
    for body in ("1", "2", "3"):
        client.send("/topic/raises", body)
    with pytest.raises(ZeroDivisionError):
        client.pump(10)
    while len(seen) < 3:
        client.pump(10)
    assert seen == [b"1", b"2", b"3"]


def test_callback_is_called_for_what_came_before_the_end_of_its_subscription(client: Client) -> None:
    called: list[Message] = []
    subscription = client.subscribe("/topic/ended", callback=called.append)
    client.send("/topic/ended", "before")
    client.unsubscribe(subscription)
    client.send("/topic/ended", "after")
    client.pump()
    assert [message.body for message in called] == [b"before"]


def test_pump_beats_and_sees_silence(peer: Callable[[Script], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.client.connection.SILENCE_SLACK_S", 0.05)

    def script(connection: socket.socket) -> None:
        greet(connection, CONNECTED.replace(b"0,0", b"50,50"))
        assert connection.recv(1) == b"\n"
        read_until_closed(connection)

    client = Client(peer(script), heart_beat_ms=(50, 50))
    assert client.heart_beat_s == (0.05, 0.05)
    with pytest.raises(ConnectionLost, match="silent"):
        while True:
            client.pump(0.01)
    assert client.heart_beat_s == (0.0, 0.0)


def test_pump_raises_what_ended_the_connection(peer: Callable[[Script], str]) -> None:
    client = Client(peer(lambda connection: greet(connection)))
    assert is_readable(client, 5)
    with pytest.raises(ConnectionLost, match="the broker closed it"):
        client.pump(0)
    with pytest.raises(ConnectionLost):
        client.fileno()
    assert not client.is_open


def test_abandon_says_nothing_and_gives_everything_back(client: Client, broker: BrokerProcess) -> None:
    client.send("/queue/abandoned", "x")
    other = Client(broker.address)
    other.subscribe("/queue/abandoned", ack="client-individual")
    assert other.receive(10) is not None
    other.abandon()
    other.abandon()
    other.close()
    client.subscribe("/queue/abandoned")
    message = client.receive(10)
    assert message is not None
    assert message.headers["redelivered"] == "true"


def test_abandon_sends_no_disconnect(peer: Callable[[Script], str]) -> None:
    found = []

    def script(connection: socket.socket) -> None:
        greet(connection)
        found.append(read_until_closed(connection))

    address = peer(script)
    client = Client(address)
    client.send("/queue/a", "x", confirm=None)
    client.abandon()
    with pytest.raises(ConnectionLost, match="closed by this program"):
        client.pump()
    while not found:
        pass
    assert b"DISCONNECT" not in found[0]
    assert found[0].startswith(b"SEND\n")
    assert b"receipt" not in found[0], "confirm=None asks for none"
