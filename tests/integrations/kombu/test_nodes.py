"""Producers at one node, consumers at another: as Celery would be run over several."""

from collections.abc import Iterator

import kombu
import pytest

import radiator.kombu  # noqa: F401 - registers radiator://
from tests.integrations.kombu.conftest import url
from tests.nodes.cluster import Nodes, mesh

CONFIG = """\
[create]
queues = false
[queue."tasks"]
scope = "cluster"
[queue."pool.#"]
scope = "cluster"
"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with Nodes(tmp_path_factory.mktemp("nodes"), mesh("ab"), CONFIG) as linked:
        links = [peer["out_epoch"] for node in linked.all for peer in node.peers().values()]
        yield linked
        assert [peer["out_epoch"] for node in linked.all for peer in node.peers().values()] == links, "a link was lost"
        for node in linked.all:
            assert node.stop() == 0, node.log


@pytest.mark.parametrize("exchange", ["", "jobs"])
@pytest.mark.parametrize("queue", ["tasks", "pool.one"])
def test_tasks_sent_at_one_node_are_done_at_another(nodes: Nodes, queue: str, exchange: str) -> None:
    """exchange "": kombu sends straight to the queue."""
    bound = kombu.Queue(queue, kombu.Exchange(exchange, type="direct"), routing_key=queue)
    with kombu.Connection(url(nodes["a"])) as here, kombu.Connection(url(nodes["b"])) as there:
        for connection in (here, there):
            bound(connection).declare()
        got: list[object] = []

        def take(body: object, message: kombu.Message) -> None:
            got.append(body)
            message.ack()

        with there.Consumer(bound, callbacks=[take]):
            with here.Producer() as producer:
                for number in range(20):
                    producer.publish({"task": number}, exchange=exchange, routing_key=queue)
            while len(got) < 20:
                there.drain_events(timeout=10)
        assert got == [{"task": number} for number in range(20)]
