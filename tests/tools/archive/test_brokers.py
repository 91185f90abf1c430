"""Real brokers that are killed under load: whatever they do, every message is accounted for, in the store and in an
archive that follows.
"""

import json
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from radiator.client import Client
from radiator.model.errors import RadiatorError
from radiator.tools.cli import main
from tests.broker_process import BrokerProcess

pytest.importorskip("pyarrow", reason='the archive needs pyarrow: pip install ".[archive]"')

CONFIG = """
[journal]
enabled = true
[queue.orders]
dead_letter = "dead"
max_redeliveries = 2
[queue.dead]
[queue.audit]
[queue.mail]
[queue.brief]
message_ttl_ms = 100
[queue.small]
max_messages = 20
overflow = "drop-oldest"
[fanout.news]
children = ["audit", "mail", "small"]
[create]
queues = true
"""


def work(broker: BrokerProcess, seed: int, stop: threading.Event) -> None:
    """Everything that ends a message, in any order, until the broker is gone and `stop` is set."""
    random = Random(seed)
    while not stop.is_set():
        try:
            with Client(broker.address, answer_timeout_s=3) as client:
                client.subscribe("/queue/orders", ack="client-individual", headers={"prefetch-count": "20"})
                client.subscribe("/queue/mail", ack="auto")
                while not stop.is_set():
                    step(client, random)
        except (RadiatorError, OSError):
            time.sleep(0.05)


def step(client: Client, random: Random) -> None:
    chance = random.random()
    if chance < 0.3:
        headers = {"delay": str(random.randrange(300))} if random.random() < 0.3 else {}
        client.send("/queue/orders", b"x" * random.randrange(300), headers=headers)
    elif chance < 0.4:
        client.send("/fanout/news", b"n")
        client.send("/queue/brief", b"b")
    elif chance < 0.42:
        client.admin({"do": "move", "from": "dead", "to": "audit"})
    elif chance < 0.43:
        client.admin({"do": "purge", "queue": "audit"})
    elif chance < 0.44:
        client.send("/queue/gone", b"g")
        client.admin({"do": "delete", "queue": "gone", "if_unused": False})
    elif chance < 0.46:
        taken = client.admin({"do": "checkout", "queue": "audit", "group": "g", "max_messages": 5, "max_bytes": 10_000})
        client.admin({"do": "checkout-ack", "queue": "audit", "group": "g", "before": max(0, taken["next"] - 2)})
    elif chance < 0.465:
        client.admin({"do": "checkout-release", "queue": "audit", "group": "g"})
    else:
        message = client.receive(0.05)
        if message is not None and message.destination.startswith("/queue/orders"):
            (client.nack if random.random() < 0.3 else client.ack)(message)


@pytest.mark.slow
def test_every_message_is_accounted_for_after_each_kill(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def audited(*where: str) -> dict[str, Any]:
        status = main(["audit", *where, "--json"])
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert status == 0 and answer["wrong"] == [] and answer["stretches"] == 1, answer
        return answer

    archive = str(tmp_path / "archive")
    seen: set[str] = set()
    with BrokerProcess(tmp_path, CONFIG) as broker:
        for boot in range(4):
            stop = threading.Event()
            workers = [threading.Thread(target=work, args=(broker, 10 * boot + one, stop)) for one in range(3)]
            for worker in workers:
                worker.start()
            time.sleep(2)
            audited("--data", str(broker.data_dir))  # while it runs
            if boot == 1:
                broker.stop()
            else:
                broker.kill()
            stop.set()
            for worker in workers:
                worker.join()
            of_store = audited("--data", str(broker.data_dir))
            assert main(["archive", "--config", str(broker.config_file), "--to", archive]) == 0
            capsys.readouterr()
            assert audited("--archive", archive) == of_store
            seen |= {*of_store["counts"]}
            broker.start()
    assert main(["archive", "--verify", archive]) == 0
    assert seen >= {"acked", "dead-lettered", "dropped", "checked-out", "stored"}
