"""What is on the disk is no reason to refuse anybody: messages in flight and come back are stubs, and as they were."""

import json

import pytest

from radiator.core.connections import SUBSCRIPTION_COST_BYTES, SUBSCRIPTIONS_FREE
from radiator.model.commands import CLIENT, CLIENT_INDIVIDUAL, EARLIEST, Send, Tick
from radiator.model.limits import ANSWERS_AT_ONCE, GIB, KIB, MIB, Limits
from radiator.model.reads import LoadedLog, ReadLog, StoredRecord
from radiator.model.settings import DEAD_LETTER as DEAD_LETTER_OVERFLOW
from radiator.model.settings import DROP_OLDEST, Declarations, LogSettings, QueueSettings
from tests.core.backlogs import durable
from tests.core.node import Node
from tests.core.stubs import BODY, SMALL, body, filled, is_exact, numbers_of, out
from tests.core.words import ack, begin, commit, nack, queue, queues, send, subscribe, unsubscribe


def test_who_never_acks_is_no_burden_to_producers_and_all_comes_back_in_order() -> None:
    node = filled(200)
    assert numbers_of(node.messages(2)) == list(range(200))
    assert out(node) == [False] * 4 + [True] * 196
    is_exact(node)
    node.wait(0.25)
    node.say(send(9, "other", b"x" * 5000, b"r"), send(9, "q", body(200), b"s"))
    assert node.receipts(9) == [b"r", b"s"] and not node.is_refused(2) and not node.paused

    node.close(2)
    node.wait(0.25)
    is_exact(node)
    assert durable(node).window.size <= 32 * KIB and node.numbers("q")["ready"] == 201
    node.say(send(9, "other", b"x", b"t"))
    assert node.receipts(9) == [b"r", b"s", b"t"] and not node.is_refused(9)

    node.open(3)
    node.say(subscribe(3, "q", CLIENT, prefetch_count=65_535))
    again = node.messages(3)
    assert numbers_of(again) == list(range(201))
    assert [(one.redelivered, one.redeliveries) for one in again] == [(True, 1)] * 201
    node.say(ack(again[-1]))
    assert node.numbers("q")["messages"] == 0
    is_exact(node)


def test_after_a_crash_stubs_are_as_they_were() -> None:
    node = filled(50)
    node.close(2)
    node = node.crashed()
    node.open(2)
    node.say(subscribe(2, "q", CLIENT, prefetch_count=100))
    again = node.messages(2)
    assert numbers_of(again) == list(range(50)) and {one.redeliveries for one in again} == {1}


def test_those_that_come_back_between_others_come_in_order() -> None:
    node = filled(60, ack=CLIENT_INDIVIDUAL)
    there = node.messages(2)
    node.open(3)
    for number in (51, 7, 33, 8, 9, 50):
        node.say(nack(there[number]))
    assert numbers_of(node.messages(2)) == [51, 7, 33, 8, 9, 50], "each came again at once"
    node.close(2)
    node.say(subscribe(3, "q", CLIENT, prefetch_count=30))
    first = node.messages(3)
    assert numbers_of(first) == list(range(30))
    assert [one.redeliveries for one in first] == [2 if number in (7, 8, 9) else 1 for number in range(30)]
    node.say(ack(first[-1]))
    assert numbers_of(node.messages(3)) == list(range(30, 60))
    is_exact(node)


def test_what_comes_back_to_full_windows_leaves_its_bytes_on_the_disk() -> None:
    node = filled(4)
    node.messages(2)
    node.say(*(send(9, "others", body(number)) for number in range(20)))
    windows = node.broker.destinations.windows
    assert out(node) == [False] * 4 and windows.size + BODY > windows.size_max
    node.close(2)
    assert windows.size <= windows.size_max and durable(node).window.stubs == 4
    node.open(3)
    node.say(subscribe(3, "q", CLIENT, prefetch_count=10))
    assert numbers_of(node.messages(3)) == list(range(4))
    is_exact(node)


def test_what_a_transaction_makes_dead_letters_counts_for_max_batch_bytes() -> None:
    node = filled(20, queue(dead_letter="dead"), Limits(max_memory_bytes=256 * KIB, max_batch_bytes=60 * KIB))
    there = node.messages(2)
    node.say(begin(2), ack(there[9], transaction=b"t"))
    node.say(nack(there[19], transaction=b"t", requeue=False))
    assert not node.is_refused(2)
    node = filled(20, queue(dead_letter="dead"), Limits(max_memory_bytes=256 * KIB, max_batch_bytes=60 * KIB))
    there = node.messages(2)
    node.say(begin(2), nack(there[19], transaction=b"t", requeue=False))
    assert node.refusal(2).code == "too-large"


