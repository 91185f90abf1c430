"""Two brokers with AMQP, and the command between them."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import amqp
import pytest

from tests.acceptance.amqp_clients import CONFIG, port_of
from tests.broker_process import BrokerProcess, environment
from tests.rabbitmq import RabbitMq, needs_rabbitmq

WAIT_MAX_S = 30.0


class Side:
    """One of the two brokers, with a channel of a client that others have written."""

    def __init__(self, address: str, **login: str) -> None:
        self.address = address
        connection = amqp.Connection(address.removeprefix("amqp://"), connect_timeout=WAIT_MAX_S, **login)
        connection.connect()
        self.channel = connection.channel()

    def declare(self, queue: str, durable: bool = True, auto_delete: bool = False, **arguments: Any) -> None:
        names = {name.replace("_", "-"): value for name, value in arguments.items()}
        self.channel.queue_declare(queue, durable=durable, auto_delete=auto_delete, arguments=names)

    def fill(self, queue: str, *bodies: str | bytes, **properties: Any) -> None:
        """All of them are in it when this returns."""
        before = self.count(queue)
        self.publish(queue, *bodies, **properties)
        self.wait_for(queue, before + len(bodies))

    def publish(self, queue: str, *bodies: str | bytes, **properties: Any) -> None:
        """Where somebody may take them at once."""
        for body in bodies:
            self.channel.basic_publish(amqp.Message(body, **properties), routing_key=queue)

    def count(self, queue: str) -> int:
        return int(self.channel.queue_declare(queue, passive=True).message_count)

    def wait_for(self, queue: str, least: int) -> None:
        until_s = time.monotonic() + WAIT_MAX_S
        while self.count(queue) < least:
            assert time.monotonic() < until_s, f"{queue} has {self.count(queue)} of {least}"
            time.sleep(0.02)

    def messages(self, queue: str) -> list[Any]:
        """All that is ready in it, taken out."""
        found = []
        while (message := self.channel.basic_get(queue, no_ack=True)) is not None:
            found.append(message)
        return found

    def bodies(self, queue: str) -> list[Any]:
        return [message.body for message in self.messages(queue)]


def side_of(broker: BrokerProcess) -> Side:
    return Side(f"amqp://127.0.0.1:{port_of(broker)}")


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    with (
        BrokerProcess(tmp_path_factory.mktemp("old"), CONFIG) as one,
        BrokerProcess(tmp_path_factory.mktemp("new"), CONFIG) as other,
    ):
        yield one, other


@pytest.fixture
def old(brokers: tuple[BrokerProcess, BrokerProcess]) -> Side:
    return side_of(brokers[0])


@pytest.fixture
def new(brokers: tuple[BrokerProcess, BrokerProcess]) -> Side:
    return side_of(brokers[1])


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMq]:
    needs_rabbitmq()
    with RabbitMq(tmp_path_factory.mktemp("rabbitmq")) as running:
        yield running


def command(old: str, new: str, *words: str) -> subprocess.Popen[str]:
    """`radiator migrate` as a process of its own. new: "" where other words say it."""
    line = [sys.executable, "-m", "radiator", "migrate", old, *(["--to", new] if new else []), *words]
    return subprocess.Popen(
        line, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def migrate(old: Side, new: Side | str, *words: str, status: int = 0) -> dict[str, Any]:
    """Its JSON, once it has ended so. new: or its address."""
    process = command(old.address, new if isinstance(new, str) else new.address, "--json", *words)
    out, err = process.communicate(timeout=120)
    assert process.returncode == status, (out, err)
    found: dict[str, Any] = json.loads(out) if out else {}
    return {**found, "stderr": err}


def definitions(directory: Path, **kinds: list[dict[str, Any]]) -> str:
    """A file of them; each has what RabbitMQ writes, where it is not given."""
    usual: dict[str, dict[str, Any]] = {
        "queues": {"durable": True, "auto_delete": False, "arguments": {}},
        "exchanges": {"type": "direct", "durable": True, "auto_delete": False, "internal": False, "arguments": {}},
        "bindings": {"destination_type": "queue", "routing_key": "", "arguments": {}},
        "policies": {"apply-to": "all", "priority": 0},
    }
    path = directory / "definitions.json"
    made = {
        kind: [{"vhost": "/", **usual.get(kind, {}), **one} for one in kinds.get(kind, [])] for kind in {*usual, *kinds}
    }
    path.write_text(json.dumps(made))
    return str(path)
