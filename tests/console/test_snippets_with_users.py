"""The first snippets, where the broker has users."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.by_hand import looked_at
from tests.console.looks import USERS
from tests.console.page import Page, a_broker
from tests.server.web import SECRET


@pytest.fixture
def page(tab: Page, tmp_path: Path) -> Iterator[Page]:
    with a_broker(tmp_path, USERS) as (_, url), looked_at(tab, url) as found:
        yield found


def test_the_first_snippets_log_in_too(page: Page) -> None:
    page.open()
    page.fill("[name=user]", "ann")
    page.fill("[name=password]", SECRET)
    page.press("Log in", "main")
    page.sees("No queue yet: send the first message", 'user="ann", password=getpass()')
    page.press("curl")
    page.sees("curl --fail --user ann ")
    page.press("Browser")
    page.sees('user: "ann", password: prompt("Password")')
    page.press("Log out")
    page.sees("Password")
    page.expected = 6  # the overview's three requests, before it is known who asks, and once that is nobody again
    page.is_well()
