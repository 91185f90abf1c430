"""The brokers that are compared, each as a process of its own: how it is started, and what its answer means.

All listen on 127.0.0.1 only, keep their data in one directory, and start with none. Where a setting of a peer could be
held against the comparison, it was set in the peer's favour, and docs/BENCHMARKS.md says so.
"""

import json
import re
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import gevent
import lmdb

import radiator
from benchmarks import amqp
from benchmarks.amqp_wires import BODY_MAX_BYTES, AmqpWire
from benchmarks.processes import Launch, Running
from benchmarks.shapes import Case
from benchmarks.wires import (
    NAME,
    BeanstalkRequestWire,
    BeanstalkWire,
    CoilRequestWire,
    CoilTopicWire,
    CoilWire,
    NatsRequestWire,
    NatsStreamWire,
    NatsTopicWire,
    RedisRequestWire,
    RedisStreamWire,
    RedisTopicWire,
    StompRequestWire,
    StompTopicWire,
    StompTransientWire,
)
from radiator.tools.cli.load import LoadFailed, StompWire, Wire
from tests.ports import free_port

CHECKOUT = Path(__file__).resolve().parent.parent
INSTALLED = CHECKOUT / "build" / "peers"  # what --install-peers puts beside the system's own
ANSWER_MAX_S = 30.0


class Peer:
    """name: in tables. confirms: what its answer to a persistent SEND means. is_slow_to_start: one process serves a
    whole case, paused while others are measured, with a queue of its own for each measurement."""

    name: ClassVar[str]
    confirms: ClassVar[str]
    is_slow_to_start = False

    def missing(self) -> str:
        """Why it cannot be measured here; empty: it can."""
        raise NotImplementedError

    def version(self) -> str:
        raise NotImplementedError

    def launch(self, case: Case) -> Launch:
        raise NotImplementedError

    def lacks(self, case: Case) -> str:
        """Why it has no such row; empty: it has."""
        return ""

    def prepare(self, broker: Running, case: Case) -> Wire:
        """All is ready for the load of this case."""
        raise NotImplementedError

    def tidy(self, broker: Running, wire: Wire) -> None:
        """After a measurement, where the process lives on."""


def program(name: str, *places: str) -> str:
    """Where it is; empty: nowhere. Servers are often not on the path."""
    found = shutil.which(name, path=":".join((*places, "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin")))
    return found or shutil.which(name) or ""


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.strip()


# ---- Radiator


_RADIATOR_CONFIG = """\
[server]
listen = ["stomp://127.0.0.1:{port}"]
data_dir = "data"

[limits]
max_connections = 20000
max_destinations = 20000

[create]
queues = true
topics = true

[queue."persistent"]

[queue."memory"]
persistent = false
max_messages = 10000000
max_bytes = "8GiB"
"""


class Radiator(Peer):
    name = "radiator"
    confirms = "RECEIPT: the message is in the store, in a transaction that has been flushed to the device."

    def missing(self) -> str:
        return ""

    def version(self) -> str:
        return (f"{radiator.__version__}, Python {sys.version.split()[0]}, gevent {gevent.__version__}, "
                f"LMDB {'.'.join(map(str, lmdb.version()))}")  # fmt: skip

    def launch(self, case: Case) -> Launch:
        port = free_port()
        command = [sys.executable, "-m", "radiator", "serve", "--config", "config.toml"]
        return Launch(commands=[command], port=port, environment={"PYTHONPATH": str(CHECKOUT)},
                      files={"config.toml": _RADIATOR_CONFIG.format(port=port)})  # fmt: skip

    def prepare(self, broker: Running, case: Case) -> Wire:
        if case.kind == "topic":
            return StompTopicWire("/topic/" + NAME, body_bytes=case.body_bytes)
        if case.kind == "request":
            return StompRequestWire("/queue/memory", body_bytes=case.body_bytes)
        return StompWire("/queue/" + ("persistent" if case.is_persistent else "memory"), body_bytes=case.body_bytes)


class RadiatorAmqp(Radiator):
    """Over AMQP, with the frames that RabbitMQ gets."""

    name = "radiator-amqp"
    confirms = (
        "basic.ack of a publisher confirm, durable queue, delivery_mode 2: as its RECEIPT, in the store and synced."
    )

    def launch(self, case: Case) -> Launch:
        launch = super().launch(case)
        files = {name: text.replace("stomp://", "amqp://") for name, text in launch.files.items()}
        return replace(launch, files=files)

    def lacks(self, case: Case) -> str:
        return lacks_over_amqp(case)

    def prepare(self, broker: Running, case: Case) -> Wire:
        return over_amqp(broker, case, NAME)


