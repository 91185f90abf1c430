"""stompjs in a real Chromium, under a strict Content-Security-Policy, at a broker's WebSocket.

A site of the test serves the page and stompjs as npm has it; the page says to the site what it sees, so the
browser needs no driver.
"""

import json
import queue
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.acceptance.wire import Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess
from tests.interop.npm import node_modules
from tests.ports import free_port

GET_CHROMIUM = "there is no Chromium; on Debian or Ubuntu: apt install chromium chromium-driver"
NAMES = ("chromium", "chromium-browser", "google-chrome")
WAIT_S = 60.0
PAGE = b'<!doctype html><meta charset="utf-8"><script src="/stomp.js"></script><script src="/page.js"></script>'
POLICY = "default-src 'none'; script-src 'self'; connect-src 'self' ws://127.0.0.1:{port}; frame-ancestors 'none'"
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


class Site:
    """Of a page at 127.0.0.1. events: what the page has told it."""

    def __init__(self, broker_port: int) -> None:
        files = {
            "/": (PAGE, "text/html"),
            "/page.js": (Path(__file__).with_name("browser_page.js").read_bytes(), "text/javascript"),
            "/stomp.js": (
                (node_modules("@stomp/stompjs") / "@stomp/stompjs/bundles/stomp.umd.min.js").read_bytes(),
                "text/javascript",
            ),
        }
        events = self.events = queue.Queue[Any]()
        policy = POLICY.format(port=broker_port)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body, kind = files.get(self.path.partition("?")[0], (b"", "text/plain"))
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", f"{kind}; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Content-Security-Policy", policy)
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                events.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.origin = f"http://127.0.0.1:{self._server.server_port}"
        self._broker_port = broker_port

    def page(self, scenario: str) -> str:
        return f"{self.origin}/?{scenario}&{self._broker_port}"

    def next(self) -> Any:
        """What the page says next. AssertionError for a mistake of the page, or where nothing comes."""
        try:
            event = self.events.get(timeout=WAIT_S)
        except queue.Empty:
            raise AssertionError("the page says nothing") from None
        assert "error" not in event, event
        return event

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def port() -> int:
    """Of the broker's WebSockets; the same one behind a restart."""
    return free_port()


@pytest.fixture
def site(port: int) -> Iterator[Site]:
    made = Site(port)
    yield made
    made.close()


def broker_for(directory: Path, port: int, origins: list[str]) -> BrokerProcess:
    listen = SERVER.replace('"stomp://127.0.0.1:0"', f'"stomp://127.0.0.1:0", "http://127.0.0.1:{port}"')
    return BrokerProcess(directory, f"{listen}{EVERYTHING_MAY_BE_CREATED}[http]\norigins = {json.dumps(origins)}\n")


@contextmanager
def browser(url: str, directory: Path) -> Iterator[None]:
    """Chromium at that page, with a profile of its own."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(GET_CHROMIUM)
    profile = directory / "profile"
    process = subprocess.Popen(
        [found, *OPTIONS, f"--user-data-dir={profile}", url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


def test_200_messages_with_nul_and_utf_8_under_a_strict_policy(tmp_path: Path, port: int, site: Site) -> None:
    with broker_for(tmp_path, port, [site.origin]), browser(site.page("exchange"), tmp_path):
        assert site.next() == {"right": 200, "receipts": 200, "isEvalRefused": True}


def test_only_a_listed_site_opens_a_websocket(tmp_path: Path, port: int, site: Site) -> None:
    other = Site(port)
    (tmp_path / "listed").mkdir()
    (tmp_path / "other").mkdir()
    with broker_for(tmp_path, port, [site.origin]) as broker:
        broker.wait_for_log("listening address=http://")
        with browser(site.page("origin"), tmp_path / "listed"):
            assert site.next() == {"isOpen": True, "protocol": "v12.stomp", "extensions": ""}
        with browser(other.page("origin"), tmp_path / "other"):
            assert other.next() == {"isOpen": False, "code": 1006}
    other.close()


def test_a_restart_of_the_broker_loses_nothing(tmp_path: Path, port: int, site: Site) -> None:
    """Nor does a kill. What was delivered and not acked before it may come again."""
    came: list[int] = []

    def read_to(wanted: set[int]) -> None:
        while not wanted <= set(came):
            event = site.next()
            if "number" in event:
                came.append(event["number"])

    def send(numbers: range) -> None:
        with Wire((broker.host, broker.port)) as wire:
            wire.connect()
            for number in numbers:
                wire.ask("SEND", {"destination": "/queue/browser.reconnect"}, b"%d" % number)

    with broker_for(tmp_path, port, [site.origin]) as broker, browser(site.page("reconnect"), tmp_path):
        assert site.next() == {"isConnected": True}
        send(range(50))
        read_to(set(range(20)))
        broker.kill()
        broker.start()
        send(range(50, 100))
        read_to(set(range(100)))
        assert broker.stop() == 0
        broker.start()
        send(range(100, 120))
        read_to(set(range(120)))
    assert sorted(set(came)) == list(range(120))
