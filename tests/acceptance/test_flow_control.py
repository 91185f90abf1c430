"""One unacked over all subscriptions, own windows, round robin, and who waits for whom (contract 4)."""

import time

import pytest

from tests.acceptance.conftest import Connect
from tests.acceptance.wire import Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED

CONFIG = (
    EVERYTHING_MAY_BE_CREATED
    + """\
[limits]
outbox_max_bytes = "256KiB"
block_timeout_s = 2
heart_beat_ms = [200, 200]
[queue."memory.#"]
persistent = false
[queue."one.#"]
max_messages = 1
"""
)


@pytest.mark.parametrize("kind", ["durable", "memory"])
@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_worked_example(connect: Connect, name: str, kind: str, version: str) -> None:
    """Contract 4: C1 subscribes Q1, Q2 and topic T1, all `client-individual`."""
    q1, q2, t1 = f"/queue/{kind}.{name}.1", f"/queue/{kind}.{name}.2", f"/topic/{name}"
    c1, sender = connect(version), connect()
    for number, destination in enumerate((q1, q2, t1)):
        c1.subscribe(destination, id=str(number))
    sender.send(q1, "M1")
    sender.send(q1, "M2")
    m1 = c1.message()
    assert m1.body == b"M1"
    sender.send(q2, "M3")
    assert c1.is_silent()
    c1.ack(m1)
    m3 = c1.message()
    assert m3.body == b"M3"
    sender.send(t1, "M4")
    assert c1.message().body == b"M4"
    assert c1.is_silent()
    c1.ack(m3)
    m2 = c1.message()
    assert m2.body == b"M2"
    c1.ack(m2)
    assert c1.is_silent()


@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_one_unacked_over_all_subscriptions(wire: Wire, queue: str, ack: str) -> None:
    for number in range(3):
        wire.subscribe(f"{queue}-{number}", id=str(number), ack=ack)
    for number in range(3):
        wire.send(f"{queue}-{number}", str(number))
    for number in range(3):
        message = wire.message()
        assert message.body.decode() == str(number)
        assert wire.is_silent()
        wire.ack(message)


def test_nack_opens_the_window_too(wire: Wire, queue: str) -> None:
    for number in range(2):
        wire.send(f"{queue}-{number}", str(number))
        wire.subscribe(f"{queue}-{number}", id=str(number))
    wire.nack(wire.message())
    assert wire.message().body == b"1"


def test_next_comes_from_the_next_subscription_that_has_one(wire: Wire, queue: str) -> None:
    for number in range(3):
        for copy in range(2):
            wire.send(f"{queue}-{number}", f"{number}.{copy}")
    for number in range(3):
        wire.subscribe(f"{queue}-{number}", id=str(number))
    got = []
    for _ in range(6):
        got.append(wire.message())
        wire.ack(got[-1])
    assert [one.body for one in got] == [b"0.0", b"1.0", b"2.0", b"0.1", b"1.1", b"2.1"]


@pytest.mark.parametrize("ack", ["client", "client-individual"])
@pytest.mark.parametrize("header", ["prefetch-count", "activemq.prefetchSize"])
def test_prefetch_count_is_a_window_of_its_own(wire: Wire, queue: str, ack: str, header: str) -> None:
    for number in range(5):
        wire.send(f"{queue}-wide", f"wide {number}")
        wire.send(f"{queue}-shared", f"shared {number}")
    wire.subscribe(f"{queue}-wide", id="wide", ack=ack, headers={header: "3"})
    wire.subscribe(f"{queue}-shared", id="shared", ack=ack)
    messages = wire.messages(4)
    assert sorted(one.body.decode() for one in messages) == ["shared 0", "wide 0", "wide 1", "wide 2"]
    assert wire.is_silent()
    wire.ack(next(one for one in messages if one.body == b"wide 0"))
    assert wire.message().body == b"wide 3"
    assert wire.is_silent()


@pytest.mark.parametrize("count", ["1", "65535"])
def test_prefetch_count_from_1_to_65535_works(wire: Wire, queue: str, count: str) -> None:
    wire.subscribe(queue, headers={"prefetch-count": count})


@pytest.mark.parametrize("count", ["0", "65536", "-1", "1.5", "many", ""])
@pytest.mark.parametrize("header", ["prefetch-count", "activemq.prefetchSize"])
def test_prefetch_count_outside_is_refused(wire: Wire, queue: str, header: str, count: str) -> None:
    wire.send_frame("SUBSCRIBE", {"id": "1", "destination": queue, header: count})
    assert header.encode() in wire.refusal().body


def test_auto_is_not_limited_by_the_window(wire: Wire, queue: str) -> None:
    wire.send(f"{queue}-acked", "unacked")
    wire.subscribe(f"{queue}-acked", id="acked")
    wire.message()
    for number in range(10):
        wire.send(queue, str(number))
    wire.subscribe(queue, id="auto", ack="auto")
    assert wire.bodies(10) == [str(number) for number in range(10)]


def test_consumers_of_one_queue_take_turns(connect: Connect, wire: Wire, queue: str) -> None:
    consumers = [connect() for _ in range(3)]
    for consumer in consumers:
        consumer.subscribe(queue, headers={"prefetch-count": "10"})
    for number in range(9):
        wire.send(queue, str(number))
    got = [consumer.bodies(3) for consumer in consumers]
    assert got == [["0", "3", "6"], ["1", "4", "7"], ["2", "5", "8"]]


