"""A queue is deleted: what its consumers are told, and what becomes of what is unacked with them."""

import pytest

from radiator.model.administration import DeleteDestination
from radiator.model.commands import AUTO, CLIENT, CLIENT_INDIVIDUAL, Nack, Open
from radiator.model.limits import PREFETCH_COUNT_MAX
from radiator.model.replies import Answered, Deliver, Ended
from tests.core.asked import ask
from tests.core.backlogs import fill
from tests.core.node import Node
from tests.core.words import ack, begin, commit, nack, queue, send, subscribe, unsubscribe


def node_of(**settings: object) -> Node:
    node = Node()
    node.open(1, 2, 9)
    assert node.admin(9, do="declare", queue="q", **settings)["ok"]
    return node


def delete(node: Node, takes_unacked: bool = True) -> None:
    node.say(ask(9, DeleteDestination("queue", "q", if_unused=False, takes_unacked=takes_unacked)))
    (answer,) = (reply for reply in node.take(9) if isinstance(reply, Answered))
    assert answer.code == "" and not node.has("q")


@pytest.fixture(params=[True, False], ids=["disk", "memory"])
def node(request: pytest.FixtureRequest) -> Node:
    return node_of(persistent=request.param)


# ---- what they are told ---------------------------------------------------------------------------------------------


def test_who_has_asked_is_told_behind_all_that_was_delivered(node: Node) -> None:
    node.say(subscribe(1, "q", reports_end=True, prefetch_count=2), subscribe(2, "q", AUTO))
    fill(node, 5)
    node.take(2)
    delete(node)
    *delivers, ended = node.take(1)
    assert len(delivers) == 2 and all(isinstance(one, Deliver) for one in delivers)
    assert ended == Ended(1, b"q") and node.take(2) == []


def test_its_id_is_free_again_and_who_was_not_told_has_it_still(node: Node) -> None:
    node.say(subscribe(1, "q", reports_end=True), subscribe(2, "q"))
    delete(node)
    node.take(1)
    node.say(subscribe(1, "/queue/other", name=b"q"), send(9, "other", b"x"), unsubscribe(2, "q"))
    assert node.bodies(1) == [b"x"] and not node.is_refused(2)


def test_who_ends_it_himself_is_told_nothing(node: Node) -> None:
    node.say(subscribe(1, "q", reports_end=True), unsubscribe(1, "q"))
    delete(node)
    assert node.take(1) == []


def test_an_auto_delete_queue_that_ends_with_its_last_consumer_is_no_news() -> None:
    node = node_of(auto_delete=True)
    node.say(subscribe(1, "q", reports_end=True), unsubscribe(1, "q"))
    assert not node.has("q") and node.take(1) == []


def test_who_closes_is_told_nothing(node: Node) -> None:
    node.say(subscribe(1, "q", reports_end=True))
    node.turn([Open(3)])
    node.close(1)
    delete(node)
    assert node.take(1) == []


def test_very_many_are_told_a_slice_in_a_turn(monkeypatch: pytest.MonkeyPatch, node: Node) -> None:
    monkeypatch.setattr("radiator.core.farewell.STEP_MESSAGES", 3)
    node.say(*(subscribe(1, "q", name=b"%d" % n, reports_end=True) for n in range(8)))
    node.auto = False
    node.say(ask(9, DeleteDestination("queue", "q", if_unused=False)))
    assert len(node.take(1)) == 6, "one slice as it is deleted, one behind all events"
    node.say(unsubscribe(1, "7"))
    while node.step():
        pass
    assert [one.subscription for one in node.take(1) if isinstance(one, Ended)] == [b"6"]


# ---- what is unacked ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [CLIENT, CLIENT_INDIVIDUAL])
def test_what_was_unacked_leaves_its_windows_and_its_ack_has_no_effect(node: Node, mode: str) -> None:
    node.say(subscribe(1, "q", mode), subscribe(1, "other"), send(9, "q", b"x"), send(9, "other", b"y"))
    deliver = node.message(1)
    assert deliver.message.body == b"x"
    delete(node)
    assert node.bodies(1) == [b"y"], "the window that both share has room"
    node.say(ack(deliver, b"a"))
    assert node.receipts(1) == [b"a"] and node.broker.connections[1].shared_in_flight == 1
    node.say(ack(deliver))
    assert node.refusal(1).code == "not-unacked"


