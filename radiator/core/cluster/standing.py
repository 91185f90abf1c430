"""Durable subscriptions at other nodes: a message for one of them travels as a fanout's copy does, so that it survives
a link that is cut and a node that is away.

Each node tells those of its list which topics its durable subscriptions want. They store that, for the time when it is
away, and put a copy of each message that is sent to such a topic there into its outbox. The live message names the
nodes for which there is a copy: a node that it names does not give it to its durable subscriptions.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from radiator.core.cluster.peer import Peer
from radiator.core.cluster.subscription_index import ALL
from radiator.core.routing.trie import Trie
from radiator.core.turn import WRITE_COST_BYTES, TurnContext
from radiator.model.errors import LinkError
from radiator.model.limits import NODE_PATTERNS_MAX
from radiator.model.patterns import overlaps
from radiator.model.peer import Standing as Word
from radiator.model.settings import Declarations
from radiator.model.writes import DropDeclared, KeepDeclared

KIND = "durable-at"  # the kind of the rows NODE/PATTERN


@dataclass(slots=True, eq=False)
class WantedPattern:
    """How many durable subscriptions of a node want a pattern, as far as this node knows."""

    node: str
    count: int = 1


class StandingPatterns:
    """counts: the patterns of the durable subscriptions here, and how many have each; sent: what other nodes know of
    that; most: the most patterns there have been in this run. known: what is wanted at each node of the list; heard:
    the nodes that have said so on their present link.
    """

    __slots__ = (
        "changed", "counts", "declarations", "context", "heard", "known", "most", "peers", "sent", "total", "wanted",
    )  # fmt: skip

    def __init__(
        self,
        context: TurnContext,
        declarations: Declarations,
        peers: dict[str, Peer],
        names: Iterable[str],
        rows: Iterable[str],
    ) -> None:
        """names: the nodes of the list. rows: those that earlier runs have stored."""
        self.context = context
        self.declarations = declarations
        self.peers = peers
        self.counts: dict[str, int] = {}
        self.changed: set[str] = set()
        self.sent: dict[str, int] = {}
        self.total = self.most = 0
        self.known: dict[str, dict[str, WantedPattern]] = {name: {} for name in names}
        self.wanted: Trie[WantedPattern] = Trie()
        for row in rows:
            node, _, pattern = row.partition("/")
            if node in self.known:
                self.want(node, pattern, 1)
            else:
                context.write(DropDeclared(KIND, row))  # the node is no longer in the list

    # ---- here -------------------------------------------------------------------------------------------------------

    def subscribed(self, pattern: str) -> None:
        """Counts one more durable subscription."""
        if self.concerns(pattern):
            self.counts[pattern] = self.counts.get(pattern, 0) + 1
            self.changed.add(pattern)
            self.total += 1
            self.most = max(self.most, self.total)

    def unsubscribed(self, pattern: str) -> None:
        """Counts one durable subscription less."""
        if self.concerns(pattern):
            self.counts[pattern] -= 1
            if not self.counts[pattern]:
                del self.counts[pattern]
            self.changed.add(pattern)
            self.total -= 1

    def concerns(self, pattern: str) -> bool:
        """Whether a durable subscription with that pattern may want a message of another node."""
        return pattern in self.counts or any(overlaps(topic, pattern) for topic in self.declarations.cluster_topics)

    def end_turn(self) -> None:
        """Sends all that has changed in this turn in one go. Must be called at the end of each turn."""
        if not self.changed:
            return
        is_all = len(self.counts) > NODE_PATTERNS_MAX
        counts = {ALL: self.total} if is_all else self.counts
        looked_at = {*self.sent, *counts} if is_all or ALL in self.sent else self.changed
        wanted = sorted(p for p in looked_at if p in counts and self.sent.get(p) != counts[p])
        unwanted = sorted(p for p in looked_at if p in self.sent and p not in counts)
        self.changed = set()
        if wanted or unwanted:
            word = Word(False, wanted, [counts[pattern] for pattern in wanted], unwanted)
            self.sent |= zip(word.patterns, word.counts, strict=True)
            for pattern in unwanted:
                del self.sent[pattern]
            for peer in self.peers.values():
                if peer.link is not None and peer.is_welcome:
                    peer.link.send(word, _size_bytes(word))

    def linked(self, peer: Peer) -> None:
        """Sends the node everything: it may have been away, or have lost its store."""
        assert peer.link is not None, "it is welcome"
        word = Word(True, [*self.sent], [*self.sent.values()], [])
        peer.link.send(word, _size_bytes(word))

    # ---- elsewhere --------------------------------------------------------------------------------------------------

    def hear(self, peer: Peer, word: Word) -> None:
        """ON RECEIVE Standing. A node that is not in the list has no outbox, so it gets live messages only."""
        if len(word.patterns) != len(word.counts):
            raise LinkError(f"{peer.name} says {len(word.counts)} counts of {len(word.patterns)} patterns.")
        known = self.known.get(peer.name)
        if known is None:
            return
        unwanted = known.keys() - set(word.patterns) if word.is_full else known.keys() & set(word.patterns_gone)
        if len(known.keys() | set(word.patterns)) - len(unwanted) > NODE_PATTERNS_MAX:
            raise LinkError(f"{peer.name} has durable subscriptions to more than {NODE_PATTERNS_MAX} patterns.")
        for pattern in unwanted:
            self.wanted.remove(pattern, known.pop(pattern))
            self.context.write(DropDeclared(KIND, f"{peer.name}/{pattern}"))
        for pattern, count in zip(word.patterns, word.counts, strict=True):
            there = known.get(pattern)
            if there is not None:
                there.count = max(1, count)
            elif self.want(peer.name, pattern, max(1, count)):
                self.context.write(KeepDeclared(KIND, f"{peer.name}/{pattern}", "{}"), WRITE_COST_BYTES + len(pattern))

    def want(self, node: str, pattern: str, count: int) -> bool:
        """Adds a pattern. Returns False if no copies can be made for it, since matching it would be too costly: the
        node then gets live messages only.
        """
        if self.wanted.is_crowded(pattern):
            self.context.note("warning", "durable_not_copied", node=node, pattern=pattern)
            return False
        self.known[node][pattern] = there = WantedPattern(node, count)
        self.wanted.add(pattern, there)
        return True

    def nodes(self, topic: str) -> list[str]:
        """Returns the nodes of the list that have a durable subscription to the topic."""
        return sorted({wanted.node for wanted in self.wanted.matching(topic)}) if self.wanted else []

    def times(self, node: str, topic: str) -> int:
        """Returns how often that node stores a message of the topic, as far as this node knows; room is reserved by
        it.
        """
        return max(1, sum(wanted.count for wanted in self.wanted.matching(topic) if wanted.node == node))


def _size_bytes(word: Word) -> int:
    return 64 + sum(10 + len(pattern) for pattern in (*word.patterns, *word.patterns_gone))
