"""What Prometheus is given: every metric says what it is, and the format is kept to the letter."""

import json
from typing import Any

import pytest

from radiator.core import stats
from radiator.model.errors import Refusal
from radiator.model.limits import ANSWER_ROWS, MATCH_STEPS, METRICS_USERS, METRICS_WORDS, Limits
from radiator.model.numbers import BrokerNumbers
from radiator.protocols.administration import JSON
from radiator.protocols.prometheus.exposition import Selection, exposition, pieces
from radiator.protocols.prometheus.metrics import metrics
from tests.core.node import Node
from tests.core.words import send
from tests.protocols.prometheus.reading import read

QUEUE: dict[str, Any] = {
    "persistent": True, "messages": 3, "accepted": 2**53 + 1, "blocked": 0, "adds_up": True, "oldest_ms": 1500,
    "unacked": 2, "max_messages": None, "max_bytes": 2**26,
}  # fmt: skip
ANSWER: dict[str, Any] = {
    "ok": True, "version": "0.1.0", "store_id": "abc", "boot": 7, "uptime_s": 1.5, "connections": 2, "batches": 9,
    "half_open": 1, "limits": {"max_connections": 20000},
    "store": {"used_bytes": 4096, "map_size": 2**36, "checked_percent": 50, "reusable_bytes": 8192,
        "wal_bytes": 2048, "wal_kept_bytes": 1024,
    },
    "commit_latency": {"buckets_ms": [0.5, 1, 10000], "counts": [5, 0, 2, 1], "sum_ms": 12345.5},
    "counters": {"replies_dropped": 4, "odd name!": 1},
    "queues": {"a": QUEUE, 'we"ird\\na\nme': QUEUE | {"adds_up": False, "oldest_ms": None}},
    "fanouts": {"f": {"children": ["a"], "accepted": 5}},
    "topics": {"t": {"subscribers": 1}},
    "logs": {"l": {"records": 3, "unread": {"g": 2}}},
    "users": {"ann": {"connections": 3, "max_connections": 7, "stored_bytes": 9, "max_stored_bytes": None}},
    "peers": {
        "b": {"state": "up", "in_doubt": 3, "lag_ms": 7, "handed_over": 9},
        "c": {"state": "down", "outbox": 5, "outbox_max_bytes": None, "outbox_dropped": 8},
    },
}  # fmt: skip


def test_exposition_is_well_formed() -> None:
    families = read(exposition(ANSWER))
    assert families["radiator_queue_messages"][2] == {("", 'queue="a"'): 3, ("", r'queue="we\"ird\\na\nme"'): 3}


@pytest.mark.parametrize(
    "text",
    [
        "radiator_a 1\n",
        "# TYPE radiator_a gauge\nradiator_a 1\n",
        "# HELP radiator_a A.\n# TYPE radiator_a gauge\nradiator_a 1",
        "# HELP radiator_a A.\n# TYPE radiator_a gauge\nradiator_b 1\n",
        "# HELP radiator_a A.\n# TYPE radiator_a gauge\nradiator_a 1\nradiator_a 2\n",
        "# HELP radiator_a A.\n# TYPE radiator_a counter\nradiator_a 1\n",
        "# HELP radiator_a_ms A.\n# TYPE radiator_a_ms gauge\nradiator_a_ms 1\n",
        '# HELP radiator_a A.\n# TYPE radiator_a gauge\nradiator_a{b="c"d"} 1\n',
        "# HELP radiator_a A.\n# TYPE radiator_a gauge\nradiator_a None\n",
        "# HELP radiator_a A.\n# TYPE radiator_a histogram\n"
        'radiator_a_bucket{le="1"} 1\nradiator_a_sum 1\nradiator_a_count 1\n',
        "# HELP radiator_a A.\n# TYPE radiator_a gauge\n",
    ],
)
def test_reading_finds_what_is_malformed(text: str) -> None:
    with pytest.raises((AssertionError, IndexError)):
        read(text)


