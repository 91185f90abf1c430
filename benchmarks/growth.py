"""`--growth`: what a message costs when something grows: connections, queues, the backlog, bodies, subscribers.

Every point is measured on a fresh broker, except those of the backlog, which grows on one. Rates alone would hide how
idle the machine is, so the broker's CPU time for each message stands beside them.
"""

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.comparison import measure
from benchmarks.longchecks import rss_anon_bytes
from benchmarks.peers import Peer
from benchmarks.processes import Running, running, tree
from benchmarks.rounds import significant
from benchmarks.shapes import END_TO_END, WINDOW_16, Case
from radiator.model.limits import KIB, MIB
from radiator.tools.cli.load import Load, LoadFailed, Measured, Shape, StompWire, Wire

CONNECTIONS = (1, 10, 100, 1_000, 10_000)
QUEUES = (1, 10, 100, 1_000, 10_000)
BODIES = (100, KIB, 10 * KIB, 100 * KIB, MIB)
SUBSCRIBERS = (1, 10, 100, 1_000)
BACKLOG = (0, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
BACKLOG_BODY_BYTES = 100
QUEUE_PRODUCERS = 100
FILL_MAX_S = 900.0  # a peer that would need longer for the next step ends its series

Point = dict[str, Any]


class SpreadWire(StompWire):
    """The SENDs of all connections go round over many queues."""

    is_varied = True

    def __init__(self, queues: int) -> None:
        super().__init__("/queue/q0")
        _, tail = super().send()
        heads = [StompWire(f"/queue/q{number}").send()[0] for number in range(queues)]
        self._sends = itertools.cycle([(head, tail) for head in heads])

    def send(self) -> tuple[bytes, bytes]:
        return next(self._sends)


@dataclass(frozen=True, kw_only=True)
class Series:
    """name: what grows. counted: what a rate counts. measure: a point, or the sentence why there is none."""

    name: str
    unit: str
    counted: str
    steps: Sequence[int]
    measure: Callable[[Peer, int, Path, float], Point]
    peers: Sequence[str] | None = None  # None: all


def series_of(backlog_max: int) -> tuple[Series, ...]:
    return (
        Series(name="connections", unit="producers, one SEND outstanding each", counted="confirmed SENDs",
               steps=CONNECTIONS, measure=_connections),
        Series(name="queues", unit=f"queues, {QUEUE_PRODUCERS} producers going round over them",
               counted="confirmed SENDs", steps=QUEUES, measure=_queues, peers=("radiator",)),
        Series(name="backlog", unit="messages of 100 B stored before", counted="messages end to end, 8 + 8",
               steps=[step for step in BACKLOG if step <= backlog_max], measure=_backlog),
        Series(name="bodies", unit="bytes of a body, 16 producers, one outstanding", counted="confirmed SENDs",
               steps=BODIES, measure=_bodies),
        Series(name="subscribers", unit="subscribers of a topic", counted="deliveries",
               steps=SUBSCRIBERS, measure=_subscribers),
    )  # fmt: skip


def grow(series: Sequence[Series], peers: Sequence[Peer], directory: Path, rounds: int, seconds: float) -> list[Point]:
    """Every series of every peer; where one ends early, `ended` says why."""
    found = []
    for one in series:
        for peer in peers:
            if one.peers is None or peer.name in one.peers:
                found.append(_series(one, peer, directory / peer.name, rounds, seconds))
    return found


def _series(series: Series, peer: Peer, directory: Path, rounds: int, seconds: float) -> Point:
    points: list[Point] = []
    ended = ""
    try:
        if series.name == "backlog":
            for point in _backlog_points(peer, series.steps, directory, seconds):
                points.append(point)
                _progress(series, peer, point)
        else:
            for step in series.steps:
                points.append(_median([series.measure(peer, step, directory, seconds) for _ in range(rounds)]))
                _progress(series, peer, points[-1])
    except (LoadFailed, OSError) as failed:
        ended = str(failed)
        sys.stderr.write(f"  {series.name}, {peer.name}: {ended}\n")
    return {"name": series.name, "unit": series.unit, "counted": series.counted, "peer": peer.name,
            "points": points, "ended": ended}  # fmt: skip


def _median(points: Sequence[Point]) -> Point:
    """The point of the median rate, with the rates' bounds."""
    by_rate = sorted(points, key=lambda point: point["per_s"])
    return {**by_rate[len(by_rate) // 2], "per_s_min": by_rate[0]["per_s"], "per_s_max": by_rate[-1]["per_s"]}


def _progress(series: Series, peer: Peer, point: Point) -> None:
    sys.stderr.write(f"  {series.name} {point['at']:,}, {peer.name}: {point['per_s']:,.0f}/s, "
                     f"{point['cpu_us']:.1f} us\n")  # fmt: skip


def _point(at: int, measured: Measured, **more: float) -> Point:
    figures = {"per_s": measured.per_s, "cpu_us": measured.broker_cpu_s / measured.messages * 1e6,
               "p50_ms": measured.p50_ms, "p99_ms": measured.p99_ms,
               "generator_share": measured.generator_share, **more}  # fmt: skip
    return {"at": at, **{name: significant(value) for name, value in figures.items()}}


def _send_case(producers: int, body_bytes: int = KIB) -> Case:
    shape = Shape(name=f"{producers} producers, one outstanding", producers=producers, window=1)
    return Case(kind="queue", shape=shape, is_persistent=True, body_bytes=body_bytes)


def _fresh_point(peer: Peer, case: Case, at: int, directory: Path, seconds: float) -> Point:
    if reason := peer.lacks(case):
        raise LoadFailed(reason)
    with running(peer.launch(case), directory) as broker:
        return _point(at, measure(peer, broker, case, seconds))


def _connections(peer: Peer, connections: int, directory: Path, seconds: float) -> Point:
    # every connection shall have its turn several times
    return _fresh_point(peer, _send_case(connections), connections, directory, max(seconds, connections / 2000))


def _bodies(peer: Peer, body_bytes: int, directory: Path, seconds: float) -> Point:
    return _fresh_point(peer, _send_case(16, body_bytes), body_bytes, directory, seconds)


def _subscribers(peer: Peer, subscribers: int, directory: Path, seconds: float) -> Point:
    shape = Shape(name=f"topic to {subscribers}", producers=1, window=10)
    case = Case(kind="topic", shape=shape, is_persistent=False, subscribers=subscribers)
    return _fresh_point(peer, case, subscribers, directory, seconds)


def _queues(peer: Peer, queues: int, directory: Path, seconds: float) -> Point:
    """Each queue has a message already when the count begins, so no queue is created in it."""
    case = _send_case(QUEUE_PRODUCERS)
    with running(peer.launch(case), directory) as broker:
        wire = SpreadWire(queues)
        address = ("127.0.0.1", broker.port)
        _fill(address, wire, queues, replace(WINDOW_16, window=1))
        load = Load(address, wire, case.shape, broker.cpu_s)
        try:
            return _point(queues, load.measure(seconds))
        finally:
            load.close()


def _fill(address: tuple[str, int], wire: Wire, messages: int, shape: Shape = WINDOW_16) -> float:
    """How many a second."""
    if not messages:
        return 0.0
    load = Load(address, wire, shape)
    try:
        return messages / load.fill(messages)
    finally:
        load.close()


def _backlog(peer: Peer, at: int, directory: Path, seconds: float) -> Point:
    raise NotImplementedError("the backlog's points are measured on one broker")


def _backlog_points(peer: Peer, steps: Sequence[int], directory: Path, seconds: float) -> Iterator[Point]:
    """One broker; its backlog is filled up to each step, measured end to end, and filled on."""
    case = Case(kind="queue", shape=END_TO_END, is_persistent=True, body_bytes=BACKLOG_BODY_BYTES)
    if reason := peer.lacks(case):
        raise LoadFailed(reason)
    with running(peer.launch(case), directory) as broker:
        wire = peer.prepare(broker, case)
        stored, fill_per_s = 0, 0.0
        for step in steps:
            if fill_per_s and (step - stored) / fill_per_s > FILL_MAX_S:
                raise LoadFailed(f"{step:,} messages at {fill_per_s:,.0f} a second would take too long")
            fill_per_s = _fill(("127.0.0.1", broker.port), wire, step - stored) or fill_per_s
            stored = step
            yield _point(step, _end_to_end(broker, wire, seconds), fill_per_s=fill_per_s,
                         rss_anon_mib=sum(map(_rss_anon_bytes, tree(broker.pids))) / MIB,
                         disk_mib=disk_bytes(directory) / MIB)  # fmt: skip


def _end_to_end(broker: Running, wire: Wire, seconds: float) -> Measured:
    load = Load(("127.0.0.1", broker.port), wire, END_TO_END, broker.cpu_s)
    try:
        return load.measure(seconds)
    finally:
        load.close()


def _rss_anon_bytes(pid: int) -> int:
    with contextlib.suppress(OSError, LoadFailed):
        return rss_anon_bytes(pid)
    return 0


def disk_bytes(directory: Path) -> int:
    """What its files take on the disk."""
    return sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file())
