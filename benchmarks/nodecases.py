"""What is measured of several nodes (nodes.py runs it): for each graph, what a row of which table is made from."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.linked import COPIES, FANOUT, QUEUE, TOPIC, Edges, Linked, chain, mesh
from benchmarks.nodeloads import Counted, ElsewhereWire, HearingWire, NodeLoad, Place, TakingWire, displacements, shares
from radiator.tools.cli.load import Load, LoadConnection, LoadFailed, Shape, StompWire

QUEUE_OUT, TOPIC_OUT, FANOUT_OUT = 256, 10, 256
IDLE_MESSAGES, IDLE_PAUSE_S = 150, 0.004
BALANCE_MESSAGES, BALANCE_CONSUMERS = 6_000, 10
BALANCE_WORK_MS = (5, 20)  # with the first, one machine may lack the CPU to keep thirty consumers busy
SINGLE_MESSAGES = 2_000
SUBSCRIPTIONS = (0, 1, 100, 1_000)
SHARE_MIN = 0.8
QUEUE_NODES_MAX, FANOUT_NODES_MAX = 4, 5

Figures = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """table and row (`at`) that it stands in. figures: measures, once."""

    table: str
    at: str
    figures: Callable[[Linked, float], Figures]


# ---- what is measured


def _end(nodes: Linked) -> str:
    return nodes.names[-1]


def _figures(counted: Counted, nodes: Linked, groups: int = 1) -> Figures:
    """per_s: messages, however many get each. CPU for each of them: of all nodes, of the first, of the last.

    Without latencies: where so many are out they are ages.
    """
    if not counted.latencies_ns:
        raise LoadFailed(f"Not one message came through in {counted.took_s:.1f} s.")
    messages = len(counted.latencies_ns) / groups
    cpu_us = {name: used_s / messages * 1e6 for name, used_s in counted.cpu_s.items()}
    return {
        "per_s": messages / counted.took_s,
        "cpu_us": sum(cpu_us.values()),
        "first_us": cpu_us[nodes.names[0]],
        "last_us": cpu_us[_end(nodes)],
        "generator": counted.own_cpu_s / counted.took_s,
    }


def _topic_figures(counted: Counted, nodes: Linked, groups: int = 1) -> Figures:
    return {**_figures(counted, nodes, groups), **_latencies(counted.latencies_ns)}


def _latencies(latencies_ns: Sequence[int]) -> Figures:
    ordered = sorted(latencies_ns)
    return {"p50_ms": ordered[len(ordered) // 2] / 1e6, "p99_ms": ordered[len(ordered) * 99 // 100] / 1e6}


def _load(nodes: Linked, destination: str, out_max: int, work_s: float = 0.0) -> NodeLoad:
    return NodeLoad(nodes.address(nodes.names[0]), StompWire(destination), out_max, work_s)


def queue_rate(consumers: int, prefetch: int) -> Callable[[Linked, float], Figures]:
    """Posted at the first node, taken at the last."""

    def figures(nodes: Linked, seconds: float) -> Figures:
        with _load(nodes, QUEUE, QUEUE_OUT) as load:
            load.join([Place(_end(nodes), nodes.address(_end(nodes)))] * consumers, TakingWire(QUEUE, prefetch))
            load.prime()
            return _figures(load.measure(seconds, nodes.cpu_s), nodes)

    return figures


def queue_idle(nodes: Linked, seconds: float) -> Figures:
    with _load(nodes, QUEUE, 1) as load:
        load.join([Place(_end(nodes), nodes.address(_end(nodes)))], TakingWire(QUEUE, 1))
        load.prime()
        return _latencies(load.one_by_one(IDLE_MESSAGES, IDLE_PAUSE_S))


def _topic(nodes: Linked, names: Sequence[str], out_max: int = TOPIC_OUT) -> NodeLoad:
    load = NodeLoad(nodes.address(nodes.names[0]), HearingWire(TOPIC), out_max)
    load.join([Place(name, nodes.address(name), group) for group, name in enumerate(names)], HearingWire(TOPIC))
    load.prime()
    return load


def topic_rate(nodes: Linked, seconds: float) -> Figures:
    """Published at the first node, heard at the last."""
    with _topic(nodes, [_end(nodes)]) as load:
        return _topic_figures(load.measure(seconds, nodes.cpu_s), nodes)


def topic_idle(nodes: Linked, seconds: float) -> Figures:
    with _topic(nodes, [_end(nodes)]) as load:
        return _latencies(load.one_by_one(IDLE_MESSAGES, IDLE_PAUSE_S))


def topic_everywhere(nodes: Linked, seconds: float) -> Figures:
    """One subscriber at each node."""
    with _topic(nodes, nodes.names) as load:
        return _topic_figures(load.measure(seconds, nodes.cpu_s), nodes, len(nodes.names))


def subscriptions_elsewhere(count: int) -> Callable[[Linked, float], Figures]:
    """Heard at the first node alone; at the last are so many subscriptions to other topics."""

    def figures(nodes: Linked, seconds: float) -> Figures:
        elsewhere = LoadConnection(nodes.address(_end(nodes)), ElsewhereWire(TOPIC, count), consumer=True)
        with contextlib.closing(elsewhere.socket), _topic(nodes, nodes.names[:1]) as load:
            return _topic_figures(load.measure(seconds, nodes.cpu_s), nodes)

    return figures


def fanout_rate(nodes: Linked, seconds: float) -> Figures:
    """A consumer of copies at each node; a SEND is counted when all have it."""
    with _load(nodes, FANOUT, FANOUT_OUT) as load:
        places = [Place(name, nodes.address(name), group) for group, name in enumerate(nodes.names)]
        load.join(places, TakingWire(COPIES, 50))
        load.prime()
        return _figures(load.measure(seconds, nodes.cpu_s), nodes, len(places))


def fanout_receipts(nodes: Linked, seconds: float) -> Figures:
    """What SENDs alone do: 16 producers, one outstanding; nobody consumes. left: copies not handed over in the end."""
    before_s = nodes.cpu_s()
    load = Load(nodes.address("a"), StompWire(FANOUT), Shape(name="", producers=16, window=1))
    try:
        found = load.measure(seconds)
    finally:
        load.close()
    peers = nodes.admin("a", do="peers")["peers"] if len(nodes.names) > 1 else ()
    cpu_s = sum(nodes.cpu_s().values()) - sum(before_s.values())
    left = sum(peer["outbox"] + peer["in_doubt"] for peer in peers)
    return {"per_s": found.per_s, "p50_ms": found.p50_ms, "p99_ms": found.p99_ms, "left": left,
            "cpu_us": cpu_s / found.messages * 1e6, "generator": found.generator_share}  # fmt: skip


def balance(work_ms: int, messages: int = BALANCE_MESSAGES) -> Callable[[Linked, float], Figures]:
    """A backlog at the first node; then equal consumers come at all."""

    def figures(nodes: Linked, seconds: float) -> Figures:
        with _load(nodes, QUEUE, QUEUE_OUT, work_ms / 1000) as load:
            load.post_all(messages)
            places = [Place(name, nodes.address(name)) for name in nodes.names] * BALANCE_CONSUMERS
            load.join(places, TakingWire(QUEUE, 1))
            load.settle()
            parts = shares(load.taken, nodes.names)
            return {**_drained(load), "least_share": min(parts.values()),
                    **{f"share_{name}": part for name, part in parts.items()}}  # fmt: skip

    return figures


def single_elsewhere(messages: int = SINGLE_MESSAGES) -> Callable[[Linked, float], Figures]:
    """A backlog at the first node, one consumer at the last."""

    def figures(nodes: Linked, seconds: float) -> Figures:
        with _load(nodes, QUEUE, QUEUE_OUT) as load:
            load.post_all(messages)
            load.join([Place(_end(nodes), nodes.address(_end(nodes)))], TakingWire(QUEUE, 1))
            load.settle()
            return _drained(load)

    return figures


def _drained(load: NodeLoad) -> Figures:
    moved = displacements(load.taken)
    took_s = (load.taken[-1].at_ns - load.taken[0].at_ns) / 1e9
    return {"per_s": len(load.taken) / took_s, "moved_p50": moved[len(moved) // 2],
            "moved_p99": moved[len(moved) * 99 // 100], "moved_max": moved[-1]}  # fmt: skip


HAND_OVER = "queue: posted at the first node of a chain, taken at the last"
ALONG = "topic: published at one end of a chain, heard at the other"
EVERYWHERE = "topic: full mesh, one subscriber at each node"
ELSEWHERE = "topic: heard here, other topics subscribed to at the other of two nodes"
FANOUTS = "fanout: full mesh, one consumer of copies at each node"
RECEIPTS = "fanout: SENDs alone, 16 producers, one outstanding"
BALANCE = "balance: backlog at one of three nodes, ten consumers at each"
SINGLE = "order: backlog at one of two nodes, one consumer at the other"
TABLES = (HAND_OVER, ALONG, EVERYWHERE, ELSEWHERE, FANOUTS, RECEIPTS, BALANCE, SINGLE)


def series_of(table: str) -> str:
    return table.partition(":")[0]


SERIES = [*dict.fromkeys(map(series_of, TABLES))]


def graphs() -> list[tuple[Edges, list[Measure]]]:
    """Each with what is measured in it. A chain of one or two is a mesh too. RECEIPTS come last: they leave copies."""
    found = []
    for count in range(1, 6):
        rows = _in_a_chain(count)
        if count <= 2:
            rows += _in_a_mesh(count)
        if count == 2:
            rows += [Measure(table=ELSEWHERE, at=f"{n:,} subscriptions", figures=subscriptions_elsewhere(n))
                     for n in SUBSCRIPTIONS]  # fmt: skip
            rows.append(Measure(table=SINGLE, at=nodes_text(count), figures=single_elsewhere()))
        found.append((chain(count), rows))
    for count in (3, 5, 8):
        rows = _in_a_mesh(count)
        if count == 3:
            rows += [Measure(table=BALANCE, at=f"{work_ms} ms of work each", figures=balance(work_ms))
                     for work_ms in BALANCE_WORK_MS]  # fmt: skip
        found.append((mesh(count), rows))
    return [(edges, sorted(rows, key=lambda row: row.table == RECEIPTS)) for edges, rows in found]


def _in_a_chain(count: int) -> list[Measure]:
    at = nodes_text(count)
    rows = [Measure(table=ALONG, at=at, figures=topic_rate),
            Measure(table=ALONG, at=f"{at}, idle", figures=topic_idle)]  # fmt: skip
    if count > QUEUE_NODES_MAX:
        return rows
    for consumers, prefetch in ((1, 1), (8, 1), (64, 1), (8, 50)) if count <= 2 else ((8, 1),):
        named = f"{at}, {consumers} consumers, prefetch {prefetch}"
        rows.append(Measure(table=HAND_OVER, at=named, figures=queue_rate(consumers, prefetch)))
    rows.append(Measure(table=HAND_OVER, at=f"{at}, idle", figures=queue_idle))
    return rows


def _in_a_mesh(count: int) -> list[Measure]:
    rows = [Measure(table=EVERYWHERE, at=nodes_text(count), figures=topic_everywhere)]
    if count <= FANOUT_NODES_MAX:
        rows.append(Measure(table=FANOUTS, at=nodes_text(count), figures=fanout_rate))
        rows.append(Measure(table=RECEIPTS, at=nodes_text(count), figures=fanout_receipts))
    return rows


def nodes_text(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
