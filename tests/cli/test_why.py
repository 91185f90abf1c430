"""`radiator why` on a real broker."""

import json
from collections.abc import Iterator

import pytest

from radiator.client import Client
from tests.broker_process import BrokerProcess
from tests.cli.conftest import Run


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), "[queue.orders]\n[log.clicks]\n") as running:
        yield running


def test_it_says_one_word_a_sentence_and_who(run: Run, client: Client) -> None:
    assert run("why", "orders") == (0, "empty: It is empty: whatever was sent to it is done with.\n", "")
    client.send("/queue/orders", b"1")
    client.send("/queue/orders", b"2")
    assert run("why", "/queue/orders")[1].startswith("no-consumer: 2 messages are ready, and nobody is subscribed.\n")
    client.subscribe("/queue/orders", subscription="s\x07", ack="client")
    message = client.receive(5)
    assert message is not None
    status, out, _ = run("why", "orders")
    lines = out.splitlines()
    assert status == 0 and lines[0].startswith("window: 1 message is ready, but no window of the 1 consumer has room")
    assert lines[1] == "2 messages, 1 ready, 1 in flight, 1 consumers"
    assert lines[3].split() == ["connection", "subscription", "stands", "unacked", "window", "outbox"]
    assert lines[4].split()[1:] == ["s\\x07", "window", "1", "1", "0", "B"]
    answer = json.loads(run("why", "orders", "--json")[1])
    assert answer["verdict"] == "window" and answer["in_flight"] == 1


def test_of_a_log(run: Run, client: Client) -> None:
    client.send("/log/clicks", b"1")
    assert run("why", "/log/clicks")[1].startswith("no-consumer: It has 1 record, and nobody reads it.\n1 records")


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("nothing", 1, "radiator: There is no /queue/nothing.\n"),
        ("/log/nothing", 1, "radiator: /log/nothing is not declared"),
        ("/topic/news", 2, "radiator why: Argument QUEUE: '/topic/news' is no queue"),
    ],
)
def test_what_is_not_there(run: Run, name: str, status: int, said: str) -> None:
    ended, out, err = run("why", name)
    assert (ended, out) == (status, "") and err.startswith(said)
