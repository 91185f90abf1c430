"""stompjs, from npm: what browsers use, here over TCP by its makers' own wrapper. Each scenario by itself."""

import pytest

from tests.broker_process import CHECKOUT, BrokerProcess
from tests.interop.npm import PACKAGES as NPM_PACKAGES
from tests.interop.npm import run

PACKAGES = ("@stomp/stompjs", "@stomp/tcp-wrapper")
SCENARIOS = (
    "queue", "transaction", "exchange", "declared", "mandatory", "durable", "delay", "deliver-at", "nack-delay",
    "request-reply", "reconnect",
)  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_stompjs(broker: BrokerProcess, scenario: str) -> None:
    assert len(run("stompjs_client.js", broker, scenario, packages=PACKAGES)) > 1


def test_unknown_scenario_fails(broker: BrokerProcess) -> None:
    """A scenario that does nothing would pass for ever."""
    with pytest.raises(AssertionError, match="no scenario nothing"):
        run("stompjs_client.js", broker, "nothing", packages=PACKAGES)


def test_packages_are_those_that_setup_installs() -> None:
    setup = (CHECKOUT / "scripts" / "setup").read_text()
    assert all(package in setup for package in NPM_PACKAGES.values())
