"""The page of an exchange, and that of a fanout."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.broker_process import BrokerProcess
from tests.console.by_hand import HOSTILE, LONG, ask, is_right_everywhere, lines, looked_at, paste
from tests.console.page import Page, a_broker

Broker = tuple[BrokerProcess, str]
EVENTS = "/v1/exchanges/events"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with a_broker(tmp_path) as found:
        yield found


@pytest.fixture
def page(tab: Page, broker: Broker) -> Iterator[Page]:
    url = broker[1]
    ask(url, "PUT", EVENTS, {"type": "topic"})
    ask(url, "PUT", "/v1/queues/q", {})
    ask(url, "PUT", "/v1/logs/all", {})
    with looked_at(tab, url) as found:
        yield found


def bindings(url: str) -> list[tuple[str, str]]:
    return [(one["key"], one["queue"]) for one in ask(url, "GET", EVENTS)["bindings"]]


def bind(url: str, *pairs: tuple[str, str]) -> None:
    for key, queue in pairs:
        assert ask(url, "POST", f"{EVENTS}/bindings", {"key": key, "queue": queue})["created"]


def test_an_exchange_without_bindings_says_so(page: Page) -> None:
    page.open("#/exchanges/exchange/events")
    page.sees("Exchange events", "topic", "Nothing is bound to it", "Where would this key go?")
    is_right_everywhere(page)


@pytest.mark.parametrize("place", ["exchange/nix", "fanout/nix", "nonsense/events", "exchange"])
def test_what_is_not_there_is_a_sentence(page: Page, place: str) -> None:
    page.expected += 10
    page.open(f"#/exchanges/{place}")
    page.wait(lambda: "is not declared" in page.text or "There is no such page" in page.text, "a sentence")
    page.is_well()


def test_bindings_are_filtered_and_paged(page: Page, broker: Broker) -> None:
    url = broker[1]
    bind(url, *((f"k{nth:03}", "q") for nth in range(110)), ("", "/log/all"))
    page.open("#/exchanges/exchange/events")
    page.sees("1 to 100 of 111", "k050")
    page.press("Next", "nav.pages")
    page.sees("101 to 111 of 111")
    page.fill("[data-filter]", "ALL")
    page.wait(lambda: len(page.all("section[aria-label=Bindings] tbody tr")) == 1, "one binding")
    page.sees("(empty)", "/log/all")
    assert page.place == "#/exchanges/exchange/events?text=ALL"
    is_right_everywhere(page)


@pytest.mark.parametrize("by", ["the page", "the command line", "curl"])
@pytest.mark.parametrize(("key", "queue"), [("a *", "q"), ("-it's+<b>.#", "/log/all"), ("", "q")])
def test_a_queue_is_bound_and_unbound(page: Page, broker: Broker, by: str, key: str, queue: str) -> None:
    process, url = broker
    page.open("#/exchanges/exchange/events")
    page.press("Bind…")
    page.sees("Name a queue.")
    if key:
        page.fill("#field-key", key)
    page.fill("#field-queue", queue)
    command, call = lines(page)
    if by == "the page":
        page.press("Bind", "dialog")
        page.sees("It is bound.")
    else:
        paste(process, command if by == "the command line" else call)
        page.press("Cancel", "dialog")
    assert bindings(url) == [(key, queue)]
    page.sees(key or "(empty)")
    page.press("Unbind…")
    page.is_accessible()
    command, call = lines(page)
    if by == "the page":
        page.press("Unbind", "dialog")
        page.sees("1 binding removed.")
    else:
        paste(process, command if by == "the command line" else call)
    assert bindings(url) == []
    page.sees("Nothing is bound to it")
    page.is_well()


def test_a_binding_to_nothing_is_refused(page: Page) -> None:
    page.open("#/exchanges/exchange/events")
    page.press("Bind…")
    page.fill("#field-queue", "nix")
    page.expected += 1
    page.press("Bind", "dialog")
    page.sees("There is no /queue/nix: declare it first.")
    page.is_well()


def test_it_says_where_a_key_would_go(page: Page, broker: Broker) -> None:
    url = broker[1]
    bind(url, ("order.*", "q"), ("order.#", "/log/all"), (HOSTILE[:40], "q"))
    page.open("#/exchanges/exchange/events")
    page.fill("section[aria-label='Where a key goes'] input", "order.new")
    page.press("Ask")
    targets = "section[aria-label='Where a key goes'] tbody tr"
    page.wait(lambda: len(page.all(targets)) == 2, "both targets")
    assert page.place == "#/exchanges/exchange/events?key=order.new"
    sentence = ask(url, "GET", f"{EVENTS}/route?key=order.new")["sentence"]
    page.sees(sentence, "order.*", "order.#", "/log/all")
    page.fill("section[aria-label='Where a key goes'] input", "nowhere")
    page.press("Ask")
    page.sees(ask(url, "GET", f"{EVENTS}/route?key=nowhere")["sentence"])
    page.open("#/exchanges/exchange/events?ask=1")
    page.sees(ask(url, "GET", f"{EVENTS}/route?key=")["sentence"])
    assert ask(url, "GET", EVENTS)["accepted"] == 0
    is_right_everywhere(page)


@pytest.mark.parametrize("by", ["the page", "the command line", "curl"])
def test_a_message_is_published_with_a_key(page: Page, broker: Broker, by: str) -> None:
    process, url = broker
    bind(url, ("a.#", "q"))
    page.open("#/exchanges/exchange/events?key=a.b")
    page.press("Publish…")
    assert page.one("#field-key").get_attribute("value") == "a.b"
    page.fill("#field-key", "a.b/c d")
    page.fill("#field-body", "hello <b>")
    command, call = lines(page)
    if by == "the page":
        page.press("Publish", "dialog")
        page.sees("Stored 1 copy")
    else:
        paste(process, command if by == "the command line" else call)
    (message,) = ask(url, "GET", "/v1/queues/q/peek")["messages"]
    assert (message["destination"], message["body"]) == ("/exchange/events/a.b/c d", "hello <b>")
    page.is_well()


def test_a_message_that_goes_nowhere_is_told_so(page: Page) -> None:
    page.open("#/exchanges/exchange/events")
    page.press("Publish…")
    page.press("Publish", "dialog")
    page.sees("The message was accepted, but nothing was stored")
    page.is_well()


def test_a_fanout_shows_where_copies_go_and_takes_one(page: Page, broker: Broker) -> None:
    process, url = broker
    ask(url, "PUT", "/v1/fanouts/a%2Fb", {"children": ["q", "/log/all"]})
    page.open("#/exchanges/fanout/a%2Fb")
    page.sees("Fanout a/b", "/log/all", "No other node gets copies.")
    page.press("Publish…")
    page.fill("#field-body", "news")
    command, call = lines(page)
    page.press("Publish", "dialog")
    page.sees("Stored 2 copies")
    paste(process, command)
    paste(process, call)
    assert [one["body"] for one in ask(url, "GET", "/v1/queues/q/peek")["messages"]] == ["news"] * 3
    is_right_everywhere(page)
    page.press("q", "section[aria-label=Children]")
    page.wait(lambda: page.place == "#/queues/q", "the queue")


@pytest.mark.parametrize("by", ["the page", "the command line", "curl"])
@pytest.mark.parametrize("kind", ["exchange", "fanout"])
def test_it_is_deleted_when_its_name_is_typed(page: Page, broker: Broker, kind: str, by: str) -> None:
    process, url = broker
    ask(url, "PUT", "/v1/fanouts/events", {"children": ["q"]})
    page.open(f"#/exchanges/{kind}/events")
    page.press("Delete…")
    page.fill("dialog label input", "events")
    command, call = lines(page)
    if by == "the page":
        page.press("Delete", "dialog")
        page.sees(f"The {kind} is deleted.")
        assert page.place == ("#/exchanges" if kind == "exchange" else "#/exchanges?tab=fanouts")
    else:
        paste(process, command if by == "the command line" else call)
    assert ask(url, "GET", f"/v1/{kind}s/events")["code"] == "no-such-destination"
    page.expected += 10
    page.is_well()


def test_what_always_exists_is_not_deleted(page: Page) -> None:
    page.open("#/exchanges/exchange/amq.topic")
    page.press("Delete…")
    page.fill("dialog label input", "amq.topic")
    page.expected += 1
    page.press("Delete", "dialog")
    page.sees("/exchange/amq.topic always exists.")
    assert page.place == "#/exchanges/exchange/amq.topic"
    page.is_well()


@pytest.mark.parametrize("name", [HOSTILE.replace("/", "|"), LONG, "a?c#d%20"])
def test_names_do_nothing(page: Page, broker: Broker, name: str) -> None:
    url = broker[1]
    path = quote(name, safe="")
    assert ask(url, "PUT", f"/v1/exchanges/{path}", {"type": "direct"})["ok"]
    assert ask(url, "PUT", f"/v1/queues/{path}", {})["ok"]
    assert ask(url, "PUT", f"/v1/fanouts/{path}", {"children": [name]})["ok"]
    for key in (HOSTILE, LONG):
        assert ask(url, "POST", f"/v1/exchanges/{path}/bindings", {"key": key, "queue": name})["ok"]
    page.open(f"#/exchanges/exchange/{path}")
    page.sees("Unbind…", "\\u202eevil", LONG)
    page.press("Unbind…")
    page.is_accessible()
    page.press("Unbind", "dialog")
    page.sees("1 binding removed.")
    is_right_everywhere(page)
    page.go(f"#/exchanges/fanout/{path}")
    page.sees("Fanout")
    page.one("section[aria-label=Children] a")
    is_right_everywhere(page)
