"""Each of Celery's pools runs tasks, answers to control, stops warm, and leaves nothing behind."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery, group

from radiator.client import Client
from tests.broker_process import BrokerProcess
from tests.integrations.celery.publisher import task
from tests.integrations.celery.worker_process import WorkerProcess

POOLS = ("solo", "threads", "gevent", "eventlet")  # prefork: test_tasks.py


@pytest.fixture(scope="module")
def workers(broker: BrokerProcess, book: Path) -> Iterator[dict[str, WorkerProcess]]:
    """All started at the same time, each with a queue of its own."""
    one_of_each = {
        pool: WorkerProcess(broker.port, book, pool=pool, name=pool, queues=pool, concurrency=4) for pool in POOLS
    }
    try:
        for worker in one_of_each.values():
            worker.spawn()
        for worker in one_of_each.values():
            worker.wait_until_ready()
        yield one_of_each
    finally:
        for worker in one_of_each.values():
            worker.kill()


@pytest.mark.parametrize("pool", POOLS)
def test_pool(app: Celery, workers: dict[str, WorkerProcess], book: Path, pool: str) -> None:
    worker, first = workers[pool], 100 * POOLS.index(pool)
    adds = group(task(app, "add", number, 1).set(queue=pool) for number in range(40))()
    jobs = group(task(app, "job", number, 0.01).set(queue=pool) for number in range(first, first + 20))()
    assert adds.get(timeout=20) == [number + 1 for number in range(40)], worker.log
    assert jobs.get(timeout=20) == list(range(first, first + 20)), worker.log
    later = task(app, "add", 1, 1).apply_async(queue=pool, countdown=0.3)
    assert app.control.ping([worker.name], timeout=2, limit=1) == [{worker.name: {"ok": "pong"}}]
    assert later.get(timeout=10) == 2
    done = [line.split()[1] for line in book.read_text().splitlines() if line.startswith("end")]
    assert all(done.count(str(number)) == 1 for number in range(first, first + 20))


def test_all_stop_warm_and_leave_nothing(broker: BrokerProcess, workers: dict[str, WorkerProcess]) -> None:
    for worker in workers.values():
        worker.signal(signal.SIGTERM)
    for pool, worker in workers.items():
        assert worker.wait() == 0, worker.log
        assert "Traceback" not in worker.log and "ERROR" not in worker.log, worker.log
        with Client(broker.address) as client:
            numbers = client.admin({"do": "describe", "queue": pool})
        assert (numbers["messages"], numbers["unacked"], numbers["consumers"]) == (0, 0, 0)
