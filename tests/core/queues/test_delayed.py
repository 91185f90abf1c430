"""Delayed messages: not before their time, at their own place, and on the disk meanwhile; delays of what comes back."""

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from radiator.model.commands import AUTO, Nack, Read, Tick
from radiator.model.errors import StoreError
from radiator.model.limits import COMMANDS_PER_TURN, DELAYED_READS_AT_ONCE, GIB, LOAD_MESSAGES
from radiator.model.reads import LoadedDelayed, ReadDelayed, StoredDelayed
from radiator.model.replies import Deliver
from radiator.model.settings import Declarations, QueueSettings
from radiator.model.writes import Count, Delay, MakeDue, Put, Remove
from tests.core.backlogs import drained, durable, numbered
from tests.core.conftest import shrink
from tests.core.node import Node
from tests.core.words import ack, begin, commit, header, nack, queue, queues, send, subscribe, unsubscribe

BOTH = pytest.mark.parametrize("persistent", [True, False], ids=["persistent", "memory"])
START_MS = 1_700_000_000_000


def late(deliver: Deliver, delay_ms: int | None, receipt: bytes | None = None) -> Nack:
    return nack(deliver, receipt, delay_ms=delay_ms)


def delayed_on_disk(node: Node) -> list[tuple[int, bytes]]:
    """Time from START_MS and body of what is delayed on the disk, in order."""
    rows = sorted(node.disk.platter.delayed.items())
    return [(due_ms - START_MS, row.message.body) for (_, due_ms, _), row in rows]


def asked_for(node: Node) -> dict[int, int]:
    """How many delayed messages each read that is not answered yet brings."""
    return {one.request: one.messages_max for one in node.read_requests if isinstance(one, ReadDelayed)}


# ---- SEND -----------------------------------------------------------------------------------------------------------


@BOTH
def test_delayed_message_is_delivered_at_its_time_and_not_before(persistent: bool) -> None:
    node = Node(queue(persistent=persistent))
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q", b"later", b"r", delay_ms=1000))
    assert node.receipts(9) == [b"r"] and node.numbers("q")["delayed"] == 1
    node.wait(0.999)
    assert node.messages(1) == [] and node.numbers("q")["ready"] == 0
    node.wait(0.001)
    deliver = node.message(1)
    assert deliver.message.body == b"later" and not deliver.redelivered and deliver.message.accepted_ms == START_MS
    assert node.numbers("q")["delayed"] == 0 and node.numbers("q")["unacked"] == 1
    node.say(ack(deliver, b"a"))
    assert node.receipts(1) == [b"a"] and node.numbers("q")["messages"] == 0 and node.stored("q") == []


@BOTH
@pytest.mark.parametrize(
    "words, due_ms",
    [
        ({"deliver_at_ms": START_MS + 500}, 500),
        ({"delay_ms": 700, "deliver_at_ms": START_MS + 500}, 700),
        ({"delay_ms": 300, "deliver_at_ms": START_MS + 500}, 500),
        ({"delay_ms": 0}, 0),
        ({"deliver_at_ms": START_MS}, 0),
        ({"deliver_at_ms": 0}, 0),
        ({"deliver_at_ms": START_MS + 1}, 1),
    ],
)
def test_the_later_of_both_times_counts_and_a_time_that_is_past_means_now(
    persistent: bool, words: dict[str, Any], due_ms: int
) -> None:
    node = Node(queue(persistent=persistent))
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q", **words))
    if due_ms:
        node.wait((due_ms - 1) / 1000)
        assert node.messages(1) == []
        node.wait(0.001)
    assert node.bodies(1) == [b"x"]


def test_receipt_of_a_delayed_send_waits_for_the_disk() -> None:
    node = Node(auto=False)
    node.open(9)
    node.say(send(9, "q", b"x", b"r", delay_ms=1000))
    assert node.receipts(9) == []
    node.seal()
    assert node.receipts(9) == [] and delayed_on_disk(node) == []
    node.commit()
    assert node.receipts(9) == [b"r"] and delayed_on_disk(node) == [(1000, b"x")]


def test_nothing_is_kept_in_memory_however_many_are_delayed() -> None:
    node = Node()
    node.open(9)
    for number in range(2000):
        node.say(send(9, "q", b"%d" % number, delay_ms=1000 + number))
    held = durable(node)
    assert held.in_memory_count == 0 and held.window.beyond == 0 and not held.window.due and not held.delayed.unseen
    assert node.broker.destinations.windows.size == 0 and held.next_due_ms == START_MS + 1000
    again = node.crashed()
    assert durable(again).next_due_ms == START_MS + 1000 and again.read_requests == []
    assert again.numbers("q")["delayed"] == 2000 and again.numbers("q")["ready"] == 0


@BOTH
def test_it_enters_at_its_own_place_before_what_was_accepted_later_and_is_still_there(persistent: bool) -> None:
    node = Node(queue(persistent=persistent))
    node.open(1, 9)
    node.say(send(9, "q", b"0"), send(9, "q", b"1", delay_ms=10), send(9, "q", b"2"), send(9, "q", b"3", delay_ms=5))
    node.say(send(9, "q", b"4"))
    node.wait(1)
    node.say(subscribe(1, "q"))
    assert drained(node) == numbered(0, 5)