def test_without_that_it_stays_in_its_window_until_its_ack(node: Node) -> None:
    node.say(subscribe(1, "q"), subscribe(1, "other"), send(9, "q", b"x"), send(9, "other", b"y"))
    deliver = node.message(1)
    delete(node, takes_unacked=False)
    assert node.bodies(1) == []
    node.say(ack(deliver))
    assert node.bodies(1) == [b"y"]


@pytest.mark.parametrize("takes_unacked", [True, False])
def test_a_queue_is_empty_where_all_is_unacked_and_that_is_taken(node: Node, takes_unacked: bool) -> None:
    command = DeleteDestination("queue", "q", if_unused=False, if_empty=True, takes_unacked=takes_unacked)
    node.say(subscribe(1, "q"), send(9, "q", b"x"), send(9, "q", b"y"))
    deliver = node.message(1)
    node.say(ask(9, command))
    assert "q" in node.broker.destinations.queues.all, "y is ready"
    node.say(ack(deliver))
    node.say(ask(9, command))
    assert ("q" in node.broker.destinations.queues.all) == (not takes_unacked)


@pytest.mark.parametrize("requeue", [True, False])
def test_a_nack_has_no_effect_either(node: Node, requeue: bool) -> None:
    node.say(subscribe(1, "q"), send(9, "q", b"x"))
    deliver = node.message(1)
    delete(node)
    node.say(nack(deliver, b"n", requeue=requeue))
    assert node.receipts(1) == [b"n"] and node.broker.connections[1].unacked == {}


def test_one_in_a_transaction_has_none_and_all_else_of_it_is_carried_out(node: Node) -> None:
    node.say(subscribe(1, "q"), send(9, "q", b"x"), begin(1))
    node.say(ack(node.message(1), transaction=b"t"), send(1, "other", b"y", transaction=b"t"))
    delete(node)
    node.say(commit(1, receipt=b"c"), subscribe(2, "other"))
    assert node.receipts(1) == [b"c"] and node.bodies(2) == [b"y"]


def test_a_connection_that_closes_then_gives_nothing_back(node: Node) -> None:
    node.say(subscribe(1, "q", prefetch_count=PREFETCH_COUNT_MAX))
    fill(node, 5)
    delete(node)
    assert len(node.broker.connections[1].unacked) == 5 and node.broker.connections[1].unacked_bytes == 0
    node.close(1)
    assert node.admin(9, do="declare", queue="q")["ok"] and node.numbers("q")["messages"] == 0


def test_they_are_gone_after_a_crash_too() -> None:
    node = Node(queue(name="kept"))
    node.open(1, 9)
    node.say(subscribe(1, "q", prefetch_count=9))
    fill(node, 3)
    node.auto = False
    node.say(ask(9, DeleteDestination("queue", "q", if_unused=False, takes_unacked=True)))
    assert node.crashed().numbers("q")["messages"] == 3, "it was not on the disk yet"
    node.auto = True
    node.turn([])
    again = node.crashed()
    assert not again.has("q") and again.disk.platter.messages == {}


def test_very_many_leave_a_slice_in_a_turn(monkeypatch: pytest.MonkeyPatch, node: Node) -> None:
    monkeypatch.setattr("radiator.core.farewell.STEP_MESSAGES", 3)
    node.say(subscribe(1, "q", prefetch_count=9))
    fill(node, 9)
    out = node.messages(1)
    subscription = node.broker.connections[1].queue_subscriptions[b"q"]
    node.auto = False
    node.say(ask(9, DeleteDestination("queue", "q", if_unused=False, takes_unacked=True)))
    left = subscription.in_flight
    assert 0 < left < 9
    node.say(ack(out[-1], b"a"), Nack(1, out[-2].message_id))
    while node.step():
        pass
    assert subscription.in_flight == 0 and node.receipts(1) == [b"a"]
    node.say(*(ack(one) for one in out[:-2]))
    assert not node.is_refused(1) and subscription.in_flight == 0
    assert node.broker.connections[1].unacked == {}
