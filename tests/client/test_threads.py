"""Several threads on one Client, and the thread that beats while the program computes."""

import gc
import socket
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from radiator.client import Client, ConnectionLost, NoAnswer, Reconnect
from radiator.model.errors import Refusal
from tests.broker_process import BrokerProcess
from tests.client.peer import CONNECTED, MESSAGE, Script, greet, read_frame, read_until_closed, receipt_of
from tests.client.proxy import Proxy

THREADS = 8


def threads_of_clients() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "radiator.client"]


def test_threads_send_at_once_while_another_receives(broker: BrokerProcess) -> None:
    each = 40
    with Client(broker.address) as client, ThreadPoolExecutor(THREADS + 1) as executor:
        client.subscribe("/queue/shared", ack="client-individual", prefetch=10)

        def receive() -> set[bytes]:
            bodies = set()
            for _ in range(THREADS * each):
                message = client.receive(20)
                assert message is not None
                bodies.add(message.body)
                client.ack(message, confirm=len(bodies) % 3 == 0)
            return bodies

        def send(thread: int) -> None:
            for number in range(each):
                client.send("/queue/shared", f"{thread} {number}", confirm=number % 2 == 0)

        receiving = executor.submit(receive)
        for sending in [executor.submit(send, thread) for thread in range(THREADS)]:
            sending.result(30)
        assert len(receiving.result(30)) == THREADS * each
        client.flush()
        assert client.unconfirmed == 0


def test_thread_that_waits_for_ever_stops_no_other(broker: BrokerProcess) -> None:
    with ThreadPoolExecutor(1) as executor:
        client = Client(broker.address)
        client.subscribe("/topic/alone")
        waiting = executor.submit(client.receive)
        for _ in range(3):
            client.send("/queue/elsewhere", "x")
            assert client.admin({"do": "queues"})["ok"]
        client.send("/topic/alone", "now")
        message = waiting.result(10)
        assert message is not None
        assert message.body == b"now"
        waiting = executor.submit(client.receive)
        client.send("/queue/elsewhere", "x")
        client.close()
        with pytest.raises(ConnectionLost, match="closed by this program"):
            waiting.result(10)


@pytest.mark.parametrize("reconnect", [False, True])
def test_abandon_wakes_who_waits(broker: BrokerProcess, reconnect: bool) -> None:
    client = Client(broker.address, reconnect=reconnect)
    client.subscribe("/topic/abandoned")
    waiting = threading.Thread(target=lambda: raised.append(pytest.raises(ConnectionLost, client.receive)))
    raised: list[object] = []
    waiting.start()
    while not client._threads._is_driven:
        pass
    client.abandon()
    waiting.join(10)
    assert len(raised) == 1


@pytest.mark.parametrize("reconnect", [False, Reconnect(first_s=0.01)])
def test_each_thread_gets_its_own_answer(broker: BrokerProcess, reconnect: bool | Reconnect) -> None:
    """One thread's refusal, which ends the connection, is not another's."""
    client = Client(broker.address, reconnect=reconnect)
    queue = f"/queue/small.threads.{bool(reconnect)}"
    client.send(queue, "fits")
    with ThreadPoolExecutor(2) as executor:
        waiting = executor.submit(client.receive, 0.5 if reconnect else None)
        with pytest.raises(Refusal):
            client.send(queue, "does not")
        if reconnect:
            assert waiting.result(10) is None
        else:
            with pytest.raises(ConnectionLost, match="the broker refused"):
                waiting.result(10)
    client.abandon()


def test_cut_wakes_every_thread_and_each_send_is_confirmed(broker: BrokerProcess, proxy: Proxy) -> None:
    policy = Reconnect(first_s=0.01, most_s=0.1)
    with Client(proxy.address, reconnect=policy, dedup=True) as client, ThreadPoolExecutor(THREADS) as executor:

        def send(thread: int) -> None:
            for number in range(20):
                client.send("/queue/once.threads", f"{thread} {number}")

        sendings = [executor.submit(send, thread) for thread in range(THREADS)]
        for connections in range(5):
            proxy.wait_for(connections + 1)
            proxy.cut()
            if all(sending.done() for sending in sendings):
                break
        for sending in sendings:
            sending.result(30)
    with Client(broker.address) as direct:
        assert direct.admin({"do": "stats"})["queues"]["once.threads"]["accepted"] == THREADS * 20


def test_two_full_buffers_do_not_block_threads(peer: Callable[[Script], str]) -> None:
    """One thread waits for messages, another for room to send: to a peer that reads nothing until all is taken."""
    many, body = 40, b"y" * 500_000
    message = MESSAGE.replace(b"content-length:3\n\na\0b", b"content-length:500000\n\n" + body)

    def script(connection: socket.socket) -> None:
        greet(connection)
        connection.sendall(message * many)
        frame = b""
        while not frame.endswith(b"\0"):
            frame = frame[-200:] + connection.recv(1 << 20)
        connection.sendall(receipt_of(b"receipt:r1\n"))
        read_until_closed(connection)

    with ThreadPoolExecutor(1) as executor:
        client = Client(peer(script))
        sending = executor.submit(client.send, "/queue/a", b"x" * 20_000_000)
        for _ in range(many):
            received = client.receive(10)
            assert received is not None
        sending.result(10)
        client.abandon()


