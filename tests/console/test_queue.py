"""The page of one queue: what it shows of it, and each act with its effect."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from radiator.client import Client
from tests.broker_process import BrokerProcess
from tests.console.looks import leave
from tests.console.page import Page, a_broker

TABLES = """
[queue.orders]
dead_letter = "orders.dead"
max_redeliveries = 0
ack_timeout_s = 600
[queue."orders.dead"]
[exchange.shop]
type = "topic"
bindings = [{ key = "order.#", queue = "orders" }]
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, str]]:
    with a_broker(tmp_path_factory.mktemp("broker"), TABLES) as found:
        yield found


@pytest.fixture
def client(broker: tuple[BrokerProcess, str]) -> Iterator[Client]:
    with Client(broker[0].address) as found:
        yield found
    with Client(broker[0].address) as found:
        for name in ("orders", "orders.dead"):
            found.admin({"do": "purge", "queue": name})


@pytest.fixture
def page(tab: Page, broker: tuple[BrokerProcess, str]) -> Iterator[Page]:
    tab.url = broker[1]
    yield tab
    tab.is_well()
    leave(tab)


def get(page: Page, path: str) -> Any:
    with urllib.request.urlopen(f"{page.url}{path}") as answer:
        return json.load(answer)


def test_why_is_on_top_and_changes_by_itself(page: Page, client: Client) -> None:
    page.open("#/queues/orders")
    page.sees("It is empty: nothing has come to it yet.")
    client.send("/queue/orders", "one")
    page.sees("1 message is ready, and nobody is subscribed.")


def test_messages_are_looked_at_and_none_is_touched(page: Page, client: Client) -> None:
    client.send("/queue/orders", json.dumps({"order": 7, "lines": []}), {"content-type": "application/json", "a": "b"})
    client.send("/queue/orders", b"\xff\x00\x01")
    client.send("/queue/orders", "plain text")
    page.open("#/queues/orders")
    page.sees('{"order": 7', "3 bytes that are not text", "plain text")
    before = get(page, "/v1/queues/orders/peek")
    for nth in range(3):
        page.all("article button[aria-expanded]")[nth].click()
    page.sees('"order": 7', "ff 00 01", "application/json")
    page.press("Hex", "article:first-of-type")
    page.sees("7b 22 6f 72 64 65 72")
    page.is_accessible()
    assert get(page, "/v1/queues/orders/peek") == before


def test_a_large_body_is_shown_whole_and_downloaded_part_after_part(page: Page, client: Client, tmp_path: Path) -> None:
    body = "".join(f"line {nth} of it, and what it says: {'ä' * 9}\n" for nth in range(20_000))[:860_000]
    assert 900_000 < len(body.encode()) < 1024 * 1024
    client.send("/queue/orders", body)
    page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    page.open("#/queues/orders")
    page.one("article button[aria-expanded]").click()
    page.sees("of which the first 65,5")
    one = get(page, "/v1/queues/orders/peek")["messages"][0]["message_id"]
    page.press("Download")
    file = tmp_path / f"{one}.bin"
    page.wait(file.exists, "the download")
    page.wait(lambda: file.stat().st_size == len(body.encode()), "all of it")
    assert file.read_bytes() == body.encode()
    page.is_accessible()
    page.press("Show all")
    page.does_not_see("of which the first")
    assert page.run("return document.querySelector('[aria-label=Body]').textContent") == body
    file.unlink()
    page.press("Download")
    page.wait(file.exists, "the same again")
    page.wait(lambda: file.read_bytes() == body.encode(), "all of it")


def test_a_body_above_what_is_shown_is_downloaded_and_the_way_to_it_can_be_stopped(
    page: Page, client: Client, tmp_path: Path
) -> None:
    body = bytes(range(256)) * 4 * 4096 * 2  # 8 MiB
    client.send("/queue/orders", body)
    one = get(page, "/v1/queues/orders/peek")["messages"][0]["message_id"]
    page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    page.open(f"#/queues/orders?message={one}")
    page.sees("8,388,608 bytes, of which the first 262,144 are shown", "The oldest messages")
    assert "Show all" not in page.text
    page.press("Download")
    page.press("Stop")
    page.sees("Download")
    assert not [*tmp_path.iterdir()]
    page.press("Download")
    file = tmp_path / f"{one}.bin"
    page.wait(file.exists, "the download")
    page.wait(lambda: file.stat().st_size == len(body), "all of it")
    assert file.read_bytes() == body
    page.press("Download")
    page.go("#/queues")
    page.sees("orders.dead")
    assert len([*tmp_path.iterdir()]) == 1, "what was closed goes no further"
    page.go("#/queues/orders?message=a-1-1")
    page.expected = 1
    page.sees("/queue/orders does not have a-1-1")
    page.is_accessible()


def test_a_message_is_published_with_its_headers(page: Page, client: Client) -> None:
    page.open("#/queues/orders")
    page.press("Publish…")
    page.fill("#field-body", "written here")
    page.fill("#field-headers", "colour: blue: dark")
    page.sees(
        "radiator send '--header=colour:blue: dark' --header=content-type:text/plain /queue/orders 'written here'"
    )
    page.is_accessible()
    page.press("Publish", "dialog")
    page.sees("is stored.")
    (message,) = get(page, "/v1/queues/orders/peek")["messages"]
    assert message["body"] == "written here" and ["colour", "blue: dark"] in message["headers"]


