"""`/amq/queue/NAME`: a queue that is there; its use makes none, and what is sent to none is dropped and counted."""

from dataclasses import replace

import pytest

from radiator.model.headers import ESCAPING_ALL
from radiator.model.replies import Receipt, Returned
from tests.core.node import Node
from tests.core.words import begin, commit, send, subscribe


@pytest.fixture
def node() -> Node:
    node = Node()
    node.open(1, 2)
    return node


def test_it_is_the_same_queue_as_by_its_other_address(node: Node) -> None:
    node.say(subscribe(2, "q"), send(1, "/amq/queue/q", b"1"))
    assert node.bodies(2) == [b"1"]
    node.open(3)
    node.say(subscribe(3, "/amq/queue/q"), send(1, "q", b"2"))
    assert node.bodies(3) == [b"2"] and node.numbers("q")["unacked"] == 2


def test_what_is_sent_to_none_is_receipted_dropped_and_counted(node: Node) -> None:
    node.say(send(1, "/amq/queue/none", receipt=b"r"))
    assert node.receipts(1) == [b"r"] and not node.has("none")
    assert node.broker.context.counters["unrouted"] == 1


@pytest.mark.parametrize(
    ("more", "code"), [({"mandatory": True}, "no-subscriber"), ({"immediate": True}, "no-consumer")]
)
def test_one_who_wants_to_know_is_told(node: Node, more: dict[str, bool], code: str) -> None:
    node.say(send(1, "/amq/queue/none", **more))
    assert node.refusal(1).code == code and not node.has("none")


def test_a_subscribe_to_none_is_refused(node: Node) -> None:
    node.say(subscribe(1, "/amq/queue/none"))
    assert node.refusal(1).code == "no-such-destination" and not node.has("none")


# ---- what comes back ------------------------------------------------------------------------------------------------


def returned(number: int, to: str, body: bytes = b"x") -> Returned:
    return Returned(number, to, b"", ESCAPING_ALL, body)


@pytest.mark.parametrize("to", ["/amq/queue/none", "/exchange/amq.direct/none"])
def test_a_mandatory_one_that_reaches_no_queue_comes_back_before_its_receipt(node: Node, to: str) -> None:
    node.say(send(1, "q", b"stored", b"1"), send(1, to, receipt=b"2", mandatory=True, returns=True))
    assert node.take(1) == [Receipt(1, b"1"), returned(1, to), Receipt(1, b"2")]
    node.say(send(1, to, receipt=b"3", returns=True))
    assert node.take(1) == [Receipt(1, b"3")], "it is not mandatory"
    node.say(send(1, to, mandatory=True))
    assert node.refusal(1).code == "no-subscriber", "it does not come back"


def test_it_keeps_its_place_behind_what_is_on_its_way_to_the_disk(node: Node) -> None:
    node.auto = False
    node.say(send(1, "q", b"stored", b"1"), send(1, "/amq/queue/none", b"x", b"2", mandatory=True, returns=True))
    assert node.take(1) == []
    node.auto = True
    node.turn([])
    assert node.take(1) == [Receipt(1, b"1"), returned(1, "/amq/queue/none"), Receipt(1, b"2")]


def test_one_that_reaches_a_queue_does_not_come_back(node: Node) -> None:
    node.say(subscribe(2, "q"), send(1, "/amq/queue/q", b"1", b"r", mandatory=True, returns=True))
    assert node.take(1) == [Receipt(1, b"r")] and node.bodies(2) == [b"1"]


def test_in_a_transaction_it_comes_back_at_the_commit_and_all_else_is_carried_out(node: Node) -> None:
    node.say(begin(1), send(1, "/amq/queue/none", b"1", transaction=b"t", mandatory=True, returns=True))
    node.say(send(1, "q", b"2", transaction=b"t"))
    assert node.take(1) == []
    node.say(commit(1, receipt=b"c"))
    assert node.take(1) == [returned(1, "/amq/queue/none", b"1"), Receipt(1, b"c")]
    assert node.stored("q") == [b"2"]


def test_it_cannot_be_prepared(node: Node) -> None:
    node.say(begin(1), send(1, "/amq/queue/none", transaction=b"t", mandatory=True, returns=True))
    node.say(replace(commit(1), prepare="name"))
    assert node.refusal(1).code == "not-preparable"


def test_to_an_exchange_that_is_not_there_it_is_refused_all_the_same(node: Node) -> None:
    node.say(send(1, "/exchange/none/key", mandatory=True, returns=True))
    assert node.refusal(1).code == "no-such-destination"
