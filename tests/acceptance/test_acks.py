"""ACK, NACK, UNSUBSCRIBE and lost connections (contract 1, 3)."""

import pytest

from tests.acceptance.conftest import Connect, queue_stats
from tests.acceptance.wire import Frame, Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, BrokerProcess

CONFIG = EVERYTHING_MAY_BE_CREATED + '[queue."memory.#"]\npersistent = false\n'

WIDE = {"prefetch-count": "10"}


@pytest.fixture(params=["durable", "memory"])
def queue(request: pytest.FixtureRequest, name: str) -> str:
    """Each test runs on a queue of either kind."""
    return f"/queue/{request.param}.{name}"


def fill(wire: Wire, queue: str, count: int) -> list[str]:
    bodies = [f"m{number}" for number in range(count)]
    for body in bodies:
        wire.send(queue, body)
    return bodies


def left(connect: Connect, queue: str) -> list[tuple[str, str, str | None]]:
    """What a new consumer gets: body, redelivered, redelivery-count."""
    wire = connect()
    wire.send(queue, "end")
    wire.subscribe(queue, ack="auto")
    got: list[Frame] = []
    while not got or got[-1].body != b"end":
        got.append(wire.message())
    return [(one.body.decode(), one["redelivered"], one.get("redelivery-count")) for one in got[:-1]]


def test_acked_message_is_gone(connect: Connect, wire: Wire, queue: str) -> None:
    fill(wire, queue, 2)
    wire.subscribe(queue)
    wire.ack(wire.message())
    wire.ask("DISCONNECT")
    assert left(connect, queue) == [("m1", "true", "1")]


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_client_ack_means_all_sent_before_on_the_same_subscription(connect: Connect, queue: str, version: str) -> None:
    wire = connect(version)
    fill(wire, queue, 4)
    fill(wire, f"{queue}-2", 1)
    wire.subscribe(f"{queue}-2", id="2", ack="client", headers=WIDE)
    wire.message()
    wire.subscribe(queue, id="1", ack="client", headers=WIDE)
    messages = wire.messages(4)
    wire.ack(messages[2])
    wire.ask("DISCONNECT")
    assert left(connect, queue) == [("m3", "true", "1")]
    assert left(connect, f"{queue}-2") == [("m0", "true", "1")]


def test_client_individual_ack_means_one(connect: Connect, wire: Wire, queue: str) -> None:
    fill(wire, queue, 3)
    wire.subscribe(queue, headers=WIDE)
    wire.ack(wire.messages(3)[1])
    wire.ask("DISCONNECT")
    assert left(connect, queue) == [("m0", "true", "1"), ("m2", "true", "1")]


def test_auto_needs_no_ack(broker: BrokerProcess, connect: Connect, wire: Wire, queue: str) -> None:
    fill(wire, queue, 3)
    wire.subscribe(queue, ack="auto")
    wire.messages(3)
    wire.ask("DISCONNECT")
    assert left(connect, queue) == []


def test_subscribe_without_ack_is_auto(wire: Wire, queue: str) -> None:
    fill(wire, queue, 3)
    wire.ask("SUBSCRIBE", {"id": "0", "destination": queue})
    assert wire.bodies(3) == ["m0", "m1", "m2"]


@pytest.mark.parametrize("command", ["ACK", "NACK"])
@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_ack_on_an_auto_subscription_is_ignored(connect: Connect, queue: str, version: str, command: str) -> None:
    wire = connect(version)
    wire.subscribe(queue, ack="auto")
    wire.send(queue, "x")
    message = wire.message()
    named = {"id": message["message-id"]} if version == "1.2" else wire.naming(message)
    wire.ask(command, named)
    assert wire.is_silent()


@pytest.mark.parametrize("command", ["ACK", "NACK"])
@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_ack_of_what_was_never_sent_is_an_error(connect: Connect, queue: str, version: str, command: str) -> None:
    wire = connect(version)
    wire.subscribe(queue)
    named = {"id": "no-such-id"} if version == "1.2" else {"message-id": "no-such-id", "subscription": "0"}
    asked = wire.begin_ask(command, named)
    error = wire.refusal()
    assert error["receipt-id"] == asked
    assert b"no-such-id" in error.body


