"""What an operator is shown of each peer."""

import pytest

from radiator.model.commands import Closed, Fail, NotLinked, Read
from radiator.model.limits import LINK_CAUSE_MAX
from tests.core.cluster.nodes import Nodes, with_clients
from tests.core.node import Node

# ---- the operator's view --------------------------------------------------------------------------------------------


def why(nodes: Nodes, name: str = "a") -> tuple[str, str]:
    (peer,) = nodes[name].admin(1, do="peers")["peers"]
    return peer["state"], peer["cause"]


def test_peers_tells_links_and_nodes_beyond() -> None:
    nodes = with_clients("abc", "ab bc")
    answer = nodes["a"].admin(1, do="peers")
    assert (answer["node"], answer["draining"]) == ("a", False)
    assert [(peer["name"], peer["state"], peer["hops"]) for peer in answer["peers"]] == [("b", "up", 1)]
    assert answer["nodes"] == [{"name": "b", "hops": 1, "via": "b"}, {"name": "c", "hops": 2, "via": "b"}]


def test_peers_tells_why_there_is_no_link() -> None:
    nodes = with_clients("ab")
    assert why(nodes) == ("up", "")
    nodes["a"].turn([NotLinked("b", "cannot be dialled: Connection refused", False)])
    assert why(nodes) == ("up", ""), "there is a link"
    ((number, _),) = [(end[1], far) for end, far in nodes.ends.items() if end[0] == "a"]
    nodes["a"].turn([Closed(number, "heart-beats missing")])
    assert why(nodes) == ("down", "heart-beats missing")
    nodes["a"].turn([NotLinked("b", "b refused: wrong-secret: No.", True)])
    assert why(nodes) == ("refused", "b refused: wrong-secret: No.")
    nodes["a"].turn([NotLinked("b", "cannot be dialled: Connection refused", False)])
    assert why(nodes) == ("down", "cannot be dialled: Connection refused")
    nodes["a"].turn([NotLinked("stranger", "hung up", False), NotLinked("a", "hung up", False)])
    assert why(nodes) == ("down", "cannot be dialled: Connection refused")
    nodes.cut_end(nodes.ends.pop(("a", number)))
    nodes.link("b", "a")
    nodes.run()
    assert why(nodes) == ("up", "")


def test_peers_tells_the_refusal_of_an_open_link() -> None:
    nodes = with_clients("ab")
    ((number, _),) = [(end[1], far) for end, far in nodes.ends.items() if end[0] == "a"]
    nodes["a"].turn([Read(number, [Fail(number, "b refused: No.", code="other-store")])])
    assert why(nodes) == ("refused", "other-store: b refused: No.")
    assert nodes["a"].refusal(number).code == "other-store"
    nodes["a"].turn([Closed(number, "refused: other-store")])
    assert why(nodes) == ("refused", "other-store: b refused: No.")


@pytest.mark.parametrize("length", [LINK_CAUSE_MAX - 1, LINK_CAUSE_MAX, LINK_CAUSE_MAX + 1])
def test_a_cause_is_cut_and_printable(length: int) -> None:
    nodes = Nodes("ab", "ab")
    nodes.cut("a", "b")
    nodes["a"].open(1)
    cause = ("no\x1b[2J\n\u202e" + "x" * length)[:length]
    nodes["a"].turn([NotLinked("b", cause, True)])
    state, answer = why(nodes)
    assert state == "refused" and answer.isprintable() and answer.startswith("no [2J  xxx")
    assert len(answer) == min(length, LINK_CAUSE_MAX)


def test_a_node_that_is_alone_has_no_use_for_causes() -> None:
    node = Node()
    node.turn([NotLinked("b", "hung up", False)])
