"""T1: a real broker is killed as it enters one system call, for each call by which it writes, syncs, names or answers.

Three times of its life: its first start, the deeds of scenario.py (and the clean stop behind them), and a start on what
a killed broker left. Then `radiator check`, a new start, what is delivered against what may be there, some more deeds,
and a clean stop.

A kill loses nothing that was handed to the operating system: that a sync is missing only T2 and T3 can see.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from subprocess import TimeoutExpired

from radiator.model.writes import StoppedClean
from radiator.storage.check import check
from radiator.storage.codec.encode import encode
from radiator.storage.codec.operations import encode_operations
from radiator.storage.lmdb.directory import WAL_DIRECTORY
from tests.acceptance.conftest import stats
from tests.acceptance.wire import Gone, Wire
from tests.broker_process import BrokerProcess
from tests.campaigns import scenario, trace
from tests.campaigns.campaign import Campaign, Run
from tests.campaigns.scenario import Client, History, Queues

DEEDS_BEFORE_A_SECOND_START = 30
DEEDS_AFTERWARDS = 8
END_MAX_S = 10.0
FIRST_START, LOAD, SECOND_START = "first start", "load", "second start"


@dataclass(frozen=True)
class Point:
    """Where the broker is killed: at the so many-th call of that name, of one thread."""

    when: str
    call: str
    number: int

    def __str__(self) -> str:
        return f"killed at {self.call} {self.number} of the {self.when}"


class Case:
    """One broker's data directory, and what its client knows."""

    config = scenario.CONFIG

    def __init__(self, directory: Path, seed: int) -> None:
        directory.mkdir()
        self.broker = BrokerProcess(directory, self.config)
        self.plain = self.broker.program
        self.history = History()
        self.seed = seed

    def start(self, options: list[str] | None = None) -> None:
        self.broker.program = self.plain if options is None else trace.started_under(options)
        self.broker.start()

    def talk(self, deeds: int, end: Callable[[], object]) -> None:
        """A client's deeds, until they are done or the broker is gone; then an end is made of it.

        Only then the client goes: to lose it before would raise the counts of what it holds.
        """
        with Wire((self.broker.host, self.broker.port)) as wire:
            client = Client(wire, self.history, Random(self.seed), "load")
            try:
                client.begin()
                client.do_all(deeds)
            except (Gone, ConnectionError):
                client.hear_the_last()
            end()

    def judge_a_new_life(self) -> str:
        """What is wrong, beside what is stored, with what the next broker says; "": nothing."""
        return ""

    def talk_under(self, options: list[str]) -> None:
        """All deeds and a clean stop, under an strace that comes when the broker listens."""
        with trace.attached(self.broker.pid, options):
            self.talk(scenario.DEEDS, self.stop)

    def stop(self) -> None:
        """SIGTERM, if it still runs; it may be killed in the midst of its stop."""
        if self.broker.is_running:
            with suppress(TimeoutExpired):
                self.broker.stop()

    def go_to(self, point: Point) -> bool:
        """The broker is dead when this returns: whether the point was reached."""
        options = trace.kill_at(point.call, point.number)
        if point.when == LOAD:
            self.start()
            self.talk_under(options)
        else:
            if point.when == SECOND_START:
                self.start()
                self.talk(DEEDS_BEFORE_A_SECOND_START, self.broker.kill)
            try:
                self.start(options)
            except AssertionError:
                self.broker.wait(END_MAX_S)
        is_reached = not self.broker.is_running and self.broker.wait(END_MAX_S) == -9
        self.broker.kill()
        return is_reached

    def complaint(self, is_reached: bool) -> str:
        """What is wrong with what the dead broker left; "" where nothing is."""
        had_stopped = self._had_stopped()
        if (self.broker.data_dir / "data.mdb").exists():
            findings = check(self.broker.data_dir).findings
            if findings:
                return f"radiator check says {findings[:3]}"
        try:
            self.start()
        except AssertionError as refused:
            return f"it does not start again: {refused}"
        try:
            return self.judge_a_new_life() or self._look_and_go_on(is_reached and not had_stopped)
        except (AssertionError, Gone, ConnectionError) as mistake:
            return f"after the next start: {mistake!r}\n{self.broker.log[-1500:]}"

    def _had_stopped(self) -> bool:
        """Whether its log says of a clean stop that it is complete: a kill behind that leaves nothing in doubt."""
        content = b"".join(encode_operations(encode([StoppedClean()])))
        return any(content in file.read_bytes() for file in (self.broker.data_dir / WAL_DIRECTORY).glob("*"))

    def _look_and_go_on(self, was_unclean: bool) -> str:
        answer = self.history.answered  # what is delivered now tells nothing of the time before
        of_logs, in_journal = scenario.logs_now((self.broker.host, self.broker.port))
        count = sum(queue["stored"] for queue in stats(self.broker)["queues"].values())
        besides, others = scenario.declared_now((self.broker.host, self.broker.port))
        with Wire((self.broker.host, self.broker.port)) as wire:
            client = Client(wire, self.history, Random(f"{self.seed} after"), "after")
            client.begin(scenario.State(of_logs).number(scenario.POSITION))
            found: Queues = client.look(count, [*others, scenario.TAKEN, scenario.PLACED]) | besides | of_logs
            complaint = self.history.complaint(found, answer) or scenario.journal_mistake(in_journal, client.names)
            if complaint:
                return complaint
            if was_unclean and client.not_marked:
                return f"not marked redelivered after an unclean stop: {client.not_marked[:3]}"
            number = self.history.place_of(found, answer)
            assert number is not None
            self.history.go_on_from(number)
            client.do_all(DEEDS_AFTERWARDS)
        status = self.broker.stop()
        if status != 0 or "Traceback" in self.broker.log:
            return f"the next broker ended with {status}:\n{self.broker.log[-1500:]}"
        return self.history.mistakes[0] if self.history.mistakes else ""


