"""A program of Celery as anybody would write it, for real workers.

`celery -A tests.integrations.celery.project worker` runs one.

Its surroundings say where the broker is, what keeps results, and where executions are written down.
"""

import faulthandler
import os
import signal
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from celery import Celery
from celery.exceptions import Reject
from celery.signals import worker_ready
from celery.worker.request import Request
from kombu import Queue
from kombu.common import Broadcast

import radiator.kombu  # noqa: F401 - registers radiator://
from tests.integrations.celery.books import ID
from tests.integrations.celery.worker_process import IN_ITS_LOOP

faulthandler.register(signal.SIGUSR2)  # where a worker is that does not end

app = Celery(
    "project",
    broker=os.environ.get("PROJECT_BROKER", "radiator://127.0.0.1:1"),
    backend=os.environ.get("PROJECT_BACKEND", "rpc://"),
)
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={"interval_start": 0, "interval_step": 0.1, "interval_max": 0.5, "max_retries": 40},
    task_publish_retry_policy={"interval_start": 0, "interval_step": 0.1, "interval_max": 0.5, "max_retries": 100},
    task_queues=[Queue("celery"), Queue("urgent"), Broadcast("everybody", queue="")],
    task_default_queue="celery",
    worker_prefetch_multiplier=1,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    worker_send_task_events=False,
    event_queue_ttl=30,
)


@worker_ready.connect
def tell_when_it_works(sender: Any, **_: Any) -> None:
    """ "ready" is said before its loop begins, which ends the worker if a child of it has died by then."""
    if sender.hub is not None:
        sender.hub.call_soon(print, IN_ITS_LOOP)


def write_down(word: str, number: object) -> None:
    """One line, at once, whoever else writes: what was written before a kill stays."""
    line = f"{word} {number} {os.environ.get('PROJECT_WORKER', 'nobody')}\n".encode()
    out = os.open(os.environ["PROJECT_BOOK"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(out, line)
    finally:
        os.close(out)


@app.task
def add(x: int, y: int) -> int:
    return x + y


@app.task
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task
def fail(sentence: str) -> None:
    raise ValueError(sentence)


@app.task(bind=True, max_retries=3)
def fail_twice(self: Any) -> int:
    if self.request.retries < 2:
        raise self.retry(countdown=0.05)
    return int(self.request.retries)


@app.task
def now() -> float:
    return time.time()


@app.task(rate_limit="5/s")
def limited() -> float:
    return time.time()


@app.task(bind=True)
def described(self: Any, *_: Any) -> dict[str, Any]:
    return {"delivery": self.request.delivery_info, "retries": self.request.retries, "id": self.request.id}


class BookedRequest(Request):
    """Writes down when the worker itself has read that its child began a job: what it has not read yet when a warm
    shutdown begins, Celery drops (AsynPool.flush), though the child does it; the job then comes again.
    """

    def on_accepted(self, pid: int, time_accepted: float) -> None:
        super().on_accepted(pid, time_accepted)
        write_down("read", self.args[0])


@app.task(acks_late=True, reject_on_worker_lost=True, Request=BookedRequest)
def job(number: int, seconds: float = 0.0) -> int:
    write_down(ID + str(job.request.id), number)
    write_down("start", number)
    time.sleep(seconds)
    write_down("end", number)
    return number


@app.task(bind=True, acks_late=True, max_retries=1)
def try_twice(self: Any, number: int, how: str) -> str | None:
    """how: `retry` or `reject`. Returns the key of the second try."""
    if self.request.retries or self.request.delivery_info["redelivered"]:
        write_down("second", number)
        return getattr(self.request, "radiator_key", None)
    write_down("first", number)
    raise self.retry(countdown=0.3) if how == "retry" else Reject(requeue=True)


@app.task(bind=True, max_retries=1)
def priority_of_retry(self: Any) -> int:
    if not self.request.retries:
        raise self.retry(countdown=0)
    return int(self.request.delivery_info["priority"])


@app.task(bind=True, acks_late=True)
def deaths(self: Any, rejections: int) -> None:
    """Rejects itself so often; then it writes down what its message tells of it."""
    died = {(death["queue"], death["reason"]): death["count"] for death in self.request.get("x-death") or ()}
    if died.get((self.request.delivery_info["routing_key"], "rejected"), 0) < rejections:
        raise Reject(requeue=False)
    write_down("died", ",".join(f"{queue}:{reason}:{count}" for (queue, reason), count in died.items()))


@app.task(acks_late=True, reject_on_worker_lost=True)
def kill_child_once(marker: str) -> str:
    path = Path(marker)
    if not path.exists():
        path.write_text("killed")
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


@app.task
def tell(number: int) -> None:
    write_down("told", number)


def in_s(seconds: float) -> datetime:
    return datetime.fromtimestamp(time.time() + seconds, UTC)
