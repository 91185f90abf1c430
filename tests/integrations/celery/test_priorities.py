"""Priorities and dead letters of tasks, with the settings that Celery has for RabbitMQ, as docs/CELERY.md has
them; real workers do the tasks.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from kombu import Queue

from tests.broker_process import BrokerProcess
from tests.integrations.celery.crew import until
from tests.integrations.celery.publisher import publisher, task
from tests.integrations.celery.worker_process import WorkerProcess

RESULT_S = 10
HIGHEST, USUAL = 9, 4
PRIORITIES = f"task_queue_max_priority={HIGHEST}"


@pytest.fixture(scope="module")
def app(broker: BrokerProcess) -> Iterator[Celery]:
    with publisher(broker.port) as one:
        one.conf.task_queue_max_priority = HIGHEST
        one.conf.task_default_priority = USUAL
        yield one


def worker(broker: BrokerProcess, book: Path, queue: str, *settings: str) -> WorkerProcess:
    """It does one task at a time, and has no other one in its hand."""
    options = ("--prefetch-multiplier", "1", *(("--", *settings) if settings else ()))
    return WorkerProcess(broker.port, book, pool="solo", concurrency=1, queues=queue, options=options)


def with_default(app: Celery, name: str) -> Any:
    """A task that its program knows: Celery has task_default_priority for these, and not for send_task."""

    def known(*_: Any) -> None:
        """What a worker does stands elsewhere."""

    return app.task(known, name=f"tests.integrations.celery.project.{name}", shared=False)


def begun(book: Path) -> list[int]:
    return [int(line.split()[1]) for line in book.read_text().splitlines() if line.startswith("start")]


def test_the_most_urgent_task_is_done_first(app: Celery, broker: BrokerProcess, book: Path) -> None:
    given: list[dict[str, Any]] = [{"priority": 0}, {}, {"priority": 9}, {"priority": 5}, {}, {"priority": 9}]
    job = with_default(app, "job")
    for number, options in enumerate(given):
        job.apply_async((number,), queue="urgent-first", ignore_result=True, **options)
    with app.connection_for_read() as connection:
        assert connection.default_channel.queue_declare("urgent-first", passive=True).message_count == len(given)
    with worker(broker, book, "urgent-first", PRIORITIES):
        assert until(lambda: book.exists() and len(begun(book)) == len(given), 20)
    assert begun(book) == [2, 5, 3, 1, 4, 0]


def test_a_task_knows_its_priority_and_passes_it_on(app: Celery, broker: BrokerProcess, book: Path) -> None:
    with worker(broker, book, "knowing", PRIORITIES):
        asked = {"queue": "knowing"}
        described = with_default(app, "described")
        for given, priority in (({"priority": 7}, 7), ({}, USUAL), ({"priority": 0}, 0)):
            result = described.apply_async(**asked, **given).get(timeout=RESULT_S)
            assert result["delivery"]["priority"] == priority
        assert task(app, "priority_of_retry").apply_async(**asked, priority=6).get(timeout=RESULT_S) == 6


def test_a_task_that_is_rejected_comes_back_from_a_queue_for_retries(broker: BrokerProcess, book: Path) -> None:
    to_retry = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "retry"}
    to_work = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work", "x-message-ttl": 100}
    with publisher(broker.port) as app:
        app.conf.task_queues = [Queue("work", queue_arguments=to_retry), Queue("retry", queue_arguments=to_work)]
        with app.connection_for_write() as connection:
            for queue in app.conf.task_queues:
                queue(connection.default_channel).declare()
        with worker(broker, book, "work"):
            task(app, "deaths", 2).apply_async(queue="work", ignore_result=True)
            assert until(
                lambda: book.exists() and "died retry:expired:2,work:rejected:2 " in book.read_text(), RESULT_S
            )
