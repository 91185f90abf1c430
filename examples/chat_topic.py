"""A chat: everybody in a room hears what is said there, and who listens to `chat.#` hears every room.

Topics are for whoever is connected now; nothing is stored. A message is sent to all who have subscribed, so a RECEIPT
for SUBSCRIBE is the moment from which one hears everything.

Run it against a broker on this machine: python examples/chat_topic.py [HOST:PORT]
"""

import queue
import sys

import stomp


class Guest(stomp.ConnectionListener):
    """Somebody who listens to a room, or to several with a wildcard."""

    def __init__(self, name: str, room: str, host: str, port: int) -> None:
        self.name = name
        self.heard: queue.Queue[str] = queue.Queue()
        self.is_in: queue.Queue[str] = queue.Queue()
        self.connection = stomp.Connection12([(host, port)])
        self.connection.set_listener("guest", self)
        self.connection.connect(wait=True)
        self.connection.subscribe(f"/topic/{room}", id="room", ack="auto", headers={"receipt": "in"})
        self.is_in.get(timeout=10)

    def on_receipt(self, frame: stomp.utils.Frame) -> None:
        self.is_in.put(frame.headers["receipt-id"])

    def on_message(self, frame: stomp.utils.Frame) -> None:
        room = frame.headers["destination"].removeprefix("/topic/")  # the room itself, whatever the subscription
        self.heard.put(f"{frame.headers['from']} in {room}: {frame.body}")

    def say(self, room: str, words: str) -> None:
        self.connection.send(f"/topic/{room}", words, headers={"from": self.name})


def main(host: str, port: int) -> None:
    anna = Guest("Anna", "chat.kitchen", host, port)
    ben = Guest("Ben", "chat.kitchen", host, port)
    host_of_all = Guest("Host", "chat.#", host, port)

    anna.say("chat.kitchen", "Is there coffee?")
    print("Ben hears", ben.heard.get(timeout=10))
    ben.say("chat.kitchen", "Fresh one.")
    for _ in range(2):
        print("Anna hears", anna.heard.get(timeout=10))
    ben.say("chat.garden", "Nobody here.")
    for _ in range(3):
        print("Host hears", host_of_all.heard.get(timeout=10))
    assert anna.heard.empty(), "the garden is another room"

    for guest in (anna, ben, host_of_all):
        guest.connection.disconnect()


if __name__ == "__main__":
    host, _, port = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:61613").rpartition(":")
    main(host, int(port))
