"""Celery on Radiator beside Celery on RabbitMQ and on Redis: the same tasks, in turns, on the same disk.

    .venv/bin/python -m benchmarks.celery_tasks --rounds 3

    publish        one program publishes tasks, one after the other
    publish x 8    eight threads of one program do
    work           a worker (prefork, 2 processes) does a backlog of tasks, each acked when it begins
    work late      the same with acks_late
    calls          one program calls a task and awaits its result, one after the other (rpc://, or Redis's own)
    results        one program publishes a group of tasks and collects all their results

Each broker is a fresh process with fresh data; the figures are medians of the rounds: the CPU time of the broker's
processes for each task, tasks a second, and both beside RabbitMQ's of the same meaning. What an answer to a publish
means differs, and is the first thing to read: see docs/CELERY.md. Radiator takes part with its own transport
(radiator://) and over AMQP, with the transport of kombu that RabbitMQ has.
"""

import argparse
import importlib.util
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from celery import Celery, group

import radiator.kombu  # noqa: F401 - registers radiator://
from benchmarks.peers import CHECKOUT, RabbitMQAmqp, Radiator, RadiatorAmqp, Redis
from benchmarks.processes import Running, running
from benchmarks.rounds import ratio
from benchmarks.shapes import CASES

MEASURES = ("publish", "publish x 8", "work", "work late", "calls", "results")
PLACE = CHECKOUT / "build"  # where the brokers keep their data
THREADS = 8
TASK_S = 60.0  # for which everything of one measure is waited at most


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """peer: of benchmarks/peers.py. is_confirmed: a publish returns when the broker has answered it. beside: who means
    the same by that, and is compared."""

    name: str
    peer: Any
    is_confirmed: bool
    meaning: str
    beside: str = ""

    @property
    def is_amqp(self) -> bool:
        return self.peer.name in (RadiatorAmqp.name, RabbitMQAmqp.name)

    def broker(self, running: Running) -> str:
        if self.is_amqp:
            return f"amqp://guest:guest@127.0.0.1:{running.port}//"
        return f"{self.peer.name}://127.0.0.1:{running.port}"

    def backend(self, running: Running) -> str:
        return f"redis://127.0.0.1:{running.port}" if self.peer.name == "redis" else "rpc://"


class EverySecond(Redis):
    """As most people run it behind Celery: synced once a second."""

    def launch(self, case: Any) -> Any:
        launch = super().launch(case)
        (command,) = launch.commands
        return replace(launch, commands=[["everysec" if word == "always" else word for word in command]])