@BOTH
def test_all_fanout_children_have_it_delayed(persistent: bool) -> None:
    settings = QueueSettings(persistent=persistent)
    node = Node(Declarations(queues={"a": settings, "b": settings}, fanouts={"f": ("a", "b")}))
    node.open(1, 9)
    node.say(subscribe(1, "a"), subscribe(1, "b", prefetch_count=1))
    node.say(send(9, "/fanout/f", b"x", b"r", delay_ms=50))
    assert node.receipts(9) == [b"r"] and node.messages(1) == []
    node.wait(0.05)
    assert node.bodies(1) == [b"x", b"x"]


@BOTH
def test_delay_in_a_transaction_runs_from_its_commit(persistent: bool) -> None:
    node = Node(queues(q=QueueSettings(persistent=persistent), p=QueueSettings()))
    node.open(1, 9)
    node.say(subscribe(1, "q"), begin(9), send(9, "q", b"x", transaction=b"t", delay_ms=1000))
    node.say(send(9, "p", b"y", transaction=b"t"))
    node.wait(5)
    assert node.messages(1) == []
    node.say(commit(9, receipt=b"c"))
    assert node.receipts(9) == [b"c"]
    node.wait(0.999)
    assert node.messages(1) == []
    node.wait(0.001)
    assert node.bodies(1) == [b"x"]


def test_dedup_id_of_a_delayed_message_is_remembered() -> None:
    node = Node(queue(dedup_window_s=100))
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q", b"1", b"a", dedup_id=b"i", delay_ms=100))
    node.say(send(9, "q", b"2", b"b", dedup_id=b"i"))
    assert node.receipts(9) == [b"a", b"b"]
    node.wait(1)
    assert node.bodies(1) == [b"1"]


@pytest.mark.parametrize("to", ["/topic/x", "/temp-queue/t", "/reply-queue/0"])
@pytest.mark.parametrize("words", [{"delay_ms": 0}, {"delay_ms": 1}, {"deliver_at_ms": 1}])
def test_where_nothing_can_be_kept_back_a_delay_is_refused(to: str, words: dict[str, Any]) -> None:
    node = Node()
    node.open(9)
    node.say(send(9, to, b"x", b"r", **words))
    assert node.refusal(9).code == "no-delay"


def test_refused_delay_refuses_the_whole_transaction() -> None:
    node = Node()
    node.open(9)
    node.say(begin(9), send(9, "q", transaction=b"t"), send(9, "/topic/x", transaction=b"t", delay_ms=1), commit(9))
    assert node.refusal(9).code == "no-delay" and node.stored("q") == []


# ---- time -----------------------------------------------------------------------------------------------------------


@pytest.mark.durability("D21")
def test_delayed_message_waits_on_over_restarts_of_every_kind() -> None:
    node = Node()
    node.open(9)
    node.say(send(9, "q", b"x", b"r", delay_ms=10_000))
    crashed = node.crashed()
    crashed.open(1)
    crashed.say(subscribe(1, "q"))
    crashed.wait(9)
    assert crashed.messages(1) == []
    crashed.stop()
    again = crashed.again_on(crashed.disk.platter)
    again.open(1)
    again.say(subscribe(1, "q"))
    again.wait(0.999)
    assert again.messages(1) == []
    again.wait(0.001)
    assert again.bodies(1) == [b"x"]


def test_what_became_due_while_the_broker_was_down_comes_with_the_first_tick() -> None:
    node = Node()
    node.open(9)
    node.say(send(9, "q", b"x", delay_ms=10_000))
    node.now_ms += 3_600_000
    again = node.crashed()
    again.open(1)
    again.say(subscribe(1, "q"))
    again.wait(0)
    assert again.bodies(1) == [b"x"]


@BOTH
def test_the_clock_of_the_wall_counts_whichever_way_it_jumps(persistent: bool) -> None:
    node = Node(queue(persistent=persistent))
    node.open(1, 9)
    node.say(subscribe(1, "q", prefetch_count=9), send(9, "q", b"1", delay_ms=1000), send(9, "q", b"2", delay_ms=9000))
    node.now_ms -= 5000
    node.wait(2)
    assert node.messages(1) == []
    node.say(send(9, "q", b"3", delay_ms=1000))
    node.wait(1)
    assert node.bodies(1) == [b"3"]
    node.now_ms += 5000
    node.wait(0)
    assert node.bodies(1) == [b"1"]
    node.now_ms += 10_000_000
    node.wait(0)
    assert node.bodies(1) == [b"2"] and node.numbers("q")["delayed"] == 0


def test_clock_that_jumps_back_while_the_disk_is_asked_does_no_harm() -> None:
    node = Node(auto=False)
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q", b"1", delay_ms=100))
    node.seal()
    node.commit()
    node.wait(0.1)
    (read_request,) = node.read_requests
    assert isinstance(read_request, ReadDelayed)
    node.now_ms -= 1000
    node.auto = True
    node.turn([])
    assert node.bodies(1) == [b"1"]


def test_one_that_expires_before_it_is_due_leaves_when_it_expires() -> None:
    node = Node(queue(dead_letter="dead"))
    node.open(1, 9)
    node.say(subscribe(1, "dead"), subscribe(1, "q"), send(9, "q", b"x", delay_ms=5000, expiration_ms=1000))
    node.wait(0.999)
    assert node.messages(1) == []
    node.wait(0.001)
    dead = node.message(1).message
    assert header(dead, b"dead-letter-reason") == b"expired" and node.numbers("q")["dead_lettered"] == 1
    node.wait(10)
    assert node.messages(1) == [] and node.numbers("q")["messages"] == 0 and node.disk.platter.delayed == {}


