"""stompjs, from npm: what browsers use, here over TCP by its makers' own wrapper, and over WebSocket by npm's ws. Each
scenario by itself.
"""

import pytest

from tests.broker_process import CHECKOUT, BrokerProcess
from tests.interop.npm import PACKAGES as NPM_PACKAGES
from tests.interop.npm import run
from tests.server.web import port_of

PACKAGES = ("@stomp/stompjs", "@stomp/tcp-wrapper", "ws")
SCENARIOS = (
    "queue", "transaction", "exchange", "declared", "mandatory", "durable", "delay", "deliver-at", "nack-delay",
    "request-reply", "reconnect", "bodies",
)  # fmt: skip
OF_WEBSOCKET = ("split", "together", "heart-beats", "closed")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_stompjs(broker: BrokerProcess, scenario: str) -> None:
    assert len(run("stompjs_client.js", broker, scenario, "tcp", packages=PACKAGES)) > 1


@pytest.mark.parametrize("scenario", (*SCENARIOS, *OF_WEBSOCKET))
def test_stompjs_over_websocket(broker: BrokerProcess, scenario: str) -> None:
    port = port_of(broker.log, "http")
    assert len(run("stompjs_client.js", broker, scenario, "websocket", packages=PACKAGES, port=port)) > 1


def test_unknown_scenario_fails(broker: BrokerProcess) -> None:
    """A scenario that does nothing would pass for ever."""
    with pytest.raises(AssertionError, match="no scenario nothing"):
        run("stompjs_client.js", broker, "nothing", "tcp", packages=PACKAGES)


def test_packages_are_those_that_setup_installs() -> None:
    setup = (CHECKOUT / "scripts" / "setup").read_text()
    assert all(package in setup for package in NPM_PACKAGES.values())
