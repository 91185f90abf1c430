"""Topics: who is subscribed now, wildcards, and slow subscribers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radiator.core.connections import Connection, TopicSubscription
from radiator.core.routing.topic import Topics
from radiator.core.turn import TurnContext
from radiator.model.commands import AUTO, Read
from radiator.model.limits import MIB, TOPIC_WORDS_MAX, Limits
from radiator.model.patterns import matches
from radiator.model.settings import Declarations
from tests.core.node import Node
from tests.core.words import begin, commit, send, subscribe, unsubscribe

COST = 256  # what a message costs in an outgoing buffer beside its own bytes


def test_every_subscriber_of_this_moment_gets_the_message() -> None:
    node = Node()
    node.open(1, 2, 3)
    node.say(subscribe(1, "/topic/t"), subscribe(2, "/topic/t"), send(3, "/topic/t", b"1", b"r"))
    node.say(unsubscribe(2, "/topic/t"), subscribe(3, "/topic/t"), send(3, "/topic/t", b"2"))
    assert (node.bodies(1), node.bodies(2), node.bodies(3)) == ([b"1", b"2"], [b"1"], [b"2"])
    assert node.receipts(3) == [b"r"]
    assert node.disk.platter.messages == {}


def test_receipt_of_a_topic_send_means_handed_to_every_session() -> None:
    node = Node()
    node.open(1)
    node.say(subscribe(1, "/topic/t"))
    replies = node.broker.turn([Read(1, [send(1, "/topic/t", receipt=b"r")])], node.now_s, node.now_ms).replies
    assert [type(r).__name__ for r in replies] == ["Deliver", "Receipt"]


def test_connection_with_two_matching_subscriptions_gets_two_messages() -> None:
    node = Node()
    node.open(1)
    node.say(subscribe(1, "/topic/a.b"), subscribe(1, "/topic/a.*"), send(1, "/topic/a.b"))
    out = node.messages(1)
    assert sorted(d.subscription or b"" for d in out) == [b"/topic/a.*", b"/topic/a.b"]
    assert {d.message.destination for d in out} == {"/topic/a.b"}
    assert len({d.message_id for d in out}) == 1 and out[0].message_id.endswith(b"t")


def test_closed_subscriber_leaves_nothing_behind() -> None:
    node = Node()
    node.open(1, 2)
    for name in ("/topic/a.b", "/topic/a.*", "/topic/#", "/topic/a.#.c"):
        node.say(subscribe(1, name))
    node.close(1)
    topics = node.broker.destinations.topics
    assert not topics.subscriptions
    node.say(send(2, "/topic/a.b", receipt=b"r"))
    assert node.receipts(2) == [b"r"]


WORDS = st.sampled_from(["a", "b", "", "*", "#", "a/b"])
NAMES = st.lists(st.sampled_from(["a", "b", "", "a/b", "**", "#a"]), min_size=1, max_size=5).map(".".join)
PATTERNS = st.lists(WORDS, min_size=1, max_size=5).map(".".join)


@given(st.lists(PATTERNS, max_size=12), st.lists(NAMES, min_size=1, max_size=6), st.data())
def test_matching_agrees_with_asking_each_pattern(patterns: list[str], names: list[str], data: st.DataObject) -> None:
    topics = Topics(TurnContext("00", 1))
    connection = Connection(1, 1000)
    there = [TopicSubscription(connection, b"%d" % i, p, AUTO, True, 1000, None) for i, p in enumerate(patterns)]
    for subscription in there:
        topics.subscribe(subscription)
    for gone in data.draw(st.lists(st.sampled_from(there), unique_by=id) if there else st.just([])):
        there.remove(gone)
        topics.unsubscribe(gone)
    for name in names:
        expected = sorted(s.name for s in there if matches(s.pattern, name))
        assert sorted(s.name for s in topics.matching(name)) == expected
    for subscription in there:
        topics.unsubscribe(subscription)
    assert not topics.subscriptions


@pytest.mark.parametrize("name", ["a.*", "#", "*", "a.#.b"])
def test_wildcard_in_a_send_is_refused(name: str) -> None:
    node = Node()
    node.open(1)
    node.say(send(1, f"/topic/{name}"))
    assert node.refusal(1).code == "wildcard"


def test_wildcard_is_a_whole_word() -> None:
    node = Node()
    node.open(1)
    node.say(subscribe(1, "/topic/a*"), send(1, "/topic/a*"), send(1, "/topic/ab"))
    assert node.bodies(1) == [b"x"]


# ---- slow subscribers -----------------------------------------------------------------------------------------------


def slow(limits: Limits | None = None, **bounds: object) -> Node:
    node = Node(limits=limits)
    node.open(1, 2, 3, 4)
    node.say(subscribe(1, "/topic/t", **bounds), subscribe(2, "/topic/t"))
    node.reads_slowly.add(1)
    return node


@pytest.mark.parametrize("most", [1, 2, 5])
def test_subscriber_over_buffer_max_messages_is_closed_with_an_error(most: int) -> None:
    node = slow(buffer_max_messages=most)
    for _ in range(most):
        node.say(send(3, "/topic/t"))
    assert len(node.messages(1)) == most and not node.is_refused(1)
    node.say(send(3, "/topic/t"))
    assert node.messages(1) == [] and node.refusal(1).code == "slow-subscriber"
    assert len(node.messages(2)) == most + 1 and not node.is_refused(2)


def test_each_slow_subscriber_counts_as_one_refusal_whatever_it_subscribes_to() -> None:
    node = slow(buffer_max_messages=1)
    node.say(subscribe(1, "/topic/#", name=b"more", buffer_max_messages=1), *(send(3, "/topic/t") for _ in range(3)))
    counters = node.broker.context.counters
    assert (counters["refusals"], counters["slow_topic_subscribers"]) == (1, 1)
    assert [note.fields["code"] for note in node.notes if note.event == "refused"] == ["slow-subscriber"]
    assert node.stats()["counters"]["refusals"] == 1


@pytest.mark.parametrize("bound", ["outbox_max_bytes", "buffer_max_bytes"])
def test_subscriber_at_its_bytes_is_kept_and_one_past_is_closed(bound: str) -> None:
    size = 3 * (COST + 100)
    limits = Limits(outbox_max_bytes=size) if bound == "outbox_max_bytes" else None
    node = slow(limits, **({"buffer_max_bytes": size} if limits is None else {}))
    for _ in range(3):
        node.say(send(3, "/topic/t", bytes(100)))
    assert not node.is_refused(1)
    node.say(send(3, "/topic/t", b""))
    assert node.refusal(1).code == "slow-subscriber"


@pytest.mark.parametrize("size", [3 * MIB, MIB // 2, Limits().max_frame_bytes])
def test_burst_up_to_two_largest_frames_closes_nobody_by_default(size: int) -> None:
    node = slow()
    body = bytes(size - 30)  # of the frame, a command and a destination are not kept
    for _ in range(max(2, 2 * Limits().max_frame_bytes // (size + COST))):
        node.say(send(3, "/topic/t", body))
    assert not node.is_refused(1)
    node.say(send(3, "/topic/t", body))
    assert node.refusal(1).code == "slow-subscriber"


@pytest.mark.parametrize("bound", ["outbox_max_bytes", "buffer_max_bytes"])
def test_bound_that_somebody_set_has_no_grace(bound: str) -> None:
    size = 256 * 1024
    limits = Limits(outbox_max_bytes=size) if bound == "outbox_max_bytes" else None
    node = slow(limits, **({"buffer_max_bytes": size} if limits is None else {}))
    sent = 0
    while not node.is_refused(1) and sent < 1200:
        node.say(send(3, "/topic/t", bytes(16 * 1024)))
        sent += 1
    assert sent == size // (16 * 1024 + COST) + 1


@pytest.mark.parametrize(("asked", "is_closed"), [({}, True), ({"buffer_max_bytes": 8 * MIB}, False)])
def test_default_makes_way_while_half_of_all_memory_is_used(asked: dict[str, object], is_closed: bool) -> None:
    """Many who do not read must not take the memory of all others; what was asked for stays."""
    node = slow(Limits(max_memory_bytes=20 * MIB), **asked)
    node.turn([Read(4, [], 9 * MIB)])
    node.say(send(3, "/topic/t", bytes(3 * MIB)))
    node.wait(1)
    node.say(send(3, "/topic/t", bytes(3 * MIB)))
    assert node.is_refused(1) is is_closed


def test_smaller_of_the_two_bounds_counts() -> None:
    node = slow(Limits(outbox_max_bytes=COST + 10), buffer_max_bytes=10**9)
    node.say(send(3, "/topic/t"), send(3, "/topic/t"))
    assert node.is_refused(1)


def test_empty_buffer_takes_one_message_of_any_size() -> None:
    node = slow(buffer_max_bytes=10)
    node.say(send(3, "/topic/t", bytes(100_000)))
    assert len(node.messages(1)) == 1 and not node.is_refused(1)
    node.say(send(3, "/topic/t", b""))
    assert node.is_refused(1)


def test_fast_subscriber_is_not_closed_by_a_burst_in_one_turn() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "/topic/t", buffer_max_messages=1))
    burst = [send(2, "/topic/t", b"%d" % n, b"%d" % n) for n in range(20)]
    node.turn([Read(2, [*burst]), Read(1, [send(1, "q", b"after", b"r")])])
    assert node.bodies(1) == [b"%d" % n for n in range(20)] and not node.is_refused(1)
    assert node.receipts(2) == [b"%d" % n for n in range(20)] and node.receipts(1) == [b"r"]


def test_slow_subscriber_is_closed_by_a_burst_in_one_turn() -> None:
    node = slow(buffer_max_messages=3)
    node.turn([Read(3, [send(3, "/topic/t") for _ in range(20)])])
    assert len(node.messages(1)) == 3 and node.is_refused(1)
    assert len(node.messages(2)) == 20


def test_topic_messages_wait_for_no_window() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "q"), send(2, "q"), subscribe(1, "/topic/t", "client"))
    for _ in range(10):
        node.say(send(2, "/topic/t", b"t"))
    assert len(node.messages(1)) == 11


def test_topic_message_of_a_transaction_comes_when_its_persistent_part_is_synced() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "/topic/t"), begin(2))
    node.auto = False
    node.say(send(2, "q", transaction=b"t"), send(2, "/topic/t", transaction=b"t"), commit(2))
    node.seal()
    assert node.messages(1) == []
    node.commit()
    assert node.bodies(1) == [b"x"]


def test_topic_that_is_not_declared_is_refused_unless_created() -> None:
    node = Node(Declarations(topics=["chat.#"]))
    node.open(1, 2, 3, 4)
    node.say(subscribe(1, "/topic/chat.a"), send(1, "/topic/chat.a"), subscribe(1, "/topic/*.a"))
    assert node.bodies(1) == [b"x"]
    node.say(send(2, "/topic/other"), subscribe(3, "/topic/other.#"))
    assert node.refusal(2).code == node.refusal(3).code == "no-such-destination"


def test_order_within_a_turn_is_kept_after_a_flush() -> None:
    node = Node()
    node.open(1, 2, 3)
    node.say(subscribe(1, "/topic/t", buffer_max_messages=1))
    first = [send(2, "/topic/t", b"1"), send(2, "/topic/t", b"2"), send(2, "q", b"a")]
    node.turn([Read(2, [*first]), Read(2, [send(2, "q", b"b")]), Read(3, [send(3, "q", b"c")])])
    assert node.bodies(1) == [b"1", b"2"] and node.stored("q") == [b"a", b"b", b"c"]


def test_subscriber_that_was_too_slow_costs_the_topic_nothing_more() -> None:
    node = slow(buffer_max_messages=1)
    node.say(send(2, "/topic/t"), send(2, "/topic/t"))
    assert node.is_refused(1)
    assert [one.connection.number for one in node.broker.destinations.topics.matching("t")] == [2]


@pytest.mark.parametrize(("topic", "is_taken"), [
    (".".join("a" * TOPIC_WORDS_MAX), True),
    (".".join("a" * (TOPIC_WORDS_MAX + 1)), False),
    (".".join("*#*a"), True),
    (".".join("*#*#"), False),
])  # fmt: skip
def test_words_and_wildcards_are_bounded(topic: str, is_taken: bool) -> None:
    node = Node()
    node.open(1)
    node.say(subscribe(1, f"/topic/{topic}"))
    assert node.is_refused(1) != is_taken
    if not is_taken:
        assert node.refusal(1).code == "too-many-words"


def test_burst_to_many_subscribers_goes_on_in_the_next_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.routing.admission.REPLIES_PER_TURN", 4)
    node = Node(auto=False)
    node.open(1, 2, 3)
    node.say(subscribe(1, "/topic/t"), subscribe(2, "/topic/t"))
    commands = [Read(3, [send(3, "/topic/t", b"%d" % number) for number in range(5)])]
    first = node.broker.turn(commands, node.now_s, node.now_ms)
    assert (len(first.replies), first.again) == (4, True)
    rest = [node.broker.turn([], node.now_s, node.now_ms) for _ in range(2)]
    assert [(len(turn.replies), turn.again) for turn in rest] == [(4, True), (2, False)]
