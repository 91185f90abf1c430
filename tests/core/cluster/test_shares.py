"""All queues of scope "cluster": which there are, and that what concerns very many of them takes several turns."""

import pytest

from radiator.core.cluster.shares import Shares
from radiator.model.limits import SHARES_PER_TURN
from tests.core.cluster.nodes import Nodes, declared
from tests.core.words import send, subscribe


@pytest.fixture
def nodes() -> Nodes:
    made = Nodes("ab")
    made["a"].open(1, 9)
    return made


def shares(nodes: Nodes) -> Shares:
    return nodes.cluster("a").shares


def test_a_queue_of_the_cluster_is_shared_from_its_beginning_and_no_other(nodes: Nodes) -> None:
    nodes["a"].say(send(1, "local"))
    assert [*shares(nodes).all] == ["work"]
    share = shares(nodes).of("work")
    assert share is not None and share.queue is nodes["a"].broker.destinations.queues.all["work"]
    assert shares(nodes).here(share.queue) is share
    assert shares(nodes).of("local") is None and shares(nodes).of("none") is None


def test_one_that_is_gone_is_shared_no_more(nodes: Nodes) -> None:
    share = shares(nodes).of("work")
    assert share is not None
    nodes["a"].broker.destinations.queues.delete(share.queue)
    assert shares(nodes).here(share.queue) is share and share.queue.is_gone
    shares(nodes).ticked()
    assert "work" not in shares(nodes).all
    again = shares(nodes).of("work")
    assert again is not None and again is not share, "a word of another node makes it again"


def test_so_many_are_looked_at_in_a_turn_and_each_comes_to_its_turn() -> None:
    count = 2 * SHARES_PER_TURN + 1
    made = declared()
    nodes = Nodes("a", "", made)
    node = nodes["a"]
    found = nodes.cluster("a").shares
    work = found.of("work")
    assert work is not None

    class Looked:
        def __init__(self) -> None:
            self.queue = work.queue
            self.count = 0

        def ticked(self) -> None:
            self.count += 1

    some = [Looked() for _ in range(count)]
    found.due.update((one, False) for one in some)  # type: ignore[misc]
    for steps in (1, 2, 3):
        found.step()
        assert sum(one.count for one in some) == min(count, steps * SHARES_PER_TURN)
    assert not found.due and node.broker.context.turn is not None


def test_what_changes_for_all_concerns_each_once(nodes: Nodes) -> None:
    found = shares(nodes)
    found.ticked()
    found.reconsider()
    found.reconsider()
    assert list(found.due.values()) == [True] and len(found.due) == 1


def test_words_of_a_queue_that_is_not_shared_are_no_harm(nodes: Nodes) -> None:
    peer = nodes.cluster("a").peers["b"]
    shares(nodes).granted(peer, "none", 5)
    nodes["a"].say(subscribe(1, "work"))
    nodes.run()
    assert not nodes["a"].is_refused(1)
