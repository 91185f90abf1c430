"""Who waits, who is refused and who goes when memory runs short."""

from radiator.core.connections import SUBSCRIPTION_COST_BYTES, SUBSCRIPTIONS_FREE
from radiator.model.commands import (
    AUTO,
    Abort,
    Begin,
    Open,
    Read,
)
from radiator.model.limits import MIB, Limits
from radiator.model.settings import Declarations, QueueSettings
from tests.core.node import Node
from tests.core.words import begin, queue, send, subscribe


def test_producers_wait_past_80_percent_of_the_memory() -> None:
    node = Node(queue(persistent=False), Limits(max_memory_bytes=100_000))
    node.open(1, 9)
    node.say(send(9, "q", bytes(79_000), b"1"))
    node.wait(0.25)
    assert node.receipts(9) == [b"1"]
    node.say(send(9, "q", bytes(1000), b"2"), send(9, "q", bytes(1000), b"3"))
    assert node.receipts(9) == [b"1", b"2"] and node.paused == {9}
    node.wait(0.25)
    assert node.paused == {9}
    node.say(subscribe(1, "q", AUTO))
    node.wait(0.25)
    assert node.paused == set() and node.receipts(9) == [b"1", b"2", b"3"]


def test_receipts_that_wait_for_the_disk_count_as_held() -> None:
    node = Node(limits=Limits(max_memory_bytes=100_000), auto=False)
    node.open(1, 2)
    node.say(send(1, "q", receipt=b"first"), send(2, "q", receipt=b"other"))
    node.seal()
    for number in range(4):
        node.say(Begin(1, b"t", b"%d" % number * 10_000), Abort(1, b"t", b"%d" % number * 10_000))
    node.commit()
    node.wait(1)
    assert len(node.receipts(1)) == 9 and not node.is_refused(1)
    assert node.broker.connections[1].held_reply_bytes == 0

    node.say(send(1, "q", receipt=b"second"))
    node.seal()
    for _ in range(6):
        node.say(Begin(1, b"t", b"b" * 10_000), Abort(1, b"t", b"a" * 10_000))
    node.wait(1)
    node.commit()
    assert node.refusal(1).code == "memory" and not node.is_refused(2)


def test_what_waits_for_an_earlier_batch_is_weighed() -> None:
    node = Node(Declarations(create_queues=True, create_topics=True), Limits(max_memory_bytes=10 * MIB), auto=False)
    node.open(1, 2)
    node.say(subscribe(2, "/topic/d", AUTO, durable=True), send(1, "/topic/d"))
    assert node.seal()  # the disk is slow
    for _ in range(20):
        node.say(send(1, "/topic/t", bytes(MIB)))
    assert node.paused == {1}
    node.wait(0.25)
    assert 8 * MIB < node.in_use_bytes() < 12 * MIB
    node.auto = True
    node.turn([])
    node.wait(0.25)
    assert node.paused == set() and node.broker.parts.memory.waiting_bytes == 0


def test_largest_holder_is_closed_past_the_memory() -> None:
    node = Node(limits=Limits(max_memory_bytes=100_000))
    node.open(1, 2)
    node.turn([Read(1, [], 60_000), Read(2, [], 30_000)])
    node.wait(0.25)
    assert not node.is_refused(1) and not node.is_refused(2)
    node.turn([Read(1, [], 80_000)])
    node.wait(0.25)
    assert node.refusal(1).code == "memory" and not node.is_refused(2)


def test_what_comes_faster_than_the_clock_ticks_is_weighed_at_once() -> None:
    node = Node(limits=Limits(max_memory_bytes=100_000))
    node.open(1, 2)
    node.turn([Read(1, [], 60_000), Read(2, [], 40_000)])  # all of the bound, and no more
    node.turn([])
    assert not node.is_refused(1) and not node.is_refused(2)
    node.turn([Read(2, [], 40_001)])
    node.turn([])
    assert node.refusal(1).code == "memory" and not node.is_refused(2)


def test_a_little_past_the_bound_waits_for_the_clock() -> None:
    node = Node(limits=Limits(max_memory_bytes=100_000))
    node.open(1)
    node.turn([Read(1, [], 51_000)])
    node.wait(0.25)
    node.turn([Read(1, [], 101_000)])  # a connection's share has come, and no more
    node.turn([])
    assert not node.is_refused(1)
    node.turn([Read(1, [], 101_001)])
    node.turn([])
    assert node.refusal(1).code == "memory"


def test_what_comes_and_goes_between_two_weighings_is_no_reason_for_one() -> None:
    node = Node(limits=Limits(max_memory_bytes=100_000))
    node.open(1)
    for _ in range(10):
        node.turn([Read(1, [], 90_000), Read(1, [], 0)])
    assert node.broker.parts.memory.weighed_bytes == 0
    node.turn([Read(1, [], 100_001)])
    node.turn([])
    assert node.refusal(1).code == "memory"


