"""Requests about the other nodes, and about this one among them."""

from collections.abc import Iterator
from typing import Any

from radiator.core.admin.request import Request
from radiator.core.answers import PAUSE, Part
from radiator.core.cluster.cluster import Cluster
from radiator.core.stats import rows
from radiator.model.errors import Refusal


def _cluster(request: Request, may_be_alone: bool = False) -> Cluster:
    parts = request.parts
    if parts.cluster is None or (parts.cluster.node is None and not may_be_alone):
        raise Refusal("no-node", "This broker has no [node] in its configuration: it is alone.")
    return parts.cluster


def peers(request: Request) -> None:
    """What this node is linked with, and which others are reached through them."""
    cluster = _cluster(request, may_be_alone=True)

    def listed() -> Iterator[Any]:
        for row in rows(request.parts, "peers"):
            yield row if row is PAUSE else {"name": row[0], **row[1]}

    request.answer_in_slices(
        lambda: {
            "node": cluster.name,
            "draining": cluster.is_draining,
            "peers": Part(listed()),
            "nodes": Part(iter(cluster.gossip.nodes())),
        }
    )


def release(request: Request) -> None:
    """What is in doubt with a node that is gone for good is ready again."""
    cluster = _cluster(request, may_be_alone=True)
    name = request.asked.get("peer")
    if not isinstance(name, str) or request.asked.get("force") is not True:
        raise Refusal(
            "bad-request",
            "A release names a `peer` and says `force`: true, because what is in doubt may then be processed twice.",
        )
    count = cluster.release(name)
    request.parts.context.note("warning", "released", node=name, messages=count)
    request.answer_synced(lambda: {"released": count})


def drop(request: Request) -> None:
    """No copies are kept for a node that is away, and those that wait go."""
    cluster = _cluster(request)
    name = request.asked.get("peer")
    if not isinstance(name, str) or request.asked.get("force") is not True:
        raise Refusal(
            "bad-request",
            "A drop names a `peer` and says `force`: true, because it misses what is sent meanwhile.",
        )

    def done(count: int) -> None:
        request.parts.context.note("warning", "copies_dropped", node=name, messages=count)
        request.answer_synced(lambda: {"dropped": count})

    cluster.drop_copies(name, done)


def keep(request: Request) -> None:
    """Copies are kept for that node again."""
    cluster = _cluster(request)
    name = request.text("peer", "the name of a node")
    kept = cluster.keep_copies(name)
    request.answer_synced(lambda: {"changed": kept})


def drain(request: Request) -> None:
    """This node's messages go to the others; `stop`: no longer."""
    cluster = _cluster(request)
    left, stays = cluster.drain(request.asked.get("stop") is not True)
    request.answer(draining=cluster.is_draining, left=left, stays=stays)
