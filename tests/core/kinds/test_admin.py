"""`/admin`: requests alone, which no transaction holds."""

from radiator.model.addresses import ADMIN
from tests.core.node import Node
from tests.core.words import begin, commit, send, subscribe


def test_a_request_is_answered() -> None:
    node = Node()
    node.open(1)
    assert node.admin(1, do="queues")["ok"]


def test_nobody_subscribes_to_it() -> None:
    node = Node()
    node.open(1)
    node.say(subscribe(1, ADMIN))
    assert node.refusal(1).code == "send-only"


def test_no_transaction_has_a_request() -> None:
    node = Node()
    node.open(1)
    node.say(begin(1), send(1, ADMIN, b'{"do":"queues"}', transaction=b"t"), commit(1))
    assert node.is_refused(1)
