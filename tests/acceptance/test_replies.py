"""Temp queues and the addresses of replies (contract 2)."""

import pytest

from tests.acceptance.conftest import Connect, stats
from tests.acceptance.wire import Frame, Wire
from tests.broker_process import BrokerProcess


def ask(asker: Wire, worker: Wire, queue: str, headers: dict[str, str] | None = None) -> Frame:
    """A request from asker to worker: as the worker gets it."""
    asker.send(queue, "question", {"reply-to": "/temp-queue/answers", **(headers or {})})
    request = worker.message()
    worker.ack(request)
    return request


@pytest.fixture
def asker(connect: Connect) -> Wire:
    return connect()


@pytest.fixture
def worker(connect: Connect, queue: str) -> Wire:
    worker = connect()
    worker.subscribe(queue)
    return worker


def test_answer_comes_to_a_subscription_made_for_it(asker: Wire, worker: Wire, queue: str) -> None:
    request = ask(asker, worker, queue, {"correlation-id": "17", "colour": "green"})
    assert request["reply-to"].startswith("/reply-queue/")
    assert request["correlation-id"] == "17"
    assert request["colour"] == "green"
    worker.send(request["reply-to"], "answer", {"correlation-id": "17"})
    answer = asker.message()
    assert answer.body == b"answer"
    assert answer["subscription"] == "/temp-queue/answers"
    assert answer["correlation-id"] == "17"
    assert "ack" not in answer, "ack:auto"


def test_answer_comes_to_the_asker_s_own_subscription(asker: Wire, worker: Wire, queue: str) -> None:
    asker.subscribe("/temp-queue/answers", id="mine", ack="client-individual")
    request = ask(asker, worker, queue)
    worker.send(request["reply-to"], "answer")
    answer = asker.message()
    assert answer["subscription"] == "mine"
    asker.ack(answer)


def test_answers_need_no_room_in_the_shared_window(asker: Wire, worker: Wire, queue: str) -> None:
    asker.subscribe(f"{queue}-work")
    asker.send(f"{queue}-work", "unacked")
    asker.message()
    request = ask(asker, worker, queue)
    for number in range(3):
        worker.send(request["reply-to"], str(number))
    assert asker.bodies(3) == ["0", "1", "2"]


def test_temp_queue_is_consumed_by_its_own_connection_only(
    connect: Connect, asker: Wire, worker: Wire, queue: str
) -> None:
    request = ask(asker, worker, queue)
    other = connect()
    other.subscribe("/temp-queue/answers", ack="auto")  # the same name, another queue
    other.send_frame("SUBSCRIBE", {"id": "steal", "destination": request["reply-to"]})
    other.refusal()
    worker.send(request["reply-to"], "answer")
    assert asker.message().body == b"answer"


def test_reply_addresses_differ_and_have_128_bits(connect: Connect, worker: Wire, queue: str) -> None:
    addresses = {ask(connect(), worker, queue)["reply-to"].removeprefix("/reply-queue/") for _ in range(20)}
    assert len(addresses) == 20
    assert all(len(address) >= 22 for address in addresses), "22 characters of base64 hold 128 bits"
    prefixes = {address[:8] for address in addresses}
    assert len(prefixes) == 20, "no common beginning"


def test_another_reply_to_travels_unchanged(asker: Wire, worker: Wire, queue: str) -> None:
    for address in ("/queue/answers", "/topic/x", "mailto:me@example.org", "/reply-queue/abc"):
        asker.send(queue, "question", {"reply-to": address})
        request = worker.message()
        assert request["reply-to"] == address
        worker.ack(request)


def test_answer_to_who_is_gone_is_dropped_and_counted(
    broker: BrokerProcess, asker: Wire, worker: Wire, queue: str
) -> None:
    request = ask(asker, worker, queue)
    asker.ask("DISCONNECT")
    before = stats(broker)["counters"].get("replies_dropped", 0)
    worker.send(request["reply-to"], "answer")
    assert stats(broker)["counters"]["replies_dropped"] == before + 1


def test_answer_to_nobody_is_dropped(wire: Wire) -> None:
    wire.send("/reply-queue/00112233445566778899aabbccddeeff", "x")
    wire.send("/reply-queue/x", "x")


def test_mandatory_answer_to_who_is_gone_is_refused(asker: Wire, worker: Wire, queue: str) -> None:
    request = ask(asker, worker, queue)
    worker.send(request["reply-to"], "answer", {"mandatory": "true"})
    asker.ask("DISCONNECT")
    asked = worker.begin_ask("SEND", {"destination": request["reply-to"], "mandatory": "true"}, b"x")
    assert worker.refusal()["receipt-id"] == asked


def test_full_reply_queue_drops_and_never_blocks(broker: BrokerProcess, asker: Wire, worker: Wire, queue: str) -> None:
    asker.subscribe("/temp-queue/answers", id="mine")  # one unacked, and never an ACK
    request = ask(asker, worker, queue)
    before = stats(broker)["counters"].get("replies_dropped", 0)
    for _ in range(68):
        worker.send(request["reply-to"], b"x" * 1_000_000)
    assert stats(broker)["counters"]["replies_dropped"] > before, "64 MiB are the bound of a memory queue"
    worker.send_frame("SEND", {"destination": request["reply-to"], "mandatory": "true"}, b"x" * 1_000_000)
    worker.refusal()


def test_request_to_a_topic_carries_the_reply_address(asker: Wire, connect: Connect, name: str) -> None:
    listener = connect()
    listener.subscribe(f"/topic/{name}", ack="auto")
    asker.send(f"/topic/{name}", "who is there?", {"reply-to": "/temp-queue/answers"})
    listener.send(listener.message()["reply-to"], "me")
    assert asker.message().body == b"me"


def test_request_in_a_transaction_carries_the_reply_address(asker: Wire, worker: Wire, queue: str) -> None:
    asker.ask("BEGIN", {"transaction": "t"})
    asker.send(queue, "question", {"reply-to": "/temp-queue/answers", "transaction": "t"})
    asker.ask("COMMIT", {"transaction": "t"})
    worker.send(worker.message()["reply-to"], "answer")
    assert asker.message().body == b"answer"


def test_reply_in_a_transaction_comes_at_commit(asker: Wire, worker: Wire, queue: str) -> None:
    """The usual worker: ACK of the request and SEND of the answer, both or neither."""
    asker.send(queue, "question", {"reply-to": "/temp-queue/answers"})
    request = worker.message()
    worker.ask("BEGIN", {"transaction": "t"})
    worker.ack(request, {"transaction": "t"})
    worker.send(request["reply-to"], "answer", {"transaction": "t"})
    assert asker.is_silent()
    worker.ask("COMMIT", {"transaction": "t"})
    assert asker.message().body == b"answer"
