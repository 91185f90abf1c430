"""Gossip: topics of scope "cluster", over all nodes, without a master.

Each node sends its state to its neighbours, which pass on what was new to them; so every node knows which nodes are
linked, and what each subscribes to. From that every node computes the same tree for each origin, and passes a message
on to those neighbours below it that lead to a subscriber. On a link nothing is sent for topics before the other side's
Digest is answered: from then on each side knows all that the other knows, so a change to something unknown is a
protocol error.
"""

from collections.abc import Callable, Sequence

from radiator.core.cluster import routes
from radiator.core.cluster.link import Link
from radiator.core.cluster.node_state import (
    NEVER,
    Change,
    Known,
    check_version,
    incarnation_above,
    incarnation_of,
    size_bytes,
)
from radiator.core.cluster.subscription_index import OwnSubscriptions, SubscriptionIndex
from radiator.core.turn import TurnContext
from radiator.model.errors import LinkError
from radiator.model.limits import (
    NODES_MAX,
    PATTERNS_MAX,
    ROUTES_KEPT,
    ROUTES_PER_TURN,
    SCOPES_KEPT,
    TOPIC_HOPS_MAX,
    TREES_KEPT,
)
from radiator.model.message import Message
from radiator.model.patterns import overlaps
from radiator.model.peer import Answer, Digest, NodeState, Publish, Version
from radiator.model.settings import Declarations

ADDRESS = "/topic/"
TO_NODE = ""  # in place of an origin in `routes`: the way to a node
VERSION_COST_BYTES = 48