@BOTH
def test_expired_and_delayed_is_counted_where_there_is_no_dead_letter_queue(persistent: bool) -> None:
    node = Node(queue(persistent=persistent))
    node.open(9)
    node.say(
        send(9, "q", b"x", delay_ms=1000, expiration_ms=1000), send(9, "q", b"y", delay_ms=999, expiration_ms=1000)
    )
    node.wait(0.999)
    numbers = node.numbers("q")
    assert (numbers["ready"], numbers["delayed"], numbers["stored_expiring"]) == (1, 1, 2)
    node.wait(0.001)
    numbers = node.numbers("q")
    assert (numbers["expired"], numbers["messages"], numbers["stored_expiring"]) == (2, 0, 0)


# ---- many at once, windows, loads -----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 4, 5, 6, 7, 30])
def test_many_that_are_due_at_once_come_out_in_order(small: None, count: int) -> None:
    node = Node()
    node.open(1, 9)
    for body in numbered(0, count):
        node.say(send(9, "q", body, delay_ms=1000))
    node.wait(1)
    held = durable(node)
    assert held.in_memory_count <= 6 and node.numbers("q")["messages"] == count
    node.say(subscribe(1, "q"))
    assert drained(node) == numbered(0, count)
    assert node.stored("q") == [] and node.disk.platter.delayed == {}


@pytest.mark.parametrize("seed", range(10))
def test_order_is_that_of_acceptance_whatever_the_order_of_the_times(small: None, seed: int) -> None:
    node = Node()
    node.open(1, 9)
    random = Random(seed)
    for body in numbered(0, 40):
        node.say(send(9, "q", body, delay_ms=random.choice((None, 0, *range(1, 2000)))))
    node.wait(2)
    node.say(subscribe(1, "q"))
    seen = [int(body) for body in drained(node)]
    assert sorted(seen) == list(range(40))
    # the window was full when the last ones woke: only those may be late
    assert node.stored("q") == [] and node.disk.platter.delayed == {}


@pytest.mark.parametrize("kind", [{}, {"max_priority": 2}, {"partition_key": ("header:k",)}], ids=str)
def test_those_that_expire_into_an_exchange_do_in_smaller_slices(kind: dict[str, Any]) -> None:
    by_exchange = QueueSettings(dead_letter_exchange="", dead_letter_key="dead", **kind)
    node = Node(queues(q=by_exchange, dead=QueueSettings()))
    node.open(1)
    node.say(*(send(1, "q", delay_ms=300, expires_ms=START_MS + 300) for _ in range(700)))
    node.say(*(send(1, "q", b"%d" % number, delay_ms=300) for number in range(700)))
    node.auto = False
    node.wait(1)
    died, asked = [0, node.numbers("q")["dead_lettered"]], asked_for(node)
    while node.step():
        died.append(node.numbers("q")["dead_lettered"])
        asked |= asked_for(node)
    assert max(now - before for before, now in pairwise(died)) <= COMMANDS_PER_TURN // 3 + 1
    assert died[-1] == node.numbers("dead")["messages"] == 700 and node.numbers("q")["ready"] == 700
    # what a slice leaves is read again: not all of it each time
    assert sum(asked.values()) <= 1400 + 2 * LOAD_MESSAGES
    node.say(send(1, "q", b"700", delay_ms=300))
    while node.step():
        pass
    node.wait(1)
    assert [*asked_for(node).values()] == [LOAD_MESSAGES], "the next pass begins as this one did"
    node.auto = True
    node.say(subscribe(1, "q"))
    assert drained(node) == [b"%d" % number for number in range(701)]


def test_one_at_the_head_waits_for_room_in_a_full_window(small: None) -> None:
    node = Node()
    node.open(1, 9)
    node.say(send(9, "q", b"late", delay_ms=1000))
    for body in numbered(0, 10):
        node.say(send(9, "q", body))
    node.wait(1)
    assert node.numbers("q")["delayed"] == 1 and durable(node).in_memory_count == 6
    read_requests = node.broker.context.sequence
    for _ in range(5):
        node.wait(1)
    assert node.broker.context.sequence == read_requests, "nothing is read back in vain"
    node.say(subscribe(1, "q"))
    seen = drained(node)
    assert sorted(seen) == sorted([b"late", *numbered(0, 10)]) and seen.index(b"late") <= 4


def test_one_that_wakes_behind_the_window_is_read_back_in_its_turn(small: None) -> None:
    node = Node()
    node.open(1, 9)
    for body in numbered(0, 8):
        node.say(send(9, "q", body))
    node.say(send(9, "q", b"8", delay_ms=1000))
    for body in numbered(9, 12):
        node.say(send(9, "q", body))
    node.wait(1)
    assert node.numbers("q")["delayed"] == 0 and node.numbers("q")["ready"] == 12
    node.say(subscribe(1, "q"))
    assert drained(node) == numbered(0, 12)


def test_one_that_wakes_behind_the_window_while_a_load_is_on_its_way_is_not_missed(small: None) -> None:
    node = Node()
    node.open(1, 9)
    for body in numbered(0, 7):
        node.say(send(9, "q", body))
    node.say(send(9, "q", b"7", delay_ms=1000), send(9, "q", b"8"))
    node.auto = False
    node.say(subscribe(1, "q", AUTO))
    assert node.read_requests, "a stretch is being read back"
    node.wait(1)
    node.auto = True
    node.turn([])
    node.wait(1)
    assert sorted(node.bodies(1)) == numbered(0, 9)


