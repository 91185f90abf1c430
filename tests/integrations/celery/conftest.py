"""One broker and one program that publishes for each module of tests; workers are processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery

from tests.broker_process import BrokerProcess
from tests.integrations.celery.publisher import publisher

CONFIG = "[create]\nqueues = false\ntopics = false\n"  # Celery declares what it needs


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        yield running
        assert running.is_running, running.log
        assert "Traceback" not in running.log, running.log
        assert running.stop() == 0, running.log


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where workers write down what they do."""
    return tmp_path_factory.mktemp("book") / "book"


@pytest.fixture(scope="module")
def app(broker: BrokerProcess) -> Iterator[Celery]:
    with publisher(broker.port) as one:
        yield one
