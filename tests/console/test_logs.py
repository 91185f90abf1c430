"""The list of logs."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.broker_process import BrokerProcess
from tests.console.by_hand import HOSTILE, LONG, ask, is_right_everywhere, lines, looked_at, paste
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


def test_without_a_log_it_says_what_would_be_here(page: Page) -> None:
    page.open("#/logs")
    page.sees("No log yet. A log keeps what is sent to /log/NAME")
    is_right_everywhere(page)


def test_it_shows_what_is_in_each_log_and_who_is_behind(page: Page, broker: Broker) -> None:
    url = broker[1]
    for name in ("clicks", "10", "9", HOSTILE, LONG, "__proto__"):
        assert ask(url, "PUT", f"/v1/logs/{quote(name, safe='')}", {"partitions": 2, "retention_bytes": "10MiB"})["ok"]
    ask(url, "POST", "/v1/logs/clicks/messages", {"messages": [{"body": "x" * 100}] * 5})
    ask(url, "PUT", "/v1/logs/clicks/positions/billing", {"offsets": [0, 1]})
    ask(url, "PUT", "/v1/logs/clicks/positions/mail", {"offsets": [1, 1]})
    page.open("#/logs")
    page.sees(
        "clicks",
        "4 by billing, of 2 groups",
        "no group",
        "10.0 MiB",
        "__proto__",
        LONG,
        "<img src=x onerror=alert(1)>\\u202eevil",
    )
    names = page.run("return [...document.querySelectorAll('tbody a')].map((one) => one.textContent)")
    assert names[:4] == ["10", "9", names[2], "__proto__"] and names[-1] == LONG
    page.press("clicks")
    page.wait(lambda: page.place == "#/logs/clicks", "its page")
    page.sees("Log clicks")
    is_right_everywhere(page)


def page_of(page: Page, rows: int | None = None) -> list[str]:
    """The names that are shown, where they are so many."""
    names = list(page.run("return [...document.querySelectorAll('tbody a')].map((one) => one.textContent)"))
    return names if rows in (None, len(names)) else []


def test_a_pattern_filters_and_pages_follow_each_other(page: Page, broker: Broker) -> None:
    url = broker[1]
    for nth in range(203):
        ask(url, "PUT", f"/v1/logs/{nth}.a", {})
    ask(url, "PUT", "/v1/logs/other.b", {})
    page.open("#/logs")
    page.sees("Next page")
    names: list[str] = []
    for rows in (100, 100, 4):
        names += page.wait(lambda rows=rows: page_of(page, rows), f"a page of {rows}")
        if rows == 100:
            page.press("Next page")
            page.wait(lambda old=names[-1]: old not in page_of(page), "another page")
    assert len(set(names)) == 204
    page.fill("[data-filter]", "other.*")
    page.wait(lambda: len(page.all("tbody tr")) == 1, "one row")
    assert "match=other.*" in page.place and "after" not in page.place
    page.fill("[data-filter]", "nothing")
    page.sees("No log matches")
    page.expected += 5  # 400, for as long as the pattern stands there
    page.fill("[data-filter]", "*.*.*.*")
    page.sees("at most 3 are * or #")
    page.is_accessible()


@pytest.mark.parametrize("by", ["the page", "the command line", "curl"])
def test_a_log_is_declared(page: Page, broker: Broker, by: str) -> None:
    process, url = broker
    page.open("#/logs")
    page.press("Declare a log…")
    page.sees("A log needs a name.")
    page.fill("#field-name", "it's <b>a/log</b>")
    page.fill("#field-partitions", "3")
    page.fill("#field-partition_key", "/customer/id")
    page.fill("#field-hours", "1.5")
    page.fill("#field-retention_bytes", "1GiB")
    page.is_accessible()
    command, call = lines(page)
    if by == "the page":
        page.press("Declare a log", "dialog")
        page.sees("The log is declared.", "it's <b>a/log</b>")
    else:
        paste(process, command if by == "the command line" else call)
    settings = ask(url, "GET", "/v1/logs/it's%20%3Cb%3Ea%2Flog%3C%2Fb%3E")["settings"]
    assert settings == {
        "partitions": 3,
        "partition_key": "/customer/id",
        "retention_ms": 5400000,
        "retention_bytes": 1 << 30,
        "schema": None,
    }
    page.is_well()


def test_a_refusal_is_shown_in_the_dialog(page: Page, broker: Broker) -> None:
    ask(broker[1], "PUT", "/v1/logs/clicks", {"partitions": 2})
    page.open("#/logs")
    page.press("Declare a log…")
    page.fill("#field-name", "clicks")
    page.expected += 1
    page.press("Declare a log", "dialog")
    page.sees("/log/clicks already exists")
    page.is_well()


def test_who_may_see_only_a_part_reads_why(tab: Page, tmp_path: Path) -> None:
    users = '\n[user."anonymous"]\nsee = ["/log/clicks"]\n[log."clicks"]\n'
    with a_broker(tmp_path, users) as (_, url), looked_at(tab, url) as page:
        page.open("#/logs")
        page.expected += 5  # 403, as long as the page is open
        page.sees("anonymous may not see")
        page.is_accessible()
        page.go("#/logs/clicks")
        page.sees("It has no record.")
        page.go("#/logs/clicks?tab=read&from=earliest")
        page.expected += 1
        page.sees("anonymous may not read")
        page.is_well()
