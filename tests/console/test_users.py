"""The page of users: what each has in use, and whether one may do something."""

from collections.abc import Iterator

import pytest

from radiator.client import Client
from tests.broker_process import BrokerProcess
from tests.console.by_hand import HOSTILE, choose, is_right_everywhere, lines, looked_at
from tests.console.looks import as_user
from tests.console.page import Page, a_broker
from tests.server.web import HASH, SECRET

USERS = (
    f'[user.ann]\npassword = "{HASH}"\nrole = "operator"\n'
    f'[user.bob]\npassword = "{HASH}"\nwrite = ["/queue/of-bob"]\nread = ["/queue/of-bob"]\nsee = ["/queue/of-bob"]\n'
    "max_connections = 5\n"
)


AS_ANN = "RADIATOR_BROKER=stomp://ann@127.0.0.1:61613"  # who has logged in, at the usual port: its own is not told


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, str]]:
    with a_broker(tmp_path_factory.mktemp("broker"), USERS) as found:
        yield found


@pytest.fixture
def page(tab: Page, broker: tuple[BrokerProcess, str]) -> Iterator[Page]:
    with as_user(tab, "ann"), looked_at(tab, broker[1]):
        tab.open("#/users")
        tab.sees("May a user do that?")
        yield tab
        tab.is_well()


def asked(page: Page, user: str, right: str, destination: str = "") -> None:
    page.fill("form input", user)
    choose_right(page, right)
    if destination:
        page.fill("form input[placeholder]", destination)
    page.press("Ask", "form")


def choose_right(page: Page, right: str) -> None:
    choose(page, "form select", right)
    page.run("document.querySelector('form select').dispatchEvent(new Event('change', { bubbles: true }))")


def test_without_users_it_says_how_to_have_some(tab: Page, tmp_path_factory: pytest.TempPathFactory) -> None:
    with a_broker(tmp_path_factory.mktemp("open")) as (_, url), looked_at(tab, url):
        tab.open("#/users")
        tab.sees("No user has anything in use.", "docs/SECURITY.md")
        asked(tab, "anybody", "write", "/queue/x")
        tab.sees("yes", "There are no users: whoever gets in may do everything.")
        is_right_everywhere(tab)


def test_what_each_has_in_use_and_its_connections(page: Page, broker: tuple[BrokerProcess, str]) -> None:
    with Client(broker[0].address, user="bob", password=SECRET) as client:
        client.send_many("/queue/of-bob", [b"x" * 100] * 3)
        client.subscribe("/queue/of-bob", ack="client-individual", prefetch=2)
        assert client.receive(5)
        page.sees("1 of 5")
        is_right_everywhere(page)
        page.press("1 of 5")
        page.wait(lambda: page.place == "#/connections?user=bob", "the connections of bob")
        page.sees("STOMP 1.2", "bob")


def test_may_he_yes_and_no_with_the_rule(page: Page, broker: tuple[BrokerProcess, str]) -> None:
    asked(page, "bob", "write", "/queue/of-bob")
    page.sees("yes", "The user bob may write /queue/of-bob: the rule /queue/of-bob of write matches it.")
    assert page.place == "#/users?user=bob&right=write&destination=%2Fqueue%2Fof-bob"
    is_right_everywhere(page)
    asked(page, "bob", "write", "/queue/of-ann")
    page.sees("no", "The user bob may not write /queue/of-ann: there is no rule of write that matches it.")
    page.open(page.place)
    page.sees("The user bob may not write /queue/of-ann")
    cli, curl = lines(page, "main")
    assert cli == f"{AS_ANN} radiator may bob write /queue/of-ann"
    assert curl == f"curl --fail --user ann '{page.url}/v1/users/bob/may?right=write&destination=%2Fqueue%2Fof-ann'"


def test_the_right_on_the_broker_as_a_whole_has_no_destination(page: Page) -> None:
    asked(page, "bob", "admin")
    page.sees("no", "The user bob may not do that")
    assert lines(page, "main")[0] == f"{AS_ANN} radiator may bob admin"
    asked(page, "ann", "admin")
    page.sees("yes", "The user ann may")


def test_a_user_that_is_not_there_and_a_hostile_one(page: Page) -> None:
    asked(page, "nobody", "read", "/queue/x")
    page.sees("There is no user 'nobody'")
    asked(page, HOSTILE, "read", "/queue/x")
    page.sees("user must be the name of a user", "evil", "\\u202e")
    assert page.all("main img") == []
    asked(page, "bob", "read", "/nonsense")
    page.sees("/nonsense is not a destination")
    page.expected = 3


def test_who_may_see_a_part_may_ask_about_himself(tab: Page, broker: tuple[BrokerProcess, str]) -> None:
    with as_user(tab, "bob"), looked_at(tab, broker[1]):
        tab.open("#/users")
        tab.sees("The user bob may not")
        asked(tab, "bob", "see", "/queue/of-bob")
        tab.sees("yes", "The user bob may see /queue/of-bob")
        asked(tab, "ann", "see", "/queue/of-bob")
        tab.sees("The user bob may not")
        tab.expected = 20
        tab.is_well()
        tab.is_accessible()
