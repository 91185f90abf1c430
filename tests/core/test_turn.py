"""Turns and batches: what is held, and the order in which RECEIPTs and ERRORs leave."""

from typing import Any

import pytest

from radiator.core.queues import window
from radiator.core.turn import TurnContext
from radiator.model.ack_modes import AUTO
from radiator.model.commands import CLIENT, CLIENT_INDIVIDUAL, Committed, Disconnect, Fail, Read
from radiator.model.getting import Get
from radiator.model.limits import UNAWAITED_QUEUES
from radiator.model.replies import Bye, Receipt, Refuse
from radiator.model.settings import Declarations, QueueSettings
from tests.core.conftest import shrink
from tests.core.node import Node
from tests.core.words import ack, send, subscribe


def replies(node: Node, connection: int) -> list[object]:
    return [r.receipt if isinstance(r, Receipt) else type(r) for r in node.take(connection)]


def test_receipt_of_a_persistent_send_waits_for_its_commit() -> None:
    node = Node(auto=False)
    node.open(1)
    node.say(send(1, "q", receipt=b"r"))
    assert node.take(1) == []
    node.seal()
    assert node.take(1) == []
    node.commit()
    assert replies(node, 1) == [b"r"]


def test_one_commit_serves_every_connection_that_waits_for_it() -> None:
    node = Node(auto=False)
    node.open(1, 2, 3)
    for connection in (1, 2, 3):
        node.say(send(connection, "q", receipt=b"%d" % connection))
    node.seal()
    node.commit()
    assert [replies(node, c) for c in (1, 2, 3)] == [[b"1"], [b"2"], [b"3"]]


def test_receipts_leave_in_the_order_in_which_they_were_asked_for() -> None:
    node = Node(auto=False)
    node.open(1, 2)
    node.say(send(1, "q", receipt=b"1"))
    node.seal()
    node.say(subscribe(1, "/topic/t", receipt=b"2"), send(1, "q", receipt=b"3"), send(1, "/topic/t", receipt=b"4"))
    node.say(send(2, "/topic/t", receipt=b"other"))
    assert replies(node, 2) == [b"other"], "other connections do not wait"
    node.messages(1)
    assert replies(node, 1) == []
    node.commit()
    assert replies(node, 1) == [b"1", b"2"]
    node.seal()
    node.commit()
    assert replies(node, 1) == [b"3", b"4"]
    node.say(send(1, "/topic/t", receipt=b"5"))
    node.messages(1)
    assert replies(node, 1) == [b"5"]


@pytest.mark.parametrize("is_sealed", [False, True])
def test_error_waits_behind_the_receipts_due_before_it_and_nothing_follows(is_sealed: bool) -> None:
    node = Node(auto=False)
    node.open(1)
    node.say(send(1, "q", receipt=b"1"))
    if is_sealed:
        node.seal()
    node.turn([Read(1, [Fail(1, "No.", b"2"), send(1, "q", b"after", b"3")])])
    node.say(send(1, "q", b"later", b"4"))
    assert replies(node, 1) == []
    node.seal()
    node.commit()
    assert replies(node, 1) == [b"1", Refuse]
    while node.step():
        pass
    assert node.stored("q") == [b"x"] and replies(node, 1) == []


def test_error_of_a_broken_frame_carries_its_receipt_and_code() -> None:
    node = Node()
    node.open(1)
    node.say(Fail(1, "No.", b"r"))
    assert node.refusal(1) == Refuse(1, "protocol", "No.", b"r")


def test_receipt_of_disconnect_waits_behind_those_due_before_it() -> None:
    node = Node(auto=False)
    node.open(1)
    node.turn([Read(1, [send(1, "q", receipt=b"1"), Disconnect(1, b"2"), send(1, "q", b"after", b"3")])])
    assert replies(node, 1) == []
    node.seal()
    node.commit()
    assert replies(node, 1) == [b"1", b"2", Bye]
    assert node.stored("q") == [b"x"]


def test_disconnect_without_receipt_says_bye() -> None:
    node = Node(auto=False)
    node.open(1)
    node.say(Disconnect(1))
    assert replies(node, 1) == [Bye]


