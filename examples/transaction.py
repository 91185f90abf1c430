"""Work that is done or not done: an order leaves its queue and what follows from it is sent, in one transaction.

If this program dies before COMMIT, the order is still there and nothing was sent; after it, the order is gone and
everything was sent. The broker writes all of it in one transaction on the disk.

Run it against a broker on this machine: python examples/transaction.py [HOST:PORT]
"""

import queue
import sys

import stomp

ORDERS, INVOICES, PARCELS = "/queue/example.orders", "/queue/example.invoices", "/queue/example.parcels"


class Inbox(stomp.ConnectionListener):
    """Hands what comes in to the main thread."""

    def __init__(self) -> None:
        self.messages: queue.Queue[stomp.utils.Frame] = queue.Queue()
        self.receipts: queue.Queue[str] = queue.Queue()

    def on_message(self, frame: stomp.utils.Frame) -> None:
        self.messages.put(frame)

    def on_receipt(self, frame: stomp.utils.Frame) -> None:
        self.receipts.put(frame.headers["receipt-id"])


def main(host: str, port: int) -> None:
    connection, inbox = stomp.Connection12([(host, port)]), Inbox()
    connection.set_listener("inbox", inbox)
    connection.connect(wait=True)
    connection.send(ORDERS, "one book")
    connection.subscribe(ORDERS, id="orders", ack="client-individual")
    order = inbox.messages.get(timeout=10)
    print(f"got {order.body!r}")

    # the first try: something goes wrong on the way, and it is as if nothing had happened
    connection.begin("try 1")
    connection.send(INVOICES, f"invoice for {order.body}", transaction="try 1")
    connection.ack(order.headers["ack"], transaction="try 1")
    connection.abort("try 1")
    print("given up: the order is still ours, and no invoice was sent")

    # the second try: all of it
    connection.begin("try 2")
    connection.send(INVOICES, f"invoice for {order.body}", transaction="try 2")
    connection.send(PARCELS, f"parcel with {order.body}", transaction="try 2")
    connection.ack(order.headers["ack"], transaction="try 2")
    connection.commit("try 2", headers={"receipt": "done"})
    inbox.receipts.get(timeout=10)
    print("done: the order is gone, invoice and parcel are on their way, and all of it is on the disk")

    for place in (INVOICES, PARCELS):
        connection.subscribe(place, id=place, ack="auto")
        print(f"{place}: {inbox.messages.get(timeout=10).body}")
    connection.disconnect()


if __name__ == "__main__":
    host, _, port = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:61613").rpartition(":")
    main(host, int(port))