def test_load_waits_until_what_wakes_is_on_the_disk(small: None) -> None:
    node = Node()
    node.open(1, 9)
    for body in numbered(0, 7):
        node.say(send(9, "q", body))
    node.say(send(9, "q", b"7", delay_ms=1000), send(9, "q", b"8"))
    node.auto = False
    node.wait(1)
    node.answer()
    node.say(subscribe(1, "q", AUTO))
    node.turn([])
    assert node.read_requests == []
    node.auto = True
    node.turn([])
    assert node.bodies(1) == numbered(0, 9)


def test_due_ones_and_those_beyond_the_window_come_by_turns(small: None) -> None:
    """Neither starves the other, however many there are of both."""
    node = Node()
    node.open(1, 9)
    for number in range(60):
        node.say(send(9, "q", b"d%d" % number, delay_ms=1000))
        node.say(send(9, "q", b"n%d" % number))
    node.wait(1)
    node.say(subscribe(1, "q"))
    seen = drained(node)
    assert len(seen) == 120 and len(set(seen)) == 120
    first = seen[:60]
    assert min(sum(body.startswith(kind) for body in first) for kind in (b"d", b"n")) >= 15


def test_due_one_does_not_wait_until_a_fast_consumer_has_read_all(small: None) -> None:
    node = Node()
    node.open(1, 9)
    node.say(send(9, "q", b"late", delay_ms=1000))
    for body in numbered(0, 60):
        node.say(send(9, "q", body))
    node.wait(1)
    node.say(subscribe(1, "q", AUTO))
    seen = node.bodies(1)
    assert len(seen) == 61 and seen.index(b"late") < 20


def test_few_queues_are_read_back_at_once_and_all_come_in_their_turn(small: None) -> None:
    node = Node()
    node.open(1, 9)
    names = [f"q{number}" for number in range(20)]
    for name in names:
        for body in numbered(0, 9):
            node.say(send(9, name, body, delay_ms=1000))
    node.auto = False
    node.wait(1)
    assert len(node.read_requests) == DELAYED_READS_AT_ONCE
    node.auto = True
    node.turn([])
    assert node.disk.platter.delayed == {}, "without another Tick"


@pytest.mark.parametrize("bound", [{"LOAD_MESSAGES": 4}, {"LOAD_MESSAGES": 6, "LOAD_BYTES": 4}])
def test_batch_wakes_only_so_many(small: None, monkeypatch: pytest.MonkeyPatch, bound: dict[str, int]) -> None:
    node = Node()
    node.open(1, 9)
    for body in numbered(0, 50):
        node.say(send(9, "q", body, delay_ms=1000))
    shrink(monkeypatch, bound)
    node.disk.commits = 0
    node.wait(1)
    assert node.disk.commits >= 10
    node.say(subscribe(1, "q"))
    assert drained(node) == numbered(0, 50)


