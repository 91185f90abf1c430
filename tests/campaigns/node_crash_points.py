"""T1b: two linked nodes, and one is killed as it enters a system call while messages change their owner.

One gives, one takes: jobs are sent to `a` and done at `b`, events go to both. strace kills one of the two at its N-th
call by which it writes, syncs or says something. Then `radiator check` looks at what it left, it starts again (and the
other one too, now and then), and everything is taken out. Nothing that was receipted is lost, and no body comes twice
unless the RECEIPT of its ACK was lost with its node. Both nodes live on from point to point.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from radiator.storage.check import check
from tests.acceptance.wire import Gone
from tests.campaigns import trace
from tests.campaigns.campaign import Campaign, Run
from tests.campaigns.crash_points import Point, in_turn
from tests.crash.books import body_of
from tests.nodes.books import Books
from tests.nodes.cluster import Nodes
from tests.nodes.crowd import ALL_JOBS, AUDIT, EVENTS, TABLES, WORK, Client, Consumer, until

MESSAGES = 30  # of one point; every fourth is an event
HEART_BEAT_MS = 500
SETTLED_WITHIN_S = 15.0
REACHED_WITHIN_S = 2.0
BOTH_START_AGAIN = 0.3
CALLS = ("pwrite64", "pwritev2", "writev", "fdatasync", "sendto", "write")
LOG_LINES = 20


class Pair:
    """The two nodes, with clients that take out whatever comes."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory
        self.nodes = Nodes(directory, [("a", "b")], TABLES, heart_beat_ms=HEART_BEAT_MS)
        self.books = Books()
        self.sent = 0
        a, b = self.nodes["a"], self.nodes["b"]
        self.consumers: list[Client] = [
            Consumer("worker", b, self.books, WORK, ALL_JOBS),
            Consumer("auditor", a, self.books, AUDIT, "a"),
            Consumer("auditor", b, self.books, AUDIT, "b"),
        ]

    def start(self) -> None:
        self.nodes.start()
        self.nodes.wait_until_linked()
        for client in self.consumers:
            client.start()

    def close(self) -> None:
        for client in self.consumers:
            client.stop.set()
        for client in self.consumers:
            if client.ident is not None:
                client.join(10)
        self.nodes.close()

    def send(self) -> None:
        """All at once, to `a`; those whose RECEIPT comes are in the books."""
        with suppress(Gone, OSError), self.nodes["a"].wire() as wire:
            receipts: dict[str, str] = {}
            for number in range(self.sent, self.sent + MESSAGES):
                name = f"m.{number}"
                to, places = (WORK, (ALL_JOBS,)) if number % 4 else (EVENTS, ("a", "b"))
                self.books.sending(name, places)
                self.sent += 1
                receipts[wire.begin_ask("SEND", {"destination": to}, body_of(name))] = name
            for receipt, name in receipts.items():
                wire.await_receipt(receipt)
                self.books.sent(name)

    def crash(self, victim: str, options: list[str]) -> bool:
        """Hand over under that strace; whether it has killed the victim."""
        node = self.nodes[victim]
        with trace.attached(node.pid, options):
            self.send()
            until(lambda: not node.is_running or not self.books.waiting(), REACHED_WITHIN_S)
        if not node.is_running:
            node.wait(REACHED_WITHIN_S)
        return not node.is_running

    def start_again(self, *names: str) -> None:
        for name in names:
            self.nodes[name].kill()
        for client in self.consumers:
            if client.node.name in names:
                assert client.is_lost.wait(10), f"{client.name} does not find out that its node is dead"
        for name in names:
            found = check(self.nodes[name].data_dir).findings
            assert not found, f"radiator check says of {name}: {found[:3]}"
        self.nodes.start(names)

    def settle(self) -> list[str]:
        """What is wrong, once all that may come has come."""
        until(lambda: not self.books.waiting(), SETTLED_WITHIN_S)
        found = [] if until(lambda: not self.left(), SETTLED_WITHIN_S / 3) else [f"there is still {self.left()}"]
        found += self.books.faults()
        for node in self.nodes.all:
            if "Traceback" in node.log or "link_error" in node.log:
                found.append(f"{node.name} has a link error, or worse")
        return found

    def left(self) -> list[str]:
        """What is still stored, or in doubt, and where."""
        left = []
        for node in self.nodes.all:
            queues = node.admin(do="stats")["queues"]
            left += [
                f"{numbers['stored']} in {name} at {node.name}" for name, numbers in queues.items() if numbers["stored"]
            ]
            left += [
                f"{peer['in_doubt']} in doubt at {node.name}" for peer in node.peers().values() if peer["in_doubt"]
            ]
        return left

    def points(self, victim: str) -> list[list[Point]]:
        """A list for each kind of call that it makes while a hand-over goes on."""
        record = self.directory / "record"
        assert not self.crash(victim, trace.only_count(record))
        counts = trace.counted(record)
        return [[Point(victim, call, number + 1) for number in range(counts[call])] for call in CALLS if call in counts]

    def logs(self) -> str:
        return "\n".join(
            f"--- {node.name}\n" + "\n".join(node.log.splitlines()[-LOG_LINES:]) for node in self.nodes.all
        )


def crash(run: Run) -> None:
    """A pair goes on until something is wrong."""
    number = not_reached = 0
    while not run.is_over:
        number += 1
        pair = Pair(run.directory / f"pair-{number}")
        try:
            pair.start()
            points = in_turn([*pair.points("a"), *pair.points("b")], run.chance)
            not_reached += crash_all(run, pair, points)
        finally:
            pair.close()
        run.figures["handed over"] = int(run.figures.get("handed over", 0)) + pair.books.crossed
    run.figures["not reached"] = not_reached


def crash_all(run: Run, pair: Pair, points: Iterator[Point]) -> int:
    """Point after point; how many were not reached."""
    not_reached = 0
    for point in points:
        if run.is_over:
            break
        what = f"{point.when} was killed at its {point.call} {point.number}"
        try:
            if pair.crash(point.when, trace.kill_at(point.call, point.number)):
                both = run.chance.random() < BOTH_START_AGAIN
                pair.start_again(*("ab" if both else point.when))
            else:
                not_reached += 1
            found = pair.settle()
        except (AssertionError, Gone, OSError) as mistake:
            found = [repr(mistake)]
        run.case()
        if found:
            run.violation(f"{what}: {found}\n{pair.logs()}")
            break
    return not_reached


CAMPAIGNS = (
    Campaign(
        number="T1b",
        name="node-crash-points",
        title="kills one of two linked nodes at the calls by which it hands over, or takes",
        unit="crash points",
        run=crash,
        cases=(12, 400, 4000),
        mutants=("delete-before-taken", "item-and-last-in-two-commits"),
        mutant_cases=120,
        quick_mutants=1,
        needs=("strace_attach",),
        limit_s=(120, 3600, 4 * 3600),
    ),
)
