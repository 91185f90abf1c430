"""examples/keda: the supervisor starts and stops worker processes as a queue needs them; what KEDA reads is there."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from radiator.client import Client
from tests.broker_process import CHECKOUT, BrokerProcess, environment
from tests.server.web import OPEN, WebClient, port_of

Supervisor = subprocess.Popen[str]
EXAMPLE = CHECKOUT / "examples" / "keda"
KEYS, EACH = 3, 10
MANY = 500  # more than are done before this test sees the first one
CONFIG = OPEN + '\n[queue.jobs]\npersistent = false\npartition_key = "header:customer"\n[queue.orders]\n'


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, CONFIG) as running:
        running.wait_for_log("listening address=http://")
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log


def fill(broker: BrokerProcess, each: int) -> None:
    with Client(broker.address, answer_timeout_s=10) as client:
        for number in range(KEYS * each):
            key = number % KEYS
            client.send("/queue/jobs", f"job {key}.{number // KEYS}".encode(), headers={"customer": str(key)})


@contextmanager
def supervised(broker: BrokerProcess, *more: str) -> Iterator[Supervisor]:
    http = f"http://127.0.0.1:{port_of(broker.log, 'http')}"
    command = [sys.executable, str(EXAMPLE / "supervisor.py"), http, broker.address, "jobs", *more]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()  # it ends its workers
        process.wait()


def lines_of(process: Supervisor) -> Iterator[str]:
    """Until it and its workers have ended."""
    assert process.stdout is not None
    yield from process.stdout


def in_order(lines: list[str], key: int) -> list[str]:
    """The jobs of that key as they were done, each when it was done first: it may be done again after a death."""
    done = [line.partition(" has done ")[2].strip() for line in lines]
    return [*dict.fromkeys(one for one in done if one.startswith(f"job {key}."))]


def test_workers_come_for_the_keys_that_there_are_and_go_when_nothing_is_left(broker: BrokerProcess) -> None:
    fill(broker, EACH)
    lines: list[str] = []
    with supervised(broker) as supervisor:
        for line in lines_of(supervisor):
            lines.append(line)
            if sum("is stopped, with nothing left" in one for one in lines) == KEYS:
                supervisor.terminate()
        assert supervisor.wait() == 0
    assert sum("is started" in line for line in lines) == KEYS  # and not 8, though there are 30 jobs
    assert sum("is stopped" in line for line in lines) == KEYS
    for key in range(KEYS):
        assert in_order(lines, key) == [f"job {key}.{number}" for number in range(EACH)]


def test_a_worker_that_dies_is_replaced_by_one_of_its_name_and_keys_stay_in_order(broker: BrokerProcess) -> None:
    fill(broker, MANY)
    lines: list[str] = []
    starts: list[int] = []
    is_killed = False
    with supervised(broker, "--max", "1") as supervisor:
        for line in lines_of(supervisor):
            lines.append(line)
            if found := re.match(r"worker-0 is started as process (\d+)", line):
                starts.append(int(found[1]))
            elif not is_killed and " has done " in line:
                os.kill(starts[0], signal.SIGKILL)
                is_killed = True
            elif len(starts) == 2 and " has done " in line:
                supervisor.terminate()
        assert supervisor.wait() == 0
    assert len(starts) == 2 and "worker-0 is stopped, with nothing left\n" in lines
    for key in range(KEYS):
        done = in_order(lines, key)
        assert done and done == [f"job {key}.{number}" for number in range(len(done))]


def test_what_keda_reads_is_a_number(broker: BrokerProcess) -> None:
    text = (EXAMPLE / "orders.yaml").read_text(encoding="utf-8")
    (path,) = re.findall(r"url: https://[^/]+(/\S+)", text)
    (place,) = re.findall(r"valueLocation: (\w+)", text)
    (drain,) = re.findall(r'https://[^/"]+(/v1/\S+consumers/\$POD\S+)"', text)
    with WebClient(port_of(broker.log, "http")) as web:
        scale = web.ask("GET", path)
        assert scale.status == 200 and json.loads(scale.body)[place] == 0
        drained = web.ask("DELETE", drain.replace("$POD", "orders-worker-0"))
        assert drained.status == 200 and json.loads(drained.body)["drained"] is True
