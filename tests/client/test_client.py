"""The blocking client: against a scripted peer for what a broker should not do, and against the real broker."""

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from radiator.client import Client, ConnectionLost, NoAnswer, RadiatorError, Refusal, Violation
from tests.broker_process import BrokerProcess
from tests.client.peer import CONNECTED, MESSAGE, Script, greet, read_frame, read_until_closed, receipt_of
from tests.ports import free_port


def test_client_says_that_nobody_listens() -> None:
    address = f"stomp://127.0.0.1:{free_port()}"
    with pytest.raises(ConnectionLost, match=rf"Cannot connect to {address}: .*\. Is the broker running\?"):
        Client(address)


def test_client_gives_up_on_a_silent_peer(peer: Callable[[Script], str]) -> None:
    def script(connection: socket.socket) -> None:
        read_until_closed(connection)

    address = peer(script)
    with pytest.raises(ConnectionLost, match=r"did not answer CONNECT within 0\.05 s"):
        Client(address, connect_timeout_s=0.05)


def test_client_says_that_the_peer_speaks_no_stomp(peer: Callable[[Script], str]) -> None:
    address = peer(lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"))
    with pytest.raises(ConnectionLost, match="broke the protocol"):
        Client(address)


def test_client_sends_login_and_passcode(peer: Callable[[Script], str]) -> None:
    frames = []

    def script(connection: socket.socket) -> None:
        frames.append(read_frame(connection))
        connection.sendall(CONNECTED)
        read_until_closed(connection)

    client = Client(peer(script).replace("stomp://", "stomp://me:a%3Ab@"))
    with pytest.raises(ZeroDivisionError), client:
        1 / 0  # noqa: B018
    assert b"\nlogin:me\n" in frames[0]
    assert b"\npasscode:a:b\n" in frames[0]


def test_client_raises_the_error_of_a_refused_connect(peer: Callable[[Script], str]) -> None:
    error = b"ERROR\nmessage:no\ncode:connections\n\nThere are too many connections.\0"
    with pytest.raises(
        Refusal, match=r"^stomp://\S+ has refused the connection: There are too many connections\.$"
    ) as refused:
        Client(peer(lambda connection: greet(connection, error)))
    assert refused.value.code == "connections"


def test_client_uses_message_header_of_an_error_without_body(peer: Callable[[Script], str]) -> None:
    with pytest.raises(Refusal, match="refused the connection: no such luck$"):
        Client(peer(lambda connection: greet(connection, b"ERROR\nmessage:no such luck\n\n\0")))


def test_client_says_what_was_outstanding_when_the_peer_hangs_up(peer: Callable[[Script], str]) -> None:
    def script(connection: socket.socket) -> None:
        greet(connection)
        read_frame(connection)

    client = Client(peer(script))
    with pytest.raises(ConnectionLost, match=r"is lost: .*\. 1 receipts? (is|are) outstanding\."):
        client.send("/queue/a", b"x")
    with pytest.raises(ConnectionLost, match="There is no connection"):
        client.send("/queue/a", b"x")
    with pytest.raises(ConnectionLost, match="There is no connection"):
        client.receive()
    client.close()


def test_refusal_of_an_interrupted_send_is_for_the_next_call(peer: Callable[[Script], str]) -> None:
    """Ctrl-C, and the signals of a program's own: whoever asked does not wait any more."""
    is_interrupted = threading.Event()

    def script(connection: socket.socket) -> None:
        greet(connection)
        receipt = receipt_of(read_frame(connection))
        is_interrupted.wait(10)
        connection.sendall(receipt.replace(b"\n\n", b"\nrefused:queue-full\nmessage:It is full.\n\n"))
        read_until_closed(connection)

    client = Client(peer(script))

    def interrupt(*_: object) -> None:
        raise InterruptedError("by a signal")

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(InterruptedError, match="by a signal"):
            client.send("/queue/a", b"x", {"on-refusal": "receipt"})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    is_interrupted.set()
    with pytest.raises(Refusal, match="It is full"):
        client.flush()
    client.abandon()


def test_client_waits_for_no_receipt_longer_than_its_timeout(peer: Callable[[Script], str]) -> None:
    def script(connection: socket.socket) -> None:
        greet(connection)
        late = receipt_of(read_frame(connection))
        other = read_frame(connection)
        connection.sendall(late + receipt_of(other))
        connection.sendall(receipt_of(read_frame(connection)))

    client = Client(peer(script), answer_timeout_s=0.05)
    with pytest.raises(NoAnswer, match=r"no RECEIPT within 0\.05 s"):
        client.send("/queue/a", b"x")
    assert client.unconfirmed == 1
    client._channel.answer_timeout_s = 10
    client.send("/queue/a", b"y")
    assert client.unconfirmed == 0
    client.close()


def test_client_returns_messages_that_came_with_other_answers_in_order(peer: Callable[[Script], str]) -> None:
    def script(connection: socket.socket) -> None:
        greet(connection)
        answer = receipt_of(read_frame(connection))
        connection.sendall(MESSAGE + MESSAGE.replace(b"message-id:1", b"message-id:2") + answer)
        connection.sendall(receipt_of(read_frame(connection)))

    with Client(peer(script)) as client:
        client.send("/queue/a", b"x")
        received = [client.receive(0), client.receive(0), client.receive(0)]
    assert [message and message.message_id for message in received] == ["1", "2", None]
    assert received[0] is not None
    assert received[0].body == b"a\0b"


def test_client_keeps_no_more_receipts_outstanding_than_its_window(peer: Callable[[Script], str]) -> None:
    before_the_answer = []

    def script(connection: socket.socket) -> None:
        greet(connection)
        seen = b""
        while seen.count(b"\0") < 3:
            seen += connection.recv(65536)
        connection.settimeout(0.05)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(10)
        before_the_answer.append(seen.count(b"\0"))
        frames = seen.split(b"\0")[:3]
        connection.sendall(b"".join(receipt_of(frame) for frame in frames))
        connection.sendall(receipt_of(read_frame(connection)))
        connection.sendall(receipt_of(read_frame(connection)))

    with Client(peer(script), window=3) as client:
        assert client.send_many("/queue/a", [b"1", b"2", b"3", b"4"]) == 4
    assert before_the_answer == [3]


def test_client_reads_while_its_own_sending_is_held_up(peer: Callable[[Script], str]) -> None:
    """A peer that reads nothing until all it has to say is taken must not meet a client that does the same."""
    many, body = 40, b"y" * 500_000
    message = MESSAGE.replace(b"content-length:3\n\na\0b", b"content-length:500000\n\n" + body)

    def script(connection: socket.socket) -> None:
        greet(connection)
        connection.sendall(message * many)
        frame = b""
        while not frame.endswith(b"\0"):
            frame = frame[-200:] + connection.recv(1 << 20)
        connection.sendall(receipt_of(frame_head))
        connection.sendall(receipt_of(read_frame(connection)))

    frame_head = b"receipt:r1\n"
    with Client(peer(script)) as client:
        client.send("/queue/a", b"x" * 20_000_000)
        for _ in range(many):
            received = client.receive(5)
            assert received is not None
            assert received.body == body


def test_client_reads_why_it_was_hung_up_on(peer: Callable[[Script], str]) -> None:
    """A write fails once the peer is gone; what it said before must not be lost with it."""

    def script(connection: socket.socket) -> None:
        greet(connection)
        connection.recv(1)
        connection.sendall(b"ERROR\nmessage:the reason\n\n\0")

    client = Client(peer(script), window=1_000_000)
    with pytest.raises(Refusal, match="the reason"):
        while True:
            client.send("/queue/a", b"x", confirm=False)


def test_client_beats_while_it_waits(peer: Callable[[Script], str]) -> None:
    beats: list[bytes] = []

    def script(connection: socket.socket) -> None:
        greet(connection, CONNECTED.replace(b"0,0", b"0,50"))
        while len(beats) < 3:
            beats.append(connection.recv(1))
        connection.sendall(MESSAGE)
        read_until_closed(connection)

    client = Client(peer(script), heart_beat_ms=(50, 0))
    assert client.receive(5) is not None
    assert beats == [b"\n"] * 3
    client.__exit__(ValueError, ValueError(), None)


def test_client_takes_a_silent_broker_for_dead(peer: Callable[[Script], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.client.connection.SILENCE_SLACK_S", 0.1)

    def script(connection: socket.socket) -> None:
        greet(connection, CONNECTED.replace(b"0,0", b"50,0"))
        read_until_closed(connection)

    client = Client(peer(script), heart_beat_ms=(0, 50))
    with pytest.raises(ConnectionLost, match=r"silent for 0\.2 s"):
        client.receive(5)


def test_client_leaves_a_silent_broker_alone_that_promised_nothing(
    peer: Callable[[Script], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("radiator.client.connection.SILENCE_SLACK_S", 0.01)

    def script(connection: socket.socket) -> None:
        greet(connection)
        read_until_closed(connection)

    client = Client(peer(script), heart_beat_ms=(0, 1))
    assert client.receive(0.1) is None
    client.__exit__(ValueError, ValueError(), None)


def test_client_raises_what_breaks_the_protocol_before_it_is_sent(peer: Callable[[Script], str]) -> None:
    def script(connection: socket.socket) -> None:
        greet(connection)
        connection.sendall(receipt_of(read_frame(connection)))

    with Client(peer(script)) as client:
        with pytest.raises(Violation, match="no open transaction 'nothing'"):
            client.send("/queue/a", b"x", transaction="nothing")
        with pytest.raises(Violation, match="receipt"):
            client.send("/queue/a", b"x", {"receipt": "mine"})
        assert client.unconfirmed == 0


def test_client_refuses_an_answer_that_is_no_admin_answer(peer: Callable[[Script], str]) -> None:
    def script(connection: socket.socket) -> None:
        greet(connection)
        asked = read_frame(connection)
        correlation = asked.partition(b"correlation-id:")[2].partition(b"\n")[0]
        reply = MESSAGE.partition(b"subscription")[0] + b"subscription:/temp-queue/replies\ncorrelation-id:%b\n\n"
        connection.sendall(reply % b"old" + b"[2]\0" + reply % correlation + b"[1]\0")
        connection.sendall(receipt_of(read_frame(connection)))

    with Client(peer(script)) as client:
        with pytest.raises(Refusal, match="cannot be read"):
            client.admin({"do": "stats"})
        assert client.receive(0) is None, "a reply to no request of ours must be dropped"
        assert client._channel.replies == {}


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[Client]:
    with Client(broker.address, answer_timeout_s=10) as one:
        yield one


def test_a_transaction_is_kept_under_a_name(client: Client) -> None:
    transaction = client.begin()
    client.send("/queue/prepared", "one", transaction=transaction)
    client.commit(transaction, prepare="some")
    [kept] = client.admin({"do": "prepared"})["prepared"]
    assert (kept["name"], kept["messages"]) == ("some", 1)
    client.subscribe("/queue/prepared")
    assert client.receive(0.1) is None
    assert client.admin({"do": "commit", "prepared": ["some"], "app": "tests", "version": 1})["committed"] is True
    message = client.receive(10)
    assert message is not None and message.body == b"one"


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_client_sends_and_receives(broker: BrokerProcess, version: str) -> None:
    body = bytes(range(256))
    headers = {"colour": "a:b" if version == "1.0" else "a:b\\c\nd", "content-type": "application/octet-stream"}
    with Client(broker.address, versions=[version]) as client:
        client.send("/queue/round-trip", body, headers)
        client.subscribe("/queue/round-trip", ack="client")
        message = client.receive(5)
        assert message is not None
        assert (message.body, message.destination) == (body, "/queue/round-trip")
        assert {name: message.headers[name] for name in headers} == headers
        client.ack(message)
        assert client.receive(0.05) is None


def test_client_sends_many_in_order(client: Client) -> None:
    bodies = [b"%d" % number for number in range(350)]
    assert client.send_many("/queue/many", bodies) == 350
    assert client.unconfirmed == 0
    client.subscribe("/queue/many", ack="auto")
    received = [client.receive(5) for _ in bodies]
    assert [message and message.body for message in received] == bodies


def test_client_gets_back_what_it_nacked(client: Client) -> None:
    client.send("/queue/nacked", "once more")
    client.subscribe("/queue/nacked", ack="client-individual")
    message = client.receive(5)
    assert message is not None
    client.nack(message)
    again = client.receive(5)
    assert again is not None
    assert (again.message_id, again.headers["redelivered"]) == (message.message_id, "true")
    client.ack(again)


def test_client_sends_the_hopeless_to_the_dead_letters(client: Client) -> None:
    client.send("/queue/tried", "x")
    client.subscribe("/queue/tried", ack="client-individual")
    message = client.receive(5)
    assert message is not None
    client.nack(message, requeue=False)
    client.subscribe("/queue/dead", ack="auto")
    dead = client.receive(5)
    assert dead is not None
    assert dead.headers["dead-letter-reason"] == "rejected"


def test_messages_are_iterated_over_until_none_comes(client: Client) -> None:
    client.send_many("/queue/many", ["1", "2", "3"])
    client.subscribe("/queue/many")
    assert [message.body for message in client.messages(timeout_s=0.2)] == [b"1", b"2", b"3"]


def test_one_subscription_is_received_and_the_others_wait(client: Client) -> None:
    ones = client.subscribe("/queue/ones")
    others = client.subscribe("/queue/others")
    for number in range(3):
        client.send("/queue/others", f"other {number}")
        client.send("/queue/ones", f"one {number}")
    assert [m.body for m in client.messages(0.2, ones)] == [b"one 0", b"one 1", b"one 2"]
    assert client.receive(0, ones) is None
    first = client.receive(5)
    assert first is not None and first.body == b"other 0"
    assert [m.body for m in client.messages(0.2, others)] == [b"other 1", b"other 2"]


def test_one_subscription_cannot_be_received_behind_a_full_inbox(broker: BrokerProcess) -> None:
    with Client(broker.address) as producer, Client(broker.address, received_max_bytes=10_000) as client:
        ones = client.subscribe("/queue/behind")
        client.subscribe("/queue/before")
        # not by the client itself: its own RECEIPTs may come behind messages that fill its inbox
        producer.send_many("/queue/before", ["x" * 1000] * 9)
        with pytest.raises(NoAnswer, match="received_max_bytes"):
            client.receive(5, ones)
        assert len([*client.messages(0.2)]) == 9


@pytest.mark.parametrize(
    ("body", "headers", "sentence"),
    [
        (None, {}, "body None is of type NoneType: it must be bytes or str"),
        (7, {}, "body 7 is of type int"),
        ("x", {"a": 1}, "headers have"),
        ("x", [("a",)], "headers have"),
        ("x", ["ab"], "headers have"),
    ],
)
def test_wrong_argument_is_said_and_harms_nothing(client: Client, body: Any, headers: Any, sentence: str) -> None:
    with pytest.raises(TypeError, match=sentence):
        client.send("/queue/typed", body, headers)
    with pytest.raises(TypeError, match=sentence):
        client.request("/queue/typed", body, 1, headers)
    client.send("/queue/typed", bytearray(b"x"))


def test_refusal_that_is_told_by_a_receipt_leaves_the_connection(client: Client) -> None:
    to, reported = "/amq/queue/none", [("mandatory", "true"), ("on-refusal", "receipt")]
    with pytest.raises(Refusal, match="mandatory") as refused:
        client.send(to, "x", reported)
    assert refused.value.code == "no-subscriber" and client.is_open
    client.send(to, "x", reported, confirm=False)
    with pytest.raises(Refusal, match="mandatory"):
        client.flush()
    client.send("/queue/goes-on", "x")


def test_client_ends_a_subscription(client: Client) -> None:
    subscription = client.subscribe("/queue/left")
    client.unsubscribe(subscription)
    client.send("/queue/left", "for nobody")
    assert client.receive(0.05) is None


def test_durable_subscription_collects_until_it_is_forgotten(broker: BrokerProcess) -> None:
    def subscribed() -> Client:
        one = Client(broker.address)
        one.subscribe("/topic/durable.#", subscription="mine", ack="client-individual", durable=True)
        return one

    with subscribed() as first:
        first.unsubscribe("mine")
        first.send("/topic/durable.a", "kept")
    with subscribed() as second:
        message = second.receive(5)
        assert message is not None
        assert message.body == b"kept"
        second.ack(message)
    with Client(broker.address) as third:
        third.unsubscribe("mine", forget=True, destination="/topic/durable.#")
        third.send("/topic/durable.a", "for nobody")
    with subscribed() as fourth:
        assert fourth.receive(0.05) is None
        fourth.unsubscribe("mine", forget=True)
        with pytest.raises(Violation, match="no subscription"):
            fourth.unsubscribe("mine")
        with pytest.raises(Violation, match="needs an id"):
            fourth.subscribe("/topic/durable.#", durable=True)


def test_subscription_that_was_refused_can_be_asked_for_again(client: Client, broker: BrokerProcess) -> None:
    with pytest.raises(Violation, match="must be auto"):
        client.subscribe("/queue/refused", subscription="mine", ack="sometimes")
    client.subscribe("/queue/refused", subscription="mine")
    with pytest.raises(Violation, match="exists already"):
        client.subscribe("/queue/refused", subscription="mine")
    client.send("/queue/refused", "x")
    assert client.receive(5) is not None


def test_nacked_message_comes_back_after_its_delay(client: Client) -> None:
    client.send("/queue/nacked-later", "x")
    client.subscribe("/queue/nacked-later", ack="client-individual")
    message = client.receive(5)
    assert message is not None
    began_s = time.monotonic()
    client.nack(message, delay_ms=300)
    again = client.receive(5)
    assert again is not None
    assert time.monotonic() - began_s >= 0.3
    assert client.ack(again)


def test_transaction_happens_as_a_whole_or_not_at_all(client: Client) -> None:
    client.subscribe("/queue/all-or-nothing")
    with pytest.raises(ZeroDivisionError), client.transaction() as failing:
        client.send("/queue/all-or-nothing", "never", transaction=failing)
        1 / 0  # noqa: B018
    with client.transaction() as transaction:
        client.send("/queue/all-or-nothing", "one", transaction=transaction)
        client.send("/queue/all-or-nothing", "two", transaction=transaction)
        assert client.receive(0.05) is None
    bodies = [message and message.body for message in (client.receive(5), client.receive(5), client.receive(0.05))]
    assert bodies == [b"one", b"two", None]


def test_request_gets_its_reply(broker: BrokerProcess, client: Client) -> None:
    def answer() -> None:
        with Client(broker.address) as server:
            server.subscribe("/queue/memory.rpc")
            for _ in range(2):
                asked = server.receive(10)
                assert asked is not None
                headers = {"correlation-id": asked.headers["correlation-id"]}
                server.send(asked.headers["reply-to"], asked.body.upper(), headers)

    thread = threading.Thread(target=answer)
    thread.start()
    replies = [client.request("/queue/memory.rpc", text, timeout_s=10).body for text in ("one", "two")]
    thread.join()
    assert replies == [b"ONE", b"TWO"]


def test_request_says_that_nobody_answers(client: Client) -> None:
    with pytest.raises(NoAnswer, match=r"No reply to a request to /queue/memory\.nobody came within 0\.05 s\."):
        client.request("/queue/memory.nobody", "?", timeout_s=0.05)
    assert client.receive(0) is None


def test_admin_answers_and_refuses(client: Client) -> None:
    client.send("/queue/seen", "x")
    answer = client.admin({"do": "stats"})
    assert answer["queues"]["seen"]["stored"] == 1
    with pytest.raises(Refusal, match="unheard-of"):
        client.admin({"do": "purge", "queue": "unheard-of"})
    assert client.admin({"do": "purge", "queue": "seen"})["purged"] == 1


def test_refused_send_raises_and_closes(broker: BrokerProcess) -> None:
    client = Client(broker.address)
    client.send("/queue/small.one", "fits")
    with pytest.raises(Refusal) as refused:
        client.send("/queue/small.one", "does not")
    assert refused.value.code
    assert str(refused.value).endswith(".")
    with pytest.raises(RadiatorError, match="There is no connection .*: the broker refused: "):
        client.send("/queue/small.one", "nor this")


def test_close_waits_no_longer_than_it_may(peer: Callable[[Script], str]) -> None:
    def script(connection: socket.socket) -> None:
        greet(connection)
        read_until_closed(connection)

    client = Client(peer(script))
    with pytest.raises(NoAnswer, match=r"no RECEIPT within 0\.05 s"):
        client.close(timeout_s=0.05)
    assert not client.is_open


def test_close_awaits_what_is_outstanding(broker: BrokerProcess) -> None:
    with Client(broker.address) as client:
        for number in range(50):
            client.send("/queue/closing", str(number), confirm=False)
    with Client(broker.address) as client:
        assert client.admin({"do": "stats"})["queues"]["closing"]["stored"] == 50


def test_block_that_raises_gives_unacked_messages_back(broker: BrokerProcess, client: Client) -> None:
    client.send("/queue/given-back", "x")
    with pytest.raises(ZeroDivisionError), Client(broker.address) as other:
        other.subscribe("/queue/given-back", ack="client-individual")
        assert other.receive(5) is not None
        1 / 0  # noqa: B018
    client.subscribe("/queue/given-back")
    message = client.receive(5)
    assert message is not None
    assert message.headers["redelivered"] == "true"


def test_client_says_that_the_broker_went_away(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        client = Client(broker.address)
        client.send("/queue/a", "kept")
        broker.kill()
        with pytest.raises(ConnectionLost, match="is lost"):
            client.receive(5)
        broker.start()
        with Client(broker.address) as again:
            again.subscribe("/queue/a")
            message = again.receive(5)
            assert message is not None
            assert message.body == b"kept"
