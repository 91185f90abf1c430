"""The kinds of queues, by name, with the settings that make them: on the disk and in memory."""

from typing import Any

from tests.core.keyed import KEY

KINDS: dict[str, dict[str, Any]] = {
    "durable": {},
    "memory": {"persistent": False},
    "priorities": {"max_priority": 5},
    "priorities-memory": {"max_priority": 5, "persistent": False},
    "keys": {"partition_key": KEY},
    "keys-memory": {"partition_key": KEY, "persistent": False},
}
