"""Who reads a log: windows, ACK and NACK, timeouts, and what is left when it goes."""

from radiator.core.logs.log_consumer import LogConsumer
from radiator.core.queues.consumable import Consumable
from radiator.core.queues.queue import Queue
from radiator.model.commands import AUTO, CLIENT, CLIENT_INDIVIDUAL
from radiator.model.limits import KIB, LOAD_MESSAGES, MIB, PRESSED_OUTBOX_BYTES, Limits
from radiator.model.replies import MESSAGE_COST_BYTES
from tests.core.logs.reading import append, is_empty, node_of, read
from tests.core.words import ack, begin, commit, nack, send, subscribe, unsubscribe


def test_the_window_is_that_of_any_subscription() -> None:
    node = node_of()
    append(node, b"0", b"1", b"2", b"3")
    node.say(read(2, ack=CLIENT_INDIVIDUAL))
    one = node.message(2)  # the connection's shared window
    assert one.ack_due
    node.say(ack(one, b"r"))
    assert node.receipts(2) == [b"r"]
    assert node.bodies(2) == [b"1"]
    node.say(read(3, ack=CLIENT, prefetch_count=3))
    got = node.messages(3)
    assert [m.message.body for m in got] == [b"0", b"1", b"2"]
    node.say(ack(got[1]))
    assert node.bodies(3) == [b"3"]


def test_a_nack_brings_it_again_to_the_same_subscription_with_a_new_id() -> None:
    node = node_of()
    append(node, b"0", b"1", b"2")
    node.say(read(2, ack=CLIENT, prefetch_count=3), read(3, ack=CLIENT, prefetch_count=3))
    first = node.messages(2)
    assert len(node.messages(3)) == 3
    node.say(nack(first[1]))
    again = node.messages(2)
    assert [m.message.body for m in again] == [b"0", b"1"] and all(m.redelivered for m in again)
    assert {m.message_id for m in again}.isdisjoint(m.message_id for m in first)
    assert node.messages(3) == []


def test_what_came_back_comes_in_the_order_of_its_offsets() -> None:
    node = node_of()
    append(node, *[b"%d" % n for n in range(6)])
    node.say(read(2, ack=CLIENT_INDIVIDUAL, prefetch_count=3))
    got = node.messages(2)
    node.auto = False
    node.say(nack(got[2]), begin(2), nack(got[1], transaction=b"t"), nack(got[0], transaction=b"t"))
    assert node.bodies(2) == [b"2"]
    node.say(commit(2))
    assert node.bodies(2) == [b"0", b"1"]
    node.close(2)


def test_nack_without_requeue_is_an_ack_and_a_delay_is_refused() -> None:
    node = node_of()
    append(node, b"0", b"1")
    node.say(read(2, ack=CLIENT_INDIVIDUAL, group="g"))
    node.say(nack(node.message(2), requeue=False))
    assert node.disk.platter.positions == {(1, "g"): [1]}
    node.say(nack(node.message(2), delay_ms=0))
    assert node.refusal(2).code == "no-delay"


def test_nack_with_a_delay_is_refused_in_a_transaction_too() -> None:
    node = node_of()
    append(node, b"0")
    node.say(read(2, ack=CLIENT_INDIVIDUAL), begin(2))
    node.say(nack(node.message(2), transaction=b"t", delay_ms=5))
    assert node.refusal(2).code == "no-delay"


def test_an_ack_timeout_closes_the_connection_and_the_group_gets_it_again() -> None:
    node = node_of()
    append(node, b"0")
    node.say(read(2, ack=CLIENT, group="g", ack_timeout_s=2.0), read(3, ack=CLIENT, group="g"))
    assert node.bodies(2) == [b"0"] and node.messages(3) == []
    node.wait(3)
    refusal = node.refusal(2)
    assert refusal.code == "ack-timeout" and "of /log/l was not acked" in refusal.sentence
    node.close(2)
    again = node.message(3)
    assert again.message.body == b"0" and again.redelivered


