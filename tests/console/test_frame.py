"""What is round all pages: where one is, keys, colours, a broker that goes and comes back."""

from collections.abc import Iterator

import pytest

from tests.broker_process import BrokerProcess
from tests.console.page import Page, a_broker

PAGES = (
    "",
    "queues",
    "logs",
    "exchanges",
    "messages",
    "connections",
    "nodes",
    "prepared",
    "workers",
    "users",
    "broker",
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, str]]:
    with a_broker(tmp_path_factory.mktemp("broker")) as found:
        yield found


@pytest.fixture
def page(tab: Page, broker: tuple[BrokerProcess, str]) -> Page:
    tab.url = broker[1]
    tab.open()
    tab.sees("Overview")
    return tab


def test_the_log_says_where_it_is(broker: tuple[BrokerProcess, str]) -> None:
    process, url = broker
    assert f" url={url}/" in process.wait_for_log(" console ")


def test_g_and_a_letter_lead_to_each_page(page: Page) -> None:
    for name, letter in zip(PAGES, "oqlemcnpwub", strict=True):
        page.keys(f"g{letter}")
        page.wait(lambda place=f"#/{name}": page.place == place, f"the page {name}")


def test_a_question_mark_helps_and_escape_ends_that(page: Page) -> None:
    page.keys("?")
    page.sees("Keys", "to the filter")
    page.is_accessible()
    page.keys("\ue00c")
    page.does_not_see("to the filter")


def test_an_address_that_leads_nowhere_says_so(page: Page) -> None:
    page.go("#/nonsense/%E0%A4%A")
    page.sees("There is no such page")
    assert page.run("return window.wrongs") == []


def test_colours_follow_the_system_or_the_button(page: Page) -> None:
    def background() -> str:
        return str(page.run("return getComputedStyle(document.body).backgroundColor"))

    page.dark(False)
    light = background()
    page.dark(True)
    dark = background()
    assert light != dark
    page.press("Auto colours")
    page.press("Light colours")
    assert page.wait(lambda: background() == dark, "dark colours")
    page.press("Dark colours")
    page.dark(False)
    page.wait(lambda: background() == light, "light colours")
