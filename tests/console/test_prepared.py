"""The page of prepared transactions and of what groups have checked out of queues."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from radiator.client import Client
from tests.broker_process import BrokerProcess
from tests.console.looks import USERS, as_user, is_accessible_in_both, leave
from tests.console.page import Page, a_broker

ODD = '<img src=x onerror=wrongs.push(1)>"&\u202e'


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, str]]:
    with a_broker(tmp_path_factory.mktemp("broker")) as found:
        yield found


@pytest.fixture
def client(broker: tuple[BrokerProcess, str]) -> Iterator[Client]:
    with Client(broker[0].address, answer_timeout_s=10) as one:
        yield one
        one.admin({"do": "abort", "prefix": "t"})


@pytest.fixture
def page(tab: Page, broker: tuple[BrokerProcess, str], client: Client) -> Iterator[Page]:
    leave(tab)
    tab.url = broker[1]
    tab.dark(False)
    tab.open("#/prepared")
    tab.sees("Prepared transactions", "Checked out")
    yield tab
    leave(tab)


def prepare(client: Client, name: str, messages: int = 1, queue: str = "work") -> None:
    transaction = client.begin()
    for _ in range(messages):
        client.send(f"/queue/{queue}", b"row", transaction=transaction)
    client.commit(transaction, prepare=name)


def listed(client: Client) -> list[str]:
    return [one["name"] for one in client.admin({"do": "prepared"})["prepared"]]


def queue_of(client: Client, name: str) -> dict[str, Any]:
    return client.admin({"do": "describe", "queue": name})


def test_empty_it_says_what_would_be_here(page: Page) -> None:
    page.sees("No transaction is prepared.", "No group has messages checked out of a queue.")
    is_accessible_in_both(page)
    page.is_well()


def test_one_is_committed(page: Page, client: Client) -> None:
    prepare(client, "t-commit", 3)
    page.sees("t-commit", "prepared", "for its commit")
    page.press("Commit…")
    page.sees("Say for which app.", "3 messages")
    page.fill("#field-app", "etl")
    page.sees("The version is a whole number")
    page.fill("#field-version", "7")
    page.sees('"app":"etl","version":7', "radiator prepared --commit=t-commit --app=etl --version=7")
    page.is_accessible()
    page.fill("dialog label:last-of-type input", "t-commit")
    page.press("Commit", "dialog")
    page.sees("Committed: 3 messages will be in their destinations.")
    page.wait(lambda: queue_of(client, "work")["messages"] == 3, "the messages")
    assert client.admin({"do": "version", "app": "etl"})["version"] == 7
    prepare(client, "t-again")
    page.sees("t-again")
    page.press("Commit…")
    page.fill("#field-app", "etl")
    page.fill("#field-version", "7")
    page.fill("dialog label:last-of-type input", "t-again")
    page.press("Commit", "dialog")
    page.sees("was committed before")
    assert queue_of(client, "work")["messages"] == 3 and listed(client) == []
    page.is_well()


def test_one_is_aborted_by_the_name_that_can_be_read(page: Page, client: Client) -> None:
    name = f"t{ODD}"
    prepare(client, name, 2)
    shown = f"t{ODD[:-1]}\\u202e"
    page.sees(shown)
    page.press("Abort…")
    page.sees("Its 2 messages", "none of them is ever sent")
    page.is_accessible()
    page.fill("dialog input", "t")
    assert page.run("return document.querySelector('dialog button[type=submit]').disabled")
    page.fill("dialog input", shown)
    page.press("Abort", "dialog")
    page.sees("Aborted: nothing of its 2 messages was sent.")
    assert listed(client) == []
    page.is_well()


def test_what_somebody_else_has_aborted_is_told(page: Page, client: Client) -> None:
    prepare(client, "t-gone")
    page.press("Abort…")
    page.fill("dialog input", "t-gone")
    client.admin({"do": "abort", "prepared": ["t-gone"]})
    page.press("Abort", "dialog")
    page.sees("It was no longer prepared: nothing was aborted.")
    page.is_well()


def test_many_are_listed_in_pages_and_aborted_together(page: Page, client: Client) -> None:
    for number in range(1010):
        prepare(client, f"t-{number:04}")
    page.open("#/prepared")
    page.sees("The broker lists the first 1,000 of 1,010.", "1 to 100 of 1,000", "t-0000")
    page.press("Next")
    page.sees("101 to 200 of 1,000", "t-0100")
    assert page.place == "#/prepared?first=100"
    page.fill("main input", "t-09")
    page.sees("t-0900", "t-0999")
    page.wait(lambda: page.place == "#/prepared?text=t-09", "the filter in the address")
    page.press("Abort many…")
    page.fill("#field-refuse", "5000")
    page.sees("The seconds are a whole number from 0 to 3600.")
    page.fill("#field-refuse", "60")
    page.sees('"prefix":"t-09","refuse_s":60')
    page.sees("radiator prepared --abort-all=t-09 --refuse-s=60")
    page.fill("#field-refuse", "0")
    page.sees("radiator prepared --abort-all=t-09")
    page.fill("dialog label:last-of-type input", "abort")
    page.press("Abort many", "dialog")
    page.sees("100 transactions aborted: nothing of them was sent.")
    assert client.admin({"do": "prepared"})["count"] == 910
    page.sees("None of these names contains that.")
    page.is_well()


def test_why_one_waits_is_said(page: Page, client: Client) -> None:
    client.admin({"do": "declare", "queue": "tight", "max_messages": 1})
    client.send("/queue/tight", b"x")
    prepare(client, "t-wait", 1, "work")
    transaction = client.begin()
    client.send("/queue/tight", b"x", transaction=transaction)
    client.commit(transaction, prepare="t-stuck")
    client.admin({"do": "commit", "prepared": ["t-stuck"], "app": "tight", "version": 1})
    page.sees("committed", "t-stuck")
    page.wait(lambda: "tight" in page.text, "why it waits")
    client.admin({"do": "purge", "queue": "tight"})
    page.does_not_see("t-stuck")
    page.is_well()


def test_what_a_group_has_is_released(page: Page, client: Client) -> None:
    for _ in range(5):
        client.send("/queue/out/of.it", b"12345")
    client.admin({"do": "checkout", "queue": "out/of.it", "group": ODD[:-1].replace("/", ""), "max_messages": 3})
    client.admin({"do": "checkout", "queue": "out/of.it", "group": "-other", "max_messages": 1})
    page.sees("out/of.it", ODD[:-1], "-other")
    page.press("Release…")
    page.sees("Its 1 message", "radiator release -- /queue/out/of.it -other", "/v1/admin")
    page.is_accessible()
    page.fill("dialog input", "-other")
    page.press("Release", "dialog")
    page.sees("1 message of the group -other went back to out/of.it; the group has ended.")
    assert queue_of(client, "out/of.it")["checked_out"] == 3
    page.wait(lambda: len(page.all("main table tbody tr")) == 1, "one row less")
    client.admin({"do": "checkout-release", "queue": "out/of.it", "group": ODD[:-1]})
    page.is_well()


def test_many_groups_are_listed_in_pages(page: Page, client: Client) -> None:
    groups = [f"g{number:03}" for number in range(103)]
    client.admin({"do": "declare", "queue": "grouped"})
    for _ in groups:
        client.send("/queue/grouped", b"x")
    for group in groups:
        client.admin({"do": "checkout", "queue": "grouped", "group": group, "max_messages": 1})
    page.sees("g099", "Next page")
    assert "g100" not in page.text
    page.press("Next page")
    page.sees("g100", "g102")
    assert "?checkout=" in page.place
    page.is_well()
    for group in groups:
        client.admin({"do": "checkout-release", "queue": "grouped", "group": group})


def test_who_may_see_a_part_is_told(tab: Page, tmp_path: Path) -> None:
    with a_broker(tmp_path, USERS) as (_, url), as_user(tab, "bob"):
        tab.url = url
        tab.open("#/prepared")
        tab.sees("The user bob may not do that", "The user bob may not see /log/#")
        tab.expected = 20
        tab.is_well()
        leave(tab)
