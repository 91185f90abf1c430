"""Requests about other nodes: of a broker that is alone, and of one that has a neighbour."""

from collections.abc import Sequence

import pytest

from radiator.model.settings import Declarations
from radiator.model.settings import Node as NodeSettings
from tests.core.admin.asking import code
from tests.core.node import Node
from tests.core.words import send


@pytest.mark.parametrize(
    "asked", [{"do": "peers"}, {"do": "drain"}, {"do": "peer-release", "peer": "b", "force": True}]
)
def test_a_broker_that_is_alone_says_so(asked: dict[str, object]) -> None:
    node = Node()
    node.open(9)
    assert code(node, **asked) == "no-node"


def one_of_two(declarations: Declarations | None = None, peers: Sequence[str] = ("b",)) -> Node:
    settings = NodeSettings(name="a", secret=b"s" * 16, peers=dict.fromkeys(peers))
    node = Node(declarations, node=settings)
    node.open(8, 9)
    return node


def test_a_node_is_drained_and_no_longer() -> None:
    node = one_of_two()
    assert node.admin(9, do="peers")["draining"] is False
    for stop in (False, True):
        assert node.admin(9, do="drain", stop=stop)["draining"] is not stop
        assert node.admin(9, do="peers")["draining"] is not stop


def test_nothing_in_doubt_is_released_of_a_neighbour_and_of_nobody_else() -> None:
    node = one_of_two()
    assert code(node, do="peer-release", peer="z", force=True)


@pytest.mark.parametrize(
    ("do", "sentence"),
    [
        ("peer-release", "'z' is not one of the nodes known here: b."),
        ("peer-drop", "'z' is not one of the nodes that copies wait for here: b."),
        ("peer-keep", "'z' is not one of the nodes in the list: b."),
    ],
)
def test_a_node_that_nobody_knows_is_refused_with_those_that_there_are(do: str, sentence: str) -> None:
    node = one_of_two(Declarations(fanouts={"f": ()}, cluster_fanouts=frozenset("f")))
    asked = {"do": do, "peer": "z"} | ({} if do == "peer-keep" else {"force": True})
    assert node.admin(9, **asked) == {"ok": False, "code": "unknown-node", "error": sentence}
    assert node.admin(9, **asked | {"peer": "a"})["code"] == "unknown-node", "it is no neighbour of its own"
    assert node.admin(9, **asked | {"peer": "b"})["ok"]


def test_where_there_are_no_others_the_refusal_says_so() -> None:
    node = one_of_two(peers={})
    assert (
        "'z' is not one of the nodes known here; there are none."
        in node.admin(9, do="peer-release", peer="z", force=True)["error"]
    )
    assert code(node, do="peer-drop", peer="z", force=True) == "unknown-node"
    assert code(node, do="peer-keep", peer="z") == "unknown-node"


def test_copies_are_kept_for_a_node_of_the_list_where_nothing_is_copied_too() -> None:
    node = one_of_two()
    assert node.admin(9, do="peer-keep", peer="b") == {"ok": True, "changed": False}
    assert code(node, do="peer-drop", peer="b", force=True) == "unknown-node"


def test_the_file_is_read_again_for_one_at_a_time() -> None:
    node = Node()
    node.open(8, 9)
    node.reread = None
    node.say(send(8, "/admin", b'{"do": "reload"}', reply_to="admin"))
    assert code(node, do="reload") == "in-use"