def test_exposition_tells_the_numbers() -> None:
    lines = exposition(ANSWER).splitlines()
    for wanted in (
        'radiator_info{version="0.1.0",store_id="abc"} 1',
        "radiator_uptime_seconds 1.5",
        "radiator_half_open_connections 1",
        "radiator_connections_max 20000",
        "radiator_store_map_size_bytes 68719476736",
        "radiator_store_reusable_bytes 8192",
        "radiator_wal_bytes 2048",
        "radiator_wal_kept_bytes 1024",
        "radiator_store_checked_ratio 0.5",
        "radiator_batches_total 9",
        "radiator_replies_dropped_total 4",
        "radiator_odd_name__total 1",
        'radiator_queue_messages{queue="a"} 3',
        'radiator_queue_unacked{queue="a"} 2',
        'radiator_queue_oldest_ready_seconds{queue="a"} 1.5',
        'radiator_queue_max_bytes{queue="a"} 67108864',
        'radiator_queue_accepted_total{queue="a"} 9007199254740993',
        'radiator_queue_adds_up{queue="a"} 1',
        'radiator_queue_adds_up{queue="we\\"ird\\\\na\\nme"} 0',
        'radiator_fanout_accepted_total{fanout="f"} 5',
        'radiator_log_unread{log="l",group="g"} 2',
        'radiator_topic_subscribers{topic="t"} 1',
        'radiator_user_connections{user="ann"} 3',
        'radiator_user_connections_max{user="ann"} 7',
        'radiator_user_stored_bytes{user="ann"} 9',
        'radiator_peer_up{peer="b"} 1',
        'radiator_peer_up{peer="c"} 0',
        'radiator_peer_in_doubt{peer="b"} 3',
        'radiator_peer_lag_seconds{peer="b"} 0.007',
        'radiator_peer_handed_over_total{peer="b"} 9',
        'radiator_peer_outbox{peer="c"} 5',
        'radiator_peer_outbox_dropped_total{peer="c"} 8',
    ):
        assert wanted in lines
    for missing in (
        "radiator_queue_max_messages",
        "radiator_peer_outbox_max_bytes",
        "radiator_user_stored_max_bytes",
        "radiator_delivery_latency",
    ):
        assert not any(missing in line for line in lines)


def test_histogram_is_cumulative_and_in_seconds() -> None:
    assert read(exposition(ANSWER))["radiator_commit_latency_seconds"][2] == {
        ("_bucket", 'le="0.0005"'): 5,
        ("_bucket", 'le="0.001"'): 5,
        ("_bucket", 'le="10"'): 7,
        ("_bucket", 'le="+Inf"'): 8,
        ("_sum", ""): 12.3455,
        ("_count", ""): 8,
    }


def test_exposition_leaves_out_what_the_broker_did_not_say() -> None:
    assert exposition({"ok": True, "version": "9", "store_id": "x"}) == (
        "# HELP radiator_info 1, with the broker's version and the id of its store.\n"
        '# TYPE radiator_info gauge\nradiator_info{version="9",store_id="x"} 1\n'
    )


def test_every_metric_is_of_the_list() -> None:
    known = {metric.name: (metric.kind, metric.help) for metric in metrics()}
    for name, (kind, reported, _) in read(exposition(ANSWER)).items():
        if name != "radiator_odd_name__total":
            assert known[name] == (kind, reported)


@pytest.mark.parametrize(("count", "shown"), [(METRICS_USERS, METRICS_USERS), (METRICS_USERS + 1, METRICS_USERS)])
def test_of_many_users_those_with_most_connections_are_shown(count: int, shown: int) -> None:
    users = {f"u{number}": {"connections": number} for number in range(count)}
    samples = read(exposition({"users": users}))["radiator_user_connections"][2]
    assert len(samples) == shown and samples["", f'user="u{count - 1}"'] == count - 1


# ---- of the broker's records, piece by piece ------------------------------------------------------------------------