@pytest.mark.parametrize("second", ["ACK", "NACK"])
@pytest.mark.parametrize("first", ["ACK", "NACK"])
def test_second_ack_is_an_error(connect: Connect, wire: Wire, queue: str, first: str, second: str) -> None:
    wire.send(queue, "x")
    wire.subscribe(queue)
    message = wire.message()
    wire.ask("UNSUBSCRIBE", {"id": "0"})  # so that a NACK does not bring it back here
    wire.ask(first, wire.naming(message))
    wire.send_frame(second, wire.naming(message))
    wire.refusal()


def test_ack_of_another_connection_s_message_is_an_error(connect: Connect, wire: Wire, queue: str) -> None:
    wire.send(queue, "x")
    wire.subscribe(queue)
    message = wire.message()
    thief = connect()
    thief.send_frame("ACK", wire.naming(message))
    thief.refusal()
    wire.ack(message)


def test_ack_of_1_1_means_the_message_that_it_names(connect: Connect, queue: str) -> None:
    wire = connect("1.1")
    wire.send(queue, "x")
    wire.subscribe(queue, id="a")
    wire.subscribe(f"{queue}-b", id="b")
    message = wire.message()
    wire.ask("ACK", {"message-id": message["message-id"], "subscription": "b"})
    wire.send_frame("ACK", {"message-id": message["message-id"], "subscription": "b"})
    wire.refusal()


def test_nacked_message_comes_back_to_its_own_place(wire: Wire, queue: str) -> None:
    fill(wire, queue, 3)
    wire.subscribe(queue)
    wire.nack(wire.message())
    again = wire.message()
    assert (again.body, again["redelivered"], again["redelivery-count"]) == (b"m0", "true", "1")
    wire.nack(again)
    again = wire.message()
    assert (again.body, again["redelivered"], again["redelivery-count"]) == (b"m0", "true", "2")
    wire.ack(again)
    rest = wire.message()
    assert (rest.body, rest["redelivered"], rest.get("redelivery-count")) == (b"m1", "false", None)


def test_nacked_message_keeps_its_id_and_time(wire: Wire, queue: str) -> None:
    fill(wire, queue, 1)
    wire.subscribe(queue)
    first = wire.message()
    wire.nack(first)
    again = wire.message()
    assert again["message-id"] == first["message-id"]
    assert again["timestamp"] == first["timestamp"]


def test_nack_in_client_mode_means_all_sent_before(wire: Wire, queue: str) -> None:
    fill(wire, queue, 4)
    wire.subscribe(queue, ack="client", headers={"prefetch-count": "4"})
    wire.nack(wire.messages(4)[2])
    back = wire.messages(3)
    assert [one.body for one in back] == [b"m0", b"m1", b"m2"]
    assert {one["redelivery-count"] for one in back} == {"1"}
    assert wire.is_silent()


def test_messages_of_a_lost_connection_come_back_in_order(connect: Connect, wire: Wire, queue: str) -> None:
    fill(wire, queue, 5)
    lost = connect()
    lost.subscribe(queue, headers={"prefetch-count": "3"})
    lost.messages(3)
    lost.close()
    wire.subscribe(queue, headers=WIDE)
    got = wire.messages(5)
    # the loss may be noticed after the new consumer: then what was out comes last, and in order all the same
    assert [one.body for one in got] in ([b"m0", b"m1", b"m2", b"m3", b"m4"], [b"m3", b"m4", b"m0", b"m1", b"m2"])
    assert {one.body: one["redelivered"] for one in got} == {
        b"m0": "true",
        b"m1": "true",
        b"m2": "true",
        b"m3": "false",
        b"m4": "false",
    }


def test_message_without_dead_letter_comes_back_without_limit(wire: Wire, queue: str) -> None:
    wire.send(queue, "x")
    wire.subscribe(queue)
    for _ in range(39):
        wire.nack(wire.message())
    assert wire.message()["redelivery-count"] == "39"


