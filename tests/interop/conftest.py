"""One broker for each module of clients."""

import re
from collections.abc import Iterator

import pytest

from tests.broker_process import BrokerProcess
from tests.server.web import OPEN

CONFIG = OPEN + "[limits]\nheart_beat_ms = [300, 300]\n"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        running.wait_for_log("listening address=http://")
        yield running
        assert "Traceback" not in running.log, running.log
        assert running.stop() == 0


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return re.sub(r"\W+", "-", request.node.name).strip("-")
