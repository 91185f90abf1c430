"""What must hold between values."""

from pathlib import Path

import pytest

from radiator.config import load
from radiator.errors import ConfigError

RIGHT = {
    "a loopback listener": "server.listen = ['stomp://127.0.0.1:0', 'stomp://[::1]:0', 'stomp://localhost:0']",
    "an open listener, wanted": "server.listen = ['stomp://0.0.0.0:0']\nserver.allow_anonymous = true",
    "a header as large as a frame": "limits.max_header_bytes = 1000\nlimits.max_frame_bytes = 1000",
    "four batches in the map": "server.map_size = '64MiB'\nlimits.max_batch_bytes = '16MiB'",
    "as many destinations as may be": "limits.max_destinations = 2\n[queue.a]\n[queue.'b.*']\n[topic.b]",
    "patterns apart": "[queue.'a.*']\n[queue.'b.*']",
    "patterns of which one wins": "[queue.'a.*.c']\n[queue.'a.*']\n[queue.'a.#']\n[queue.'#']\n[queue.'*']",
    "a dead letter that is declared": "[queue.a]\ndead_letter = 'b'\n[queue.b]",
    "a dead letter that a pattern matches": "[queue.a]\ndead_letter = 'b.x'\n[queue.'b.*']",
    "a dead letter that may be created": "[create]\nqueues = true\n[queue.a]\ndead_letter = 'b'",
    "a chain of dead letters": "[queue.a]\ndead_letter = 'b'\n[queue.b]\ndead_letter = 'c'\n[queue.c]",
    "a dead letter with a table of its own": "[queue.'#']\ndead_letter = 'dead'\n[queue.dead]",
    "a memory queue's dead letter": "[queue.a]\npersistent = false\ndead_letter = 'b'\n[queue.b]",
    "memory to memory": "[queue.a]\npersistent = false\ndead_letter = 'b'\n[queue.b]\npersistent = false",
    "overflow to the dead letter": "[queue.a]\noverflow = 'dead-letter'\ndead_letter = 'b'\n[queue.b]",
    "a dedup window": "[queue.a]\ndedup_window_s = 60",
    "no dedup window in memory": "[queue.a]\npersistent = false\ndedup_window_s = 0",
    "a child that is declared": "[fanout.f]\nchildren = ['a']\n[queue.a]",
    "a child that a pattern matches": "[fanout.f]\nchildren = ['a.b']\n[queue.'a.#']",
    "a child that may be created": "[create]\nqueues = true\n[fanout.f]\nchildren = ['a']",
    "a child with the name of its fanout": "[fanout.f]\nchildren = ['f']\n[queue.f]\n[topic.f]",
}

WRONG = {
    "an open listener": (
        "server.listen = ['stomp://0.0.0.0:0']",
        "server.listen has stomp://0.0.0.0:0, which other machines can reach",
    ),
    "one of two listeners": (
        "server.listen = ['stomp://[::1]:0', 'stomp://[::]:0']",
        "server.listen has stomp://[::]:0",
    ),
    "a listener by name": ("server.listen = ['stomp://broker:0']", "server.listen has stomp://broker:0"),
    "a header larger than a frame": (
        "limits.max_header_bytes = 1001\nlimits.max_frame_bytes = 1000",
        "limits.max_header_bytes is 1001; it must not be more than max_frame_bytes (1000)",
    ),
    "a batch too large for the map": (
        "server.map_size = '63MiB'\nlimits.max_batch_bytes = '16MiB'",
        "server.map_size is 63MiB, less than 4 times the largest batch (16MiB); make it at least 64MiB",
    ),
    "a frame too large for the map": (
        "server.map_size = '63MiB'\nlimits.max_frame_bytes = '16MiB'",
        "server.map_size is 63MiB, less than 4 times the largest batch (16MiB); make it at least 64MiB",
    ),
    "one destination too many": (
        "limits.max_destinations = 3\n[queue.a]\ndead_letter = 'b'\n[queue.b]\n[topic.c]\n[fanout.d]\nchildren = ['a']",
        "limits.max_destinations is 3, but the file declares 4",
    ),
    "patterns of which none wins": ("[queue.'a.*']\n[queue.'*.b']", 'queue."a.*" and "*.b" can match the same name'),
    "patterns with # of which none wins": (
        "[queue.'a.#']\n[queue.'#.b']",
        'queue."a.#" and "#.b" can match the same name',
    ),
    "overflow to no dead letter": (
        "[queue.a]\noverflow = 'dead-letter'",
        'queue.a.overflow is "dead-letter", but the queue has no dead_letter',
    ),
    "a dedup window in memory": (
        "[queue.a]\npersistent = false\ndedup_window_s = 1",
        "queue.a.dedup_window_s is 1, but the queue is not persistent",
    ),
    "a dead letter that is unknown": (
        "[queue.orders]\ndead_letter = 'order'",
        'queue.orders.dead_letter names "order", which is no queue; did you mean "orders"?',
    ),
    "a dead letter that is a topic": (
        "[create]\nqueues = true\n[queue.a]\ndead_letter = 't'\n[topic.t]",
        'queue.a.dead_letter names "t", which is a topic and no queue',
    ),
    "a dead letter in memory": (
        "[queue.a]\ndead_letter = 'b'\n[queue.b]\npersistent = false",
        'queue.a.dead_letter is "b", which is not persistent',
    ),
    "a dead letter in memory by a pattern": (
        "[queue.a]\ndead_letter = 'b.x'\n[queue.'b.*']\npersistent = false",
        'queue.a.dead_letter is "b.x", which is not persistent',
    ),
    "a queue that is its own dead letter": ("[queue.a]\ndead_letter = 'a'", 'leads to a cycle: "a" -> "a"'),
    "a cycle of two": (
        "[queue.a]\ndead_letter = 'b'\n[queue.b]\ndead_letter = 'a'",
        'leads to a cycle: "a" -> "b" -> "a"',
    ),
    "a way into a cycle": (
        "[queue.z]\ndead_letter = 'a'\n[queue.a]\ndead_letter = 'b'\n[queue.b]\ndead_letter = 'a'",
        'queue.z.dead_letter leads to a cycle: "a" -> "b" -> "a"',
    ),
    "a cycle by a pattern": (
        "[queue.'#']\ndead_letter = 'dead'",
        'queue."#".dead_letter leads to a cycle: "dead" -> "dead"',
    ),
    "a child that is unknown": (
        "[fanout.f]\nchildren = ['a']",
        'fanout.f.children names "a", which is no queue; declare [queue."a"]',
    ),
    "a child that is a fanout": (
        "[create]\nqueues = true\n[fanout.f]\nchildren = ['g']\n[fanout.g]\nchildren = ['a']",
        'fanout.f.children names "g", which is a fanout and no queue',
    ),
}


@pytest.mark.parametrize("case", RIGHT)
def test_a_rule_lets_pass(case: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(RIGHT[case])
    load(tmp_path / "config.toml")


@pytest.mark.parametrize("case", WRONG)
def test_a_rule_refuses_once(case: str, tmp_path: Path) -> None:
    text, said = WRONG[case]
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "config.toml")
    assert len(caught.value.mistakes) == 1
    assert said in caught.value.mistakes[0]


def test_a_wrong_value_is_not_reported_by_a_rule_too(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[fanout.f]\nchildren = []\n[queue.a]\ndead_letter = 3\n")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "config.toml")
    assert len(caught.value.mistakes) == 2