def numbers(count: int = 100) -> tuple[BrokerNumbers, dict[str, Any]]:
    """Of one broker: as the core gives them, and as the JSON object that they become."""
    node = Node(limits=Limits(max_destinations=40_000))
    node.open(1)
    for number in range(count):
        node.broker.destinations.queues.get(f"orders.q{number:03}")
    node.say(send(1, "/queue/orders.q001", b"x", receipt=b"1"), send(1, "/topic/t", b"x"))
    made = b"".join(piece.encode() for piece in JSON.pieces(stats.of(node.broker.parts)))
    return stats.of(node.broker.parts), json.loads(made)


def test_the_core_and_the_json_object_give_the_same_text() -> None:
    of_core, of_json = numbers()
    assert "".join(pieces(of_core)) == exposition(of_json)
    assert 'radiator_queue_messages{queue="orders.q001"} 1\n' in exposition(of_json)


def test_rows_come_some_at_a_time_and_turns_end_between_them() -> None:
    of_core, _ = numbers(1000)
    found = [*pieces(of_core)]
    assert max(piece.count("\n") for piece in found if "_bucket" not in piece) <= ANSWER_ROWS
    assert found.count("") >= 1000 // ANSWER_ROWS
    read("".join(found))


def test_sections_are_selected() -> None:
    of_core, _ = numbers()
    families = read("".join(pieces(of_core, Selection(("broker",)))))
    assert "radiator_batches_total" in families and not any("_queue_" in name for name in families)
    of_core, _ = numbers()
    families = read("".join(pieces(of_core, Selection(("queues",)))))
    assert {name.split("_")[1] for name in families} == {"queue"}


@pytest.mark.parametrize(
    ("patterns", "count"),
    [
        (("orders.q001",), 1),
        (("orders.q001", "orders.q002"), 2),
        (("orders.*",), 100),
        (("#",), 100),
        (("*",), 0),
        (("orders.q0*",), 0),
        (("*.q007", "orders.#"), 100),
    ],
)
def test_destinations_are_selected_by_patterns_of_names(patterns: tuple[str, ...], count: int) -> None:
    of_core, _ = numbers()
    text = "".join(pieces(of_core, Selection(names=patterns)))
    found = read(text) if count else {}
    assert len(found.get("radiator_queue_messages", ("", "", {}))[2]) == count
    assert "radiator_batches_total 1\n" in text, "what has no name of a destination is there all the same"


def test_nodes_and_users_are_not_selected_by_names() -> None:
    families = read("".join(pieces(ANSWER, Selection(names=("nothing",)))))
    assert {"radiator_user_connections", "radiator_peer_up"} <= families.keys()
    assert not any(name.startswith(("radiator_queue", "radiator_topic_sub")) for name in families)


def test_patterns_that_cost_much_are_compared_with_few_names_in_a_turn() -> None:
    name = ".".join("a" * 128)
    things = {"queues": {f"{name[:-3]}{number:03}": QUEUE for number in range(100)}}
    costly = Selection(("queues",), (".".join("#" for _ in range(METRICS_WORDS)),))
    assert [*pieces(things, costly)].count("") >= 100 * 127 * METRICS_WORDS // (MATCH_STEPS + 127 * METRICS_WORDS)


def test_what_is_too_long_for_any_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = len("".join(pieces(numbers()[0], Selection(("queues",)))))
    heads = sum(len(line) + 1 for line in exposition(numbers()[1]).splitlines() if line.startswith("#"))
    monkeypatch.setattr("radiator.protocols.prometheus.exposition.ANSWER_MAX_BYTES", whole)
    assert "".join(pieces(numbers()[0], Selection(("queues",))))
    monkeypatch.setattr("radiator.protocols.prometheus.exposition.ANSWER_MAX_BYTES", whole - heads - 1)
    with pytest.raises(Refusal, match="The metrics of queues pass"):
        "".join(pieces(numbers()[0], Selection(("queues",))))