def test_batches_are_numbered_and_committed_one_at_a_time() -> None:
    node = Node(auto=False)
    node.open(1)
    node.say(send(1, "q"))
    first = node.broker.seal()
    assert first is not None and node.broker.seal() is None
    node.say(send(1, "q"))
    assert node.broker.seal() is None, "one is being committed"
    with pytest.raises(AssertionError):
        node.broker.turn([Committed(first.number + 1)], 0, 0)


def test_nothing_to_write_is_no_batch() -> None:
    node = Node()
    node.open(1)
    node.say(subscribe(1, "/topic/t", CLIENT), send(1, "/topic/t"))
    node.auto = False
    assert node.broker.seal() is None


def test_batch_of_messages_without_receipts_is_awaited_by_consumers_alone() -> None:
    node = Node(auto=False)
    node.open(1, 2)
    node.say(send(2, "q"), send(2, "q"), send(2, "q", receipt=b"r"))
    assert node.broker.is_batch_awaited
    node.seal()
    node.commit()
    node.say(send(2, "q"))
    assert node.broker.has_batch and not node.broker.is_batch_awaited
    node.say(subscribe(1, "q", CLIENT_INDIVIDUAL, prefetch_count=2))
    assert not node.broker.is_batch_awaited  # it has two, and the third is ready for it
    first, second = node.messages(1)
    node.say(ack(first), ack(second))
    assert node.broker.is_batch_awaited  # it has got the third, and has room for what is stored


def test_batch_is_awaited_by_a_consumer_without_room_whose_next_message_it_stores() -> None:
    node = Node(auto=False)
    node.open(1, 2)
    node.say(subscribe(1, "q", CLIENT_INDIVIDUAL))
    node.say(send(2, "q"))
    node.seal()
    node.commit()
    node.say(send(2, "q"))
    assert node.messages(1) and node.broker.is_batch_awaited
    node.seal()
    node.commit()
    node.say(send(2, "q"))
    assert not node.broker.is_batch_awaited  # one is ready, and there is one consumer


def test_batch_is_not_awaited_for_what_is_stored_beyond_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "WINDOW_MESSAGES", 1)
    node = Node(auto=False)
    node.open(1)
    node.say(send(1, "q", receipt=b"r"))
    node.seal()
    node.commit()
    node.say(send(1, "q"))
    assert node.stored("q") == [b"x"] and node.broker.has_batch and not node.broker.is_batch_awaited


def test_a_full_batch_is_taken_to_be_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(auto=False)
    node.open(1)
    node.say(send(1, "q", receipt=b"r"))
    node.seal()
    node.commit()
    node.say(send(1, "q", b"x" * 100))
    monkeypatch.setattr("radiator.core.broker.BATCH_BYTES", node.broker.context.open.size + 1)
    assert not node.broker.is_batch_awaited
    node.say(send(1, "q", b"x" * 100))
    assert node.broker.is_batch_awaited


def test_batch_of_very_many_queues_is_taken_to_be_awaited() -> None:
    node = Node(auto=False)
    node.open(1)
    for number in range(UNAWAITED_QUEUES + 1):
        node.say(send(1, f"{number}", receipt=b"r"))
    node.seal()
    node.commit()
    for number in range(UNAWAITED_QUEUES):
        node.say(send(1, f"{number}"))
    assert not node.broker.is_batch_awaited
    node.say(send(1, f"{UNAWAITED_QUEUES}"))
    assert node.broker.is_batch_awaited


@pytest.mark.parametrize("more", [{"max_priority": 9}, {"partition_key": "key"}], ids=["priorities", "partitions"])
def test_batch_is_awaited_by_each_consumer_of_a_queue_without_one_line(more: dict[str, Any]) -> None:
    """What is stored may come before what is ready."""
    node = Node(Declarations(queues={"q": QueueSettings(**more)}), auto=False)
    node.open(1, 2)
    node.say(*(send(2, "q", headers=b"key:%d\n" % one) for one in range(9)))
    node.seal()
    node.commit()
    node.say(send(2, "q"))
    assert node.broker.has_batch and not node.broker.is_batch_awaited
    node.say(subscribe(1, "q", CLIENT_INDIVIDUAL))
    assert node.broker.is_batch_awaited


