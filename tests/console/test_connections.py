"""The pages of connections: who is there, in pages, what each waits for, and how one is closed."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from radiator.client import Client
from tests.acceptance.wire import Gone, Wire
from tests.broker_process import BrokerProcess
from tests.console.by_hand import HOSTILE, ask, is_right_everywhere, lines, looked_at, paste
from tests.console.looks import as_user
from tests.console.page import Page, a_broker
from tests.server.web import HASH, SECRET

PAGE = 100
SMALL = "[queue.small]\nmax_messages = 1\n[queue.other]\n"
USERS = (
    f'[user.ann]\npassword = "{HASH}"\nrole = "operator"\n'
    f'[user.bob]\npassword = "{HASH}"\nwrite = ["/queue/of-bob"]\nread = ["/queue/of-bob"]\nsee = ["/queue/of-bob"]\n'
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, str]]:
    with a_broker(tmp_path_factory.mktemp("broker"), SMALL) as found:
        yield found


@pytest.fixture
def page(tab: Page, broker: tuple[BrokerProcess, str]) -> Iterator[Page]:
    with looked_at(tab, broker[1]):
        yield tab
        tab.is_well()


@pytest.fixture
def wire(broker: tuple[BrokerProcess, str]) -> Iterator[Wire]:
    """A client of STOMP, connected."""
    with Wire((broker[0].host, broker[0].port)) as found:
        found.connect()
        yield found


def number_of_stomp(page: Page) -> int:
    """Of the newest client of STOMP."""
    return max(int(one["number"]) for one in connections(page) if one["protocol"].startswith("STOMP"))


def connections(page: Page) -> list[Any]:
    return list(ask(page.url, "GET", "/v1/connections")["connections"])


def rows(page: Page) -> list[str]:
    return [
        str(one) for one in page.run("return [...document.querySelectorAll('tbody tr')].map((one) => one.innerText)")
    ]


def test_only_the_page_itself_is_there(page: Page) -> None:
    page.open("#/connections")
    page.sees("anyone", "HTTP", "Mozilla")
    page.wait(lambda: re.search(r"\n\d connections? in all\.", page.text), "how many there are")
    is_right_everywhere(page)


def test_one_with_its_subscriptions_is_led_to(page: Page, broker: tuple[BrokerProcess, str]) -> None:
    with Client(broker[0].address) as client:
        client.send_many("/queue/other", [b"x"] * 4)
        client.subscribe("/queue/other", ack="client-individual", prefetch=3, consumer_name=HOSTILE)
        assert client.receive(5)
        page.open("#/connections")
        page.sees("STOMP 1.2")
        number = number_of_stomp(page)
        page.press(str(number))
        page.sees(f"Connection {number}", "/queue/other", "client-individual", "evil", "Recognised by", "\\u202e")
        assert page.place == f"#/connections/{number}"
        assert len(page.all("main img")) == 0
        is_right_everywhere(page)
        page.press("/queue/other")
        page.wait(lambda: page.place == "#/queues/other", "the queue")


def test_one_that_is_subscribed_to_nothing_says_so_and_one_that_has_gone_too(page: Page, wire: Wire) -> None:
    page.open(f"#/connections/{number_of_stomp(page)}")
    page.sees("It has no subscription.", "has not named itself")
    page.go("#/connections/999999")
    page.sees("There is no connection 999999: it has closed, or never existed.")
    page.is_accessible()
    page.expected = 20


def test_what_it_waits_for_is_said_in_a_sentence(page: Page, wire: Wire) -> None:
    for _ in range(3):
        wire.send_frame("SEND", {"destination": "/queue/small"}, b"x")
    page.open("#/connections")
    page.sees("blocked", "for room in /queue/small, which is full.")
    page.go(f"#/connections/{number_of_stomp(page)}")
    page.sees("Its next command has waited", "for room in /queue/small, which is full.")
    is_right_everywhere(page)
    page.go("#/")
    page.wait(lambda: page.all("a.tile.alert"), "the tile of those that wait")
    assert ask(page.url, "DELETE", f"/v1/connections/{number_of_stomp(page)}")["ok"]


@pytest.mark.parametrize("place", ["#/connections", "#/connections/{}"])
def test_closing_one_tells_the_client_and_takes_it_away(page: Page, wire: Wire, place: str) -> None:
    number = number_of_stomp(page)
    page.open(place.format(number))
    page.sees("STOMP 1.2")
    label = f"tr:has(a[href='#/connections/{number}'])" if place == "#/connections" else "main"
    page.press("Close…", label)
    page.sees(f"Close connection {number}", f"radiator disconnect {number}", f"/v1/connections/{number}")
    is_right_everywhere(page)
    page.press("Close", "dialog")
    page.sees(f"Connection {number} is closed.", "in all.")
    assert page.place == "#/connections"
    assert wire.read("ERROR").body
    with pytest.raises(Gone):
        wire.read_frame()
    assert number not in [one["number"] for one in connections(page)]
    page.expected = 2  # the page of that connection may have asked once more


def test_the_lines_of_the_dialog_do_the_same(page: Page, broker: tuple[BrokerProcess, str]) -> None:
    for nth in (0, 1):
        with Wire((broker[0].host, broker[0].port)) as wire:
            wire.connect()
            number = number_of_stomp(page)
            page.open("#/connections")
            page.press("Close…", f"tr:has(a[href='#/connections/{number}'])")
            paste(broker[0], lines(page)[nth])
            assert wire.read("ERROR").body
            page.keys("\ue00c")


def test_many_are_in_pages_and_those_of_one_user_can_be_had(tab: Page, tmp_path: Path) -> None:
    with (
        a_broker(tmp_path, USERS) as (process, url),
        as_user(tab, "ann"),
        looked_at(tab, url),
        ExitStack() as open_ones,
    ):
        for _ in range(PAGE + 20):
            wire = open_ones.enter_context(Wire((process.host, process.port)))
            wire.connect({"login": "bob", "passcode": SECRET})
        tab.open("#/connections")
        tab.wait(lambda: len(rows(tab)) == PAGE, "a whole page")
        first = rows(tab)
        tab.press("Next page")
        tab.wait(lambda: 20 <= len(rows(tab)) < PAGE, "the second page")
        assert "after=" in tab.place and not set(first) & set(rows(tab))
        tab.run("history.back()")
        tab.wait(lambda: len(rows(tab)) == PAGE, "the first page again")
        tab.fill("[data-filter]", "ann")
        tab.wait(lambda: rows(tab) and all("ann" in one for one in rows(tab)), "those of ann")
        assert tab.place == "#/connections?user=ann"
        tab.open(tab.place)
        tab.wait(lambda: rows(tab) and all("ann" in one for one in rows(tab)), "those of ann, loaded anew")
        tab.fill("[data-filter]", "nobody")
        tab.sees("That user has no connection.")
        is_right_everywhere(tab)


def test_who_may_not_see_them_is_told(tab: Page, tmp_path: Path) -> None:
    with a_broker(tmp_path, USERS) as (_, url), as_user(tab, "bob"), looked_at(tab, url):
        tab.open("#/connections")
        tab.sees("The user bob may not")
        tab.go("#/connections/1")
        tab.sees("The user bob may not")
        tab.expected = 20
        tab.is_well()
        tab.is_accessible()
