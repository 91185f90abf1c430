"""BEGIN, COMMIT and ABORT: a transaction happens whole, when it is committed, or not at all."""

import pytest

from radiator.model.commands import AUTO
from radiator.model.limits import Limits
from radiator.model.settings import Declarations, QueueSettings
from tests.core.node import Node
from tests.core.words import abort, ack, begin, commit, queue, queues, send, subscribe


def fill(node: Node, count: int, first: int = 0, connection: int = 9, **more: object) -> None:
    for number in range(first, first + count):
        node.say(send(connection, "q", b"%d" % number, **more))


def fanout(**settings: QueueSettings) -> Node:
    children = {"a": QueueSettings(), "b": QueueSettings(), **settings}
    return Node(Declarations(queues=children, fanouts={"f": tuple(children)}, create_queues=True), auto=False)


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
    assert node.in_use_bytes() < 1000


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
    node.say(begin(9), send(9, "/admin", b'{"do":"stats"}', transaction=b"t"))
    assert node.refusal(9).code == "admin", "at once, not at its COMMIT"


def test_a_transaction_sends_so_many_messages_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.transactions.transactions.SENT_PER_TRANSACTION", 10)
    node = Node()
    node.open(8, 9)
    for number, count in ((8, 10), (9, 11)):
        node.say(begin(number), *(send(number, "q", b"%d" % number, transaction=b"t") for _ in range(count)))
        node.say(commit(number, receipt=b"c"))
    assert node.receipts(8) == [b"c"] and node.receipts(9) == []
    assert node.refusal(9).code == "too-large" and node.stored("q") == [b"8"] * 10
