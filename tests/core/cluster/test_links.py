"""Links: who may have one, which of two counts, and whose store is at the other end."""

import pytest

from radiator.model.commands import Open
from radiator.model.peer import Identity
from tests.core.cluster.nodes import Nodes, with_clients
from tests.core.node import Node
from tests.core.words import send, subscribe
from tests.sim.disk import Platter

# ---- the operator's view --------------------------------------------------------------------------------------------


def states(nodes: Nodes, name: str) -> dict[str, str]:
    return {peer: known.state for peer, known in nodes.cluster(name).peers.items()}


def test_link_goes_up_and_down() -> None:
    nodes = with_clients("ab")
    assert states(nodes, "a") == {"b": "up"} and states(nodes, "b") == {"a": "up"}
    nodes.cut("a", "b")
    assert states(nodes, "a") == {"b": "down"}


def test_both_may_dial_at_once_and_the_link_of_the_lesser_name_stays() -> None:
    for first, second in (("ab", "ba"), ("ba", "ab")):
        nodes = Nodes("ab", "")
        nodes.pairs = [("a", "b")]
        for name in "ab":
            nodes.start(name, Platter(store_id=name * 16))
        nodes.link(first[0], first[1])
        nodes.link(second[0], second[1])
        nodes.run()
        assert states(nodes, "a") == {"b": "up"} and states(nodes, "b") == {"a": "up"}
        link = nodes.cluster("a").peers["b"].link
        assert link is not None and link.identity.is_dialled
        assert len(nodes.ends) == 2


def test_newer_link_of_a_peer_that_started_again_replaces_the_old_one() -> None:
    nodes = with_clients("ab")
    old = nodes.cluster("b").peers["a"].link
    nodes.ends.clear()  # nobody finds out that it is gone
    nodes.start("a", nodes["a"].disk.platter)
    nodes.link("a", "b")
    nodes.run()
    assert states(nodes, "b") == {"a": "up"} and nodes.cluster("b").peers["a"].link is not old
    assert [note.fields["code"] for note in nodes["b"].notes if note.event == "refused"] == ["superseded"]


@pytest.mark.parametrize("name", ["stranger", "a"])
def test_unknown_node_and_oneself_are_refused(name: str) -> None:
    nodes = with_clients("ab")
    node = nodes["a"]
    node.inbox[7], node.delivers[7] = [], 0
    node.turn([Open(7, Identity(name, "c" * 16, False))])
    assert node.refusal(7).code == "unknown-node"


def test_broker_without_node_links_nobody() -> None:
    node = Node()
    node.inbox[7], node.delivers[7] = [], 0
    node.turn([Open(7, Identity("b", "c" * 16, False))])
    assert node.refusal(7).code == "unknown-node"
    node.open(1)
    for request in ({"do": "peers"}, {"do": "drain"}, {"do": "peer-release", "peer": "b", "force": True}):
        assert node.admin(1, **request)["code"] == "no-node"


def test_another_store_is_linked_only_when_nothing_of_a_queue_is_in_doubt() -> None:
    nodes = with_clients("ab")
    nodes["b"].say(subscribe(1, "work"))
    nodes.run()
    nodes["a"].say(send(1, "work"))
    while not nodes["a"].disk.platter.doubts:
        nodes.step()
    nodes.cut("a", "b")
    nodes.start("b", Platter(store_id="e" * 16))
    nodes.link("a", "b")
    nodes.run()
    assert states(nodes, "a") == {"b": "refused"}
    assert [note.fields["code"] for note in nodes["a"].notes if note.event == "refused"] == ["other-store"]
    assert "peer_store_changed" in [note.event for note in nodes["a"].notes]
    assert nodes["a"].admin(1, do="peer-release", peer="b", force=True) == {"ok": True, "released": 1}
    nodes.link("a", "b")
    nodes.run()
    assert states(nodes, "a") == states(nodes, "b") | {"b": "up"} or states(nodes, "a") == {"b": "up"}
    nodes["b"].open(1)
    nodes["b"].say(subscribe(1, "work"))
    nodes.wait(1)
    assert nodes["b"].bodies(1) == [b"x"]


def test_name_that_is_used_twice_does_not_take_the_link() -> None:
    nodes = with_clients("ab")
    a = nodes["a"]
    link = nodes.cluster("a").peers["b"].link
    a.inbox[7], a.delivers[7] = [], 0
    a.turn([Open(7, Identity("b", "e" * 16, False))])
    refusal = a.refusal(7)
    assert refusal.code == "other-store" and "used twice" in refusal.sentence
    assert nodes.cluster("a").peers["b"].link is link