def test_full_batch_of_others_does_not_stop_the_waking(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q", b"x", delay_ms=1000), send(9, "other"))
    shrink(monkeypatch, {"BATCH_BYTES": 300})
    node.auto = False
    node.say(send(9, "other", b"large" * 100))
    node.wait(1)
    node.answer()
    node.seal()
    node.commit()
    assert node.bodies(1) == [b"x"], "whatever else the batch holds"


@BOTH
def test_one_that_was_due_at_once_is_not_forgotten_while_its_batch_is_at_sea(persistent: bool) -> None:
    node = Node(queue(persistent=persistent), auto=False)
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q", b"x", delay_ms=1))
    node.seal()
    node.wait(1)
    while node.read_requests:
        node.answer()
    assert not persistent or (node.messages(1) == [] and node.read_requests == [])
    node.auto = True
    node.turn([])
    assert node.bodies(1) == [b"x"]


def test_one_that_comes_in_while_others_wake_is_not_forgotten(small: None) -> None:
    node = Node()
    node.open(1, 9)
    node.say(subscribe(1, "q", prefetch_count=99))
    for body in numbered(0, 3):
        node.say(send(9, "q", body, delay_ms=1000))
    node.auto = False
    node.wait(1)
    node.say(send(9, "q", b"3", delay_ms=500))
    node.answer()
    node.seal()
    node.say(send(9, "q", b"4", delay_ms=200))
    node.auto = True
    node.turn([])
    assert node.bodies(1) == numbered(0, 3) and durable(node).next_due_ms == node.now_ms + 200
    node.wait(0.2)
    assert node.bodies(1) == [b"4"] and durable(node).next_due_ms == node.now_ms + 300
    node.wait(0.3)
    assert node.bodies(1) == [b"3"] and durable(node).next_due_ms == 0


@pytest.mark.durability("D20")
def test_waking_is_one_batch_and_nobody_is_given_it_before_that_is_on_the_disk() -> None:
    node = Node()
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q", b"x", delay_ms=1000))
    node.auto = False
    node.wait(1)
    node.answer()
    assert node.seal() and node.being_committed is not None
    kinds = [type(write) for write in node.being_committed.writes]
    assert kinds.count(MakeDue) == kinds.count(Put) == 1
    assert node.messages(1) == [] and node.numbers("q")["storing"] == 1
    crashed = node.crashed()
    assert crashed.numbers("q")["delayed"] == 1
    node.commit()
    assert node.bodies(1) == [b"x"]


def test_tight_disk_wakes_only_what_is_consumed(small: None) -> None:
    """At its place a message may take more of the disk than under its time: many at once could fill it."""
    node = Node()
    node.open(1, 9)
    for body in numbered(0, 30):
        node.say(send(9, "q", body, delay_ms=1000))
    node.now_ms += 1000
    for _ in range(3):
        node.turn([Tick(GIB, GIB)])
    assert 0 < node.numbers("q")["ready"] <= 6
    node.say(subscribe(1, "q"))
    assert drained(node) == numbered(0, 30)


def test_tight_disk_does_not_stop_a_purge(small: None) -> None:
    node = Node()
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q", b"out"), unsubscribe(1, "q"))
    for body in numbered(0, 30):
        node.say(send(9, "q", body, delay_ms=1000), send(9, "q", body))
    node.turn([Tick(GIB, GIB)])
    node.auto = False
    node.say(send(9, "/admin", b'{"do":"purge","queue":"q"}', reply_to="admin"), nack(node.message(1)))
    node.auto = True
    node.turn([])
    assert node.numbers("q")["purged"] == 60 and node.numbers("q")["ready"] == 1


def test_many_of_a_memory_queue_wake_in_slices(small: None) -> None:
    node = Node(queue(persistent=False))
    node.open(1, 9)
    for body in numbered(0, 50):
        node.say(send(9, "q", body, delay_ms=1000))
    node.auto = False
    node.wait(1)
    assert node.numbers("q")["ready"] == 3, "one slice a turn"
    node.auto = True
    node.turn([])
    assert node.numbers("q")["ready"] == 50 and not node.broker.background
    node.say(subscribe(1, "q"))
    assert drained(node) == numbered(0, 50)


def test_damaged_delayed_record_is_told_once_and_stays(small: None) -> None:
    node = Node()
    node.open(9)
    for body in numbered(0, 12):
        node.say(send(9, "q", body, delay_ms=1000))
    real = node.disk.load_delayed

    def load_delayed(asked: ReadDelayed) -> LoadedDelayed:
        answer = real(asked)
        for row in answer.messages:
            if row.stored.message is not None and row.stored.message.body in (b"2", b"3"):
                row.stored.message = None
        return answer

    node.disk.load_delayed = load_delayed  # type: ignore[method-assign]
    node.wait(1)
    node.open(1)
    node.say(subscribe(1, "q"))
    assert drained(node) == [b"0", b"1", *numbered(4, 12)]
    node.say(send(9, "q", b"12", delay_ms=1))
    node.wait(1)
    assert drained(node) == [b"12"]
    assert [body for _, body in delayed_on_disk(node)] == [b"2", b"3"]
    assert node.numbers("q")["damaged"] == 2 and node.numbers("q")["delayed"] == 0
    assert [n.fields["queue"] for n in node.notes if n.event == "damaged_record"] == ["q", "q"]
    assert node.admin(9, do="purge", queue="q")["purged"] == 0


# ---- what comes back ------------------------------------------------------------------------------------------------


@BOTH
def test_nack_with_a_delay_comes_back_after_it_with_its_count_raised(persistent: bool) -> None:
    node = Node(queue(persistent=persistent))
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q", b"1"), send(9, "q", b"2"))
    first = node.message(1)
    node.say(late(first, 1000, b"n"))
    assert node.receipts(1) == [b"n"]
    second = node.message(1)
    assert second.message.body == b"2" and node.numbers("q")["delayed"] == 1 and node.numbers("q")["redelivered"] == 1
    node.wait(0.999)
    node.say(ack(second))
    assert node.messages(1) == []
    node.wait(0.001)
    again = node.message(1)
    assert (again.message.body, again.redelivered, again.redeliveries) == (b"1", True, 1)
    assert again.message_id == first.message_id


@pytest.mark.durability("D4", "D20")
def test_nack_with_a_delay_is_one_batch_and_its_receipt_waits_for_it() -> None:
    node = Node()
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q", b"1"))
    deliver = node.message(1)
    node.auto = False
    node.say(late(deliver, 1000, b"n"))
    assert node.seal() and node.being_committed is not None
    kinds = [type(write) for write in node.being_committed.writes]
    assert kinds.count(Remove) == kinds.count(Delay) == 1 and Count not in kinds
    assert node.receipts(1) == []
    crashed = node.crashed()
    assert crashed.numbers("q")["ready"] == 1 and crashed.numbers("q")["delayed"] == 0
    node.commit()
    assert node.receipts(1) == [b"n"]
    crashed = node.crashed()
    crashed.open(1)
    crashed.say(subscribe(1, "q"))
    crashed.wait(1)
    again = crashed.message(1)
    assert (again.redelivered, again.redeliveries, again.message_id) == (True, 1, deliver.message_id)
    later = crashed.crashed()
    later.open(1)
    later.say(subscribe(1, "q"))
    assert later.message(1).redeliveries == 1, "its count is kept at its place too"


def test_message_is_delayed_and_comes_back_any_number_of_times() -> None:
    node = Node(queue(redelivery_delay_ms=10, redelivery_delay_factor=1, dead_letter="dead", max_redeliveries=3))
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q", b"1"))
    for count in range(3):
        deliver = node.message(1)
        assert deliver.redeliveries == count
        node.say(nack(deliver))
        assert node.messages(1) == []
        node.wait(0.01)
    node.say(subscribe(1, "dead", prefetch_count=1), nack(node.message(1)))
    assert header(node.message(1).message, b"dead-letter-reason") == b"redeliveries"
    assert node.numbers("q")["messages"] == 0 and node.disk.platter.delayed == {}


@BOTH
def test_redelivery_delay_grows_by_its_factor_up_to_its_maximum(persistent: bool) -> None:
    settings = {"redelivery_delay_ms": 100, "redelivery_delay_factor": 3, "redelivery_delay_max_ms": 1000}
    node = Node(queue(persistent=persistent, **settings))
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q"))
    for delay_s in (0.1, 0.3, 0.9, 1.0, 1.0):
        node.say(nack(node.message(1)))
        node.wait(delay_s - 0.001)
        assert node.messages(1) == []
        node.wait(0.001)


@pytest.mark.parametrize("redeliveries", [0, 1, 1000, 100_000, 2**31 - 1])
@pytest.mark.parametrize("factor", [1, 2, 1.5, 1000, 1000.0])
def test_redelivery_delay_never_passes_its_maximum(redeliveries: int, factor: float) -> None:
    node = Node(queue(redelivery_delay_ms=1000, redelivery_delay_factor=factor, redelivery_delay_max_ms=60_000))
    most = 1000 if factor == 1 else 60_000
    assert 1000 <= durable(node).redelivery_delay_ms(redeliveries) <= most


@BOTH
def test_delay_of_nack_wins_and_0_means_at_once(persistent: bool) -> None:
    node = Node(queue(persistent=persistent, redelivery_delay_ms=100))
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q"))
    node.say(late(node.message(1), 0))
    node.say(late(node.message(1), 5000))
    node.wait(4.999)
    assert node.messages(1) == []
    node.wait(0.001)
    assert node.message(1).redeliveries == 2


@BOTH
def test_lost_connection_and_ack_timeout_are_delayed_too(persistent: bool) -> None:
    node = Node(queue(persistent=persistent, redelivery_delay_ms=1000, ack_timeout_s=5))
    node.open(1, 2, 9)
    node.say(subscribe(1, "q", prefetch_count=2), send(9, "q", b"1"), send(9, "q", b"2"))
    node.close(1)
    assert node.numbers("q")["delayed"] == 2
    node.say(subscribe(2, "q", prefetch_count=2))
    node.wait(1)
    assert node.bodies(2) == [b"1", b"2"]
    node.wait(5)
    assert node.refusal(2).code == "ack-timeout" and node.numbers("q")["delayed"] == 2
    node.wait(1.999)
    assert node.numbers("q")["ready"] == 0
    node.wait(0.001)
    assert node.numbers("q")["ready"] == 2


def test_stop_of_the_broker_delays_nothing() -> None:
    node = Node(queue(redelivery_delay_ms=1000))
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q", b"1"))
    node.stop()
    again = node.again_on(node.disk.platter)
    again.open(1)
    again.say(subscribe(1, "q"))
    assert again.message(1).redelivered


def test_message_that_expires_before_it_would_come_back_leaves_then() -> None:
    node = Node()
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q", b"1", expiration_ms=1000))
    node.say(late(node.message(1), 60_000))
    node.wait(1)
    assert node.numbers("q")["expired"] == 1 and node.numbers("q")["messages"] == 0


def test_nack_of_a_transaction_is_delayed_from_its_commit() -> None:
    node = Node()
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q", b"1"))
    deliver = node.message(1)
    node.say(begin(1), nack(deliver, transaction=b"t", delay_ms=1000))
    node.wait(5)
    node.say(commit(1, receipt=b"c"))
    assert node.receipts(1) == [b"c"] and node.messages(1) == [] and node.numbers("q")["delayed"] == 1
    node.wait(1)
    assert node.bodies(1) == [b"1"]


def test_one_that_is_delayed_to_the_very_same_time_again_is_kept() -> None:
    node = Node()
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q", b"1", delay_ms=1000))
    node.wait(1)
    deliver = node.message(1)
    node.now_ms -= 1000
    node.say(late(deliver, 1000))
    node.wait(1)
    assert node.bodies(1) == [b"1"]


# ---- the operator, bounds -------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("count", [1, 4, 5, 30])
def test_purge_lets_go_of_delayed_ones_too(small: None, persistent: bool, count: int) -> None:
    node = Node(queue(persistent=persistent))
    node.open(1, 9)
    for body in numbered(0, count):
        node.say(send(9, "q", body, delay_ms=1000), send(9, "q", body))
    assert node.admin(9, do="purge", queue="q") == {"ok": True, "purged": 2 * count}
    numbers = node.numbers("q")
    assert (numbers["messages"], numbers["delayed"], numbers["purged"]) == (0, 0, 2 * count)
    assert node.disk.platter.delayed == {} and node.stored("q") == []
    node.wait(2)
    assert node.numbers("q")["ready"] == 0


def test_purge_spares_delayed_ones_that_were_accepted_after_it(small: None) -> None:
    node = Node()
    node.open(1, 9)
    for body in numbered(0, 20):
        node.say(send(9, "q", body, delay_ms=5000))
    node.auto = False
    node.say(send(9, "/admin", b'{"do":"purge","queue":"q"}', reply_to="admin"))
    for body in numbered(20, 30):
        node.say(send(9, "q", body, delay_ms=1000))
    node.auto = True
    node.turn([])
    assert [body for _, body in delayed_on_disk(node)] == numbered(20, 30)
    assert durable(node).next_due_ms == START_MS + 1000
    node.say(subscribe(1, "q"))
    node.wait(1)
    assert drained(node) == numbered(20, 30)


def test_purge_spares_what_was_in_flight_and_is_delayed_while_it_goes_on(small: None) -> None:
    node = Node()
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q", b"out"))
    deliver = node.message(1)
    for body in numbered(0, 10):
        node.say(send(9, "q", body, delay_ms=5000))
    node.auto = False
    node.say(send(9, "/admin", b'{"do":"purge","queue":"q"}', reply_to="admin"), late(deliver, 1000))
    node.auto = True
    node.turn([])
    assert delayed_on_disk(node) == [(1000, b"out")] and node.numbers("q")["purged"] == 10
    node.wait(1)
    assert node.bodies(1) == [b"out"]


def test_purge_reaches_what_is_just_waking_and_what_is_in_the_open_batch(small: None) -> None:
    for steps in range(6):
        node = Node()
        node.open(1, 9)
        for body in numbered(0, 9):
            node.say(send(9, "q", body, delay_ms=1000))
        node.auto = False
        node.wait(1)
        node.say(send(9, "q", b"9", delay_ms=1000))
        for _ in range(steps):
            node.step()
        node.say(send(9, "/admin", b'{"do":"purge","queue":"q"}', reply_to="admin"))
        node.auto = True
        node.turn([])
        assert node.stored("q") == [] and node.disk.platter.delayed == {}, steps
        assert node.numbers("q")["purged"] == 10


def test_two_purges_at_once_reach_what_came_between_them(small: None) -> None:
    for steps in range(12):
        node = Node()
        node.open(8, 9)
        for body in numbered(0, 9):
            node.say(send(9, "q", body, delay_ms=5000))
        node.auto = False
        node.say(send(8, "/admin", b'{"do":"purge","queue":"q"}', reply_to="admin"))
        for _ in range(steps):
            node.step()
        node.say(send(9, "q", b"between", delay_ms=1000))
        node.say(send(9, "/admin", b'{"do":"purge","queue":"q"}', reply_to="admin"))
        node.auto = True
        node.turn([])
        assert node.disk.platter.delayed == {}, steps
        assert len(node.messages(8)) == len(node.messages(9)) == 1 and node.numbers("q")["purged"] == 10


@BOTH
def test_delete_and_its_sweep_take_delayed_ones_along(small: None, persistent: bool) -> None:
    node = Node(queues(q=QueueSettings(persistent=persistent)))
    node.broker.destinations.queues.all["q"].is_declared = False
    node.open(9)
    for body in numbered(0, 10):
        node.say(send(9, "q", body, delay_ms=1000), send(9, "q", body))
    assert node.admin(9, do="delete", queue="q")["deleted"] == 20
    node.wait(2)
    assert node.disk.platter.delayed == {} == node.disk.platter.messages and node.disk.platter.retired == {}


@pytest.mark.parametrize("steps", range(6))
def test_queue_that_is_deleted_while_its_messages_wake(small: None, steps: int) -> None:
    node = Node()
    node.open(9)
    for body in numbered(0, 9):
        node.say(send(9, "q", body, delay_ms=1000))
    node.auto = False
    node.wait(1)
    for _ in range(steps):
        node.step()
    node.say(send(9, "/admin", b'{"do":"delete","queue":"q"}', reply_to="admin"))
    node.auto = True
    node.turn([])
    assert node.disk.platter.delayed == {} == node.disk.platter.messages and node.disk.platter.retired == {}
    assert node.broker.destinations.windows.size == 0 and node.broker.destinations.windows.delayed_reads == 0


@BOTH
def test_peek_and_move_leave_delayed_ones_alone(persistent: bool) -> None:
    node = Node(queue(persistent=persistent))
    node.open(9)
    node.say(send(9, "q", b"1", delay_ms=1000), send(9, "q", b"2"))
    assert [m["body"] for m in node.admin(9, do="peek", queue="q")["messages"]] == ["2"]
    assert node.admin(9, do="move", **{"from": "q", "to": "other"})["moved"] == 1
    assert node.numbers("q")["delayed"] == 1 and node.numbers("q")["messages"] == 1


@BOTH
def test_delayed_ones_count_for_the_bounds_and_are_not_dropped(persistent: bool) -> None:
    node = Node(queue(persistent=persistent, max_messages=3, overflow="drop-oldest"))
    node.open(1, 9)
    node.say(*(send(9, "q", body, delay_ms=1000) for body in numbered(0, 2)))
    node.say(*(send(9, "q", body) for body in numbered(2, 5)))
    numbers = node.numbers("q")
    assert (numbers["delayed"], numbers["ready"], numbers["dropped"]) == (2, 1, 2)
    node.say(send(9, "q", b"5", delay_ms=1000), send(9, "q", b"6"))
    assert node.refusal(9).code == "queue-full"
    node.wait(1)
    node.say(subscribe(1, "q"))
    assert drained(node) == [b"0", b"1", b"5"]


@BOTH
def test_full_queue_of_delayed_ones_blocks_until_one_is_consumed(persistent: bool) -> None:
    node = Node(queue(persistent=persistent, max_messages=1))
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q", b"1", delay_ms=1000), send(9, "q", b"2", b"r"))
    assert 9 in node.paused
    node.wait(1)
    node.say(ack(node.message(1)))
    assert node.receipts(9) == [b"r"] and node.bodies(1) == [b"2"]


def test_expiry_of_a_delayed_one_makes_room() -> None:
    node = Node(queue(max_messages=1))
    node.open(9)
    node.say(send(9, "q", b"1", delay_ms=5000, expiration_ms=1000), send(9, "q", b"2", b"r"))
    assert 9 in node.paused
    node.wait(1)
    assert node.receipts(9) == [b"r"]


def test_eviction_reaches_what_is_just_waking(small: None) -> None:
    node = Node(queue(max_messages=1, overflow="drop-oldest"))
    node.open(9)
    node.say(send(9, "q", b"1", delay_ms=1000))
    node.auto = False
    node.wait(1)
    node.answer()
    node.say(send(9, "q", b"2", b"r"))
    node.auto = True
    node.turn([])
    assert node.receipts(9) == [b"r"] and node.stored("q") == [b"2"] and node.numbers("q")["dropped"] == 1


def test_auto_delete_takes_delayed_ones_along() -> None:
    node = Node(queue("tmp", auto_delete=True))
    node.open(1, 9)
    node.say(subscribe(1, "tmp"), send(9, "tmp", b"1", delay_ms=1000))
    node.close(1)
    assert not node.has("tmp") and node.disk.platter.delayed == {}


# ---- everything at random -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("persistent", [True, False], ids=["persistent", "memory"])
def test_nothing_is_lost_doubled_or_early_whatever_happens(small: None, persistent: bool, seed: int) -> None:
    """Sends, returns, ticks, crashes and a slow disk at random. Each message comes out at least once, and after a crash
    alone again; none before its time; the books agree at each start (SimDisk sees to that)."""
    random = Random(seed)
    settings = QueueSettings(persistent=persistent, redelivery_delay_ms=random.choice((0, 300)))
    node = Node(queues(q=settings), auto=False)
    node.open(1, 9)
    node.say(subscribe(1, "q", prefetch_count=random.choice((1, 3, 50))))
    due: dict[bytes, int] = {}
    acked: set[bytes] = set()
    sent = 0

    def taken() -> list[Deliver]:
        out = node.messages(1)
        for deliver in out:
            assert due[deliver.message.body] <= node.now_ms, "too early"
            assert deliver.message.body not in acked, "it was acked"
        return out

    out: list[Deliver] = []
    for _ in range(random.randrange(50, 400)):
        match random.randrange(12):
            case 0 | 1 | 2 | 3:
                body, delay_ms = b"%d" % sent, random.choice((None, 1, 200, 1000))
                node.say(send(9, "q", body, delay_ms=delay_ms))
                due[body] = node.now_ms + (delay_ms or 0)
                sent += 1
            case 4 | 5:
                node.wait(random.choice((0, 0.1, 0.25, 1)))
            case 6 | 7 if out:
                deliver = out.pop(random.randrange(len(out)))
                node.say(ack(deliver))
                acked.add(deliver.message.body)
            case 8 if out:
                deliver = out.pop(random.randrange(len(out)))
                delay_ms = random.choice((None, 0, 100, 2000))
                wait_ms = settings.redelivery_delay_ms if delay_ms is None else delay_ms
                due[deliver.message.body] = node.now_ms + wait_ms
                node.say(late(deliver, delay_ms))
            case 9 if random.random() < 0.1 and persistent:
                node.auto = True
                node.turn([])  # all is on the disk: nothing may be lost
                out += taken()
                node.close(1) if random.random() < 0.5 else None
                for deliver in out:
                    due[deliver.message.body] = node.now_ms  # it may come at once, or later
                node = node.crashed()
                node.auto = False
                node.open(1, 9)
                node.say(subscribe(1, "q", prefetch_count=5))
                out = []
            case _:
                node.step()
        out += taken()
    node.auto = True
    node.turn([])
    for _ in range(200):
        out += taken()
        for deliver in out:
            node.say(ack(deliver))
            acked.add(deliver.message.body)
        out = []
        node.wait(0.5)
        if len(acked) == sent:
            break
    assert acked == set(numbered(0, sent))
    assert node.numbers("q")["messages"] == 0 and node.numbers("q")["delayed"] == 0
    windows = node.broker.destinations.windows
    assert (windows.size, windows.out, windows.delayed_reads, dict(windows.next_delayed_reads)) == (0, 0, 0, {})


@pytest.mark.durability("D32")
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda rows: rows[:-1], "the delayed messages of /queue/q end, but its ledger has 1 further one"),
        (lambda rows: [], "the delayed messages of /queue/q end, but its ledger has 5 further ones"),
        (lambda rows: [rows[1], rows[0], *rows[2:]], "/queue/q has delayed message .* after"),
        (lambda rows: [rows[0], rows[0], *rows[1:]], "/queue/q has delayed message .* after"),
    ],
)
def test_delayed_messages_that_are_missing_double_or_out_of_order_end_the_broker(
    change: Callable[[list[StoredDelayed]], list[StoredDelayed]], sentence: str
) -> None:
    node = Node()
    node.open(9)
    node.say(*(send(9, "q", b"%d" % number, delay_ms=1000 + number) for number in range(5)))
    again = node.crashed()
    real = again.disk.load_delayed

    def load(asked: ReadDelayed) -> LoadedDelayed:
        loaded = real(asked)
        loaded.messages = change(loaded.messages) if loaded.messages else []
        return loaded

    again.disk.load_delayed = load  # type: ignore[method-assign]
    with pytest.raises(StoreError, match=f"^{sentence}"):
        again.wait(2)


def test_what_comes_while_due_ones_are_read_and_the_clock_is_set_back_stays_delayed() -> None:
    node = Node(queue("q"), auto=False)
    node.auto = True
    node.open(1, 2)
    node.say(subscribe(2, "q", prefetch_count=10), send(1, "q", b"first", delay_ms=1000))
    node.auto = False
    node.wait(2)
    assert node.read_requests
    node.now_ms -= 60_000
    node.turn([Read(1, [send(1, "q", b"second", delay_ms=3000)])])
    assert node.seal()
    node.commit()
    node.auto = True
    node.turn([])
    assert b"second" not in node.bodies(2)
    node.wait(3)
    assert node.bodies(2) == [b"second"]
    node.wait(60)
    assert node.numbers("q")["delayed"] == 0
