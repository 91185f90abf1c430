"""dedup-ids: which SENDs are duplicates, and what their RECEIPTs wait for."""

import pytest

from radiator.core.queues.dedup import Dedup
from radiator.model.commands import AUTO
from radiator.model.reads import DedupLookup, Found
from radiator.model.settings import Declarations, QueueSettings
from radiator.model.writes import Remember
from tests.core import bare
from tests.core.conftest import shrink
from tests.core.node import Node
from tests.core.words import ack, begin, commit, queue, send, subscribe


def fanout(**settings: QueueSettings) -> Node:
    children = {"a": QueueSettings(), "b": QueueSettings(), **settings}
    return Node(Declarations(queues=children, fanouts={"f": tuple(children)}, create_queues=True), auto=False)


def run(node: Node) -> None:
    node.auto = True
    node.turn([])


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


def test_forgotten_dedup_ids_leave_the_disk_however_fast_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"FORGET_MESSAGES": 100})
    node = dedup(1)
    for second in range(6):
        for number in range(250):
            node.say(send(9, "q", dedup_id=b"%d-%d" % (second, number)))
        node.wait(1.1)
    for _ in range(5):
        node.wait(10)
    assert len(node.disk.platter.dedup) == 0
    assert len(node.broker.destinations.queues.all["q"].dedup.pending) == 0  # type: ignore[attr-defined]


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
    queue_ = node.broker.destinations.queues.all["q"]
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
    queue_ = node.broker.destinations.queues.all["q"]
    assert node.stored("q") == [] and not queue_.dedup.lookups  # type: ignore[attr-defined]
    node.say(send(9, "q", b"2", b"2", dedup_id=b"i"))
    assert node.receipts(9) == [b"2"] and node.stored("q") == [b"2"]


# ---- the table by itself --------------------------------------------------------------------------------------------


def test_an_id_is_a_duplicate_until_its_window_ends_and_no_longer() -> None:
    turns = bare.context()
    dedup = Dedup(1, turns)
    assert dedup.batch_of(b"i") is None
    dedup.remember(b"i", 5)
    assert turns.open.writes == [Remember(1, b"i", turns.now_ms + 5000)]
    assert dedup.batch_of(b"i") == turns.open.number and dedup.batch_of(b"j") is None
    turns.now_ms += 5000
    assert dedup.batch_of(b"i") == 1
    turns.now_ms += 1
    assert dedup.batch_of(b"i") is None


def test_what_is_on_the_disk_is_forgotten_unless_a_look_up_has_not_seen_it() -> None:
    turns = bare.context()
    dedup = Dedup(1, turns)
    dedup.remember(b"seen", 60)
    request = dedup.look_up(b"other")  # it sees what is committed now: nothing
    bare.commit(turns)
    dedup.committed()
    assert dedup.pending, "the answer may not know of it"
    dedup.used(request)
    dedup.committed()
    assert not dedup.pending and not dedup.lookups


def test_an_id_that_is_being_committed_stays() -> None:
    turns = bare.context()
    dedup = Dedup(1, turns)
    dedup.remember(b"first", 60)
    bare.commit(turns)
    dedup.remember(b"second", 60)
    dedup.committed()
    assert [*dedup.pending] == [b"second"]


def test_a_look_up_asks_the_disk_for_this_queue_as_of_now() -> None:
    turns = bare.context()
    request = Dedup(7, turns).look_up(b"i")
    assert turns.turn.read_requests == [DedupLookup(request, 7, b"i", turns.now_ms)]
