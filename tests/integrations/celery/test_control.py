"""Remote control, events and broadcasts: what goes to all workers."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import TaskRevokedError

from radiator.client import Client
from radiator.model.errors import Refusal
from tests.broker_process import CHECKOUT, BrokerProcess, environment
from tests.integrations.celery.publisher import task
from tests.integrations.celery.worker_process import WorkerProcess, surroundings

Workers = tuple[WorkerProcess, WorkerProcess]


@pytest.fixture(scope="module")
def workers(broker: BrokerProcess, book: Path) -> Iterator[Workers]:
    """Two, of which the second has to be told to stop by its publisher."""
    one = WorkerProcess(broker.port, book, pool="threads", name="one", queues="celery,everybody", options=("-E",))
    two = WorkerProcess(broker.port, book, pool="gevent", name="two", queues="celery,everybody", options=("-E",))
    one.spawn()
    two.spawn()
    try:
        one.wait_until_ready()
        two.wait_until_ready()
        for worker in (one, two):
            # with gevent a greenlet of its own opens it, which may be after the worker has said that it is ready
            eventually(lambda name=worker.name: describe(broker, f"{name}.celery.pidbox").get("consumers") == 1)
        yield one, two
    finally:
        one.kill()
        two.kill()


def eventually(what: Callable[[], Any], timeout_s: float = 10.0) -> Any:
    end_s = time.monotonic() + timeout_s
    while not (got := what()):
        assert time.monotonic() < end_s, "it has not come in time"
        time.sleep(0.02)
    return got


def test_inspect(app: Celery, workers: Workers) -> None:
    names = {worker.name for worker in workers}
    inspect = app.control.inspect(sorted(names), timeout=5)
    assert set(inspect.ping()) == names
    assert set(inspect.active()) == names
    assert set(inspect.reserved()) == names
    assert "tests.integrations.celery.project.add" in inspect.registered()[workers[0].name]
    assert {queue["name"] for queue in inspect.active_queues()[workers[0].name]} >= {"celery"}
    stats = inspect.stats()
    assert stats[workers[0].name]["prefetch_count"] == 2
    assert stats[workers[0].name]["broker"]["transport"] == "radiator"


def test_commands_of_one_worker_and_of_all(app: Celery, workers: Workers, broker: BrokerProcess) -> None:
    one, two = workers
    assert app.control.rate_limit(
        "tests.integrations.celery.project.tell", "100/m", [one.name], reply=True, timeout=5, limit=1
    ) == [{one.name: {"ok": "new rate limit set successfully"}}]
    assert app.control.add_consumer("extra", destination=[one.name], reply=True, timeout=5)
    eventually(lambda: describe(broker, "extra").get("consumers") == 1)
    assert task(app, "described").apply_async(queue="extra").get(timeout=10)["delivery"]["routing_key"] == "extra"
    assert app.control.cancel_consumer("extra", destination=[one.name], reply=True, timeout=5)
    eventually(lambda: describe(broker, "extra")["consumers"] == 0)


def describe(broker: BrokerProcess, queue: str) -> dict[str, Any]:
    with Client(broker.address) as client:
        try:
            return client.admin({"do": "describe", "queue": queue})
        except Refusal:
            return {}


def test_a_revoked_task_is_not_run(app: Celery, workers: Workers, book: Path) -> None:
    result = task(app, "tell", 77).apply_async(countdown=1)
    app.control.revoke(result.id, reply=True, timeout=5, limit=2)
    with pytest.raises(TaskRevokedError):
        result.get(timeout=10)
    assert not book.exists() or "told 77" not in book.read_text()


def test_events_are_heard(app: Celery, workers: Workers) -> None:
    heard: list[dict[str, Any]] = []
    stop = threading.Event()
    is_listening = threading.Event()

    def listen() -> None:
        with app.connection_for_read() as connection:
            receiver = app.events.Receiver(connection, handlers={"*": heard.append})
            with receiver.consumer_context(wakeup=False) as (own, _, _):
                is_listening.set()
                while not stop.is_set():
                    with suppress(TimeoutError):
                        own.drain_events(timeout=0.1)

    def kinds() -> set[str]:
        return {event["type"] for event in heard}

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        assert is_listening.wait(5)
        assert task(app, "add", 1, 2).delay().get(timeout=10) == 3
        wanted = {"task-received", "task-started", "task-succeeded", "worker-heartbeat"}
        eventually(lambda: kinds() >= wanted)
    finally:
        stop.set()
        listener.join()


def test_a_broadcast_is_run_by_every_worker(app: Celery, workers: Workers, book: Path) -> None:
    task(app, "tell", 5).apply_async(exchange="everybody", routing_key="all")
    eventually(lambda: book.exists() and book.read_text().count("told 5 ") == 2)


def test_what_is_no_task_is_dropped_and_the_workers_go_on(app: Celery, broker: BrokerProcess, workers: Workers) -> None:
    with Client(broker.address) as client:
        for headers in ([("kombu", "no json")], [("kombu-length", "9")], [("task", "no.such"), ("id", "1")], []):
            client.send("/queue/celery", b"garbage", headers)
    eventually(lambda: describe(broker, "celery")["messages"] == 0)
    assert task(app, "add", 1, 2).delay().get(timeout=10) == 3


@pytest.mark.parametrize("command", [["inspect", "ping"], ["status"], ["inspect", "stats"]])
def test_the_command_line_of_celery(broker: BrokerProcess, workers: Workers, book: Path, command: list[str]) -> None:
    commands = celery(broker, book, command)
    assert "2 nodes online" in commands, commands


def test_without_an_application_the_transport_stands_for_settings(broker: BrokerProcess, workers: Workers) -> None:
    """As docs/CELERY.md has it."""
    ended = subprocess.run(
        [sys.executable, "-m", "celery", "--config", "radiator.kombu", "-b", f"radiator://127.0.0.1:{broker.port}",
         "inspect", "ping"],
        cwd=CHECKOUT, env=environment(), capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert ended.returncode == 0 and "2 nodes online" in ended.stdout, ended.stdout + ended.stderr


def celery(broker: BrokerProcess, book: Path, command: list[str]) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "tests.integrations.celery.project", *command],
        cwd=CHECKOUT, env=surroundings(broker.port, book), capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_purge(app: Celery, broker: BrokerProcess, book: Path, workers: Workers) -> None:
    with app.connection_for_write() as connection:
        for _ in range(3):
            task(app, "tell", 9).apply_async(queue="purged", connection=connection)
    assert "Purged 3 messages" in celery(broker, book, ["purge", "-f", "-Q", "purged"])


def test_a_worker_is_told_to_stop(app: Celery, workers: Workers) -> None:
    for worker in workers:
        app.control.shutdown([worker.name])
        assert worker.wait() == 0, worker.log
