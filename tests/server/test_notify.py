import os
import socket
from pathlib import Path

import gevent
import pytest

from radiator.server.notify import Watchdog, notify, watchdog_s


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> socket.socket:
    """The service manager's end."""
    path = str(tmp_path / "notify")
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(path)
    manager.settimeout(2)
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    return manager


def test_notify_tells_the_manager(manager: socket.socket) -> None:
    with manager:
        notify("READY=1", os.environ)
        assert manager.recv(100) == b"READY=1"


def test_notify_reaches_an_abstract_socket() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0radiator-{os.getpid()}")
        manager.settimeout(2)
        notify("READY=1", {"NOTIFY_SOCKET": f"@radiator-{os.getpid()}"})
        assert manager.recv(100) == b"READY=1"


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "/no/such/socket"}])
def test_notify_without_a_manager_does_nothing(environment: dict[str, str]) -> None:
    notify("READY=1", environment)


@pytest.mark.parametrize(
    "environment, seconds",
    [
        ({}, 0),
        ({"WATCHDOG_USEC": "30000000"}, 30),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": str(os.getpid())}, 0.5),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, 0),
        ({"WATCHDOG_USEC": "never"}, 0),
    ],
)
def test_watchdog_s_is_what_the_manager_wants_of_us(environment: dict[str, str], seconds: float) -> None:
    assert watchdog_s(environment) == seconds


@pytest.mark.parametrize("stuck", [0, 1])
def test_watchdog_pings_only_while_every_sign_changes(manager: socket.socket, stuck: int) -> None:
    signs = [1, 1]
    with manager:
        watchdog = Watchdog(gevent.get_hub().loop, 0.08, lambda: (signs[0], signs[1]))
        signs[:] = [2, 2]
        gevent.sleep(0.03)
        assert manager.recv(100) == b"WATCHDOG=1"
        signs[1 - stuck] += 1
        manager.setblocking(False)
        gevent.sleep(0.1)
        with pytest.raises(BlockingIOError):
            manager.recv(100)
        signs[stuck] += 1
        gevent.sleep(0.05)
        assert manager.recv(100) == b"WATCHDOG=1"
        watchdog.stop()
