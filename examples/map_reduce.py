"""Map and reduce: one job goes to all shards, each works on its own part of the data, and a reducer joins the results.

    python examples/map_reduce.py [--broker stomp://HOST:PORT]

Words of a text are counted, twice: by a reducer that waits for every shard, although a worker dies on the way; and by
one that takes what has come in time, although a shard is slow. docs/TOPOLOGIES.md has a drawing.
"""

import json
import threading
import time
import uuid
from collections import Counter

from own_broker import broker

from radiator.client import Client, Message

JOBS = "example.map"  # a fanout exchange: a copy of each job for each shard
TOTALS = "example.totals"
TEXT = """
the net is wide and the sea is wide and the boat is small
a net of words holds what a word alone lets go
the boat comes home and the net comes home with it
what the sea keeps the sea keeps and no net holds it
"""
PARTS = dict(enumerate(TEXT.strip().splitlines(), start=1))  # what each shard has; with real ones, on its own disk
SLOW_S = 2.0


def declare(client: Client) -> None:
    """The exchange, and for each shard the queue of its jobs."""
    client.admin({"do": "declare", "exchange": JOBS, "type": "fanout"})
    for shard in PARTS:
        # Persistent, which is the default: the receipt of a job says that it is on the disk for every shard, in one
        # transaction, so that a job is never done by half of them because a machine was switched off in between.
        # message_ttl_ms is not set: a job waits for a shard that is away. Who cannot wait says `expiration`.
        client.admin({"do": "declare", "queue": f"{JOBS}.{shard}"})
        client.admin({"do": "bind", "exchange": JOBS, "key": "", "queue": f"{JOBS}.{shard}"})
    client.admin({"do": "declare", "queue": TOTALS})


class Worker(threading.Thread):
    """Does the jobs of one shard. A shard may have several workers; each job is done by one of them."""

    def __init__(self, address: str, shard: int, stop: threading.Event, dies: bool = False) -> None:
        super().__init__(name=f"worker of shard {shard}")
        self.address, self.shard, self.stop, self.dies = address, shard, stop, dies

    def run(self) -> None:
        with Client(self.address) as client:
            client.subscribe(f"/queue/{JOBS}.{self.shard}", ack="client-individual")
            while not self.stop.is_set():
                job = client.receive(0.05)
                if job is not None:
                    self.work(client, job)

    def work(self, client: Client, job: Message) -> None:
        if self.dies:
            raise SystemExit  # the connection is lost without an ACK: the job comes again, to the next worker
        if str(self.shard) == job.headers.get("slow-shard"):
            time.sleep(SLOW_S)
        counted = json.dumps(Counter(PARTS[self.shard].split()))
        # result and ACK, both or neither; a job that was done twice all the same is told apart by its shard
        with client.transaction() as transaction:
            headers = {"correlation-id": job.headers["correlation-id"], "shard": str(self.shard)}
            client.send(job.headers["reply-to"], counted, headers, transaction=transaction)
            client.ack(job, transaction=transaction)


class Reducer:
    """One job and its results: a queue of its own, that only this job's results go to."""

    def __init__(self, client: Client, **settings: bool | int) -> None:
        self.client = client
        self.job = uuid.uuid4().hex
        self.results = f"example.results.{self.job}"
        # how many results there will be is asked, not assumed: shards may come and go
        self.shards = client.admin({"do": "describe", "exchange": JOBS})["bindings_count"]
        client.admin({"do": "declare", "queue": self.results, **settings})

    def map(self, **headers: str) -> None:
        """The job, to all shards. `mandatory`: without a single shard it is refused."""
        # /amq/queue/...: a result that comes when that queue has gone is dropped, and does not make a new one
        own = {"reply-to": f"/amq/queue/{self.results}", "correlation-id": self.job, "mandatory": "true"}
        self.client.send(f"/exchange/{JOBS}/", "count words", own | headers)

    def wait_for_all(self) -> Counter[str]:
        """Every shard's result, however long that takes. Nothing is acked until the total is stored: a reducer that
        dies is replaced by another one, which subscribes to the same queue and gets all of them again.
        """
        # prefetch-count: all results shall come before the first ACK. ack:client: the ACK of the last one is for all
        prefetch = {"prefetch-count": str(2 * self.shards)}
        subscription = self.client.subscribe(f"/queue/{self.results}", ack="client", headers=prefetch)
        results: dict[str, Message] = {}
        while len(results) < self.shards:
            last = self.client.receive()
            assert last is not None, "it waits for ever"
            results[last.headers["shard"]] = last
        assert last is not None, "a job for no shard was refused"
        total = joined(results)
        with self.client.transaction() as transaction:
            self.client.send(f"/queue/{TOTALS}", json.dumps(total), transaction=transaction)
            self.client.ack(last, transaction=transaction)
        self.client.unsubscribe(subscription)
        return total

    def take_what_comes_within(self, seconds: float) -> tuple[Counter[str], int]:
        """What has come in time, and from how many shards."""
        subscription = self.client.subscribe(f"/queue/{self.results}")
        end_s = time.monotonic() + seconds
        results: dict[str, Message] = {}
        while len(results) < self.shards:
            message = self.client.receive(max(0.0, end_s - time.monotonic()))
            if message is None:
                break
            results[message.headers["shard"]] = message
        self.client.unsubscribe(subscription)  # auto_delete: now the queue goes, and what comes later is dropped
        return joined(results), len(results)


def joined(results: dict[str, Message]) -> Counter[str]:
    total: Counter[str] = Counter()
    for message in results.values():
        total.update(json.loads(message.body))
    return total


def shown(total: Counter[str]) -> str:
    return ", ".join(f"{word} {count}" for word, count in sorted(total.items(), key=lambda one: (-one[1], one[0]))[:4])


def main() -> None:
    stop = threading.Event()
    with broker(__doc__) as address, Client(address) as client:
        declare(client)
        dying = Worker(address, 3, stop, dies=True)
        workers = [dying, *(Worker(address, shard, stop) for shard in PARTS if shard != 3)]
        for worker in workers:
            worker.start()
        try:
            # Its results are persistent, as the job is, and its queue stays while nobody is subscribed: the job may
            # take days, and the reducer may be restarted. An hour unused, and it is forgotten.
            reducer = Reducer(client, expires_ms=3_600_000)
            reducer.map()
            print(f"the job is stored for {reducer.shards} shards, with one receipt")
            dying.join()
            print(f"the {dying.name} has died in the middle of it, and another one takes over")
            workers.append(Worker(address, 3, stop))
            workers[-1].start()
            print(f"all {reducer.shards} shards have answered: {shown(reducer.wait_for_all())}")
            client.admin({"do": "delete", "queue": reducer.results})
            kept = client.admin({"do": "peek", "queue": TOTALS})["messages"][0]["body"]
            print(f"the total is on the disk: {sum(json.loads(kept).values())} words")

            # This one's queue is in memory, and its own: what comes too late is of no use to anybody.
            reducer = Reducer(client, persistent=False, exclusive=True, auto_delete=True)
            # expiration: a shard that cannot even begin in time need not do it at all
            reducer.map(**{"slow-shard": "2", "expiration": "1000"})
            total, count = reducer.take_what_comes_within(1)
            print(f"{count} of {reducer.shards} shards have answered within 1 s: {shown(total)}")
        finally:
            stop.set()
            for worker in workers:
                worker.join()
        for queue in (TOTALS, *(f"{JOBS}.{shard}" for shard in PARTS)):
            client.admin({"do": "delete", "queue": queue})
        client.admin({"do": "delete", "exchange": JOBS})
        print("done")


if __name__ == "__main__":
    main()