class Gossip:
    """Topics of this node among others.

    boot: how often its store was opened. address: where this node can be dialled, or "". deliver(topic, message, id,
    is_copied): delivers to the local subscribers; is_copied: not to the durable ones. note(event, **fields): called for
    the events `joined` and `left` (node: now within TOPIC_HOPS_MAX links, or no longer), `routes` (changed: how many
    nodes are reached another way now) and `learned` (node, address).
    """

    __slots__ = (
        "claims", "declarations", "deliver", "context", "has_forgotten", "index", "is_changed", "is_rerouted",
        "known", "links", "name", "own", "own_subscriptions", "patterns", "reached", "routes", "scopes", "sequence",
        "sought", "sought_turn", "note", "answered", "trees", "unreachable",
    )  # fmt: skip

    def __init__(
        self,
        context: TurnContext,
        name: str,
        boot: int,
        declarations: Declarations,
        address: str,
        deliver: Callable[[str, Message, bytes, bool], None],
        note: Callable[..., None],
    ) -> None:
        self.context = context
        self.name = name
        self.declarations = declarations
        self.deliver = deliver
        self.note = note
        self.own = Known(incarnation_of(boot, context.now_ms), 1, address)  # as others were told
        self.own_subscriptions = OwnSubscriptions()
        self.is_changed = False  # this node's state has changed, and others are not told yet
        self.is_rerouted = False  # routes may have changed since `look`
        self.sequence = 0
        self.links: dict[str, Link] = {}
        self.answered: dict[str, Link] = {}  # the links on which the other side's Digest is answered
        self.known = {name: self.own}
        self.index = SubscriptionIndex()
        self.patterns = 0  # the patterns of all other nodes together
        # who claims to be linked with whom: as others have told, and for this node as it is
        self.claims: dict[str, set[str]] = {name: set()}
        self.reached: routes.Tree = {name: ("", 0)}  # the reachable nodes, as last reported by `note`
        self.unreachable: dict[str, None] = {}  # the node that was unreachable longest comes first
        self.has_forgotten = False
        self.trees: dict[str, routes.Tree] = {}
        self.routes: dict[tuple[str, str], tuple[Link, ...]] = {}
        self.sought_turn = self.sought = 0  # routes that were found in that turn
        self.scopes: dict[str, bool] = {}

    # ---- what happens here ------------------------------------------------------------------------------------------

    def linked(self, link: Link) -> None:
        """Called when a link to a neighbour is up, before anything is heard on it. One of the same name is replaced."""
        self.cut(link.name)
        self.links[link.name] = link
        self.say_digest(link)

    def unlinked(self, link: Link) -> None:
        """Called when a link is gone. Does nothing if another link has replaced it."""
        if self.links.get(link.name) is link:
            del self.links[link.name]
            self.cut(link.name)

    def cut(self, name: str) -> None:
        """Stops sending to that neighbour, until its Digest is answered again."""
        if self.answered.pop(name, None) is not None:
            self.claims[self.name].discard(name)
            self.forget_routes()
            self.is_changed = True

    def subscribed(self, pattern: str) -> None:
        """Counts one more subscription."""
        if self.concerns(pattern):
            self.own_subscriptions.add(pattern)
            self.is_changed = True

    def unsubscribed(self, pattern: str) -> None:
        """Counts one subscription less."""
        if self.concerns(pattern):
            self.own_subscriptions.remove(pattern)
            self.is_changed = True

    def concerns(self, pattern: str) -> bool:
        """Whether a subscription with that pattern may want a message of another node."""
        return pattern in self.own_subscriptions.counts or any(
            overlaps(topic, pattern) for topic in self.declarations.cluster_topics
        )

    def end_turn(self) -> None:
        """Sends all that has changed in this turn in one go. Must be called at the end of each turn."""
        if self.is_rerouted:
            self.look()
        if self.is_changed:
            self.is_changed = False
            self.say_changes()

    def is_cluster(self, name: str) -> bool:
        """Whether messages of that topic are sent to other nodes, and accepted from them."""
        is_cluster = self.scopes.get(name)
        if is_cluster is None:
            if len(self.scopes) >= SCOPES_KEPT:
                self.scopes.clear()
            is_cluster = self.scopes[name] = self.declarations.is_cluster_topic(name)
        return is_cluster

    # ---- messages ---------------------------------------------------------------------------------------------------

    def publish(self, name: str, message: Message, message_id: bytes, copied: Sequence[str] = ()) -> None:
        """Sends a message on the links that lead to a node that wants it; the caller serves local subscribers. copied:
        see Publish.
        """
        links = self.route(self.name, name)
        if links:
            self.sequence += 1
            word = Publish(self.name, self.own.incarnation, self.sequence, 1, message_id, message, [*copied])
            self.say(links, word)

    def is_wanted(self, name: str) -> bool:
        """Whether a reachable node wants that topic."""
        return bool(self.route(self.name, name))

    def way(self, node: str) -> Link | None:
        """Returns the link that leads to that node; None: it cannot be reached."""
        links = self.routes.get((TO_NODE, node))
        if links is None:
            via = routes.branches(self.tree(self.name), self.name).get(node)
            links = (self.answered[via],) if via is not None else ()
            self.keep_route((TO_NODE, node), links)
        return links[0] if links else None

    def must_flush_to(self, node: str) -> bool:
        """Whether the link that leads to the node is full only because this turn's words have not been written yet."""
        link = self.way(node)
        return link is not None and link.is_full and link.connection.posted_turn == self.context.turn_number

    def answer(self, word: Answer) -> bool:
        """Sends an answer on its way to its node. Returns False if it is lost: there is no way to that node, or no room
        on it.
        """
        link = self.way(word.node)
        if link is None or link.is_full:
            return False
        link.send(word, word.message.size)
        return True

    def must_flush(self, name: str, origin: str | None = None) -> bool:
        """Whether a link is full only because this turn's words have not been written yet, or enough routes of others
        were searched for in this turn. origin: None: this node.
        """
        turn = self.context.turn_number
        if origin is not None and (origin, name) not in self.routes and origin in self.known:
            self.sought = self.sought + 1 if self.sought_turn == turn else 1
            self.sought_turn = turn
            if self.sought > ROUTES_PER_TURN:
                return True
        links = self.route(self.name if origin is None else origin, name)
        return any(link.connection.posted_turn == turn and link.is_full for link in links)

    def say(self, links: tuple[Link, ...], word: Publish, heard_from: Link | None = None) -> None:
        """Sends a word on these links. A link that is full loses it."""
        size = word.message.size
        for link in links:
            if link is heard_from:
                continue
            if link.is_full:
                self.context.count("topic_messages_dropped")
            else:
                link.send(word, size)

    def hear_publish(self, link: Link, word: Publish) -> None:
        """Delivers a message to local subscribers, and passes it on: once, and in order."""
        if not 1 <= word.hops <= TOPIC_HOPS_MAX:
            raise LinkError(f"A message of {word.origin} has crossed {word.hops} links: 1 to {TOPIC_HOPS_MAX} can be.")
        known = self.known.get(word.origin)
        if known is None or known is self.own or word.incarnation != known.incarnation:
            # the origin was forgotten, or the message is of its earlier incarnation
            self.context.count("topic_messages_strange")
            return
        if word.sequence <= known.sequence:
            self.context.count("topic_duplicates")
            return
        known.sequence = word.sequence
        name = word.message.destination[len(ADDRESS) :]
        if self.is_cluster(name):
            self.deliver(name, word.message, word.message_id, self.name in word.copied)
        links = self.route(word.origin, name)
        if links and word.hops < TOPIC_HOPS_MAX:
            onward = Publish(
                word.origin,
                word.incarnation,
                word.sequence,
                word.hops + 1,
                word.message_id,
                word.message,
                word.copied,
            )
            self.say(links, onward, link)

    def route(self, origin: str, name: str) -> tuple[Link, ...]:
        """Returns the links on which this node passes on a message of that origin and topic."""
        links = self.routes.get((origin, name))
        return self.find_route(origin, name) if links is None else links

    def find_route(self, origin: str, name: str) -> tuple[Link, ...]:
        links: tuple[Link, ...] = ()
        if origin != self.name or self.is_cluster(name):
            nodes = self.index.nodes(name)
            if nodes:
                behind = routes.branches(self.tree(origin), self.name)
                links = tuple(self.answered[via] for via in sorted({behind[node] for node in nodes if node in behind}))
        self.keep_route((origin, name), links)
        return links

    def keep_route(self, key: tuple[str, str], links: tuple[Link, ...]) -> None:
        if len(self.routes) >= ROUTES_KEPT:
            self.routes.clear()
        self.routes[key] = links

    def tree(self, origin: str) -> routes.Tree:
        tree = self.trees.get(origin)
        if tree is None:
            if len(self.trees) >= TREES_KEPT:
                self.trees.clear()
            tree = self.trees[origin] = routes.tree(self.claims, origin)
        return tree

    def forget_routes(self) -> None:
        """Called when the graph has changed."""
        self.routes.clear()
        self.trees.clear()
        self.is_rerouted = True

    # ---- news -------------------------------------------------------------------------------------------------------

    def hear(self, link: Link, word: Digest | NodeState | Publish) -> None:
        """Handles a word of a neighbour. Raises LinkError for a word that may not come now."""
        if self.links.get(link.name) is not link:
            return
        if isinstance(word, Digest):
            self.hear_digest(link, word)
        elif link.name not in self.answered:
            raise LinkError(f"{link.name} says {type(word).__name__} before its Digest.")
        elif isinstance(word, NodeState):
            self.hear_node_state(link, word)
        else:
            self.hear_publish(link, word)

    def hear_digest(self, link: Link, word: Digest) -> None:
        """Answers with the states that are newer here. From now on the other node is a neighbour."""
        theirs = {}
        for version in word.versions:
            check_version(version)
            theirs[version.origin] = version.incarnation, version.number
        self.rise_above(theirs.get(self.name, NEVER))
        if link.name not in self.answered:
            self.answered[link.name] = link
            self.claims[self.name].add(link.name)
            self.forget_routes()
            self.is_changed = True
        for name, known in self.known.items():
            if known.version > theirs.get(name, NEVER):
                state = known.state(name)
                link.send(state, size_bytes(state))

    def hear_node_state(self, link: Link, word: NodeState) -> None:
        """Takes a state that is new here, and passes it on to all other neighbours."""
        check_version(word.version)
        origin, version = word.version.origin, (word.version.incarnation, word.version.number)
        if origin == self.name:
            self.rise_above(version)
            return
        known = self.known.get(origin)
        if known is not None and version <= known.version:
            return
        if not word.is_full and (known is None or known.version != (version[0], version[1] - 1)):
            self.miss(link, word, known)
            return
        change = (known or Known()).change(word)
        patterns = self.patterns + len(change.wanted) - len(change.unwanted)
        if patterns > PATTERNS_MAX:
            raise LinkError(f"With {origin} all nodes want {patterns} patterns: at most {PATTERNS_MAX} are taken.")
        if known is None:
            if not self.make_space():
                self.context.count("nodes_ignored")
                return
            known = self.known[origin] = Known()
            self.claims[origin] = known.neighbours
            self.unreachable[origin] = None
        elif any(routes.is_link(self.claims, origin, other) for other in change.unlinked):
            self.forget_routes()
        if word.address and word.address != known.address:
            self.note("learned", node=origin, address=word.address)
        known.apply(word, change)
        self.patterns += len(change.wanted) - len(change.unwanted)
        if any(routes.is_link(self.claims, origin, other) for other in change.linked):
            self.forget_routes()
        self.index.remove(origin, change.unwanted)
        self.index.add(origin, change.wanted)
        self.routes.clear()
        self.pass_on(word, link)
        if self.has_forgotten and origin in self.reached and any(other not in self.known for other in change.linked):
            self.say_digest(link)  # a forgotten node is back, perhaps with no news that others lack

    def miss(self, link: Link, word: NodeState, known: Known | None) -> None:
        """Handles a change to a state that is not known here. It can only be that of a node that was forgotten: asks
        for all of it. Raises LinkError for any other.
        """
        if known is not None or not self.has_forgotten:
            has = f"number {known.number} of {known.incarnation}" if known is not None else "nothing"
            raise LinkError(
                f"{link.name} says what has changed at {word.version.origin} with number {word.version.number} of its "
                f"incarnation {word.version.incarnation}, but has told {has} before."
            )
        if self.make_space():
            self.say_digest(link)

    def pass_on(self, state: NodeState, heard_from: Link | None = None) -> None:
        size = size_bytes(state)
        for link in self.answered.values():
            if link is not heard_from:
                link.send(state, size)

    def say_digest(self, link: Link) -> None:
        versions = [Version(name, known.incarnation, known.number) for name, known in self.known.items()]
        link.send(Digest(versions), VERSION_COST_BYTES * len(versions))

    def say_changes(self, is_new: bool = False) -> None:
        """Sends all neighbours what has changed here since the last call. is_new: sends the whole state in any case."""
        own, neighbours = self.own, self.claims[self.name]
        linked, unlinked = neighbours - own.neighbours, own.neighbours - neighbours
        wanted, unwanted = self.own_subscriptions.changes(own.patterns)
        count = len(linked) + len(unlinked) + len(wanted) + len(unwanted)
        if not count and not is_new:
            return
        version = Version(self.name, own.incarnation, own.number + 1)
        state = NodeState(
            version, False, sorted(linked), sorted(unlinked), sorted(wanted), sorted(unwanted), own.address
        )
        own.apply(state, Change(linked, unlinked, wanted, unwanted))
        is_shorter = count < len(own.neighbours) + len(own.patterns)
        self.pass_on(state if is_shorter and not is_new else own.state(self.name))

    def rise_above(self, version: tuple[int, int]) -> None:
        """Makes this node's own version the latest: others may know a later one, from an earlier incarnation."""
        if version > self.own.version:
            self.own.incarnation = incarnation_above(self.name, version[0], self.context.now_ms)
            self.own.number = 0
            self.say_changes(is_new=True)

    # ---- nodes ------------------------------------------------------------------------------------------------------

    def nodes(self) -> list[dict[str, str | int]]:
        """Returns the other nodes that are reachable, by name: how many links away, and behind which neighbour."""
        tree = self.tree(self.name)
        behind = routes.branches(tree, self.name)
        return [{"name": name, "hops": tree[name][1], "via": via} for name, via in sorted(behind.items())]

    def are_neighbours(self, one: str, other: str) -> bool:
        """Whether both nodes say that they are linked with each other."""
        return routes.is_link(self.claims, one, other)

    def look(self) -> None:
        """Publishes who has joined or left, and whether others are reached in another way."""
        self.is_rerouted = False
        before, now = self.reached, self.tree(self.name)
        self.reached = now
        for name in sorted(now.keys() - before.keys()):
            self.unreachable.pop(name, None)
            self.note("joined", node=name)
        for name in sorted(before.keys() - now.keys()):
            self.unreachable[name] = None
            self.note("left", node=name)
        changed = sum(now[name] != before[name] for name in now.keys() & before.keys())
        if changed:
            self.note("routes", changed=changed)

    def make_space(self) -> bool:
        """Returns whether one more node can be known here. Makes room by forgetting the node that was unreachable
        longest.
        """
        if len(self.known) < NODES_MAX:
            return True
        self.has_forgotten = True
        self.look()
        for name in self.unreachable:
            known = self.known.pop(name)
            self.index.remove(name, known.patterns)
            self.patterns -= len(known.patterns)
            del self.claims[name], self.unreachable[name]
            self.routes.clear()
            return True
        return False
