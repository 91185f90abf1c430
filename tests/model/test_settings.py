"""Which settings are in force for a queue, and what first use may create."""

from radiator.model.settings import BLOCK, DEAD_LETTER, DROP_OLDEST, REJECT, Declarations, QueueSettings

OWN, BETTER, WORSE = (QueueSettings(max_messages=number) for number in (1, 2, 3))
DECLARED = Declarations(queues={"a.b": OWN}, queue_patterns=[("a.*", BETTER), ("#", WORSE)])


def test_an_exact_name_wins() -> None:
    assert DECLARED.queue_settings("a.b") is OWN


def test_the_first_pattern_that_matches_wins_and_only_its_settings_count() -> None:
    assert DECLARED.queue_settings("a.c") is BETTER
    assert DECLARED.queue_settings("a.c.d") is WORSE


def test_a_queue_that_nothing_declares_has_the_defaults() -> None:
    assert Declarations(queues={"a": OWN}).queue_settings("b") == QueueSettings()


def test_a_queue_keeps_nothing_where_its_bound_is_0_and_the_oldest_makes_way() -> None:
    for overflow, makes_way in ((BLOCK, False), (REJECT, False), (DROP_OLDEST, True), (DEAD_LETTER, True)):
        for bound in ("max_messages", "max_bytes"):
            assert QueueSettings(**{bound: 0}, overflow=overflow).keeps_nothing is makes_way
            assert not QueueSettings(**{bound: 1}, overflow=overflow).keeps_nothing
        assert not QueueSettings(overflow=overflow).keeps_nothing


def test_first_use_creates_what_a_pattern_or_create_allows() -> None:
    assert Declarations(create_queues=True).may_create_queue("a")
    assert Declarations(queue_patterns=[("a.*", OWN)]).may_create_queue("a.b")
    assert not Declarations(queue_patterns=[("a.*", OWN)]).may_create_queue("b")
    assert not Declarations(create_topics=True).may_create_queue("a")


def test_defaults_are_those_of_the_documentation() -> None:
    assert QueueSettings() == QueueSettings(
        persistent=True,
        max_messages=None,
        max_bytes=None,
        overflow="block",
        dead_letter=None,
        max_redeliveries=16,
        message_ttl_ms=None,
        ack_timeout_s=None,
        dedup_window_s=0,
        exclusive=False,
        auto_delete=False,
        single_active_consumer=False,
        drop_after_redeliveries=None,
        bounds_count="stored",
    )
