"""Matches names against names and patterns of words, and returns the values that are stored under those that match.

Names are looked up in a dict, patterns in a trie of words. A match enters each node of the trie at most once, whatever
the patterns: it carries a number whose bit i says that the first i words of the name lead to this node. An expensive
result is cached until a pattern is added or removed; the size of the cache is bounded by the number of patterns.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any, Generic, TypeVar

from radiator.model.limits import MATCHED_KEPT, MATCHES_DEAR, MATCHES_KEPT, TOPIC_WORDS_MAX, WALK_STEPS_MAX
from radiator.model.patterns import is_pattern

T = TypeVar("T")

ONE, MANY = "*", "#"
FILLER = "a"


@dataclass(slots=True, eq=False)
class Word(Generic[T]):
    """A word of the trie: what follows it, and the values of the pattern that ends here."""

    following: "dict[str | None, Word[T]]" = field(default_factory=dict)
    things: dict[T, None] = field(default_factory=dict)


class Trie(Generic[T]):
    """exact: the values under names; patterns: how many values are under patterns. is_literal: `*` and `#` are words
    like any other. words_max: no name that is looked up has more words.

    steps: how many nodes of the trie all matches so far have entered; a cached result costs none.
    """

    __slots__ = ("exact", "is_literal", "kept", "matched_kept", "patterns", "root", "steps", "words_max")

    def __init__(self, is_literal: bool = False, words_max: int = TOPIC_WORDS_MAX) -> None:
        self.is_literal = is_literal
        self.words_max = words_max
        self.exact: dict[str, dict[T, None]] = {}
        self.root: Word[T] = Word()
        self.patterns = 0
        self.kept: dict[str, tuple[T, ...]] = {}
        self.matched_kept = 0
        self.steps = 0

    def __bool__(self) -> bool:
        return bool(self.exact or self.root.following)

    def add(self, pattern: str, thing: T) -> None:
        """Stores a value under a name or a pattern."""
        if self.is_literal or not is_pattern(pattern):
            self.exact.setdefault(pattern, {})[thing] = None
            return
        self.forget()
        at = self.root
        for word in pattern.split("."):
            following = at.following.get(word)
            if following is None:
                following = at.following[word] = Word()
            at = following
        if thing not in at.things:
            at.things[thing] = None
            self.patterns += 1

    def remove(self, pattern: str, thing: T) -> None:
        """Removes a value, and the words that lead to no other."""
        if self.is_literal or not is_pattern(pattern):
            there = self.exact[pattern]
            del there[thing]
            if not there:
                del self.exact[pattern]
            return
        self.forget()
        words = pattern.split(".")
        path = [self.root]
        for word in words:
            path.append(path[-1].following[word])
        del path[-1].things[thing]
        self.patterns -= 1
        for word, before, at in zip(reversed(words), reversed(path[:-1]), reversed(path[1:]), strict=True):
            if at.things or at.following:
                return
            del before.following[word]

    def forget(self) -> None:
        """Empties the cache, because a pattern was added or removed."""
        if self.kept:
            self.kept.clear()
            self.matched_kept = 0

    def matching(self, name: str) -> list[T]:
        """Returns every value under the name, or under a pattern that matches it; each once."""
        exact = self.exact.get(name, ())
        if not self.root.following:
            return list(exact)
        matched = self.kept.get(name)
        if matched is None:
            before = self.steps
            matched = tuple(self.walk(name))
            if self.steps - before >= MATCHES_DEAR:
                self.keep(name, matched)
        return list(dict.fromkeys((*exact, *matched))) if exact else list(matched)

    def keep(self, name: str, matched: tuple[T, ...]) -> None:
        """Puts the result of a match into the cache."""
        most = min(MATCHES_KEPT, self.patterns)
        if len(self.kept) >= most or self.matched_kept + len(matched) > MATCHED_KEPT * self.patterns:
            self.forget()
        self.kept[name] = matched
        self.matched_kept += len(matched)

    def is_crowded(self, pattern: str) -> bool:
        """Whether matching is too costly already for a name that is made to match this pattern, and so meets the
        patterns that are costly together with it.
        """
        if self.is_literal or not is_pattern(pattern):
            return False
        for name in {*self.names_along(pattern)}:
            before = self.steps
            self.walk(name, WALK_STEPS_MAX)
            if self.steps - before > WALK_STEPS_MAX:
                return True
        return False

    def names_along(self, pattern: str) -> Iterator[str]:
        """Yields names that match it. In place of its wildcards they have words of its own, or words that others have
        there.
        """
        words = pattern.split(".")
        spare = self.words_max - len(words) + words.count(MANY)
        literals = [word for word in words if word not in (ONE, MANY)] or [FILLER]
        for from_others in (False, True):
            for is_reversed in (False, True):
                at: Word[T] | None = self.root
                name: list[str] = []
                left = spare
                for index, word in enumerate(words):
                    fillers = _beside(at, word, is_reversed, self.words_max // 2) if from_others else []
                    fillers = fillers or (literals[::-1] if is_reversed else literals)
                    if word == MANY:
                        name.extend(islice(cycle(fillers), left))
                        left = 0
                    else:
                        name.append(fillers[index % len(fillers)] if word == ONE else word)
                    at = at.following.get(word) if at is not None else None
                yield ".".join(name)

    def walk(self, name: str, steps_max: int = 1 << 62) -> dict[T, None]:
        """Returns the values under the patterns that match; not all of them where that takes more steps."""
        words = [None if word in (ONE, MANY) else word for word in name.split(".")]
        end = 1 << len(words)
        every = 2 * end - 1
        places: dict[str | None, int] = {}
        for place, word in enumerate(words):
            places[word] = places.get(word, 0) | 1 << place
        found: dict[T, None] = {}
        waiting = [(self.root, 1)]
        steps = 0
        while waiting and steps <= steps_max:
            at, reached = waiting.pop()
            steps += 1
            if reached & end and at.things:
                found.update(at.things)
            following = at.following
            if not following:
                continue
            many = following.get(MANY)
            if many is not None:
                waiting.append((many, every & -(reached & -reached)))  # every place from the first on
            if reached == end:
                continue
            one = following.get(ONE)
            if one is not None:
                waiting.append((one, reached << 1 & every))
            if not reached & (reached - 1):
                same = following.get(words[reached.bit_length() - 1])
                if same is not None:
                    waiting.append((same, reached << 1))
                continue
            for word in places if len(places) < len(following) else following:  # a long name has very many places
                there = reached & places.get(word, 0)
                same = following.get(word) if there else None
                if same is not None:
                    waiting.append((same, there << 1))
        self.steps += steps
        return found


def _beside(at: Word[Any] | None, word: str, is_reversed: bool, most: int) -> list[str]:
    """Returns some words that others have in that wildcard's place, and for `#` also those that follow it."""
    places = [at, at.following.get(word) if word == MANY else None] if at is not None else []
    found: list[str] = []
    for place in places:
        if place is not None:
            keys = reversed(place.following) if is_reversed else iter(place.following)
            found.extend(islice((key for key in keys if key is not None and key not in (ONE, MANY)), most))
    return found
