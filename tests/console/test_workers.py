"""The page of Spark and Celery, with a worker of Celery, and with what a query of Spark leaves at a broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.client import Client
from tests.broker_process import BrokerProcess
from tests.console.looks import USERS, as_user, is_accessible_in_both, leave
from tests.console.page import Page, a_broker

pytest.importorskip("celery")
from radiator.integrations.spark.sink import ledger
from tests.integrations.celery.publisher import publisher, task
from tests.integrations.celery.worker_process import WorkerProcess

ODD = '<img src=x onerror=wrongs.push(1)>"&'


@pytest.fixture
def broker(tab: Page, tmp_path: Path) -> Iterator[BrokerProcess]:
    leave(tab)
    with a_broker(tmp_path) as (found, url):
        tab.url = url
        tab.dark(False)
        yield found
        leave(tab)


def test_empty_it_says_what_would_be_here(tab: Page, broker: BrokerProcess) -> None:
    tab.open("#/workers")
    tab.sees("No worker of Celery has remote control here.", "There is no exchange of that name", "0 mailboxes")
    is_accessible_in_both(tab)
    tab.press("Spark")
    tab.sees("There is no log.", "No group has messages of a queue.", "No sink of Spark has anything prepared.")
    assert tab.place == "#/workers?tab=spark"
    is_accessible_in_both(tab)
    tab.is_well()


def test_workers_of_celery_what_they_take_and_what_they_have(tab: Page, broker: BrokerProcess, tmp_path: Path) -> None:
    one = WorkerProcess(broker.port, tmp_path / "book", pool="threads", name="one", queues="celery,urgent")
    two = WorkerProcess(broker.port, tmp_path / "book", pool="threads", name="two", queues="urgent")
    with one, two, publisher(broker.port) as app:
        for number in range(6):
            task(app, "job", number, 30).delay()
        task(app, "job", 6, 0).apply_async(countdown=600)
        tab.open("#/workers")
        tab.sees("2 workers", "one@test", "two@test", "one@test.celery.pidbox")
        rows = "return [...document.querySelectorAll('table')].map((one) => [...one.rows].map((row) => row.innerText))"

        def is_whole() -> bool:
            workers, queues = tab.run(rows)
            return (
                any(row.split("\t")[2:4] == ["celery, urgent", "2"] for row in workers)
                and any(row.split("\t")[2:4] == ["urgent", "0"] for row in workers)
                and any(row.split("\t")[0] == "celery" and row.split("\t")[2:5] == ["4", "2", "1"] for row in queues)
                and any("2: one@test, two@test" in row for row in queues)
            )

        tab.wait(is_whole, "what both have")
        assert tab.run("return document.querySelector('main a[href=\"#/queues/celery\"]') !== null")
        tab.sees("What the broker cannot know")
        is_accessible_in_both(tab)
        two.kill()
        tab.wait(lambda: "two@test" not in tab.text, "one worker less")
        tab.expected = 2  # its mailbox may be asked for once it has gone
        tab.is_well()


def test_another_exchange_is_named_in_the_address(tab: Page, broker: BrokerProcess) -> None:
    with Client(broker.address) as client:
        name = f"shop {ODD}"
        client.admin({"do": "declare", "exchange": name, "type": "direct"})
        for number in range(23):
            client.admin({"do": "declare", "queue": f"{ODD} {number:02}"})
            client.admin({"do": "bind", "exchange": name, "key": "k", "queue": f"{ODD} {number:02}"})
        client.admin({"do": "declare", "exchange": "celery.pidbox", "type": "fanout"})
        client.admin({"do": "declare", "queue": f"{ODD}.celery.pidbox"})
        tab.open("#/workers")
        tab.fill("main input", name)
        tab.sees(f"{ODD} 00", f"{ODD} 19", "The first 20 of 23.", "1 worker")
        tab.wait(lambda: "exchange=shop" in tab.place, "the address")
        tab.is_well()
        tab.is_accessible()


def test_what_spark_has_at_a_broker(tab: Page, broker: BrokerProcess) -> None:
    app = ledger("counts", "/queue/counts")
    with Client(broker.address) as client:
        client.admin({"do": "declare", "log": f"log {ODD}", "partitions": 2})
        client.subscribe(f"/log/log {ODD}", ack="client", headers={"group": "g1"})
        for _ in range(9):
            client.send(f"/log/log {ODD}", b"x")
        for _ in range(5):
            client.send("/queue/orders", b"x")
        client.admin({"do": "checkout", "queue": "orders", "group": "etl", "max_messages": 3})
        for name in ("spark-1", "spark-2", "mine"):
            transaction = client.begin()
            client.send("/queue/counts", b"row", transaction=transaction)
            client.commit(transaction, prepare=name)
        client.admin({"do": "commit", "prepared": ["spark-1"], "app": app, "version": 41})
        tab.open("#/workers?tab=spark")
        tab.sees(f"log {ODD}", "g1", "orders", "etl", "That is normal while a batch runs.")
        assert tab.run("return document.querySelector('a[href=\"#/prepared?text=spark-\"]').textContent") == "1"
        tab.fill('main input[aria-label="App"]', app)
        tab.press("Show")
        tab.sees("Version 41 is the last that was committed for the app")
        tab.fill('main input[aria-label="App"]', "nobody/x")
        tab.press("Show")
        tab.sees("No version was committed for the app nobody/x.")
        assert "app=nobody" in tab.place
        is_accessible_in_both(tab)
        tab.press("Release…")
        tab.fill("dialog input", "etl")
        tab.press("Release", "dialog")
        tab.sees("3 messages of the group etl went back to orders")
        tab.is_well()


def test_many_logs_are_listed_in_pages_without_those_of_checkouts(tab: Page, broker: BrokerProcess) -> None:
    with Client(broker.address) as client:
        client.send("/queue/orders", b"x")
        client.admin({"do": "checkout", "queue": "orders", "group": "etl", "max_messages": 1})
        for number in range(120):
            client.admin({"do": "declare", "log": f"{number:03}"})
        tab.open("#/workers?tab=spark")
        tab.sees("098", "Next page")
        assert "099" not in tab.text and "$checkout" not in tab.text
        tab.press("Next page")
        tab.sees("099", "119")
        tab.is_well()


def test_who_may_see_a_part_is_told(tab: Page, tmp_path: Path) -> None:
    with a_broker(tmp_path, USERS) as (_, url), as_user(tab, "bob"):
        tab.url = url
        tab.open("#/workers")
        tab.sees("The user bob may not see /queue/#", "The user bob may not see /exchange/#")
        tab.press("Spark")
        tab.sees("The user bob may not see /log/#", "The user bob may not do that")
        tab.expected = 20
        tab.is_well()
        leave(tab)
