"""As many worker processes as can be busy, on one machine: started and stopped by what GET /v1/queues/NAME/scale says.

    python examples/keda/supervisor.py http://HOST:PORT stomp://HOST:PORT QUEUE [--max 8]

What KEDA and Kubernetes do (README.md), in one file. A worker has the same name each time, so of a queue with
partition_key it gets the same keys again; before it is stopped it is drained, so that nothing comes back unfinished.
While the broker cannot be reached the workers stay as they are, and connect again by themselves.
"""

import argparse
import json
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from typing import Any

from radiator.client import Client

EVERY_S = 0.5
IDLE_ROUNDS = 3  # fewer workers only when so many looks in a row ask for fewer: a process costs more than a look
DRAIN_MS = 10_000


def say(line: str) -> None:
    """In one piece: the workers write to the same place."""
    print(f"{line}\n", end="", flush=True)


class Broker:
    """The requests over HTTP that this takes."""

    def __init__(self, url: str, queue: str) -> None:
        self.url = f"{url}/v1/queues/{urllib.parse.quote(queue, safe='')}"

    def useful_consumers(self) -> int:
        return int(self.ask("GET", "scale")["useful_consumers"])

    def drain(self, name: str) -> bool:
        """It gets nothing more. Whether it is known to have nothing any more."""
        try:
            return bool(self.ask("DELETE", f"consumers/{name}?wait_ms={DRAIN_MS}")["drained"])
        except OSError:
            return False

    def ask(self, method: str, path: str) -> dict[str, Any]:
        request = urllib.request.Request(f"{self.url}/{path}", method=method)
        with urllib.request.urlopen(request, timeout=DRAIN_MS / 1000 + 10) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


class Pool:
    """The workers that run, by name. idle: how many looks in a row have asked for fewer."""

    def __init__(self, broker: Broker, command: list[str], most: int) -> None:
        self.broker, self.command, self.most = broker, command, most
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.idle = 0

    def look(self) -> None:
        """Starts what is missing; stops one at a time of those that are too many."""
        self.running = {name: one for name, one in self.running.items() if one.poll() is None}  # one that died is over
        wanted = min(self.broker.useful_consumers(), self.most)
        self.idle = self.idle + 1 if wanted < len(self.running) else 0
        for number in range(self.most):
            name = f"worker-{number}"
            if len(self.running) < wanted and name not in self.running:
                self.running[name] = started = subprocess.Popen([*self.command, "--worker", name])
                say(f"{name} is started as process {started.pid}, for {wanted} that could be busy")
        if self.idle >= IDLE_ROUNDS:
            self.stop(max(self.running, key=lambda name: int(name.rpartition("-")[2])))

    def stop(self, name: str) -> None:
        """Once it has nothing any more, or has taken too long: what it has then comes to another one."""
        drained = self.broker.drain(name)
        process = self.running.pop(name)
        process.terminate()
        process.wait()
        say(f"{name} is stopped, {'with nothing left' if drained else 'in the middle of its work'}")


def work(address: str, queue: str, name: str) -> None:
    """A worker: one message after the other until it is told to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's, which drains it first
    with Client(address, reconnect=True) as client:
        client.subscribe(f"/queue/{queue}", ack="client-individual", consumer_name=name)
        for message in client.messages():
            time.sleep(0.02)  # the work
            say(f"{name} has done {message.body.decode()}")
            client.ack(message)  # last: the next one of its key may come to another worker now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("http", metavar="http://HOST:PORT")
    parser.add_argument("stomp", metavar="stomp://HOST:PORT")
    parser.add_argument("queue", metavar="QUEUE")
    parser.add_argument("--max", type=int, default=8, help="at most so many workers (8)")
    parser.add_argument("--worker", metavar="NAME", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is not None:
        work(given.stomp, given.queue, given.worker)
        return
    ends: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda which, _: ends.append(which))
    pool = Pool(Broker(given.http, given.queue), [sys.executable, *sys.argv], given.max)
    while not ends:
        try:
            pool.look()
        except OSError as error:
            say(f"The broker does not say how many could be busy: {error}")
        time.sleep(EVERY_S)
    for name in [*pool.running]:
        pool.stop(name)


if __name__ == "__main__":
    main()
