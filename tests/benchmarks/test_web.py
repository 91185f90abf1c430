"""The load of `python -m benchmarks.web` measures what it says."""

from pathlib import Path

import pytest

from benchmarks.peers import Nats, RabbitMQ
from benchmarks.web import CONFIG, PEERS_ROW, ROWS, Door, doors, of_http, publish, wait_idle
from benchmarks.web_peers import nats, nats_hello, rabbitmq
from tests.broker_process import BrokerProcess
from tests.server.web import WebClient, port_of

WAITS_MAX_KIB = 20.0


def test_what_it_counts_is_stored(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, CONFIG) as broker:
        broker.wait_for_log("listening address=http://")
        messages = 0
        for shape in (*sum(ROWS, ()), PEERS_ROW[2]):
            rate, each_us = publish(doors(broker)[shape.door], shape, 2)
            messages += shape.connections * 2 * shape.window * shape.messages
            assert rate > 0 and each_us > 0
        with WebClient(port_of(broker.log, "http")) as client:
            assert f'"ready":{messages},' in client.ask("GET", "/v1/queues/q").body.decode().replace(" ", "")


def test_a_client_that_waits_has_a_bound_and_takes_next_to_no_cpu(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, CONFIG) as broker:
        broker.wait_for_log("listening address=http://")
        kib, share = wait_idle(broker, 300, 2.0)
        assert kib < WAITS_MAX_KIB and share < 0.1


@pytest.mark.skipif(not Nats().can_sync(), reason="no NATS that syncs: python -m benchmarks --install-peers")
def test_nats_is_measured_at_its_websocket(tmp_path: Path) -> None:
    with nats(tmp_path / "nats") as (broker, port):
        rate, each_us = publish(Door(port, nats_hello, broker.cpu_s), PEERS_ROW[3], 2)
        assert rate > 0 and each_us > 0


@pytest.mark.slow
@pytest.mark.skipif(bool(RabbitMQ().missing()), reason=RabbitMQ().missing())
def test_rabbitmq_is_measured_at_its_management_api(tmp_path: Path) -> None:
    with rabbitmq(tmp_path / "rabbitmq") as (broker, port):
        rate, each_us = publish(Door(port, of_http, broker.cpu_s), PEERS_ROW[1], 1)
        assert rate > 0 and each_us > 0
