"""The pages of examples/web in a real Chromium, on the broker and the web server that their README names."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker_process import CHECKOUT, SERVER, BrokerProcess
from tests.browser import WAIT_S, chromium, site_of
from tests.server.web import WebClient, port_of

PAGES = CHECKOUT / "examples" / "web"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, site: str) -> Iterator[BrokerProcess]:
    """On the example's config.toml, but for its addresses."""
    config = (PAGES / "config.toml").read_text()
    server = SERVER.replace('"stomp://127.0.0.1:0"', '"stomp://127.0.0.1:0", "http://127.0.0.1:0"')
    tables = re.sub(r"(?ms)^\[server\].*?(?=^# Pages)", server + "\n", config).replace("http://127.0.0.1:8000", site)
    with BrokerProcess(tmp_path_factory.mktemp("broker"), tables) as running:
        running.wait_for_log("listening address=http://")
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("site")


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[str]:
    with site_of(folder) as address:
        yield address


@pytest.fixture(scope="module")
def opened(broker: BrokerProcess, site: str, folder: Path) -> Iterator[Callable[[str], Any]]:
    """Opens one of the pages, as it stands but for the broker's port."""
    for page in PAGES.glob("*.html"):
        text = page.read_text()
        assert "127.0.0.1:61680" in text
        (folder / page.name).write_text(text.replace("61680", str(port_of(broker.log, "http"))))
    with chromium() as driver:

        def open_page(name: str) -> Any:
            driver.get(f"{site}/{name}")
            return driver

        yield open_page


def shown(page: Any, selector: str, wanted: list[str]) -> None:
    """Waits until these are the texts of what the page has there."""
    until_s = time.monotonic() + WAIT_S
    script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)"
    while (found := page.execute_script(script, selector)) != wanted:
        assert time.monotonic() < until_s, found
        time.sleep(0.05)


def say(page: Any, who: str, text: str) -> None:
    for name, value in (("who", who), ("text", text)):
        field = page.find_element("name", name)
        field.clear()
        field.send_keys(value)
    page.find_element("tag name", "button").click()


def test_who_chats_is_read_and_whoever_comes_later_reads_it_too(opened: Callable[[str], Any]) -> None:
    page = opened("chat.html")
    say(page, "Ann", "Hello!")
    shown(page, "li", ["Ann: Hello!"])
    say(page, "Ben", "<b>no markup</b>")
    shown(page, "li", ["Ann: Hello!", "Ben: <b>no markup</b>"])
    shown(opened("chat.html"), "li", ["Ann: Hello!", "Ben: <b>no markup</b>"])


def test_the_dashboard_follows_the_queues(opened: Callable[[str], Any], broker: BrokerProcess) -> None:
    page = opened("dashboard.html")
    with WebClient(port_of(broker.log, "http")) as client:
        for count in (1, 2):
            client.ask("POST", "/v1/queues/jobs/messages", b"x", Content_Type="text/plain")
            shown(page, "td", ["jobs", str(count), "0", "0"])
