"""Names and patterns of words."""

import re
import time
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as some

from radiator.model.limits import CONSUMER_NAME_MAX_BYTES
from radiator.model.patterns import consumer_name_mistake, contains, is_pattern, matches, name_mistake, overlaps, rank

MATCHING = [
    ("a", "a"),
    ("*", "a"),
    ("#", "a"),
    ("#", "a.b.c"),
    ("a.#", "a"),
    ("a.#", "a.b.c"),
    ("#.c", "c"),
    ("#.c", "a.b.c"),
    ("a.*.c", "a.b.c"),
    ("a.#.c", "a.c"),
    ("a.#.c", "a.b.b.c"),
    ("#.#", "a"),
    ("stocks.*.nyse", "stocks.ibm.nyse"),
    ("*", ""),  # an empty word is a word
    ("a.*", "a."),
    ("a*", "a*"),  # a wildcard is a whole word
]
NOT_MATCHING = [
    ("a", "b"),
    ("a", "a.a"),
    ("*", "a.b"),
    ("a.*", "a"),
    ("a.*", "a.b.c"),
    ("a.#", "b.a"),
    ("#.c", "c.a"),
    ("a.#.c", "a.b"),
    ("a*", "ab"),
    ("a#", "a.b"),
]


@pytest.mark.parametrize(("pattern", "name"), MATCHING)
def test_pattern_matches_name(pattern: str, name: str) -> None:
    assert matches(pattern, name)


@pytest.mark.parametrize(("pattern", "name"), NOT_MATCHING)
def test_pattern_does_not_match_name(pattern: str, name: str) -> None:
    assert not matches(pattern, name)


def test_is_pattern_looks_at_whole_words() -> None:
    assert is_pattern("*")
    assert is_pattern("a.#")
    assert not is_pattern("a*.b#")


WORDS = some.sampled_from(["a", "b", "*", "#"])
PATTERNS = some.lists(WORDS, min_size=1, max_size=5).map(".".join)
NAMES = some.lists(some.sampled_from(["a", "b", "c"]), min_size=1, max_size=5).map(".".join)


def by_regular_expression(pattern: str, name: str) -> bool:
    """A second opinion: each word with its dot in front, `#` as any number of those."""
    parts = {"*": r"\.[^.]*", "#": r"(\.[^.]*)*"}
    return bool(
        re.fullmatch("".join(parts.get(word, rf"\.{re.escape(word)}") for word in pattern.split(".")), f".{name}")
    )


@given(PATTERNS, NAMES)
def test_matches_agrees_with_a_regular_expression(pattern: str, name: str) -> None:
    assert matches(pattern, name) == by_regular_expression(pattern, name)


@given(PATTERNS, PATTERNS, NAMES)
def test_patterns_that_match_one_name_overlap(one: str, other: str, name: str) -> None:
    assert overlaps(one, other) == overlaps(other, one)
    if matches(one, name) and matches(other, name):
        assert overlaps(one, other)


@given(PATTERNS, PATTERNS)
def test_patterns_that_overlap_match_one_name(one: str, other: str) -> None:
    def all_names(words: int) -> list[str]:
        return (
            ["c"] if words == 0 else [f"{word}.{rest}" for word in "abc" for rest in all_names(words - 1)] + list("abc")
        )

    longest = len(one.split(".")) + len(other.split(".")) - 1
    if overlaps(one, other) and longest <= 6:
        assert any(matches(one, name) and matches(other, name) for name in all_names(longest))


def test_a_hostile_pattern_is_matched_in_time() -> None:
    begin_s = time.process_time()
    assert not matches(".".join(["#", "a"] * 64), ".".join(["a"] * 127 + ["b"]))
    assert time.process_time() - begin_s < 1


def test_rank_sorts_most_literal_words_first_then_those_without_hash() -> None:
    patterns = ["#", "*", "a.#", "a.*", "a.#.b", "a.*.b", "a.*.*"]
    assert sorted(patterns, key=rank) == ["a.*.b", "a.#.b", "a.*", "a.*.*", "a.#", "*", "#"]


@pytest.mark.parametrize("name", ["a", "a.b", "test/ruby/stomp", "ä" * 127, " ", "x" * 255, "*"])
def test_a_name_has_no_mistake(name: str) -> None:
    assert name_mistake(name) == ""


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("", "is empty"),
        ("x" * 256, "has 256 bytes"),
        ("ä" * 128, "has 256 bytes"),
        ("a\n", "U+000A"),
        ("a\x00b", "U+0000"),
        ("\x7f", "U+007F"),
        ("a\x9f", "U+009F"),
    ],
)
def test_a_mistake_of_a_name_is_said(name: str, sentence: str) -> None:
    assert sentence in name_mistake(name)


# ---- a pattern within a pattern -------------------------------------------------------------------------------------

LETTERS = ("a", "b", "c")  # c is in no pattern: it is any other word
SMALL = [".".join(words) for count in range(1, 5) for words in product(LETTERS, repeat=count)]
PATTERNS = [".".join(words) for count in range(1, 4) for words in product(("a", "b", "*", "#"), repeat=count)]


def test_a_pattern_contains_another_if_it_matches_all_that_the_other_does() -> None:
    """Each pair of patterns of up to three words, by trying all names of up to four."""
    matched = {pattern: {name for name in SMALL if matches(pattern, name)} for pattern in PATTERNS}
    wrong = [
        (one, other)
        for one in PATTERNS
        for other in PATTERNS
        if contains(one, other) != (matched[other] <= matched[one])
    ]
    assert wrong == []


def test_some_that_contain_each_other_are_written_differently() -> None:
    assert contains("#.*", "*.#") and contains("*.#", "#.*") and contains("*.#", "#")
    assert contains("a.*.#", "a.#.a") and not contains("a.*.#", "a.#")


@pytest.mark.parametrize("other", ["#.a." * 60 + "#", "#.a.*." * 40 + "#", "*.#." * 60 + "a", "#.a.a.b." * 30 + "#"])
@pytest.mark.parametrize("one", ["#." + "a." * 50 + "#", "*.#." + "a." * 100 + "#", "#.a." * 60 + "#"])
def test_a_hostile_pattern_costs_little(one: str, other: str) -> None:
    """Where too many ways are open it is not contained: who asks may refuse then."""
    began_s = time.process_time()
    contains(one, other)
    assert time.process_time() - began_s < 0.1


def test_the_name_of_a_consumer_is_bounded_and_plain() -> None:
    for name in ("p", "pod-3", "a b/c", "n" * CONSUMER_NAME_MAX_BYTES):
        assert consumer_name_mistake(name) == ""
    assert "has 0 bytes" in consumer_name_mistake("")
    assert f"has {CONSUMER_NAME_MAX_BYTES + 1} bytes" in consumer_name_mistake("n" * (CONSUMER_NAME_MAX_BYTES + 1))
    assert "control character" in consumer_name_mistake("a\tb") and "control" in consumer_name_mistake("\udc80")