def test_stubs_that_are_kept_for_a_while_come_again_whole() -> None:
    node = filled(30)
    there = node.messages(2)
    node.say(nack(there[-1], b"r", delay_ms=1000))
    assert node.receipts(2) == [b"r"] and node.numbers("q")["delayed"] == 30
    node.wait(1.5)
    assert numbers_of(node.messages(2)) == list(range(30))
    is_exact(node)


def test_stubs_that_have_expired_are_dead_letters() -> None:
    node = Node(queue(dead_letter="dead"), SMALL)
    node.open(2, 3, 9)
    node.say(*(send(9, "q", body(number), expiration_ms=1000) for number in range(30)))
    node.say(subscribe(2, "q", CLIENT, prefetch_count=100))
    node.close(2)
    assert node.numbers("q")["ready"] == 30 and durable(node).window.stubs
    node.wait(2)
    node.wait(2)
    assert node.numbers("q")["messages"] == 0
    node.say(subscribe(3, "dead", CLIENT, prefetch_count=100))
    assert numbers_of(node.messages(3)) == list(range(30))
    is_exact(node)


@pytest.mark.parametrize("overflow", [DROP_OLDEST, DEAD_LETTER_OVERFLOW])
def test_stubs_that_must_make_room_are_the_oldest_that_go(overflow: str) -> None:
    node = filled(30, queue(max_messages=30, overflow=overflow, dead_letter="dead"))
    node.messages(2)
    node.close(2)
    node.say(*(send(9, "q", body(30 + number), b"%d" % number) for number in range(25)))
    assert len(node.receipts(9)) == 25 and not node.paused
    node.open(3)
    node.say(subscribe(3, "q", CLIENT, prefetch_count=100))
    assert numbers_of(node.messages(3)) == list(range(25, 55))
    if overflow == DEAD_LETTER_OVERFLOW:
        node.say(subscribe(3, "dead", CLIENT, prefetch_count=100))
        assert numbers_of(node.messages(3)) == list(range(25))
    is_exact(node)


def test_a_whole_transaction_makes_room_among_stubs() -> None:
    node = filled(30, queue(max_messages=30, overflow=DEAD_LETTER_OVERFLOW, dead_letter="dead"))
    node.messages(2)
    node.close(2)
    node.say(begin(9), *(send(9, "q", body(30 + number), transaction=b"t") for number in range(20)))
    node.say(commit(9, receipt=b"r"))
    assert node.receipts(9) == [b"r"] and node.numbers("q")["messages"] == 30
    node.open(3)
    node.say(subscribe(3, "q", CLIENT, prefetch_count=100), subscribe(3, "dead", CLIENT, prefetch_count=100))
    assert sorted(numbers_of(node.messages(3))) == list(range(50))


def test_stubs_can_be_purged_moved_peeked_and_deleted() -> None:
    node = filled(30)
    node.messages(2)
    shown = node.admin(9, do="peek", queue="q", count=20)["messages"]
    assert [one["body"].partition(".")[0] for one in shown] == [str(number) for number in range(20)]
    node.close(2)
    assert len(node.admin(9, do="peek", queue="q", count=40)["messages"]) == 30
    assert node.admin(9, **{"do": "move", "from": "q", "to": "other", "count": 10})["moved"] == 10
    assert node.admin(9, do="purge", queue="q")["purged"] == 20
    assert node.numbers("q")["messages"] == 0
    is_exact(node)
    node.open(3)
    node.say(subscribe(3, "other", CLIENT, prefetch_count=100))
    assert numbers_of(node.messages(3)) == list(range(10))


def test_a_peek_that_has_messages_read_back_takes_no_turns_while_it_waits() -> None:
    """Nor do others that wait for it: ANSWERS_AT_ONCE are made at once, those that wait included."""
    node = filled(30)
    node.messages(2)
    askers = range(10, 12 + ANSWERS_AT_ONCE)
    node.open(*askers)
    node.auto = False
    for asker in askers:
        node.say(Send(asker, "/admin", b"", 2, b'{"do":"peek","queue":"q"}', reply_to="admin", correlation_id=b"1"))
    turns = 0
    while node.again or node.broker.wants_turn:
        node.turn([])
        turns += 1
        assert turns < 50, "it takes turns for nothing"
    assert len(node.read_requests) == ANSWERS_AT_ONCE
    node.close(askers[0])
    node.auto = True
    node.turn([])
    for asker in askers[1:]:
        (answer,) = node.messages(asker)
        assert len(json.loads(answer.message.body)["messages"]) == 10
    assert not any(line.away for line in node.broker.parts.answers.lines) and node.broker.parts.answers.is_done


