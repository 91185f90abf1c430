"""`radiator route` on a real broker."""

import json
from collections.abc import Iterator

import pytest

from radiator.client import Client
from tests.broker_process import BrokerProcess
from tests.tools.cli.conftest import Run

CONFIG = """
[queue.mail]
[queue.audit]
[log.clicks]
[exchange.events]
type = "topic"
bindings = [
    { key = "orders.#", queue = "mail" }, { key = "orders.new", queue = "mail" }, { key = "#", queue = "/log/clicks" },
]
[exchange.bare]
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        yield running


def test_where_it_goes_and_by_which_key(run: Run) -> None:
    status, out, err = run("route", "events", "orders.new")
    lines = out.splitlines()
    assert (status, err) == (0, "") and lines[0] == (
        "A SEND to /exchange/events/orders.new goes into 2 destinations: one copy each, however many bindings of it "
        "match."
    )
    assert sorted(line.split() for line in lines[3:]) == [["/log/clicks", "#"], ["/queue/mail", "orders.new"]]
    assert json.loads(run("route", "/exchange/events", "orders.new", "--json")[1])["count"] == 2


def test_what_matches_nothing(run: Run) -> None:
    status, out, _ = run("route", "bare")
    assert status == 0 and out.startswith("No binding matches /exchange/bare/: a SEND to it is dropped, counted as")
    assert run("route", "nothing", "k")[0] == 1
    assert run("route", "events", "a\x07b")[:2] == (1, "")


def test_only_the_first_are_listed(run: Run, client: Client) -> None:
    for number in range(3):
        client.admin({"do": "bind", "exchange": "bare", "key": "k", "queue": ["mail", "audit", "/log/clicks"][number]})
    assert len(run("route", "bare", "k")[1].splitlines()) == 6
