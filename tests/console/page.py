"""The console of a broker in a real Chromium, as somebody who looks at it sees it."""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess
from tests.browser import chromium
from tests.interop.npm import node_modules
from tests.ports import free_port

LOOK_S = 15.0
_ALL = "\ue009a\ue000"  # WebDriver, section 15.4.2: Control and A, and no more keys held
SERIOUS = ("serious", "critical")  # as axe-core grades what it finds

_NO_HISTORY = re.compile(r"/v1/queues/[^/]+/history ")  # 404 until a queue is five seconds old

WATCH = """
window.wrongs = [];
addEventListener("securitypolicyviolation", (one) => wrongs.push(`policy: ${one.violatedDirective} ${one.sample}`));
addEventListener("error", (one) => wrongs.push(`error: ${one.message}`));
addEventListener("unhandledrejection", (one) => wrongs.push(`rejected: ${one.reason}`));
"""
AXE = """
const done = arguments[0];
axe.run(document, { resultTypes: ["violations"] }).then(
  (found) => done(found.violations.map((one) =>
    [one.impact, one.id, one.help, one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(" | ")])),
  (error) => done([["critical", "axe", String(error), ""]]));
"""


class Page:
    """One tab. url: of the broker whose console it shows."""

    def __init__(self, driver: Any, url: str) -> None:
        self.driver = driver
        self.url = url
        self.expected = 0  # requests that the page makes and is refused, as a test wants it

    # ---- going somewhere

    def open(self, place: str = "#/") -> None:
        """Loads the console anew, at that place."""
        self.driver.get("about:blank")
        self.driver.get(f"{self.url}/{place}")

    def go(self, place: str) -> None:
        """To another place of the page that is loaded."""
        self.driver.execute_script("location.hash = arguments[0]", place)

    @property
    def place(self) -> str:
        return str(self.driver.execute_script("return location.hash"))

    # ---- looking

    @property
    def text(self) -> str:
        """All that can be read on it."""
        return str(self.driver.execute_script("return document.body.innerText"))

    def wait(self, condition: Callable[[], Any], what: str, within_s: float = LOOK_S) -> Any:
        """What the condition returns, once that is true."""
        until = time.monotonic() + within_s
        while not (found := condition()):
            assert time.monotonic() < until, f"{what} did not come; the page says:\n{self.text}"
            time.sleep(0.05)
        return found

    def sees(self, *texts: str, within_s: float = LOOK_S) -> None:
        """Waits until all of them can be read."""
        self.wait(lambda: all(one in self.text for one in texts), f"{texts}", within_s)

    def does_not_see(self, text: str, within_s: float = LOOK_S) -> None:
        """Waits until it can be read no more."""
        self.wait(lambda: text not in self.text, f"the end of {text!r}", within_s)

    def all(self, css: str) -> list[Any]:
        """The elements that it selects."""
        return list(self.driver.find_elements("css selector", css))

    def one(self, css: str) -> Any:
        """The first of them, as soon as there is one."""
        return self.wait(lambda: self.all(css), css)[0]

    def run(self, script: str, *arguments: Any) -> Any:
        """What the script returns."""
        return self.driver.execute_script(script, *arguments)

    # ---- doing

    def press(self, label: str, inside: str = "body") -> None:
        """Clicks the button, or the link, that has this text or is named so."""
        script = """
        const [label, inside] = arguments;
        const named = (one) => (one.getAttribute("aria-label") ?? one.textContent).trim() === label && !one.disabled;
        const all = [...document.querySelectorAll(`${inside} button, ${inside} a, ${inside} summary`)].filter(named);
        all[0]?.click();
        return all.length;
        """
        self.wait(lambda: self.run(script, label, inside), f"the button {label!r}")

    def fill(self, css: str, text: str) -> None:
        """Types into a field, in place of what is in it, as soon as it can have the focus: its dialog is open then."""
        field = self.one(css)
        script = "arguments[0].focus(); return document.activeElement === arguments[0]"
        self.wait(lambda: self.run(script, field), f"the focus of {css}")
        # in one go: a dialog that opens meanwhile takes the focus for a moment, and with it what was selected
        field.send_keys(_ALL + text)

    def keys(self, text: str) -> None:
        """Types into whatever has the focus."""
        self.driver.switch_to.active_element.send_keys(text)

    # ---- judging

    def is_well(self) -> None:
        """Nothing has failed or broken the page's policy, and no request was refused that the test does not expect."""
        assert self.run("return window.wrongs ?? []") == []
        entries = [one for one in self.driver.get_log("browser") if one["level"] == "SEVERE"]
        mine = [one for one in entries if one["message"].startswith(self.url)]  # a test before had another broker
        refused = [one for one in mine if one["source"] == "network" and not _NO_HISTORY.search(one["message"])]
        assert [one for one in entries if one["source"] != "network"] == []
        assert len(refused) <= self.expected, refused
        self.expected = 0

    def is_accessible(self) -> None:
        """axe-core finds nothing serious."""
        axe = (node_modules("axe-core") / "axe-core/axe.min.js").read_text()
        self.driver.execute_script(axe)
        found = self.driver.execute_async_script(AXE)
        serious = [one for one in found if one[0] in SERIOUS]
        assert serious == [], serious

    def dark(self, is_dark: bool) -> None:
        """As a system with dark colours has it."""
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"},  # a colour on its way has too little contrast
        ]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


@contextmanager
def a_tab(url: str = "") -> Iterator[Page]:
    """A browser, with a page that is watched from its first moment on."""
    with chromium() as driver:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
        driver.set_window_size(1300, 900)
        yield Page(driver, url)


def config_of(port: int, more: str = "") -> str:
    """A broker with the web at that port. more: further tables."""
    listen = f'"stomp://127.0.0.1:0", "http://127.0.0.1:{port}"'
    return SERVER.replace('"stomp://127.0.0.1:0"', listen) + EVERYTHING_MAY_BE_CREATED + more


@contextmanager
def a_broker(folder: Path, more: str = "") -> Iterator[tuple[BrokerProcess, str]]:
    """With the URL of its web."""
    port = free_port()
    with BrokerProcess(folder, config_of(port, more)) as broker:
        yield broker, f"http://127.0.0.1:{port}"


def as_script(value: Any) -> str:
    """A literal of JavaScript."""
    return json.dumps(value)