def test_a_queue_that_is_deleted_with_stubs_leaves_nothing_in_the_sums() -> None:
    node = filled(30, queue(auto_delete=True))
    node.messages(2)
    durable(node)
    node.broker.parts.lifetimes.delete(durable(node))
    node.turn([])
    windows = node.broker.destinations.windows
    assert (windows.size, windows.out) == (0, 0)
    node.close(2)
    assert (windows.size, windows.out) == (0, 0)


def test_at_a_clean_stop_what_would_have_to_be_read_back_counts_as_still_out() -> None:
    node = filled(30, queue(dead_letter="dead", max_redeliveries=0))
    node.messages(2)
    node.auto = False
    node.close(2)
    node.read_requests.clear()
    node.stop()
    node = node.again_on(node.disk.platter)
    node.open(2)
    node.say(subscribe(2, "q", CLIENT, prefetch_count=100), subscribe(2, "dead", CLIENT, prefetch_count=100))
    again = node.messages(2)
    assert sorted(numbers_of(again)) == list(range(30)) and all(one.redelivered for one in again if one.redeliveries)


def test_full_windows_keep_no_message_of_queues_that_nobody_reads() -> None:
    """One of any size for each of ten thousand queues would be no bound."""
    node = Node(Declarations(create_queues=True), Limits(max_memory_bytes=MIB, max_frame_bytes=MIB))
    node.open(9, 3)
    for number in range(40):
        node.say(send(9, f"q{number}", b"x" * 20_000, expiration_ms=10**6))
    node.wait(0.25)
    windows = node.broker.destinations.windows
    assert windows.size <= windows.size_max == MIB // 8
    assert not node.paused
    for number in range(40):
        node.say(subscribe(3, f"q{number}", CLIENT, prefetch_count=1))
    assert [len(one) for one in node.bodies(3)] == [20_000] * 40
    is_exact(node)


def test_a_memory_queue_may_hold_as_much_as_is_free() -> None:
    node = Node(
        queues(full=QueueSettings(persistent=False), other=QueueSettings(persistent=False)),
        Limits(max_memory_bytes=100_000),
    )
    node.open(1, 8, 9)
    node.say(send(8, "full", bytes(84_000), b"1"), send(8, "full", bytes(1000), b"2"))
    assert node.receipts(8) == [b"1"] and node.paused == {8}
    node.say(*(send(9, "other", bytes(1000), b"%d" % number) for number in range(3)))
    assert node.receipts(9) == [b"0", b"1", b"2"]
    node.wait(0.25)
    why = node.admin(9, do="why", queue="full")
    assert "1 producer waits for room: the broker's memory is nearly used up" in why["sentence"]
    assert "The largest: /queue/full: 84512 bytes" in why["sentence"]
    node.say(subscribe(1, "full", "auto"))
    node.wait(0.25)
    assert node.receipts(8) == [b"1", b"2"] and not node.paused


def test_a_transaction_that_is_open_for_too_long_ends_its_connection() -> None:
    node = Node(limits=Limits(transaction_max_s=10))
    node.open(1, 2)
    node.say(begin(1), send(1, "q", transaction=b"t"))
    node.wait(5)
    node.say(begin(2, b"u"), begin(1, b"younger"))
    node.wait(5.5)
    refusal = node.refusal(1)
    assert refusal.code == "transaction-timeout"
    assert "'t'" in refusal.sentence and "transaction_max_s" in refusal.sentence and "10 s" in refusal.sentence
    assert not node.is_refused(2)
    node.close(1)
    node.say(commit(2, b"u", b"r"))
    node.wait(60)
    assert node.receipts(2) == [b"r"] and not node.is_refused(2)
    assert not node.broker.parts.transactions.all and not node.has("q")


def test_the_clock_of_a_transaction_stands_still_while_its_commit_waits_for_room() -> None:
    node = Node(queue(max_messages=1), Limits(transaction_max_s=10, block_timeout_s=60))
    node.open(1, 2, 3)
    node.say(send(2, "q"), begin(1), send(1, "q", transaction=b"t"))
    node.wait(5)
    node.say(commit(1, receipt=b"r"))
    node.wait(30)
    assert not node.is_refused(1) and node.paused == {1}
    node.say(subscribe(3, "q", "auto"))
    assert node.receipts(1) == [b"r"]
    node.turn([Tick(GIB, 0)])
    assert not node.broker.parts.transactions.all