def test_nack_without_requeue_and_without_dead_letter_drops_and_counts(
    broker: BrokerProcess, connect: Connect, wire: Wire, queue: str
) -> None:
    fill(wire, queue, 2)
    wire.subscribe(queue)
    wire.nack(wire.message(), {"requeue": "false"})
    assert wire.message().body == b"m1"
    assert queue_stats(broker, queue)["dropped"] == 1


def test_nack_with_requeue_true_comes_back(wire: Wire, queue: str) -> None:
    wire.send(queue, "x")
    wire.subscribe(queue)
    wire.nack(wire.message(), {"requeue": "true"})
    assert wire.message()["redelivery-count"] == "1"


def test_unsubscribe_ends_new_deliveries_and_keeps_what_is_unacked(connect: Connect, wire: Wire, queue: str) -> None:
    fill(wire, queue, 3)
    wire.subscribe(queue, id="1", headers={"prefetch-count": "2"})
    messages = wire.messages(2)
    wire.ask("UNSUBSCRIBE", {"id": "1"})
    wire.ack(messages[0])
    wire.fence()
    assert wire.early == []
    other = connect()
    other.subscribe(queue)
    assert other.message().body == b"m2", "what is unacked was not given to anybody else"
    wire.ack(messages[1])


def test_unacked_after_unsubscribe_comes_back_with_the_end_of_the_connection(
    connect: Connect, wire: Wire, queue: str
) -> None:
    fill(wire, queue, 1)
    wire.subscribe(queue, id="1")
    wire.message()
    wire.ask("UNSUBSCRIBE", {"id": "1"})
    other = connect()
    other.subscribe(queue)
    assert other.is_silent()
    wire.ask("DISCONNECT")
    back = other.message()
    assert (back.body, back["redelivered"]) == (b"m0", "true")


def test_unacked_after_unsubscribe_can_be_nacked(connect: Connect, wire: Wire, queue: str) -> None:
    fill(wire, queue, 1)
    wire.subscribe(queue, id="1")
    message = wire.message()
    wire.ask("UNSUBSCRIBE", {"id": "1"})
    other = connect()
    other.subscribe(queue)
    wire.nack(message)
    assert other.message()["redelivery-count"] == "1"


def test_unacked_after_unsubscribe_counts_in_the_shared_window(wire: Wire, queue: str) -> None:
    fill(wire, queue, 1)
    fill(wire, f"{queue}-2", 1)
    wire.subscribe(queue, id="1")
    message = wire.message()
    wire.ask("UNSUBSCRIBE", {"id": "1"})
    wire.subscribe(f"{queue}-2", id="2")
    assert wire.is_silent()
    wire.ack(message)
    assert wire.message()["subscription"] == "2"


def test_unsubscribe_of_what_was_never_subscribed_is_an_error(wire: Wire) -> None:
    wire.send_frame("UNSUBSCRIBE", {"id": "never"})
    assert b"never" in wire.refusal().body


def test_second_subscription_with_one_id_is_an_error(wire: Wire, queue: str) -> None:
    wire.subscribe(queue, id="same")
    wire.send_frame("SUBSCRIBE", {"id": "same", "destination": f"{queue}-2"})
    assert b"same" in wire.refusal().body


def test_one_connection_may_subscribe_twice_to_one_queue(wire: Wire, queue: str) -> None:
    wire.subscribe(queue, id="a", headers={"prefetch-count": "1"})
    wire.subscribe(queue, id="b", headers={"prefetch-count": "1"})
    fill(wire, queue, 3)
    messages = wire.messages(2)
    assert sorted(message["subscription"] for message in messages) == ["a", "b"]
    assert wire.is_silent()
    wire.ack(messages[0])
    assert wire.message().body == b"m2"


def test_unknown_ack_mode_is_refused(wire: Wire, queue: str) -> None:
    wire.send_frame("SUBSCRIBE", {"id": "1", "destination": queue, "ack": "sometimes"})
    assert b"sometimes" in wire.refusal().body
