"""Each of Celery's pools runs tasks, answers to control, stops warm, and leaves nothing behind."""

from pathlib import Path

import pytest
from celery import Celery, group

from radiator.client import Client
from tests.broker_process import BrokerProcess
from tests.celery.publisher import task
from tests.celery.worker_process import WorkerProcess


@pytest.mark.parametrize("pool", ["solo", "threads", "gevent", "eventlet"])  # prefork: test_tasks.py
def test_pool(broker: BrokerProcess, app: Celery, tmp_path: Path, pool: str) -> None:
    book = tmp_path / "book"
    with WorkerProcess(broker.port, book, pool=pool, name=pool, queues=pool, concurrency=4) as worker:
        adds = group(task(app, "add", number, 1).set(queue=pool) for number in range(40))()
        jobs = group(task(app, "job", number, 0.01).set(queue=pool) for number in range(20))()
        assert adds.get(timeout=20) == [number + 1 for number in range(40)], worker.log
        assert jobs.get(timeout=20) == list(range(20)), worker.log
        later = task(app, "add", 1, 1).apply_async(queue=pool, countdown=0.3)
        assert app.control.ping([worker.name], timeout=2, limit=1) == [{worker.name: {"ok": "pong"}}]
        assert later.get(timeout=10) == 2
        assert worker.stop() == 0, worker.log
        assert "Traceback" not in worker.log and "ERROR" not in worker.log, worker.log
    assert sorted(line.split()[1] for line in book.read_text().splitlines() if line.startswith("end")) == sorted(
        map(str, range(20))
    )
    with Client(broker.address) as client:
        numbers = client.admin({"do": "describe", "queue": pool})
    assert (numbers["messages"], numbers["unacked"], numbers["consumers"]) == (0, 0, 0)
