"""What an idle WebSocket may take of memory, measured as `python -m benchmarks.websocket` does."""

import itertools
from pathlib import Path

import pytest

from benchmarks.websocket import CONFIG, Load, message
from tests.broker_process import BrokerProcess

IDLE_MAX_KIB = 20.0
HOLDING = """
import sys
from radiator.protocols.websocket import session
made = session.WebSocketSession.__init__
kept = []
def holding(self, *arguments):
    made(self, *arguments)
    kept.append(bytes(20_000))
session.WebSocketSession.__init__ = holding
from radiator.tools.cli import main
sys.exit(main())
"""


def idle_kib(directory: Path, program: tuple[str, ...]) -> float:
    with BrokerProcess(directory, CONFIG, program) as broker:
        return Load(broker, True).idle_kib(400)


def test_an_idle_connection_has_a_bound(tmp_path: Path) -> None:
    assert idle_kib(tmp_path, ("-m", "radiator")) < IDLE_MAX_KIB


def test_what_a_session_holds_is_seen(tmp_path: Path) -> None:
    """A negative control: 20,000 bytes of each."""
    assert idle_kib(tmp_path, ("-c", HOLDING)) > IDLE_MAX_KIB


@pytest.mark.parametrize("is_websocket", [False, True])
def test_costs_are_measured(tmp_path: Path, is_websocket: bool) -> None:
    with BrokerProcess(tmp_path, CONFIG) as broker:
        for connections, window in itertools.product((1, 3), (1, 7)):
            rate, each_us = Load(broker, is_websocket).send(connections, window, 200)
            assert rate > 0 and each_us > 0


def test_frames_are_those_of_the_rfc() -> None:
    """Section 5.7 has this one, as text."""
    assert message(b"Hello") == bytes.fromhex("828537fa213d7f9f4d5158")
