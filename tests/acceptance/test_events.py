"""Server-sent events of a real broker: what a browser gets, and goes on with, whatever becomes of either side."""

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from tests.broker_process import BrokerProcess
from tests.protocols.http.asking import request
from tests.server.web import HASH, OPEN, SECRET, WebClient, basic, port_of

CONFIG = (
    OPEN
    + """
[limits]
outbox_max_bytes = "2MiB"
tcp_timeout_s = 5
[log.l]
partitions = 2
[log.one]
[log.wide]
partitions = 65
"""
)
READER = f'[user.eve]\npassword = "{HASH}"\n'
OF_EVE = OPEN + "[log.l]\n[user.ann]\n" + f'password = "{HASH}"\nrole = "operator"\n'


class Events:
    """One stream. last_id: what a browser comes back with."""

    def __init__(self, port: int, path: str, **headers: str | None) -> None:
        self.client = WebClient(port)
        self.client.send(request("GET", path, **headers))
        self._read = b""
        self.last_id = headers.get("Last_Event_ID") or ""
        head = self._until(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ") and b"\r\nContent-Type: text/event-stream\r\n" in head, head

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.socket.close()

    def _until(self, end: bytes) -> bytes:
        while end not in self._read:
            data = self.client.socket.recv(1 << 16)
            if not data:
                raise ConnectionAbortedError
            self._read += data
        found, _, self._read = self._read.partition(end)
        return found

    def next(self) -> tuple[str, dict[str, Any]]:
        """The next event, as the standard has a browser read it."""
        while True:
            event, data = "message", ""
            for line in self._until(b"\n\n").decode().split("\n"):
                name, _, value = line.partition(": ")
                if name == "id":
                    self.last_id = value
                event = value if name == "event" else event
                data += value if name == "data" else ""
            if data:
                return event, json.loads(data)

    def record(self) -> dict[str, Any]:
        event, data = self.next()
        assert event == "message"
        return data


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        running.wait_for_log("listening address=http://")
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log


@pytest.fixture
def port(broker: BrokerProcess) -> int:
    return port_of(broker.log, "http")


def publish(port: int, path: str, *bodies: bytes, **headers: str | None) -> None:
    with WebClient(port) as client:
        for body in bodies:
            answer = client.ask("POST", f"/v1/{path}/messages", body, Content_Type="text/plain", **headers)
            assert answer.status in (200, 201), answer


def refusal(port: int, path: str, **headers: str | None) -> tuple[int, str]:
    with WebClient(port) as client:
        answer = client.ask("GET", path, **headers)
        found = json.loads(answer.body)
        assert found["status"] == answer.status
        return answer.status, found["code"]


def test_a_log_is_read_on_where_the_last_event_was(port: int) -> None:
    with Events(port, "/v1/logs/l/events") as first:
        for number in range(10):
            publish(port, "logs/l", b"%d" % number, partition_key=str(number % 5))
        got = [first.record() for _ in range(4)]
        while first.last_id.count(",") != 1 or len(got) < 6:
            got.append(first.record())
    with Events(port, "/v1/logs/l/events", Last_Event_ID=first.last_id) as again:
        got += [again.record() for _ in range(10 - len(got))]
        publish(port, "logs/l", b"last")
        assert again.record()["body"] == "last"
    assert sorted(int(one["body"]) for one in got) == [*range(10)]
    assert all(one["id"] == f"{one['partition']}:{one['offset']}" for one in got)
    assert {one["partition"] for one in got} == {0, 1}, "or this shows nothing of several partitions"


def test_who_is_cut_off_before_the_first_event_misses_nothing(port: int) -> None:
    with Events(port, "/v1/logs/one/events") as first:
        first.client.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            first.next()
    publish(port, "logs/one", b"while it was away")
    with Events(port, "/v1/logs/one/events", Last_Event_ID=first.last_id) as again:
        assert again.record()["body"] == "while it was away"


def test_topics_that_match_come_as_they_are_sent(port: int) -> None:
    with Events(port, "/v1/topics/a.%2A.%23/events") as events:
        publish(port, "topics/a", b"0")
        publish(port, "topics/a.b", b"1")
        publish(port, "topics/a.b.c", b"\xff")
        assert events.record()["body"] == "1"
        found = events.record()
        assert found["body_base64"] == "/w==" and found["destination"] == "/topic/a.b.c" and not events.last_id


@pytest.mark.parametrize(("path", "headers", "status", "code"), [
    ("/v1/logs/none/events", {}, 404, "no-such-destination"),
    ("/v1/logs/l/events", {"Last_Event_ID": "0:99999"}, 404, "no-such-offset"),
    ("/v1/logs/l/events?partition=2", {}, 404, "no-such-offset"),
    ("/v1/logs/wide/events", {}, 400, "protocol"),
    ("/v1/queues/q/events", {}, 404, "no-such-resource"),
])  # fmt: skip
def test_what_is_refused_is_a_problem(port: int, path: str, headers: dict[str, str], status: int, code: str) -> None:
    assert refusal(port, path, **headers) == (status, code)


def test_of_a_wide_log_one_partition_is_read(port: int) -> None:
    with Events(port, "/v1/logs/wide/events?partition=64&from=earliest") as events:
        publish(port, "logs/wide", *(b"%d" % number for number in range(65)))
        assert events.record()["partition"] == 64 and events.last_id == "64:1"


def test_a_publish_before_the_stream_is_answered_before_it(port: int) -> None:
    with WebClient(port) as client:
        client.send(
            request("POST", "/v1/queues/q/messages", b"x", Content_Type="text/plain")
            + request("GET", "/v1/topics/t/events")
        )
        assert client.answer().status == 201
        client.socket.settimeout(5)
        assert client.answer().headers["Content-Type"] == "text/event-stream"


def test_who_does_not_read_events_takes_no_more_than_its_buffer(broker: BrokerProcess, port: int) -> None:
    def used_bytes() -> int:
        return int(Path(f"/proc/{broker.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    with Events(port, "/v1/topics/flood/events") as slow:
        before_bytes = used_bytes()
        publish(port, "topics/flood", *([b"x" * 100_000] * 400))
        assert used_bytes() - before_bytes < 16 << 20
        with pytest.raises(ConnectionAbortedError):
            for _ in range(400):
                event, data = slow.next()
        assert (event, data["code"]) == ("refused", "slow-subscriber")


def test_a_right_that_is_taken_away_ends_the_stream(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, OF_EVE + READER + 'read = ["/log/l"]\n') as broker:
        broker.wait_for_log("listening address=http://")
        port = port_of(broker.log, "http")
        assert refusal(port, "/v1/topics/t/events", Authorization=basic("eve", SECRET)) == (403, "forbidden")
        assert refusal(port, "/v1/logs/l/events") == (401, "forbidden")
        with Events(port, "/v1/logs/l/events", Authorization=basic("eve", SECRET)) as events:
            broker.config_file.write_text(OF_EVE + READER)
            assert broker.process is not None
            broker.process.send_signal(1)
            event, data = events.next()
            assert (event, data["code"], data["status"]) == ("refused", "forbidden", 403)
            with pytest.raises(ConnectionAbortedError):
                events.next()


def test_the_numbers_come_every_second_until_the_right_to_see_them_is_gone(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, OF_EVE + READER + 'see = ["/#"]\n') as broker:
        broker.wait_for_log("listening address=http://")
        port, eve = port_of(broker.log, "http"), basic("eve", SECRET)
        with Events(port, "/v1/stats/events?every_s=1", Authorization=eve) as events:
            found = [events.next() for _ in range(3)]
            assert [event for event, _ in found] == ["stats"] * 3
            uptimes_s = [data["uptime_s"] for _, data in found]
            pauses_s = [later - earlier for earlier, later in zip(uptimes_s, uptimes_s[1:], strict=False)]
            assert all(0.7 < pause_s < 5 for pause_s in pauses_s), uptimes_s
            assert "queues" not in found[0][1] and found[0][1]["connections"] >= 1
            broker.config_file.write_text(OF_EVE + READER)
            assert broker.process is not None
            broker.process.send_signal(1)
            while (event := events.next())[0] == "stats":
                pass
            assert (event[0], event[1]["code"], event[1]["status"]) == ("refused", "forbidden", 403)
            with pytest.raises(ConnectionAbortedError):
                events.next()
        assert refusal(port, "/v1/stats/events", Authorization=eve) == (403, "forbidden")


@pytest.mark.durability("D41")
def test_nothing_is_missed_and_nothing_comes_twice_over_kills(tmp_path: Path) -> None:
    """A reader that always comes back, and producers whose broker is killed again and again: it gets each record that
    is in the log once, in the order of its partition, and so each that was answered 201.
    """
    kills, answered, got, last_id = 4, set[str](), list[tuple[int, int, str]](), ""
    with BrokerProcess(tmp_path, CONFIG) as broker:
        for round_ in range(kills):
            broker.wait_for_log("listening address=http://")
            port = port_of(broker.log, "http")
            stop = threading.Event()

            def produce(name: str, port: int = port, stop: threading.Event = stop) -> None:
                try:
                    with WebClient(port) as client:
                        number = 0
                        while not stop.is_set():
                            number += 1
                            body = f"{name}-{number}"
                            key = {"Partition_Key": body}
                            path = "/v1/logs/l/messages"
                            if client.ask("POST", path, body.encode(), Content_Type="text/plain", **key).status == 201:
                                answered.add(body)
                except OSError:
                    return

            producers = [threading.Thread(target=produce, args=(f"{round_}-{n}",)) for n in range(3)]
            path = "/v1/logs/l/events?from=earliest"
            with Events(port, path, Last_Event_ID=last_id or None) as events:
                for one in producers:
                    one.start()
                until_s = time.monotonic() + 0.5
                try:
                    while True:
                        found = events.record()
                        last_id = events.last_id
                        got.append((found["partition"], found["offset"], found["body"]))
                        if time.monotonic() > until_s:
                            broker.kill()
                            until_s += 60
                except (ConnectionAbortedError, ConnectionResetError):
                    pass
            stop.set()
            for one in producers:
                one.join()
            broker.start()
        broker.wait_for_log("listening address=http://")
        port = port_of(broker.log, "http")
        publish(port, "logs/l", b"end", b"end", b"end", b"end")
        with Events(port, "/v1/logs/l/events", Last_Event_ID=last_id) as events:
            ends = 0
            while ends < 4:
                found = events.record()
                ends += found["body"] == "end"
                got.append((found["partition"], found["offset"], found["body"]))
    for partition in (0, 1):
        offsets = [offset for index, offset, _ in got if index == partition]
        assert offsets == [*range(len(offsets))] and len(offsets) > 10
    bodies = {body for _, _, body in got}
    assert len(answered) > 50 and answered <= bodies
