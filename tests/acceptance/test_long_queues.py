"""Queues longer than what is kept of them in memory: order, redelivery, and long works cut by a kill (contract 1)."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import queues_that_do_not_add_up, stats
from tests.acceptance.wire import Frame, Wire
from tests.broker_process import BrokerProcess

LONG = 5000

pytestmark = pytest.mark.slow


def connected(broker: BrokerProcess) -> Wire:
    wire = Wire((broker.host, broker.port))
    wire.connect()
    return wire


def fill(wire: Wire, queue: str, count: int, size: int = 0) -> None:
    frames = [wire.frame("SEND", {"destination": queue}, b"%d" % number + bytes(size)) for number in range(count - 1)]
    wire.send_raw(b"".join(frames))
    wire.send(queue, b"%d" % (count - 1) + bytes(size))


def numbers(messages: list[Frame]) -> list[int]:
    return [int(one.body.rstrip(b"\0")) for one in messages]


def ask(broker: BrokerProcess, **request: Any) -> dict[str, Any]:
    with connected(broker) as wire:
        return dict(json.loads(wire.admin(json.dumps(request).encode())))


@pytest.mark.parametrize("kind", ["durable", "memory"])
def test_wide_window_of_a_lost_connection_comes_back_in_order(tmp_path: Path, kind: str) -> None:
    with BrokerProcess(tmp_path, '[queue."durable"]\n[queue."memory"]\npersistent = false\n') as broker:
        queue = f"/queue/{kind}"
        fill(connected(broker), queue, LONG, 500)
        lost = connected(broker)
        lost.subscribe(queue, headers={"prefetch-count": "3000"})
        got = lost.messages(3000)
        assert numbers(got) == list(range(3000))
        for message in got[1000:2000]:
            lost.send_frame("ACK", lost.naming(message))
        # the ACKs have opened the window: 1000 more come, read back from the disk first
        assert numbers(lost.messages(1000)) == list(range(3000, 4000))
        lost.ask("DISCONNECT")
        reader = connected(broker)
        deadline_s = time.monotonic() + 5
        while stats(broker)["queues"][kind]["unacked"]:
            assert time.monotonic() < deadline_s
        reader.subscribe(queue, ack="client", headers={"prefetch-count": "65535"})
        got = reader.messages(LONG - 1000)
        back = [*range(1000), *range(2000, LONG)]
        assert numbers(got) == back
        assert [one["redelivered"] == "true" for one in got] == [number < 4000 for number in back]
        reader.ack(got[-1])
        assert stats(broker)["queues"][kind]["messages"] == 0


def test_nacked_messages_come_back_to_their_place_ahead_of_a_long_queue(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        fill(connected(broker), "/queue/q", LONG)
        reader = connected(broker)
        reader.subscribe("/queue/q", headers={"prefetch-count": "100"})
        seen: list[int] = []
        while len(seen) < LONG:
            message = reader.message()
            number = int(message.body)
            if number % 7 == 0 and message["redelivered"] == "false":
                reader.send_frame("NACK", reader.naming(message))
            else:
                reader.send_frame("ACK", reader.naming(message))
                seen.append(number)
        assert sorted(seen) == list(range(LONG))
        assert [number for number in seen if number % 7] == [number for number in range(LONG) if number % 7]


def test_producers_and_consumers_on_a_long_queue_keep_its_order(tmp_path: Path) -> None:
    """The window is read back while more comes in."""
    with BrokerProcess(tmp_path) as broker:
        sender, reader = connected(broker), connected(broker)
        fill(sender, "/queue/q", LONG, 1000)
        reader.subscribe("/queue/q", headers={"prefetch-count": "50"})
        more = [sender.frame("SEND", {"destination": "/queue/q"}, b"%d" % (LONG + number)) for number in range(2000)]
        got: list[int] = []
        for frame in more:
            sender.send_raw(frame)
            for _ in range(3):
                message = reader.message()
                got += numbers([message])
                reader.send_frame("ACK", reader.naming(message))
        while len(got) < LONG + 2000:
            message = reader.message()
            got += numbers([message])
            reader.send_frame("ACK", reader.naming(message))
        assert got == list(range(LONG + 2000))


def test_peek_reads_beyond_the_window(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        fill(connected(broker), "/queue/q", 3000, 2000)
        shown = ask(broker, do="peek", queue="q", count=1000)["messages"]
        assert [int(one["body"].rstrip("\0")) for one in shown] == list(range(len(shown)))
        assert len(shown) == 1000


@pytest.mark.parametrize("wait_s", [0.0, 0.02, 0.1])
def test_deleted_queue_is_gone_whenever_the_broker_is_killed(tmp_path: Path, wait_s: float) -> None:
    with BrokerProcess(tmp_path) as broker:
        fill(connected(broker), "/queue/q", LONG)
        assert ask(broker, do="delete", queue="q") == {"ok": True, "deleted": LONG}
        time.sleep(wait_s)
        broker.kill()
        with broker:
            assert "q" not in stats(broker)["queues"]
            wire = connected(broker)
            wire.send("/queue/q", "new")
            wire.subscribe("/queue/q")
            assert wire.message().body == b"new"
            assert wire.is_silent()


@pytest.mark.parametrize("wait_s", [0.005, 0.03, 0.1])
def test_move_that_is_cut_by_a_kill_loses_and_doubles_nothing(tmp_path: Path, wait_s: float) -> None:
    with BrokerProcess(tmp_path) as broker:
        fill(connected(broker), "/queue/from", LONG)
        wire = connected(broker)
        wire.send_frame("SEND", {"destination": "/admin"}, b'{"do": "move", "from": "from", "to": "to"}')
        time.sleep(wait_s)
        broker.kill()
        with broker:
            assert queues_that_do_not_add_up(broker) == []
            found: list[int] = []
            for name, queue in stats(broker)["queues"].items():
                reader = connected(broker)
                reader.subscribe(f"/queue/{name}", headers={"prefetch-count": "65535"})
                got = numbers(reader.messages(queue["messages"]))
                assert got == sorted(got)
                found += got
            assert sorted(found) == list(range(LONG))


def test_purge_that_is_cut_by_a_kill_leaves_books_that_add_up(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        fill(connected(broker), "/queue/q", LONG)
        wire = connected(broker)
        wire.send_frame("SEND", {"destination": "/admin"}, b'{"do": "purge", "queue": "q"}')
        time.sleep(0.02)
        broker.kill()
        with broker:
            assert queues_that_do_not_add_up(broker) == []
            left = stats(broker)["queues"]["q"]["messages"]
            reader = connected(broker)
            reader.subscribe("/queue/q", headers={"prefetch-count": "65535"})
            got = numbers(reader.messages(left))
            assert got == list(range(LONG - left, LONG)), "the oldest went first"


def test_many_expired_messages_leave_and_their_dead_letters_arrive(tmp_path: Path) -> None:
    config = '[queue."q"]\nmessage_ttl_ms = 300\ndead_letter = "late"\n[queue."late"]\n'
    with BrokerProcess(tmp_path, config) as broker:
        fill(connected(broker), "/queue/q", 2500)
        deadline_s = time.monotonic() + 15
        while (queues := stats(broker)["queues"])["q"]["messages"]:
            assert time.monotonic() < deadline_s, queues["q"]
            time.sleep(0.05)
        assert queues["late"]["messages"] == 2500
        reader = connected(broker)
        reader.subscribe("/queue/late", headers={"prefetch-count": "65535"})
        assert numbers(reader.messages(2500)) == list(range(2500))
