"""`--amqp`: Radiator over AMQP beside Radiator over STOMP and beside RabbitMQ over AMQP, in turns.

A load's first figure is the CPU time of all processes of the broker for each message, since machines are shared and
rates then say who else was there; the rate comes second. Ratios are medians of those of the rounds: how many times
Radiator's CPU over AMQP goes into that of the other, and how many times the other's rate into its own, so more is
better in both. Then what an idle connection with one open channel takes of memory.
"""

import contextlib
import os
import socket
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.amqp import CHANNEL_IS_OPEN, HELLO
from benchmarks.comparison import Figures, all_in_turns
from benchmarks.longchecks import rss_anon_bytes
from benchmarks.peers import Peer, RabbitMQAmqp, Radiator, RadiatorAmqp
from benchmarks.processes import Running, running, tree
from benchmarks.rounds import ratio
from benchmarks.shapes import CASES, Case
from radiator.model.limits import KIB
from radiator.tools.cli.load import LoadFailed, StompWire

CONNECT_MAX_S = 30.0
SETTLE_S = 6.0  # RabbitMQ's connections hibernate when they have been idle for a while
IDLE_MAX_KIB = 8.0
HEADS = ("load", "Radiator, STOMP", "Radiator, AMQP", "RabbitMQ, AMQP", "beside STOMP", "beside RabbitMQ", "generator")


@dataclass(frozen=True)
class Beside:
    """A load, and what is wanted of the ratios to our STOMP and to RabbitMQ."""

    case: Case
    of_stomp: float | None
    of_rabbitmq: float | None


LOADS = (
    Beside(CASES[0], 0.9, 3.0),
    Beside(CASES[3], None, None),
    Beside(CASES[4], None, 1.5),
    Beside(CASES[6], None, 1.5),
)


def amqp_tables(directory: Path, rounds: int, seconds: float, idle: int) -> str:
    """Markdown. idle: connections whose memory is measured; 0: none. Raises LoadFailed where one does not get
    through."""
    peers = (Radiator(), RadiatorAmqp(), RabbitMQAmqp())
    for peer in peers:
        if reason := peer.missing():
            raise LoadFailed(f"{reason}; `scripts/bench --install-peers` installs it")
    lines = []
    for load in LOADS:
        found = all_in_turns(load.case, peers, directory, rounds, seconds)
        lines.append(load_row(load, *found))
        _progress(" | ".join(lines[-1]))
    text = _markdown(HEADS, lines)
    if idle:
        text += "\n\n" + _idle_table(peers, directory, rounds, idle)
    return f"{text}\n\nLoad average {os.getloadavg()[2]:.1f}."


def load_row(load: Beside, stomp: Figures, amqp: Figures, rabbitmq: Figures) -> list[str]:
    busiest = max(statistics.median(one.generator) for one in (stomp, amqp, rabbitmq))
    return [
        load.case.name,
        *(_cell(one) for one in (stomp, amqp, rabbitmq)),
        _beside(amqp, stomp, load.of_stomp),
        _beside(amqp, rabbitmq, load.of_rabbitmq),
        f"{busiest:.0%}",
    ]


def _cell(one: Figures) -> str:
    return f"{statistics.median(one.cpu_us):.1f} us · {statistics.median(one.per_s):,.0f}/s"


def _beside(ours: Figures, other: Figures, wanted: float | None) -> str:
    """By CPU and by rate; what is wanted is judged by CPU."""
    by_cpu, by_rate = round(ratio(other.cpu_us, ours.cpu_us), 2), ratio(ours.per_s, other.per_s)
    judged = "" if wanted is None else f" (wanted {wanted:g}{'' if by_cpu >= wanted else ': MISSED'})"
    return f"{by_cpu:.2f} · {by_rate:.2f}{judged}"


# ---- memory


def _idle_table(peers: Sequence[Peer], directory: Path, rounds: int, count: int) -> str:
    found: dict[str, list[float]] = {peer.name: [] for peer in peers}
    for _ in range(rounds):
        for peer in peers:
            found[peer.name].append(idle_kib(peer, directory / peer.name, count))
            _progress(f"an idle connection, {peer.name}: {found[peer.name][-1]:.2f} KiB")
    cells = [f"{statistics.median(found[peer.name]):.1f} KiB" for peer in peers]
    is_missed = statistics.median(found[RadiatorAmqp.name]) > IDLE_MAX_KIB
    wanted = f"at most {IDLE_MAX_KIB:g} KiB{': MISSED' if is_missed else ''}"
    return _markdown(
        ("memory", *HEADS[1:4], "wanted over AMQP"), [[f"each of {count:,} idle connections", *cells, wanted]]
    )


def idle_kib(peer: Peer, directory: Path, count: int) -> float:
    """For each of so many connections with one channel, over STOMP connected; before them a tenth is not counted."""
    greeting, last_answer = (
        StompWire("/queue/q").hello(False) if peer.name == Radiator.name else (HELLO, CHANNEL_IS_OPEN)
    )
    with running(peer.launch(CASES[0]), directory) as broker, contextlib.ExitStack() as stack:
        for _ in range(count // 10):
            _connected(broker, stack, greeting, last_answer)
        time.sleep(SETTLE_S)
        before_bytes = _memory_bytes(broker)
        for _ in range(count):
            _connected(broker, stack, greeting, last_answer)
        time.sleep(SETTLE_S)
        return (_memory_bytes(broker) - before_bytes) / KIB / count


def _connected(broker: Running, stack: contextlib.ExitStack, greeting: bytes, last_answer: bytes) -> None:
    one = stack.enter_context(socket.create_connection(("127.0.0.1", broker.port), CONNECT_MAX_S))
    one.sendall(greeting)
    answer = b""
    while last_answer not in answer:
        data = one.recv(4096)
        if not data:
            raise LoadFailed(f"The broker refused an idle connection: {answer[-300:]!r}.")
        answer += data


def _memory_bytes(broker: Running) -> int:
    """Of all its processes."""
    found = 0
    for pid in tree(broker.pids):
        with contextlib.suppress(OSError):  # one that has just ended
            found += rss_anon_bytes(pid)
    return found


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---", *("--:" for _ in heads[1:])], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _progress(text: str) -> None:
    sys.stderr.write(f"  {text}\n")