def test_who_does_not_read_is_closed_when_producers_wait_for_what_it_holds() -> None:
    declared = Declarations(queues={"m": QueueSettings(persistent=False)}, create_topics=True)
    node = Node(declared, limits=Limits(max_memory_bytes=100_000, outbox_max_bytes=10**9))
    node.open(1, 2, 9)
    node.say(subscribe(1, "/topic/t"), subscribe(2, "/topic/t"))
    node.reads_slowly.add(1)
    node.say(send(9, "/topic/t", bytes(85_000)))
    node.wait(0.25)
    assert not node.is_refused(1), "nobody waits for it"
    node.say(send(9, "m", bytes(20_000), b"r"))
    assert node.paused == {9}
    node.wait(0.25)
    assert node.refusal(1).code == "memory" and not node.is_refused(2)
    node.wait(0.25)
    assert node.paused == set() and node.receipts(9) == [b"r"]


def test_five_silent_transactions_keep_nobody_waiting_who_holds_little() -> None:
    node = Node(limits=Limits(max_memory_bytes=64 * MIB))
    node.open(1, 2, 3, 4, 5, 9)
    for number in range(1, 6):
        node.say(begin(number), *(send(number, "t", bytes(59 * MIB // 25), transaction=b"t") for _ in range(5)))
    node.wait(0.25)
    assert node.broker.admission.memory_wait_list.is_tight
    node.say(send(9, "q", b"x" * 100_000, b"r"), begin(9), send(9, "q", b"x", b"s", transaction=b"t"))
    assert node.receipts(9) == [b"r", b"s"]
    (tight,) = [note for note in node.notes if note.event == "memory_tight"]
    assert str(tight.fields["holders"]).startswith("connection 5: 12")
    assert node.admin(9, do="stats")["memory_holders"][0]["name"] == "connection 5"
    why = node.admin(9, do="why", queue="t") if node.has("t") else node.admin(9, do="why", queue="q")
    assert why["is_memory_tight"] and why["memory_holders"][0]["name"] == "connection 5"


def test_a_connection_that_holds_next_to_nothing_is_never_closed_for_memory() -> None:
    node = Node(queue(persistent=False, max_bytes=10**9), Limits(max_memory_bytes=100_000))
    node.open(1, 2)
    node.turn([Read(1, [], 1000), Read(2, [], 10)])
    node.say(send(2, "q", bytes(79_000)), send(2, "q", bytes(20_000)))
    node.broker.parts.memory.waiting_bytes += 100_000  # whatever it is: nobody's
    node.wait(0.25)
    assert not node.is_refused(1) and not node.is_refused(2)


def test_who_goes_on_above_its_share_is_refused() -> None:
    node = Node(limits=Limits(max_memory_bytes=100_000, max_frame_bytes=5000))
    node.open(1, 2)
    node.turn([Read(1, [], 60_000), Read(2, [], 21_000)])
    node.wait(0.25)
    node.wait(0.25)
    assert not node.is_refused(1) and not node.is_refused(2)
    node.turn([Read(1, [], 65_000), Read(2, [], 16_000)])
    node.wait(0.25)
    refusal = node.refusal(1)
    assert refusal.code == "memory" and "more than its share of 12500" in refusal.sentence
    assert not node.is_refused(2)


def test_who_has_most_subscriptions_is_closed_before_they_take_more_than_the_bound() -> None:
    node = Node(limits=Limits(max_memory_bytes=MIB))
    node.open(*range(1, 9))
    for number in range(1, 9):
        node.say(*(subscribe(number, f"/temp-queue/t{one}") for one in range(12 * number)))
    node.wait(1)
    assert [number for number in range(1, 9) if node.is_refused(number)] == [8]
    node.wait(1)
    assert node.broker.parts.memory.bytes < MIB


def test_channels_beyond_the_first_few_count_for_their_connection_which_is_closed_for_them() -> None:
    node = Node(limits=Limits(max_memory_bytes=1_000_000))
    node.open(1, 2, 9)
    number = 100

    def open_channels(owner: int, count: int) -> None:
        nonlocal number
        for _ in range(count):
            number += 1
            node.inbox[number], node.delivers[number] = [], 0
            node.turn([Open(number, channel_of=owner)])

    few = SUBSCRIPTIONS_FREE // 3
    open_channels(1, few)
    assert node.broker.parts.connections[1].held_bytes == 0
    open_channels(1, 100)
    held_bytes = node.broker.parts.connections[1].held_bytes
    assert held_bytes == (3 * (few + 100) - SUBSCRIPTIONS_FREE) * SUBSCRIPTION_COST_BYTES
    node.wait(1)
    assert not node.is_refused(1)
    open_channels(2, 330)
    node.wait(1)
    assert node.refusal(2).code == "memory" and not node.is_refused(1) and not node.is_refused(9)
