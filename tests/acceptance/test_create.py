"""Without [create] in the file nothing is created; declared names and patterns are there (contract 2)."""

import pytest

from tests.acceptance.conftest import Connect, queue_stats
from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess

CONFIG = """\
[queue."declared"]
[queue."cache.*"]
persistent = false
[queue."cache.keep"]
[fanout."events"]
children = ["cache.one", "declared"]
[topic."chat.#"]
"""


@pytest.mark.parametrize("address", ["/queue/other", "/topic/other", "/queue/cache.one.two", "/queue/cache", "other"])
@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
def test_what_is_not_declared_is_refused(wire: Wire, command: str, address: str) -> None:
    wire.send_frame(command, {"destination": address, "id": "1"})
    assert address.encode() in wire.refusal().body


@pytest.mark.parametrize(
    "address", ["/queue/declared", "/queue/cache.one", "/queue/cache.keep", "/topic/chat", "/topic/chat.de.kassel"]
)
def test_what_is_declared_by_name_or_pattern_is_there(wire: Wire, address: str) -> None:
    wire.subscribe(address, ack="auto")
    wire.send(address, "x")
    assert wire.message()["destination"] == address


def test_exact_name_wins_over_the_pattern(broker: BrokerProcess, wire: Wire) -> None:
    wire.send("/queue/cache.keep", "x")
    wire.send("/queue/cache.other", "x")
    assert queue_stats(broker, "/queue/cache.keep")["persistent"] is True
    assert queue_stats(broker, "/queue/cache.other")["persistent"] is False
    wire.subscribe("/queue/cache.keep", ack="auto")
    wire.message()


def test_topic_pattern_that_could_match_a_declared_topic_is_there(connect: Connect, wire: Wire) -> None:
    wire.subscribe("/topic/*.de", ack="auto")
    connect().send("/topic/chat.de", "hallo")
    assert wire.message().body == b"hallo"
