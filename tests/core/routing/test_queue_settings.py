"""Which settings are in force for a queue: the file's, what it was declared with, and those of the broker's own."""

import pytest

from radiator.core.routing.fanouts import Fanout
from radiator.core.routing.queue_settings import DURABLE_PREFIX, OUTBOX_PREFIX, in_force, keyed_otherwise
from radiator.model.errors import StoreError
from radiator.model.settings import CLUSTER, NODE, Declarations, QueueSettings

DECLARED = Declarations(
    queues={"own": QueueSettings(max_messages=1), "child": QueueSettings(dedup_window_s=30)},
    queue_patterns=[
        ("p.*", QueueSettings(max_messages=2)),
        ("mem.*", QueueSettings(persistent=False, max_messages=5, max_bytes=5)),
        (
            "$durable.topic.#",
            QueueSettings(
                max_messages=3,
                auto_delete=True,
                exclusive=True,
                scope=CLUSTER,
                partition_key=("/a",),
                partition_window=5,
                single_active_consumer=True,
            ),
        ),
        ("$durable.exchange.#", QueueSettings(persistent=False, max_messages=5, max_bytes=5)),
    ],
    cluster_fanouts=frozenset(["f"]),
)
FANOUTS = {"f": Fanout("f", ("own", "child"))}


def settings(name: str, text: str = "") -> QueueSettings:
    return in_force(name, text, DECLARED, FANOUTS)


def test_a_table_a_pattern_and_nothing() -> None:
    assert settings("own").max_messages == 1
    assert settings("p.x").max_messages == 2
    assert settings("other") == QueueSettings()


def test_what_it_was_declared_with_counts_over_a_pattern_and_not_over_its_own_table() -> None:
    assert settings("p.x", '{"max_messages": 9}').max_messages == 9
    assert settings("p.x", '{"max_bytes": 9}').max_messages == 2, "the rest is the pattern's"
    assert settings("own", '{"max_messages": 9}').max_messages == 1


def test_what_does_not_go_with_the_file_any_more_stops_the_start_with_what_to_do() -> None:
    with pytest.raises(StoreError, match="does not go with config.toml: .* give the queue a table of its own"):
        settings("mem.x", '{"max_messages": -1}')


def test_an_outbox_remembers_ids_as_long_as_any_child() -> None:
    assert settings(OUTBOX_PREFIX + "b") == QueueSettings(dedup_window_s=30)
    assert in_force(OUTBOX_PREFIX + "b", "", Declarations(), {}) == QueueSettings()


def test_a_durable_subscription_is_a_queue_that_stays_and_is_of_this_node() -> None:
    one = settings(DURABLE_PREFIX + "topic/a.b/s")
    assert one == QueueSettings(max_messages=3, auto_delete=False, exclusive=False, scope=NODE)
    assert settings(DURABLE_PREFIX + "exchange/x/s") == QueueSettings(), "never in memory"


@pytest.mark.parametrize(
    ("sources", "keyed_by", "count", "sentence"),
    [
        (
            ("/a",),
            (),
            1,
            'with partition_key = "/a", but 1 message of it is stored without partition_key: start without',
        ),
        (
            (),
            ("header:b",),
            2,
            'without partition_key, but 2 messages of it are stored with partition_key = "header:b"',
        ),
        (("/a", "/b"), ("/b",), 2, 'with partition_key = ["/a", "/b"], but 2 messages of it are stored with'),
    ],
)
def test_other_keys_than_those_stored_by_stop_a_start_with_the_way_out(
    sources: tuple[str, ...], keyed_by: tuple[str, ...], count: int, sentence: str
) -> None:
    text = str(keyed_otherwise("q", sources, keyed_by, count))
    assert text.startswith(f"/queue/q is declared {sentence}")
    assert text.endswith(" and consume, move or purge what it holds first.")
