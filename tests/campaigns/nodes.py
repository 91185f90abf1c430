"""T11: three and five real nodes under load, and everything that may happen between them or to them; then books.

At every node one sends jobs, events and news, and at some of them jobs are done. Meanwhile nodes are killed, paused,
or their disk is full, and links are silenced in one direction or both, cut or slowed. When all is well again,
everything is taken out. Nothing that was receipted is lost, no body came twice unless the RECEIPT of its ACK was lost
with its node, and nothing is left: no message, no copy in an outbox, no doubt.

T11 puts a fault proxy between them and runs anywhere; T11b gives each a network of its own, whose cables are pulled.
T11c and T11d are the same with links over TLS, where each node has a certificate of its own. It cannot see what only
happens in moments that a kill does not meet: those are the simulation's (T10).
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random

from tests.acceptance.conftest import queues_that_do_not_add_up
from tests.acceptance.wire import Gone
from tests.campaigns.campaign import Campaign, Run
from tests.nodes.books import Books
from tests.nodes.cluster import Nodes, mesh
from tests.nodes.crowd import TABLES, Crowd, until
from tests.nodes.netns import Namespaces, network_for_this_process_only
from tests.nodes.network import Network

HEART_BEAT_MS = 500
LOAD_S = {"quick": 2.5, "nightly": 300.0, "release": 300.0}
FAULT_S = {"quick": (0.8, 1.2), "nightly": (0.2, 4.0), "release": (0.2, 8.0)}
QUIET_S = (0.1, 0.6)  # between two faults
DRAINED_WITHIN_S = {"quick": 20.0, "nightly": 120.0, "release": 120.0}
LOG_LINES = 12
RATE = 120.0  # messages a second and node: what two cores bear with five nodes
FILLER_BYTES = 200_000
MAP_SIZE = "24MiB"
LIMITS = 'block_timeout_s = 0.5\nmax_frame_bytes = "1MiB"\nmax_batch_bytes = "1MiB"\n'


class Life:
    """Some nodes with a crowd, from their start until nothing is left in them."""

    def __init__(
        self, run: Run, number: int, names: str, network: Network | None = None, over_tls: bool = False
    ) -> None:
        self.run = run
        self.chance = Random(run.chance.randrange(1 << 60))
        directory = run.directory / f"life-{number}"
        directory.mkdir()
        self.nodes = Nodes(
            directory,
            mesh(names),
            TABLES,
            heart_beat_ms=HEART_BEAT_MS,
            map_size=MAP_SIZE,
            limits=LIMITS,
            network=network,
            over_tls=over_tls,
        )
        self.books = Books()
        # where nobody works, jobs must be handed over
        self.workers = self.chance.sample(names, self.chance.randint(1, len(names) - 1))
        self.crowd = Crowd(self.nodes, self.books, self.workers, RATE, f"{run.seed} {number}")

    def live(self, fault: "Fault") -> None:
        """One nemesis, again and again, while they work; then the judgement."""
        try:
            self.nodes.start()
            self.nodes.wait_until_linked()
            self.crowd.start()
            deadline_s = time.monotonic() + LOAD_S[self.run.level]
            while time.monotonic() < deadline_s:
                time.sleep(self.chance.uniform(*QUIET_S))
                fault(self)
                self.nodes.network.heal()
            self.judge(fault.__name__)
        except (AssertionError, Gone, OSError) as mistake:
            self.run.violation(f"{fault.__name__} with {len(self.nodes.names)} nodes: {mistake!r}\n{self.logs()}")
        finally:
            with suppress(AssertionError):
                self.crowd.stop()
            self.nodes.close()

    def endure(self) -> None:
        """The fault lasts."""
        time.sleep(self.chance.uniform(*FAULT_S[self.run.level]))

    def kill(self, *names: str) -> None:
        for name in names:
            self.nodes[name].kill()
        self.crowd.wait_until_lost(*names)

    def pair(self) -> tuple[str, str]:
        one, other = self.chance.sample(self.nodes.names, 2)
        return one, other

    def judge(self, fault: str) -> None:
        """Nobody sends any more: all that was receipted must come, and then nothing is left."""
        self.crowd.stop_sending()
        limit_s = DRAINED_WITHIN_S[self.run.level]
        until(lambda: not self.books.waiting(), limit_s)
        is_empty = until(lambda: not self.left(), limit_s / 2)
        seen = (
            [] if is_empty else [f"After {fault}, workers at {self.workers}, there is still something: {self.left()}"]
        )
        self.crowd.stop()
        seen += [f"After {fault} with {len(self.nodes.names)} nodes: {found}" for found in self.books.faults()]
        for node in self.nodes.all:
            if wrong := queues_that_do_not_add_up(node):
                seen.append(f"After {fault} the ledgers of {wrong} at {node.name} do not add up")
        for node in self.nodes.all:
            if node.stop() != 0 or "Traceback" in node.log:
                seen.append(f"After {fault} {node.name} did not stop clean")
            if "link_error" in node.log:
                seen.append(f"After {fault} {node.name} found a link error, where nobody has lied")
        for sentence in seen:
            self.run.violation(f"{sentence}\n{self.logs()}")
        self.note_figures()

    def left(self) -> list[str]:
        """What is still in the nodes."""
        left = []
        for node in self.nodes.all:
            stats = node.admin(do="stats")["queues"]
            left += [
                f"{numbers['stored']} in {name} at {node.name}" for name, numbers in stats.items() if numbers["stored"]
            ]
            left += [
                f"{peer[what]} {what} at {node.name} for {name}"
                for name, peer in node.peers().items()
                for what in ("in_doubt", "outbox")
                if peer[what]
            ]
        return left

    def note_figures(self) -> None:
        figures, books = self.run.figures, self.books
        for name, count in (
            ("receipted", len(books.receipted)),
            ("acked", len(books.acked)),
            ("handed over", books.crossed),
            ("news", books.news),
        ):
            figures[name] = int(figures.get(name, 0)) + count
            if not count:
                raise RuntimeError(f"Nothing was {name}: there was no load.")

    def logs(self) -> str:
        """Without what clients do."""
        seen = []
        for node in self.nodes.all:
            lines = [line for line in node.log.splitlines() if "connected connection=" not in line]
            seen.append("\n".join([f"--- {node.name}", *lines[-LOG_LINES:]]))
        return "\n".join(seen)


Fault = Callable[[Life], None]


def one_way(life: Life) -> None:
    """One still hears the other, which hears nothing."""
    life.nodes.network.silence(*life.pair())
    life.endure()


def kill(life: Life) -> None:
    name = life.chance.choice(life.nodes.names)
    life.kill(name)
    life.endure()
    life.nodes.start([name])


def pause(life: Life) -> None:
    node = life.nodes[life.chance.choice(life.nodes.names)]
    os.kill(node.pid, signal.SIGSTOP)
    try:
        life.endure()
    finally:
        os.kill(node.pid, signal.SIGCONT)


def halves(life: Life) -> None:
    names = life.nodes.names
    some = life.chance.sample(names, len(names) // 2)
    for one in some:
        for other in set(names) - set(some):
            life.nodes.network.silence(one, other)
            life.nodes.network.silence(other, one)
    life.endure()


def neighbours_only(life: Life) -> None:
    """Of a mesh a ring is left; of three nodes, a chain."""
    names = life.chance.sample(life.nodes.names, len(life.nodes.names))
    left = {frozenset(pair) for pair in zip(names, names[1:], strict=False)}
    if len(names) > 3:
        left.add(frozenset((names[0], names[-1])))
    for one in names:
        for other in names:
            if one != other and frozenset((one, other)) not in left:
                life.nodes.network.silence(one, other)
    life.endure()


def resets(life: Life) -> None:
    """Links break in the midst of what they say, and come again at once."""
    for _ in range(5):
        life.nodes.network.cut(*life.pair())
        time.sleep(life.chance.uniform(0, 0.3))


def slow(life: Life) -> None:
    life.nodes.network.slow(life.chance.choice(life.nodes.names))
    life.endure()


def full_disk(life: Life) -> None:
    """One has no room: its SENDs wait, and nothing is handed to it."""
    node = life.nodes[life.chance.choice(life.nodes.names)]
    with suppress(Gone, AssertionError, TimeoutError), node.wire() as wire:
        while True:
            wire.ask("SEND", {"destination": "/queue/filler"}, bytes(FILLER_BYTES))
    life.endure()
    assert node.admin(do="purge", queue="filler")["ok"]


def all_at_once(life: Life) -> None:
    """The power fails everywhere."""
    life.kill(*life.nodes.names)
    life.nodes.start()


# the first is what hunts begin with
FAULTS: tuple[Fault, ...] = (one_way, kill, pause, halves, neighbours_only, resets, slow, full_disk, all_at_once)


def faults_of(run: Run) -> list[Fault]:
    """One for each case: at night each in its turn, else drawn; a hunt begins with the one that finds most."""
    if run.is_hunt or run.level != "quick":
        return [FAULTS[number % len(FAULTS)] for number in range(run.cases)]
    return [fault for _ in range(run.cases) for fault in run.chance.sample(FAULTS, len(FAULTS))][: run.cases]


def names_of(number: int, run: Run) -> str:
    return "abc" if run.is_hunt or number % 2 == 0 else "abcde"


def nodes(run: Run, over_tls: bool = False) -> None:
    for number, fault in enumerate(faults_of(run)):
        Life(run, number, names_of(number, run), over_tls=over_tls).live(fault)
        run.case()
        if run.is_over:
            return


def cables(run: Run, over_tls: bool = False) -> None:
    network_for_this_process_only()
    for number, fault in enumerate(faults_of(run)):
        names = names_of(number, run)
        with Namespaces(names) as network:
            Life(run, number, names, network, over_tls).live(fault)
        run.case()
        if run.is_over:
            return


CAMPAIGNS = (
    Campaign(
        number="T11",
        name="nodes",
        title="kills, pauses and parts three and five nodes under load, with books",
        unit="lives",
        run=nodes,
        cases=(2, 9, 36),
        mutants=("give-back-on-disconnect",),
        mutant_cases=4,
        needs=("linux",),
        limit_s=(120, 7200, 6 * 3600),
    ),
    Campaign(
        number="T11b",
        name="cables",
        title="the same with a network of the kernel between them, whose cables are pulled",
        unit="lives",
        run=cables,
        cases=(1, 9, 36),
        mutants=("give-back-on-disconnect",),
        mutant_cases=4,
        needs=("netns",),
        limit_s=(120, 7200, 6 * 3600),
    ),
    Campaign(
        number="T11c",
        name="nodes-over-tls",
        title="T11 with links over TLS",
        unit="lives",
        run=partial(nodes, over_tls=True),
        cases=(1, 9, 36),
        mutants=("give-back-on-disconnect",),
        mutant_cases=4,
        needs=("linux", "openssl"),
        limit_s=(120, 7200, 6 * 3600),
    ),
    Campaign(
        number="T11d",
        name="cables-over-tls",
        title="T11b with links over TLS",
        unit="lives",
        run=partial(cables, over_tls=True),
        cases=(1, 9, 36),
        mutants=("give-back-on-disconnect",),
        mutant_cases=4,
        needs=("netns", "openssl"),
        limit_s=(120, 7200, 6 * 3600),
    ),
)
