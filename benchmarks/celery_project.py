"""The program of Celery that benchmarks/celery_tasks.py measures: tasks that do next to nothing."""

import os

from celery import Celery

import radiator.kombu  # noqa: F401 - registers radiator://

app = Celery("benchmark", broker=os.environ.get("BENCH_BROKER"), backend=os.environ.get("BENCH_BACKEND"))
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={"confirm_publish": os.environ.get("BENCH_CONFIRMS") == "yes"},
    worker_prefetch_multiplier=4,
    worker_send_task_events=False,
)
_done: list[int] = []


@app.task(ignore_result=True)
def count() -> None:
    """One byte for each task that is done."""
    if not _done:
        _done.append(os.open(os.environ["BENCH_DONE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
    os.write(_done[0], b".")


@app.task(ignore_result=True, acks_late=True)
def count_late() -> None:
    count()


@app.task
def add(x: int, y: int) -> int:
    return x + y
