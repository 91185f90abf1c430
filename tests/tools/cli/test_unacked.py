"""`radiator unacked` and `radiator extend`, on a real broker: what is out is shown, and gets more time."""

import json
import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from radiator.client import Client
from radiator.tools.cli.unacked import _row
from tests.broker_process import BrokerProcess
from tests.tools.cli.conftest import Run

CONFIG = "[queue.timed]\nack_timeout_s = 60\n[queue.plain]\n"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        yield running
        assert "Traceback" not in running.log, running.log


def test_what_is_out_is_shown_a_page_at_a_time_and_extended(run: Run, client: Client) -> None:
    client.subscribe("/queue/timed", ack="client-individual", prefetch=5, consumer_name="pod\u202e")
    for _ in range(3):
        client.send("/queue/timed", b"hello")
    received = [client.receive(5) for _ in range(3)]
    ids = [message.message_id for message in received if message is not None]
    status, out, err = run("unacked", "timed")
    assert (status, err) == (0, "")
    head, *lines = out.splitlines()
    assert head.split()[:2] == ["message", "with"] and [line.split()[0] for line in lines] == ids
    assert "pod\\u202e" in lines[0] and "\u202e" not in out
    seen: list[str] = []
    after: list[str] = []
    while True:
        out = run("unacked", "/queue/timed", "--limit", "2", *after)[1]
        seen += [line.split()[0] for line in out.splitlines()[1:] if line.split()[0] in ids]
        if "--after" not in out:
            break
        assert out.splitlines()[-1].startswith("2 of 3; --after ")
        after = ["--after", out.split("--after ")[1].split()[0]]
    assert seen == ids
    status, out, err = run("extend", "timed", ids[1], "3600")
    assert (status, err) == (0, "") and out.startswith(f"{ids[1]} may stay out until 20")
    until = datetime.fromisoformat(out.strip().rstrip(".").split("until ")[1]).timestamp()
    assert abs(until - time.time() - 3600) < 30
    answer = json.loads(run("unacked", "timed", "--json")[1])
    assert answer["unacked"][1]["due_ms"] > answer["unacked"][0]["due_ms"] + 3_000_000 and answer["count"] == 3
    for message in received:
        assert message is not None
        client.ack(message)
    assert run("unacked", "timed")[1] == "No message of timed is out.\n"
    assert run("unacked", "timed", "--after", "0-0")[1] == "No message of timed is out after that place.\n"


def test_what_cannot_be_extended_is_refused(run: Run, client: Client) -> None:
    client.subscribe("/queue/plain", ack="client-individual")
    client.send("/queue/plain", b"1")
    message = client.receive(5)
    assert message is not None
    status, out, err = run("extend", "plain", message.message_id, "60")
    assert (status, out) == (1, "") and "has no ack timeout" in err
    client.ack(message)
    status, out, err = run("extend", "plain", "feedfacecafebeef-1-1", "60")
    assert (status, out) == (1, "") and "is not unacked in /queue/plain" in err
    status, out, err = run("unacked", "plain", "--after", "x")
    assert (status, out) == (1, "") and "`after` must be the `next` of the page before" in err
    status, out, err = run("extend", "plain", message.message_id, "0")
    assert (status, out) == (1, "") and "must be a number of seconds from 0.001" in err


@pytest.mark.parametrize("words", [("plain", "x", "60"), ("plain", "feedfacecafebeef-1-1", "soon"), ("plain",)])
def test_a_wrong_word_is_a_usage_error(run: Run, words: tuple[str, ...]) -> None:
    status, out, err = run("extend", *words)
    assert (status, out) == (2, "") and err.endswith(".\n")


def test_a_lease_is_shown_as_one() -> None:
    row = {
        "message_id": "s-1-2", "connection": None, "address": None, "user": "ann", "subscription": None,
        "consumer": None, "age_ms": 61_000, "due_ms": None, "redelivery_count": 2, "size": 2048, "is_leased": True,
    }  # fmt: skip
    assert _row(row) == ["s-1-2", "a lease", "ann", "", "", "1 min 1 s", "", 2, "2.0 KiB"]
