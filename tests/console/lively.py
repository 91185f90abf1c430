"""A broker with something of everything, for pictures of the console and for tests that look at all pages.

python -m tests.console.lively        serves it until Control-C, and says where its console is
"""

import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from radiator.client import Client
from tests.broker_process import BrokerProcess
from tests.console.page import a_broker

TABLES = """
[journal]
enabled = true
[queue.orders]
dead_letter = "orders.dead"
max_redeliveries = 2
ack_timeout_s = 600
[queue."orders.dead"]
[queue.invoices]
max_messages = 200
overflow = "reject"
[queue.mails]
[queue.reports]
[queue.thumbnails]
partition_key = "header:customer"
[log.clicks]
partitions = 4
[exchange.shop]
type = "topic"
bindings = [
    { key = "order.#", queue = "orders" },
    { key = "*.paid", queue = "invoices" },
    { key = "user.new", queue = "mails" },
]
[fanout.announcements]
children = ["mails", "reports"]
"""

CUSTOMERS = 20
CLICKS = 400


class Life:
    """What producers and consumers do while one looks. begin(): once, before; then it goes on until `end`."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=one, daemon=True) for one in (self._produce, self._consume, self._hold)
        ]

    def begin(self) -> None:
        with Client(self._address) as client:
            for nth in range(CLICKS):
                client.send(
                    "/log/clicks", json.dumps({"page": f"/shop/{nth % 17}"}), headers={"partition-key": f"u{nth % 9}"}
                )
            for nth in range(40):
                client.send(
                    "/queue/reports", json.dumps({"report": nth, "lines": [1, 2, 3]}), headers={"delay": "3600000"}
                )
            for nth in range(200):
                client.send("/queue/invoices", json.dumps({"invoice": nth, "total_cents": nth * 100}))
            for nth in range(60):
                client.send("/queue/thumbnails", b"\x89PNG" + bytes(nth), headers={"customer": str(nth % CUSTOMERS)})
            self._die(client)
        for one in self._threads:
            one.start()

    def _die(self, client: Client) -> None:
        """A few orders that no consumer could take."""
        for nth in range(5):
            client.send(
                "/queue/orders",
                json.dumps({"order": nth, "customer": "broken"}),
                headers={"correlation-id": f"task-{nth}"},
            )
        client.subscribe("/queue/orders", ack="client-individual")
        for message in client.messages(timeout_s=1.5):
            client.nack(message)

    def end(self) -> None:
        self._is_over.set()
        for one in self._threads:
            one.join(10)

    def _produce(self) -> None:
        with Client(self._address) as client:
            nth = 0
            while not self._is_over.is_set():
                nth += 1
                client.send("/exchange/shop/order.new", json.dumps({"order": nth, "customer": f"c{nth % CUSTOMERS}"}))
                if nth % 3 == 0:
                    client.send("/exchange/shop/user.new", json.dumps({"user": nth}))
                self._is_over.wait(0.02)

    def _consume(self) -> None:
        with Client(self._address) as client:
            client.subscribe("/queue/orders", ack="client-individual", consumer_name="worker-1")
            while not self._is_over.is_set():
                for message in client.messages(timeout_s=0.2):
                    client.ack(message)
                    if self._is_over.is_set():
                        break

    def _hold(self) -> None:
        """Mails are taken, and never acked."""
        with Client(self._address) as client:
            client.subscribe("/queue/mails", ack="client-individual", prefetch=3, consumer_name="mailer")
            client.subscribe(
                "/log/clicks", ack="client-individual", headers={"group": "statistics", "from": "earliest"}
            )
            self._is_over.wait()


@contextmanager
def lively(folder: Path) -> Iterator[tuple[BrokerProcess, str]]:
    """With the URL of its web."""
    with a_broker(folder, TABLES) as (broker, url):
        life = Life(broker.address)
        life.begin()
        try:
            yield broker, url
        finally:
            life.end()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory, lively(Path(directory)) as (_, where):
        print(f"console {where}/", flush=True)
        while True:
            time.sleep(3600)
