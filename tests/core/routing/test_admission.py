"""What comes in, waits or is refused: bounds, overflow, fanout, transactions, dedup-id, rooms."""

from dataclasses import replace
from typing import Any

import pytest

from radiator.model.commands import AUTO, Abort, Begin, Found, Read, Send, Tick
from radiator.model.limits import MIB, Limits
from radiator.model.reads import DedupLookup
from radiator.model.replies import Pause, Receipt, RefusedReceipt, Resume
from radiator.model.settings import Declarations, QueueSettings
from tests.core.conftest import shrink
from tests.core.node import Node
from tests.core.words import abort, ack, begin, commit, header, queue, queues, send, subscribe

BOTH = pytest.mark.parametrize("persistent", [True, False])


def fill(node: Node, count: int, first: int = 0, connection: int = 9, **more: object) -> None:
    for number in range(first, first + count):
        node.say(send(connection, "q", b"%d" % number, **more))


# ---- bounds and overflow --------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("bound", [{"max_messages": 3}, {"max_bytes": 3}])
def test_full_queue_blocks_the_producer_at_its_bound_and_not_before(bound: dict[str, int], persistent: bool) -> None:
    node = Node(queue(persistent=persistent, **bound))
    node.open(1, 9)
    fill(node, 3)
    assert node.paused == set()
    node.say(send(9, "q", b"3", b"r"))
    assert node.paused == {9} and node.numbers("q")["messages"] == 3 and node.numbers("q")["blocked"] == 1
    node.say(subscribe(1, "q"))
    node.say(ack(node.message(1)))
    assert node.receipts(9) == [b"r"] and node.paused == set()


@BOTH
@pytest.mark.parametrize("bound", [{"max_messages": 3}, {"max_bytes": 3}])
def test_full_queue_rejects_the_send(bound: dict[str, int], persistent: bool) -> None:
    node = Node(queue(persistent=persistent, overflow="reject", **bound))
    node.open(9)
    fill(node, 3)
    node.say(send(9, "q", b"3", b"r"))
    refuse = node.refusal(9)
    assert refuse.code == "queue-full" and refuse.receipt == b"r"
    assert node.numbers("q")["accepted"] == 3


@BOTH
@pytest.mark.parametrize("overflow", ["drop-oldest", "dead-letter"])
@pytest.mark.parametrize("bound", [{"max_messages": 3}, {"max_bytes": 3}])
def test_full_queue_lets_go_of_the_oldest(bound: dict[str, int], overflow: str, persistent: bool) -> None:
    node = Node(queue(persistent=persistent, overflow=overflow, dead_letter="dead", **bound))
    node.open(1, 9)
    fill(node, 8)
    numbers = node.numbers("q")
    assert numbers["messages"] == 3 and numbers["accepted"] == 8
    assert numbers["dropped" if overflow == "drop-oldest" else "dead_lettered"] == 5
    node.say(subscribe(1, "q", AUTO))
    assert node.bodies(1) == [b"5", b"6", b"7"]
    node.say(subscribe(1, "dead", AUTO))
    dead = node.messages(1)
    assert [d.message.body for d in dead] == ([] if overflow == "drop-oldest" else [b"0", b"1", b"2", b"3", b"4"])
    assert all(header(d.message, b"dead-letter-reason") == b"overflow" for d in dead)


@BOTH
@pytest.mark.parametrize("overflow", ["drop-oldest", "dead-letter"])
def test_oldest_is_the_oldest_that_is_not_in_flight(overflow: str, persistent: bool) -> None:
    node = Node(queue(persistent=persistent, overflow=overflow, dead_letter="dead", max_messages=3))
    node.open(1, 2, 9)
    node.say(subscribe(1, "q", prefetch_count=2))
    fill(node, 5)
    node.say(subscribe(2, "q", prefetch_count=9))
    assert (node.bodies(1), node.bodies(2)) == ([b"0", b"1"], [b"4"])


@BOTH
@pytest.mark.parametrize("overflow", ["drop-oldest", "dead-letter"])
def test_send_is_refused_when_all_are_in_flight(overflow: str, persistent: bool) -> None:
    node = Node(queue(persistent=persistent, overflow=overflow, dead_letter="dead", max_messages=3))
    node.open(1, 9)
    node.say(subscribe(1, "q", prefetch_count=3))
    fill(node, 3)
    node.say(send(9, "q", b"3", b"r"))
    assert node.refusal(9).code == "queue-full"
    assert node.numbers("q")["unacked"] == 3 and node.numbers("q")["accepted"] == 3


def test_drop_oldest_shares_one_commit_with_the_new_message() -> None:
    node = Node(queue(overflow="drop-oldest", max_messages=1))
    node.open(9)
    fill(node, 1)
    node.auto = False
    fill(node, 1, 1)
    batch = node.broker.seal()
    assert batch is not None
    assert sorted(type(w).__name__ for w in batch.writes) == ["Put", "Remove", "SaveLedger"]


@pytest.mark.parametrize("overflow", ["drop-oldest", "dead-letter"])
def test_oldest_may_still_be_on_its_way_to_the_disk(overflow: str) -> None:
    node = Node(queue(overflow=overflow, max_messages=2, dead_letter="dead"), auto=False)
    node.open(1, 9)
    fill(node, 2)
    node.seal()
    fill(node, 3, 2)
    assert node.paused == set() and node.numbers("q")["accepted"] == 5, "it is in memory: nobody waits for it"
    node.auto = True
    node.turn([])
    node.say(subscribe(1, "q", AUTO))
    assert node.bodies(1) == [b"3", b"4"]


