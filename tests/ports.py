"""Ports that nobody else takes before a test does.

A port that the system has given (port 0) is one of those that it gives to every outgoing connection too: with several
tests at a time, somebody else may have it by the time that a broker is started there, or is started again.
"""

import socket
from random import SystemRandom

FIRST, END = 20_000, 32_000  # below what Linux gives by itself: /proc/sys/net/ipv4/ip_local_port_range


def free_ports(count: int) -> list[int]:
    """So many different ones, on which nobody listens."""
    found: set[int] = set()
    while len(found) < count:
        port = SystemRandom().randrange(FIRST, END)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.add(port)
    return list(found)


def free_port() -> int:
    """See free_ports."""
    return free_ports(1)[0]
