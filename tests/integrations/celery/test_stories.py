"""What has become of a task, asked for by its id, which is the correlation-id of its messages: docs/CELERY.md."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from radiator.client import Client
from radiator.model.errors import Refusal
from radiator.tools.cli import main
from tests.broker_process import BrokerProcess
from tests.integrations.celery.conftest import CONFIG
from tests.integrations.celery.crew import until
from tests.integrations.celery.publisher import task
from tests.integrations.celery.worker_process import WorkerProcess

RESULT_S = 10


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG + "[journal]\nenabled = true\n") as running:
        yield running
        assert running.stop() == 0, running.log


@pytest.fixture(scope="module", autouse=True)
def worker(broker: BrokerProcess, book: Path) -> Iterator[WorkerProcess]:
    with WorkerProcess(broker.port, book, concurrency=1) as running:
        yield running
        assert running.stop() == 0, running.log


def story(broker: BrokerProcess, task_id: str) -> list[dict[str, Any]]:
    with Client(broker.address) as client:
        found: list[dict[str, Any]] = client.admin({"do": "explain", "correlation_id": task_id})["events"]
    return found


def test_each_try_of_a_task_is_told_by_its_id(
    app: Celery, broker: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    other = task(app, "add", 1, 1).delay()
    result = task(app, "fail_twice").delay()
    assert (other.get(timeout=RESULT_S), result.get(timeout=RESULT_S)) == (2, 2)
    assert until(lambda: [one["event"] for one in story(broker, result.id)].count("acked") == 3, RESULT_S)
    events = story(broker, result.id)
    assert {one["queue"] for one in events} == {"celery"}
    by_message: dict[str, list[str]] = {}
    for one in events:
        by_message.setdefault(one["message_id"], []).append(one["event"])
    again = ["accepted", "delayed", "due", "delivered", "acked"]
    assert [*by_message.values()] == [["accepted", "delivered", "acked"], again, again]
    assert {one["correlation_id"] for one in events if one["event"] == "accepted"} == {result.id}
    assert main(["explain", "--data", str(broker.data_dir), "--correlation-id", result.id, "--json"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == events


def test_a_task_that_nobody_takes_is_told_of_too(app: Celery, broker: BrokerProcess) -> None:
    result = task(app, "add", 1, 1).apply_async(queue="lonely")
    assert [(one["event"], one["queue"]) for one in story(broker, result.id)] == [("accepted", "lonely")]


def test_of_an_id_that_no_task_has_nothing_is_told(app: Celery, broker: BrokerProcess) -> None:
    with pytest.raises(Refusal, match="The journal tells nothing of the correlation-id 'no-such-task'"):
        story(broker, "no-such-task")
