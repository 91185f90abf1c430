"""What is out, and whose bytes are on the disk alone, is read back before it goes elsewhere."""

import pytest

from radiator.model.commands import CLIENT
from radiator.model.errors import StoreError
from radiator.model.limits import LOAD_BYTES
from radiator.model.reads import ReadQueue
from tests.core.node import Node
from tests.core.stubs import BODY, filled, is_exact, numbers_of, out
from tests.core.words import ack, begin, commit, header, nack, queue, send, subscribe


def test_stubs_that_are_rejected_are_dead_letters_with_all_their_bytes() -> None:
    node = filled(3 * LOAD_BYTES // BODY, queue(dead_letter="dead"))
    there = node.messages(2)
    assert all(out(node)[10:])
    node.say(nack(there[-1], b"r", requeue=False), send(2, "other", b"behind it", b"s"))
    assert node.receipts(2) == [b"r", b"s"] and not node.paused
    assert node.numbers("q")["messages"] == 0 and node.numbers("dead")["messages"] == len(there)
    node.open(3)
    node.say(subscribe(3, "dead", CLIENT, prefetch_count=65_535))
    dead = node.messages(3)
    assert numbers_of(dead) == list(range(len(there)))
    assert {header(one.message, b"dead-letter-reason") for one in dead} == {b"rejected"}
    is_exact(node)


def test_the_receipt_of_a_nack_waits_for_all_of_its_dead_letters() -> None:
    node = filled(20, queue(dead_letter="dead"))
    there = node.messages(2)
    node.auto = False
    node.say(nack(there[-1], b"r", requeue=False))
    while not node.stored("dead") or len(node.stored("dead")) < 20:
        assert node.receipts(2) == []
        assert node.step()
    while node.step():
        pass
    assert node.receipts(2) == [b"r"]


def test_a_transaction_that_rejects_stubs_is_one_whole() -> None:
    node = filled(20, queue(dead_letter="dead"))
    there = node.messages(2)
    node.say(begin(2), nack(there[-1], transaction=b"t", requeue=False), send(2, "other", transaction=b"t"))
    assert node.numbers("q")["unacked"] == 20
    before = len(node.log)
    node.say(commit(2, receipt=b"r"))
    assert node.receipts(2) == [b"r"] and len(node.log) > before
    assert (node.numbers("dead")["messages"], node.numbers("other")["messages"]) == (20, 1)
    is_exact(node)


def test_stubs_that_are_lost_too_often_are_dead_letters() -> None:
    node = filled(30, queue(dead_letter="dead", max_redeliveries=1))
    for number in (3, 4):
        node.close(number - 1)
        node.open(number)
        assert node.numbers("q")["messages"] == (30 if number == 3 else 0)
        node.say(subscribe(number, "q", CLIENT, prefetch_count=100))
    node.say(subscribe(4, "dead", CLIENT, prefetch_count=100))
    assert numbers_of(node.messages(4)) == list(range(30))
    is_exact(node)


def test_stubs_that_are_overdue_come_back_or_are_dead_letters() -> None:
    node = filled(30, queue(dead_letter="dead", max_redeliveries=1, ack_timeout_s=5))
    for number in (3, 4):
        node.wait(6)
        assert node.refusal(number - 1).code == "ack-timeout"
        node.close(number - 1)
        node.open(number)
        node.say(subscribe(number, "q", CLIENT, prefetch_count=100))
    assert node.numbers("q")["messages"] == 0 and node.messages(4) == []
    node.say(subscribe(4, "dead", CLIENT, prefetch_count=100))
    assert numbers_of(node.messages(4)) == list(range(30))
    is_exact(node)


def answered(node: Node, damaged: int | None) -> None:
    """The one question that is under way, with one message that cannot be read; None: that is not there at all."""
    (read_request,) = node.read_requests
    assert isinstance(read_request, ReadQueue)
    node.read_requests.clear()
    answer = node.disk.load(read_request)
    if damaged is None:
        del answer.messages[3]
    else:
        answer.messages[damaged].message = None
    node.auto = True
    node.turn([answer])


def test_a_stub_whose_record_is_damaged_is_told_of_and_the_others_come() -> None:
    node = filled(30, queue(dead_letter="dead"))
    there = node.messages(2)
    node.auto = False
    node.say(nack(there[-1], b"r", requeue=False))
    answered(node, damaged=5)
    assert node.receipts(2) == [b"r"] and node.numbers("dead")["messages"] == 29
    assert node.numbers("q")["damaged"] == 1 and [note.event for note in node.notes].count("damaged_record") == 1
    is_exact(node)

    node = filled(30)
    node.messages(2)
    node.close(2)
    node.open(3)
    node.say(subscribe(3, "q", CLIENT, prefetch_count=8))
    first = node.messages(3)
    node.auto = False
    while not node.read_requests:
        node.say(ack(first[-1]))
        node.step()
    answered(node, damaged=0)
    node.say(subscribe(3, "q", CLIENT, name=b"more", prefetch_count=100))
    came = numbers_of([*first, *node.messages(3)])
    assert len(came) == 29 and came == sorted(came) and node.numbers("q")["damaged"] == 1
    is_exact(node)


@pytest.mark.durability("D32")
def test_a_stub_that_the_store_has_not_ends_the_broker() -> None:
    node = filled(30, queue(dead_letter="dead"))
    there = node.messages(2)
    node.auto = False
    node.say(nack(there[-1], b"r", requeue=False))
    with pytest.raises(StoreError, match="/queue/q has no message"):
        answered(node, damaged=None)


def test_a_consumer_that_goes_while_its_nack_waits_for_the_disk_loses_nothing() -> None:
    node = filled(30, queue(dead_letter="dead"))
    there = node.messages(2)
    node.auto = False
    node.say(nack(there[-1], b"r", requeue=False))
    assert node.read_requests and node.paused == {2}
    node.close(2)
    node.auto = True
    node.turn([])
    standing = node.numbers("q")["ready"] + node.numbers("dead")["ready"]
    assert standing == 30 and node.numbers("q")["unacked"] == 0
    is_exact(node)
