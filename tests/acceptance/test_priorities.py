"""max_priority of a queue, from outside: over a kill with a backlog that is longer than memory, over HTTP, and where a
start refuses another one.
"""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.acceptance.wire import Wire
from tests.broker_process import CHECKOUT, EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess

URGENT = '[queue."jobs"]\nmax_priority = 5\n'
BACKLOG = 4000
WEB = SERVER.replace('["stomp://127.0.0.1:0"]', '["stomp://127.0.0.1:0", "http://127.0.0.1:0"]')


def connected(broker: BrokerProcess) -> Wire:
    wire = Wire((broker.host, broker.port))
    wire.connect()
    return wire


def test_the_urgent_one_behind_a_long_backlog_is_first_after_a_kill(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, URGENT) as broker:
        with connected(broker) as wire:
            for number in range(BACKLOG):
                wire.send_frame("SEND", {"destination": "/queue/jobs", "priority": str(number % 2)}, b"%d" % number)
            wire.ask("SEND", {"destination": "/queue/jobs", "priority": "255"}, b"urgent")
            broker.kill()
        broker.start()
        with connected(broker) as wire:
            wire.subscribe("/queue/jobs")
            urgent = wire.message()
            assert (urgent.body, urgent["priority"]) == (b"urgent", "255")
            wire.nack(urgent)
            again = wire.message()
            assert (again.body, again["redelivered"]) == (b"urgent", "true")
            wire.ack(again)
            expected = [*range(1, BACKLOG, 2), *range(0, BACKLOG, 2)]
            for number in expected[:1500]:
                message = wire.message()
                assert message.body == b"%d" % number
                wire.ack(message)
        assert broker.stop() == 0
        checked = subprocess.run(
            [sys.executable, "-m", "radiator", "check", str(tmp_path / "data")],
            capture_output=True, text=True, cwd=CHECKOUT, timeout=60, check=False,
        )  # fmt: skip
        assert checked.returncode == 0, checked.stdout + checked.stderr
        broker.start()
        with connected(broker) as wire:
            wire.subscribe("/queue/jobs", ack="auto")
            assert wire.bodies(BACKLOG - 1500) == [str(number) for number in expected[1500:]]


def test_a_publish_over_http_has_its_priority(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, WEB + URGENT) as broker:
        line = next(line for line in broker.log.splitlines() if "address=" in line and "http://" in line)
        url = "http://" + line.split("http://")[1].split('"')[0].split()[0] + "/v1"
        for body, priority in (("low", "1"), ("high", "4")):
            headers = {"Content-Type": "text/plain", "message-priority": priority}
            request = urllib.request.Request(f"{url}/queues/jobs/messages", body.encode(), headers)
            urllib.request.urlopen(request, timeout=10).close()
        with urllib.request.urlopen(f"{url}/queues/jobs", timeout=10) as answer:
            assert json.loads(answer.read())["settings"]["max_priority"] == 5
        with connected(broker) as wire:
            wire.subscribe("/queue/jobs", ack="auto")
            assert wire.bodies(2) == ["high", "low"]


def test_another_max_priority_is_refused_until_the_queue_is_empty(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, URGENT)
    with broker, connected(broker) as wire:
        wire.send("/queue/jobs", "one", {"priority": "5"})
        assert broker.stop() == 0
    broker.config_file.write_text(SERVER + "\n" + URGENT.replace("5", "4"))
    assert broker.start_and_fail() == 1
    last = broker.log.splitlines()[-1]
    assert "is declared with max_priority = 4, but 1 message of it is stored with max_priority = 5" in last, last
    broker.config_file.write_text(SERVER + "\n" + EVERYTHING_MAY_BE_CREATED)
    assert broker.start_and_fail() == 1
    assert "is declared without max_priority, but 1 message" in broker.log.splitlines()[-1]
