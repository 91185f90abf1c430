"""The text exposition format: every line well-formed, labels escaped, a metric's samples together."""

import re
from typing import Any

from radiator.cli.prometheus import exposition

QUEUE: dict[str, Any] = {"persistent": True, "messages": 3, "accepted": 2**53 + 1, "blocked": 0, "adds_up": True}
ANSWER: dict[str, Any] = {
    "ok": True, "version": "0.1.0", "store_id": "abc", "boot": 7, "uptime_s": 1.5, "connections": 2, "batches": 9,
    "store": {"used_bytes": 4096, "map_size": 2**36},
    "counters": {"replies_dropped": 4, "odd name!": 1},
    "queues": {"a": QUEUE, 'we"ird\\na\nme': QUEUE | {"adds_up": False}},
    "fanouts": {"f": {"children": ["a"], "accepted": 5}},
    "topics": {"t": {"subscribers": 1}},
    "peers": {
        "b": {"state": "up", "in_doubt": 3, "lag_ms": 7, "handed_over": 9},
        "c": {"state": "down", "outbox": 5, "outbox_max_bytes": None, "outbox_dropped": 8},
    },
}  # fmt: skip

# name, labels, value: https://prometheus.io/docs/instrumenting/exposition_formats/
_SAMPLE = re.compile(r'[a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-z_]+="(\\[\\"n]|[^"\\\n])*",?)*\})? [0-9.e+-]+')
_TYPE = re.compile(r"# TYPE [a-zA-Z_:][a-zA-Z0-9_:]* (gauge|counter)")


def test_exposition_is_well_formed() -> None:
    text = exposition(ANSWER)
    assert text.endswith("\n")
    for line in text.splitlines():
        assert (_TYPE if line.startswith("#") else _SAMPLE).fullmatch(line), line


def test_exposition_names_each_metric_once() -> None:
    types = [line.split()[2] for line in exposition(ANSWER).splitlines() if line.startswith("#")]
    assert len(types) == len(set(types))
    family = None
    for line in exposition(ANSWER).splitlines():
        if line.startswith("#"):
            family = line.split()[2]
        else:
            assert re.split(r"[{ ]", line)[0] == family


def test_exposition_tells_the_numbers() -> None:
    lines = exposition(ANSWER).splitlines()
    for wanted in (
        'radiator_info{version="0.1.0",store_id="abc"} 1',
        "radiator_uptime_seconds 1.5",
        "radiator_store_map_size_bytes 68719476736",
        "radiator_batches_total 9",
        "radiator_replies_dropped_total 4",
        "radiator_odd_name__total 1",
        'radiator_queue_messages{queue="a"} 3',
        'radiator_queue_accepted_total{queue="a"} 9007199254740993',
        'radiator_queue_adds_up{queue="a"} 1',
        'radiator_queue_adds_up{queue="we\\"ird\\\\na\\nme"} 0',
        'radiator_fanout_accepted_total{fanout="f"} 5',
        'radiator_topic_subscribers{topic="t"} 1',
    ):
        assert wanted in lines


def test_exposition_leaves_out_what_the_broker_did_not_say() -> None:
    assert exposition({"ok": True, "version": "9", "store_id": "x"}) == (
        '# TYPE radiator_info gauge\nradiator_info{version="9",store_id="x"} 1\n'
    )


def test_exposition_tells_of_each_peer() -> None:
    lines = exposition(ANSWER).splitlines()
    assert 'radiator_peer_up{peer="b"} 1' in lines and 'radiator_peer_up{peer="c"} 0' in lines
    assert 'radiator_peer_in_doubt{peer="b"} 3' in lines and 'radiator_peer_handed_over_total{peer="b"} 9' in lines
    assert 'radiator_peer_outbox{peer="c"} 5' in lines and 'radiator_peer_outbox_dropped_total{peer="c"} 8' in lines
    assert not any(line.startswith("radiator_peer_outbox_max_bytes") for line in lines)
