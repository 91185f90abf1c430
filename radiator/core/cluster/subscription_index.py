"""Interest: which topics the subscriptions of this node want, and which nodes want a topic.

Names are looked up in a dict, patterns in a trie of words.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from radiator.model.limits import NODE_PATTERNS_MAX
from radiator.model.patterns import is_pattern

ALL = "#"  # matches every topic


class OwnSubscriptions:
    """The patterns of this node's subscriptions. Past NODE_PATTERNS_MAX others are told that it wants all topics, until
    fewer than half remain.
    """

    __slots__ = ("changed", "counts", "wants_all")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.changed: set[str] = set()
        self.wants_all = False

    def add(self, pattern: str) -> None:
        """One subscription more."""
        self.counts[pattern] = self.counts.get(pattern, 0) + 1
        self.changed.add(pattern)

    def remove(self, pattern: str) -> None:
        """One subscription less."""
        self.counts[pattern] -= 1
        if not self.counts[pattern]:
            del self.counts[pattern]
        self.changed.add(pattern)

    def changes(self, said: set[str]) -> tuple[set[str], set[str]]:
        """What others must be told: patterns that are wanted, and that are no more. said: what they know."""
        changed, self.changed = self.changed, set()
        wanted_all = self.wants_all
        self.wants_all = len(self.counts) > (NODE_PATTERNS_MAX // 2 - 1 if wanted_all else NODE_PATTERNS_MAX)
        if self.wants_all:
            return {ALL} - said, said - {ALL}
        if wanted_all:
            return self.counts.keys() - said, said - self.counts.keys()
        return {p for p in changed if p in self.counts} - said, {p for p in changed if p not in self.counts} & said


@dataclass(slots=True, eq=False)
class Word:
    """A word of the trie: what follows it, and which nodes want what ends here."""

    following: dict[str, "Word"] = field(default_factory=dict)
    nodes: set[str] = field(default_factory=set)


class SubscriptionIndex:
    """Which of the other nodes want what."""

    __slots__ = ("exact", "patterns")

    def __init__(self) -> None:
        self.exact: dict[str, set[str]] = {}
        self.patterns = Word()

    def add(self, node: str, patterns: Iterable[str]) -> None:
        """That node wants these too."""
        for pattern in patterns:
            if not is_pattern(pattern):
                self.exact.setdefault(pattern, set()).add(node)
                continue
            at = self.patterns
            for word in pattern.split("."):
                at = at.following.setdefault(word, Word())
            at.nodes.add(node)

    def remove(self, node: str, patterns: Iterable[str]) -> None:
        """That node wants these no more, which it has wanted."""
        for pattern in patterns:
            if is_pattern(pattern):
                _remove(self.patterns, pattern.split("."), node)
            else:
                nodes = self.exact[pattern]
                nodes.remove(node)
                if not nodes:
                    del self.exact[pattern]

    def nodes(self, topic: str) -> set[str]:
        """Those that want a message sent to this topic."""
        found = set(self.exact.get(topic, ()))
        if self.patterns.following:
            _match(self.patterns, topic.split("."), 0, found, set())
        return found


def _remove(at: Word, words: list[str], node: str) -> None:
    """Words that nobody needs go."""
    if not words:
        at.nodes.remove(node)
        return
    word, *others = words
    following = at.following[word]
    _remove(following, others, node)
    if not following.nodes and not following.following:
        del at.following[word]


def _match(at: Word, words: list[str], index: int, found: set[str], seen: set[tuple[int, int]]) -> None:
    """Adds who wants what is spelt by the words from that one on. Goes into each word of the trie once an index."""
    if (id(at), index) in seen:
        return
    seen.add((id(at), index))
    many = at.following.get("#")
    if many is not None:
        for rest in range(index, len(words) + 1):
            _match(many, words, rest, found, seen)
    if index == len(words):
        found |= at.nodes
        return
    for word in (words[index], "*"):
        following = at.following.get(word)
        if following is not None:
            _match(following, words, index + 1, found, seen)
