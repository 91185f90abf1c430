"""The page of a log: why it stands, its groups and what moves them, its records, its settings."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from radiator.client import Client
from tests.broker_process import BrokerProcess
from tests.console.by_hand import HOSTILE, LONG, ask, choose, is_right_everywhere, lines, looked_at, paste
from tests.console.page import Page, a_broker

Broker = tuple[BrokerProcess, str]
LOG = "/v1/logs/clicks"
KEYS = ("d", "a")  # each leads to the partition of its place here
GROUP = f"{LOG}/positions/billing"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with a_broker(tmp_path) as found:
        yield found


@pytest.fixture
def page(tab: Page, broker: Broker) -> Iterator[Page]:
    ask(broker[1], "PUT", LOG, {"partitions": 2})
    with looked_at(tab, broker[1]) as found:
        yield found


def publish(url: str, *bodies: object, partition: int = 0, log: str = LOG) -> None:
    """Each to that partition, found by a key."""
    for body in bodies:
        kind = "body" if isinstance(body, str) else "json"
        message = {kind: body, "headers": {"partition-key": KEYS[partition]}}
        found = ask(url, "POST", f"{log}/messages", {"messages": [message]})["ids"][0]
        assert found.startswith(f"{partition}:"), found


def position(url: str, group: str = "billing") -> list[int] | None:
    return ask(url, "GET", f"{LOG}/positions/{quote(group, safe='')}")["offsets"]  # type: ignore[no-any-return]


def bodies(page: Page) -> list[str]:
    return list(
        page.run("return [...document.querySelectorAll('details.record summary')].map((one) => one.textContent)")
    )


# ---- why, partitions, groups, readers


def test_an_empty_log_says_so(page: Page) -> None:
    page.open("#/logs/clicks")
    page.sees(
        "Log clicks",
        "empty",
        "It has no record.",
        "No group has a position here.",
        "No consumer reads it now.",
        "7 days",
    )
    is_right_everywhere(page)
    page.press("Read")
    page.sees("Choose a position: up to 50 records")
    is_right_everywhere(page)


def test_a_log_that_is_not_there_is_a_sentence(page: Page) -> None:
    page.expected += 20
    page.open("#/logs/nix")
    page.sees("/log/nix is not declared")
    page.is_well()


def test_it_shows_partitions_groups_and_readers(page: Page, broker: Broker) -> None:
    process, url = broker
    publish(url, "one", "two", "three")
    publish(url, "four", partition=1)
    ask(url, "PUT", GROUP, {"offsets": [1, 1]})
    with Client(process.address) as client:
        client.subscribe("/log/clicks", ack="client-individual", headers=[("group", "mail"), ("from", "earliest")])
        assert client.receive(5) is not None
        page.open("#/logs/clicks")
        page.sees("window", "Group 'mail' is 4 records behind.", "1, 1", "Group billing", "s1")
        table = page.one("section[aria-label=Partitions] tbody").text.splitlines()
        assert table[0].startswith("0 0 3 3") and table[1].startswith("1 0 1 1")
        rows = page.one("div[aria-label=Groups] tbody").text.splitlines()
        assert rows == ["billing 2 1, 1", "mail 4 0, 0"]
        page.press("mail")
        page.sees("Group mail")
        assert page.place == "#/logs/clicks?group=mail"
        page.press("Set position…")
        page.expected += 1  # in-use
        page.press("Set position", "dialog")
        page.sees("has subscriptions")
        page.press("Cancel", "dialog")
        is_right_everywhere(page)


def test_a_group_of_many_partitions_is_shown_in_pages(page: Page, broker: Broker) -> None:
    url = broker[1]
    ask(url, "PUT", "/v1/logs/wide", {"partitions": 120})
    ask(url, "PUT", "/v1/logs/wide/positions/g", {"offsets": [0] * 120})
    for nth in range(25):
        ask(url, "PUT", f"/v1/logs/wide/positions/h{nth:02}", {"offsets": [0] * 120})
    page.open("#/logs/wide")
    page.sees("1 to 50 of 120", "1 to 20 of 26", "… (120 partitions)")
    page.press("Next", "section[aria-label=Groups] > nav")
    page.sees("21 to 26 of 26", "h24")
    assert "group_first=20" in page.place
    page.press("Read", "nav.tabs")
    page.one("form input[type=number][required]")  # no stream reads them all
    page.press("Read", "form")
    page.sees("Nothing is there yet")
    is_right_everywhere(page)


# ---- positions


@pytest.mark.parametrize("by", ["the page", "the command line", "curl"])
@pytest.mark.parametrize("group", ["billing", "-b'\"<b>"])
def test_a_position_is_set_and_taken_back(page: Page, broker: Broker, by: str, group: str) -> None:
    process, url = broker
    publish(url, "one", "two", "three")
    ask(url, "PUT", f"{LOG}/positions/{quote(group, safe='')}", {"offsets": [1, 0]})
    page.open("#/logs/clicks")
    choose(page, "section[aria-label=Group] select", "offsets")
    page.fill("section[aria-label=Group] input", "2,x")
    page.press("Set position…")
    page.sees("Write an offset for each of 2 partitions")
    page.press("Cancel", "dialog")
    page.fill("section[aria-label=Group] input", "2, 0")
    page.press("Set position…")
    page.sees("It is at 1, 0 now.", "How to take it back")
    page.is_accessible()
    undo_command, undo_call, command, call = lines(page)
    if by != "the page":
        is_command = by == "the command line"
        paste(process, command if is_command else call)
        assert position(url, group) == [2, 0]
        paste(process, undo_command if is_command else undo_call)
        assert position(url, group) == [1, 0]
        return
    page.press("Set position", "dialog")
    page.sees("The group goes on at 2, 0; it was at 1, 0.", "It was at 1, 0 before it was moved here.")
    assert position(url, group) == [2, 0]
    assert lines(page, ".undo") == [undo_command, undo_call]
    page.go("#/logs")
    page.sees("Declare a log…")
    page.go("#/logs/clicks")  # it is remembered
    page.press("Take it back…")
    page.press("Take it back", "dialog")
    page.sees("Taken back: the group is at 1, 0.")
    assert position(url, group) == [1, 0]
    page.does_not_see("before it was moved here")
    page.is_well()


def test_a_group_is_set_to_the_end_and_to_a_time(page: Page, broker: Broker) -> None:
    url = broker[1]
    publish(url, "one", "two")
    ask(url, "PUT", GROUP, {"offsets": [0, 0]})
    page.open("#/logs/clicks")
    choose(page, "section[aria-label=Group] select", "latest")
    page.press("Set position…")
    page.press("Set position", "dialog")
    page.sees("goes on at 2, 0")
    assert position(url) == [2, 0]
    choose(page, "section[aria-label=Group] select", "time")
    page.press("Set position…")
    page.sees("Choose a time")
    page.press("Cancel", "dialog")
    choose(page, "section[aria-label=Group] input", "2001-01-01T00:00:00")
    page.press("Set position…")
    page.press("Set position", "dialog")
    page.sees("goes on at 0, 0; it was at 2, 0")
    assert position(url) == [0, 0]
    page.is_well()


def test_a_group_is_made_forgotten_and_had_back(page: Page, broker: Broker) -> None:
    process, url = broker
    publish(url, "one", "two")
    page.open("#/logs/clicks")
    page.press("Make a group…")
    page.fill("#field-group", "billing")
    command, call = lines(page)
    page.press("Make a group", "dialog")
    page.sees("The group is created, and goes on at 2, 0.", "Group billing")
    assert position(url) == [2, 0]
    page.press("Forget…")
    forget_back, _, forget, forget_call = lines(page)
    page.press("Forget", "dialog")
    page.sees("The group is forgotten; it was at 2, 0.", "The group has no position")
    assert position(url) is None
    assert lines(page, ".undo")[0] == forget_back
    page.press("Take it back…")
    page.press("Take it back", "dialog")
    page.sees("Taken back: the group is at 2, 0.")
    for line in (forget, command, forget_call):
        paste(process, line)
    assert position(url) is None
    paste(process, call)
    assert position(url) == [2, 0]
    page.expected += 5
    page.is_well()


# ---- records


def test_records_are_read_fifty_at_a_time_and_no_group_moves(page: Page, broker: Broker) -> None:
    process, url = broker
    messages = [{"body": f"<b>{nth}</b>", "headers": {"partition-key": KEYS[0]}} for nth in range(120)]
    ask(url, "POST", f"{LOG}/messages", {"messages": messages})
    ask(url, "PUT", GROUP, {"offsets": [3, 0]})
    page.open("#/logs/clicks")
    page.press("Read partition 0")
    page.sees("50 records.")
    assert bodies(page) == [f"<b>{nth}</b>" for nth in range(50)]
    page.press("Next 50")
    page.wait(lambda: bodies(page)[:1] == ["<b>50</b>"], "the next 50")
    assert "from=0%3A50" in page.place
    page.press("Next 50")
    page.sees("20 records, and then the end.")
    page.press("Next 50")
    page.sees("Nothing is there yet: this is the end.")
    publish(url, "late")
    page.press("Read again")
    page.sees("1 record, and then the end.")
    assert bodies(page) == ["late"]
    page.run("history.back()")
    page.sees("21 records, and then the end.")
    command, call = lines(page, ".by-hand")
    printed = paste(process, command).splitlines()
    assert printed == [*(f"<b>{nth}</b>" for nth in range(100, 120)), "late"]
    assert '"body":"late"' in paste(process, call.replace("curl", "curl --max-time 2", 1) + " || true")
    assert position(url) == [3, 0]
    is_right_everywhere(page)


def test_reading_begins_where_one_says(page: Page, broker: Broker) -> None:
    url = broker[1]
    messages = [{"body": str(nth), "headers": {"partition-key": KEYS[0]}} for nth in range(60)]
    ask(url, "POST", f"{LOG}/messages", {"messages": messages})
    publish(url, "other", partition=1)
    page.open("#/logs/clicks?tab=read")
    page.press("Read", "form")
    page.sees("50 records.")
    assert "from=earliest" in page.place and bodies(page)[:50] == [str(nth) for nth in range(50)]
    choose(page, "form select", "newest")
    page.press("Read", "form")
    page.wait(lambda: bodies(page) == [*map(str, range(35, 60)), "other"], "the last of each")
    choose(page, "form select", "offset")
    page.fill("form label:nth-of-type(1) input", "0")
    page.fill("form label:nth-of-type(3) input", "58")
    page.press("Read", "form")
    page.wait(lambda: bodies(page) == ["58", "59"], "from 58 on")
    choose(page, "form select", "time")
    choose(page, "form label:nth-of-type(1) input", "")
    choose(page, "form input[type=datetime-local]", "2001-01-01T00:00")
    page.press("Read", "form")
    page.wait(lambda: bodies(page)[:1] == ["0"], "from that time on")
    assert "from=0%3A0%2C1%3A0" in page.place
    page.expected += 1
    page.go("#/logs/clicks?tab=read&partition=0&from=0%3A999")
    page.sees("it cannot be read from 999 on")
    page.is_well()


def test_a_record_is_shown_as_json_as_text_and_as_bytes(page: Page, broker: Broker) -> None:
    url = broker[1]
    exact = '{"n":12345678901234567890,"list":[1,{}],"text":"a\\"{,"}'
    messages = [
        {"body": exact, "headers": {"colour": HOSTILE}},
        {"body_base64": "/wAB"},
        {"body": ""},
        {"body": HOSTILE},
        {"body": "x" * 300000},
    ]
    for message in messages:
        message["headers"] = {"partition-key": KEYS[0], **message.get("headers", {})}  # type: ignore[dict-item]
    ask(url, "POST", f"{LOG}/messages", {"messages": messages})
    page.open("#/logs/clicks?tab=read&from=earliest")
    page.sees("5 records, and then the end.")
    for one in page.all("details.record summary"):
        one.click()
    page.sees(
        '"n": 12345678901234567890,\n  "list": [\n    1,\n    {}\n  ],\n  "text": "a\\"{,"',
        "colour",
        "The body is empty.",
    )
    page.sees("000000  ff 00 01", "\\u202eevil", "300,000 bytes, of which the first 262,144 are shown")
    page.press("Text", "tr:first-child")
    page.sees(exact)
    page.press("Hex", "tr:first-child")
    page.sees("000000  7b 22 6e 22")
    is_right_everywhere(page)


def test_what_is_too_large_for_a_page_is_said(page: Page, broker: Broker) -> None:
    with Client(broker[0].address) as client:
        client.send("/log/clicks", "small", [("partition-key", KEYS[0])])
        client.send("/log/clicks", "x" * (9 << 20), [("partition-key", KEYS[0])])
    page.open("#/logs/clicks?tab=read&from=earliest")
    page.sees("1 record: the next one is too large for this page. The command line can read it.")
    page.is_well()


# ---- acts and settings


@pytest.mark.parametrize("by", ["the page", "the command line", "curl"])
def test_a_record_is_published(page: Page, broker: Broker, by: str) -> None:
    process, url = broker
    page.open("#/logs/clicks")
    page.press("Publish…")
    page.fill("#field-body", "-it's\n'two'lines")
    page.fill("#field-headers", "nonsense")
    page.sees("nonsense is not a header")
    page.fill("#field-headers", "partition-key: d\ncolour: blue")
    command, call = lines(page)
    if by == "the page":
        page.press("Publish", "dialog")
        page.sees("Stored 1 copy: 0:0.")
    else:
        paste(process, command if by == "the command line" else call)
        page.press("Cancel", "dialog")
    page.go("#/logs/clicks?tab=read&from=earliest")
    page.sees("1 record, and then the end.")
    page.one("details.record summary").click()
    page.sees("-it's\n'two'lines", "colour: blue", "text/plain")
    page.is_well()


def test_settings_are_a_table_of_config_toml(page: Page, broker: Broker) -> None:
    settings = {"partitions": 3, "partition_key": '/it\'s "quoted"/\\', "retention_ms": 0, "retention_bytes": 1 << 20}
    assert ask(broker[1], "PUT", "/v1/logs/a%22b", settings)["ok"]
    page.open("#/logs/a%22b?tab=settings")
    page.sees('[log."a\\"b"]')
    text = page.run("return document.querySelector('.code code').textContent")
    assert tomllib.loads(text) == {"log": {'a"b': settings}}
    is_right_everywhere(page)
    page.go("#/logs/clicks?tab=settings")
    page.sees('[log."clicks"]\npartitions = 2')
    text = page.run("return document.querySelector('.code code').textContent")
    assert tomllib.loads(text) == {"log": {"clicks": {"partitions": 2}}}


@pytest.mark.parametrize("by", ["the page", "the command line", "curl"])
def test_a_log_is_deleted_when_its_name_is_typed(page: Page, broker: Broker, by: str) -> None:
    process, url = broker
    publish(url, "one", "two")
    page.open("#/logs/clicks")
    page.press("Delete…")
    assert page.one("dialog button[type=submit]").get_attribute("disabled")
    page.fill("dialog label input", "clicks")
    page.is_accessible()
    command, call = lines(page)
    if by == "the page":
        page.press("Delete", "dialog")
        page.sees("The log is deleted, with 2 records.", "No log yet")
        assert page.place == "#/logs"
    else:
        paste(process, command if by == "the command line" else call)
    assert ask(url, "GET", LOG)["code"] == "no-such-destination"
    page.expected += 20


def test_a_refused_deletion_stays_where_it_is(page: Page, broker: Broker) -> None:
    with Client(broker[0].address) as client:
        client.subscribe("/log/clicks", ack="auto", headers=[("from", "earliest")])
        page.open("#/logs/clicks")
        page.press("Delete…")
        page.fill("dialog label input", "clicks")
        page.expected += 1
        page.press("Delete", "dialog")
        page.sees("is being read")
        assert page.place == "#/logs/clicks"
        page.is_well()


@pytest.mark.parametrize("name", [HOSTILE, LONG, "a/b?c#d%20"])
def test_names_do_nothing(page: Page, broker: Broker, name: str) -> None:
    url = broker[1]
    there = f"/v1/logs/{quote(name, safe='')}"
    assert ask(url, "PUT", there, {})["ok"]
    for group in (HOSTILE, "zero\0 line\n"):
        assert ask(url, "PUT", f"{there}/positions/{quote(group, safe='')}", {"offsets": [0]})["ok"]
    assert ask(url, "POST", f"{there}/messages", {"messages": [{"body": HOSTILE}]})["ids"] == ["0:0"]
    page.open(f"#/logs/{quote(name, safe='')}")
    page.sees("1 record", "zero\\u0000 line\\u000a", "\\u202eevil")
    page.press("zero\\u0000 line\\u000a")
    page.sees("Group zero")
    page.press("Forget…")
    assert len(lines(page)) == 2  # no command line carries a NUL
    page.press("Forget", "dialog")
    page.sees("The group has no position")
    page.go(f"#/logs/{quote(name, safe='')}?tab=read&from=earliest")
    page.sees("1 record, and then the end.")
    page.go(f"#/logs/{quote(name, safe='')}?tab=settings")
    page.sees("config.toml")
    is_right_everywhere(page)