def all_points(made: type[Case], directory: Path, seed: int) -> list[list[Point]]:
    """A list for each time of life and kind of call: a run without a kill is counted."""
    directory.mkdir()
    case, record = made(directory / "counted", seed), directory / "record"
    found: list[list[Point]] = []

    def note(when: str) -> None:
        counts = trace.counted(record)
        found.extend([Point(when, call, number + 1) for number in range(counts[call])] for call in sorted(counts))

    try:
        case.start(trace.only_count(record))
        case.broker.kill()
        note(FIRST_START)
        case.start()
        case.talk_under(trace.only_count(record))
        note(LOAD)
        again = made(directory / "again", seed)
        again.start()
        again.talk(DEEDS_BEFORE_A_SECOND_START, again.broker.kill)
        try:
            again.start(trace.only_count(record))
        finally:
            again.broker.kill()
        note(SECOND_START)
    finally:
        case.broker.kill()
    return found


def in_turn(lists: list[list[Point]], chance: Random) -> Iterator[Point]:
    """Every point once, the rare kinds as often as the frequent ones, as long as there are any."""
    lists = [chance.sample(points, len(points)) for points in lists]
    chance.shuffle(lists)
    while lists:
        for points in lists:
            yield points.pop()
        lists = [points for points in lists if points]


def crash(run: Run, made: type[Case] = Case) -> None:
    """Scenario after scenario; quick sees some points of one, nightly all of it."""
    number = not_reached = 0
    while not run.is_over:
        seed = run.chance.randrange(1 << 30)
        lists = all_points(made, run.directory / f"points-{number}", seed)
        run.figures["points"] = int(run.figures.get("points", 0)) + sum(map(len, lists))
        for point in in_turn(lists, run.chance):
            if run.is_over:
                break
            number += 1
            case = made(run.directory / f"case-{number}", seed)
            try:
                is_reached = case.go_to(point)
                not_reached += not is_reached
                complaint = case.complaint(is_reached)
            finally:
                case.broker.kill()
            run.case()
            if complaint:
                run.violation(f"{point} (scenario {seed}): {complaint}")
    run.figures["not reached"] = not_reached


CAMPAIGNS = (
    Campaign(
        number="T1",
        name="crash-points",
        title="kills a broker at every call by which it writes, syncs, names or answers",
        unit="crash points",
        run=crash,
        cases=(16, 1500, 6000),
        mutants=(
            "receipt-before-commit",
            "ack-not-committed",
            "exchange-send-in-two-batches",
            "binding-not-written",
            "fanout-in-two-batches",
            "transaction-sends-before-commit",
            "dead-letter-not-removed",
            "redelivery-count-not-written",
            "dedup-not-written",
            "commit-receipt-does-not-wait",
            "deliverable-before-commit",
            "binding-lost-with-a-restart",
            "told-in-the-next-batch",
            "app-not-written",
        ),
        mutant_cases=300,
        quick_mutants=4,
        needs=("strace_attach",),
        limit_s=(180, 3600, 4 * 3600),
    ),
)
