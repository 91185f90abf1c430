"""How much of the server's bounds is in use, on real parts of the server."""

import os
from collections.abc import Iterator
from itertools import islice

import pytest

from radiator.core.bounds import BOUNDS
from radiator.model.limits import (
    CHECKS_WAITING_MAX,
    COOKIES_MAX,
    INBOX_MAX_BYTES,
    LOG_LINES_MAX,
    LOOKED_AT_ONCE,
    OPERATORS_CONNECTIONS,
    TUNNELS_BYTES,
)
from radiator.server.log import EventLog
from radiator.server.uses import Uses, uses
from tests.server.shell import Shell
from tests.server.test_connections import connected


@pytest.fixture
def shell() -> Iterator[Shell]:
    made = Shell(connections=4, half_open=3)
    yield made
    made.close()


def of(shell: Shell) -> Uses:
    links = shell.connections._shared.links
    with open(os.devnull, "wb") as file:
        log = EventLog(file.fileno())
        found = uses(shell.clients, shell.operators, links, shell.connections, shell.inbox, log)
        log.close()
    return found


def test_all_of_the_servers_bounds_have_a_row_and_stand_first() -> None:
    made = Shell()
    assert [*of(made)] == [one.name for one in islice(BOUNDS, len(of(made)))]
    made.close()


def test_what_is_in_use_is_counted(shell: Shell) -> None:
    assert of(shell) == {
        "max_connections": (4, 0),
        "max_half_open": (3, 0),
        "max_half_open_per_address": (3, 0),
        "operators_connections": (OPERATORS_CONNECTIONS, 0),
        "link_sockets": (None, None),
        "login_checks": (CHECKS_WAITING_MAX, 0),
        "browser_sessions": (COOKIES_MAX, 0),
        "inbox_bytes": (INBOX_MAX_BYTES, 0),
        "tunnels_bytes": (TUNNELS_BYTES, 0),
        "log_lines": (LOG_LINES_MAX, 0),
    }
    connected(shell)
    connected(shell)
    connected(shell, is_operator=True)
    for network in ("a", "a", "b"):
        shell.client(network=network)
    found = of(shell)
    assert found["max_connections"] == (4, 2) and found["operators_connections"] == (OPERATORS_CONNECTIONS, 1)
    assert found["max_half_open"] == (3, 3) and found["max_half_open_per_address"] == (3, 2)
    assert found["inbox_bytes"][1]
    shell.heard()
    assert of(shell)["inbox_bytes"][1] == 0


def test_of_very_many_networks_nobody_looks_for_the_fullest(shell: Shell) -> None:
    for number in range(LOOKED_AT_ONCE):
        shell.clients.enter(number, str(number))
    assert of(shell)["max_half_open_per_address"] == (3, 1)
    shell.clients.enter(LOOKED_AT_ONCE, "one more")
    assert of(shell)["max_half_open_per_address"] == (3, None)


def test_a_reload_changes_the_bounds(shell: Shell) -> None:
    shell.clients.bound(1, 2, 1)
    assert [limit for limit, _ in islice(of(shell).values(), 3)] == [1, 2, 1]
