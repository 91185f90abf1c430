"""What the client is tested against: scripted peers, a broker for each file of tests, and a network that can be cut."""

from collections.abc import Callable, Iterator

import pytest

from tests.broker_process import EVERYTHING_MAY_BE_CREATED, BrokerProcess
from tests.client.peer import Peer, Script
from tests.client.proxy import Proxy

CONFIG = EVERYTHING_MAY_BE_CREATED + (
    "[limits]\nheart_beat_ms = [10000, 100]\n"
    '[queue."memory.#"]\npersistent = false\n'
    '[queue."small.#"]\nmax_messages = 1\noverflow = "reject"\n'
    '[queue."once.#"]\ndedup_window_s = 600\n'
    '[queue."tried"]\nmax_redeliveries = 0\ndead_letter = "dead"\n'
)


@pytest.fixture
def peer() -> Iterator[Callable[[Script], str]]:
    peers = []

    def start(script: Script) -> str:
        peers.append(Peer(script))
        return peers[-1].address

    yield start
    for one in peers:
        one.join()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        yield running


@pytest.fixture
def proxy(broker: BrokerProcess) -> Iterator[Proxy]:
    with Proxy(broker.host, broker.port) as running:
        yield running
