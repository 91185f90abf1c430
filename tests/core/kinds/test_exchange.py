"""`/exchange/NAME/KEY`: a copy for each queue that matches, and a queue of its own for each subscriber."""

import pytest

from radiator.model.administration import DeleteDestination
from radiator.model.replies import Answered
from radiator.model.settings import Binding, Declarations, ExchangeSettings, QueueSettings
from tests.core.asked import ask
from tests.core.node import Node
from tests.core.words import send, subscribe, unsubscribe


@pytest.fixture
def node() -> Node:
    declared = Declarations(
        queues={"a": QueueSettings(), "b": QueueSettings()},
        exchanges={"x": ExchangeSettings(type="topic"), "brief": ExchangeSettings(type="topic", durable=False)},
        bindings=[Binding("x", "k.#", "a"), Binding("x", "k.1", "b")],
    )
    node = Node(declared)
    node.open(1, 2)
    return node


def test_each_queue_that_matches_has_one_copy(node: Node) -> None:
    node.say(send(1, "/exchange/x/k.1", b"1"), send(1, "/exchange/x/k.2", b"2"), send(1, "/exchange/x/j", b"3"))
    assert (node.stored("a"), node.stored("b")) == ([b"1", b"2"], [b"1"])


@pytest.mark.parametrize(
    ("more", "code"), [({}, None), ({"mandatory": True}, "no-subscriber"), ({"immediate": True}, "no-consumer")]
)
def test_what_matches_nothing_is_dropped_or_told(node: Node, more: dict[str, bool], code: str | None) -> None:
    node.say(send(1, "/exchange/x/none", receipt=b"r", **more))
    if code is None:
        assert node.receipts(1) == [b"r"] and node.stats()["exchanges"]["x"]["unrouted"] == 1
    else:
        assert node.refusal(1).code == code


def test_a_subscriber_has_a_queue_of_its_own_that_goes_with_it(node: Node) -> None:
    before = len(node.broker.destinations.queues.all)
    node.say(subscribe(2, "/exchange/x/#", name=b"s"), send(1, "/exchange/x/j", b"3"))
    assert node.bodies(2) == [b"3"]
    node.say(unsubscribe(2, "s"))
    assert len(node.broker.destinations.queues.all) == before
    node.say(send(1, "/exchange/x/j", mandatory=True))
    assert node.refusal(1).code == "no-subscriber"


def test_a_durable_subscription_needs_a_durable_exchange(node: Node) -> None:
    node.say(subscribe(1, "/exchange/brief/#", durable=True), subscribe(2, "/exchange/x/#", durable=True, name=b"d"))
    assert node.refusal(1).code == "declared-otherwise" and not node.is_refused(2)


def test_one_that_is_not_there_is_refused(node: Node) -> None:
    node.say(send(1, "/exchange/none/k"))
    assert node.refusal(1).code == "no-such-destination"


@pytest.mark.parametrize("if_unbound", [True, False])
def test_one_that_has_bindings_is_kept_where_that_is_asked_for(if_unbound: bool) -> None:
    node = Node()
    node.open(9)
    assert (
        node.admin(9, do="declare", exchange="x", type="direct")["ok"] and node.admin(9, do="declare", queue="q")["ok"]
    )
    node.broker.destinations.bind("x", "key", "q")
    node.say(ask(9, DeleteDestination("exchange", "x", if_unbound=if_unbound)))
    (answer,) = (reply for reply in node.take(9) if isinstance(reply, Answered))
    assert answer.code == ("in-use" if if_unbound else "")
    assert ("x" in node.broker.destinations.exchanges.all) is if_unbound
    if if_unbound:
        node.broker.destinations.unbind("x", "key", "q")
        node.say(ask(9, DeleteDestination("exchange", "x", if_unbound=True)))
        assert "x" not in node.broker.destinations.exchanges.all
