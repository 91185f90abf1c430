"""How much of the bounds that the server itself keeps is in use, by their names in core/bounds.py."""

from radiator.model.limits import (
    CHECKS_WAITING_MAX,
    COOKIES_MAX,
    INBOX_MAX_BYTES,
    LOG_LINES_MAX,
    OPERATORS_CONNECTIONS,
    TUNNELS_BYTES,
)
from radiator.server.connections import Connections
from radiator.server.inbox import Inbox
from radiator.server.links import LinkRegistry
from radiator.server.log import EventLog
from radiator.server.places import Places

Uses = dict[str, tuple[int | None, int | None]]


def uses(
    clients: Places, operators: Places, links: LinkRegistry, connections: Connections, inbox: Inbox, log: EventLog
) -> Uses:
    """Returns each bound in force, and how much of it is in use; None: there is no bound, or its use is not known."""
    return {
        "max_connections": (clients.connections_max, clients.connected),
        "max_half_open": (clients.half_open_max, clients.half_open),
        "max_half_open_per_address": (clients.half_open_each, clients.half_open_most),
        "operators_connections": (OPERATORS_CONNECTIONS, operators.connected),
        "link_sockets": (links.sockets_max, links.sockets) if links.sockets_max else (None, None),
        "login_checks": (CHECKS_WAITING_MAX, connections.checks_waiting),
        "browser_sessions": (COOKIES_MAX, connections.browser_sessions),
        "inbox_bytes": (INBOX_MAX_BYTES, inbox.size_bytes),
        "tunnels_bytes": (TUNNELS_BYTES, connections.tunnels_bytes),
        "log_lines": (LOG_LINES_MAX, log.waiting),
    }
