"""Sessions of a real Chromium: it keeps the cookie from scripts, and no page at another port does anything by it."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser import chromium, site_of
from tests.ports import free_port
from tests.server.web import HASH, SECRET, USERS, WebBroker

OF_PAGES = """
const [url, secret, done] = arguments;
const asked = async (method, path, body, more) => {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const answer = await fetch(url + path, { method, headers, body, ...more });
  return { status: answer.status, body: await answer.text() };
};
const logIn = () => asked("POST", "/v1/session", JSON.stringify({ user: "ann", password: secret }));
const publish = (more) => asked("POST", "/v1/queues/of-page/messages", '{"messages": [{"body": "x"}]}', more);
(async () => { %s })().then(done, ({ name, message }) => done(`${name}: ${message}`));
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A web server at another port of the same host, with one empty page."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "index.html").write_text("<!doctype html><title>A page</title>")
    with site_of(folder) as address:
        yield address


@pytest.fixture(scope="module")
def ports() -> tuple[int, int]:
    return free_port(), free_port()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, site: str, ports: tuple[int, int]) -> Iterator[WebBroker]:
    config = USERS.replace('"http://127.0.0.1:0"', f'"http://127.0.0.1:{ports[0]}"')
    config = config.replace('"https://127.0.0.1:0"', f'"https://127.0.0.1:{ports[1]}"')
    assert str(HASH) in config
    with WebBroker(tmp_path_factory.mktemp("broker"), config + f'[http]\norigins = ["{site}"]\n') as running:
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    with chromium() as driver:
        driver.execute_cdp_cmd("Page.enable", {})
        driver.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})  # that of an answer which is no page
        driver.execute_cdp_cmd("Security.setIgnoreCertificateErrors", {"ignore": True})  # the CA is the test's
        yield driver


def run(page: Any, url: str, script: str) -> Any:
    return page.execute_async_script(OF_PAGES % script, url, SECRET)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_page_of_the_broker_logs_in_works_and_logs_out(
    broker: WebBroker, page: Any, ports: tuple[int, int], scheme: str
) -> None:
    url = f"{scheme}://127.0.0.1:{ports[scheme == 'https']}"
    page.get(f"{url}/healthz")
    found = run(page, "", """
      const before = await asked("GET", "/v1/queues");
      const stranger = await asked("GET", "/v1/session");
      const login = await logIn();
      const seen = document.cookie;
      const published = await publish();
      const who = JSON.parse((await asked("GET", "/v1/session")).body);
      const stream = new EventSource("/v1/stats/events?every_s=3600");
      await new Promise((is) => stream.addEventListener("stats", is, { once: true }));
      const refused = new Promise((is) => stream.addEventListener("refused", ({ data }) => is(data)));
      const out = await asked("DELETE", "/v1/session");
      const reason = await refused;
      stream.close();
      const behind = await asked("GET", "/v1/queues");
      return { before, stranger, login, seen, published, who, out, reason, behind };
    """)  # fmt: skip
    assert isinstance(found, dict), found
    assert found["before"]["status"] == 401 and '"users":true' in found["stranger"]["body"]
    assert found["login"]["status"] == 200 and found["seen"] == "", "no script reads it"
    assert found["published"]["status"] == 201 and found["who"]["user"] == "ann"
    assert found["out"]["status"] == 204 and "log in again" in found["reason"]
    assert found["behind"]["status"] == 401 and page.get_cookies() == []


def test_the_browser_keeps_it_as_it_is_meant(broker: WebBroker, page: Any, ports: tuple[int, int]) -> None:
    for scheme, port in zip(("http", "https"), ports, strict=True):
        page.get(f"{scheme}://127.0.0.1:{port}/healthz")
        assert run(page, "", "return await logIn();")["status"] == 200
        name = "__Host-radiator" if scheme == "https" else "radiator"
        (kept,) = [one for one in page.get_cookies() if one["name"] == name]
        assert kept["httpOnly"] and kept["sameSite"] == "Strict" and kept["path"] == "/" and "expiry" not in kept
        assert kept["secure"] is (scheme == "https") and kept["domain"] == "127.0.0.1"
        page.delete_all_cookies()


def test_no_page_at_another_port_does_anything_by_it(
    broker: WebBroker, page: Any, ports: tuple[int, int], site: str
) -> None:
    url = f"http://127.0.0.1:{ports[0]}"
    page.get(f"{url}/healthz")
    assert run(page, "", "return await logIn();")["status"] == 200
    assert run(page, "", "return await publish();")["status"] == 201
    count = 'JSON.parse((await asked("GET", "/v1/queues/of-page")).body).ready'
    before = run(page, "", f"return {count};")
    page.get(site)  # listed, and of the same site: the browser sends the cookie with what it asks
    assert page.get_cookies(), "which it shares by the host"
    with_cookies = '{ credentials: "include" }'
    for script in (
        f"return await publish({with_cookies});",
        f'return await asked("GET", "/v1/session", undefined, {with_cookies});',
        f'return await asked("DELETE", "/v1/session", undefined, {with_cookies});',
        'return await asked("POST", "/v1/queues/of-page/messages", "x", { credentials: "include", headers: {} });',
    ):
        found = run(page, url, script)
        assert isinstance(found, str) and found.startswith("TypeError: Failed to fetch"), found
    simple = '{ method: "POST", mode: "no-cors", credentials: "include", body: "x" }'
    for path in ("/v1/queues/of-page/messages", "/v1/queues/of-page/purge", "/v1/session"):
        run(page, url, f'await fetch("{url}{path}", {simple}); return 1;')
    page.execute_script(f"""
      document.body.innerHTML = '<form method=post enctype=text/plain action="{url}/v1/queues/of-page/purge"></form>';
      document.forms[0].submit();
    """)
    page.get(f"{url}/healthz")
    assert run(page, "", f"return {count};") == before
    page.delete_all_cookies()
