"""Remote procedure call: many servers share the requests, and each asker has a queue of its own for the replies.

    python examples/rpc.py [--broker stomp://HOST:PORT]

It shows a call, one that takes too long, one that nobody offers, and what is left when the asker has gone: nothing.
docs/TOPOLOGIES.md has a drawing.
"""

import itertools
import threading
import time
import uuid

from own_broker import broker

from radiator.client import Client, Message
from radiator.model.errors import Refusal

SERVICES = "example.rpc"  # the exchange: the key of a binding is the name of a procedure
REQUESTS = "example.rpc.square"
SERVERS = 3
SLOW_S = 0.6


def declare(client: Client) -> None:
    """What servers and askers share. Declaring what is there already changes nothing, so each of them may do it."""
    client.admin({"do": "declare", "exchange": SERVICES, "type": "direct"})
    client.admin(
        {
            "do": "declare",
            "queue": REQUESTS,
            # in memory: a request is worth nothing once its asker has given up, so it need not outlive the broker
            "persistent": False,
            # with more than these waiting nobody would be answered in time: who asks then is refused at once
            "max_messages": 1000,
            "overflow": "reject",
        }
    )
    # a durable exchange and a queue in memory: the binding goes with the queue, and `mandatory` then tells the asker
    client.admin({"do": "bind", "exchange": SERVICES, "key": "square", "queue": REQUESTS})


class Server(threading.Thread):
    """Answers requests until it is stopped; as many of them as there is work for may run, on as many machines."""

    def __init__(self, address: str, number: int, stop: threading.Event) -> None:
        super().__init__(name=f"server {number}")
        self.address, self.stop = address, stop
        self.is_ready = threading.Event()

    def run(self) -> None:
        with Client(self.address) as client:
            # client-individual: a request whose server dies goes to another one. Without prefetch-count one at a
            # time: the next request goes to a server that is free
            client.subscribe(f"/queue/{REQUESTS}", ack="client-individual")
            self.is_ready.set()
            while not self.stop.is_set():
                request = client.receive(0.1)
                if request is not None:
                    self.answer(client, request)

    def answer(self, client: Client, request: Message) -> None:
        word = request.body.decode()
        if word.startswith("slow "):
            time.sleep(SLOW_S)
        number = int(word.removeprefix("slow "))
        # the reply and the end of the request, both or neither
        with client.transaction() as transaction:
            headers = {"correlation-id": request.headers["correlation-id"], "server": self.name}
            client.send(request.headers["reply-to"], str(number * number), headers, transaction=transaction)
            client.ack(request, transaction=transaction)


class Asker:
    """Calls procedures. It has two connections: a refusal ends the one that was refused, and with the other one the
    replies that are on their way would be lost.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.sender, self.receiver = Client(address), Client(address)
        self.numbers = itertools.count(1)
        self.replies: dict[str, Message | None] = {}  # to what was asked and is still waited for
        self.queue = f"example.rpc.replies.{uuid.uuid4().hex}"
        self.receiver.admin(
            {
                "do": "declare",
                "queue": self.queue,
                "persistent": False,
                "exclusive": True,  # nobody else may read our replies
                "auto_delete": True,  # it goes with our connection, and what is in it
                "expires_ms": 60_000,  # and if we should die before we are subscribed: auto_delete waits for a consumer
            }
        )
        self.receiver.subscribe(f"/queue/{self.queue}")

    def ask(self, procedure: str, argument: str, timeout_s: float) -> str:
        """Sends a request; its correlation id. Refusal where nobody offers the procedure."""
        correlation = f"{procedure} {next(self.numbers)}"
        headers = {
            # not /queue/...: a reply that comes when the queue has gone shall be dropped, and not make a new queue
            "reply-to": f"/amq/queue/{self.queue}",
            "correlation-id": correlation,
            "expiration": str(int(timeout_s * 1000)),  # what nobody waits for any more is not begun
            "mandatory": "true",  # no queue bound for it: say so now, do not let us wait
        }
        try:
            self.sender.send(f"/exchange/{SERVICES}/{procedure}", argument, headers)
        except Refusal:
            self.sender = Client(self.address)
            raise
        self.replies[correlation] = None
        return correlation

    def reply(self, correlation: str, timeout_s: float) -> Message:
        """The reply to that request. TimeoutError where it does not come in time; one that comes later is dropped."""
        end_s = time.monotonic() + timeout_s
        while (reply := self.replies[correlation]) is None:
            message = self.receiver.receive(max(0.0, end_s - time.monotonic()))
            if message is None:
                del self.replies[correlation]
                raise TimeoutError(f"no reply to {correlation!r} within {timeout_s:g} s")
            if message.headers["correlation-id"] in self.replies:
                self.replies[message.headers["correlation-id"]] = message
        del self.replies[correlation]
        return reply

    def close(self) -> None:
        self.sender.close()
        self.receiver.close()


def dropped(operator: Client) -> int:
    """How many replies found no queue any more."""
    count: int = operator.admin({"do": "stats"})["counters"].get("unrouted", 0)
    return count


def main() -> None:
    stop = threading.Event()
    with broker(__doc__) as address, Client(address) as operator:
        declare(operator)
        servers = [Server(address, number, stop) for number in range(1, SERVERS + 1)]
        for server in servers:
            server.start()
            server.is_ready.wait()
        asker = Asker(address)
        try:
            asked = [asker.ask("square", str(number), 5) for number in range(1, 31)]
            replies = [asker.reply(correlation, 5) for correlation in asked]
            who = sorted({reply.headers["server"] for reply in replies})
            print(f"1 to 30 are squared, by {', '.join(who)}; the sum is {sum(int(reply.body) for reply in replies)}")

            try:
                asker.reply(asker.ask("square", "slow 7", 0.2), 0.2)
            except TimeoutError as late:
                print(f"a timeout: {late}")

            try:
                asker.ask("cube", "3", 5)
            except Refusal as refused:
                print(f"nobody offers cubes, and mandatory says so at once: {refused.code}")

            before = dropped(operator)
            asker.ask("square", "slow 8", 5)
            asker.close()
            print("the asker has gone, with a request under way")
            for _ in range(100):
                if dropped(operator) > before:
                    break
                time.sleep(0.05)
            try:
                operator.admin({"do": "describe", "queue": asker.queue})
            except Refusal as refused:
                count = dropped(operator) - before
                print(f"its queue has gone with it ({refused.code}); late replies that were dropped: {count}")

            # the short way, where the reply need not outlive this connection: an address of the broker's own making
            reply = operator.request(f"/queue/{REQUESTS}", "12", timeout_s=5)
            print(f"with a temp queue, in one line: 12 x 12 = {reply.body.decode()}")
        finally:
            stop.set()
            for server in servers:
                server.join()
        operator.admin({"do": "delete", "queue": REQUESTS})
        operator.admin({"do": "delete", "exchange": SERVICES})
        print("done")


if __name__ == "__main__":
    main()
