"""Task distribution: a queue of jobs, and as many workers as its backlog needs; what cannot be done is set aside.

    python examples/task_distribution.py [--broker stomp://HOST:PORT]

Workers are started while the backlog is long and stopped when it is gone; one of them dies in the middle of a job, and
one job can never be done. The broker, too, may be stopped and started, or killed, while this runs: everybody connects
again, and nothing is lost. docs/TOPOLOGIES.md has a drawing.
"""

import contextlib
import threading
import time
from typing import Any

from own_broker import broker

from radiator.client import Client, ConnectionLost, Message

JOBS, FAILED = "example.tasks", "example.tasks.failed"
COUNT = 150
POISON = "job 40"  # nobody can do it
FATAL = "job 20"  # whoever tries it first dies of it
LATER = "job 60"  # it shall not begin before half a second has passed
WORK_S = 0.02
WORKERS_MAX = 6
BACKLOG_EACH = 15  # ready jobs for each worker: with more another one is started


def declare(client: Client) -> None:
    client.admin({"do": "declare", "queue": FAILED})  # persistent, without bounds: nobody may lose what failed
    client.admin(
        {
            "do": "declare",
            "queue": JOBS,
            # 1 + 3 deliveries, then the job goes to the other queue, with the reason
            "dead_letter": FAILED,
            "max_redeliveries": 3,
            # not at once: 50 ms, 100 ms, 200 ms. What made it fail may have passed by then, and a job that
            # always fails cannot keep the workers busy
            "redelivery_delay_ms": 50,
            "redelivery_delay_factor": 2,
            # a job that is sent again, since the connection was lost before its receipt, counts once
            "dedup_window_s": 600,
            # a worker that hangs, though its connection lives, loses its job after so long; one that needs longer
            # for a job says so: {"do": "extend"}
            "ack_timeout_s": 30,
            # who sends faster than all workers together can work waits, rather than fill the disk
            "max_messages": 100_000,
            "overflow": "block",
        }
    )


class Worker(threading.Thread):
    """Does one job after the other until it is told to stop. It may come and go at any time: one that cannot connect
    ends, and the pool starts another.
    """

    def __init__(self, address: str, number: int, done: "Done") -> None:
        super().__init__(name=f"worker {number}")
        self.address, self.done = address, done
        self.stop = threading.Event()

    def run(self) -> None:
        with contextlib.suppress(ConnectionLost), Client(self.address, reconnect=True) as client:
            # No prefetch-count: one job at a time for each worker. What a worker has in hand others cannot do, so for
            # jobs that take long, few in hand are best; for many tiny ones prefetch-count:50 saves time.
            client.subscribe(f"/queue/{JOBS}", ack="client-individual")
            while not self.stop.is_set():
                job = client.receive(0.05)
                if job is not None:
                    self.work(client, job)

    def work(self, client: Client, job: Message) -> None:
        name = job.body.decode()
        time.sleep(WORK_S)
        if name == FATAL and "redelivery-count" not in job.headers:
            print(f"{self.name} dies of {name}\n", end="")
            raise SystemExit  # without a word to the broker: the job goes to another worker
        if name == POISON:
            client.nack(job)  # with `requeue=False` it would be set aside at once
            return
        # returns when the disk has it: this job never comes again (or False: the connection was lost, and it may)
        client.ack(job)
        self.done.add(name)


class Done:
    """What has been done, by all of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.names: list[str] = []

    def add(self, name: str) -> None:
        with self._lock:
            self.names.append(name)


class Pool:
    """As many workers as the backlog needs. It asks the broker; so does `radiator top`."""

    def __init__(self, address: str, client: Client) -> None:
        self.address, self.client = address, client
        self.done = Done()
        self.workers: list[Worker] = []
        self.started = 0

    def describe(self) -> dict[str, Any]:
        while True:
            try:
                described: dict[str, Any] = self.client.admin({"do": "describe", "queue": JOBS})
                return described
            except ConnectionLost:  # before the answer came: it is connected again with the next request
                time.sleep(0.1)

    def adjust(self, backlog: dict[str, Any]) -> None:
        """One more, or one less, by what waits."""
        self.workers = [worker for worker in self.workers if worker.is_alive()]
        if len(self.workers) < WORKERS_MAX and backlog["ready"] > BACKLOG_EACH * len(self.workers):
            self.started += 1
            self.workers.append(Worker(self.address, self.started, self.done))
            self.workers[-1].start()
        elif len(self.workers) > 1 and backlog["ready"] == 0:
            self.workers.pop().stop.set()  # it ends what it has in hand

    def end(self) -> None:
        for worker in self.workers:
            worker.stop.set()
        for worker in self.workers:
            worker.join()


def send_jobs(client: Client) -> None:
    """With confirms: 100 receipts at a time are outstanding, and `flush` returns when the disk has every job."""
    for number in range(1, COUNT + 1):
        name = f"job {number}"
        # delay: the broker keeps it back; no worker has to hold what it may not begin yet
        headers = {"delay": "500"} if name == LATER else {}
        client.send(f"/queue/{JOBS}", name, headers, confirm=False)
    client.flush()


def main() -> None:
    with broker(__doc__) as address, Client(address, reconnect=True, dedup=True) as client:
        declare(client)
        began_s = time.monotonic()
        send_jobs(client)
        print(f"{COUNT} jobs are on the disk")
        pool = Pool(address, client)
        most = turns = 0
        try:
            backlog = pool.describe()
            while backlog["messages"]:
                pool.adjust(backlog)
                most = max(most, len(pool.workers))
                if turns % 5 == 0:
                    numbers = ", ".join(f"{backlog[name]} {name}" for name in ("ready", "unacked", "delayed"))
                    print(f"  {time.monotonic() - began_s:3.1f} s: {numbers}; {backlog['consumers']} workers")
                turns += 1
                time.sleep(0.05)
                backlog = pool.describe()
        finally:
            pool.end()
        print(f"{len(set(pool.done.names))} jobs are done, by up to {most} workers")

        dead = client.admin({"do": "peek", "queue": FAILED})["messages"]
        for message in dead:
            reason = dict(message["headers"])["dead-letter-reason"]
            print(f"set aside: {message['body']}, for {reason}")
        moved = client.admin({"do": "move", "from": FAILED, "to": JOBS})["moved"]
        print(f"when the cause is mended, it can be tried again: {moved} moved back (radiator move {FAILED} {JOBS})")
        client.admin({"do": "delete", "queue": JOBS})
        client.admin({"do": "delete", "queue": FAILED})
        print("done")


if __name__ == "__main__":
    main()
