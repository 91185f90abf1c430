"""Requests about the other nodes, about this one among them, and to read config.toml again."""

from typing import Protocol

from radiator.core.cluster.cluster import Cluster
from radiator.core.ports import AnsweringPort, ReloadPort
from radiator.core.request import Request
from radiator.core.stats import StatsPort, listed
from radiator.model.administration import (
    PEERS,
    DrainNode,
    DropCopies,
    KeepCopies,
    ListPeers,
    ReleasePeer,
    ReloadConfiguration,
)
from radiator.model.answers import CopiesDropped, CopiesKept, Draining, PeerReleased, Peers
from radiator.model.errors import Refusal
from radiator.model.numbers import Rows


class NodesPort(AnsweringPort, Protocol):
    """What these requests may ask of the broker."""

    @property
    def cluster(self) -> Cluster | None: ...


class ConfigurationPort(AnsweringPort, Protocol):
    """Of the one that reloads."""

    @property
    def reload(self) -> ReloadPort: ...


def _cluster(request: Request[NodesPort], may_be_alone: bool = False) -> Cluster:
    parts = request.parts
    if parts.cluster is None or (parts.cluster.node is None and not may_be_alone):
        raise Refusal("no-node", "This broker has no [node] in its configuration: it is alone.")
    return parts.cluster


def peers(request: Request[StatsPort], command: ListPeers) -> None:
    """What this node is linked with, and which others are reached through them."""
    cluster = _cluster(request, may_be_alone=True)
    request.answer_in_slices(
        lambda: Peers(
            node=cluster.name,
            draining=cluster.is_draining,
            peers=Rows(listed(request.parts, PEERS)),
            nodes=Rows(iter(cluster.gossip.nodes())),
        )
    )


def release(request: Request[NodesPort], command: ReleasePeer) -> None:
    """What is in doubt with a node that is gone for good is ready again."""
    count = _cluster(request, may_be_alone=True).release(command.peer)
    request.parts.context.note("warning", "released", node=command.peer, messages=count)
    request.answer_synced(lambda: PeerReleased(count))


def drop(request: Request[NodesPort], command: DropCopies) -> None:
    """No copies are kept for a node that is away, and those that wait go."""

    def done(count: int) -> None:
        request.parts.context.note("warning", "copies_dropped", node=command.peer, messages=count)
        request.answer_synced(lambda: CopiesDropped(count))

    _cluster(request).drop_copies(command.peer, done)


def keep(request: Request[NodesPort], command: KeepCopies) -> None:
    """Copies are kept for that node again."""
    changed = _cluster(request).keep_copies(command.peer)
    request.answer_synced(lambda: CopiesKept(changed))


def drain(request: Request[NodesPort], command: DrainNode) -> None:
    """This node's messages go to the others; `stop`: no longer."""
    cluster = _cluster(request)
    left, stays = cluster.drain(not command.stop)
    request.answer(Draining(cluster.is_draining, left, stays))


def reload(request: Request[ConfigurationPort], command: ReloadConfiguration) -> None:
    """What has changed in the file that the broker was started with takes effect, or is only listed in the answer."""
    reload = request.parts.reload
    if reload.is_under_way:
        raise Refusal("in-use", "The configuration is being read again already: ask when that has ended.")
    reload.begin(request, command.is_trial)
