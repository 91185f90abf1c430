"""The journal of a broker on a real disk, read as anybody reads it (docs/JOURNAL.md)."""

import json
from pathlib import Path
from typing import Any

import pytest

from radiator.model.journal import COLUMNS
from tests.acceptance.conftest import stats
from tests.acceptance.wire import Wire
from tests.broker_process import DEFAULT_CONFIG, BrokerProcess

CONFIG = DEFAULT_CONFIG + '\n[journal]\nenabled = true\n[queue."*.q"]\ndead_letter = "dead"\n'
WIDE = {"prefetch-count": "1000"}

pytestmark = pytest.mark.slow


@pytest.fixture
def broker(tmp_path: Path) -> BrokerProcess:
    """A broker of this test's own, not started."""
    return BrokerProcess(tmp_path, CONFIG)


def connected(broker: BrokerProcess) -> Wire:
    wire = Wire((broker.host, broker.port))
    wire.connect()
    return wire


def journal_of(wire: Wire, **headers: str) -> list[dict[str, Any]]:
    """All that it says up to now."""
    wire.subscribe("/log/journal", id="j", ack="auto", headers={"from": "earliest", "until": "end", **headers})
    rows = []
    while (message := wire.message()).get("end") is None:
        assert (message["destination"], message["content-type"]) == ("/log/journal", "application/json")
        row = json.loads(message.body)
        assert message["offset"] == str(row["seq"]) and message["partition"] == "0"
        rows.append(row)
    wire.send_frame("UNSUBSCRIBE", {"id": "j"})
    return rows


def test_a_message_is_accepted_delivered_and_acked(broker: BrokerProcess) -> None:
    with broker:
        wire = connected(broker)
        wire.send("/queue/a.q", "body")
        wire.subscribe("/queue/a.q", ack="client-individual", headers=WIDE)
        message = wire.message()
        wire.ack(message)
        wire.fence()
        events = [row for row in journal_of(wire) if row["event"] != "started"]
        assert [row["event"] for row in events] == ["accepted", "delivered", "acked"]
        assert {row["message_id"] for row in events} == {message["message-id"]}
        assert events[2]["client"] == events[1]["client"] and "client" not in events[0]


@pytest.mark.durability("D28")
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_the_books_and_the_journal_agree_over_restarts(broker: BrokerProcess, end: str) -> None:
    for _ in range(2):
        with broker:
            wire = connected(broker)
            wire.subscribe("/queue/a.q", ack="client-individual", headers=WIDE)
            for number in range(120):
                wire.send_frame("SEND", {"destination": "/queue/a.q"}, b"body %d" % number)
            for number in range(80):
                message = wire.message()
                if number % 3:
                    wire.ack(message)
                else:
                    wire.nack(message, {"requeue": "false" if number % 2 else "true"})
            for number in range(500):
                wire.send_frame("SEND", {"destination": "/queue/a.q"}, b"on its way %d" % number)
            broker.stop() if end == "stop" else broker.kill()
    with broker:
        wire = connected(broker)
        rows = journal_of(wire)
        assert [row["seq"] for row in rows] == list(range(len(rows)))
        books = stats(broker)["queues"]
        assert set(books) == {"a.q", "dead"}
        for queue, ledger in books.items():
            for column, events in COLUMNS.items():
                count = sum(row["queue"] == queue and row["event"] in events for row in rows)
                assert count == ledger[column], f"{column} of {queue}"


def test_nobody_sends_to_it(broker: BrokerProcess) -> None:
    with broker:
        wire = connected(broker)
        wire.send_frame("SEND", {"destination": "/log/journal", "receipt": "r"}, b"{}")
        assert wire.refusal()["code"] == "reserved"
