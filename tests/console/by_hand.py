"""The same without the console: requests over HTTP, and the lines that a dialog shows, as somebody pastes them."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.error import HTTPError

from tests.broker_process import BrokerProcess, environment
from tests.console.page import Page

RUN_S = 30.0
FIT_S = 2.0
HOSTILE = "<img src=x onerror=alert(1)>\u202eevil'\"${x}"  # nothing of it may act, or turn the text round it
LONG = "n" * 255


def ask(url: str, method: str, path: str, body: Any = None) -> Any:
    """What the broker answers; of a refusal its problem document."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)
    except HTTPError as refused:
        return json.load(refused)


def lines(page: Page, inside: str = "dialog") -> list[str]:
    """The lines that are shown to be copied."""
    page.one(f"{inside} .code")
    return list(
        page.run(
            "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)", f"{inside} .code code"
        )
    )


def paste(broker: BrokerProcess, line: str) -> str:
    """What the line prints, run by a shell with `radiator` in its path. It must succeed."""
    command = f'radiator() {{ "{sys.executable}" -m radiator "$@"; }}\n{line}'
    variables = {**environment(), "RADIATOR_BROKER": broker.address, "HOME": os.fspath(broker.directory)}
    done = subprocess.run(["bash", "-c", command], env=variables, capture_output=True, text=True, timeout=RUN_S)
    assert done.returncode == 0, (line, done.stderr)
    return done.stdout


def choose(page: Page, css: str, value: str) -> None:
    """Sets a field that is not typed into: a select, a checkbox ("true", "false") or a time."""
    page.one(css)
    script = """
    const field = document.querySelector(arguments[0]);
    if (field.type === "checkbox") field.checked = arguments[1] === "true";
    else field.value = arguments[1];
    field.dispatchEvent(new Event("input", { bubbles: true }));
    """
    page.run(script, css, value)


def is_narrow(page: Page) -> bool:
    """Whether the page fits a phone of 390 px, with nothing beyond its right edge, once plots have their new width."""
    page.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    )
    try:
        until = time.monotonic() + FIT_S
        while not (fits := bool(page.run("return document.documentElement.scrollWidth <= 390"))):
            if time.monotonic() > until:
                break
            time.sleep(0.05)
        return fits
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@contextmanager
def looked_at(tab: Page, url: str) -> Iterator[Page]:
    """The console there. What a test before has left behind counts no more, and nobody asks for it afterwards."""
    tab.url = url
    tab.driver.get("about:blank")
    tab.driver.get_log("browser")
    tab.expected = 0
    yield tab
    tab.driver.get("about:blank")


def is_right_everywhere(page: Page) -> None:
    """It is well, accessible in light and dark, and fits a phone."""
    for is_dark in (False, True):
        page.dark(is_dark)
        page.is_accessible()
    page.dark(False)
    assert is_narrow(page)
    page.is_well()