def lacks_over_amqp(case: Case) -> str:
    if case.kind != "queue":
        return "the load speaks AMQP with queues alone"
    if case.shape.ack_receipts:
        return "AMQP has no answer to an ack"
    return (
        "" if case.body_bytes <= BODY_MAX_BYTES else f"the load speaks AMQP with bodies of {BODY_MAX_BYTES} B at most"
    )


def over_amqp(broker: Running, case: Case, queue: str) -> AmqpWire:
    """The queue is declared: durable, with messages of delivery mode 2, or in memory, with those of 1."""
    amqp.declare_queue(broker.port, queue, case.is_persistent)
    return AmqpWire(queue, case.is_persistent, case.body_bytes)


# ---- beanstalkd


class Beanstalkd(Peer):
    name = "beanstalkd"
    confirms = "INSERTED: the job is in the binlog, which was synced behind it (-f 0)."

    def missing(self) -> str:
        return "" if program("beanstalkd") else "beanstalkd is not installed"

    def version(self) -> str:
        return _output(program("beanstalkd"), "-v").removeprefix("beanstalkd ")

    def launch(self, case: Case) -> Launch:
        port = free_port()
        binlog = ["-b", "DIR", "-f", "0"] if case.is_persistent else []
        # bodies of 64 KiB are over its bound as it comes
        command = [program("beanstalkd"), "-l", "127.0.0.1", "-p", str(port), "-z", str(8 << 20), *binlog]
        return Launch(commands=[command], port=port)

    def lacks(self, case: Case) -> str:
        return "it has no topics" if case.kind == "topic" else ""

    def prepare(self, broker: Running, case: Case) -> Wire:
        if case.kind == "request":
            return BeanstalkRequestWire(body_bytes=case.body_bytes)
        return BeanstalkWire(is_pipelined=not case.shape.ack_receipts, body_bytes=case.body_bytes)


# ---- RabbitMQ


_RABBITMQ_CONFIG = """\
listeners.tcp.1 = 127.0.0.1:{amqp_port}
stomp.listeners.tcp.1 = 127.0.0.1:{port}
log.file = false
log.console = true
log.console.level = warning
disk_free_limit.absolute = 50MB
vm_memory_high_watermark.relative = 0.6
"""


