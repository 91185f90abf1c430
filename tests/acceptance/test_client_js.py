"""client.js in a real Chromium, on a page of another site that [http] lists, with a real broker behind it."""

import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess
from tests.browser import WAIT_S, chromium, site_of
from tests.ports import free_port
from tests.server.web import HASH, SECRET

CALL = """
const all = [...arguments];
const [url, options, rest, done] = [all[0], all[1], all.slice(2, -1), all.at(-1)];
(async () => {
  const { connect, RadiatorError } = await import(%s);
  const radiator = connect({ url, ...options });
  %s
})().then((value) => done({ value }), ({ name, message, status, code }) => done({ name, message, status, code }));
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("site")


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[str]:
    """A web server with one empty page."""
    (folder / "index.html").write_text("<!doctype html><title>A page</title>")
    with site_of(folder) as address:
        yield address


@pytest.fixture(scope="module")
def page(site: str) -> Iterator[Any]:
    with chromium() as driver:
        driver.get(site)
        yield driver


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, site: str, port: int) -> Iterator[BrokerProcess]:
    config = (
        SERVER.replace('"stomp://127.0.0.1:0"', f'"stomp://127.0.0.1:0", "http://127.0.0.1:{port}"')
        + EVERYTHING_MAY_BE_CREATED
        + '[log.l]\npartitions = 2\n[queue.full]\nmax_messages = 1\noverflow = "reject"\n'
        + f'[http]\norigins = ["{site}"]\n[queue.once]\ndedup_window_s = 60\n'
        + f'[user.ann]\npassword = "{HASH}"\nrole = "operator"\n'
    )
    with BrokerProcess(tmp_path_factory.mktemp("broker"), config) as running:
        running.wait_for_log("listening address=http://")
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log


@pytest.fixture
def url(broker: BrokerProcess, port: int) -> str:
    return f"http://127.0.0.1:{port}"


ANN = {"user": "ann", "password": SECRET}


def call(page: Any, url: str, script: str, *rest: Any, options: dict[str, Any] | None = None) -> dict[str, Any]:
    """rest: begins with the module to take, where it is another one."""
    module = "rest.shift()" if rest and str(rest[0]).endswith(".js") else "`${url}/client.js`"
    found = page.execute_async_script(CALL % (module, script), url, options or ANN, *rest)
    assert isinstance(found, dict)
    return found


def value(page: Any, url: str, script: str, *rest: Any) -> Any:
    found = call(page, url, script, *rest)
    assert "value" in found or not found, found
    return found.get("value")


def wait_until(page: Any, condition: str) -> None:
    until_s = time.monotonic() + WAIT_S
    while not page.execute_script(f"return {condition}"):
        assert time.monotonic() < until_s, page.execute_script("return [window.got, String(window.failure)]")
        time.sleep(0.05)


def test_what_is_published_is_received_and_settled(page: Any, url: str) -> None:
    found = value(page, url, """
        await radiator.publishAll("/queue/a/b", [
            { body: "text \u00e4", headers: { colour: "blue" } }, { body: new Uint8Array([0, 255]) },
            { body: { x: [1] } },
        ]);
        const messages = await radiator.receive("/queue/a/b", { max: 5, waitMs: 1000, leaseMs: 60000 });
        const verdicts = await radiator.settle(messages.map(({ lease }) => ({ lease, action: "ack" })));
        const again = await radiator.settle([{ lease: messages[0].lease, action: "release", delayMs: 5 }]);
        const bodies = messages.map(({ body }) => (typeof body === "string" ? body : [...body]));
        return [bodies, messages[0].headers.colour, verdicts, again[0].code, await radiator.receive("/queue/a/b")];
    """)  # fmt: skip
    bodies, colour, verdicts, again, none = found
    assert bodies == ["text \u00e4", [0, 255], '{"x":[1]}'] and colour == "blue"
    assert verdicts == [{"ok": True}] * 3 and again == "lease-over" and none == []


def test_the_same_key_twice_is_stored_once(page: Any, url: str) -> None:
    publish = 'await radiator.publish("/queue/once", "x", { idempotencyKey: "k" })'
    assert [one["duplicates"] for one in value(page, url, f"return [{publish}, {publish}]")] == [0, 1]


def test_an_exchange_has_its_key_behind_it(page: Any, url: str) -> None:
    refused = call(page, url, 'return radiator.publish("/exchange/none/a.b", "x")')
    assert (refused["status"], refused["code"]) == (404, "no-such-destination")
    assert "/exchange/none" in refused["message"]


@pytest.mark.parametrize(("script", "status", "code"), [
    ('radiator.publish("/log/none", "x")', 404, "no-such-destination"),
    ('radiator.receive("/log/l")', 404, "no-such-resource"),
    ('radiator.receive("/queue/q", { max: 0 })', 400, "protocol"),
    ('radiator.events("/log/none")', 404, "no-such-destination"),
    ('radiator.events("/queue/q")', 404, "no-such-resource"),
    ('radiator.events("/log/l", { from: "0:999" })', 404, "no-such-offset"),
])  # fmt: skip
def test_what_is_refused_is_a_radiator_error(page: Any, url: str, script: str, status: int, code: str) -> None:
    found = call(page, url, f"return {script}")
    assert (found.get("name"), found.get("status"), found.get("code")) == ("RadiatorError", status, code), found
    assert found["message"]


def test_who_is_not_let_in_is_told(page: Any, url: str) -> None:
    script = 'return radiator.receive("/queue/q")'
    found = call(page, url, script, options={"user": "ann", "password": "wrong"})
    assert (found["status"], found["code"]) == (401, "forbidden")
    assert call(page, url, script, options={"token": "none"})["status"] == 401


def test_what_is_no_address_is_refused_here(page: Any, url: str) -> None:
    assert call(page, url, 'return radiator.publish("orders", "x")')["name"] == "TypeError"


def test_a_full_queue_is_tried_again_as_long_as_it_was_said(page: Any, url: str) -> None:
    found = value(page, url, """
        const impatient = connect({ url, ...options, retries: 0 });
        await radiator.publish("/queue/full", "1");
        const error = await impatient.publish("/queue/full", "2").catch((error) => error);
        const later = radiator.publish("/queue/full", "2");
        const [{ lease }] = await radiator.receive("/queue/full");
        await radiator.settle([{ lease, action: "ack" }]);
        return [error.status, error.code, (await later).ids.length];
    """)  # fmt: skip
    assert found == [429, "queue-full", 1]


def test_topics_come_as_they_are_sent_until_they_are_aborted(page: Any, url: str) -> None:
    found = value(page, url, """
        const abort = new AbortController(), got = [];
        const over = radiator.events("/topic/chat.*", {
            signal: abort.signal, onMessage: ({ body, destination }) => { got.push([body, destination]); },
        });
        while (got.length < 1) {
            await radiator.publish("/topic/chat.a", "hello");
            await new Promise((resolve) => setTimeout(resolve, 50));
        }
        abort.abort();
        await over;
        return got[0];
    """)  # fmt: skip
    assert found == ["hello", "/topic/chat.a"]


def test_the_brokers_numbers_come_again_until_they_are_aborted(page: Any, url: str) -> None:
    found = call(
        page,
        url,
        """
        const stop = new AbortController();
        const seen = [];
        const onStats = ({ uptime_s, connections }) => {
          seen.push([uptime_s, connections]);
          if (seen.length === 2) stop.abort();
        };
        await radiator.stats({ everyS: 1, onStats, signal: stop.signal });
        return seen;
        """,
    )["value"]
    (first_s, first), (second_s, second) = found
    assert second_s > first_s and first == second >= 1


@pytest.mark.parametrize("script", [
    'await radiator.receive("/queue/q", { wait_ms: 1 });',
    'await radiator.publish("/queue/q", "x", { header: {} });',
    'await radiator.publishAll("/queue/q", [{ text: "x" }]);',
    'await radiator.publishAll("/queue/q", [], { max: 1 });',
    'await radiator.settle([{ lease: "x", action: "ack", delay: 1 }]);',
    'await radiator.settle([], { max: 1 });',
    'await radiator.events("/topic/t", { onmessage: () => {} });',
    'await radiator.stats({ every_s: 1 });',
    'connect({ name: "x" });',
])  # fmt: skip
def test_an_option_that_there_is_not_is_told(page: Any, url: str, script: str) -> None:
    found = call(page, url, script)
    assert found["name"] == "TypeError" and "is no option here: it must be one of" in found["message"]


def test_what_on_message_throws_ends_it_and_is_thrown(page: Any, url: str) -> None:
    found = call(page, url, """
        await radiator.publish("/log/l", "x");
        return radiator.events("/log/l", { from: "earliest", onMessage() { throw new RangeError("mine"); } });
    """)  # fmt: skip
    assert (found["name"], found["message"]) == ("RangeError", "mine")


def test_a_broker_that_cannot_be_reached_is_told_at_first(page: Any, url: str) -> None:
    found = call(page, url, f'return connect({{ url: "http://127.0.0.1:{free_port()}" }}).events("/log/l")')
    assert found["name"] == "TypeError"


def read_over_kills(page: Any, url: str, broker: BrokerProcess, module: str) -> tuple[list[str], list[str]]:
    """What was published to a log and what onMessage got meanwhile, by `id`; the broker is killed in between."""
    value(page, url, """
        Object.assign(window, { got: [], failure: "", abort: new AbortController() });
        radiator.events("/log/l", {
            from: "earliest", signal: window.abort.signal, onMessage: ({ id }) => { window.got.push(id); },
        }).catch((error) => { window.failure = error; });
    """, module)  # fmt: skip
    publish = """
        const messages = rest[0].map((key) => ({ body: "x", headers: { "partition-key": String(key) } }));
        return (await radiator.publishAll("/log/l", messages)).ids;
    """
    ids: list[str] = []
    for _ in range(3):
        ids += value(page, url, publish, list(range(30)))
        wait_until(page, f"window.got.includes('{ids[-1]}')")
        since = broker.log.count("\n")
        broker.kill()
        broker.start()
        broker.wait_for_log(f"listening address={url}", since=since)
        ids += value(page, url, publish, list(range(30)))
    wait_until(page, f"window.got.includes('{ids[-1]}')")
    time.sleep(0.2)  # so that what comes twice has come
    got = page.execute_script("window.abort.abort(); return window.got")
    assert not page.execute_script("return String(window.failure)")
    return ids, list(got)


def test_a_log_is_read_over_kills_without_loss_or_doubles(page: Any, url: str, broker: BrokerProcess) -> None:
    ids, got = read_over_kills(page, url, broker, f"{url}/client.js")
    assert len(set(got)) == len(got) and set(ids) <= set(got)
    for partition in ("0", "1"):
        offsets = [int(one.partition(":")[2]) for one in got if one.startswith(partition + ":")]
        assert offsets == [*range(len(offsets))] and len(offsets) > 20


def test_a_client_that_forgets_where_it_was_is_found(
    page: Any, url: str, broker: BrokerProcess, site: str, folder: Path
) -> None:
    with urllib.request.urlopen(f"{url}/client.js") as answer:
        code = answer.read().decode()
    (folder / "broken.js").write_text(code.replace('place.id ? { "Last-Event-ID": place.id } : {}', "{}"))
    assert (folder / "broken.js").read_text() != code
    _, got = read_over_kills(page, url, broker, f"{site}/broken.js")
    assert len(set(got)) < len(got)
