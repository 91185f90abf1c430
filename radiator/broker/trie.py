"""Names and patterns of words, and what hangs on them: who gets what is sent to a name.

Names are looked up in a dict, patterns in a trie of words. A match goes into each word of the trie once at most,
whatever the patterns: with it goes a number whose bit i says that it can be reached by the first i words of the name.
What was dear to find is kept until a pattern comes or goes; what is kept grows with the patterns, never beyond.
"""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from radiator.limits import MATCHED_KEPT, MATCHES_DEAR, MATCHES_KEPT
from radiator.patterns import is_pattern

T = TypeVar("T")

ONE, MANY = "*", "#"


@dataclass(slots=True, eq=False)
class Word(Generic[T]):
    """A word of the trie: what follows it, and what hangs on the pattern that ends here."""

    following: "dict[str | None, Word[T]]" = field(default_factory=dict)
    things: dict[T, None] = field(default_factory=dict)


class Trie(Generic[T]):
    """exact: what hangs on names; patterns: how much hangs on patterns. is_literal: `*` and `#` are words like any
    other.

    steps: words of the trie that all matches so far have gone into; what was kept costs none.
    """

    __slots__ = ("exact", "is_literal", "kept", "matched_kept", "patterns", "root", "steps")

    def __init__(self, is_literal: bool = False) -> None:
        self.is_literal = is_literal
        self.exact: dict[str, dict[T, None]] = {}
        self.root: Word[T] = Word()
        self.patterns = 0
        self.kept: dict[str, tuple[T, ...]] = {}
        self.matched_kept = 0
        self.steps = 0

    def __bool__(self) -> bool:
        return bool(self.exact or self.root.following)

    def add(self, pattern: str, thing: T) -> None:
        """From now on a name that matches finds it."""
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
        """It hangs there no longer; words that nobody needs go."""
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
        """What was found before may be wrong now."""
        if self.kept:
            self.kept.clear()
            self.matched_kept = 0

    def matching(self, name: str) -> list[T]:
        """Everything that hangs on the name, or on a pattern that matches it; each once."""
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
        """Know next time what was found."""
        most = min(MATCHES_KEPT, self.patterns)
        if len(self.kept) >= most or self.matched_kept + len(matched) > MATCHED_KEPT * self.patterns:
            self.forget()
        self.kept[name] = matched
        self.matched_kept += len(matched)

    def walk(self, name: str) -> dict[T, None]:
        """What hangs on the patterns that match."""
        words = [None if word in (ONE, MANY) else word for word in name.split(".")]
        end = 1 << len(words)
        every = 2 * end - 1
        places: dict[str | None, int] = {}
        for place, word in enumerate(words):
            places[word] = places.get(word, 0) | 1 << place
        found: dict[T, None] = {}
        waiting = [(self.root, 1)]
        steps = 0
        while waiting:
            at, reached = waiting.pop()
            steps += 1
            if reached & end and at.things:
                found.update(at.things)
            following = at.following
            if not following:
                continue
            many = following.get(MANY)
            if many is not None:
                waiting.append((many, every & -(reached & -reached)))  # from the first place on, each
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
            for word, there in places.items():
                same = following.get(word) if reached & there else None
                if same is not None:
                    waiting.append((same, (reached & there) << 1))
        self.steps += steps
        return found
