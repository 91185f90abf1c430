"""Another node as it lasts: epochs, its stores, and what is said only once its row is on the disk."""

import pytest

from radiator.core.cluster.peer import Peer
from radiator.core.turn import QueueChanges, TurnContext
from radiator.model.limits import EPOCH_STEP_MAX, LINK_CAUSE_MAX, PEER_STORES_KEPT
from radiator.model.peer import cost_bytes
from radiator.model.writes import KeepPeer, PeerStore
from tests.core.cluster.nodes import with_clients


def peer(**fanouts: int) -> Peer:
    """Nobody is linked."""
    found = Peer(TurnContext("s" * 16, 1), "b", {})
    found.fanouts = dict(fanouts)
    return found


def test_a_peer_of_which_nothing_is_known_is_down() -> None:
    found = peer()
    assert (found.state, found.store_id, found.out_epoch, found.in_epoch) == ("down", "", 0, 0)
    found.not_linked("no", is_refused=True)
    assert (found.state, found.cause) == ("refused", "no")


def test_its_row_is_what_it_was_made_of() -> None:
    row = KeepPeer("b", "store", 3, 4, 5, 6, 7, (PeerStore("older", 1, 2, 3, 4),))
    assert Peer(TurnContext("s" * 16, 1), "b", {}, row).as_write() == row


def test_a_copy_costs_as_often_as_it_is_stored() -> None:
    found = peer(events=3)
    found.topic_times = lambda node, topic: 2 if (node, topic) == ("b", "t.x") else 1
    assert [found.times(to) for to in ("/fanout/events", "/fanout/other", "/topic/t.x", "/queue/q")] == [3, 1, 2, 1]
    assert found.cost_of("/fanout/events", 10) == cost_bytes(10, 3)


def test_epochs_that_were_superseded_are_left_behind_ever_faster() -> None:
    found = peer()
    epochs = []
    for _ in range(40):
        found.superseded()
        epochs.append(found.out_epoch)
    steps = [after - before for before, after in zip(epochs, epochs[1:], strict=False)]
    assert steps[:4] == [2, 4, 8, 16] and max(steps) == EPOCH_STEP_MAX


def test_a_store_is_known_again_under_whichever_name_it_comes() -> None:
    found = peer()
    found.meet("first", None)
    found.in_last = 7
    found.meet("second", None)
    assert (found.store_id, found.in_last, found.is_new) == ("second", 0, True)
    known = found.let_go("first")
    assert known is not None and known.in_last == 7 and found.let_go("first") is None
    found.meet("first", known)
    assert (found.in_last, found.is_new) == (7, False)


def test_so_many_of_its_stores_are_kept() -> None:
    found = peer()
    for number in range(PEER_STORES_KEPT + 3):
        found.meet(f"store-{number}", None)
    assert [store.store_id for store in found.earlier] == [f"store-{n}" for n in range(2, PEER_STORES_KEPT + 2)]


@pytest.mark.parametrize("cause", ["x" * (LINK_CAUSE_MAX + 1), "tab\tand\nend"])
def test_why_there_is_no_link_is_cut_and_printable(cause: str) -> None:
    found = peer()
    found.not_linked(cause, is_refused=False)
    assert len(found.cause) <= LINK_CAUSE_MAX and found.cause.isprintable()


def test_nothing_is_said_to_another_store_than_the_row_on_the_disk_is_of() -> None:
    nodes = with_clients("ab")
    found = nodes.cluster("a").peers["b"]
    replies = nodes["a"].broker.context.turn.replies
    replies.clear()
    found.as_write()
    found.in_last += 1
    found.as_write()
    found.store_id = "another"
    found.committed(QueueChanges())
    assert not replies
    found.as_write()
    found.committed(QueueChanges())
    assert len(replies) == 1, "Taken, once"
    found.committed(QueueChanges())
    assert len(replies) == 1
