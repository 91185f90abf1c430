"""Heart-beats both ways (contract 3)."""

import time

import pytest

from tests.acceptance.conftest import Connect
from tests.acceptance.wire import Gone, Wire

CONFIG = """\
[limits]
heart_beat_ms = [200, 200]
[create]
queues = true
"""

pytestmark = pytest.mark.slow


def listen(wire: Wire, seconds: float) -> int:
    """The ends of line that come in that time."""
    before = wire.ends_of_line
    try:
        wire.read_frame(seconds)
    except TimeoutError:
        return wire.ends_of_line - before
    raise AssertionError("a frame came")


def test_server_sends_every_interval(connect: Connect) -> None:
    wire = connect(headers={"heart-beat": "0,200"})
    assert 4 <= listen(wire, 1.3) <= 8


def test_server_sends_as_often_as_is_asked_for_and_no_more_often_than_each_100_ms(connect: Connect) -> None:
    wire = connect(headers={"heart-beat": "0,1"})
    assert 7 <= listen(wire, 1.0) <= 11


def test_server_sends_none_where_none_are_wanted(connect: Connect) -> None:
    for headers in ({"heart-beat": "0,0"}, {}):
        assert listen(connect(headers=headers), 0.5) == 0


def test_server_sends_them_whatever_else_flows(connect: Connect, queue: str) -> None:
    wire = connect(headers={"heart-beat": "0,200"})
    wire.subscribe(queue, ack="auto")
    until_s = time.monotonic() + 1.5
    while time.monotonic() < until_s:
        wire.send(queue, "x")
        wire.message()
    assert wire.ends_of_line >= 4


def test_silent_client_is_closed_after_twice_the_interval_and_a_second(connect: Connect) -> None:
    wire = connect(headers={"heart-beat": "200,0"})
    began_s = time.monotonic()
    with pytest.raises(Gone):
        while True:
            wire.read_frame(5)
    assert 1.1 <= time.monotonic() - began_s <= 3.5


def test_any_byte_counts_as_a_heart_beat(connect: Connect) -> None:
    wire = connect(headers={"heart-beat": "200,0"})
    half = wire.frame("BEGIN", {"transaction": "t", "receipt": "r"})
    until_s = time.monotonic() + 1.8
    while time.monotonic() < until_s:
        wire.send_raw(b"\n")
        time.sleep(0.15)
    for start in range(0, len(half), 6):
        wire.send_raw(half[start : start + 6])
        time.sleep(0.15)
    assert wire.read("RECEIPT")["receipt-id"] == "r"


def test_client_that_promises_none_may_be_silent(connect: Connect) -> None:
    wire = connect(headers={"heart-beat": "0,0"})
    time.sleep(0.8)
    wire.fence()
