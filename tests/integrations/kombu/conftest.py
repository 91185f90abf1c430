"""One broker process for each module of tests; each test has its own connections and its own names."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import kombu
import pytest

import radiator.kombu  # noqa: F401 - registers radiator://
from tests.broker_process import BrokerProcess

CONFIG = "[create]\nqueues = false\ntopics = false\n"  # what kombu declares needs no leave of [create]
Connect = Callable[..., kombu.Connection]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        yield running
        assert running.is_running, running.log
        assert "Traceback" not in running.log, running.log
        assert running.stop() == 0, running.log


@pytest.fixture
def connect(broker: BrokerProcess) -> Iterator[Connect]:
    opened: list[kombu.Connection] = []

    def connect(**options: Any) -> kombu.Connection:
        opened.append(kombu.Connection(url(broker), **options))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.release()


@pytest.fixture
def connection(connect: Connect) -> kombu.Connection:
    return connect()


@pytest.fixture
def channel(connection: kombu.Connection) -> Any:
    return connection.channel()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return re.sub(r"\W+", "-", request.node.name).strip("-")[-200:]


def url(broker: BrokerProcess) -> str:
    return f"radiator://{broker.host}:{broker.port}"
