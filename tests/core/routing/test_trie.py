"""Tries: what hangs on a name and on the patterns that match it."""

from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radiator.core.routing import trie
from radiator.core.routing.trie import Trie
from radiator.model.limits import KEY_WORDS_MAX, TOPIC_WORDS_MAX, WALK_STEPS_MAX
from radiator.model.patterns import matches

NAMES = st.lists(st.sampled_from(["a", "b", "", "a/b", "**", "#a"]), min_size=1, max_size=6).map(".".join)
PATTERNS = st.lists(st.sampled_from(["a", "b", "", "*", "#", "a/b"]), min_size=1, max_size=6).map(".".join)
PAIRS = st.tuples(PATTERNS, st.integers(0, 3))  # few things, so that one hangs on several patterns


@given(st.lists(PAIRS, unique=True, max_size=14), st.lists(NAMES, min_size=1, max_size=6), st.data())
def test_matching_agrees_with_asking_each_pattern(
    pairs: list[tuple[str, int]], names: list[str], data: st.DataObject
) -> None:
    there = Trie[int]()
    for pattern, thing in pairs:
        there.add(pattern, thing)

    def agree() -> None:
        for name in [*names, *names]:  # the second time from what is kept
            found = there.matching(name)
            assert len(found) == len(set(found)), "a thing is found twice"
            assert set(found) == {thing for pattern, thing in pairs if matches(pattern, name)}

    agree()
    for pair in data.draw(st.lists(st.sampled_from(pairs), unique=True) if pairs else st.just([])):
        pairs.remove(pair)
        there.remove(*pair)
    agree()
    for pattern, thing in pairs:
        there.remove(pattern, thing)
    assert not there and not there.kept and not there.matched_kept


def test_wildcards_of_a_literal_one_are_words_like_any_other() -> None:
    there = Trie[str](is_literal=True)
    there.add("a.*", "star")
    there.add("#", "hash")
    assert there.matching("a.*") == ["star"] and there.matching("#") == ["hash"]
    assert there.matching("a.b") == [] and there.matching("a") == []
    there.remove("a.*", "star")
    there.remove("#", "hash")
    assert not there


def test_wildcards_in_a_name_match_nothing_but_wildcards() -> None:
    there = Trie[str]()
    for pattern in ("*", "#", "a.*", "a.#.b"):
        there.add(pattern, pattern)
    assert set(there.matching("*")) == {"*", "#"}
    assert set(there.matching("a.#")) == {"#", "a.*"}


def test_each_word_of_the_trie_is_gone_into_once_at_most() -> None:
    there = Trie[str]()
    patterns = ["#", "#.a", "#.a.#", "#.a.#.a", "a.#.a", "*.#.*", "#.#.#", "a.*.#.a"]
    words = 0
    for pattern in patterns:
        there.add(pattern, pattern)
        words += pattern.count(".") + 1
    there.matching(".".join(["a"] * 16))
    assert there.steps <= 1 + words


def test_what_was_dear_to_find_is_found_again_without_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trie, "MATCHES_DEAR", 4)
    there = Trie[str]()
    there.add("a.*", "x")
    there.add("a.*.c", "y")
    for name, is_dear in (("a.b", False), ("a.b.c", True)):
        found, steps = there.matching(name), there.steps
        assert there.matching(name) == found and (there.steps == steps) == is_dear
    there.add("a.#", "z")
    assert set(there.matching("a.b.c")) == {"y", "z"}


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trie, "MATCHES_KEPT", 5)
    monkeypatch.setattr(trie, "MATCHED_KEPT", 2)
    monkeypatch.setattr(trie, "MATCHES_DEAR", 0)
    there = Trie[int]()
    for thing in range(3):
        there.add("a.*", thing)
        there.add("a.*", thing)
    assert there.patterns == 3
    for number in range(20):
        assert there.matching(f"a.{number}") == [0, 1, 2]
        assert there.matching(f"c.{number}") == []
        assert len(there.kept) <= 3 and there.matched_kept == sum(map(len, there.kept.values())) <= 6
    for thing in range(3, 20):
        there.add(f"b{thing}.*", thing)
    for number in range(20):
        assert there.matching(f"c.{number}") == []
        assert len(there.kept) <= 5


def test_pattern_is_crowded_where_names_that_go_its_way_have_become_dear() -> None:
    """As many ways as wildcards can stand in: one more is refused, whatever its own way, and a plain one is not."""
    there = Trie[int]()
    refused = 0
    for number, places in enumerate(combinations(range(16), 3)):
        words = ["a"] * 16
        for place in places:
            words[place] = "*#"[number % 2]
        if there.is_crowded(".".join(words)):
            refused += 1
        else:
            there.add(".".join(words), number)
    assert refused > 0
    before = there.steps
    there.matching(".".join(["a"] * 15 + ["z"]))
    assert there.steps - before <= 2 * WALK_STEPS_MAX
    assert not there.is_crowded("b.*.c") and not there.is_crowded("a.a.a")
    assert not Trie[int](is_literal=True).is_crowded("a.*.#")


@pytest.mark.parametrize("words_max", [TOPIC_WORDS_MAX, KEY_WORDS_MAX])
def test_so_is_one_beside_others_that_wait_for_each_word_of_the_longest_names(words_max: int) -> None:
    """Between its wildcards stand any words, and a name may have all of them: more of them where names are longer."""
    there, random = Trie[int](words_max=words_max), Random(1)
    every = [f"w{number}" for number in range(words_max)]
    for number in range(3000):
        pattern = "#.{}.#.{}.#.{}".format(*random.choices(every, k=3))
        if not there.is_crowded(pattern):
            there.add(pattern, number)
    for _ in range(10):
        before = there.steps
        there.walk(".".join(random.sample(every, words_max)))
        assert there.steps - before <= 2 * WALK_STEPS_MAX
