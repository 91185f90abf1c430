"""The table of queues: what it says, how it is sorted and filtered, and what can be done with many at once."""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from radiator.client import Client
from tests.broker_process import BrokerProcess
from tests.console.page import Page, a_broker

NAMES = [f"work.{nth:03}" for nth in range(120)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, str]]:
    with a_broker(tmp_path_factory.mktemp("broker")) as (process, url):
        with Client(process.address) as client:
            for nth, name in enumerate(NAMES):
                client.send_many(f"/queue/{name}", [b"x"] * (nth % 7 + 1))
        yield process, url


@pytest.fixture
def page(tab: Page, broker: tuple[BrokerProcess, str]) -> Iterator[Page]:
    tab.url = broker[1]
    tab.open("#/queues")
    tab.sees("120 queues.")
    yield tab
    tab.is_well()


def get(page: Page, path: str) -> Any:
    with urllib.request.urlopen(f"{page.url}{path}") as answer:
        return json.load(answer)


def names_of(page: Page) -> list[str]:
    return [
        str(one) for one in page.run("return [...document.querySelectorAll('td .name')].map((one) => one.textContent)")
    ]


def test_it_is_paged_by_the_server_and_the_page_is_in_the_address(page: Page) -> None:
    assert names_of(page) == NAMES[:50]
    page.press("Next")
    page.wait(lambda: names_of(page) == NAMES[50:100], "the second page")
    assert "first=50" in page.place
    page.open(page.place)
    page.wait(lambda: names_of(page) == NAMES[50:100], "the second page, loaded anew")
    page.press("Previous")
    page.wait(lambda: names_of(page) == NAMES[:50], "the first page")


def test_a_heading_sorts_and_sorts_the_other_way(page: Page) -> None:
    page.press("Ready", "thead")
    page.wait(lambda: names_of(page)[0] == "work.006", "those with most messages")
    assert page.one("th[aria-sort=descending]").text.startswith("Ready")
    page.press("Ready ▾", "thead")
    page.wait(lambda: names_of(page)[0] == "work.000", "those with fewest")


def test_the_filter_has_a_key_and_stands_in_the_address(page: Page) -> None:
    page.keys("/")
    page.keys("K.11")
    page.wait(lambda: names_of(page) == [f"work.11{nth}" for nth in range(10)], "ten queues")
    page.sees("10 of 120 queues.")
    assert "text=K.11" in page.place
    page.fill("[data-filter]", "nothing has that")
    page.sees("None of the 120 queues has a name that contains that.")


@pytest.fixture
def five(broker: tuple[BrokerProcess, str], page: Page) -> Iterator[list[str]]:
    """Queues with two messages each, behind all others."""
    names = [f"z.{nth}" for nth in range(5)]
    with Client(broker[0].address) as client:
        for name in names:
            client.send_many(f"/queue/{name}", [b"x", b"y"])
        page.go("#/queues?text=z.&sort=name")
        page.wait(lambda: names_of(page) == names, "five queues")
        yield names
        left = {one["name"] for one in client.admin({"do": "queues", "match": "z.*"})["queues"]}
        for name in left:
            client.admin({"do": "delete", "queue": name})


def choose(page: Page, *names: str) -> None:
    for name in names:
        page.one(f"input[aria-label='Choose {name}']").click()


def test_many_are_purged_once_that_is_typed(page: Page, five: list[str]) -> None:
    choose(page, *five[:3])
    page.sees("3 queues chosen")
    page.press("Purge…")
    page.sees("radiator purge z.0\nradiator purge z.1\nradiator purge z.2", "curl --fail")
    assert not page.one("dialog button[type=submit]").is_enabled()
    page.fill("dialog label input", "3 queues")
    page.press("Purge", "dialog")
    page.sees("6 messages removed from 3 queues")
    assert [get(page, f"/v1/queues/{name}")["messages"] for name in five] == [0, 0, 0, 2, 2]


def test_messages_are_moved_to_where_is_said(page: Page, five: list[str]) -> None:
    choose(page, "z.3")
    page.press("Move…")
    page.fill("#field-to", "z.4")
    page.fill("dialog label:not([for]) input", "z.3")
    page.press("Move", "dialog")
    page.sees("2 messages moved.")
    assert get(page, "/v1/queues/z.4")["messages"] == 4


def test_what_is_refused_for_one_of_many_says_how_many_were_done(page: Page, five: list[str]) -> None:
    choose(page, "z.0", "z.1")
    page.press("Delete…")
    urllib.request.urlopen(urllib.request.Request(f"{page.url}/v1/queues/z.1", method="DELETE"))
    page.fill("dialog label input", "2 queues")
    page.press("Delete", "dialog")
    page.sees("There is no /queue/z.1", "1 of 2 were done before.")
    page.press("Cancel", "dialog")
    page.wait(lambda: names_of(page) == ["z.2", "z.3", "z.4"], "the three that are left")
    page.expected = 1


def test_a_queue_is_declared(page: Page) -> None:
    page.press("Declare…")
    page.fill("#field-name", "made.here")
    page.fill("#field-max_messages", "5")
    page.sees("radiator declare queue made.here --max-messages=5")
    page.press("Declare", "dialog")
    page.sees("The queue exists, as declared.")
    assert get(page, "/v1/queues/made.here")["settings"]["max_messages"] == 5
    urllib.request.urlopen(urllib.request.Request(f"{page.url}/v1/queues/made.here", method="DELETE"))


def test_what_is_refused_is_said_in_the_dialog(page: Page) -> None:
    page.press("Declare…")
    page.fill("#field-name", "x" * 300)
    page.press("Declare", "dialog")
    page.sees("a name has at most 255")
    page.expected = 1
    page.press("Cancel", "dialog")


@pytest.mark.parametrize("is_dark", [False, True])
def test_it_can_be_used_by_all(page: Page, is_dark: bool) -> None:
    page.dark(is_dark)
    page.is_accessible()
    page.press("Declare…")
    page.is_accessible()
    page.dark(False)


def test_it_fits_a_phone(page: Page) -> None:
    page.driver.set_window_size(390, 800)
    try:
        page.open("#/queues")
        page.sees("120 queues.")
        assert page.run("return document.documentElement.scrollWidth <= innerWidth")
    finally:
        page.driver.set_window_size(1300, 900)
