"""partition_key of a queue, at a start of the broker: taken where the queue is empty, refused where it is not."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.wire import Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess

PLAIN = '[queue."orders"]\n'
KEYED = PLAIN + 'partition_key = "header:customer"\n'
OTHERWISE = PLAIN + 'partition_key = ["/customer/id", "header:customer"]\npartition_window = 5\n'


def connected(broker: BrokerProcess) -> Wire:
    wire = Wire((broker.host, broker.port))
    wire.connect()
    return wire


def configure(broker: BrokerProcess, tables: str) -> None:
    broker.config_file.write_text(SERVER + "\n" + tables)


@pytest.mark.parametrize(("before", "after", "says"), [
    (PLAIN, KEYED, 'with partition_key = "header:customer", but 2 messages of it are stored without partition_key'),
    (KEYED, OTHERWISE, 'with partition_key = ["/customer/id", "header:customer"], but 2 messages of it are stored'),
], ids=["the-first-key", "another-key"])  # fmt: skip
def test_another_key_is_refused_until_the_queue_is_empty(tmp_path: Path, before: str, after: str, says: str) -> None:
    broker = BrokerProcess(tmp_path, before)
    with broker, connected(broker) as wire:
        for number in range(2):
            wire.send("/queue/orders", str(number), {"customer": "7"})
        assert broker.stop() == 0
    configure(broker, after)
    assert broker.start_and_fail() == 1
    last = broker.log.splitlines()[-1]
    assert f"/queue/orders is declared {says}" in last, last
    assert "and consume, move or purge what it holds first." in last and "Traceback" not in broker.log
    configure(broker, before)
    with broker, connected(broker) as wire:
        wire.subscribe("/queue/orders")
        for number in range(2):
            message = wire.message()
            assert message.body == b"%d" % number
            wire.ack(message)
        broker.kill()
    configure(broker, after)
    with broker, connected(broker) as wire:
        wire.send("/queue/orders", "new", {"customer": "7"})
        wire.subscribe("/queue/orders", ack="auto")
        assert wire.message().body == b"new"
        assert broker.stop() == 0


def test_a_queue_of_a_pattern_keeps_its_key_over_a_crash(tmp_path: Path) -> None:
    table = '[queue."orders.#"]\npartition_key = "/id"\n'
    broker = BrokerProcess(tmp_path, table)
    with broker, connected(broker) as wire:
        wire.send("/queue/orders.new", '{"id": 5}')
        broker.kill()
    configure(broker, EVERYTHING_MAY_BE_CREATED)
    assert broker.start_and_fail() == 1
    assert "/queue/orders.new is declared without partition_key, but 1 message of it is stored" in broker.log
    configure(broker, table)
    with broker, connected(broker) as wire:
        wire.subscribe("/queue/orders.new", ack="auto")
        assert wire.message().body == b'{"id": 5}'


def test_a_key_is_declared_and_shown_over_http(tmp_path: Path) -> None:
    web = 'listen = ["stomp://127.0.0.1:0", "http://127.0.0.1:0"]'
    with BrokerProcess(tmp_path, SERVER.replace('listen = ["stomp://127.0.0.1:0"]', web)) as broker:
        line = next(line for line in broker.log.splitlines() if "address=" in line and "http://" in line)
        url = "http://" + line.split("http://")[1].split('"')[0].split()[0] + "/v1/queues/q"

        def asked(method: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
            data = None if body is None else json.dumps(body).encode()
            request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
            with urllib.request.urlopen(request, timeout=10) as answer:
                found: dict[str, Any] = json.loads(answer.read())
            return found

        asked("PUT", {"partition_key": ["header:a", "/b"], "partition_window": 3})
        settings = asked("GET")["settings"]
        assert (settings["partition_key"], settings["partition_window"]) == (["header:a", "/b"], 3)
        asked("PUT", {key: settings[key] for key in ("partition_key", "partition_window")})
        with pytest.raises(urllib.error.HTTPError, match="409") as caught:
            asked("PUT", {"partition_key": "header:a", "partition_window": 3})
        problem = json.loads(caught.value.read())
        assert problem["code"] == "declared-otherwise" and "its partition_key is" in problem["detail"]
