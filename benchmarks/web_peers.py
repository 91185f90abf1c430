"""The doors for the web of other brokers, for `benchmarks.web --peers`: RabbitMQ's management API, whose publish waits
for a confirm, and JetStream of NATS over WebSocket, which syncs before it acknowledges.
"""

import json
import socket
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.peers import Nats, RabbitMQ, converse
from benchmarks.processes import Running, running
from benchmarks.shapes import CASES
from benchmarks.websocket import UPGRADE, message
from benchmarks.wires import NAME
from radiator.tools.cli.load import LoadFailed
from tests.ports import free_port
from tests.protocols.http.asking import request

PERSISTENT = CASES[0]
GUEST = {"Authorization": f"Basic {b64encode(b'guest:guest').decode()}", "Content_Type": "application/json"}
START_MAX_S = 60.0
BODY = b"x" * 1024


@contextmanager
def rabbitmq(directory: Path) -> Iterator[tuple[Running, int]]:
    """With a durable queue; and the port of its management API."""
    port = free_port()
    launch = RabbitMQ().launch(PERSISTENT)
    launch.files["rabbitmq.conf"] += f"management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {port}\n"
    launch.files["enabled_plugins"] = "[rabbitmq_stomp, rabbitmq_management].\n"
    with running(launch, directory) as broker:
        declare = request("PUT", f"/api/queues/%2F/{NAME}", b'{"durable":true}', Host="localhost", **GUEST)
        end_s = time.monotonic() + START_MAX_S
        while True:
            try:
                converse(port, declare, b"HTTP/1.1 201 ")
                break
            except (OSError, LoadFailed):
                if time.monotonic() > end_s:
                    raise
                time.sleep(0.5)
        yield broker, port


def rabbitmq_publish() -> bytes:
    """A request for it; answered with `"routed":true`."""
    asked = {
        "properties": {"delivery_mode": 2},
        "routing_key": NAME,
        "payload": BODY.decode(),
        "payload_encoding": "string",
    }
    path = "/api/exchanges/%2F/amq.default/publish"
    return request("POST", path, json.dumps(asked).encode(), Host="localhost", **GUEST)


@contextmanager
def nats(directory: Path) -> Iterator[tuple[Running, int]]:
    """With a stream; and the port of its WebSocket."""
    port = free_port()
    launch = Nats().launch(PERSISTENT)
    launch.files["nats.conf"] += f'websocket {{\n  listen: "127.0.0.1:{port}"\n  no_tls: true\n}}\n'
    with running(launch, directory) as broker:
        Nats().prepare(broker, PERSISTENT)
        yield broker, port


def nats_hello(connection: socket.socket) -> bytes:
    """What that connection publishes with is its own (acknowledged with `"seq":`): who listens to
    an inbox gets all that is sent there.
    """
    connection.sendall(UPGRADE.replace(b"GET /ws ", b"GET / "))
    answer = b""
    while b"INFO " not in answer:
        answer += connection.recv(65_536)
    inbox = b"i.%d" % connection.fileno()
    connection.sendall(message(b'CONNECT {"verbose":false}\r\nSUB %b 1\r\nPING\r\n' % inbox))
    while b"PONG" not in answer:
        answer += connection.recv(65_536)
    return message(b"PUB %b %b %d\r\n%b\r\n" % (NAME.encode(), inbox, len(BODY), BODY))
