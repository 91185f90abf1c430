"""What a command prints to a running broker's user: each file of tests has a `broker` of its own."""

from collections.abc import Callable, Iterator

import pytest

from radiator.client import Client
from radiator.tools.cli import main
from tests.broker_process import BrokerProcess

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*arguments: str) -> tuple[int, str, str]:
        """Runs `radiator` in this process: exit status, stdout, stderr."""
        status = main([*arguments, "--broker", broker.address])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return command


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[Client]:
    with Client(broker.address, answer_timeout_s=10) as one:
        yield one