def test_the_time_that_a_connection_was_kept_waiting_does_not_count_for_its_transaction() -> None:
    node = Node(queue(max_messages=1), Limits(transaction_max_s=10, block_timeout_s=60))
    node.open(1, 2, 3)
    node.say(send(2, "q"), begin(1), send(1, "q"))
    node.wait(30)
    assert node.paused == {1}
    node.say(subscribe(3, "q", "auto"))
    node.wait(1)
    assert not node.paused and not node.is_refused(1)
    node.wait(10)
    assert node.refusal(1).code == "transaction-timeout"


def test_records_that_a_reader_never_acks_are_stubs_and_come_again_whole() -> None:
    node = Node(Declarations(logs={"l": LogSettings()}, create_queues=True), SMALL)
    node.open(2, 9)
    node.say(*(send(9, "/log/l", body(number)) for number in range(60)))
    node.say(subscribe(2, "/log/l", CLIENT_INDIVIDUAL, group="g", start=(EARLIEST, 0), prefetch_count=100))
    there = node.messages(2)
    assert numbers_of(there) == list(range(60))
    readers = node.broker.destinations.readers
    assert readers.out <= readers.out_max == 16 * KIB
    for number in (50, 7, 51):
        node.say(nack(there[number]))
    again = node.messages(2)
    assert numbers_of(again) == [50, 7, 51] and all(one.redelivered for one in again)
    for one in [*(there[number] for number in range(60) if number not in (7, 50, 51)), *again]:
        node.say(ack(one))
    assert not node.is_refused(2) and (readers.out, readers.size) == (0, 0)
    node.close(2)


def test_a_record_that_retention_has_taken_meanwhile_is_told_of() -> None:
    node = Node(Declarations(logs={"l": LogSettings()}, create_queues=True), SMALL)
    node.open(2, 9)
    node.say(*(send(9, "/log/l", body(number)) for number in range(60)))
    node.say(subscribe(2, "/log/l", CLIENT_INDIVIDUAL, start=(EARLIEST, 0), prefetch_count=100))
    there = node.messages(2)
    node.auto = False
    node.say(nack(there[40]))
    (read_request,) = node.read_requests
    node.read_requests.clear()
    node.auto = True
    assert isinstance(read_request, ReadLog) and read_request.offset == 40
    node.turn([LoadedLog(read_request.request, [StoredRecord(40, None)])])
    assert [note.event for note in node.notes].count("damaged_log") == 1 and not node.is_refused(2)
    for one in there:
        if one is not there[40]:
            node.say(ack(one))
    readers = node.broker.destinations.readers
    assert not node.is_refused(2) and (readers.out, readers.size) == (0, 0)


def test_a_subscription_to_a_queue_with_keys_counts_as_four() -> None:
    node = Node(queues(k=QueueSettings(partition_key=("header:key",))))
    node.open(1)
    free = SUBSCRIPTIONS_FREE // 4
    for number in range(free + 2):
        node.say(subscribe(1, "k", name=b"%d" % number))
    assert node.broker.connections[1].held_bytes == 2 * 4 * SUBSCRIPTION_COST_BYTES
    node.say(unsubscribe(1, "0"), unsubscribe(1, "1"))
    assert node.broker.connections[1].held_bytes == 0


def test_subscriptions_beyond_a_few_count_for_their_connection() -> None:
    """Those to temp queues have no other bound over all connections."""
    node = Node()
    node.open(1, 2, 3)
    for number in range(100):
        node.say(subscribe(1, f"/temp-queue/t{number}"))
        node.say(subscribe(2, f"q{number}"))
    node.say(*(subscribe(3, f"q{number}") for number in range(SUBSCRIPTIONS_FREE)))
    node.wait(1)
    held = [node.broker.connections[number].held_bytes for number in (1, 2, 3)]
    assert held == [(count - SUBSCRIPTIONS_FREE) * SUBSCRIPTION_COST_BYTES for count in (300, 100, SUBSCRIPTIONS_FREE)]
    assert node.broker.parts.memory.bytes == sum(held)
    for number in (1, 2, 3):
        node.close(number)
    node.wait(1)
    assert node.broker.parts.memory.bytes == 0
