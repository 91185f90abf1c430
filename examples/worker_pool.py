"""A pool of workers: each job goes to one of them, and a job whose worker fails goes to another.

Run it against a broker on this machine: python examples/worker_pool.py [HOST:PORT]
"""

import sys
import threading

import stomp

QUEUE = "/queue/example.jobs"
JOBS = 12
WORKERS = 3


class Worker(stomp.ConnectionListener):
    """One worker with a connection of its own. The broker sends it one job at a time."""

    def __init__(self, name: str, host: str, port: int, done: list[str], all_done: threading.Event) -> None:
        self.name = name
        self.done = done
        self.all_done = all_done
        self.connection = stomp.Connection12([(host, port)])
        self.connection.set_listener("worker", self)
        self.connection.connect(wait=True)
        # client-individual: a job is finished when it is ACKed, not when it is sent to us
        self.connection.subscribe(QUEUE, id="jobs", ack="client-individual")

    def on_message(self, frame: stomp.utils.Frame) -> None:
        job = frame.body
        if job == "job 3" and frame.headers["redelivered"] == "false":
            print(f"{self.name} fails at {job}\n", end="", flush=True)
            self.connection.nack(frame.headers["ack"])  # somebody else may try
            return
        print(f"{self.name} has done {job}\n", end="", flush=True)
        self.connection.ack(frame.headers["ack"])  # and only now does the next job come
        self.done.append(job)
        if len(self.done) == JOBS:
            self.all_done.set()


def main(host: str, port: int) -> None:
    done: list[str] = []
    all_done = threading.Event()
    workers = [Worker(f"worker {number}", host, port, done, all_done) for number in range(WORKERS)]

    boss = stomp.Connection12([(host, port)])
    boss.connect(wait=True)
    for number in range(JOBS):
        boss.send(QUEUE, f"job {number}", content_type="text/plain")

    if not all_done.wait(10):
        sys.exit("Not all jobs were done within 10 seconds.")
    print(f"All {JOBS} jobs are done.")
    for worker in workers:
        worker.connection.disconnect()
    boss.disconnect()


if __name__ == "__main__":
    host, _, port = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:61613").rpartition(":")
    main(host, int(port))
