"""systemd's notification protocol (sd_notify(3)): READY, STOPPING, and a watchdog that depends on two signs of life."""

import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any


def notify(state: str, environment: Mapping[str, str] = os.environ) -> None:
    """Sends the state to the service manager, if there is one. Never waits: what cannot be sent is dropped."""
    path = environment.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto(state.encode(), address)


def watchdog_s(environment: Mapping[str, str] = os.environ) -> float:
    """Returns the interval in which WATCHDOG=1 is expected, in seconds; 0: there is no watchdog."""
    usec, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not usec.isdecimal() or (pid and pid != str(os.getpid())):
        return 0.0
    return int(usec) / 1e6


class Watchdog:
    """Pings the service manager as long as all signs of life change: if the dispatcher or the committer is stuck, it
    stops.
    """

    def __init__(self, loop: Any, within_s: float, signs: Callable[[], tuple[int, ...]]) -> None:
        self._signs = signs
        self._last = signs()
        self._timer = loop.timer(within_s / 4, within_s / 4)
        self._timer.start(self._look)

    def _look(self) -> None:
        signs = self._signs()
        if all(sign != last for sign, last in zip(signs, self._last, strict=True)):
            self._last = signs
            notify("WATCHDOG=1")

    def stop(self) -> None:
        """Stops the pings."""
        self._timer.stop()
