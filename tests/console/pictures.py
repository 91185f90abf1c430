"""Pictures of the console's pages, in light and dark, for docs/CONSOLE.md and README.md.

    python -m tests.console.pictures [FOLDER]      into docs/images/console, if no folder is given

They are of a broker with something of everything (lively.py), as a Chromium shows it.
"""

import base64
import sys
import tempfile
import time
from pathlib import Path

from tests.console.lively import lively
from tests.console.page import Page, a_tab

FOLDER = Path(__file__).resolve().parent.parent.parent / "docs" / "images" / "console"
WIDTH, HEIGHT = 1280, 860
SETTLED_S = 1.5  # what is asked for has come, and plots are drawn
LIVE_S = 45  # so much history is on the plots

PLACES = {
    "overview": "#/",
    "queues": "#/queues?sort=-ready",
    "queue": "#/queues/orders",
    "dead-letters": "#/queues/orders.dead",
    "unacked": "#/queues/mails?tab=unacked",
    "message": "#/messages?correlation=task-1",
    "logs": "#/logs",
    "log": "#/logs/clicks",
    "exchanges": "#/exchanges",
    "exchange": "#/exchanges/exchange/shop?key=order.paid",
    "connections": "#/connections",
    "nodes": "#/nodes",
    "prepared": "#/prepared",
    "workers": "#/workers",
    "users": "#/users",
    "broker": "#/broker",
    "log-lines": "#/broker?tab=log",
}


def take(page: Page, file: Path) -> None:
    """What is to be seen now."""
    found = page.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": 80})
    file.write_bytes(base64.b64decode(found["data"]))


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, lively(Path(directory)) as (_, url), a_tab(url) as page:
        time.sleep(LIVE_S)
        for is_dark, colours in ((False, "light"), (True, "dark")):
            page.dark(is_dark)
            for name, place in PLACES.items():
                page.driver.set_window_size(WIDTH, HEIGHT)
                page.open(place)
                page.wait(lambda: "Loading" not in page.text, name)
                time.sleep(SETTLED_S)
                take(page, folder / f"{name}-{colours}.webp")
            page.driver.set_window_size(390, 844)
            page.open("#/queues")
            time.sleep(SETTLED_S)
            take(page, folder / f"phone-{colours}.webp")
            page.expected = 2  # it is no node of a cluster, which the page of nodes says
            page.is_well()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else FOLDER)
