"""Interest: whose patterns match, and what others are told of one's own."""

from random import Random

from radiator.core.cluster.subscription_index import OwnSubscriptions, SubscriptionIndex
from radiator.model.limits import NODE_PATTERNS_MAX
from radiator.model.patterns import matches

PATTERNS = ["a", "a.b", "a.*", "*.b", "#", "a.#", "#.b", "a.#.b", "*.#.*", "#.a.#", "*", "*.*.*"]
TOPICS = ["a", "b", "a.b", "b.b", "a.c.b", "a.a.a", "c.a.b.b", "x.y.z.w"]


def test_nodes_are_those_with_a_pattern_that_matches() -> None:
    for seed in range(100):
        random = Random(seed)
        index = SubscriptionIndex()
        wanted: dict[str, set[str]] = {name: set() for name in "ABCD"}
        for _ in range(40):
            node, pattern = random.choice("ABCD"), random.choice(PATTERNS)
            if pattern in wanted[node]:
                wanted[node].remove(pattern)
                index.remove(node, [pattern])
            else:
                wanted[node].add(pattern)
                index.add(node, [pattern])
            topic = random.choice(TOPICS)
            assert index.nodes(topic) == {n for n in wanted if any(matches(p, topic) for p in wanted[n])}
        for node, patterns in wanted.items():
            index.remove(node, patterns)
        assert not index.wanting, "nothing is left of what nobody wants"


def test_a_hostile_pattern_costs_words_times_words() -> None:
    index = SubscriptionIndex()
    index.add("n", ["#.a.#.a.#.b", "#.#.#.b"])
    before = index.wanting.steps
    assert index.nodes(".".join("a" * 16)) == set()
    assert index.wanting.steps - before <= 16 * len(["#", "a", "#", "a", "#", "b"])


def test_others_are_told_of_the_first_and_of_the_last_subscription() -> None:
    own = OwnSubscriptions()
    own.add("x")
    own.add("x")
    own.add("y")
    own.remove("y")
    assert own.changes(set()) == ({"x"}, set())
    own.remove("x")
    assert own.changes({"x"}) == (set(), set())
    own.remove("x")
    own.add("z")
    assert own.changes({"x"}) == ({"z"}, {"x"})
    assert own.changes({"z"}) == (set(), set())


def test_past_the_bound_all_is_wanted_until_fewer_than_half_remain() -> None:
    own = OwnSubscriptions()
    names = [f"t{i}" for i in range(NODE_PATTERNS_MAX + 1)]
    for name in names[:-1]:
        own.add(name)
    wanted, gone = own.changes(set())
    assert wanted == set(names[:-1]) and not gone
    own.add(names[-1])
    assert own.changes(wanted) == ({"#"}, wanted)
    half = NODE_PATTERNS_MAX // 2
    while len(own.counts) > half:
        own.remove(names.pop())
    assert own.changes({"#"}) == (set(), set())
    own.remove(names.pop())
    assert own.changes({"#"}) == (set(names), {"#"}) and len(names) == half - 1


def test_wanting_all_by_a_subscription_is_no_matter_at_the_bound() -> None:
    own = OwnSubscriptions()
    own.add("#")
    for i in range(NODE_PATTERNS_MAX):
        own.add(f"t{i}")
    assert own.changes({"#"}) == (set(), set())
    for i in range(NODE_PATTERNS_MAX):
        own.remove(f"t{i}")
    assert own.changes({"#"}) == (set(), set())
