"""Dead letters by an exchange: the usual way to try again later, over a real connection."""

import json
from typing import Any

import pytest

from tests.acceptance.conftest import Connect, queue_stats
from tests.broker_process import BrokerProcess

CONFIG = """\
[create]
queues = true
[queue."work"]
dead_letter_exchange = "retries"
dead_letter_key = "later"
[queue."later"]
message_ttl_ms = 100
dead_letter_exchange = ""
dead_letter_key = "work"
[exchange."retries"]
bindings = [{ key = "later", queue = "later" }]
"""


def test_what_a_worker_rejects_comes_back_again_and_again(broker: BrokerProcess, connect: Connect) -> None:
    worker = connect()
    worker.subscribe("/queue/work")
    worker.send("/queue/work", "job", {"x-death": "forged", "kept": "yes"})
    for times in range(4):
        message = worker.message()
        assert (message.body, message["kept"]) == (b"job", "yes")
        deaths = json.loads(message["x-death"]) if "x-death" in message else []
        assert [one["count"] for one in deaths] == [times] * len(deaths) and len(deaths) == (2 if times else 0)
        if times < 3:
            worker.nack(message, {"requeue": "false"})
    assert deaths[0].pop("time") <= deaths[1].pop("time") + 60
    assert deaths == [
        {"queue": "later", "reason": "expired", "count": 3, "exchange": "retries", "routing-keys": ["later"]},
        {"queue": "work", "reason": "rejected", "count": 3, "exchange": "", "routing-keys": ["work"], "first": True},
    ]
    worker.ack(message)
    worker.fence()
    assert queue_stats(broker, "/queue/work")["stored"] == queue_stats(broker, "/queue/later")["stored"] == 0


@pytest.mark.parametrize("key", ["nowhere", "later"])
def test_queue_of_this_kind_is_declared_at_run_time(connect: Connect, key: str) -> None:
    client = connect()
    asked = {"do": "declare", "queue": f"made.{key}", "dead_letter_exchange": "retries", "dead_letter_key": key}

    def answer(**request: str) -> Any:
        return json.loads(client.admin(json.dumps(request).encode()))

    assert answer(**asked)["created"]
    settings = answer(do="describe", queue=f"made.{key}")["settings"]
    assert (settings["dead_letter_exchange"], settings["dead_letter_key"]) == ("retries", key)
    sentence = answer(do="why", queue=f"made.{key}")["sentence"]
    assert ("no binding of /exchange/retries matches" in sentence) == (key == "nowhere")