@pytest.mark.parametrize("bound", [{"max_messages": 30}, {"max_bytes": 60}])
def test_oldest_is_read_back_where_it_must_be(small: None, bound: dict[str, int]) -> None:
    node = Node(queue(overflow="drop-oldest", **bound))
    node.open(1, 9)
    for number in range(10, 40):
        node.say(send(9, "q", b"%d" % number))
    node.say(subscribe(1, "q", prefetch_count=10))
    assert node.bodies(1) == [b"%d" % n for n in range(10, 20)]
    for number in range(40, 65):
        node.say(send(9, "q", b"%d" % number))
    assert node.numbers("q")["messages"] == 30 and node.numbers("q")["dropped"] == 25
    assert node.stored("q") == [*(b"%d" % n for n in range(10, 20)), *(b"%d" % n for n in range(45, 65))]
    assert node.paused == set() and not node.is_refused(9)


@pytest.mark.parametrize("overflow", ["drop-oldest", "dead-letter"])
def test_commit_waits_for_what_it_must_drop_to_reach_the_disk(overflow: str) -> None:
    before = Node(queue(overflow=overflow, max_messages=3, dead_letter="dead"))
    before.open(9)
    fill(before, 1)
    node = before.crashed()
    node.auto = False
    node.open(1, 8, 9)
    fill(node, 2, 1)  # behind what is not read back yet, so not in memory
    node.say(begin(9))
    fill(node, 2, 3, transaction=b"t")
    node.say(commit(9, receipt=b"r"), send(8, "q", b"5", b"s"))
    node.seal()
    while node.read_requests:
        node.answer()
    assert node.paused == {8, 9} and node.numbers("q")["accepted"] == 3, "nothing of it has happened"
    node.say(send(1, "/topic/t", b"x", b"t"))
    assert node.receipts(1) == [b"t"], "nobody else waits"
    node.auto = True
    node.commit()
    node.turn([])
    assert node.paused == set() and (node.receipts(9), node.receipts(8)) == ([b"r"], [b"s"])
    assert node.stored("q") == [b"3", b"4", b"5"]


@BOTH
@pytest.mark.parametrize("overflow", ["block", "reject", "drop-oldest", "dead-letter"])
def test_message_larger_than_max_bytes_is_refused_at_once(overflow: str, persistent: bool) -> None:
    node = Node(queue(persistent=persistent, overflow=overflow, max_bytes=100, dead_letter="dead"))
    node.open(9)
    node.say(send(9, "q", bytes(96), b"1", headers=b"a:b\n"))
    assert node.receipts(9) == [b"1"], "header block and body together, at the bound"
    node.say(send(9, "q", bytes(97), b"2", headers=b"a:b\n"))
    assert node.refusal(9).code == "too-large"


def test_queue_above_a_lowered_bound_keeps_what_it_has() -> None:
    node = Node()
    node.open(9)
    fill(node, 5)
    again = node.again_on(node.disk.platter, declarations=queue(max_messages=2, overflow="reject"))
    again.open(1, 9)
    again.say(send(9, "q"))
    assert again.refusal(9).code == "queue-full"
    again.say(subscribe(1, "q", AUTO))
    assert len(again.bodies(1)) == 5


# ---- waiting for room -----------------------------------------------------------------------------------------------


def test_parked_sends_come_in_first_come_first_served() -> None:
    node = Node(queue(max_messages=1))
    node.open(1, 2, 3, 9)
    fill(node, 1)
    for connection in (3, 1, 2):
        node.say(send(connection, "q", b"c%d" % connection))
    node.say(subscribe(9, "q"))
    seen = []
    while out := node.messages(9):
        seen.append(out[0].message.body)
        node.say(ack(out[0]))
    assert seen == [b"0", b"c3", b"c1", b"c2"]


def test_new_send_does_not_overtake_those_that_wait() -> None:
    node = Node(queue(max_bytes=10))
    node.open(1, 2, 9)
    node.say(send(9, "q", bytes(8)), send(1, "q", bytes(5)))
    node.say(send(2, "q", b"s"))
    assert node.paused == {1, 2}, "it would fit, but another came first"


