"""What other nodes hand over: as far as it was granted, one past it ends the link, and room is what bounds it."""

from dataclasses import replace

import pytest

from radiator.core.cluster.arrivals import Arrivals
from radiator.core.cluster.peer import Peer
from radiator.model.errors import LinkError
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import LINK_CREDIT_MAX, MIB, REDELIVERIES_MAX
from radiator.model.message import Message
from radiator.model.peer import Transfer
from radiator.model.settings import QueueSettings
from radiator.model.writes import Count
from tests.core.cluster.nodes import Nodes, declared

MESSAGE = Message("/queue/work", b"", ESCAPING_ALL, b"x", 1_700_000_000_000)


def transfer(destination: str = "/queue/work") -> Transfer:
    return Transfer(1, 1, destination, replace(MESSAGE, destination=destination), ["b"], 0, False, 0)


@pytest.fixture
def nodes() -> Nodes:
    return Nodes("ab", None, declared(bounded=QueueSettings(scope="cluster", max_messages=3)))


def of(nodes: Nodes) -> tuple[Arrivals, Peer]:
    cluster = nodes.cluster("a")
    peer = cluster.peers["b"]
    assert peer.link is not None
    peer.link.takes[0].through = peer.link.takes[1].through = MIB
    return cluster.arrivals, peer


def test_as_many_come_as_were_granted_and_one_more_is_the_other_node_s_mistake(nodes: Nodes) -> None:
    arrivals, peer = of(nodes)
    assert peer.link is not None
    peer.link.allowed["work"] = 2
    for _ in range(2):
        arrivals.count(peer, transfer())
    with pytest.raises(LinkError, match="Message 3 of /queue/work on this link, where 2 were granted"):
        arrivals.count(peer, transfer())
    assert peer.link.arrived == {"work": 2}


def test_copies_have_a_grant_of_their_own(nodes: Nodes) -> None:
    arrivals, peer = of(nodes)
    peer.copies, peer.copies_granted = 4, 5
    arrivals.count(peer, transfer("/fanout/events"))
    with pytest.raises(LinkError, match="Copy 6 on this link, where 5 were granted"):
        arrivals.count(peer, transfer("/fanout/events"))


@pytest.mark.parametrize("destination", ["/fanout/none", "/exchange/x/k", "/nothing/q"])
def test_what_is_of_this_node_alone_cannot_be_handed_over(nodes: Nodes, destination: str) -> None:
    arrivals, peer = of(nodes)
    with pytest.raises(LinkError):
        arrivals.count(peer, transfer(destination))


def test_a_body_that_has_come_in_pieces_does_not_come_again(nodes: Nodes) -> None:
    arrivals, peer = of(nodes)
    with pytest.raises(LinkError):
        arrivals.transfer(peer, replace(transfer(), parcel=5))


@pytest.mark.parametrize(
    ("name", "tight", "room"),
    [
        ("work", "", LINK_CREDIT_MAX),
        ("bounded", "", 3),
        ("work", "disk_wait_list", 0),
        ("work", "memory_wait_list", LINK_CREDIT_MAX),
    ],
)
def test_room_is_what_disk_memory_and_bounds_let_in(nodes: Nodes, name: str, tight: str, room: int) -> None:
    arrivals, _ = of(nodes)
    queue = nodes["a"].broker.destinations.queues.get(name)
    if tight:
        getattr(arrivals.admission, tight).is_tight = True
    assert arrivals.capacity_for(queue) == room


def test_a_message_that_has_come_back_very_often_can_still_be_handed_on(nodes: Nodes) -> None:
    arrivals, peer = of(nodes)
    assert arrivals.accept(peer, replace(transfer(), redeliveries=REDELIVERIES_MAX))
    (count,) = (write for write in nodes["a"].broker.context.open.writes if isinstance(write, Count))
    assert 0 < count.redeliveries < REDELIVERIES_MAX
