"""Who waits for room is not read from: that its connection was reset is noticed all the same."""

import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.wire import Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess

CONFIG = f"""{SERVER}
{EVERYTHING_MAY_BE_CREATED}
[limits]
block_timeout_s = 60
tcp_timeout_s = 8
[queue."full"]
max_messages = 1
"""
NOTICED_MAX_S = 10  # some 2 s on a quiet machine; without the look it is block_timeout_s


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, CONFIG) as running:
        yield running


def test_what_a_reset_connection_had_unacked_comes_back_though_it_waits_for_room(broker: BrokerProcess) -> None:
    with Wire((broker.host, broker.port)) as other, Wire((broker.host, broker.port)) as lost:
        other.connect()
        lost.connect()
        other.send("/queue/full", "fills it")
        other.send("/queue/work", "work")
        lost.subscribe("/queue/work")
        assert lost.message().body == b"work"
        lost.send_frame("SEND", {"destination": "/queue/full"}, b"waits")
        deadline_s = time.monotonic() + NOTICED_MAX_S
        time.sleep(0.5)
        lost.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        lost.socket.close()
        other.subscribe("/queue/work")
        again = other.message(deadline_s - time.monotonic())
        assert again.body == b"work" and again["redelivered"] == "true"
