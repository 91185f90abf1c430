"""The list of exchanges, and that of fanouts."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.broker_process import BrokerProcess
from tests.console.by_hand import HOSTILE, LONG, ask, choose, is_right_everywhere, lines, looked_at, paste
from tests.console.page import Page, a_broker

Broker = tuple[BrokerProcess, str]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with a_broker(tmp_path) as found:
        yield found


@pytest.fixture
def page(tab: Page, broker: Broker) -> Iterator[Page]:
    with looked_at(tab, broker[1]) as found:
        yield found


def test_a_new_broker_has_three_exchanges_and_no_fanout(page: Page) -> None:
    page.open("#/exchanges")
    page.sees("amq.direct", "amq.fanout", "amq.topic")
    page.press("Fanouts")
    page.sees("No fanout yet. A fanout puts a copy")
    assert page.place == "#/exchanges?tab=fanouts"
    is_right_everywhere(page)


def test_it_shows_what_each_leads_to_and_has_taken(page: Page, broker: Broker) -> None:
    url = broker[1]
    for name in ("events", HOSTILE.replace("/", "|"), LONG):
        assert ask(url, "PUT", f"/v1/exchanges/{quote(name, safe='')}", {"type": "topic"})["ok"]
    ask(url, "PUT", "/v1/queues/q", {})
    ask(url, "PUT", "/v1/logs/all", {})
    ask(url, "POST", "/v1/exchanges/events/bindings", {"key": "a.#", "queue": "q"})
    for key in ("a.b", "b"):
        ask(url, "POST", f"/v1/exchanges/events/messages?key={key}", {"messages": [{"body": "x"}]})
    ask(url, "PUT", f"/v1/fanouts/{quote(HOSTILE, safe='')}", {"children": ["q"]})
    ask(url, "PUT", "/v1/fanouts/wide", {"children": [f"q{nth}" for nth in range(8)]})
    ask(url, "PUT", "/v1/fanouts/news", {"children": ["q", "/log/all"]})
    page.open("#/exchanges")
    page.sees("events", LONG, "\\u202eevil")
    row = page.run("return [...document.querySelectorAll('tbody tr')].map((one) => one.innerText.split(/\\s+/))")
    assert [one[:5] for one in row if one[0] == "events"] == [["events", "topic", "1", "2", "1"]]
    is_right_everywhere(page)
    page.press("Fanouts")
    page.sees("news", "/log/all", "and 3 more", "\\u202eevil")
    is_right_everywhere(page)
    page.press("/log/all")
    page.wait(lambda: page.place == "#/logs/all", "the log")


def test_a_pattern_filters_and_pages_follow_each_other(page: Page, broker: Broker) -> None:
    url = broker[1]
    for nth in range(105):
        ask(url, "PUT", f"/v1/exchanges/{nth:03}.a", {"type": "direct"})
    page.open("#/exchanges")
    page.sees("Next page", "000.a")
    page.press("Next page")
    page.sees("104.a", "amq.topic")
    page.does_not_see("000.a")
    page.fill("[data-filter]", "*.a")
    page.sees("000.a")
    page.fill("[data-filter]", "nothing")
    page.sees("No exchanges match")
    page.is_accessible()
    page.press("All exchanges")
    page.sees("000.a")
    page.is_well()


@pytest.mark.parametrize("by", ["the page", "the command line", "curl"])
def test_an_exchange_is_declared(page: Page, broker: Broker, by: str) -> None:
    process, url = broker
    page.open("#/exchanges")
    page.press("Declare an exchange…")
    page.sees("An exchange needs a name.")
    page.fill("#field-name", "-it's <b>")
    choose(page, "#field-type", "topic")
    choose(page, "#field-durable", "false")
    choose(page, "#field-auto_delete", "true")
    page.is_accessible()
    command, call = lines(page)
    if by == "the page":
        page.press("Declare an exchange", "dialog")
        page.sees("The exchange is declared.", "-it's <b>")
    else:
        paste(process, command if by == "the command line" else call)
    found = ask(url, "GET", "/v1/exchanges/-it's%20%3Cb%3E")
    assert (found["type"], found["durable"], found["auto_delete"]) == ("topic", False, True)
    page.is_well()


def test_a_slash_in_the_name_of_an_exchange_is_refused_in_the_dialog(page: Page) -> None:
    page.open("#/exchanges")
    page.press("Declare an exchange…")
    page.fill("#field-name", "a/b")
    page.expected += 1
    page.press("Declare an exchange", "dialog")
    page.sees("'a/b' is not a valid name for an exchange: it has a /")
    page.is_well()


@pytest.mark.parametrize("by", ["the page", "the command line", "curl"])
def test_a_fanout_is_declared(page: Page, broker: Broker, by: str) -> None:
    process, url = broker
    ask(url, "PUT", "/v1/logs/all", {})
    page.open("#/exchanges?tab=fanouts")
    page.press("Declare a fanout…")
    page.fill("#field-name", "a/b")
    page.sees("A fanout leads to at least one queue or log.")
    page.fill("#field-children", "-mail\n/log/all\n")
    page.expected += 1
    page.press("Declare a fanout", "dialog")
    page.sees("There is no /queue/-mail")
    choose(page, "#field-create", "true")
    command, call = lines(page)
    if by == "the page":
        page.press("Declare a fanout", "dialog")
        page.sees("The fanout is declared.", "a/b")
    else:
        paste(process, command if by == "the command line" else call)
    assert ask(url, "GET", "/v1/fanouts/a%2Fb")["children"] == ["-mail", "/log/all"]
    page.is_well()
