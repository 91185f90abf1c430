"""The client library beside a raw socket that sends the same frames, on one broker, in turns: `python -m
benchmarks.client`.

The raw socket has its SENDs prepared, one write each, with as many RECEIPTs outstanding as the client; as a consumer it
reads nothing of a MESSAGE but its `ack`. It checks nothing: it is the least that Python can do.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.peers import CHECKOUT
from benchmarks.processes import Launch, running
from benchmarks.raw import READ_BYTES, connected
from radiator.client import Client
from tests.ports import free_port

BODY = b"x" * 1024
WINDOW = 100
CONFIG = """\
[server]
listen = ["stomp://127.0.0.1:{port}"]
data_dir = "data"
[create]
queues = true
"""


def raw_send(port: int, messages: int) -> float:
    frame = b"SEND\ndestination:/queue/raw\ncontent-length:1024\nreceipt:r%d\n\n%b\0"
    frames = [frame % (number, BODY) for number in range(messages)]
    with connected(port) as one:
        began_s, sent, confirmed = time.perf_counter(), 0, 0
        while confirmed < messages:
            while sent < messages and sent - confirmed < WINDOW:
                one.sendall(frames[sent])
                sent += 1
            confirmed += one.recv(READ_BYTES).count(b"\0")
        return messages / (time.perf_counter() - began_s)


def raw_receive(port: int, messages: int) -> float:
    with connected(port) as one:
        began_s, acked, confirmed, data = time.perf_counter(), 0, 0, b""
        one.sendall(b"SUBSCRIBE\nid:0\ndestination:/queue/raw\nack:client-individual\nprefetch-count:%d\n\n\0" % WINDOW)
        while confirmed < messages:
            data += one.recv(READ_BYTES)
            position = 0
            while (end := data.find(b"\0", position)) >= 0:
                if data.startswith((b"MESSAGE", b"\nMESSAGE"), position):  # frames may have a line feed between them
                    ack = data.index(b"\nack:", position) + 5
                    one.sendall(b"ACK\nid:%b\nreceipt:r%d\n\n\0" % (data[ack : data.index(b"\n", ack)], acked))
                    acked += 1
                else:
                    confirmed += 1
                position = end + 1
            data = data[position:]
        return messages / (time.perf_counter() - began_s)


def client_send(port: int, messages: int) -> float:
    with Client(f"stomp://127.0.0.1:{port}", window=WINDOW) as client:
        began_s = time.perf_counter()
        for _ in range(messages):
            client.send("/queue/client", BODY, confirm=False)
        client.flush()
        return messages / (time.perf_counter() - began_s)


def client_receive(port: int, messages: int) -> float:
    # the raw socket does not count the RECEIPTs of its ACKs either
    with Client(f"stomp://127.0.0.1:{port}", window=messages) as client:
        began_s = time.perf_counter()
        client.subscribe("/queue/client", ack="client-individual", prefetch=WINDOW)
        for _ in range(messages):
            message = client.receive(30)
            assert message is not None, "a message did not come within 30 s"
            client.ack(message, confirm=False)
        client.flush()
        return messages / (time.perf_counter() - began_s)


PAIRS: dict[str, tuple[Callable[[int, int], float], Callable[[int, int], float]]] = {
    "send, window 100": (raw_send, client_send),
    "receive and ack, prefetch 100, each ACK receipted": (raw_receive, client_receive),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.client", description=__doc__)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    rates: dict[str, list[tuple[float, float]]] = {name: [] for name in PAIRS}
    port = free_port()
    launch = Launch(
        commands=[[sys.executable, "-m", "radiator", "serve", "--config", "config.toml"]],
        port=port,
        environment={"PYTHONPATH": str(CHECKOUT)},
        files={"config.toml": CONFIG.format(port=port)},
    )
    with tempfile.TemporaryDirectory() as directory, running(launch, Path(directory) / "broker"):
        for _ in range(arguments.rounds):
            for name, (by_raw, by_client) in PAIRS.items():
                rates[name].append((by_raw(port, arguments.messages), by_client(port, arguments.messages)))
    for name, both in rates.items():
        one, other = (statistics.median(rate) for rate in zip(*both, strict=True))
        share = statistics.median(by_client / by_raw for by_raw, by_client in both)
        sys.stdout.write(f"{name}: raw {one:,.0f}/s, client {other:,.0f}/s; median of the shares {share:.0%}\n")


if __name__ == "__main__":
    main()
