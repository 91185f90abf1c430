"""The walk of docs/CONSOLE.md, "A first walk": the same steps in the same order, with a real broker and clients."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from radiator.client import Client
from tests.broker_process import SERVER, BrokerProcess, environment
from tests.console.by_hand import ask, looked_at
from tests.console.page import Page
from tests.ports import free_port

TABLES = """
[create]
queues = true
[journal]
enabled = true
"""
RUN_S = 30.0
DELIVERIES = 3  # of a message that may be redelivered twice
ORDERS = ("order 1", "order 2", "order 3")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """On ports of its own, which the page must tell."""
    stomp, http = free_port(), free_port()
    listen = f'"stomp://127.0.0.1:{stomp}", "http://127.0.0.1:{http}"'
    config = SERVER.replace('"stomp://127.0.0.1:0"', listen) + TABLES
    with BrokerProcess(tmp_path_factory.mktemp("broker"), config) as found:
        yield found


def console_of(broker: BrokerProcess) -> str:
    """As its log says it."""
    return broker.wait_for_log(" console ").rpartition("url=")[2].strip().rstrip("/")


def shown(page: Page) -> str:
    """The snippet on the overview."""
    return str(page.run("return document.querySelector('[aria-label=Begin] .code code').textContent"))


def run(*words: str) -> str:
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=RUN_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def received(page: Page, snippet: str) -> list[str]:
    """What the snippet prints in the developer tools of the page."""
    script = """
    const [done] = arguments;
    const lines = [];
    const log = console.log;
    console.log = (line) => lines.push(line);
    const end = (found) => { console.log = log; done(found); };
    (async () => { %s })().then(() => end(lines), (error) => end([String(error)]));
    """
    return list(page.driver.execute_async_script(script % snippet))


def tile(page: Page, title: str) -> str:
    """The number under that title."""
    tiles = {one.text.split("\n")[0]: one.text.split("\n")[-1] for one in page.all("a.tile")}
    return tiles.get(title, "")


def test_the_first_walk(tab: Page, broker: BrokerProcess) -> None:
    with looked_at(tab, console_of(broker)) as page:
        page.open()
        _first_message(page)
        _a_queue_with_a_place_for_dead_letters(page, broker)
        _why_on_the_overview(page, broker)
        _story(page)
        _back_one_and_all(page)
        page.is_accessible()
        page.is_well()


def _first_message(page: Page) -> None:
    """Steps 1 and 2: each snippet is run as it stands, and what it sends is seen without a reload."""
    page.sees("Nothing needs attention.", "No queue yet: send the first message")
    page.run("window.isSame = true")
    assert run(sys.executable, "-c", shown(page)) == "hello\n"
    page.sees("The first queue is here", "greetings")
    page.press("curl")
    page.wait(lambda: "curl" in shown(page), "the lines for a shell")
    assert '"body":"hello"' in run("bash", "-c", shown(page))
    page.wait(lambda: tile(page, "Unacked") == "1", "the lease of the second line")
    page.press("Browser")
    page.wait(lambda: "import(" in shown(page), "the lines for a page")
    assert received(page, shown(page)) == ["hello"]
    assert page.run("return window.isSame") is True
    page.press("Close", "[aria-label=Begin]")
    page.does_not_see("The first queue is here")


def _a_queue_with_a_place_for_dead_letters(page: Page, broker: BrokerProcess) -> None:
    """Step 3: it is declared, and gets its first message from the page."""
    page.press("Queues")
    page.sees("greetings")
    page.press("Declare…")
    page.fill("#field-name", "orders")
    page.fill("#field-dead_letter", "orders.dead")
    page.fill("#field-max_redeliveries", str(DELIVERIES - 1))
    page.sees(f"RADIATOR_BROKER={broker.address} radiator declare queue orders")
    page.press("Declare", "dialog")
    page.sees("The queue exists, as declared.")
    page.press("orders")
    page.sees("It is empty: nothing has come to it yet.")
    assert page.run("return document.querySelector('main').firstElementChild.tagName") == "H1"
    page.press("Publish…")
    page.fill("#field-body", ORDERS[0])
    page.press("Publish", "dialog")
    page.sees("is stored.", "1 message is ready, and nobody is subscribed.")
    page.wait(lambda: len(page.all("article")) == 1, "the message, which nobody has looked for again")


def _why_on_the_overview(page: Page, broker: BrokerProcess) -> None:
    """Step 4: a consumer fails with each message, and the overview says what has come of it."""
    with Client(broker.address) as client:
        for text in ORDERS[1:]:
            client.send("/queue/orders", text)
        client.subscribe("/queue/orders", ack="client-individual")
        for _ in range(DELIVERIES * len(ORDERS)):
            message = client.receive(timeout_s=5)
            assert message is not None
            client.nack(message)
    page.press("Overview")
    page.sees("dead-letters", f"{len(ORDERS)} dead letters of other queues are here")
    page.press("orders.dead")
    page.sees("These are dead letters.", "from /queue/orders: it was redelivered too often")


def _story(page: Page) -> None:
    """Step 5: one message is opened, and its story is told to its end."""
    page.press(page.one("article button code").text, "article")
    page.sees("dead-letter-reason", "original-destination")
    page.press("Its story", "article")
    page.sees("Accepted into orders", f"attempt {DELIVERIES}", "since it was redelivered too often, into orders.dead")
    page.press("orders.dead")
    page.sees("These are dead letters.")


def _back_one_and_all(page: Page) -> None:
    """Step 6: one goes back, then the others, and nothing needs anybody."""
    page.one("article input[type=checkbox]").click()
    page.press("Send back…")
    page.press("Send back", "dialog")
    page.sees("1 message is back where it came from")
    page.wait(lambda: len(page.all("article")) == len(ORDERS) - 1, "what is left")
    page.press("Send all back…")
    page.press("Send all back", "dialog")
    page.sees("There is no message to look at.")
    waiting = ask(page.url, "GET", "/v1/queues/orders/peek")["messages"]
    assert sorted(one["body"] for one in waiting) == list(ORDERS)
    page.press("Overview")
    page.does_not_see("dead letters of other queues are here")
