"""`radiator why` on a real broker."""

import json
from collections.abc import Iterator

import pytest

from radiator.client import Client
from tests.broker_process import BrokerProcess
from tests.tools.cli.conftest import Run

CONFIG = """
[queue.orders]
[queue.small]
max_messages = 1
overflow = "reject"
[queue.mail]
[log.clicks]
[fanout.news]
children = ["small", "/log/clicks"]
[exchange.events]
type = "topic"
bindings = [{ key = "a", queue = "mail" }, { key = "b", queue = "mail" }, { key = "c", queue = "/log/clicks" }]
[exchange.bare]
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        yield running


def test_it_says_one_word_a_sentence_and_who(run: Run, client: Client) -> None:
    assert run("why", "orders") == (0, "empty: It is empty: nothing has come to it yet.\n", "")
    client.send("/queue/orders", b"1")
    client.send("/queue/orders", b"2")
    assert run("why", "/queue/orders")[1].startswith("no-consumer: 2 messages are ready, and nobody is subscribed.\n")
    client.subscribe("/queue/orders", subscription="s\x07", ack="client")
    message = client.receive(5)
    assert message is not None
    status, out, _ = run("why", "orders")
    lines = out.splitlines()
    assert status == 0 and lines[0].startswith("window: 1 message is ready, but no consumer has room in its")
    assert lines[1] == "2 messages, 1 ready, 1 unacked, 1 consumer"
    assert lines[3].split() == ["connection", "subscription", "stands", "unacked", "window", "outbox"]
    assert lines[4].split()[1:] == ["s\\x07", "window", "1", "1", "0", "B"]
    answer = json.loads(run("why", "orders", "--json")[1])
    assert answer["verdict"] == "window" and answer["unacked"] == 1


def test_of_a_log(run: Run, client: Client) -> None:
    client.send("/log/clicks", b"1")
    assert run("why", "/log/clicks")[1].startswith("no-consumer: It has 1 record, and nobody reads it.\n1 record\n")


def test_of_a_queue_that_is_full(run: Run, client: Client) -> None:
    client.send("/queue/small", b"1")
    assert run("why", "small")[1] == (
        "no-consumer: 1 message is ready, and nobody is subscribed. It is full, with 1 message of 1 byte "
        "(max_messages 1): SENDs are refused (overflow reject).\n1 message, 1 ready\n"
    )
    assert run("purge", "small")[0] == 0


def test_of_what_leads_to_queues(run: Run, client: Client) -> None:
    assert run("why", "/exchange/events") == (
        0,
        "/exchange/events keeps nothing itself: what matches a binding goes to 2 destinations.\n"
        f"\n/log/clicks\n  {run('why', '/log/clicks')[1].splitlines()[0]}\n"
        "\nmail\n  empty: It is empty: nothing has come to it yet.\n",
        "",
    )
    status, out, _ = run("why", "/fanout/news")
    assert status == 0 and out.startswith(
        "/fanout/news keeps nothing itself: a copy goes to 2 destinations.\n\nsmall\n"
    )
    assert json.loads(run("why", "/fanout/news", "--json")[1])["leads_to"]["small"]["verdict"] == "empty"
    assert run("why", "/exchange/bare")[1] == (
        "/exchange/bare keeps nothing itself, and leads to no queue: what is sent to it is dropped.\n"
    )
    client.subscribe("/exchange/bare/x")
    assert run("why", "/exchange/bare")[1] == (
        "/exchange/bare keeps nothing itself: what matches a binding goes to 1 subscriber.\n"
    )


@pytest.mark.parametrize(
    ("name", "status", "sentence"),
    [
        ("nothing", 1, "radiator: There is no /queue/nothing.\n"),
        ("/log/nothing", 1, "radiator: /log/nothing is not declared"),
        ("/fanout/nothing", 1, "radiator: /fanout/nothing is not declared"),
        ("/exchange/nothing", 1, "radiator: /exchange/nothing is not declared"),
        ("/topic/news", 2, "radiator: '/topic/news' keeps nothing: "),
        ("/temp-queue/x", 2, "radiator: '/temp-queue/x' is one connection's own"),
    ],
)
def test_what_is_not_there(run: Run, name: str, status: int, sentence: str) -> None:
    ended, out, err = run("why", name)
    assert (ended, out) == (status, "") and err.startswith(sentence)