def test_consumer_without_room_is_passed_over(connect: Connect, wire: Wire, queue: str) -> None:
    narrow, wide = connect(), connect()
    narrow.subscribe(queue)
    wide.subscribe(queue, headers={"prefetch-count": "10"})
    for number in range(5):
        wire.send(queue, str(number))
    assert narrow.bodies(1) == ["0"]
    assert wide.bodies(4) == ["1", "2", "3", "4"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ack", "headers"), [("auto", {}), ("client-individual", {"prefetch-count": "65535"})], ids=["auto", "window"]
)
@pytest.mark.parametrize("kind", ["durable", "memory"])
def test_queue_waits_for_a_slow_consumer_and_closes_nobody(
    connect: Connect, wire: Wire, name: str, ack: str, headers: dict[str, str], kind: str
) -> None:
    queue = f"/queue/{kind}.{name}"
    slow, fast = connect(), connect()
    slow.subscribe(queue, ack=ack, headers=headers)
    for _ in range(150):
        wire.send(queue, b"x" * 100_000)
    fast.subscribe(queue, ack="auto")
    taken = []
    while True:
        try:
            taken.append(fast.message(0.5)["message-id"])
        except TimeoutError:
            break
    assert taken, "what did not fit the slow one's buffers stayed in the queue, for others"
    rest = [slow.message()["message-id"] for _ in range(150 - len(taken))]
    assert len({*taken, *rest}) == 150


def test_send_that_finds_no_room_stops_its_connection_and_no_other(
    connect: Connect, wire: Wire, queue: str, name: str
) -> None:
    full = f"/queue/one.{name}"
    wire.send(full, "1")
    both, other = connect(), connect()
    both.send(queue, "a")
    both.send(queue, "b")
    both.subscribe(queue)
    message = both.message()
    asked = both.begin_ask("SEND", {"destination": full}, b"2")
    acked = both.begin_ask("ACK", both.naming(message))
    other.send(queue, "c")
    other.subscribe(full)
    first = other.message()
    with pytest.raises(TimeoutError):
        both.read_frame(0.3)
    other.ack(first)
    both.await_receipt(asked)
    both.await_receipt(acked)
    assert both.message().body == b"b"


def test_blocked_sends_go_on_first_come_first_served(connect: Connect, wire: Wire, name: str) -> None:
    full = f"/queue/one.{name}"
    wire.send(full, "0")
    waiting = []
    for number in range(1, 4):
        sender = connect()
        waiting.append((sender, sender.begin_ask("SEND", {"destination": full}, str(number).encode())))
        wire.fence()
        time.sleep(0.02)  # the fence is on another connection: give this one's frame time to be read
    wire.subscribe(full)
    for number, (sender, asked) in enumerate(waiting):
        message = wire.message()
        assert message.body.decode() == str(number)
        wire.ack(message)
        sender.await_receipt(asked)
    assert wire.message().body == b"3"


@pytest.mark.slow
def test_send_that_waits_too_long_is_refused_and_its_clocks_stand_still(connect: Connect, name: str) -> None:
    """block_timeout_s is 2; the client is silent for longer than its heart-beats allow, and is refused only then."""
    full = f"/queue/one.{name}"
    connect().send(full, "1")
    blocked = connect(headers={"heart-beat": "200,0"})
    asked = blocked.begin_ask("SEND", {"destination": full}, b"2")
    began_s = time.monotonic()
    error = blocked.refusal()
    assert error["receipt-id"] == asked
    assert f"one.{name}".encode() in error.body
    assert 1.8 <= time.monotonic() - began_s <= 3.5


@pytest.mark.slow
def test_blocked_connection_still_gets_heart_beats_and_deliveries(connect: Connect, queue: str, name: str) -> None:
    """Nothing is read from it; writing goes on."""
    full = f"/queue/one.{name}"
    other = connect()
    other.send(full, "1")
    blocked = connect(headers={"heart-beat": "0,200"})
    blocked.subscribe(queue)
    blocked.send_frame("SEND", {"destination": full}, b"2")
    other.send(queue, "delivered")
    assert blocked.message().body == b"delivered"
    with pytest.raises(TimeoutError):
        blocked.read_frame(0.9)
    assert blocked.ends_of_line >= 3


@pytest.mark.slow
def test_client_that_does_not_read_its_receipts_is_not_read_from(connect: Connect, queue: str) -> None:
    """Its outgoing buffer is over outbox_max_bytes: it waits, nobody is closed, nothing is lost."""
    wire = connect()
    sent = 0
    wire.socket.settimeout(1)
    padding = "x" * 3000  # a receipt id as long as that fills buffers soon
    with pytest.raises(TimeoutError):
        while sent < 50_000:
            wire.send_raw(wire.frame("SEND", {"destination": f"/topic/{sent % 7}", "receipt": f"{sent} {padding}"}))
            sent += 1
    wire.socket.settimeout(10)
    assert 100 < sent < 20_000
    for number in range(sent):
        assert wire.read("RECEIPT")["receipt-id"].startswith(f"{number} ")
