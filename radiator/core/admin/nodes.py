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
    """The parts of the broker that these requests may use."""

    @property
    def cluster(self) -> Cluster | None: ...


class ConfigurationPort(AnsweringPort, Protocol):
    """The part that reloads, as far as these requests use it."""

    @property
    def reload(self) -> ReloadPort: ...


def _cluster(request: Request[NodesPort], may_be_alone: bool = False) -> Cluster:
    parts = request.parts
    if parts.cluster is None or (parts.cluster.node is None and not may_be_alone):
        raise Refusal("no-node", "This broker has no [node] in its configuration: it is alone.")
    return parts.cluster


def peers(request: Request[StatsPort], command: ListPeers) -> None:
    """Answers with what this node is linked with, and which others are reached through them."""
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
    """Makes ready again what is in doubt with a node that is gone for good."""
    count = _cluster(request, may_be_alone=True).release(command.peer)
    request.parts.context.note("warning", "released", node=command.peer, messages=count)
    request.answer_synced(lambda: PeerReleased(count))


def drop(request: Request[NodesPort], command: DropCopies) -> None:
    """Keeps no more copies for a node that is away, and drops those that wait."""

    def done(count: int) -> None:
        request.parts.context.note("warning", "copies_dropped", node=command.peer, messages=count)
        request.answer_synced(lambda: CopiesDropped(count))

    _cluster(request).drop_copies(command.peer, done)


def keep(request: Request[NodesPort], command: KeepCopies) -> None:
    """Keeps copies for that node again."""
    changed = _cluster(request).keep_copies(command.peer)
    request.answer_synced(lambda: CopiesKept(changed))


def drain(request: Request[NodesPort], command: DrainNode) -> None:
    """Hands this node's messages to the others; `stop`: no longer."""
    cluster = _cluster(request)
    left, stays = cluster.drain(not command.stop)
    request.answer(Draining(cluster.is_draining, left, stays))


def reload(request: Request[ConfigurationPort], command: ReloadConfiguration) -> None:
    """Applies what has changed in the file that the broker was started with, or only lists it in the answer."""
    reload = request.parts.reload
    if reload.is_under_way:
        raise Refusal("in-use", "The configuration is being read again already: ask when that has ended.")
    reload.begin(request, command.is_trial)
