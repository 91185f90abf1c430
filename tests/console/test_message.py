"""The page that finds a message: its story from the journal, whichever of its names was pasted."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import radiator
from radiator.client import Client
from radiator.core.queues.queue import EXPIRED, OVERFLOW, REDELIVERIES, REJECTED
from radiator.model import journal
from radiator.model.journal import EVENTS
from tests.broker_process import BrokerProcess
from tests.console.looks import USERS, as_user, is_accessible_in_both, leave
from tests.console.page import Page, a_broker

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE_ID}-00f067aa0ba902b7-01"
PAGES = Path(radiator.__file__).parent / "web/pages"
REASONS = (
    journal.WRITTEN, journal.HANDED_OVER, journal.LOST, journal.ACK_TIMEOUT, journal.UNUSED, journal.AS_DEAD_LETTER,
    journal.RELEASED, journal.MOVED, REJECTED, REDELIVERIES, EXPIRED, OVERFLOW,
)  # fmt: skip
ODD = 'x"<img src=x onerror=wrongs.push(1)>'
CONFIG = f"""
[journal]
enabled = true
[queue.orders]
dead_letter = "orders.dead"
max_redeliveries = 1
[queue."orders.dead"]
[queue.mail]
[queue.late]
[queue.small]
max_messages = 1
overflow = "drop-oldest"
[queue.'{ODD}']
[fanout.news]
children = ["one", "two"]
[queue.one]
[queue.two]
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, str]]:
    with a_broker(tmp_path_factory.mktemp("broker"), CONFIG) as found:
        yield found


@pytest.fixture
def page(tab: Page, broker: tuple[BrokerProcess, str]) -> Page:
    leave(tab)
    tab.url = broker[1]
    tab.dark(False)
    tab.open("#/messages")
    tab.sees("This page says what became of a message")
    return tab


@pytest.fixture
def client(broker: tuple[BrokerProcess, str]) -> Iterator[Client]:
    with Client(broker[0].address, answer_timeout_s=10) as one:
        yield one


def id_of(client: Client, queue: str) -> str:
    """Of the oldest in it."""
    return str(client.admin({"do": "peek", "queue": queue})["messages"][0]["message_id"])


def lived(client: Client, **headers: str) -> str:
    """The message-id of one that has become a dead letter, and was moved then."""
    client.send("/queue/orders", b"poison", headers=headers)
    subscription = client.subscribe("/queue/orders", ack="client-individual")
    for _ in range(2):
        message = client.receive(5)
        assert message is not None
        client.nack(message)
    client.unsubscribe(subscription)
    client.admin({"do": "move", "from": "orders.dead", "to": "mail"})
    return str(message.headers["message-id"])


def find(page: Page, text: str) -> None:
    page.fill("main form input", text)
    page.press("Find", "main")


def test_a_message_is_followed_through_its_queues(page: Page, client: Client) -> None:
    one = lived(client)
    find(page, f"  {one} ")
    page.sees("3 messages", "(this one)", "Accepted into orders", "Nacked by connection", "redelivery 1")
    page.sees("Dead-lettered, since it was redelivered too often, into orders.dead as")
    page.sees("as the dead letter of", "Moved by an operator into mail", "moved from orders.dead, where it was")
    page.sees("It has left the queue as a dead letter.", "it was moved.", "it is ready in its queue.")
    assert page.place == f"#/messages?id={one}"
    depths = page.run("return [...document.querySelectorAll('.lane')].map((one) => one.className)")
    assert depths == ["lane depth-0", "lane depth-1", "lane depth-2"]
    assert page.run("return document.querySelector('.lanes a[href=\"#/queues/orders.dead\"]') !== null")
    page.sees(f"radiator explain --config config.toml {one}")
    is_accessible_in_both(page)
    page.press("Look at it")
    page.sees("Sent to", "The oldest messages")
    assert page.place.startswith("#/queues/mail?message=")
    page.is_well()


def test_each_of_its_names_finds_it(page: Page, client: Client) -> None:
    one = lived(client, traceparent=TRACEPARENT)
    for text in (TRACE_ID, TRACEPARENT.upper()):
        find(page, text)
        page.sees(one, "in the trace")
        assert page.place == f"#/messages?trace={TRACE_ID}"
        page.go("#/messages")
        page.sees("This page says what became")
    page.is_well()


def test_a_correlation_id_is_what_is_neither(page: Page, client: Client) -> None:
    client.send("/queue/mail", b"x", headers={"correlation-id": "6f1d0a52-7f6b-4f3e-8d8a-0d1f0f0b7c11"})
    find(page, "6f1d0a52-7f6b-4f3e-8d8a-0d1f0f0b7c11")
    page.sees("This was taken for a correlation-id.")
    assert page.place == "#/messages?correlation=6f1d0a52-7f6b-4f3e-8d8a-0d1f0f0b7c11"
    page.sees("--correlation-id=6f1d0a52-7f6b-4f3e-8d8a-0d1f0f0b7c11")
    page.sees("Accepted into mail")
    page.is_well()


