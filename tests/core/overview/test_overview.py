"""What is kept for those who look goes when nobody does."""

from radiator.model.limits import LOOK_KEPT_S
from tests.core.node import Node
from tests.core.words import send


def test_what_was_seen_is_forgotten_when_nobody_asks() -> None:
    node = Node()
    node.open(1)
    node.say(send(1, "q"))
    overview = node.broker.parts.overview
    node.admin(1, do="queue-table")
    assert node.admin(1, do="attention")["items"] and overview.attention.found is not None
    node.wait(LOOK_KEPT_S - 1)
    assert overview.attention.found is not None and overview.orders.kept
    node.wait(1)
    assert overview.attention.found is None and not overview.orders.kept
    assert node.admin(1, do="attention")["items"], "and looked for again"
