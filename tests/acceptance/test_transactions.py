"""Transactions: nothing before COMMIT, everything at it, and no trace of one that was not committed (contract 1, 3)."""

import pytest

from tests.acceptance.conftest import Connect, queue_stats, stats
from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess

CONFIG = """\
[limits]
block_timeout_s = 0.5
max_transactions = 4
max_batch_bytes = "1MiB"
[create]
queues = true
topics = true
[queue."memory.#"]
persistent = false
[queue."tiny.#"]
max_messages = 2
overflow = "reject"
[queue."waits.#"]
max_messages = 2
[queue."once.#"]
dedup_window_s = 60
[queue."buries.#"]
dead_letter = "dead"
"""

T = {"transaction": "t"}


def stored(broker: BrokerProcess, address: str) -> int:
    """How many messages there are; 0 where the queue was never made."""
    numbers = stats(broker)["queues"].get(address.removeprefix("/queue/"))
    return int(numbers["stored"]) if numbers else 0


def test_sends_happen_at_commit(connect: Connect, wire: Wire, queue: str) -> None:
    reader = connect()
    reader.subscribe(queue, ack="auto")
    wire.ask("BEGIN", T)
    for body in ("one", "two", "three"):
        wire.send(queue, body, T)
    assert reader.is_silent()
    wire.ask("COMMIT", T)
    assert reader.bodies(3) == ["one", "two", "three"]


@pytest.mark.parametrize("end", ["ABORT", "DISCONNECT", "close"])
def test_what_is_not_committed_leaves_no_trace(
    broker: BrokerProcess, connect: Connect, wire: Wire, queue: str, name: str, end: str
) -> None:
    wire.send(queue, "work")
    wire.subscribe(queue)
    message = wire.message()
    wire.ask("BEGIN", T)
    wire.send(f"{queue}-out", "result", T)
    wire.send(f"/queue/memory.{name}", "result", T)
    wire.ack(message, T)
    if end == "ABORT":
        wire.ask("ABORT", T)
        wire.ack(message)  # unacked as before
    elif end == "DISCONNECT":
        wire.ask("DISCONNECT")
    else:
        wire.close()
    reader = connect()
    if end != "ABORT":
        reader.subscribe(queue, ack="auto", id="work")
        back = reader.message()
        assert (back.body, back["redelivered"]) == (b"work", "true")
    for place in (f"{queue}-out", f"/queue/memory.{name}"):
        reader.subscribe(place, ack="auto", id=place)
    assert reader.is_silent()


def test_transaction_spans_persistent_and_memory_queues_and_topics(
    connect: Connect, wire: Wire, queue: str, name: str
) -> None:
    places = (queue, f"/queue/memory.{name}", f"/topic/{name}")
    reader = connect()
    for place in places:
        reader.subscribe(place, ack="auto", id=place)
    wire.ask("BEGIN", T)
    for place in places:
        wire.send(place, place, T)
    assert reader.is_silent()
    wire.ask("COMMIT", T)
    assert sorted(reader.bodies(3)) == sorted(places)


def test_messages_of_one_commit_are_next_to_each_other(connect: Connect, wire: Wire, queue: str) -> None:
    other = connect()
    wire.ask("BEGIN", T)
    wire.send(queue, "in 1", T)
    other.send(queue, "before")
    wire.send(queue, "in 2", T)
    wire.ask("COMMIT", T)
    other.send(queue, "after")
    other.subscribe(queue, ack="auto")
    assert other.bodies(4) == ["before", "in 1", "in 2", "after"]


def test_ack_opens_the_window_at_commit(wire: Wire, queue: str) -> None:
    wire.send(queue, "one")
    wire.send(queue, "two")
    wire.subscribe(queue)
    wire.ask("BEGIN", T)
    wire.ack(wire.message(), T)
    assert wire.is_silent()
    wire.ask("COMMIT", T)
    assert wire.message().body == b"two"


def test_nack_comes_back_at_commit(wire: Wire, queue: str) -> None:
    wire.send(queue, "one")
    wire.subscribe(queue)
    wire.ask("BEGIN", T)
    wire.nack(wire.message(), T)
    assert wire.is_silent()
    wire.ask("COMMIT", T)
    assert wire.message()["redelivery-count"] == "1"


def test_nack_to_the_dead_letter_queue_happens_at_commit(broker: BrokerProcess, wire: Wire, name: str) -> None:
    wire.send(f"/queue/buries.{name}", "bad")
    wire.subscribe(f"/queue/buries.{name}")
    wire.ask("BEGIN", T)
    wire.nack(wire.message(), {**T, "requeue": "false"})
    before = queue_stats(broker, "dead")["accepted"]
    wire.ask("COMMIT", T)
    assert queue_stats(broker, "dead")["accepted"] == before + 1


