"""The page of the broker itself: bounds, the configuration, the log, the disk, and a reload."""

from collections.abc import Iterator

import pytest

from radiator.auth.tokens import sha256_of
from radiator.client import Client
from tests.broker_process import BrokerProcess
from tests.console.by_hand import choose, is_right_everywhere, lines, looked_at, paste
from tests.console.looks import USERS, as_user
from tests.console.page import Page, a_broker
from tests.server.web import HASH, SECRET, TOKEN

DIGEST = sha256_of(TOKEN.encode())
TABLES = USERS + f'[user.ci]\ntokens = [{{ sha256 = "{DIGEST}" }}]\nwrite = ["/queue/of-ci"]\n[queue.orders]\n'
MORE = "max_messages = 77\n"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, str]]:
    with a_broker(tmp_path_factory.mktemp("broker"), TABLES) as found:
        yield found


@pytest.fixture
def page(tab: Page, broker: tuple[BrokerProcess, str]) -> Iterator[Page]:
    with as_user(tab, "ann"), looked_at(tab, broker[1]):
        tab.open("#/broker")
        tab.sees("Bounds")
        yield tab
        tab.is_well()


def rows(page: Page) -> list[str]:
    return [
        str(one) for one in page.run("return [...document.querySelectorAll('tbody tr')].map((one) => one.innerText)")
    ]


def test_each_bound_says_how_near_it_is_and_what_happens_there(page: Page) -> None:
    page.sees("max_connections", "One more client is refused with ERROR (connections).", "In use")
    page.sees("max_destinations")
    assert page.all("meter[aria-label='max_connections: use']")
    is_right_everywhere(page)


def test_the_configuration_in_force_can_be_filtered_and_has_nothing_secret(page: Page) -> None:
    page.press("Configuration")
    page.sees("[server] listen", '[user."ann"] password', "[hidden]", "config.toml")
    assert page.place == "#/broker?tab=configuration"
    text = page.text
    assert [one for one in (str(HASH), "$scrypt$", DIGEST, DIGEST[:16], SECRET) if one in text] == []
    is_right_everywhere(page)
    page.keys("/")
    page.keys("USER.")
    page.wait(lambda: rows(page) and all(one.startswith("[user.") for one in rows(page)), "the settings of users")
    assert "text=USER." in page.place and "tab=configuration" in page.place
    page.open(page.place)
    page.wait(lambda: rows(page) and all(one.startswith("[user.") for one in rows(page)), "the same, loaded anew")
    page.fill("[data-filter]", "no such thing")
    page.sees("No setting has a name that contains that.")


def test_the_log_has_the_newest_line_first_and_a_level(page: Page, broker: tuple[BrokerProcess, str]) -> None:
    page.press("Log")
    page.sees("listening", "console", "info")
    is_right_everywhere(page)
    with pytest.raises(Exception, match="passcode"):
        Client(broker[0].address, user="ann", password="wrong secret")
    choose(page, "select[aria-label='From the level'], main select", "warning")
    page.run("document.querySelector('main select').dispatchEvent(new Event('change', { bubbles: true }))")
    page.wait(lambda: page.place == "#/broker?tab=log&level=warning", "the level in the address")
    page.does_not_see("listening")
    assert not [one for one in rows(page) if "\tinfo\t" in one]
    assert "wrong secret" not in page.text
    choose(page, "main select", "error")
    page.run("document.querySelector('main select').dispatchEvent(new Event('change', { bubbles: true }))")
    page.sees("The log has no such line.")
    page.is_accessible()


def test_the_disk(page: Page) -> None:
    page.press("Disk")
    page.sees("data dir", "disk free", "wal segments", "GiB")
    is_right_everywhere(page)


def test_a_reload_says_what_would_change_and_changes_it(page: Page, broker: tuple[BrokerProcess, str]) -> None:
    process, _ = broker
    page.press("Reload config.toml…")
    page.sees("radiator reload --dry-run", "/v1/reload")
    is_right_everywhere(page)
    page.press("Reload config.toml", "dialog")
    page.sees("Nothing was changed.", "The file changes nothing: it says what is already in force.")
    process.config_file.write_text(process.config_file.read_text() + MORE)
    page.press("Reload config.toml…")
    page.press("Reload config.toml", "dialog")
    page.sees("Nothing was changed. What would change:", "77")
    assert most(process) != 77
    page.press("Reload config.toml…")
    choose(page, "#field-dry_run", "false")
    page.does_not_see("--dry-run")
    assert lines(page)[0] == "RADIATOR_BROKER=stomp://ann@127.0.0.1:61613 radiator reload"
    page.press("Reload config.toml", "dialog")
    page.sees("The configuration is in force. What has changed:", "77")
    assert most(process) == 77


def most(process: BrokerProcess) -> int | None:
    """How many messages the queue may have."""
    with Client(process.address, user="ann", password=SECRET) as client:
        found: int | None = client.admin({"do": "describe", "queue": "orders"})["settings"]["max_messages"]
        return found


def test_a_mistake_in_the_file_changes_nothing_and_is_told(page: Page, broker: tuple[BrokerProcess, str]) -> None:
    right = broker[0].config_file.read_text()
    broker[0].config_file.write_text(right + "nonsense = 5\n")
    page.press("Reload config.toml…")
    choose(page, "#field-dry_run", "false")
    page.press("Reload config.toml", "dialog")
    page.sees("nonsense")
    assert page.one("dialog .trouble").text
    page.is_accessible()
    page.keys("\ue00c")
    broker[0].config_file.write_text(right)
    page.expected = 1


def test_without_users_the_lines_can_be_pasted(tab: Page, tmp_path_factory: pytest.TempPathFactory) -> None:
    with a_broker(tmp_path_factory.mktemp("open"), "[queue.orders]\n") as (process, url), looked_at(tab, url):
        tab.open("#/broker")
        tab.press("Reload config.toml…")
        for line in lines(tab):
            paste(process, line)
        choose(tab, "#field-dry_run", "false")
        tab.does_not_see("--dry-run")
        process.config_file.write_text(process.config_file.read_text() + "[queue.later]\n")
        for line in lines(tab):
            paste(process, line)
        tab.is_well()


def test_who_may_not_see_it_is_told(tab: Page, broker: tuple[BrokerProcess, str]) -> None:
    with as_user(tab, "bob"), looked_at(tab, broker[1]):
        for part in ("", "?tab=configuration", "?tab=log", "?tab=disk"):
            tab.open(f"#/broker{part}")
            tab.sees("The user bob may not")
            tab.is_accessible()
        tab.press("Reload config.toml…")
        tab.press("Reload config.toml", "dialog")
        tab.wait(lambda: tab.all("dialog .trouble"), "the refusal")
        tab.expected = 40
        tab.is_well()