def test_so_many_messages_are_moved_to_a_queue_that_is_made(page: Page, client: Client) -> None:
    client.send_many("/queue/orders", [b"1", b"2", b"3"])
    page.open("#/queues/orders")
    page.press("Move…")
    page.fill("#field-to", "orders.later")
    page.fill("#field-count", "2")
    page.one("#field-create").click()
    page.sees("radiator move orders orders.later --count 2 --create")
    page.press("Move", "dialog")
    page.sees("2 messages moved.")
    assert [get(page, f"/v1/queues/{name}")["messages"] for name in ("orders", "orders.later")] == [1, 2]


def test_dead_letters_go_back_one_or_all(page: Page, client: Client) -> None:
    for nth in range(3):
        client.send("/queue/orders", f"order {nth}")
    identity = client.subscribe("/queue/orders", ack="client-individual", prefetch=3)
    for _ in range(3):
        message = client.receive(timeout_s=5)
        assert message is not None
        client.nack(message)
    client.unsubscribe(identity)
    page.open("#/queues/orders.dead")
    page.sees("These are dead letters.", "from /queue/orders", "redeliveries")
    page.all("article input[type=checkbox]")[1].click()
    page.press("Send back…")
    page.sees("radiator return orders.dead --message=")
    page.press("Send back", "dialog")
    page.wait(lambda: get(page, "/v1/queues/orders")["messages"] == 1, "one that is back")
    page.wait(lambda: len(page.all("article")) == 2, "the two that are left")
    page.press("Send all back…")
    page.press("Send all back", "dialog")
    page.wait(lambda: get(page, "/v1/queues/orders")["messages"] == 3, "all that are back")
    page.sees("There is no message to look at.")


def test_what_is_unacked_is_said_and_extended(page: Page, client: Client) -> None:
    client.send("/queue/orders", "slow")
    client.subscribe("/queue/orders", ack="client-individual", consumer_name="worker-7")
    assert client.receive(timeout_s=5) is not None
    page.open("#/queues/orders?tab=unacked")
    page.sees("worker-7", "connection")
    before = get(page, "/v1/queues/orders/unacked")["unacked"][0]["due_ms"]
    page.press("Extend…")
    page.fill("#field-seconds", "3000")
    page.press("Extend", "dialog")
    page.sees("It may be unacked until")
    assert get(page, "/v1/queues/orders/unacked")["unacked"][0]["due_ms"] > before
    page.is_accessible()
    page.press("Consumers")
    page.sees("worker-7", "window")
    page.press("Bindings")
    page.sees("shop", "order.#")
    page.press("Settings")
    page.sees('[queue."orders"]', 'dead_letter = "orders.dead"', "ack_timeout_s = 600")
    page.is_accessible()


def test_a_queue_is_purged_and_deleted_once_its_name_is_typed(page: Page, client: Client) -> None:
    client.send("/queue/gone", "x")
    page.open("#/queues/gone")
    page.press("Purge…")
    page.fill("dialog label input", "gone")
    page.press("Purge", "dialog")
    page.sees("1 message removed.")
    page.press("Delete…")
    page.fill("dialog label:not([for]) input:not([type=checkbox])", "gone")
    page.press("Delete", "dialog")
    page.sees("The queue is deleted")
    with pytest.raises(urllib.error.HTTPError):
        get(page, "/v1/queues/gone")
    page.expected = 10  # its page asked until it was left


def test_a_queue_that_is_not_there_says_so(page: Page) -> None:
    page.open("#/queues/nowhere")
    page.sees("There is no /queue/nowhere", "All queues")
    page.expected = 10


HOSTILE = {
    "markup": "<img src=x onerror=alert(1)>",
    "script": '"><script>alert(1)</script>',
    "bidi": "safe\u202egnp.exe",
    "template": "${alert(1)}{{1+1}}",
    "long": "x" * 255,
    "percent": "%2e%2e%2f%00",
    "amp": "a&b=c?d#e",
}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_names_and_bodies_made_to_break_it_are_text(page: Page, client: Client, name: str) -> None:
    text = f"\u0000\u202e<b>bold</b>{name}"
    client.send(f"/queue/{name}", text, {"evil": "<script>alert(1)</script>\u202e"})
    page.open("#/queues")
    seen = name.replace("\u202e", "\\u202e")
    page.sees(seen)
    page.press(seen)
    page.sees("1 message is ready, and nobody is subscribed.", "<b>bold</b>", "\\u0000")
    page.one("article button[aria-expanded]").click()
    page.sees("<script>alert(1)</script>\\u202e")
    assert page.run("return document.querySelectorAll('main script, main img, main b.name').length") == 0
    page.press("Purge…")
    page.fill("dialog label input", name)
    page.press("Purge", "dialog")
    page.sees("1 message removed.")
    page.is_accessible()


def test_a_body_of_a_megabyte_is_shown_in_part(page: Page, client: Client) -> None:
    client.send("/queue/large", b"<" * 1024 * 1024)
    page.open("#/queues/large")
    page.sees("1 message is ready")
    page.one("article button[aria-expanded]").click()
    page.sees("1,048,576 bytes, of which the first 65,536 are shown")
