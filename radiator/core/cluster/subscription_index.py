"""Which topics the subscriptions of this node want, and which of the other nodes want a topic."""

from collections.abc import Iterable

from radiator.core.routing.trie import Trie
from radiator.model.limits import NODE_PATTERNS_MAX

ALL = "#"  # matches every topic


class OwnSubscriptions:
    """The patterns of this node's subscriptions. Beyond NODE_PATTERNS_MAX, other nodes are told that this one wants all
    topics, until fewer than half remain.
    """

    __slots__ = ("changed", "counts", "wants_all")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.changed: set[str] = set()
        self.wants_all = False

    def add(self, pattern: str) -> None:
        """Adds one subscription."""
        self.counts[pattern] = self.counts.get(pattern, 0) + 1
        self.changed.add(pattern)

    def remove(self, pattern: str) -> None:
        """Removes one subscription."""
        self.counts[pattern] -= 1
        if not self.counts[pattern]:
            del self.counts[pattern]
        self.changed.add(pattern)

    def changes(self, sent: set[str]) -> tuple[set[str], set[str]]:
        """Returns what other nodes must be sent: patterns that are wanted now, and that no longer are. sent: what they
        have been sent.
        """
        changed, self.changed = self.changed, set()
        wanted_all = self.wants_all
        self.wants_all = len(self.counts) > (NODE_PATTERNS_MAX // 2 - 1 if wanted_all else NODE_PATTERNS_MAX)
        if self.wants_all:
            return {ALL} - sent, sent - {ALL}
        if wanted_all:
            return self.counts.keys() - sent, sent - self.counts.keys()
        return {p for p in changed if p in self.counts} - sent, {p for p in changed if p not in self.counts} & sent


class SubscriptionIndex:
    """Which topics each of the other nodes wants."""

    __slots__ = ("wanting",)

    def __init__(self) -> None:
        self.wanting: Trie[str] = Trie()

    def add(self, node: str, patterns: Iterable[str]) -> None:
        """Adds patterns that the node wants."""
        for pattern in patterns:
            self.wanting.add(pattern, node)

    def remove(self, node: str, patterns: Iterable[str]) -> None:
        """Removes patterns that the node wanted."""
        for pattern in patterns:
            self.wanting.remove(pattern, node)

    def nodes(self, topic: str) -> set[str]:
        """Returns the nodes that want a message sent to this topic."""
        return set(self.wanting.matching(topic))
