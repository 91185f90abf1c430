"""Who looks: a login before any page, what a part of the rights shows, and sessions that end."""

from collections.abc import Iterator

import pytest

from radiator.client import Client
from tests.console.by_hand import is_right_everywhere
from tests.console.every import places
from tests.console.looks import leave
from tests.console.page import Page
from tests.server.web import HASH, SECRET, TOKEN, USERS, WebBroker, port_of

MORE = (
    f'[user.vic]\npassword = "{HASH}"\nrole = "viewer"\n[queue.orders]\n[queue.of-bob]\n[log.clicks]\n'
    '[exchange.shop]\ntype = "topic"\n[fanout.announcements]\nchildren = ["orders"]\n'
)
CONFIG = USERS.replace('read = ["/queue/of-bob"]', 'read = ["/queue/of-bob"]\nsee = ["/queue/of-bob"]') + MORE
BROKEN = ("This page has failed", "could not be loaded", "undefined", "NaN", "[object")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBroker]:
    with WebBroker(tmp_path_factory.mktemp("broker"), CONFIG) as broker:
        with Client(broker.address, user="ann", password=SECRET) as client:
            client.send_many("/queue/orders", [b"x"] * 3)
        yield broker


@pytest.fixture
def broker(tab: Page, running: WebBroker) -> Iterator[WebBroker]:
    """With a browser that knows nobody."""
    leave(tab)
    tab.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
    tab.url = f"http://127.0.0.1:{port_of(running.log, 'http')}"
    tab.expected = 0
    yield running
    leave(tab)
    tab.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})


def log_in(page: Page, name: str, password: str = SECRET) -> None:
    page.sees("Log in")
    page.fill("input[name=user]", name)
    page.fill("input[name=password]", password)
    page.press("Log in", "form")


@pytest.mark.parametrize("place", places())
def test_each_page_asks_for_the_login_first(tab: Page, broker: WebBroker, place: str) -> None:
    tab.open(place)
    tab.one("form.login")
    assert "ann" not in tab.text and "orders" not in tab.one("main").text and tab.place == place
    tab.expected = 20  # what the page has asked for before it knew
    tab.is_well()


def test_a_wrong_password_says_so_and_what_was_typed_stays(tab: Page, broker: WebBroker) -> None:
    tab.open("#/queues?text=ord")
    log_in(tab, "ann", "wrong")
    tab.sees("No user of this broker has that name and that password.")
    fields = "return [...document.querySelectorAll('.login input')].map((one) => one.value)"
    assert tab.run(fields) == ["ann", "wrong"]
    tab.expected = 20  # what is asked before the login, and that
    is_right_everywhere(tab)
    tab.fill("input[name=password]", SECRET)
    tab.press("Log in", "form")
    tab.sees("1 of 2 queues", "ann", "Log out")
    assert tab.place == "#/queues?text=ord"


def test_who_it_is_is_shown_and_a_logout_ends_it(tab: Page, broker: WebBroker) -> None:
    tab.open()
    log_in(tab, "ann")
    tab.sees("Needs you")
    assert "ann" in tab.one("header").text
    assert "radiator=" not in tab.run("return document.cookie"), "a script can read the cookie"
    tab.driver.get_log("browser")  # what was asked before the login
    is_right_everywhere(tab)
    tab.press("Log out")
    tab.sees("You are logged out.", "Password")
    assert "ann" not in tab.one("header").text
    tab.open("#/queues")
    tab.sees("Password")
    assert "orders" not in tab.one("main").text


def test_a_token_will_do(tab: Page, broker: WebBroker) -> None:
    tab.open("#/users")
    tab.sees("Log in")
    tab.press("With a token instead")
    tab.sees("With a password instead")
    tab.fill("input[name=token]", "nonsense")
    tab.press("Log in", "form")
    tab.sees("No user of this broker has that token.")
    tab.fill("input[name=token]", TOKEN)
    tab.press("Log in", "form")
    tab.sees("ci", "Log out", "The user ci may not")


