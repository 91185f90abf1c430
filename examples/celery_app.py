"""Celery on Radiator: tasks that are on the disk before `delay` returns, and that outlive their workers.

    scripts/setup celery                                        # once
    scripts/serve                                               # the broker, if none runs; it needs no configuration
    cd examples; ../.venv/bin/celery -A celery_app worker       # a worker, or several; -l info tells what it does
    .venv/bin/python examples/celery_app.py                     # a program that has tasks done

Kill the worker while it sleeps, and start it again: the task is done, for it was acked late.
"""

from celery import Celery

import radiator.kombu  # noqa: F401 - registers radiator://

app = Celery("celery_app", broker="radiator://127.0.0.1:61613", backend="rpc://")
app.conf.task_acks_late = True  # a task is acked when it has ended ...
app.conf.task_reject_on_worker_lost = True  # ... and given back where its process was killed
app.conf.worker_prefetch_multiplier = 1  # nobody keeps tasks that another worker could do
app.conf.broker_connection_retry_on_startup = True


@app.task
def add(x: int, y: int) -> int:
    return x + y


@app.task(bind=True, max_retries=5)
def fetch(self, url: str) -> str:
    if self.request.retries < 1:
        raise self.retry(countdown=1)  # waits in the broker, not in the worker
    return f"{url} came at the second try"


if __name__ == "__main__":
    print("2 + 3 =", add.delay(2, 3).get(timeout=10))
    print(fetch.delay("http://example.org").get(timeout=10))
    later = add.apply_async((20, 22), countdown=2)
    print("in two seconds:", later.get(timeout=10))
