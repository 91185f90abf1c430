"""One broker process for each module of tests; each test has its own connections and its own names."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.acceptance.wire import Wire
from tests.broker_process import DEFAULT_CONFIG, BrokerProcess

Connect = Callable[..., Wire]


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker on the module's CONFIG. At the end it must still run, with ledgers that add up, and stop clean."""
    config = getattr(request.module, "CONFIG", DEFAULT_CONFIG)
    with BrokerProcess(tmp_path_factory.mktemp("broker"), config) as running:
        yield running
        assert running.is_running, running.log
        assert "Traceback" not in running.log, running.log
        assert queues_that_do_not_add_up(running) == []
        assert running.stop() == 0, running.log


@pytest.fixture
def connect(broker: BrokerProcess) -> Iterator[Connect]:
    """`connect()` gives a connected Wire; `connect(version)`, with more headers of CONNECT where wanted."""
    opened: list[Wire] = []

    def connect(version: str = "1.2", headers: dict[str, str] | None = None) -> Wire:
        wire = Wire((broker.host, broker.port), version)
        opened.append(wire)
        wire.connect(headers or {})
        return wire

    yield connect
    for wire in opened:
        wire.close()


@pytest.fixture
def wire(connect: Connect) -> Wire:
    """A connection of version 1.2."""
    return connect()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return re.sub(r"\W+", "-", request.node.name).strip("-")[-200:]


@pytest.fixture
def queue(name: str) -> str:
    """The address of a queue that no other test uses."""
    return f"/queue/{name}"


def stats(broker: BrokerProcess) -> dict[str, Any]:
    """What `/admin` says now."""
    with Wire((broker.host, broker.port)) as wire:
        wire.connect()
        answer = json.loads(wire.admin(b'{"do": "stats"}'))
    assert answer["ok"], answer
    return dict(answer)


def queue_stats(broker: BrokerProcess, address: str) -> dict[str, Any]:
    """The numbers of one queue."""
    return dict(stats(broker)["queues"][address.removeprefix("/queue/")])


def queues_that_do_not_add_up(broker: BrokerProcess) -> list[str]:
    return [name for name, numbers in stats(broker)["queues"].items() if not adds_up(numbers)]


def adds_up(numbers: dict[str, Any]) -> bool:
    """Contract 5: accepted = stored + acked + expired + dropped + purged + dead-lettered, recounted here."""
    ways = ("acked", "expired", "dropped", "purged", "dead_lettered")
    return bool(
        numbers["adds_up"]
        and numbers["accepted"] == numbers["stored"] + sum(numbers[way] for way in ways)
        and numbers["accepted_bytes"] == numbers["stored_bytes"] + sum(numbers[f"{way}_bytes"] for way in ways)
    )