def test_copies_of_a_fanout_are_below_it(page: Page, client: Client) -> None:
    client.send("/fanout/news", b"x")
    one = id_of(client, "one")
    find(page, one)
    page.sees(
        "It is one of 2 copies of the fanout message",
        "sent to /fanout/news",
        "The journal has no events of this message.",
    )
    fanout_id = page.run("return document.querySelector('.lane a').textContent")
    find(page, fanout_id)
    page.sees("2 messages", one, id_of(client, "two"))
    page.is_well()


def test_ends_of_all_kinds(page: Page, client: Client) -> None:
    client.send("/queue/small", b"x")
    dropped = id_of(client, "small")
    client.send("/queue/small", b"y")
    find(page, dropped)
    page.sees("Dropped, since the queue was full", "It was dropped, and is deleted.")
    client.send("/queue/late", b"x", headers={"delay": "3600000", "traceparent": TRACEPARENT.replace("4bf9", "4bfb")})
    find(page, TRACEPARENT.replace("4bf9", "4bfb"))
    page.sees("Delayed until", "it is delayed until")
    purged = id_of(client, "small")
    client.admin({"do": "purge", "queue": "small"})
    find(page, purged)
    page.sees("Purged by an operator.")
    client.send("/queue/two.out", b"x")
    taken = id_of(client, "two.out")
    client.admin({"do": "checkout", "queue": "two.out", "group": "etl", "max_messages": 1})
    find(page, taken)
    page.sees("Checked out by the group etl", "the group etl has it checked out")
    page.is_well()


def test_what_a_consumer_has_is_said_and_found_when_looked_for_again(page: Page, client: Client) -> None:
    client.send("/queue/held", b"x")
    client.subscribe("/queue/held", ack="client-individual")
    message = client.receive(5)
    assert message is not None
    find(page, message.headers["message-id"])
    end_s = time.monotonic() + 5
    while "and has not acked it" not in page.text:
        assert time.monotonic() < end_s
        page.press("Look again")
        time.sleep(0.3)
    client.ack(message)
    page.press("Look again")
    page.sees("It has left the queue: it was acked.")
    page.is_well()


def test_a_long_story_goes_on_behind_a_page(page: Page, client: Client) -> None:
    for _ in range(150):
        client.send("/queue/many", b"x", headers={"traceparent": TRACEPARENT.replace("4bf9", "4bfa")})
    client.subscribe("/queue/many", ack="client-individual")
    for _ in range(150):
        message = client.receive(5)
        assert message is not None
        client.ack(message)
    page.go(f"#/messages?trace={TRACE_ID.replace('4bf9', '4bfa')}")
    page.sees("150 messages", "What came next")
    assert len(page.all(".time-line li")) == 200
    page.press("What came next")
    page.sees("Events behind number", "From its beginning")
    assert "&after=" in page.place
    page.is_well()
    page.is_accessible()


def test_names_of_others_are_text(page: Page, client: Client) -> None:
    name = ODD
    client.send(f"/queue/{name}", b"x")
    find(page, id_of(client, name))
    page.sees(f"Accepted into {name}")
    for text in (f"{ODD}\u202e", "a\x00b", "é" * 100, "#/queues?x=1&y=2"):
        page.go(f"#/messages?id={page.run('return encodeURIComponent(arguments[0])', text)}")
        page.sees("is not a message-id")
    page.expected = 4
    page.is_well()


def test_what_is_not_there_is_said(page: Page) -> None:
    find(page, "elsewhere-1-17")
    page.sees(
        "The journal tells nothing of elsewhere-1-17. It is of store elsewhere", "This was taken for a message-id."
    )
    page.press("trace id", "main")
    page.sees("is not a trace id")
    assert page.place == "#/messages?trace=elsewhere-1-17"
    page.expected = 2
    page.is_well()


def test_without_a_journal_it_says_what_to_write(tab: Page, tmp_path: Path) -> None:
    with a_broker(tmp_path) as (_, url):
        tab.url = url
        tab.open("#/messages?id=a-1-1")
        tab.sees("This store has no journal", "[journal]\nenabled = true", "restart the broker")
        is_accessible_in_both(tab)
        tab.expected = 1
        tab.is_well()
        leave(tab)


def test_who_may_not_read_the_journal_is_told(tab: Page, tmp_path: Path) -> None:
    with a_broker(tmp_path, "[journal]\nenabled = true\n" + USERS) as (_, url), as_user(tab, "bob"):
        tab.url = url
        tab.open("#/messages?id=a-1-1")
        tab.sees("The user bob may not read /log/journal")
        tab.expected = 1
        tab.is_well()
        leave(tab)


@pytest.mark.parametrize("word", sorted({*EVENTS, *REASONS}))
def test_each_event_and_each_reason_has_its_sentence(word: str) -> None:
    source = (PAGES / "message.js").read_text() + (PAGES.parent / "dead.js").read_text()
    assert re.search(rf'^  (?:{word}|"{word}")[:,]|"{word}"', source, re.M), word
