"""The window of a persistent queue, and the disk behind it: every edge of paging, with small bounds."""

import pytest

from radiator.model.commands import AUTO
from radiator.model.settings import QueueSettings
from tests.core.backlogs import drained, fill, numbered
from tests.core.node import Node
from tests.core.words import ack, begin, commit, nack, queue, queues, send, subscribe


@pytest.mark.durability("D2")
def test_unsynced_message_is_not_delivered() -> None:
    node = Node(auto=False)
    node.open(1, 9)
    node.say(subscribe(1, "q", AUTO), send(9, "q"))
    node.seal()
    assert node.messages(1) == []
    node.commit()
    assert node.bodies(1) == [b"x"]


def test_unsynced_message_is_not_delivered_beyond_the_window_either(small: None) -> None:
    node = Node(auto=False)
    node.open(1, 9)
    fill(node, 20)
    node.say(subscribe(1, "q", AUTO))
    while node.read_requests:
        node.answer()
    assert node.messages(1) == []
    node.auto = True
    node.turn([])
    assert node.bodies(1) == numbered(0, 20)


def test_returned_message_goes_out_before_what_follows_it(small: None) -> None:
    node = Node()
    node.open(1, 2, 9)
    fill(node, 30)
    node.say(subscribe(2, "q", prefetch_count=3))
    node.messages(2)
    node.say(subscribe(1, "q"))
    seen = []
    for _ in range(10):
        (deliver,) = node.messages(1)
        seen.append(deliver.message.body)
        node.say(ack(deliver))
    assert seen == numbered(3, 13)
    (held,) = node.messages(1)
    node.close(2)
    node.say(ack(held))
    assert [held.message.body, *drained(node)] == [b"13", *numbered(0, 3), *numbered(14, 30)]


def test_nacks_and_acks_between_loads_keep_the_order(small: None) -> None:
    node = Node()
    node.open(1, 9)
    fill(node, 40)
    node.say(subscribe(1, "q", prefetch_count=3))
    acked = []
    times: dict[bytes, int] = {}
    while out := node.messages(1):
        for deliver in reversed(out):
            body = deliver.message.body
            times[body] = times.get(body, 0) + 1
            assert deliver.redeliveries == times[body] - 1
            if int(body) % 3 == 0 and times[body] == 1:
                node.say(nack(deliver))
            else:
                acked.append(body)
                node.say(ack(deliver))
    assert sorted(acked, key=int) == numbered(0, 40) and node.stored("q") == []


def test_restart_finds_a_backlog_whole_and_in_order(small: None) -> None:
    node = Node()
    node.open(1, 9)
    fill(node, 30)
    node.say(subscribe(1, "q"))
    for _ in range(7):
        node.say(ack(node.message(1)))
    again = node.crashed()
    again.open(1, 9)
    fill(again, 35, 30)
    again.say(subscribe(1, "q"))
    assert drained(again) == numbered(7, 35)


def test_message_ids_of_an_earlier_run_stay(small: None) -> None:
    node = Node()
    node.open(1, 9)
    node.say(send(9, "q"), subscribe(1, "q"))
    before = node.message(1).message_id
    again = node.crashed()
    again.open(1)
    again.say(subscribe(1, "q"))
    deliver = again.message(1)
    assert deliver.message_id == before == b"feedfacecafebeef-1-%d" % int(before.split(b"-")[2])
    again.say(ack(deliver, b"r"))
    assert again.receipts(1) == [b"r"]


def test_transaction_larger_than_the_window_arrives_whole_and_in_order(small: None) -> None:
    node = Node()
    node.open(1, 9)
    node.say(subscribe(1, "q"), begin(9))
    for body in numbered(0, 20):
        node.say(send(9, "q", body, transaction=b"t"))
    node.say(commit(9, receipt=b"c"))
    assert node.receipts(9) == [b"c"] and drained(node) == numbered(0, 20)


def test_ledger_survives_restarts_and_adds_up(small: None) -> None:
    node = Node(
        queues(q=QueueSettings(dead_letter="dead", max_redeliveries=0, max_messages=20, overflow="drop-oldest"))
    )
    node.open(1, 9)
    fill(node, 22)
    node.say(subscribe(1, "q", prefetch_count=3))
    out = node.messages(1)
    node.say(ack(out[0]), nack(out[1]))
    before = node.numbers("q")
    again = node.crashed()
    after = again.numbers("q")
    columns = ("accepted", "stored", "acked", "expired", "dropped", "purged", "dead_lettered", "stored_bytes")
    assert {c: before[c] for c in columns} == {c: after[c] for c in columns}
    assert (after["accepted"], after["acked"], after["dropped"], after["dead_lettered"]) == (22, 1, 2, 1)


def test_stored_queue_that_is_now_a_memory_queue_and_empty_goes() -> None:
    node = Node()
    node.open(1, 9)
    fill(node, 1)
    node.say(subscribe(1, "q", AUTO))
    again = node.again_on(node.disk.platter, declarations=queue(persistent=False))
    assert again.disk.platter.queues == {} and not again.broker.destinations.queues.all["q"].is_persistent
