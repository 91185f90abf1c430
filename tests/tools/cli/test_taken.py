"""`radiator release` and `radiator prepared`, on a real broker."""

import json
import re
from collections.abc import Iterator

import pytest

from radiator.client import Client
from tests.acceptance.wire import Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, BrokerProcess
from tests.tools.cli.conftest import Run

CONFIG = EVERYTHING_MAY_BE_CREATED + '[queue."small"]\nmax_messages = 2\noverflow = "reject"\n'


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        yield running


def prepare(broker: BrokerProcess, name: str, queue: str, count: int) -> None:
    """With frames of our own: the library does not prepare."""
    with Wire((broker.host, broker.port)) as wire:
        wire.connect()
        wire.ask("BEGIN", {"transaction": "t"})
        for number in range(count):
            wire.send(f"/queue/{queue}", f"{number}", {"transaction": "t"})
        wire.ask("COMMIT", {"transaction": "t", "prepare": name})


def test_release_gives_back_what_a_group_has(run: Run, client: Client) -> None:
    client.send_many("/queue/orders", ["1", "2", "3"])
    assert client.admin({"do": "checkout", "queue": "orders", "group": "etl", "max_messages": 2})["next"] == 2
    (row,) = [line for line in run("queues")[1].splitlines() if line.startswith("orders ")]
    assert row.endswith("2 checked out")
    assert re.search(r"^checked out +2$", run("describe", "queue", "orders")[1], re.M)
    printed = run("release", "/queue/orders", "etl")
    assert printed == (0, "2 messages of the group etl went back to orders; the group has ended.\n", "")
    status, _, sentence = run("release", "orders", "etl")
    assert status == 1 and "'etl' has nothing of /queue/orders checked out" in sentence
    assert client.admin({"do": "stats"})["queues"]["orders"]["messages"] == 3


def test_prepared_aborts_all_whose_names_begin_so(run: Run, client: Client, broker: BrokerProcess) -> None:
    for name in ("job-1-a", "job-1-b", "job-2-a", "other"):
        prepare(broker, name, "orders", 1)
    assert run("prepared", "--abort-all", "job-1-") == (0, "2 transactions aborted: nothing of them was sent.\n", "")
    assert run("prepared", "--abort-all", "job-") == (0, "1 transaction aborted: nothing of it was sent.\n", "")
    refused = "radiator: No transaction is prepared under a name that begins with job- (any more).\n"
    assert run("prepared", "--abort-all", "job-") == (1, "", refused)
    prepare(broker, "job-1-a", "orders", 1)
    assert run("prepared", "--abort-all", "job-1-a")[0] == run("prepared", "--abort-all", "other")[0] == 0
    assert client.admin({"do": "prepared"})["count"] == 0


def test_prepared_lists_and_aborts(run: Run, client: Client, broker: BrokerProcess) -> None:
    assert run("prepared") == (0, "No transaction is prepared.\n", "")
    prepare(broker, "etl-1", "small", 5)
    prepare(broker, "etl\t2", "orders", 1)
    assert client.admin({"do": "commit", "prepared": ["etl-1"], "app": "etl", "version": 1})["committed"]
    while client.admin({"do": "prepared"})["prepared"][0]["waits"] is None:
        pass
    status, text, _ = run("prepared")
    rows = text.splitlines()
    assert status == 0 and rows[0].split() == ["name", "state", "messages", "size", "applied", "age"]
    assert rows[1].split()[:6] == ["etl-1", "committed", "5", "5", "B", "2"] and "/queue/small is full" in rows[1]
    assert rows[2].split()[:3] == ["etl\\t2", "prepared", "1"] and len(rows) == 3
    assert [one["name"] for one in json.loads(run("prepared", "--json")[1])["prepared"]] == ["etl-1", "etl\t2"]
    assert run("prepared", "--abort", "etl\t2") == (0, "etl\\t2 is aborted: nothing of it was sent.\n", "")
    assert run("prepared", "--abort", "etl-1") == (1, "", "radiator: No transaction is prepared as etl-1 (any more).\n")
    assert run("purge", "small")[0] == 0
