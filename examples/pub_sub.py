"""Publish and subscribe: news for everybody whose pattern matches, now or when they are back.

    python examples/pub_sub.py [--broker stomp://HOST:PORT]

A live subscriber hears what is published while it is there; a durable one misses nothing while it is away. The
publisher is told when its news is safe, and publishes several together or not at all. docs/TOPOLOGIES.md has a drawing.
"""

from own_broker import broker

from radiator.client import Client
from radiator.model.errors import Refusal

NEWS = "example.news"  # a topic exchange: keys are words between dots; in a pattern `*` is one word, `#` any number
EVERYTHING = f"/exchange/{NEWS}/#"


def heard(client: Client, count: int) -> list[str]:
    """The next so many, without their exchange's name."""
    found = []
    for _ in range(count):
        message = client.receive(5)
        assert message is not None, "it should have come by now"
        key = message.destination.removeprefix(f"/exchange/{NEWS}/")
        found.append(f"{key}: {message.body.decode()}")
        if "ack" in message.headers:
            client.ack(message)
    return found


def subscribe_archive(archive: Client) -> None:
    """Durable: a queue on the disk that collects while its subscriber is away. Destination and id together name it.
    client-individual: what was read and not yet worked on comes again.
    """
    archive.subscribe(EVERYTHING, subscription="archive", ack="client-individual", durable=True)


def publish(paper: Client) -> None:
    # mandatory: who has no reader at all wants to know; here the archive takes everything
    paper.send(f"/exchange/{NEWS}/weather.rome", "sun", {"mandatory": "true"})
    # Confirms: up to 100 receipts are outstanding, and all of them there when send_many returns. Each says that the
    # news is synced in every durable subscriber's queue.
    count = paper.send_many(f"/exchange/{NEWS}/sports.turin", [f"goal {number}" for number in range(1, 4)])
    print(f"weather.rome and {count} of sports.turin are published and confirmed")

    # a transaction: both or neither, for every subscriber
    with paper.transaction() as transaction:
        paper.send(f"/exchange/{NEWS}/traffic.oslo", "the bridge is closed", transaction=transaction)
        paper.send(f"/exchange/{NEWS}/traffic.oslo.ferry", "the ferry takes cars", transaction=transaction)
    mistaken = paper.begin()
    paper.send(f"/exchange/{NEWS}/weather.oslo", "snow in July", transaction=mistaken)
    paper.abort(mistaken)
    print("two of traffic.oslo are published in one transaction; one of weather.oslo was taken back")


def main() -> None:
    with broker(__doc__) as address, Client(address) as paper, Client(address) as reader:
        # durable is the default: the exchange, and what is bound to it on the disk, outlive a restart of the broker
        paper.admin({"do": "declare", "exchange": NEWS, "type": "topic"})
        with Client(address) as archive:
            subscribe_archive(archive)
        print("the archive has subscribed to #, durably, and gone home")

        # Live: queues in memory that go with the connection. ack:auto, the default: what it misses it misses. Two
        # patterns are two queues: what matches both would come twice.
        reader.subscribe(f"/exchange/{NEWS}/weather.*")
        reader.subscribe(f"/exchange/{NEWS}/*.oslo")
        print("a reader subscribes to weather.* and to *.oslo, and stays")

        publish(paper)

        for line in heard(reader, 2):
            print(f"  the reader hears {line}")
        assert reader.receive(0.2) is None, "nothing else matches"
        with Client(address) as archive:
            subscribe_archive(archive)
            for line in heard(archive, 6):
                print(f"  the archive, back again, finds {line}")
            # the end of a durable subscription is said, never guessed from an absence
            archive.unsubscribe("archive", forget=True)

        try:
            paper.send(f"/exchange/{NEWS}/sports.turin", "goal 4", {"mandatory": "true"})
        except Refusal as refused:
            print(f"the archive is closed down, and for sports there is nobody any more: {refused.code}")
        reader.admin({"do": "delete", "exchange": NEWS})
        print("done")


if __name__ == "__main__":
    main()
