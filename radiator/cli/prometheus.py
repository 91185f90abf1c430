"""The answer to `stats` in Prometheus's text exposition format, version 0.0.4."""

import re
from collections.abc import Iterator
from typing import Any

_QUEUE_GAUGES = (
    "messages", "bytes", "ready", "unacked", "delayed", "in_doubt", "set_aside", "checked_out", "storing",
    "consumers", "stored", "stored_bytes", "damaged", "blocked", "adds_up",
)  # fmt: skip
_LEFT = ("accepted", "acked", "expired", "dropped", "purged", "dead_lettered")
_QUEUE_TOTALS = (*(name + ending for name in _LEFT for ending in ("", "_bytes")), "redelivered")
_PEER_GAUGES = ("in_doubt", "outbox", "outbox_bytes", "outbox_max_bytes", "outbox_blocked", "copies_kept", "lag_ms")
_PEER_TOTALS = ("handed_over", "taken_in", "outbox_dropped")
_BROKER_GAUGES = {
    "boot": "boot",
    "uptime_s": "uptime_seconds",
    "clock_ahead_s": "clock_ahead_seconds",
    "connections": "connections",
    "subscriptions": "subscriptions",
    "transactions": "transactions",
    "prepared": "prepared",
    "parked": "parked",
    "memory_bytes": "memory_bytes",
}
_STORE_GAUGES = {
    "used_bytes": "store_used_bytes",
    "map_size": "store_map_size_bytes",
    "high_water_bytes": "store_high_water_bytes",
    "disk_free_bytes": "disk_free_bytes",
    "disk_free_min": "disk_free_min_bytes",
    "checked_percent": "store_checked_percent",
}

Sample = tuple[dict[str, str], int | float]


def exposition(answer: dict[str, Any]) -> str:
    """The whole text. Names (of queues, logs, ...) are labels; the samples of a metric stand together."""
    return "".join(_family(name, kind, samples) for name, kind, samples in _families(answer) if samples)


def _families(answer: dict[str, Any]) -> Iterator[tuple[str, str, list[Sample]]]:
    info = {name: str(answer.get(name, "")) for name in ("version", "store_id")}
    yield "radiator_info", "gauge", [(info, 1)]
    for names, values in ((_BROKER_GAUGES, answer), (_STORE_GAUGES, answer.get("store", {}))):
        for name, metric in names.items():
            yield f"radiator_{metric}", "gauge", [({}, values[name])] if name in values else []
    yield "radiator_batches_total", "counter", [({}, answer["batches"])] if "batches" in answer else []
    for name, value in sorted(answer.get("counters", {}).items()):
        yield f"radiator_{_metric(name)}_total", "counter", [({}, value)]
    queues = answer.get("queues", {})
    for name in _QUEUE_GAUGES:
        yield f"radiator_queue_{name}", "gauge", _labelled("queue", queues, name)
    for name in _QUEUE_TOTALS:
        yield f"radiator_queue_{name}_total", "counter", _labelled("queue", queues, name)
    exchanges = answer.get("exchanges", {})
    for name in ("accepted", "unrouted"):
        yield f"radiator_exchange_{name}_total", "counter", _labelled("exchange", exchanges, name)
    yield "radiator_exchange_bindings", "gauge", _labelled("exchange", exchanges, "bindings")
    logs = answer.get("logs", {})
    yield "radiator_log_accepted_total", "counter", _labelled("log", logs, "accepted")
    for name in ("records", "bytes", "readers"):
        yield f"radiator_log_{name}", "gauge", _labelled("log", logs, name)
    unread = [
        ({"log": log, "group": group}, count)
        for log, one in sorted(logs.items())
        for group, count in sorted(one.get("unread", {}).items())
    ]
    yield "radiator_log_unread", "gauge", unread
    yield "radiator_fanout_accepted_total", "counter", _labelled("fanout", answer.get("fanouts", {}), "accepted")
    peers = answer.get("peers", {})
    yield "radiator_peer_up", "gauge", [({"peer": name}, peers[name]["state"] == "up") for name in sorted(peers)]
    for name in _PEER_GAUGES:
        yield f"radiator_peer_{name}", "gauge", _labelled("peer", peers, name)
    for name in _PEER_TOTALS:
        yield f"radiator_peer_{name}_total", "counter", _labelled("peer", peers, name)
    yield "radiator_topic_subscribers", "gauge", _labelled("topic", answer.get("topics", {}), "subscribers")


def _labelled(label: str, things: dict[str, Any], field: str) -> list[Sample]:
    return [({label: name}, thing[field]) for name, thing in sorted(things.items()) if thing.get(field) is not None]


def _family(name: str, kind: str, samples: list[Sample]) -> str:
    lines = [f"# TYPE {name} {kind}"]
    for labels, value in samples:
        inside = ",".join(f'{label}="{_label_value(text)}"' for label, text in labels.items())
        number = repr(value) if isinstance(value, float) else str(int(value))  # a bool is 0 or 1
        lines.append(f"{name}{{{inside}}} {number}" if inside else f"{name} {number}")
    return "\n".join(lines) + "\n"


def _metric(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def _label_value(text: str) -> str:
    """Backslash, double quote and line feed are escaped; all else may stand as it is."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
