"""`radiator return` on a real broker."""

import json
from collections.abc import Iterator

import pytest

from radiator.client import Client
from tests.broker_process import BrokerProcess
from tests.tools.cli.conftest import Run

CONFIG = """
[queue.orders]
dead_letter = "dead"
[queue.bills]
dead_letter = "dead"
[queue.small]
max_messages = 1
dead_letter = "dead"
[queue.dead]
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        yield running


@pytest.fixture(autouse=True)
def empty(client: Client) -> None:
    for queue in ("orders", "bills", "small", "dead"):
        client.admin({"do": "purge", "queue": queue})


def dies(broker: BrokerProcess, queue: str, count: int) -> None:
    with Client(broker.address) as client:
        client.send_many(f"/queue/{queue}", [str(number) for number in range(count)])
        client.subscribe(f"/queue/{queue}", ack="client-individual", prefetch=count)
        for _ in range(count):
            message = client.receive(5)
            assert message is not None
            client.nack(message, requeue=False)


def ids(client: Client) -> list[str]:
    return [str(one["message_id"]) for one in client.admin({"do": "peek", "queue": "dead", "count": 100})["messages"]]


def test_all_go_back_and_each_queue_is_told_of(broker: BrokerProcess, run: Run) -> None:
    dies(broker, "orders", 2)
    dies(broker, "bills", 1)
    status, out, err = run("return", "dead")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "3 messages are back where they came from, in 2 queues."
    assert [line.split() for line in lines[2:]] == [["queue", "messages"], ["orders", "2"], ["bills", "1"]]
    assert run("return", "dead") == (0, "Nothing is ready in /queue/dead, so nothing went back.\n", "")


def test_count_and_what_stays(broker: BrokerProcess, run: Run, client: Client) -> None:
    dies(broker, "small", 1)
    dies(broker, "orders", 2)
    client.send("/queue/small", b"full")
    sentence = "1 message is back where it came from, in 1 queue. 1 message stays: 1 of a queue that is full.\n"
    assert run("return", "dead", "--count", "1") == (0, sentence, "")
    answer = json.loads(run("return", "/queue/dead", "--json")[1])
    assert (answer["returned"], answer["to"], answer["why"]) == (1, {"orders": 1}, {"origin-full": 1})


def test_chosen_messages(broker: BrokerProcess, run: Run, client: Client) -> None:
    dies(broker, "orders", 3)
    client.send("/queue/dead", b"sent")
    known = ids(client)
    status, out, _ = run("return", "dead", "--message", known[1], "--message", known[3], "--message", known[1])
    lines = out.splitlines()
    assert status == 0 and lines[0].startswith("1 message is back where it came from, in 1 queue. 1 message stays: ")
    assert lines[-1] == f"{known[3]}  without an original-destination that is a queue"
    assert ids(client) == [known[0], known[2], known[3]]


def test_what_is_wrong_is_said(run: Run) -> None:
    assert run("return", "nowhere")[0] == 1
    status, _, err = run("return", "dead", "--message", "nonsense")
    assert status == 2 and "is not a message-id" in err
    assert run("return", "dead", "--message", "s-1-1", "--count", "1")[0] == 2
    many = [word for number in range(101) for word in ("--message", f"s-1-{number}")]
    status, _, err = run("return", "dead", *many)
    assert (status, err) == (2, "radiator: --message is there 101 times: 100 messages go back at once.\n")