@pytest.mark.parametrize("second", ["ACK", "NACK"])
@pytest.mark.parametrize("place", ["same transaction", "another transaction", "none"])
def test_second_ack_of_a_message_in_an_open_transaction_is_an_error(
    wire: Wire, queue: str, place: str, second: str
) -> None:
    wire.send(queue, "x")
    wire.subscribe(queue)
    message = wire.message()
    wire.ask("BEGIN", T)
    wire.ask("BEGIN", {"transaction": "u"})
    wire.ack(message, T)
    where = {"same transaction": T, "another transaction": {"transaction": "u"}, "none": {}}[place]
    wire.send_frame(second, {**wire.naming(message), **where})
    wire.refusal()


def test_after_abort_its_messages_are_unacked_as_before(wire: Wire, queue: str) -> None:
    wire.send(queue, "one")
    wire.send(queue, "two")
    wire.subscribe(queue)
    message = wire.message()
    wire.ask("BEGIN", T)
    wire.ack(message, T)
    wire.ask("ABORT", T)
    assert wire.is_silent(), "the window is closed as before"
    wire.ack(message)
    assert wire.message().body == b"two"


def test_client_ack_in_a_transaction_means_all_sent_before(connect: Connect, wire: Wire, queue: str) -> None:
    for number in range(3):
        wire.send(queue, str(number))
    wire.subscribe(queue, ack="client", headers={"prefetch-count": "3"})
    messages = wire.messages(3)
    wire.ask("BEGIN", T)
    wire.ack(messages[1], T)
    wire.ask("COMMIT", T)
    wire.ask("DISCONNECT")
    reader = connect()
    reader.subscribe(queue, ack="auto")
    assert reader.message().body == b"2"


def test_several_may_be_open_on_one_connection(connect: Connect, wire: Wire, queue: str) -> None:
    wire.ask("BEGIN", {"transaction": "a"})
    wire.ask("BEGIN", {"transaction": "b"})
    wire.send(queue, "a", {"transaction": "a"})
    wire.send(queue, "b", {"transaction": "b"})
    wire.ask("COMMIT", {"transaction": "b"})
    wire.ask("ABORT", {"transaction": "a"})
    wire.subscribe(queue, ack="auto")
    assert wire.bodies(1) == ["b"]
    assert wire.is_silent()


def test_a_name_is_free_again_after_commit_and_abort(wire: Wire, queue: str) -> None:
    for end in ("COMMIT", "ABORT", "COMMIT"):
        wire.ask("BEGIN", T)
        wire.send(queue, end, T)
        wire.ask(end, T)
    wire.subscribe(queue, ack="auto")
    assert wire.bodies(2) == ["COMMIT", "COMMIT"]


def test_empty_transaction_is_receipted(wire: Wire) -> None:
    wire.ask("BEGIN", T)
    wire.ask("COMMIT", T)


def test_begin_of_an_open_transaction_is_an_error(wire: Wire) -> None:
    wire.ask("BEGIN", T)
    wire.send_frame("BEGIN", T)
    wire.refusal()


@pytest.mark.parametrize("command", ["COMMIT", "ABORT", "SEND", "ACK"])
def test_transaction_that_was_never_begun_is_an_error(wire: Wire, queue: str, command: str) -> None:
    wire.send(queue, "x")
    wire.subscribe(queue)
    more = {"SEND": {"destination": queue}, "ACK": wire.naming(wire.message())}.get(command, {})
    wire.send_frame(command, {"transaction": "unbegun", **more})
    assert b"unbegun" in wire.refusal().body


def test_one_transaction_more_than_max_transactions_is_refused(wire: Wire) -> None:
    for number in range(4):
        wire.ask("BEGIN", {"transaction": str(number)})
    wire.send_frame("BEGIN", {"transaction": "4"})
    assert b"max_transactions" in wire.refusal().body


def test_transaction_that_cannot_be_carried_out_is_refused_whole_at_commit(
    broker: BrokerProcess, wire: Wire, queue: str, name: str
) -> None:
    wire.send(queue, "work")
    wire.subscribe(queue)
    message = wire.message()
    wire.ask("BEGIN", T)
    wire.ack(message, T)
    for _ in range(3):
        wire.send(f"/queue/tiny.{name}", "x", T)
    wire.send(f"{queue}-out", "x", T)
    asked = wire.begin_ask("COMMIT", T)
    error = wire.refusal()
    assert error["receipt-id"] == asked
    assert f"tiny.{name}".encode() in error.body
    assert queue_stats(broker, queue)["stored"] == 1, "the ACK is undone"
    for place in (f"tiny.{name}", f"{queue}-out"):
        assert stored(broker, place) == 0