def test_batch_is_awaited_by_who_observes_the_queue_as_links_to_other_nodes_do() -> None:
    node = Node(auto=False)
    node.open(1)
    node.say(send(1, "q", receipt=b"r"))
    node.seal()
    node.commit()
    queue = node.broker.destinations.queues.all["q"]

    def observer() -> None:
        pass

    queue.observe(observer)
    node.say(send(1, "q"))
    assert node.broker.is_batch_awaited
    queue.ignore(observer)
    assert not node.broker.is_batch_awaited


def test_batch_is_awaited_by_who_waits_for_room_that_can_be_made_once_it_is_on_the_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is beyond the window must be read back before it can be dropped."""
    monkeypatch.setattr(window, "WINDOW_MESSAGES", 1)
    node = Node(Declarations(queues={"q": QueueSettings(max_messages=3, overflow="drop-oldest")}))
    node.open(1)
    node.auto = False
    node.say(*(send(1, "q") for _ in range(4)))
    assert node.broker.has_batch and not node.broker.is_batch_awaited
    node.say(send(1, "q"))
    node.answer()
    assert node.paused == {1} and not node.read_requests and node.broker.is_batch_awaited


def test_batch_is_awaited_by_a_get_that_came_before_what_it_stores_was_ready() -> None:
    node = Node(auto=False)
    node.open(1, 2)
    node.say(send(2, "q", receipt=b"r"), Get(2, "/queue/q", b"g", AUTO))
    node.seal()
    node.commit()
    node.say(send(2, "q"))
    assert node.broker.has_batch and not node.broker.is_batch_awaited
    node.say(Get(1, "/queue/q", b"g", CLIENT_INDIVIDUAL))
    assert node.broker.is_batch_awaited


def test_batch_is_awaited_but_where_all_it_does_is_to_remove_what_was_acked_without_a_receipt() -> None:
    node = Node(auto=False)
    node.open(1, 2)
    node.say(subscribe(1, "q", CLIENT_INDIVIDUAL, prefetch_count=9))
    node.say(send(2, "q"), send(2, "q"), send(2, "q"))
    assert node.broker.is_batch_awaited  # they can be delivered then, though nobody has asked for a receipt
    node.seal()
    node.commit()
    first, second, third = node.messages(1)
    node.say(ack(first))
    assert node.broker.has_batch and not node.broker.is_batch_awaited
    node.say(ack(second, b"r"))
    assert node.broker.is_batch_awaited
    node.seal()
    node.commit()
    node.say(ack(third))
    assert not node.broker.is_batch_awaited
    node.say(send(2, "q"))
    assert node.broker.is_batch_awaited


def test_batch_is_awaited_while_others_wait_for_room_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(auto=False)
    node.open(1, 2)
    node.say(subscribe(1, "q", CLIENT))
    node.say(send(2, "q"))
    node.seal()
    node.commit()
    (deliver,) = node.messages(1)
    shrink(monkeypatch, {"BATCH_WRITES": 1})
    node.say(ack(deliver))
    assert not node.broker.is_batch_awaited
    node.say(send(2, "q"))
    assert node.broker.is_batch_awaited


def test_ledgers_are_written_once_for_each_queue_of_a_batch() -> None:
    node = Node(auto=False)
    node.open(1)
    for _ in range(5):
        node.say(send(1, "a"), send(1, "b"))
    batch = node.broker.seal()
    assert batch is not None
    assert [type(w).__name__ for w in batch.writes].count("SaveLedger") == 2


def test_message_and_its_removal_may_share_a_batch() -> None:
    node = Node(auto=False)
    node.open(1, 2)
    node.say(subscribe(1, "q", prefetch_count=2), send(2, "q"))
    node.seal()
    node.commit()
    deliver = node.message(1)
    node.say(ack(deliver, b"r"), send(2, "q", b"y"))
    node.seal()
    node.commit()
    assert node.receipts(1) == [b"r"] and node.stored("q") == [b"y"]


@pytest.mark.durability("D8")
def test_position_never_repeats_and_ascends() -> None:
    context = TurnContext("00", 3)
    positions = [context.next_position() for _ in range(1000)]
    assert positions == sorted(set(positions)) and {p >> 64 for p in positions} == {3}
    assert TurnContext("00", 4).next_position() > positions[-1]
