"""The deaths of a dead letter that came by an exchange, as headers that RabbitMQ's clients know."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from radiator.model.headers import X_DEATH

NAME = X_DEATH.name.decode()


def death_headers(headers: Mapping[str, str]) -> dict[str, Any]:
    """`x-death`, the newest death first, and `x-first-death-reason` and the like. headers: of the MESSAGE; nothing if
    it has no such header, or one that no broker writes.
    """
    try:
        deaths = [_death(row) for row in json.loads(headers.get(NAME, "[]"))]
        newest, oldest = deaths[0], deaths[-1]
    except (LookupError, TypeError, ValueError, OverflowError, OSError, RecursionError):
        return {}
    found: dict[str, Any] = {NAME: deaths}
    for kind, death in (("first", oldest), ("last", newest)):
        for name in ("reason", "queue", "exchange"):
            found[f"x-{kind}-death-{name}"] = death[name]
    return found


def _death(row: Any) -> dict[str, Any]:
    return {
        "count": int(row["count"]),
        "reason": str(row["reason"]),
        "queue": str(row["queue"]),
        # py-amqp gives it without a time zone
        "time": datetime.fromtimestamp(row["time"], UTC).replace(tzinfo=None),
        "exchange": str(row["exchange"]),
        "routing-keys": [str(key) for key in row["routing-keys"]],
    }