SYNCED, UNANSWERED = "rabbitmq, confirmed", "rabbitmq"
CONTESTANTS = (
    Contestant(name="radiator", peer=Radiator(), is_confirmed=True, meaning="on the disk, synced", beside=SYNCED),
    Contestant(name="radiator, amqp", peer=RadiatorAmqp(), is_confirmed=True, meaning="on the disk, synced",
               beside=SYNCED),
    Contestant(name="radiator, unconfirmed", peer=Radiator(), is_confirmed=False, meaning="no answer awaited",
               beside=UNANSWERED),
    Contestant(name="radiator, amqp, unconfirmed", peer=RadiatorAmqp(), is_confirmed=False,
               meaning="no answer awaited", beside=UNANSWERED),
    Contestant(name=SYNCED, peer=RabbitMQAmqp(), is_confirmed=True, meaning="on the disk"),
    Contestant(name=UNANSWERED, peer=RabbitMQAmqp(), is_confirmed=False, meaning="no answer awaited (its default)"),
    Contestant(name="redis, synced", peer=Redis(), is_confirmed=True, meaning="in the append-only file, synced"),
    Contestant(name="redis", peer=EverySecond(), is_confirmed=True, meaning="in memory; on the disk within 1 s"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Timed:
    """Of one measure: tasks a second, and the CPU of the broker's processes for each."""

    per_s: float
    cpu_us: float


Found = dict[str, dict[str, list[Timed]]]
"""Round by round, by contestant and measure."""


def main() -> int:
    wanted = _arguments()
    figures: Found = {one.name: {} for one in wanted.contestants}
    for number in range(wanted.rounds):
        for one in wanted.contestants if number % 2 == 0 else reversed(wanted.contestants):
            for measure, timed in measured(one, wanted.measures, wanted.tasks).items():
                figures[one.name].setdefault(measure, []).append(timed)
            latest = ", ".join(
                f"{measure} {timed[-1].per_s:.0f}/s {timed[-1].cpu_us:.0f} us"
                for measure, timed in figures[one.name].items()
            )
            sys.stderr.write(f"round {number + 1}: {one.name}: {latest}\n")
    tables = table(wanted.contestants, figures), cpu_table(wanted.contestants, figures)
    sys.stdout.write("\n\n".join([*tables, beside_table(wanted.contestants, figures)]) + "\n")
    sys.stdout.write(f"\nLoad average {os.getloadavg()[2]:.1f}.\n")
    if wanted.json:
        wanted.json.write_text(json.dumps(figures, indent=1, default=asdict) + "\n")
    return 0


def measured(one: Contestant, measures: list[str], tasks: int) -> dict[str, Timed]:
    """One round of it, on a fresh broker."""
    persistent = CASES[0]
    with tempfile.TemporaryDirectory(prefix="bench-celery-", dir=PLACE) as place:
        directory = Path(place)
        with running(one.peer.launch(persistent), directory / "broker") as broker:
            if one.is_amqp:
                _wait_for_amqp(one.broker(broker))
            surroundings = {
                "BENCH_BROKER": one.broker(broker),
                "BENCH_BACKEND": one.backend(broker),
                "BENCH_CONFIRMS": "yes" if one.is_confirmed else "no",
                "BENCH_DONE": str(directory / "done"),
            }
            with program(surroundings) as app:
                bench = Bench(app, surroundings, directory, tasks, broker.cpu_s)
                return {measure: bench.measure(measure) for measure in MEASURES if measure in measures}


@contextmanager
def program(surroundings: dict[str, str]) -> Iterator[Celery]:
    app = Celery("bench", broker=surroundings["BENCH_BROKER"], backend=surroundings["BENCH_BACKEND"])
    app.conf.broker_transport_options = {"confirm_publish": surroundings["BENCH_CONFIRMS"] == "yes"}
    try:
        yield app
    finally:
        app.close()


class Stretch:
    """What is measured begins where it is made. broker_cpu_s: what the broker has used so far."""

    def __init__(self, broker_cpu_s: Callable[[], float]) -> None:
        self._broker_cpu_s = broker_cpu_s
        self._cpu_s, self._began_s = broker_cpu_s(), time.perf_counter()

    def ended(self, tasks: int) -> Timed:
        """In which so many tasks were done."""
        took_s = time.perf_counter() - self._began_s
        return Timed(tasks / took_s, (self._broker_cpu_s() - self._cpu_s) / tasks * 1e6)


class Bench:
    """One broker, with all that is measured on it."""

    def __init__(
        self, app: Celery, surroundings: dict[str, str], directory: Path, tasks: int, broker_cpu_s: Callable[[], float]
    ) -> None:
        self.app = app
        self.surroundings = surroundings
        self.directory = directory
        self.tasks = tasks
        self._broker_cpu_s = broker_cpu_s

    def measure(self, name: str) -> Timed:
        how: dict[str, Callable[[], Timed]] = {
            "publish": lambda: self.publish(1),
            "publish x 8": lambda: self.publish(THREADS),
            "work": lambda: self.work("count"),
            "work late": lambda: self.work("count_late"),
            "calls": self.calls,
            "results": self.results,
        }
        return how[name]()

    def stretch(self) -> Stretch:
        return Stretch(self._broker_cpu_s)

    def task(self, name: str, *arguments: Any) -> Any:
        return self.app.signature(f"benchmarks.celery_project.{name}", args=arguments)

    def send(self, name: str, count: int) -> None:
        task = self.task(name)
        for _ in range(count):
            task.apply_async(ignore_result=True)

    def publish(self, threads: int) -> Timed:
        self.send("count", 20)
        each = self.tasks // threads
        crowd = [threading.Thread(target=self.send, args=("count", each)) for _ in range(threads)]
        stretch = self.stretch()
        for one in crowd:
            one.start()
        for one in crowd:
            one.join()
        timed = stretch.ended(each * threads)
        self.app.control.purge()
        return timed

    def work(self, name: str) -> Timed:
        """From the first task that is done to the last, so without the worker's start."""
        done = self.directory / "done"
        done.write_bytes(b"")
        self.send(name, self.tasks)
        with self.worker():
            _until(lambda: done.stat().st_size > self.tasks // 10)
            first, stretch = done.stat().st_size, self.stretch()
            _until(lambda: done.stat().st_size >= self.tasks)
            return stretch.ended(self.tasks - first)

    def calls(self) -> Timed:
        with self.worker():
            count = max(20, self.tasks // 4)
            self.task("add", 1, 1).delay().get(timeout=TASK_S)
            stretch = self.stretch()
            for number in range(count):
                assert self.task("add", number, 1).delay().get(timeout=TASK_S) == number + 1
            return stretch.ended(count)

    def results(self) -> Timed:
        with self.worker():
            self.task("add", 1, 1).delay().get(timeout=TASK_S)
            stretch = self.stretch()
            got = group(self.task("add", number, 1) for number in range(self.tasks))().get(timeout=TASK_S)
            assert got[-1] == self.tasks
            return stretch.ended(self.tasks)

    @contextmanager
    def worker(self) -> Iterator[None]:
        command = [
            sys.executable,
            "-m",
            "celery",
            "-A",
            "benchmarks.celery_project",
            "worker",
            "-c",
            "2",
            "-l",
            "WARNING",
        ]
        command += ["--without-gossip", "--without-mingle"]
        log = self.directory / "worker.log"
        with log.open("wb") as printed:
            process = subprocess.Popen(
                command, cwd=CHECKOUT, env={**os.environ, **self.surroundings}, stdin=subprocess.DEVNULL,
                stdout=printed, stderr=printed, start_new_session=True,
            )  # fmt: skip
            try:
                yield
                process.send_signal(signal.SIGTERM)
                process.wait(20)
            except BaseException:
                sys.stderr.write(log.read_text()[-3000:])
                raise
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()


def table(contestants: Sequence[Contestant], figures: Found) -> str:
    """Markdown: medians of the rates."""

    def rate(one: Contestant, measure: str) -> str:
        return f"{statistics.median(timed.per_s for timed in figures[one.name][measure]):,.0f}"

    return _table(
        "tasks a second", contestants, figures, rate, "a publish that has returned is", lambda one: one.meaning
    )


def cpu_table(contestants: Sequence[Contestant], figures: Found) -> str:
    def cpu(one: Contestant, measure: str) -> str:
        return f"{statistics.median(timed.cpu_us for timed in figures[one.name][measure]):,.0f}"

    return _table("CPU of the broker, us a task", contestants, figures, cpu)


def beside_table(contestants: Sequence[Contestant], figures: Found) -> str:
    """How many times as cheap, and as fast, as RabbitMQ: medians of the ratios of the rounds."""

    def ratios(one: Contestant, measure: str) -> str:
        ours, others = figures[one.name][measure], figures[one.beside][measure]
        by_cpu = ratio([timed.cpu_us for timed in others], [timed.cpu_us for timed in ours])
        return f"{by_cpu:.2f} · {ratio([timed.per_s for timed in ours], [timed.per_s for timed in others]):.2f}"

    those = [one for one in contestants if one.beside in figures]
    return _table("CPU · rate beside RabbitMQ", those, figures, ratios, "beside", lambda one: one.beside)


def _table(
    title: str,
    contestants: Sequence[Contestant],
    figures: Found,
    cell: Callable[[Contestant, str], str],
    last: str = "",
    last_cell: Callable[[Contestant], str] | None = None,
) -> str:
    measures = [measure for measure in MEASURES if any(measure in found for found in figures.values())]
    heads = [title, *measures] + ([last] if last_cell else [])
    lines = [heads, ["---", *("--:" for _ in measures)] + (["---"] if last_cell else [])]
    for one in contestants:
        cells = [cell(one, measure) for measure in measures]
        lines.append([one.name, *cells] + ([last_cell(one)] if last_cell else []))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _until(is_done: Callable[[], bool]) -> None:
    end_s = time.monotonic() + TASK_S
    while not is_done():
        assert time.monotonic() < end_s, "it took too long"
        time.sleep(0.005)


def _wait_for_amqp(url: str) -> None:
    """Its ports do not open at the same moment."""
    import kombu

    with kombu.Connection(url) as connection:
        connection.ensure_connection(max_retries=100, interval_start=0.1, interval_step=0)


def _arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=2000, help="of each measure (2000); of calls a quarter")
    parser.add_argument("--measures", nargs="+", choices=MEASURES, default=list(MEASURES))
    parser.add_argument("--brokers", nargs="+", choices=[one.name for one in CONTESTANTS])
    parser.add_argument("--json", type=Path)
    wanted = parser.parse_args(words)
    asked = [one for one in CONTESTANTS if wanted.brokers is None or one.name in wanted.brokers]
    missing = {one.peer.name: reason for one in asked if (reason := one.peer.missing())}
    if importlib.util.find_spec("redis") is None:
        missing["redis"] = "its client is not installed (pip install redis)"
    for name, reason in missing.items():
        sys.stderr.write(f"{name} is left out: {reason}; `scripts/bench --install-peers` installs what it can\n")
    wanted.contestants = [one for one in asked if one.peer.name not in missing]
    PLACE.mkdir(exist_ok=True)
    return wanted


if __name__ == "__main__":
    sys.exit(main())