def test_unknown_destination_is_refused_at_commit_or_before(broker: BrokerProcess, wire: Wire, queue: str) -> None:
    wire.send(queue, "first")
    wire.ask("BEGIN", T)
    wire.send(queue, "x", T)
    asked = wire.begin_ask("SEND", {"destination": "/fanout/unknown", **T}, b"x")
    wire.await_receipt(asked)
    asked = wire.begin_ask("COMMIT", T)
    error = wire.refusal()
    assert error["receipt-id"] == asked
    assert queue_stats(broker, queue)["accepted"] == 1


def test_mandatory_is_judged_at_commit(connect: Connect, wire: Wire, name: str, queue: str) -> None:
    wire.ask("BEGIN", T)
    wire.send(f"/topic/{name}", "x", {**T, "mandatory": "true"})
    listener = connect()
    listener.subscribe(f"/topic/{name}", ack="auto")
    wire.ask("COMMIT", T)
    assert listener.message().body == b"x"
    wire.ask("BEGIN", T)
    wire.send(f"/topic/{name}", "x", {**T, "mandatory": "true"})
    listener.ask("DISCONNECT")
    wire.send_frame("COMMIT", T)
    wire.refusal()


def test_dedup_id_is_judged_at_commit(broker: BrokerProcess, connect: Connect, wire: Wire, name: str) -> None:
    place = f"/queue/once.{name}"
    wire.ask("BEGIN", T)
    wire.send(place, "in the transaction", {**T, "dedup-id": "same"})
    wire.send(place, "twice in it", {**T, "dedup-id": "same"})
    connect().send(place, "meanwhile", {"dedup-id": "same"})
    wire.send(place, "another", {**T, "dedup-id": "other"})
    wire.ask("COMMIT", T)
    wire.send(place, "later", {"dedup-id": "other"})
    wire.subscribe(place, ack="auto")
    assert wire.bodies(2) == ["meanwhile", "another"]
    assert wire.is_silent()


def test_commit_waits_while_a_target_blocks(connect: Connect, wire: Wire, queue: str, name: str) -> None:
    place = f"/queue/waits.{name}"
    connect().send(place, "1")
    wire.ask("BEGIN", T)
    wire.send(place, "2", T)
    wire.send(place, "3", T)
    wire.send(queue, "other", T)
    asked = wire.begin_ask("COMMIT", T)
    reader = connect()
    reader.subscribe(queue, ack="auto", id="other")
    reader.subscribe(place, id="place")
    message = reader.message()
    assert message.body == b"1"
    assert reader.is_silent()
    reader.ack(message)
    wire.await_receipt(asked)
    assert sorted(reader.bodies(2)) == ["2", "other"]


def test_commit_larger_than_a_bound_can_ever_hold_does_not_wait_for_ever(wire: Wire, name: str) -> None:
    wire.ask("BEGIN", T)
    for number in range(3):
        wire.send(f"/queue/waits.{name}", str(number), T)
    wire.send_frame("COMMIT", T)
    wire.refusal(5)


def test_a_request_to_admin_is_refused_at_once(wire: Wire) -> None:
    wire.ask("BEGIN", {"transaction": "t"})
    wire.begin_ask("SEND", {"destination": "/admin", "transaction": "t"}, b'{"do": "stats"}')
    assert wire.refusal()["code"] == "admin"


def test_transaction_larger_than_max_batch_bytes_is_refused(wire: Wire, queue: str) -> None:
    wire.ask("BEGIN", T)
    for _ in range(11):
        wire.send_frame("SEND", {"destination": queue, **T}, b"x" * 100_000)
    wire.send_frame("COMMIT", T)
    assert b"max_batch_bytes" in wire.refusal().body


def test_acks_of_persistent_and_memory_queues_in_one_transaction(
    connect: Connect, wire: Wire, queue: str, name: str
) -> None:
    memory = f"/queue/memory.{name}"
    for place in (queue, memory):
        wire.send(place, "1")
        wire.subscribe(place, id=place, headers={"prefetch-count": "1"})
    wire.ask("BEGIN", T)
    for message in wire.messages(2):
        wire.ack(message, T)
    wire.ask("COMMIT", T)
    wire.ask("DISCONNECT")
    reader = connect()
    for place in (queue, memory):
        reader.subscribe(place, id=place)
    assert reader.is_silent()
