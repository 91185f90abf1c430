"""Queues are declared and deleted by the frames of the loads, at a real broker."""

from pathlib import Path

import pytest

from benchmarks import amqp
from radiator.client import Client
from radiator.tools.cli.load import LoadFailed
from tests.acceptance.amqp_clients import CONFIG, port_of
from tests.broker_process import BrokerProcess


def queues(broker: BrokerProcess) -> dict[str, bool]:
    """Whether each is on the disk."""
    with Client(broker.address) as client:
        return {name: queue["persistent"] for name, queue in client.admin({"do": "stats"})["queues"].items()}


def test_a_queue_is_declared_and_deleted(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, CONFIG) as broker:
        port = port_of(broker)
        amqp.declare_queue(port, "kept", is_durable=True)
        amqp.declare_queue(port, "light", is_durable=False)
        assert queues(broker) == {"kept": True, "light": False}
        amqp.delete_queue(port, "kept")
        amqp.delete_queue(port, "light")
        amqp.delete_queue(port, "light")
        assert queues(broker) == {}


def test_a_refusal_is_quoted(tmp_path: Path) -> None:
    with (
        BrokerProcess(tmp_path, CONFIG) as broker,
        pytest.raises(LoadFailed, match=r"refused what the load needs: .*ACCESS_REFUSED - queue name .amq\.mine"),
    ):
        amqp.declare_queue(port_of(broker), "amq.mine", is_durable=True)
