"""The raw socket beside our client does the same work, and both come to their end."""

from pathlib import Path

import pytest

from benchmarks.client import PAIRS
from tests.broker_process import BrokerProcess

MESSAGES = 300  # more than one window


@pytest.mark.slow
def test_both_send_and_receive_all_of_it(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        for measures in PAIRS.values():
            for measure in measures:
                assert measure(broker.port, MESSAGES) > 0
        assert broker.stop() == 0
