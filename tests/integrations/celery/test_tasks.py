"""What tasks can do, on a real worker with the pool that most people use; results come back over rpc://."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, chain, chord, group
from celery.exceptions import TaskRevokedError

from radiator.client import Client
from tests.broker_process import BrokerProcess
from tests.integrations.celery.publisher import publisher, task
from tests.integrations.celery.worker_process import WorkerProcess

RESULT_S = 10
WRONG = "this went wrong"


@pytest.fixture(scope="module", autouse=True)
def worker(broker: BrokerProcess, book: Path) -> Iterator[WorkerProcess]:
    with WorkerProcess(broker.port, book, queues="celery,urgent", concurrency=2) as running:
        yield running
        assert running.stop() == 0, running.log
        # of the task that shall fail, where its test was run
        assert running.log.count("Traceback") == running.log.count(f"ValueError: {WRONG}\n"), running.log


def described(broker: BrokerProcess, queue: str) -> dict[str, Any]:
    with Client(broker.address) as client:
        return client.admin({"do": "describe", "queue": queue})


def test_a_result_comes_back(app: Celery) -> None:
    assert task(app, "add", 2, 3).delay().get(timeout=RESULT_S) == 5


def test_so_does_a_failure(app: Celery, worker: WorkerProcess) -> None:
    with pytest.raises(ValueError, match=WRONG):
        task(app, "fail", WRONG).delay().get(timeout=RESULT_S)
    worker.wait_for_log(f"ValueError: {WRONG}\n")


def test_groups_and_chains(app: Celery) -> None:
    assert group(task(app, "add", number, number) for number in range(50))().get(timeout=RESULT_S) == [
        2 * number for number in range(50)
    ]
    assert chain(task(app, "add", 1, 2), task(app, "add", 10), task(app, "add", 100))().get(timeout=RESULT_S) == 113


def test_a_task_is_retried_with_a_countdown(app: Celery) -> None:
    assert task(app, "fail_twice").delay().get(timeout=RESULT_S) == 2


@pytest.mark.alone("it is held to a fifth of a second")
def test_a_countdown_is_held_by_the_broker(app: Celery, broker: BrokerProcess, worker: WorkerProcess) -> None:
    begun_s = time.time()
    result = task(app, "now").apply_async(countdown=1.5)
    time.sleep(0.5)
    assert described(broker, "celery")["delayed"] == 1
    assert app.control.inspect([worker.name], timeout=0.7).scheduled() == {worker.name: []}
    assert 1.5 <= result.get(timeout=RESULT_S) - begun_s < 2.2


def test_an_eta_that_is_past_means_now(app: Celery) -> None:
    eta = datetime.fromtimestamp(time.time() - 60, UTC)
    assert time.time() - task(app, "now").apply_async(eta=eta).get(timeout=RESULT_S) < 5


def test_a_task_that_has_expired_is_not_run(app: Celery) -> None:
    result = task(app, "now").apply_async(countdown=0.3, expires=0.1)
    with pytest.raises(TaskRevokedError):
        result.get(timeout=RESULT_S)


def test_a_rate_limit_is_kept(app: Celery) -> None:
    results = [task(app, "limited").delay() for _ in range(6)]
    times = sorted(result.get(timeout=RESULT_S) for result in results)
    assert times[5] - times[0] > 0.8  # five a second


def test_several_queues(app: Celery) -> None:
    for queue in ("celery", "urgent"):
        got = task(app, "described").apply_async(queue=queue).get(timeout=RESULT_S)
        assert got["delivery"]["routing_key"] == queue


def test_the_state_can_be_asked_for_before_the_result(broker: BrokerProcess) -> None:
    """AsyncResult.state takes from the reply queue, and must leave it where it is."""
    with publisher(broker.port) as other:
        result = task(other, "job", 1, 0.5).delay()
        assert result.state == "PENDING"
        end_s = time.monotonic() + RESULT_S
        while not result.ready() and time.monotonic() < end_s:
            time.sleep(0.02)
        assert (result.state, result.get(timeout=RESULT_S)) == ("SUCCESS", 1)
        assert task(other, "add", 1, 1).delay().get(timeout=RESULT_S) == 2


def test_long_arguments_travel_in_an_envelope(app: Celery) -> None:
    text = "x" * 300_000
    stamp = "y" * 20_000
    got = task(app, "described", text).apply_async(argsrepr=stamp).get(timeout=RESULT_S)
    assert got["retries"] == 0 and got["delivery"]["priority"] == 0  # not None, as with RabbitMQ and Redis
    assert len(task(app, "add", text, text).delay().get(timeout=RESULT_S)) == 600_000


def test_a_task_is_acked_when_it_has_begun_and_an_acks_late_one_when_it_has_ended(
    app: Celery, broker: BrokerProcess
) -> None:
    late = task(app, "job", 2, 0.8).delay()
    end_s = time.monotonic() + 0.6
    while described(broker, "celery")["unacked"] != 1:
        assert time.monotonic() < end_s
    late.get(timeout=RESULT_S)
    while described(broker, "celery")["messages"]:
        assert time.monotonic() < end_s + 5


def test_a_chord_needs_another_result_backend_as_with_any_broker(
    app: Celery, broker: BrokerProcess, book: Path, tmp_path: Path
) -> None:
    with pytest.raises(NotImplementedError):
        chord([task(app, "add", 1, 1)])(task(app, "total"))
    backend = f"file://{tmp_path}"
    with (
        publisher(broker.port, backend) as other,
        WorkerProcess(broker.port, book, pool="solo", name="chords", queues="chords", backend=backend) as chords,
    ):
        other.conf.task_default_queue = "chords"
        header = [task(other, "add", number, number).set(queue="chords") for number in range(5)]
        result = chord(header)(task(other, "total").set(queue="chords"), interval=0.1, queue="chords")
        assert result.get(timeout=RESULT_S) == 20, chords.log


def test_any_stomp_client_can_publish_a_task(broker: BrokerProcess, app: Celery, book: Path) -> None:
    with Client(broker.address) as client:
        client.send(
            "/queue/celery",
            b"[[41], {}, {}]",
            [
                ("task", "tests.integrations.celery.project.tell"),
                ("id", "by-hand"),
                ("content-type", "application/json"),
            ],
        )
    end_s = time.monotonic() + RESULT_S
    while not book.exists() or "told 41" not in book.read_text():
        assert time.monotonic() < end_s
        time.sleep(0.02)