class RabbitMQ(Peer):
    """Classic durable queues. The AMQP port is there to delete the queues with."""

    name = "rabbitmq"
    confirms = (
        "RECEIPT (a publisher confirm underneath), persistent:true to a durable classic queue: the message was written "
        "to disk. 3.x calls fsync first and shares it among what waits; newer classic queues may confirm without."
    )
    is_slow_to_start = True
    headers = ""

    def __init__(self) -> None:
        self._queues = 0

    def _script(self, name: str) -> str:
        # the distribution's own wrappers in sbin change the user; these do not
        return program(name, "/usr/lib/rabbitmq/bin", "/opt/rabbitmq/sbin")

    def missing(self) -> str:
        return "" if self._script("rabbitmq-server") else "rabbitmq-server is not installed"

    def version(self) -> str:
        erlang = _output("erl", "-noshell", "-eval", "io:put_chars(erlang:system_info(otp_release)), halt().")
        # `rabbitmqctl version` would leave an epmd behind
        found = re.search(r"rabbitmq_server-([\d.]+)", str(Path(self._script("rabbitmq-server")).resolve()))
        return f"{found[1] if found else '?'}, Erlang {erlang}, STOMP plugin"

    def launch(self, case: Case) -> Launch:
        port, amqp_port, epmd_port, dist_port = (free_port() for _ in range(4))
        environment = {
            "HOME": "DIR",
            "ERL_EPMD_PORT": str(epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_AMQP_PORT": str(amqp_port),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": "DIR/rabbitmq.conf",
            "RABBITMQ_DIST_PORT": str(dist_port),
            "RABBITMQ_ENABLED_PLUGINS_FILE": "DIR/enabled_plugins",
            "RABBITMQ_LOG_BASE": "DIR/log",
            "RABBITMQ_MNESIA_BASE": "DIR/mnesia",
            "RABBITMQ_NODENAME": f"bench{port}@localhost",
            "RABBITMQ_PID_FILE": "DIR/pid",
        }
        return Launch(
            commands=[[program("epmd"), "-port", str(epmd_port)], [self._script("rabbitmq-server")]],
            port=port,
            ports_before=[epmd_port],  # RabbitMQ would start one itself that outlives it
            environment=environment,
            files={
                "rabbitmq.conf": _RABBITMQ_CONFIG.format(port=port, amqp_port=amqp_port),
                "enabled_plugins": "[rabbitmq_stomp].\n",
            },
        )

    def prepare(self, broker: Running, case: Case) -> Wire:
        self._queues += 1
        place = f"/topic/{NAME}" if case.kind == "topic" else f"/queue/{NAME}{self._queues}"
        kind: type[StompWire] = StompWire if case.is_persistent else StompTransientWire
        if case.kind != "queue":
            kind = StompTopicWire if case.kind == "topic" else StompRequestWire
        headers = self.headers if case.kind == "queue" else ""
        wire = kind(place, "/", "guest", "guest", case.body_bytes, headers)
        # the queue is made once, before all connections would make it at the same moment
        converse(broker.port, wire.hello(consumer=True)[0], b"subscribed\n")
        return wire

    def tidy(self, broker: Running, wire: Wire) -> None:
        amqp.delete_queue(int(broker.launch.environment["RABBITMQ_AMQP_PORT"]), f"{NAME}{self._queues}")


class RabbitMQQuorum(RabbitMQ):
    """Quorum queues, of one node here: what its makers recommend for data that matters."""

    name = "rabbitmq-quorum"
    confirms = "RECEIPT, persistent:true to a quorum queue of one member: in its write-ahead log, synced."
    headers = "x-queue-type:quorum"

    def lacks(self, case: Case) -> str:
        return "" if case.is_persistent else "quorum queues are always persistent"


class RabbitMQAmqp(RabbitMQ):
    """Over its own protocol, without the plugin."""

    name = "rabbitmq-amqp"
    confirms = "basic.ack of a publisher confirm, durable classic queue, delivery_mode 2: what its RECEIPT means."

    def version(self) -> str:
        return super().version().replace("STOMP plugin", "AMQP 0-9-1")

    def launch(self, case: Case) -> Launch:
        launch = super().launch(case)
        lines = launch.files["rabbitmq.conf"].splitlines(keepends=True)
        config = "".join(line for line in lines if not line.startswith("stomp."))
        files = {"rabbitmq.conf": config, "enabled_plugins": "[].\n"}
        return replace(launch, port=int(launch.environment["RABBITMQ_AMQP_PORT"]), files=files)

    def lacks(self, case: Case) -> str:
        return lacks_over_amqp(case)

    def prepare(self, broker: Running, case: Case) -> Wire:
        self._queues += 1
        return over_amqp(broker, case, f"{NAME}{self._queues}")


# ---- Redis


class Redis(Peer):
    name = "redis"
    confirms = (
        "The answer to XADD: in the append-only file, which was synced before answers are sent (appendfsync always). "
        "Acked entries stay in the stream, which spares Redis the deletion that the others make."
    )

    def missing(self) -> str:
        return "" if program("redis-server") else "redis-server is not installed"

    def version(self) -> str:
        found = re.search(r"v=(\S+)", _output(program("redis-server"), "--version"))
        return found[1] if found else "?"

    def launch(self, case: Case) -> Launch:
        port = free_port()
        store = ["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"]
        command = [program("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--dir", "DIR", "--save", "",
                   "--maxclients", "20000",
                   *(store if case.is_persistent else ["--appendonly", "no"])]  # fmt: skip
        return Launch(commands=[command], port=port)

    def prepare(self, broker: Running, case: Case) -> Wire:
        if case.kind == "topic":
            return RedisTopicWire(case.body_bytes)
        if case.kind == "request":
            return RedisRequestWire(case.body_bytes)
        wire = RedisStreamWire(not case.shape.ack_receipts, case.body_bytes)
        converse(broker.port, wire.prepare(), b"+OK\r\n")
        return wire


# ---- NATS


_NATS_CONFIG = """\
server_name: bench
listen: 127.0.0.1:{port}
max_payload: 8MB
jetstream {{
  store_dir: "DIR/jetstream"
  max_file_store: 100GB
  max_memory_store: 8GB{sync}
}}
"""


class Nats(Peer):
    """JetStream, one node. Streams are work queues: what is acknowledged is deleted."""

    name = "nats"
    confirms = (
        "The publish acknowledgement of a file stream with sync_interval: always (2.10 or newer): written and synced. "
        "What its consumers have acknowledged is written behind, not synced."
    )

    def _program(self) -> str:
        return program("nats-server", str(INSTALLED / "nats" / "usr" / "sbin"))

    def can_sync(self) -> bool:
        major, minor = self._number()[:2]
        return (major, minor) >= (2, 10)

    def _number(self) -> tuple[int, ...]:
        program = self._program()
        found = re.search(r"v(\d+)\.(\d+)\.(\d+)", _output(program, "--version")) if program else None
        return tuple(map(int, found.groups())) if found else (0, 0, 0)

    def missing(self) -> str:
        return "" if self._program() else "nats-server is not installed"

    def version(self) -> str:
        return ".".join(map(str, self._number()))

    def launch(self, case: Case) -> Launch:
        port = free_port()
        sync = "\n  sync_interval: always" if self.can_sync() and case.is_persistent else ""
        return Launch(commands=[[self._program(), "-c", "DIR/nats.conf"]], port=port,
                      files={"nats.conf": _NATS_CONFIG.format(port=port, sync=sync)})  # fmt: skip

    def lacks(self, case: Case) -> str:
        if case.is_persistent and not self.can_sync():
            return f"{self.version()} cannot sync before it acknowledges: that takes 2.10 (sync_interval: always)"
        return ""

    def prepare(self, broker: Running, case: Case) -> Wire:
        if case.kind == "topic":
            return NatsTopicWire(case.body_bytes)
        if case.kind == "request":
            return NatsRequestWire(case.body_bytes)
        stream = {"name": NAME, "subjects": [NAME], "retention": "workqueue", "num_replicas": 1, "max_msgs": -1,
                  "max_bytes": -1, "storage": "file" if case.is_persistent else "memory"}  # fmt: skip
        consumer = {"stream_name": NAME, "config": {
            "durable_name": "c", "deliver_policy": "all", "ack_policy": "explicit", "ack_wait": 3600 * 10**9,
            "max_ack_pending": -1, "replay_policy": "instant"}}  # fmt: skip
        sent = b'CONNECT {"verbose":false}\r\nSUB i.0 1\r\n'
        for subject, request in (("STREAM.CREATE", stream), ("CONSUMER.DURABLE.CREATE", consumer)):
            text = json.dumps(request).encode()
            place = f"{subject}.{NAME}" + (".c" if "CONSUMER" in subject else "")
            sent += b"PUB $JS.API.%b i.0 %d\r\n%b\r\n" % (place.encode(), len(text), text)
        converse(broker.port, sent, b"consumer_create_response")
        return NatsStreamWire(not case.shape.ack_receipts, case.body_bytes)


# ---- CoilMQ


_COIL_CONFIG = """\
[coilmq]
listen_addr = 127.0.0.1
listen_port = {port}
qstore.factory = {store}
qstore.sqlalchemy.url = sqlite:///DIR/queues.db
debug.stats_poll_interval = 0
"""


class CoilMQ(Peer):
    name = "coilmq"
    confirms = "RECEIPT, with the SQLAlchemy store on SQLite (synchronous=FULL, its default): one commit each, synced."

    def _program(self) -> str:
        return program("coilmq", str(INSTALLED / "coilmq" / "bin"))

    def missing(self) -> str:
        return "" if self._program() else "coilmq is not installed"

    def version(self) -> str:
        python = Path(self._program()).parent / "python"
        return _output(str(python), "-c",
                     "from importlib.metadata import version as v; from platform import python_version as p;"
                     "print(f'{v(\"coilmq\")}, SQLAlchemy {v(\"sqlalchemy\")}, Python {p()}')")  # fmt: skip

    def launch(self, case: Case) -> Launch:
        port = free_port()
        store = "coilmq.store.sa.make_sa" if case.is_persistent else "coilmq.store.memory.MemoryQueue"
        return Launch(commands=[[self._program(), "-c", "coilmq.cfg"]], port=port,
                      files={"coilmq.cfg": _COIL_CONFIG.format(port=port, store=store)})  # fmt: skip

    def prepare(self, broker: Running, case: Case) -> Wire:
        if case.kind == "topic":
            return CoilTopicWire("/topic/" + NAME, case.body_bytes)
        if case.kind == "request":
            return CoilRequestWire("/queue/requests", case.body_bytes)
        return CoilWire("/queue/" + NAME, case.body_bytes)


def converse(port: int, sent: bytes, until: bytes) -> None:
    """Says it, and waits for the answer that is wanted."""
    with socket.create_connection(("127.0.0.1", port), ANSWER_MAX_S) as connection:
        connection.sendall(sent)
        answer = b""
        while until not in answer:
            more = connection.recv(4096)
            answer += more
            if not more or b'"error"' in answer or answer.startswith(b"-"):
                raise LoadFailed(f"The broker refused what the load needs: {answer[-300:]!r}.")


PEERS: tuple[Peer, ...] = (Radiator(), RadiatorAmqp(), Beanstalkd(), RabbitMQ(), RabbitMQQuorum(), RabbitMQAmqp(),
                           Redis(), Nats(), CoilMQ())  # fmt: skip