# ---- a bound for what nobody receives


def test_reading_stops_where_nobody_receives_and_says_so(broker: BrokerProcess) -> None:
    many, body, bound = 400, b"x" * 10_000, 200_000
    with Client(broker.address) as producer:
        producer.send_many("/queue/much", [body] * many)
    with Client(broker.address, received_max_bytes=bound) as client:
        client.subscribe("/queue/much")
        with pytest.raises(NoAnswer, match="comes after .* messages that nobody has received"):
            for _ in range(many):
                client.send("/queue/answers", "x")
        assert client.waiting * len(body) <= bound + 128 * 1024, "at most the bound, and what one read brings"
        with pytest.raises(NoAnswer, match="comes after"):
            client.admin({"do": "queues"})
        for _ in range(many):
            message = client.receive(10)
            assert message is not None
        client.flush()
        client.send("/queue/answers", "x")
        assert client.waiting == 0


def test_answer_behind_messages_comes_where_another_thread_receives(broker: BrokerProcess) -> None:
    many, body = 300, b"x" * 10_000
    with Client(broker.address) as producer:
        producer.send_many("/queue/much-more", [body] * many)
    with Client(broker.address, received_max_bytes=100_000) as client, ThreadPoolExecutor(1) as executor:

        def receive() -> int:
            count = 0
            while count < many:
                message = client.receive(20)
                assert message is not None
                count += 1
                begun.set()
            return count

        begun = threading.Event()
        client.subscribe("/queue/much-more")
        receiving = executor.submit(receive)
        assert begun.wait(10)
        for _ in range(20):
            client.send("/queue/answers", "x")
        assert receiving.result(20) == many


# ---- heart-beats while the program computes


def beats_of(connection: socket.socket, count: int) -> bytes:
    beats = b""
    while len(beats) < count:
        beats += connection.recv(1)
    return beats


def test_thread_beats_while_no_call_does(peer: Callable[[Script], str]) -> None:
    seen = []

    def script(connection: socket.socket) -> None:
        greet(connection, CONNECTED.replace(b"0,0", b"0,50"))
        seen.append(beats_of(connection, 4))
        has_beaten.set()
        read_until_closed(connection)

    has_beaten = threading.Event()
    client = Client(peer(script), heart_beats="thread", heart_beat_ms=(50, 0))
    assert has_beaten.wait(5)
    assert seen == [b"\n" * 4]
    client.abandon()


def test_without_the_thread_nothing_beats_between_calls(peer: Callable[[Script], str]) -> None:
    def script(connection: socket.socket) -> None:
        greet(connection, CONNECTED.replace(b"0,0", b"0,50"))
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        is_seen.set()

    is_seen = threading.Event()
    client = Client(peer(script), heart_beat_ms=(50, 0))
    assert is_seen.wait(5)
    client.abandon()


def test_thread_sees_that_the_broker_is_silent(peer: Callable[[Script], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.client.connection.SILENCE_SLACK_S", 0.05)
    is_left = threading.Event()

    def script(connection: socket.socket) -> None:
        greet(connection, CONNECTED.replace(b"0,0", b"50,0"))
        read_until_closed(connection)
        is_left.set()

    client = Client(peer(script), heart_beats="thread", heart_beat_ms=(0, 50))
    assert is_left.wait(5)
    with pytest.raises(ConnectionLost, match="silent"):
        client.send("/queue/a")


def test_thread_restores_the_connection_and_its_subscriptions(broker: BrokerProcess, proxy: Proxy) -> None:
    policy = Reconnect(first_s=0.01, most_s=0.05)
    with Client(proxy.address, heart_beats="thread", heart_beat_ms=(100, 100), reconnect=policy) as client:
        client.subscribe("/queue/kept", ack="client-individual")
        proxy.cut()
        proxy.wait_for(2)
        client.send("/queue/kept", "x")
        assert client.receive(5) is not None
        assert client.connections == 2


def test_thread_ends_with_its_client(broker: BrokerProcess) -> None:
    for one in threads_of_clients():
        one.join(5)
    client = Client(broker.address, heart_beats="thread")
    closed = threads_of_clients()
    assert len(closed) == 1
    client.close()
    closed[0].join(5)
    forgotten = weakref.ref(Client(broker.address, heart_beats="thread", heart_beat_ms=(100, 0)))
    last = threads_of_clients()
    while forgotten() is not None:
        gc.collect()
    for one in last:
        one.join(5)
    assert threads_of_clients() == []


def test_peer_that_breaks_off_in_a_frame_is_told_to_all(peer: Callable[[Script], str]) -> None:
    def script(connection: socket.socket) -> None:
        greet(connection)
        read_frame(connection)
        connection.sendall(b"MESSAGE\nno colon\n\n\0")

    client = Client(peer(script))
    with ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(client.receive)
        with pytest.raises(ConnectionLost):
            client.send("/queue/a")
        with pytest.raises(ConnectionLost, match="broke the protocol"):
            waiting.result(5)