def test_who_sends_many_copies_lets_others_go_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its SENDs fills a batch; whoever came behind the first has one of the next batches."""
    shrink(monkeypatch, {"BATCH_WRITES": 4})
    children = {f"c{number}": QueueSettings() for number in range(6)}
    node = Node(Declarations(queues=children, fanouts={"f": tuple(children)}, create_queues=True), auto=False)
    node.open(1, 2)
    node.say(*(send(1, "/fanout/f", b"%d" % number) for number in range(5)))
    node.say(send(2, "q", b"small", b"r"))
    batches = 0
    while not node.receipts(2):
        if node.being_committed is not None:
            node.commit()
            batches += 1
        node.turn([])
        node.seal()
        assert batches <= 4, "behind one batch of the other's at most"
    node.auto = True
    node.turn([])
    assert node.stored("c0") == [b"%d" % number for number in range(5)]


def test_all_parked_sends_come_in_when_there_is_room_for_all() -> None:
    node = Node(queue(max_messages=5))
    node.open(1, 2, 9)
    fill(node, 5)
    for number in range(3):
        node.say(send(1, "q", b"a%d" % number, b"%d" % number))
    node.say(send(2, "q", b"b", b"b"))
    assert node.admin(9, do="purge", queue="q")["purged"] == 5
    assert node.stored("q") == [b"a0", b"a1", b"a2", b"b"] and node.paused == set()
    assert node.receipts(1) == [b"0", b"1", b"2"] and node.receipts(2) == [b"b"]


@pytest.mark.parametrize("seconds, refused", [(59.9, False), (60, True)])
def test_parked_send_is_refused_after_block_timeout_s(seconds: float, refused: bool) -> None:
    node = Node(queue(max_messages=1))
    node.open(9)
    fill(node, 1)
    node.say(send(9, "q", b"1", b"r"))
    node.wait(seconds)
    assert node.is_refused(9) == refused
    if refused:
        refuse = node.refusal(9)
        assert refuse.code == "blocked" and refuse.receipt == b"r"
        node.say(send(9, "q", b"2"))
        assert node.numbers("q")["accepted"] == 1


def told(node: Node, connection: int) -> list[tuple[bytes, str]]:
    """Each RECEIPT of that connection, with the code of a refusal."""
    return [(one.receipt, getattr(one, "code", "")) for one in node.inbox[connection] if isinstance(one, Receipt)]


def test_send_that_asked_for_it_is_told_after_block_timeout_s_and_what_is_behind_it_goes_on() -> None:
    node = Node(queue(max_messages=1))
    node.open(1, 9)
    fill(node, 1)
    node.say(
        send(9, "q", b"1", b"r1", survives_refusal=True),
        send(9, "other", b"2", b"r2"),
        send(9, "q", b"3", b"r3", survives_refusal=True),
    )
    node.wait(59.9)
    assert told(node, 9) == [] and node.paused == {9}
    node.wait(0.1)
    assert told(node, 9) == [(b"r1", "blocked"), (b"r2", ""), (b"r3", "blocked")]
    assert not node.is_refused(9) and node.paused == set() and node.stored("other") == [b"2"]
    assert node.numbers("q")["accepted"] == 1 and node.numbers("q")["blocked"] == 0
    node.say(subscribe(1, "q"))
    node.say(ack(node.message(1)), send(9, "q", b"4", b"r4"))
    assert told(node, 9)[-1] == (b"r4", "")


def test_send_behind_a_refused_one_waits_for_other_room_as_long_as_any() -> None:
    node = Node(queues(a=QueueSettings(max_messages=1), b=QueueSettings(max_messages=1)))
    node.open(1, 9)
    node.say(send(1, "a"), send(1, "b"))
    node.say(send(9, "a", b"1", b"ra", survives_refusal=True), send(9, "b", b"2", b"rb"))
    node.wait(60)
    assert told(node, 9) == [(b"ra", "blocked")] and node.paused == {9} and not node.is_refused(9)
    node.wait(59.9)
    assert node.paused == {9} and not node.is_refused(9)
    node.wait(0.1)
    refuse = node.refusal(9)
    assert refuse.code == "blocked" and refuse.receipt == b"rb"


def test_refused_send_that_stays_lets_the_next_one_in_line() -> None:
    node = Node(queue(max_bytes=10), Limits(block_timeout_s=10))
    node.open(1, 2, 3, 9)
    node.say(send(9, "q", bytes(8)), send(3, "q", bytes(7), b"t"))
    node.wait(5)
    node.say(send(1, "q", bytes(5), b"r", survives_refusal=True), send(1, "q", bytes(6), b"r2"))
    node.wait(5)
    node.say(send(2, "q", b"s", b"s"))
    assert node.is_refused(3) and {1, 2} <= node.paused and told(node, 1) == []
    node.wait(5)
    assert told(node, 1) == [(b"r", "blocked")] and node.is_refused(1) and node.receipts(2) == [b"s"]


def test_refused_sender_lets_the_next_one_in_line() -> None:
    node = Node(queue(max_bytes=10), Limits(block_timeout_s=10))
    node.open(1, 2, 9)
    node.say(send(9, "q", bytes(8)), send(1, "q", bytes(5)))
    node.wait(5)
    node.say(send(2, "q", b"s", b"r"))
    node.wait(5)
    assert node.is_refused(1) and node.receipts(2) == [b"r"]


def test_open_batch_takes_no_further_send_past_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"BATCH_BYTES": 10_000})
    node = Node(auto=False)
    node.open(1, 2, 9)
    node.say(subscribe(1, "other"))
    for number in range(9):
        node.say(send(9, "q", bytes(1000), b"%d" % number))
    assert node.paused == set()
    node.say(send(9, "q", bytes(1000), b"9"), send(2, "q", b"small", b"s"))
    assert node.paused == {9, 2}, "the small one waits behind the one that came first"
    node.seal()
    node.turn([])
    assert node.paused == set()
    node.commit()
    assert node.receipts(9) == [b"%d" % n for n in range(9)]
    node.seal()
    node.commit()
    assert node.receipts(9)[-1] == b"9" and node.receipts(2) == [b"s"]


def test_open_batch_takes_no_further_send_past_its_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"BATCH_WRITES": 3})
    node = Node(auto=False)
    node.open(1)
    node.say(subscribe(1, "q"))
    node.seal()
    node.commit()
    for number in range(3):
        node.say(send(1, "q", b"x", b"%d" % number))
    assert node.paused == set()
    node.say(send(1, "q", b"x", b"3"))
    assert node.paused == {1}
    node.seal()
    node.turn([])
    assert node.paused == set()
    node.commit()
    assert node.receipts(1) == [b"0", b"1", b"2"]


def test_whole_line_moves_into_the_next_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"BATCH_BYTES": 10_000})
    node = Node(auto=False)
    node.open(1)
    for number in range(27):
        node.say(send(1, "q", bytes(1000), b"%d" % number))
    commits = 0
    while node.seal():
        node.turn([])
        node.commit()
        commits += 1
    assert node.receipts(1) == [b"%d" % n for n in range(27)] and commits <= 4


def test_single_send_larger_than_a_batch_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"BATCH_BYTES": 10_000})
    node = Node(auto=False)
    node.open(1, 2, 9)
    node.say(subscribe(1, "acked", prefetch_count=100))
    for _ in range(10):
        node.say(send(2, "acked"))
    node.seal()
    node.commit()
    out = node.messages(1)
    node.say(ack(out[0]), send(9, "q", bytes(50_000), b"large"))
    assert node.paused == set(), "acks in the batch do not keep it out"
    node.seal()
    node.commit()
    assert node.receipts(9) == [b"large"]


@pytest.mark.durability("D10")
def test_acks_and_dead_letters_go_on_while_sends_wait_for_the_disk() -> None:
    node = Node(queues(q=QueueSettings(dead_letter="dead", max_redeliveries=0), memory=QueueSettings(persistent=False)))
    node.open(1, 2, 3, 9)
    node.say(subscribe(1, "q", prefetch_count=9))
    fill(node, 3)
    out = node.messages(1)
    node.turn([Tick(0, 10**12)])
    node.say(send(9, "q", b"late", b"r"))
    assert node.paused == {9}
    node.say(ack(out[0], b"1"))
    node.say(Send(2, "/queue/memory", b"", 2, b"m", b"m"), Send(3, "/topic/t", b"", 2, b"t", b"t"))
    assert (node.receipts(1), node.receipts(2), node.receipts(3)) == ([b"1"], [b"m"], [b"t"])
    node.close(1)
    assert node.numbers("dead")["messages"] == 2
    node.turn([Tick(10**12, 0)])
    assert node.paused == set() and node.receipts(9) == [b"r"]
    assert [n.event for n in node.notes if n.event.startswith("disk")] == ["disk_tight", "disk_has_room"]


@pytest.mark.parametrize("used, free, is_tight", [(0, 0, False), (0, -1, True)])
def test_sends_wait_below_disk_free_min(used: int, free: int, is_tight: bool) -> None:
    node = Node()
    node.open(9)
    node.turn([Tick(free, used)])
    fill(node, 1)
    assert (node.paused == {9}) == is_tight


def test_sends_wait_above_the_high_water_mark_and_not_at_it() -> None:
    for above in (0, 1):
        node = Node()
        node.open(9)
        node.turn([Tick(10**12, node.broker.parts.disk.high_water_bytes + above)])
        fill(node, 1)
        assert (node.paused == {9}) == bool(above)


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
    assert 8 * MIB < node.broker.parts.memory_pressure.in_use() < 12 * MIB
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


# ---- fanout ---------------------------------------------------------------------------------------------------------


def fanout(**settings: QueueSettings) -> Node:
    children = {"a": QueueSettings(), "b": QueueSettings(), **settings}
    return Node(Declarations(queues=children, fanouts={"f": tuple(children)}, create_queues=True), auto=False)


def run(node: Node) -> None:
    node.auto = True
    node.turn([])


@pytest.mark.durability("D5")
def test_fanout_is_one_batch_over_all_children() -> None:
    node = fanout(c=QueueSettings())
    run(node)
    node.auto = False
    node.open(1, 9)
    node.say(send(9, "/fanout/f", b"x", b"r", headers=b"h:1\n"))
    batch = node.broker.seal()
    assert batch is not None and [type(w).__name__ for w in batch.writes].count("Put") == 3
    assert node.receipts(9) == []
    node.being_committed = batch
    node.commit()
    assert node.receipts(9) == [b"r"]
    run(node)
    for name in "abc":
        node.say(subscribe(1, name, AUTO))
    out = node.messages(1)
    assert len({d.message_id for d in out}) == 3
    assert {d.message.destination for d in out} == {"/fanout/f"}
    assert len({header(d.message, b"fanout-message-id") for d in out}) == 1
    assert header(out[0].message, b"fanout-message-id") not in {d.message_id for d in out}


def test_fanout_waits_while_a_blocking_child_is_full_and_is_then_applied_whole() -> None:
    node = fanout(b=QueueSettings(max_messages=1))
    run(node)
    node.open(1, 9)
    node.say(send(9, "b", b"full"), send(9, "/fanout/f", b"x", b"r"))
    assert node.paused == {9} and node.stored("a") == []
    node.say(subscribe(1, "b"))
    node.say(ack(node.message(1)))
    assert node.receipts(9) == [b"r"] and node.stored("a") == node.stored("b") == [b"x"]


def test_fanout_is_refused_if_a_rejecting_child_is_full_even_where_another_blocks() -> None:
    node = fanout(a=QueueSettings(max_messages=1), b=QueueSettings(max_messages=1, overflow="reject"))
    run(node)
    node.open(1, 9)
    node.say(send(9, "a", b"full"), send(9, "b", b"full"), send(9, "/fanout/f", b"x", b"r"))
    assert node.refusal(9).code == "queue-full"
    assert node.stored("a") == node.stored("b") == [b"full"]


def test_fanout_with_a_memory_child_delivers_there_when_it_is_synced() -> None:
    node = fanout(m=QueueSettings(persistent=False))
    run(node)
    node.auto = False
    node.open(1, 9)
    node.say(subscribe(1, "m", AUTO), send(9, "/fanout/f", b"x", b"r"))
    node.seal()
    assert node.messages(1) == [] and node.numbers("m")["accepted"] == 0
    node.commit()
    assert node.bodies(1) == [b"x"] and node.receipts(9) == [b"r"]


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("loaded", [3, 4])
def test_full_child_that_gets_dead_letters_of_another_lets_go_of_what_it_can(
    loaded: int, persistent: bool, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink(monkeypatch, {"LOAD_MESSAGES": loaded})
    a = QueueSettings(persistent=persistent, max_messages=2, overflow="dead-letter", dead_letter="b")
    b = QueueSettings(persistent=persistent, max_messages=10, overflow="drop-oldest")
    node = Node(Declarations(queues={"a": a, "b": b}, fanouts={"f": ("a", "b")}))
    node.open(9)
    node.say(*(send(9, "b") for _ in range(10)), *(send(9, "a") for _ in range(2)))
    for _ in range(10):
        node.say(send(9, "/fanout/f"), send(9, "b"), send(9, "/fanout/f", receipt=b"r"))
        assert node.numbers("a")["messages"] == 2 and 10 <= node.numbers("b")["messages"] <= 12
    assert len(node.receipts(9)) == 10


def test_fanout_of_memory_children_happens_at_once() -> None:
    children = {name: QueueSettings(persistent=False) for name in "ab"}
    node = Node(Declarations(queues=children, fanouts={"f": ("a", "b")}), auto=False)
    node.open(9)
    node.say(send(9, "/fanout/f", b"x", b"r"))
    assert node.receipts(9) == [b"r"] and node.numbers("a")["messages"] == node.numbers("b")["messages"] == 1


def test_fanout_beyond_max_batch_bytes_with_all_its_copies_is_refused() -> None:
    node = fanout()
    node.broker.parts.limits.max_batch_bytes = 10_000
    run(node)
    node.open(8, 9)
    node.say(send(9, "/fanout/f", bytes(4000), b"1"), send(9, "/fanout/f", bytes(5000)))
    assert node.receipts(9) == [b"1"] and node.refusal(9).code == "too-large"
    node.say(send(8, "a", bytes(20_000), b"single"))
    assert node.receipts(8) == [b"single"]


def test_subscribe_to_a_fanout_is_refused_naming_its_children() -> None:
    node = fanout()
    node.open(1)
    node.say(subscribe(1, "/fanout/f"))
    refuse = node.refusal(1)
    assert refuse.code == "send-only" and "/queue/a, /queue/b" in refuse.sentence


# ---- transactions ---------------------------------------------------------------------------------------------------


def test_nothing_of_a_transaction_happens_before_commit() -> None:
    node = Node(queues(m=QueueSettings(persistent=False)))
    node.open(1, 9)
    node.say(subscribe(1, "q", AUTO), subscribe(1, "m", AUTO), subscribe(1, "/topic/t"), begin(9))
    for to in ("q", "m", "/topic/t"):
        node.say(send(9, to, b"x", to.encode(), transaction=b"t"))
    assert node.receipts(9) == [b"q", b"m", b"/topic/t"], "taken into the transaction"
    assert node.messages(1) == [] and node.stored("q") == []
    node.say(commit(9, receipt=b"c"))
    assert len(node.messages(1)) == 3 and node.receipts(9)[-1] == b"c"


@pytest.mark.parametrize("way", ["abort", "close"])
def test_abort_or_a_lost_connection_leaves_no_trace(way: str) -> None:
    node = Node()
    node.open(9)
    node.say(begin(9), send(9, "new", transaction=b"t"))
    if way == "abort":
        node.say(abort(9))
        node.say(commit(9))
        assert node.refusal(9).code == "transaction"
    else:
        node.close(9)
    assert not node.has("new") and not node.disk.platter.messages
    assert node.broker.parts.memory_pressure.in_use() < 1000


@pytest.mark.durability("D6")
def test_transaction_is_one_batch_and_its_receipt_waits_for_it() -> None:
    node = Node()
    node.open(1, 9)
    node.say(send(9, "old"), subscribe(9, "old"))
    deliver = node.message(9)
    node.auto = False
    node.say(begin(9), ack(deliver, transaction=b"t"))
    for number in range(3):
        node.say(send(9, "a", b"%d" % number, transaction=b"t"), send(9, "b", b"%d" % number, transaction=b"t"))
    assert node.broker.seal() is None
    node.say(commit(9, receipt=b"c"))
    batch = node.broker.seal()
    assert batch is not None
    kinds = [type(w).__name__ for w in batch.writes]
    assert (kinds.count("Put"), kinds.count("Remove")) == (6, 1)
    assert node.receipts(9) == []
    node.being_committed = batch
    node.commit()
    assert node.receipts(9) == [b"c"] and node.stored("a") == node.stored("b") == [b"0", b"1", b"2"]


def test_transaction_without_a_persistent_part_happens_at_once() -> None:
    node = Node(queues(m=QueueSettings(persistent=False)), auto=False)
    node.open(1, 9)
    node.say(subscribe(1, "/topic/t"), begin(9), send(9, "m", transaction=b"t"), send(9, "/topic/t", transaction=b"t"))
    node.say(commit(9, receipt=b"c"))
    assert node.receipts(9) == [b"c"] and node.bodies(1) == [b"x"] and node.numbers("m")["messages"] == 1


def test_memory_part_counts_as_accepted_when_the_persistent_part_is_synced() -> None:
    node = Node(queues(m=QueueSettings(persistent=False, max_messages=1, overflow="reject")))
    node.open(1, 2, 9)
    node.auto = False
    node.say(begin(9), send(9, "m", transaction=b"t"), send(9, "q", transaction=b"t"), commit(9, receipt=b"c"))
    assert node.numbers("m")["accepted"] == 0
    node.say(send(1, "m"))
    assert node.refusal(1).code == "queue-full", "its room is promised"
    node.seal()
    node.commit()
    assert node.numbers("m")["accepted"] == 1 and node.receipts(9) == [b"c"]


def test_memory_ack_of_a_transaction_happens_when_the_persistent_part_is_synced() -> None:
    node = Node(queues(m=QueueSettings(persistent=False)))
    node.open(9)
    node.say(send(9, "m"), subscribe(9, "m"))
    deliver = node.message(9)
    node.auto = False
    node.say(begin(9), ack(deliver, transaction=b"t"), send(9, "q", transaction=b"t"), commit(9))
    assert node.numbers("m")["acked"] == 0
    node.close(9)
    node.seal()
    node.commit()
    assert node.numbers("m")["acked"] == 1 and node.numbers("m")["messages"] == 0


@pytest.mark.parametrize("last", ["/nowhere/x", "/fanout/none", "undeclared", "full"])
def test_transaction_that_cannot_be_carried_out_is_refused_whole(last: str) -> None:
    declared = {
        "a": QueueSettings(),
        "m": QueueSettings(persistent=False),
        "full": QueueSettings(max_messages=1, overflow="reject"),
    }
    node = Node(Declarations(queues=declared))
    node.open(1, 9)
    node.say(send(1, "full"), send(9, "a", b"old"), subscribe(9, "a"))
    deliver = node.message(9)
    node.say(begin(9), send(9, "a", b"new", transaction=b"t"), send(9, "m", b"new", transaction=b"t"))
    node.say(ack(deliver, transaction=b"t"), send(9, last, b"new", transaction=b"t"), commit(9, receipt=b"c"))
    assert node.refusal(9).receipt == b"c"
    node.close(9)
    assert node.stored("a") == [b"old"] and node.numbers("m")["accepted"] == 0


def test_commit_waits_while_a_blocking_target_is_full_and_is_then_applied_whole() -> None:
    node = Node(queue(max_messages=2))
    node.open(1, 8, 9)
    fill(node, 1, connection=8)
    node.say(begin(9), send(9, "q", b"1", transaction=b"t"), send(9, "q", b"2", transaction=b"t"))
    node.say(send(9, "other", transaction=b"t"), commit(9, receipt=b"c"))
    assert node.paused == {9} and node.stored("q") == [b"0"]
    node.say(subscribe(1, "q"))
    node.say(ack(node.message(1)))
    assert node.receipts(9) == [b"c"] and node.stored("q") == [b"1", b"2"] and node.stored("other") == [b"x"]


def test_commit_that_can_never_fit_is_refused() -> None:
    node = Node(queue(max_messages=2))
    node.open(9)
    node.say(begin(9))
    for _ in range(3):
        node.say(send(9, "q", transaction=b"t"))
    node.say(commit(9))
    assert node.refusal(9).code == "queue-full"


def test_several_transactions_are_open_at_once() -> None:
    node = Node(limits=Limits(max_transactions=2))
    node.open(8, 9)
    node.say(begin(9, b"1"), begin(9, b"2"), send(9, "q", b"1", transaction=b"1"), send(9, "q", b"2", transaction=b"2"))
    node.say(commit(9, b"2", b"c"), commit(9, b"1"))
    assert node.stored("q") == [b"2", b"1"]
    node.say(begin(9, b"1"), begin(9, b"2"), begin(9, b"3"))
    assert node.refusal(9).code == "too-many-transactions"
    node.say(begin(8), begin(8))
    assert node.refusal(8).code == "transaction"


def test_transaction_past_max_batch_bytes_is_refused() -> None:
    node = Node(limits=Limits(max_batch_bytes=10_000))
    node.open(9)
    node.say(begin(9), send(9, "q", bytes(9000), transaction=b"t"))
    assert not node.is_refused(9)
    node.say(send(9, "q", bytes(1000), transaction=b"t"))
    assert node.refusal(9).code == "too-large"


def test_expiration_counts_from_commit() -> None:
    node = Node()
    node.open(1, 9)
    node.say(begin(9), send(9, "q", transaction=b"t", expiration_ms=1000))
    node.wait(5)
    node.say(commit(9))
    node.wait(0.9)
    assert node.stored("q") == [b"x"]
    node.wait(0.2)
    assert node.stored("q") == []


def test_mandatory_is_judged_at_commit() -> None:
    node = Node()
    node.open(1, 8, 9)
    node.say(begin(9), send(9, "/topic/t", transaction=b"t", mandatory=True), subscribe(1, "/topic/t"))
    node.say(commit(9, receipt=b"c"))
    assert node.receipts(9) == [b"c"] and node.bodies(1) == [b"x"]
    node.close(1)
    node.say(begin(8), send(8, "q", transaction=b"t"), send(8, "/topic/t", transaction=b"t", mandatory=True), commit(8))
    assert node.refusal(8).code == "no-subscriber" and node.stored("q") == []


def test_admin_request_cannot_be_part_of_a_transaction() -> None:
    node = Node()
    node.open(9)
    node.say(begin(9), send(9, "/admin", b'{"do":"stats"}', transaction=b"t"), commit(9))
    assert node.refusal(9).code == "admin"


# ---- dedup-id -------------------------------------------------------------------------------------------------------


def dedup(window_s: float = 60, **settings: object) -> Node:
    node = Node(queue(dedup_window_s=window_s, **settings))
    node.open(1, 2, 9)
    return node


def test_second_send_of_a_dedup_id_is_receipted_and_not_stored() -> None:
    node = dedup()
    node.say(send(9, "q", b"1", b"1", dedup_id=b"i"), send(9, "q", b"2", b"2", dedup_id=b"i"))
    node.say(send(9, "q", b"3", b"3", dedup_id=b"other"), send(9, "q", b"4", b"4"))
    assert node.receipts(9) == [b"1", b"2", b"3", b"4"] and node.stored("q") == [b"1", b"3", b"4"]
    assert node.broker.context.counters["duplicates"] == 1


def test_dedup_id_is_remembered_after_its_message_has_left() -> None:
    node = dedup()
    node.say(send(9, "q", b"1", dedup_id=b"i"), subscribe(1, "q", AUTO), send(9, "q", b"2", b"2", dedup_id=b"i"))
    assert node.bodies(1) == [b"1"] and node.receipts(9) == [b"2"]


def test_dedup_id_is_remembered_over_a_restart() -> None:
    node = dedup()
    node.say(send(9, "q", b"1", dedup_id=b"i"))
    again = node.crashed()
    again.open(9)
    again.say(send(9, "q", b"2", b"2", dedup_id=b"i"))
    assert again.receipts(9) == [b"2"] and again.stored("q") == [b"1"]


@pytest.mark.durability("D14")
def test_dedup_id_and_message_share_one_batch() -> None:
    node = dedup()
    node.auto = False
    node.say(send(9, "q", b"1", b"1", dedup_id=b"i"))
    node.answer()
    batch = node.broker.seal()
    assert batch is not None
    assert [type(w).__name__ for w in batch.writes] == ["Put", "Remember", "SaveLedger"]


def test_dedup_id_is_forgotten_after_its_window() -> None:
    node = dedup(10)
    node.say(send(9, "q", b"1", dedup_id=b"i"))
    node.wait(10)
    node.say(send(9, "q", b"2", dedup_id=b"i"))
    assert node.stored("q") == [b"1"]
    node.now_ms += 1
    node.say(send(9, "q", b"3", dedup_id=b"i"))
    assert node.stored("q") == [b"1", b"3"]


def test_forgotten_dedup_ids_leave_the_disk_however_fast_they_come() -> None:
    node = dedup(1)
    for second in range(6):
        for number in range(2500):
            node.say(send(9, "q", dedup_id=b"%d-%d" % (second, number)))
        node.wait(1.1)
    for _ in range(5):
        node.wait(10)
    assert len(node.disk.platter.dedup) == 0
    assert len(node.broker.destinations.queues["q"].dedup.pending) == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("is_sealed", [False, True])
def test_receipt_of_a_duplicate_waits_until_the_first_is_synced(is_sealed: bool) -> None:
    node = dedup()
    node.auto = False
    node.say(send(9, "q", b"1", b"1", dedup_id=b"i"))
    node.answer()
    if is_sealed:
        node.seal()
    node.say(send(1, "q", b"2", b"2", dedup_id=b"i"), send(2, "/topic/t", receipt=b"other"))
    assert node.receipts(1) == [] and node.receipts(2) == [b"other"]
    node.seal()
    node.commit()
    assert node.receipts(9) == [b"1"] and node.receipts(1) == [b"2"] and node.stored("q") == [b"1"]


def test_race_of_two_connections_stores_one() -> None:
    node = dedup()
    node.auto = False
    node.say(send(1, "q", b"1", b"1", dedup_id=b"i"), send(2, "q", b"2", b"2", dedup_id=b"i"))
    assert len(node.read_requests) == 2, "both have asked the disk before either is stored"
    node.answer()
    node.answer()
    node.auto = True
    node.turn([])
    assert node.receipts(1) == [b"1"] and node.receipts(2) == [b"2"] and node.stored("q") == [b"1"]


def test_race_is_settled_even_when_the_first_is_committed_before_the_second_answer() -> None:
    node = dedup()
    node.auto = False
    node.say(send(1, "q", b"1", b"1", dedup_id=b"i"), send(2, "q", b"2", b"2", dedup_id=b"i"))
    second = node.read_requests.pop()
    assert isinstance(second, DedupLookup)
    found = node.disk.look_up(second)
    node.answer()
    node.seal()
    node.commit()
    node.turn([Found(second.request, found)])
    node.auto = True
    node.turn([])
    assert node.receipts(2) == [b"2"] and node.stored("q") == [b"1"]


def test_pending_dedup_ids_go_although_somebody_always_asks() -> None:
    node = dedup()
    node.auto = False
    queue_ = node.broker.destinations.queues["q"]
    for number in range(50):
        node.say(send(1 + number % 2, "q", dedup_id=b"%d" % number))
        if number:
            node.answer()
            node.seal()
            node.commit()
        assert len(queue_.dedup.pending) <= 3, number  # type: ignore[attr-defined]


def test_transaction_with_two_equal_ids_stores_one() -> None:
    node = dedup()
    node.say(begin(9), send(9, "q", b"1", dedup_id=b"i", transaction=b"t"))
    node.say(send(9, "q", b"2", dedup_id=b"i", transaction=b"t"), send(9, "q", b"3", dedup_id=b"j", transaction=b"t"))
    node.say(commit(9, receipt=b"c"))
    assert node.receipts(9) == [b"c"] and node.stored("q") == [b"1", b"3"]


def test_dedup_is_judged_before_the_bound() -> None:
    node = dedup(max_messages=1, overflow="reject")
    node.say(send(9, "q", b"1", dedup_id=b"i"), send(9, "q", b"2", b"2", dedup_id=b"i"))
    assert node.receipts(9) == [b"2"]
    node.say(send(9, "q", b"3", dedup_id=b"j"))
    assert node.refusal(9).code == "queue-full"


def test_refused_send_does_not_remember_its_id() -> None:
    node = dedup(max_messages=1, overflow="reject")
    node.say(send(9, "q", b"1"), send(9, "q", b"2", dedup_id=b"i"))
    assert node.is_refused(9)
    node.say(subscribe(1, "q", AUTO), send(2, "q", b"3", dedup_id=b"i"))
    assert node.bodies(1) == [b"1", b"3"]


def test_dedup_id_means_nothing_without_a_window() -> None:
    node = Node()
    node.open(9)
    node.say(send(9, "q", b"1", dedup_id=b"i"), send(9, "q", b"2", dedup_id=b"i"))
    assert node.stored("q") == [b"1", b"2"] and not node.disk.platter.dedup


def test_each_child_of_a_fanout_has_its_own_memory() -> None:
    node = fanout(a=QueueSettings(dedup_window_s=60), b=QueueSettings(dedup_window_s=60), c=QueueSettings())
    run(node)
    node.open(9)
    node.say(send(9, "a", b"1", dedup_id=b"i"), send(9, "/fanout/f", b"2", b"2", dedup_id=b"i"))
    assert (node.stored("a"), node.stored("b"), node.stored("c")) == ([b"1"], [b"2"], [b"2"])
    assert node.receipts(9) == [b"2"]


def test_duplicate_that_waited_for_room_keeps_its_answer() -> None:
    node = dedup(max_messages=1)
    node.say(send(9, "q", b"1"))
    node.say(send(1, "q", b"2", b"2", dedup_id=b"i"), send(2, "q", b"3", b"3", dedup_id=b"i"))
    node.say(subscribe(9, "q"))
    node.say(ack(node.message(9)))
    assert node.bodies(9) == [b"2"] and node.receipts(1) == [b"2"]
    node.say(subscribe(9, "/topic/t"))
    assert node.receipts(2) == [b"3"] and node.numbers("q")["accepted"] == 2


def test_connection_that_closes_while_the_disk_is_asked_leaves_nothing() -> None:
    node = dedup()
    node.auto = False
    node.say(send(1, "q", b"1", dedup_id=b"i"))
    node.close(1)
    node.answer()
    node.auto = True
    node.turn([])
    queue_ = node.broker.destinations.queues["q"]
    assert node.stored("q") == [] and not queue_.dedup.lookups  # type: ignore[attr-defined]
    node.say(send(9, "q", b"2", b"2", dedup_id=b"i"))
    assert node.receipts(9) == [b"2"] and node.stored("q") == [b"2"]


# ---- pause and resume -----------------------------------------------------------------------------------------------


def test_pause_and_resume_come_in_pairs() -> None:
    node = Node(queue(max_messages=1))
    node.open(1, 9)
    fill(node, 1)
    turn = node.broker.turn([Read(9, [send(9, "q", b"1", b"r")])], node.now_s, node.now_ms)
    assert turn.replies == [Pause(9)]
    node.paused.add(9)
    node.say(subscribe(1, "q"))
    deliver = node.message(1)
    turn = node.broker.turn([Read(1, [ack(deliver)])], node.now_s, node.now_ms)
    assert Resume(9) in turn.replies and Receipt(9, b"r") not in turn.replies


def test_frames_up_to_the_largest_size_come_in() -> None:
    node = Node()
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q", bytes(16 * MIB), b"r"))
    assert node.receipts(9) == [b"r"] and len(node.message(1).message.body) == 16 * MIB


@pytest.mark.parametrize(
    ("destination", "more", "code"),
    [
        ("/amq/queue/none", {"mandatory": True}, "no-subscriber"),
        ("/exchange/none/k", {}, "no-such-destination"),
        ("/queue/a.*", {}, "wildcard"),
        ("/queue/full", {}, "queue-full"),
        ("/queue/full", {"immediate": True}, "no-consumer"),
        ("/topic/t", {"delay_ms": 9}, "no-delay"),
    ],
)
def test_refusal_that_is_told_by_a_receipt_leaves_the_connection(
    destination: str, more: dict[str, Any], code: str
) -> None:
    node = Node(queues(full=QueueSettings(max_messages=1, overflow="reject"), q=QueueSettings()))
    node.open(1, 2)
    node.say(send(1, "full", b"1"))
    refused = Send(1, destination, b"", 2, b"x", b"r", survives_refusal=True, **more)
    node.turn([Read(1, [refused, send(1, "q", b"2", b"s"), refused])])
    told = [reply for reply in node.take(1) if isinstance(reply, Receipt)]
    assert [(one.receipt, getattr(one, "code", "")) for one in told] == [(b"r", code), (b"s", ""), (b"r", code)]
    assert (
        isinstance(told[0], RefusedReceipt)
        and told[0].sentence.endswith(".")
        and node.stored("q") == [b"2"]
        and node.stored("full") == [b"1"]
    )
    node.say(replace(refused, connection=2, survives_refusal=False))
    error = node.refusal(2)
    assert (error.code, error.sentence) == (code, told[0].sentence)
