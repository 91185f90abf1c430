"""The nodes that share a queue: who has most of it, whom a Demand is passed on to, who was served longest ago."""

import pytest

from radiator.core.cluster.neighbour import Neighbour
from radiator.core.cluster.neighbours import Neighbours
from radiator.model.limits import DEMAND_EVERY_S, NODES_MAX, QUEUE_HOPS_MAX
from radiator.model.peer import Demand
from radiator.model.replies import SendToPeer
from tests.core.cluster.nodes import Nodes, with_clients


def neighbours(nodes: Nodes, name: str = "a") -> Neighbours:
    """Of the queue `work` at that node, each of its peers having some ready, the first by name least."""
    cluster = nodes.cluster(name)
    found = Neighbours("work", cluster.context, cluster)
    for ready, peer in enumerate(sorted(cluster.peers), 1):
        found.of(cluster.peers[peer]).ready = ready
    return found


def giver(found: Neighbours, *path: str) -> str:
    best = found.best_giver(path)
    return "" if best is None else best.peer.name


def test_a_neighbour_is_known_until_its_link_is_gone() -> None:
    found = neighbours(with_clients("ab"))
    peer = found.around.peers["b"]
    assert isinstance(found.of(peer), Neighbour) and found.of(peer) is found.of(peer)
    assert found.remove(peer) is not None and found.remove(peer) is None and not found.all


def test_the_fullest_gives_unless_another_is_drained_or_nearer() -> None:
    found = neighbours(with_clients("abcd"))
    assert giver(found) == "d"
    found.all["b"].is_draining = True
    assert giver(found) == "b", "what is drained goes first"
    found.all["b"].is_draining = False
    found.all["c"].ready = 3
    found.all["d"].hops = 2
    assert giver(found) == "c", "of those alike, the nearest"


def test_who_has_nothing_or_wants_some_itself_gives_nothing() -> None:
    found = neighbours(with_clients("abc"))
    found.all["c"].credit = 1
    assert giver(found) == "b" and found.have_credit
    found.all["b"].ready = 0
    assert giver(found) == "" and found.best_for_takers() is None


def test_nobody_is_offered_what_it_can_ask_for_itself() -> None:
    found = neighbours(with_clients("abcd", "ab ac ad bc"))
    assert giver(found, "b") == "d", "c is linked with b"
    assert giver(found, "d") == "c"
    found.all["d"].hops = QUEUE_HOPS_MAX
    assert giver(found, "b") == "", "and nothing from too far"
    found.all["b"].credit = 1
    assert found.best_for_takers() is None
    found.all["d"].hops = 1
    best = found.best_for_takers()
    assert best is not None and best.peer.name == "d"


def test_who_can_ask_the_giver_itself_or_is_it_takes_nothing_of_it_through_us() -> None:
    found = neighbours(with_clients("abcd", "ab ac ad bc"))
    for credit, taker in enumerate("bcd", 1):
        found.all[taker].credit = credit
    assert [found.credit_beyond(found.all[name]) for name in "bcd"] == [3, 3, 1 + 2], "b and c are linked"


def test_who_was_served_comes_last() -> None:
    found = neighbours(with_clients("abc"))
    found.was_served("b")
    assert [*found.all] == ["c", "b"]


def asked(found: Neighbours) -> list[str]:
    """Whom a Demand was passed on to, since the last time."""
    replies = found.context.turn.replies
    reported = {
        reply.connection for reply in replies if isinstance(reply, SendToPeer) and isinstance(reply.word, Demand)
    }
    replies.clear()
    links = [peer.link for peer in found.around.peers.values() if peer.link is not None]
    return [link.name for link in links if link.connection.number in reported]


def test_a_demand_is_passed_to_nodes_that_who_asks_is_not_linked_with_and_not_too_often() -> None:
    found = neighbours(with_clients("abcd", "ab ac ad bc"))
    found.pass_demand(["b"])
    assert asked(found) == ["d"]
    found.pass_demand(["b"])
    assert asked(found) == []
    found.context.now_s += DEMAND_EVERY_S
    found.pass_demand(["b"])
    assert asked(found) == ["d"]


@pytest.mark.parametrize("hops", [QUEUE_HOPS_MAX - 1, QUEUE_HOPS_MAX])
def test_a_demand_that_has_come_too_far_is_passed_on_no_more(hops: int) -> None:
    found = neighbours(with_clients("ab"))
    found.pass_demand([f"n{number}" for number in range(hops)])
    assert asked(found) == (["b"] if hops < QUEUE_HOPS_MAX else [])


def test_what_is_kept_of_who_asked_is_bounded() -> None:
    found = neighbours(with_clients("ab"))
    for number in range(NODES_MAX + 5):
        found.pass_demand([f"n{number}"])
    assert len(found.passed_s) == 5
