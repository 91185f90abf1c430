"""stompit, from npm: a client from another world."""

import pytest

from tests.broker_process import BrokerProcess
from tests.interop.npm import run


@pytest.mark.slow
def test_stompit_sends_receives_and_recovers(broker: BrokerProcess) -> None:
    run("stompit_client.js", broker, "/queue/stompit", packages=("stompit",))