def test_after_unsubscribe_what_is_unacked_may_still_be_acked() -> None:
    node = node_of()
    append(node, b"0", b"1", b"2")
    node.say(read(2, ack=CLIENT_INDIVIDUAL, prefetch_count=2, group="g"))
    first, second = node.messages(2)
    node.say(unsubscribe(2, "/log/l"), ack(first, b"r"))
    assert node.receipts(2) == [b"r"] and node.disk.platter.positions == {(1, "g"): [1]}
    node.say(read(3, ack=CLIENT_INDIVIDUAL, prefetch_count=9, group="g"))
    assert node.messages(3) == []  # the partition has something unacked still
    node.say(nack(second))
    assert [(m.message.body, m.redelivered) for m in node.messages(3)] == [(b"1", True), (b"2", False)]
    node.close(2)
    node.close(3)
    assert is_empty(node)


def test_what_is_out_without_a_group_is_forgotten_with_the_subscription() -> None:
    node = node_of()
    append(node, b"0", b"1")
    node.say(read(2, ack=CLIENT_INDIVIDUAL, prefetch_count=2))
    first, second = node.messages(2)
    node.say(unsubscribe(2, "/log/l"), ack(first, b"r"), nack(second, b"s"))
    assert node.receipts(2) == [b"r", b"s"] and node.messages(2) == []
    assert is_empty(node)


def test_slow_readers_get_no_more_than_their_buffer_takes() -> None:
    node = node_of(limits=Limits(outbox_max_bytes=4096))
    append(node, *[b"x" * 1000] * 50)
    node.reads_slowly.add(2)
    node.say(read(2))
    taken = len(node.messages(2))
    assert taken < 10
    node.reads_slowly.clear()
    node.turn([])
    assert taken + len(node.messages(2)) == 50


def test_while_memory_is_short_readers_get_little_ahead_and_in_the_end_all() -> None:
    node = node_of(limits=Limits(max_memory_bytes=4 * MIB))
    append(node, *[b"x" * 1000] * 500)
    node.open(4)
    node.reads_slowly.update((2, 3))
    node.say(send(1, "q", b"held"), begin(4), send(4, "/log/l", bytes(3 * MIB), transaction=b"t"))
    node.wait(0.25)
    assert node.broker.destinations.readers.is_pressed
    node.say(read(2), read(2, name=b"other"), subscribe(2, "q", AUTO, name=b"q"), read(3))
    connection = node.broker.connections[3]
    assert PRESSED_OUTBOX_BYTES <= connection.outbox_bytes < PRESSED_OUTBOX_BYTES + 2000
    node.close(4)
    node.wait(0.25)
    assert not node.broker.destinations.readers.is_pressed
    node.reads_slowly.clear()
    node.turn([])
    assert len(node.messages(3)) == 500 and connection.outbox_max_bytes == node.limits.outbox_filled_bytes
    assert len(node.messages(2)) == 1001


def test_a_record_in_another_form_counts_as_what_it_takes() -> None:
    node = node_of(limits=Limits(outbox_max_bytes=64 * KIB))
    append(node, *[b"x" * 1000] * 200)
    node.reads_slowly.update((2, 3))
    command = read(2)
    command.encoded_bytes = lambda message, partitions: 5 * message.size + partitions
    node.say(command, read(3))
    plain, other = len(node.messages(3)), len(node.messages(2))
    assert plain == -(-64 * KIB // (1000 + MESSAGE_COST_BYTES)) and other == -(-64 * KIB // (5001 + MESSAGE_COST_BYTES))


def test_a_reader_holds_a_window_and_it_is_weighed() -> None:
    node = node_of(limits=Limits(outbox_max_bytes=4096))
    append(node, *[b"x" * 1000] * (2 * LOAD_MESSAGES))
    node.reads_slowly.add(2)
    node.say(read(2))
    readers = node.broker.destinations.readers
    assert 0 < readers.memory_bytes <= LOAD_MESSAGES * 1100
    assert node.in_use_bytes() >= readers.memory_bytes
    node.close(2)
    assert is_empty(node)


def test_it_is_what_subscriptions_need_and_no_queue() -> None:
    node = node_of()
    node.say(read(2, ack=CLIENT_INDIVIDUAL))
    (consumer,) = node.broker.destinations.readers.all
    assert isinstance(consumer, LogConsumer) and isinstance(consumer, Consumable) and not isinstance(consumer, Queue)
    for name in ("put", "take_in", "evict", "judge", "discard", "waiters", "ledger", "dead_letter", "reserved"):
        assert not hasattr(consumer, name), f"{name} is of queues"
