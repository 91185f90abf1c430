"""One event, several receivers, of whom one is offline when it happens and misses nothing.

/fanout/orders.placed has two child queues, declared in examples/config.toml: one message sent to it is stored in both,
in one transaction. Each receiver consumes its own queue in its own time.

Run it against a broker with that configuration: python examples/events_fanout.py [HOST:PORT]
"""

import queue
import sys

import stomp

EVENTS = "/fanout/orders.placed"


class Receiver(stomp.ConnectionListener):
    """Consumes one child queue and ACKs what it has got."""

    def __init__(self, host: str, port: int, source: str) -> None:
        self.got: queue.Queue[str] = queue.Queue()
        self.connection = stomp.Connection12([(host, port)])
        self.connection.set_listener("receiver", self)
        self.connection.connect(wait=True)
        self.connection.subscribe(source, id="events", ack="client-individual")

    def on_message(self, frame: stomp.utils.Frame) -> None:
        self.connection.ack(frame.headers["ack"])
        self.got.put(frame.body)


class Receipts(stomp.ConnectionListener):
    """Waits for the broker's word that a message is on the disk, in every child queue."""

    def __init__(self) -> None:
        self.ids: queue.Queue[str] = queue.Queue()

    def on_receipt(self, frame: stomp.utils.Frame) -> None:
        self.ids.put(frame.headers["receipt-id"])


def main(host: str, port: int) -> None:
    mail = Receiver(host, port, "/queue/orders.placed.mail")  # `audit` is not running now

    shop, receipts = stomp.Connection12([(host, port)]), Receipts()
    shop.set_listener("receipts", receipts)
    shop.connect(wait=True)
    for order in ("order 1", "order 2"):
        shop.send(EVENTS, order, receipt=order)
        assert receipts.ids.get(timeout=10) == order
        print(f"{order} is stored for all")

    for _ in range(2):
        print(f"mail sends a letter about {mail.got.get(timeout=10)}")

    audit = Receiver(host, port, "/queue/orders.placed.audit")  # comes late, and misses nothing
    for _ in range(2):
        print(f"audit writes down {audit.got.get(timeout=10)}")

    for connection in (mail.connection, audit.connection, shop):
        connection.disconnect()


if __name__ == "__main__":
    host, _, port = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:61613").rpartition(":")
    main(host, int(port))
