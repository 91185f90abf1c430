"""Runs the rows: each peer in its turn, in every round, on a fresh broker with fresh data in the same directory.

A peer that takes long to start serves all rounds of a case, stopped by a signal while others are measured, with a fresh
queue for each of its measurements. A peer that fails in a row is reported there, and the others go on.
"""

import contextlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.loads import TopicLoad
from benchmarks.peers import Peer
from benchmarks.processes import Launch, Running, running
from benchmarks.shapes import Case
from radiator.tools.cli.load import Load, LoadFailed, Measured


@dataclass
class Result:
    """What a peer did in a row. failed: the sentence of a round in which it did not."""

    measured: list[Measured] = field(default_factory=list)
    failed: str = ""
    launch: Launch | None = None


@dataclass
class Row:
    """By the peers' names. lacks: why a peer has no such row."""

    case: Case
    results: dict[str, Result] = field(default_factory=dict)
    lacks: dict[str, str] = field(default_factory=dict)


def compare(case: Case, peers: Sequence[Peer], directory: Path, rounds: int, seconds: float) -> Row:
    row = Row(case)
    for peer in peers:
        if reason := peer.lacks(case):
            row.lacks[peer.name] = reason
        else:
            row.results[peer.name] = Result()
    taking_part = [peer for peer in peers if peer.name in row.results]
    with contextlib.ExitStack() as stack:
        kept: dict[str, Running] = {}
        for number in range(rounds):
            # every other round goes backwards: what drifts meets all alike
            for peer in taking_part if number % 2 == 0 else reversed(taking_part):
                result = row.results[peer.name]
                if not result.failed:
                    try:
                        _measure_once(peer, case, directory / peer.name, seconds, result, stack, kept)
                    except (LoadFailed, OSError) as failed:
                        result.failed = str(failed)
                        sys.stderr.write(f"  {case.name}, {peer.name}: {failed}\n")
    return row


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one peer in one row, round by round. generator: the load's share of a CPU."""

    per_s: list[float]
    cpu_us: list[float]
    generator: list[float]


def in_turns(
    case: Case, one: Peer, other: Peer, directory: Path, rounds: int, seconds: float
) -> tuple[Figures, Figures]:
    """A row of two of which none may fail. Raises LoadFailed where one does not get through."""
    first, second = all_in_turns(case, (one, other), directory, rounds, seconds)
    return first, second


def all_in_turns(case: Case, peers: Sequence[Peer], directory: Path, rounds: int, seconds: float) -> list[Figures]:
    """The same of any number, in their order."""
    row = compare(case, peers, directory, rounds, seconds)
    for result in row.results.values():
        if result.failed:
            raise LoadFailed(result.failed)
    return [_figures(row.results[peer.name].measured) for peer in peers]


def _figures(measured: Sequence[Measured]) -> Figures:
    return Figures(
        [m.per_s for m in measured],
        [m.broker_cpu_s / m.messages * 1e6 for m in measured],
        [m.generator_share for m in measured],
    )


def _measure_once(
    peer: Peer,
    case: Case,
    directory: Path,
    seconds: float,
    result: Result,
    stack: contextlib.ExitStack,
    kept: dict[str, Running],
) -> None:
    if not peer.is_slow_to_start:
        with running(peer.launch(case), directory) as broker:
            result.launch = broker.launch
            result.measured.append(measure(peer, broker, case, seconds))
        return
    if peer.name not in kept:
        kept[peer.name] = stack.enter_context(running(peer.launch(case), directory))
        time.sleep(2)  # what it does after its start is not what is measured
    broker = kept[peer.name]
    result.launch = broker.launch
    broker.resume()
    try:
        result.measured.append(measure(peer, broker, case, seconds))
    finally:
        broker.pause()


def measure(peer: Peer, broker: Running, case: Case, seconds: float) -> Measured:
    """One measurement on a broker that is up."""
    wire = peer.prepare(broker, case)
    address = ("127.0.0.1", broker.port)
    load: Load | TopicLoad
    if case.kind == "topic":
        load = TopicLoad(address, wire, case.subscribers, broker.cpu_s)
    else:
        load = Load(address, wire, case.shape, broker.cpu_s)
    try:
        return load.measure(seconds)
    finally:
        load.close()
        peer.tidy(broker, wire)
