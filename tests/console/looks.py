"""How a page is looked at: in both colours, by somebody who may see a part, until its broker ends."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.console.page import Page
from tests.server.web import HASH, basic

FADE_S = 0.2  # colours change within that

USERS = f"""
[user.ann]
password = "{HASH}"
role = "operator"
[user.bob]
password = "{HASH}"
see = ["/queue/of-bob"]
"""


@contextmanager
def as_user(page: Page, name: str) -> Iterator[Page]:
    """Each request of the page is theirs."""
    page.driver.execute_cdp_cmd("Network.enable", {})
    page.driver.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": {"Authorization": basic(name)}})
    try:
        yield page
    finally:
        page.driver.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": {}})


def is_accessible_in_both(page: Page) -> None:
    """In light and in dark colours."""
    for is_dark in (True, False):
        page.dark(is_dark)
        time.sleep(FADE_S)
        page.is_accessible()


def leave(page: Page) -> None:
    """Away from a broker that ends, or was another test's: what the browser has said of it is forgotten."""
    page.driver.get("about:blank")
    page.driver.get_log("browser")
