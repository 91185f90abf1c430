"""Celery on Radiator beside Celery on RabbitMQ and on Redis: the same tasks, in turns, on the same disk.

    .venv/bin/python -m benchmarks.celery_tasks --rounds 3

    publish        one program publishes tasks, one after the other
    publish x 8    eight threads of one program do
    work           a worker (prefork, 2 processes) does a backlog of tasks, each acked when it begins
    work late      the same with acks_late
    calls          one program calls a task and awaits its result, one after the other (rpc://, or Redis's own)
    results        one program publishes a group of tasks and collects all their results

Each broker is a fresh process with fresh data; the figure is the median of the rounds, in tasks a second. What an
answer to a publish means differs, and is the first row to read: see docs/CELERY.md.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from celery import Celery, group

import radiator.kombu  # noqa: F401 - registers radiator://
from benchmarks.peers import CHECKOUT, RabbitMQ, Radiator, Redis
from benchmarks.processes import Running, running
from benchmarks.shapes import CASES

MEASURES = ("publish", "publish x 8", "work", "work late", "calls", "results")
THREADS = 8
TASK_S = 60.0  # for which everything of one measure is waited at most


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """peer: of benchmarks/peers.py. is_confirmed: a publish returns when the broker has answered it."""

    name: str
    peer: Any
    is_confirmed: bool
    meaning: str

    def broker(self, running: Running) -> str:
        if self.peer.name == "rabbitmq":
            return f"amqp://guest:guest@127.0.0.1:{running.launch.environment['RABBITMQ_AMQP_PORT']}//"
        return {"radiator": "radiator", "redis": "redis"}[self.peer.name] + f"://127.0.0.1:{running.port}"

    def backend(self, running: Running) -> str:
        return f"redis://127.0.0.1:{running.port}" if self.peer.name == "redis" else "rpc://"


class EverySecond(Redis):
    """As most people run it behind Celery: synced once a second."""

    def launch(self, case: Any) -> Any:
        launch = super().launch(case)
        (command,) = launch.commands
        return replace(launch, commands=[["everysec" if word == "always" else word for word in command]])


CONTESTANTS = (
    Contestant(name="radiator", peer=Radiator(), is_confirmed=True, meaning="on the disk, synced"),
    Contestant(name="radiator, unconfirmed", peer=Radiator(), is_confirmed=False, meaning="no answer awaited"),
    Contestant(name="rabbitmq, confirmed", peer=RabbitMQ(), is_confirmed=True, meaning="on the disk"),
    Contestant(name="rabbitmq", peer=RabbitMQ(), is_confirmed=False, meaning="no answer awaited (its default)"),
    Contestant(name="redis, synced", peer=Redis(), is_confirmed=True, meaning="in the append-only file, synced"),
    Contestant(name="redis", peer=EverySecond(), is_confirmed=True, meaning="in memory; on the disk within 1 s"),
)


def main() -> int:
    wanted = _arguments()
    figures: dict[str, dict[str, list[float]]] = {one.name: {} for one in wanted.contestants}
    for number in range(wanted.rounds):
        for one in wanted.contestants if number % 2 == 0 else reversed(wanted.contestants):
            for measure, rate in measured(one, wanted.measures, wanted.tasks).items():
                figures[one.name].setdefault(measure, []).append(rate)
            latest = ", ".join(f"{measure} {rates[-1]:.0f}" for measure, rates in figures[one.name].items())
            sys.stderr.write(f"round {number + 1}: {one.name}: {latest}\n")
    sys.stdout.write(table(wanted.contestants, figures) + "\n")
    if wanted.json:
        wanted.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


def measured(one: Contestant, measures: list[str], tasks: int) -> dict[str, float]:
    """Tasks a second."""
    persistent = CASES[0]
    with tempfile.TemporaryDirectory(prefix="bench-celery-", dir=CHECKOUT / "build") as place:
        directory = Path(place)
        with running(one.peer.launch(persistent), directory / "broker") as broker:
            if one.peer.name == "rabbitmq":
                _wait_for_amqp(one.broker(broker))
            surroundings = {
                "BENCH_BROKER": one.broker(broker),
                "BENCH_BACKEND": one.backend(broker),
                "BENCH_CONFIRMS": "yes" if one.is_confirmed else "no",
                "BENCH_DONE": str(directory / "done"),
            }
            with program(surroundings) as app:
                bench = Bench(app, surroundings, directory, tasks)
                return {measure: bench.measure(measure) for measure in MEASURES if measure in measures}


@contextmanager
def program(surroundings: dict[str, str]) -> Iterator[Celery]:
    app = Celery("bench", broker=surroundings["BENCH_BROKER"], backend=surroundings["BENCH_BACKEND"])
    app.conf.broker_transport_options = {"confirm_publish": surroundings["BENCH_CONFIRMS"] == "yes"}
    try:
        yield app
    finally:
        app.close()


class Bench:
    """One broker, with all that is measured on it."""

    def __init__(self, app: Celery, surroundings: dict[str, str], directory: Path, tasks: int) -> None:
        self.app = app
        self.surroundings = surroundings
        self.directory = directory
        self.tasks = tasks

    def measure(self, name: str) -> float:
        how: dict[str, Callable[[], float]] = {
            "publish": lambda: self.publish(1),
            "publish x 8": lambda: self.publish(THREADS),
            "work": lambda: self.work("count"),
            "work late": lambda: self.work("count_late"),
            "calls": self.calls,
            "results": self.results,
        }
        return how[name]()

    def task(self, name: str, *arguments: Any) -> Any:
        return self.app.signature(f"benchmarks.celery_project.{name}", args=arguments)

    def send(self, name: str, count: int) -> None:
        task = self.task(name)
        for _ in range(count):
            task.apply_async(ignore_result=True)

    def publish(self, threads: int) -> float:
        self.send("count", 20)
        each = self.tasks // threads
        crowd = [threading.Thread(target=self.send, args=("count", each)) for _ in range(threads)]
        began_s = time.perf_counter()
        for one in crowd:
            one.start()
        for one in crowd:
            one.join()
        took_s = time.perf_counter() - began_s
        self.app.control.purge()
        return each * threads / took_s

    def work(self, name: str) -> float:
        """From the first task that is done to the last, so without the worker's start."""
        done = self.directory / "done"
        done.write_bytes(b"")
        self.send(name, self.tasks)
        with self.worker():
            _until(lambda: done.stat().st_size > self.tasks // 10)
            first, began_s = done.stat().st_size, time.perf_counter()
            _until(lambda: done.stat().st_size >= self.tasks)
            return (self.tasks - first) / (time.perf_counter() - began_s)

    def calls(self) -> float:
        with self.worker():
            count = max(20, self.tasks // 4)
            self.task("add", 1, 1).delay().get(timeout=TASK_S)
            began_s = time.perf_counter()
            for number in range(count):
                assert self.task("add", number, 1).delay().get(timeout=TASK_S) == number + 1
            return count / (time.perf_counter() - began_s)

    def results(self) -> float:
        with self.worker():
            self.task("add", 1, 1).delay().get(timeout=TASK_S)
            began_s = time.perf_counter()
            got = group(self.task("add", number, 1) for number in range(self.tasks))().get(timeout=TASK_S)
            assert got[-1] == self.tasks
            return self.tasks / (time.perf_counter() - began_s)

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


def table(contestants: list[Contestant], figures: dict[str, dict[str, list[float]]]) -> str:
    """Markdown: medians."""
    measures = [measure for measure in MEASURES if any(measure in found for found in figures.values())]
    lines = ["| tasks a second | " + " | ".join(measures) + " | a publish that has returned is |"]
    lines.append("|---|" + "---:|" * len(measures) + "---|")
    for one in contestants:
        cells = [f"{statistics.median(figures[one.name][measure]):,.0f}" for measure in measures]
        lines.append(f"| {one.name} | " + " | ".join(cells) + f" | {one.meaning} |")
    return "\n".join(lines)


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


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=2000, help="of each measure (2000); of calls a quarter")
    parser.add_argument("--measures", nargs="+", choices=MEASURES, default=list(MEASURES))
    parser.add_argument("--brokers", nargs="+", choices=[one.name for one in CONTESTANTS])
    parser.add_argument("--json", type=Path)
    wanted = parser.parse_args()
    asked = [one for one in CONTESTANTS if wanted.brokers is None or one.name in wanted.brokers]
    missing = {one.peer.name: reason for one in asked if (reason := one.peer.missing())}
    if importlib.util.find_spec("redis") is None:
        missing["redis"] = "its client is not installed (pip install redis)"
    for name, reason in missing.items():
        sys.stderr.write(f"{name} is left out: {reason}; `scripts/bench --install-peers` installs what it can\n")
    wanted.contestants = [one for one in asked if one.peer.name not in missing]
    (CHECKOUT / "build").mkdir(exist_ok=True)
    return wanted


if __name__ == "__main__":
    sys.exit(main())
