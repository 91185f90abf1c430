"""The audit log tells of clients of AMQP as of any other: who has logged in, who was refused, and what was done."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import amqp
import pytest
from amqp import exceptions

from tests.acceptance.amqp_clients import connected, declare, publish
from tests.acceptance.test_amqp_refusals import MORE
from tests.acceptance.wire import Wire
from tests.server.web import SECRET, WebBroker

CONFIG = MORE + "[journal]\nenabled = true\n"
Record = dict[str, Any]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[WebBroker]:
    with WebBroker(tmp_path, CONFIG) as running:
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log
        assert SECRET not in running.log and "wrong" not in running.log


def records(broker: WebBroker, count: int) -> list[Record]:
    """The first so many, and one more is not there but the login of who asks."""
    with Wire((broker.host, broker.port)) as wire:
        wire.connect({"login": "ann", "passcode": SECRET})
        wire.subscribe("/log/audit", ack="auto", headers={"from": "earliest"})
        found = [json.loads(wire.message().body) for _ in range(count + 1)]
    assert found.pop()["event"] == "login"
    return found


def acts(found: list[Record]) -> list[tuple[str, str, str]]:
    return [(one["act"], one["on"], one["outcome"]) for one in found if one["event"] == "act"]


def test_who_declares_binds_purges_and_deletes(broker: WebBroker) -> None:
    with connected(broker, userid="ann", password=SECRET) as connection:
        channel = connection.channel()
        for _ in range(2):  # each start of a program declares, and the second time that changes nothing
            channel.exchange_declare("x", "direct", durable=True, auto_delete=False)
            declare(channel, "q")
        channel.queue_declare("q", passive=True)
        channel.queue_bind("q", "x", "k")
        publish(channel, "q", "1")
        channel.queue_purge("q")
        channel.queue_unbind("q", "x", "k")
        channel.queue_delete("q")
        channel.exchange_delete("x")
    found = records(broker, 8)
    login = found.pop(0)
    assert (login["event"], login["user"], login["by"]) == ("login", "ann", "password")
    assert acts(found) == [
        ("declare", "/exchange/x", "done"), ("declare", "/queue/q", "done"), ("bind", "/exchange/x/k q", "done"),
        ("purge", "/queue/q", "done"), ("unbind", "/exchange/x/k q", "done"), ("delete", "/queue/q", "done"),
        ("delete", "/exchange/x", "done"),
    ]  # fmt: skip
    assert {(one["user"], one["channel_of"]) for one in found} == {("ann", login["connection"])}
    lines = [line for line in broker.log.splitlines() if " administered " in line]
    assert len(lines) == 7 and all("user=ann" in line for line in lines)


def test_who_is_refused_a_login_and_what_he_may_not_do(broker: WebBroker) -> None:
    with pytest.raises(exceptions.AccessRefused):
        connected(broker, userid="carl", password="wrong")
    with connected(broker, userid="carl", password=SECRET) as connection:
        for do in (
            lambda channel: channel.queue_declare("other", passive=True),
            lambda channel: channel.queue_declare("other"),
            lambda channel: channel.basic_consume("other"),
            lambda channel: publish(channel, "other"),
        ):
            with pytest.raises(exceptions.AccessRefused):
                do(connection.channel())
    refused, login, *forbidden = records(broker, 6)
    assert (refused["event"], refused["user"]) == ("login-refused", "carl") and refused["peer"].startswith("127.0.0.1:")
    assert login["event"] == "login"
    assert [one["event"] for one in forbidden] == ["forbidden"] * 4
    assert [one["sentence"].split(" /")[0] for one in forbidden] == [
        "The user carl may not see", "The user carl may not declare", "The user carl may not read",
        "The user carl may not write",
    ]  # fmt: skip
    assert {one["channel_of"] for one in forbidden} == {login["connection"]}
    (line,) = (line for line in broker.log.splitlines() if "login_failed" in line)
    assert "login=carl" in line


def test_each_channel_is_no_login_of_its_own(broker: WebBroker) -> None:
    with connected(broker, userid="ann", password=SECRET) as connection:
        channels: list[amqp.Channel] = [connection.channel() for _ in range(5)]
        declare(channels[4], "q")
    assert [one["event"] for one in records(broker, 2)] == ["login", "act"]
