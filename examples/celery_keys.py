"""Celery on Radiator: tasks with the same key are done in order, one at a time, by any number of workers.

    scripts/setup celery                                        # once
    scripts/serve                                               # the broker, if none runs; it needs no configuration
    cd examples; ../.venv/bin/celery -A celery_keys worker      # a worker, or several
    .venv/bin/python examples/celery_keys.py                    # a program that has tasks done

Kill a worker meanwhile: its task comes again, before all others of the same customer.
"""

import time

from celery import Celery
from kombu import Queue

import radiator.kombu  # noqa: F401 - registers radiator://

app = Celery("celery_keys", broker="radiator://127.0.0.1:61613", backend="rpc://")
# the header is what radiator_key= becomes; an operator may say the same in config.toml
app.conf.task_queues = [Queue("accounts", queue_arguments={"partition_key": "header:partition-key"})]
app.conf.task_default_queue = "accounts"
app.conf.task_acks_late = True  # the key is free once the task is acked: when it has ended, not when it begins
app.conf.task_reject_on_worker_lost = True
app.conf.worker_prefetch_multiplier = 1
app.conf.broker_connection_retry_on_startup = True


@app.task
def book(customer: str, number: int) -> tuple[str, int, float, float]:
    begun_s = time.time()
    time.sleep(0.1 / number)  # the first one takes longest
    return customer, number, begun_s, time.time()


if __name__ == "__main__":
    tried = [
        book.apply_async((customer, number), radiator_key=customer)
        for number in (1, 2, 3)
        for customer in ("ann", "ben")
    ]
    bookings = sorted((result.get(timeout=10) for result in tried), key=lambda booking: booking[2])
    for customer in ("ann", "ben"):
        own = [booking for booking in bookings if booking[0] == customer]
        print(f"{customer}: {', '.join(str(number) for _, number, _, _ in own)}")
        if any(later[2] < earlier[3] for earlier, later in zip(own, own[1:], strict=False)):
            print(f"two tasks of {customer} ran at once")