def test_a_viewer_sees_everything_and_is_refused_what_would_change_something(tab: Page, broker: WebBroker) -> None:
    tab.open("#/queues/orders")
    log_in(tab, "vic")
    tab.sees("orders", "Purge…", "The user vic may not")  # read its messages
    tab.driver.get_log("browser")
    tab.press("Purge…")
    tab.fill("dialog input:not([type=checkbox])", "orders")
    tab.press("Purge", "dialog")
    assert "The user vic may not" in tab.one("dialog[open] .trouble").text
    tab.keys("\ue00c")
    tab.go("#/broker")
    tab.press("Reload config.toml…")
    tab.press("Reload config.toml", "dialog")
    assert "The user vic may not" in tab.one("dialog[open] .trouble").text
    tab.keys("\ue00c")
    tab.expected = 2
    tab.is_well()
    with Client(broker.address, user="ann", password=SECRET) as client:
        assert client.admin({"do": "describe", "queue": "orders"})["ready"] == 3


def test_rights_on_one_queue_give_sentences_and_no_broken_page(tab: Page, broker: WebBroker) -> None:
    tab.open("#/queues/of-bob")
    log_in(tab, "bob")
    tab.sees("of-bob", "Log out")
    for place in places():
        tab.go(place)
        tab.wait(lambda: tab.one("h1").text and "Loading…" not in tab.text, f"{place} loaded")
        text = tab.text
        assert not [one for one in BROKEN if one in text], (place, text)
        if place not in ("#/queues", "#/messages", "#/broker"):
            tab.wait(lambda: "The user bob may" in tab.text or "bob" in tab.one("main").text, f"a sentence at {place}")
        assert not tab.all("form.login"), f"{place} asks who it is, which is known"
    assert tab.run("return window.wrongs") == []


def test_a_session_that_a_reload_ends_asks_anew_and_comes_back_to_the_same_page(tab: Page, broker: WebBroker) -> None:
    tab.open("#/queues/orders?tab=messages")
    log_in(tab, "ann")
    tab.sees("orders", "Log out")
    ann = f'[user.ann]\npassword = "{HASH}"\nrole = "operator"\n'
    assert ann in CONFIG
    broker.config_file.write_text(CONFIG.replace(ann, ""))
    broker.hang_up("reloaded")
    tab.one("form.login")
    tab.fill("input[name=user]", "vic")
    for _ in range(14):  # seven seconds: longer than the page asks who it is
        tab.wait(
            lambda: tab.run("return document.querySelector('.login input')?.value") == "vic", "what was typed", 0.5
        )
        tab.run("return new Promise((done) => setTimeout(done, 500))")
    assert tab.place == "#/queues/orders?tab=messages"
    log_in(tab, "vic")
    tab.sees("orders", "Log out", "vic")
    tab.does_not_see("Password")
    assert tab.place == "#/queues/orders?tab=messages"
    broker.config_file.write_text(CONFIG)
    broker.hang_up("reloaded")


def test_over_https_too(tab: Page, broker: WebBroker) -> None:
    tab.driver.execute_cdp_cmd("Security.setIgnoreCertificateErrors", {"ignore": True})
    try:
        tab.url = f"https://localhost:{port_of(broker.log, 'https')}"
        tab.open("#/queues/orders")
        log_in(tab, "ann")
        tab.sees("orders", "Log out")
        (cookie,) = tab.driver.execute_cdp_cmd("Network.getCookies", {"urls": [tab.url]})["cookies"]
        assert cookie["name"] == "__Host-radiator" and cookie["secure"] and cookie["httpOnly"]
        tab.go("#/connections")
        tab.sees("TLSv1.3")
        tab.driver.get_log("browser")
        tab.press("Log out")
        tab.sees("Password")
    finally:
        leave(tab)
        tab.driver.execute_cdp_cmd("Security.setIgnoreCertificateErrors", {"ignore": False})
