"""Whether clients should be sent to this broker now, and why not."""

from collections.abc import Iterator
from typing import Protocol

from radiator.core.authorization import Authorization
from radiator.core.cluster.peer import UP
from radiator.core.request import Request
from radiator.core.routing.admission import Admission
from radiator.core.stats import StatsPort
from radiator.model.administration import ReadReadiness, ReadStats
from radiator.model.answers import NotReady, Readiness
from radiator.model.errors import Refusal
from radiator.model.limits import CERTIFICATE_READY_S, STORE_BEHIND_S


class ReadinessPort(StatsPort, Protocol):
    """The parts that readiness is judged by. store_behind_since_s: since when the tables have been far behind the
    write-ahead log, as of the last Tick; None: they are not.
    """

    store_behind_since_s: float | None

    @property
    def admission(self) -> Admission: ...

    @property
    def authorization(self) -> Authorization: ...


def ready(request: Request[ReadinessPort], command: ReadReadiness) -> None:
    """Answers whether there is no reason against it. The reasons name things, so only those who may see all
    get them.
    """
    found = [one for one in reasons_of(request.parts) if one.reason not in command.exclude]
    try:
        request.parts.authorization.check_request(request.connection, ReadStats())
        reasons = found
    except Refusal:
        reasons = []
    request.answer(Readiness(not found, reasons))


def reasons_against(parts: ReadinessPort) -> frozenset[str]:
    """Returns those of REASONS that hold now: they name nothing."""
    return frozenset(one.reason for one in reasons_of(parts))


def reasons_of(parts: ReadinessPort) -> Iterator[NotReady]:
    """Yields all reasons that hold now."""
    admission = parts.admission
    if admission.disk_wait_list.is_tight:
        yield NotReady("disk", "The disk has no room: SENDs to persistent queues wait.")
    if admission.memory_wait_list.is_tight:
        yield NotReady("memory", "Memory is short: SENDs of connections that hold much wait.")
    since_s, now_s = parts.store_behind_since_s, parts.context.now_s
    if since_s is not None and now_s - since_s >= STORE_BEHIND_S:
        yield NotReady(
            "store",
            f"The tables have been far behind the write-ahead log for {now_s - since_s:.0f} s: the disk is slow.",
        )
    for address, left_s in sorted(parts.certificates_left_s.items()):
        of = f"of {address}" if address else "of [tls]"
        if left_s < 0:
            yield NotReady("certificate", f"The certificate {of} has expired: clients refuse it. Renew it.")
        elif left_s < CERTIFICATE_READY_S:
            yield NotReady(
                "certificate", f"The certificate {of} expires in {left_s // 60} minutes: renew it before then."
            )
    cluster = parts.cluster
    if cluster is None:
        return
    if cluster.is_draining:
        yield NotReady("draining", "This node is being drained: it hands its messages to the others.")
    for name in sorted(cluster.node.peers if cluster.node is not None else ()):
        peer = cluster.peers[name]
        if peer.state != UP:
            because = f": {peer.cause}" if peer.cause else "."
            yield NotReady("links", f"The node {name} is not linked ({peer.state}){because}")
