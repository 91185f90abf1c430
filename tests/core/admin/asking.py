"""Nodes that are asked by /admin, and the code of a request that is refused."""

from typing import Any

from radiator.model.settings import Binding, Declarations, ExchangeSettings, QueueSettings
from tests.core.node import Node
from tests.core.words import send

DECLARED = Declarations(
    queues={"q": QueueSettings(), "dead": QueueSettings(), "mem": QueueSettings(persistent=False, max_messages=9)},
    queue_patterns=[("p.*", QueueSettings(max_messages=7, dead_letter="dead"))],
    exchanges={"x": ExchangeSettings(type="topic")},
    bindings=[Binding("x", "a.#", "q")],
    fanouts={"f": ("q",)},
)


def node_of(declarations: Declarations | None = None, **more: Any) -> Node:
    node = Node(declarations or DECLARED, **more)
    node.open(1, 9)
    return node


def node_with(count: int, name: str = "q") -> Node:
    node = Node()
    node.open(1, 9)
    for number in range(count):
        node.say(send(1, name, b"%d" % number))
    return node


def code(node: Node, **request: Any) -> str:
    """Of a request that is refused: nothing is written, and the connection stays."""
    before = node.disk.platter
    answer = node.admin(9, **request)
    assert answer["ok"] is False and answer["error"].endswith((".", "?")), answer
    assert not node.is_refused(9) and node.disk.platter.queues == before.queues
    return str(answer["code"])
