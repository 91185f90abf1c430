"""A program that only publishes tasks, by their names, as one that shares no code with the workers does."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery

import radiator.kombu  # noqa: F401 - registers radiator://

RETRIES = {"interval_start": 0, "interval_step": 0.05, "interval_max": 0.3, "max_retries": 200}


@contextmanager
def publisher(port: int, backend: str = "rpc://", url: str = "") -> Iterator[Celery]:
    """url: as of a WorkerProcess."""
    app = Celery("publisher", broker=url or f"radiator://127.0.0.1:{port}", backend=backend, set_as_current=False)
    app.conf.update(task_publish_retry_policy=RETRIES, broker_transport_options={**RETRIES, "confirm_publish": True})
    try:
        yield app
    finally:
        app.close()


def task(app: Celery, name: str, *arguments: Any, **options: Any) -> Any:
    """A signature of a task of tests/integrations/celery/project.py."""
    return app.signature(f"tests.integrations.celery.project.{name}", args=arguments, **options)
