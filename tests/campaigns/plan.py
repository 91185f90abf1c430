"""All campaigns, in the order of the table."""

from importlib import import_module

from tests.campaigns.campaign import Campaign

MODULES: tuple[str, ...] = (
    "crash_points",
    "power_states",
    "web_crashes",
    "amqp_crashes",
    "power_cuts",
    "kill",
    "leases",
    "io_errors",
    "disk_full",
    "memory",
    "bounds",
    "parser",
    "headers",
    "requests",
    "amqp_sessions",
    "amqp_bytes",
    "model",
    "simulation",
    "lateness",
    "groups",
    "journal",
    "stories",
    "workers",
    "consumers",
    "shares",
    "prepared",
    "rights",
    "user_rights",
    "user_bounds",
    "logins",
    "jwt",
    "cluster",
    "interleavings",
    "latency",
    "models",
    "switches",
    "command_kills",
    "signals",
    "damage",
    "long_stores",
    "operations",
    "write_ahead_log",
    "full_maps",
    "strange",
    "formats",
    "growth",
    "celery",
    "strangers",
    "slow_clients",
    "floods",
    "web_floods",
    "answers",
    "bodies",
    "bombs",
    "lies",
    "injection",
    "slow_subscribers",
    "patterns",
    "destinations",
    "holders",
    "heart_beats",
    "theft",
    "owned_queues",
    "names",
    "logs",
    "file_modes",
    "unix_sockets",
    "tls",
    "tls_fuzz",
    "handshakes",
    "events",
    "http_fuzz",
    "websocket",
    "web_strangers",
    "imports",
    "links",
    "carry",
    "hostile_peer",
    "node_crash_points",
    "nodes",
)
"""Files of this folder; each has `CAMPAIGNS`, a tuple."""


def campaigns() -> list[Campaign]:
    return [one for module in MODULES for one in import_module(f"tests.campaigns.{module}").CAMPAIGNS]


def by_name(name: str) -> Campaign:
    """By its name, or its number (T4). LookupError with the names there are."""
    for module in sorted(MODULES, key=lambda module: module != name.replace("-", "_")):  # most are called so
        for one in import_module(f"tests.campaigns.{module}").CAMPAIGNS:
            if name.lower() in (one.name, one.number.lower()):
                return one
    raise LookupError(f"There is no campaign {name!r}; there are {', '.join(one.name for one in campaigns())}.")
