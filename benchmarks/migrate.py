"""How fast `radiator migrate` is: `python -m benchmarks.migrate`. It needs RabbitMQ, and py-amqp.

Durable messages of 1 KiB, from a RabbitMQ of its own to a Radiator of its own, both on this machine, with their real
syncs; whole runs of the command, with its start. Of a classic queue and of a quorum queue, whose definitions are known
(it consumes), and of a classic queue whose name alone is known (basic.get).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import amqp

from benchmarks.tls import say
from tests.acceptance.amqp_clients import CONFIG, port_of
from tests.broker_process import BrokerProcess, environment
from tests.rabbitmq import RabbitMq

BODY = "x" * 1024
KINDS = {"classic": (True, False), "quorum": (True, True), "classic, by --queue": (False, False)}
"""Whether it has definitions, and whether it is a quorum queue."""


def filled(channel: amqp.Channel, queue: str, messages: int, is_quorum: bool) -> None:
    arguments = {"x-queue-type": "quorum"} if is_quorum else {}
    channel.queue_declare(queue, durable=True, auto_delete=False, arguments=arguments)
    for _ in range(messages):
        channel.basic_publish(amqp.Message(BODY, delivery_mode=2), routing_key=queue)
    while channel.queue_declare(queue, passive=True).message_count < messages:
        time.sleep(0.1)


def run_s(old: RabbitMq, new: BrokerProcess, messages: int, *words: str) -> tuple[float, float]:
    """How long one run takes, which must have moved all, and how much CPU, each in seconds."""
    to = f"amqp://127.0.0.1:{port_of(new)}"
    line = [sys.executable, "-m", "radiator", "migrate", old.address, "--to", to, "--json", *words]
    begun_s, before = time.perf_counter(), os.times()
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, check=True)
    took_s, after = time.perf_counter() - begun_s, os.times()
    (row,) = json.loads(done.stdout)["queues"]
    assert row["moved"] == messages and row["left"] == 0, row
    cpu_s = sum(getattr(after, name) - getattr(before, name) for name in ("children_user", "children_system"))
    return took_s, cpu_s


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for one in ("old", "new"):
            (directory / one).mkdir()
        with RabbitMq(directory / "old") as old, BrokerProcess(directory / "new", CONFIG) as new:
            source, target = (amqp.Connection(f"127.0.0.1:{port}") for port in (old.port, port_of(new)))
            for connection in (source, target):
                connection.connect()
            for number, (kind, (is_defined, is_quorum)) in enumerate(KINDS.items()):
                queue, rates, cpu_us = f"q{number}", [], []
                target.channel().queue_declare(queue, durable=True, auto_delete=False)
                file = directory / f"{queue}.json"
                row = {"name": queue, "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
                file.write_text(json.dumps({"queues": [row]}))
                words = ["--definitions", str(file)] if is_defined else ["--queue", queue]
                for _ in range(given.rounds):
                    filled(source.channel(), queue, given.messages, is_quorum)
                    took_s, cpu_s = run_s(old, new, given.messages, *words)
                    rates.append(given.messages / took_s)
                    cpu_us.append(cpu_s / given.messages * 1e6)
                    target.channel().queue_purge(queue)
                all_rates = ", ".join(f"{rate:,.0f}" for rate in rates)
                rate, cpu = statistics.median(rates), statistics.median(cpu_us)
                say(f"{kind}: {rate:,.0f} messages/s (of {all_rates}), {cpu:.0f} us of the command's CPU for each")
    return 0


if __name__ == "__main__":
    sys.exit(main())
