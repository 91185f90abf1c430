"""Spreading: real ones, wired by real links (mesh.py): who gets what, over which links, and what nobody may say.

RADIATOR_SEEDS=5000 runs more random histories of meshes.
"""

import os
from random import Random

import pytest

from radiator.core.cluster.link import Link
from radiator.core.cluster.node_state import MS_BITS
from radiator.core.connections import Connection
from radiator.model.errors import LinkError
from radiator.model.limits import (
    INCARNATION_MAX,
    LINK_OUTBOX_BYTES,
    NODE_PATTERNS_MAX,
    NODES_MAX,
    ROUTES_KEPT,
    SCOPES_KEPT,
    TOPIC_HOPS_MAX,
)
from radiator.model.message import Message
from radiator.model.peer import Digest, Identity, NodeState, PeerFrame, Publish, Version
from radiator.model.settings import Declarations
from tests.core.cluster.mesh import EVERYWHERE, End, Mesh

SEEDS = int(os.environ.get("RADIATOR_SEEDS", "300"))

CHAIN = ("a b", "b c", "c d")
RING = ("a b", "b c", "c d", "d e", "a e")
FULL = ("a b", "a c", "a d", "b c", "b d", "c d")
STAR = ("a b", "a c", "a d", "a e")
TWO_RINGS = ("a b", "b c", "a c", "c d", "d e", "e f", "d f")
SHAPES = {"chain": CHAIN, "ring": RING, "full": FULL, "star": STAR, "two rings": TWO_RINGS}


def mesh_of(*pairs: str) -> Mesh:
    mesh = Mesh(*sorted({name for pair in pairs for name in pair.split()}))
    mesh.link(*pairs)
    return mesh


def message(topic: str = "t.a", size: int = 4) -> Message:
    return Message("/topic/" + topic, b"", 0, b"x" * size, 0)


def publish(origin: str, sequence: int, incarnation: int = 1, hops: int = 1, topic: str = "t.a") -> Publish:
    return Publish(origin, incarnation, sequence, hops, b"%b-%d" % (origin.encode(), sequence), message(topic))


def full(origin: str, incarnation: int, number: int, neighbours: str = "", patterns: str = "") -> NodeState:
    return NodeState(Version(origin, incarnation, number), True, neighbours.split(), [], patterns.split(), [], "")


def delta(origin: str, incarnation: int, number: int, patterns: str) -> NodeState:
    return NodeState(Version(origin, incarnation, number), False, [], [], patterns.split(), [], "")


class Stranger:
    """A peer of node `a` whose words the test makes up. It is told everything, and says nothing by itself."""

    def __init__(self, mesh: Mesh, name: str = "x", number: int = 900) -> None:
        self.node = mesh["a"]
        self.heard: list[PeerFrame] = []
        self.link = Link(Connection(number, 1 << 20), Identity(name, "s", False), self.node.context)
        wire = mesh.wire("a", "a")
        wire.is_cut = True
        mesh.wires.remove(wire)
        mesh.ends[number] = self.end = wire.ends[0]
        self.end.link = self.link
        self.mesh = mesh
        with self.listening():
            self.node.gossip.linked(self.link)

    def listening(self):  # type: ignore[no-untyped-def]
        self.mesh.on_send = lambda reply: self.heard.append(reply.word) if reply.connection == self.number else None
        return self.node.turn()

    @property
    def number(self) -> int:
        return self.link.connection.number

    def say(self, *words: PeerFrame) -> list[PeerFrame]:
        """What it hears meanwhile; the rest of the mesh is quiet again."""
        self.heard.clear()
        for word in words:
            with self.listening():
                self.node.gossip.hear(self.link, word)  # type: ignore[arg-type]
            self.mesh.quiet()
        return list(self.heard)

    def refused(self, word: PeerFrame, match: str) -> None:
        with pytest.raises(LinkError, match=match):
            self.node.gossip.hear(self.link, word)  # type: ignore[arg-type]


# ---- shapes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pairs", SHAPES.values(), ids=SHAPES.keys())
def test_every_subscriber_gets_each_message_exactly_once_over_the_shortest_links(pairs: tuple[str, ...]) -> None:
    mesh = mesh_of(*pairs)
    mesh.check_all()
    for name in mesh.nodes:
        mesh[name].subscribe("t.*")
        mesh.quiet()
        mesh.check_all(("t.a", "t.a.b", "else"))
    mesh["a"].unsubscribe("t.*")
    mesh.quiet()
    mesh.check_all()


@pytest.mark.parametrize("pairs", [RING, FULL, TWO_RINGS], ids=["ring", "full", "two rings"])
def test_a_lost_link_is_routed_around_and_a_healed_one_used_again(pairs: tuple[str, ...]) -> None:
    mesh = mesh_of(*pairs)
    for name in mesh.nodes:
        mesh[name].subscribe("t.a")
    mesh.quiet()
    for pair in pairs:
        mesh.unlink(pair)
        mesh.check_all()
        mesh.link(pair)
        mesh.check_all()


def test_both_halves_go_on_and_heal_with_what_has_changed_meanwhile() -> None:
    mesh = mesh_of("a b", "b c", "c d", "d e", "a e", "b e")
    mesh["d"].subscribe("t.a")
    mesh["b"].subscribe("t.a")
    mesh.quiet()
    for pair in ("b c", "a e", "b e"):
        mesh.unlink(pair)
    assert mesh["a"].reached() == {"b"}
    mesh["d"].unsubscribe("t.a")
    mesh["e"].subscribe("t.#")
    mesh["b"].unsubscribe("t.a")
    mesh.quiet()
    mesh.check_all()
    mesh.link("b c")
    mesh.check_all()
    assert mesh["a"].reached() == {"b", "c", "d", "e"}


def test_what_is_known_already_is_not_said_again_on_a_healed_link() -> None:
    mesh = mesh_of("a b", "b c", "c d", "d e", "e f")
    mesh.unlink("c d")
    state: list[str] = []
    mesh.on_word = lambda word: state.append(word.version.origin) if isinstance(word, NodeState) else None
    mesh.link("c d")
    assert set(state) == {"c", "d"}


def test_messages_of_one_publisher_arrive_in_order() -> None:
    for seed in range(20):
        random = Random(seed)
        mesh = mesh_of(*TWO_RINGS)
        for name in "bdf":
            mesh[name].subscribe("t.a")
        mesh.quiet()
        ids = [mesh["a"].publish("t.a") for _ in range(20)]
        mesh.quiet(random)
        assert [mesh[name].delivered for name in "bdf"] == [ids] * 3


def test_a_node_where_the_topic_is_its_own_passes_it_on_and_delivers_nothing() -> None:
    mesh = Mesh("a", "c")
    mesh.add("b", declarations=Declarations(topics=["t.#"]))
    mesh.link("a b", "b c")
    mesh["b"].subscribe("t.a")
    mesh.quiet()
    assert not mesh["a"].gossip.is_wanted("t.a")
    mesh["c"].subscribe("t.a")
    mesh.quiet()
    mesh.check_all()
    assert not mesh["b"].gossip.is_cluster("t.a")


def test_a_subscription_that_overlaps_no_topic_of_the_cluster_costs_nothing() -> None:
    mesh = mesh_of(*CHAIN)
    found = mesh.sent_count
    mesh["a"].subscribe("else.#", "u")
    mesh["a"].unsubscribe("u")
    assert mesh.sent_count == found
    mesh["a"].subscribe("*.x")
    assert mesh.sent_count == found + 1


# ---- the hop limit --------------------------------------------------------------------------------------------------


def test_the_hop_limit_at_and_past_it() -> None:
    names = [f"n{i:02}" for i in range(TOPIC_HOPS_MAX + 2)]
    mesh = Mesh(*names)
    mesh.link(*(f"{one} {other}" for one, other in zip(names, names[1:], strict=False)))
    mesh[names[-1]].subscribe("t.far")
    mesh[names[-2]].subscribe("t.near")
    mesh.quiet()
    mesh.check_all(("t.far", "t.near"))
    assert mesh["n00"].gossip.is_wanted("t.near") and not mesh["n00"].gossip.is_wanted("t.far")
    assert mesh["n01"].gossip.is_wanted("t.far")


def test_hops_at_the_limit_are_not_passed_on_and_one_past_it_is_refused() -> None:
    mesh = mesh_of("a b")
    mesh["a"].subscribe("t.a")
    mesh["b"].subscribe("t.a")
    mesh.quiet()
    peer = Stranger(mesh)
    peer.say(Digest([]), full("x", 1, 1, "a"))
    peer.say(publish("x", 1, hops=TOPIC_HOPS_MAX - 1), publish("x", 2, hops=TOPIC_HOPS_MAX))
    assert mesh["a"].delivered == [b"x-1", b"x-2"] and mesh["b"].delivered == [b"x-1"]
    peer.refused(publish("x", 3, hops=TOPIC_HOPS_MAX + 1), f"crossed {TOPIC_HOPS_MAX + 1} links")
    peer.refused(publish("x", 3, hops=0), "crossed 0 links")


# ---- news -----------------------------------------------------------------------------------------------------------


def test_stale_news_cannot_win() -> None:
    mesh = mesh_of("a b")
    peer = Stranger(mesh)
    peer.say(Digest([]), full("x", 5, 7, "a", "t.a"))
    assert mesh["b"].gossip.is_wanted("t.a")
    for stale in (full("x", 5, 6, "", ""), full("x", 5, 7, "", ""), full("x", 4, 900, "", ""), delta("x", 4, 8, "t.b")):
        assert peer.say(stale) == []
        assert mesh["b"].gossip.is_wanted("t.a") and mesh["b"].reached() == {"a", "x"}
    peer.say(full("x", 6, 1, "a", "t.b"))
    assert not mesh["b"].gossip.is_wanted("t.a") and mesh["b"].gossip.is_wanted("t.b")


def test_a_change_fits_only_onto_the_number_before() -> None:
    mesh = mesh_of("a b")
    peer = Stranger(mesh)
    peer.say(Digest([]), full("x", 5, 7, "a"), delta("x", 5, 8, "t.a"))
    assert mesh["b"].gossip.is_wanted("t.a")
    peer.refused(delta("x", 5, 10, "t.b"), "number 10 of its incarnation 5, but has told number 8 of 5 before")
    peer.refused(delta("x", 6, 9, "t.b"), "incarnation 6")
    peer.refused(delta("y", 1, 2, "t.b"), "has told nothing before")
    peer.refused(full("x", INCARNATION_MAX + 1, 1), "incarnation")
    peer.refused(Digest([Version("b", INCARNATION_MAX + 1, 1)]), "incarnation")
    assert not mesh["b"].gossip.is_wanted("t.b")


def test_nothing_may_be_said_before_the_digest() -> None:
    peer = Stranger(mesh_of("a b"))
    for word in (full("x", 1, 1), publish("x", 1)):
        peer.refused(word, f"x says {type(word).__name__} before its Digest")


def test_nothing_of_topics_is_said_before_the_other_digest_is_answered() -> None:
    mesh = mesh_of("a b")
    mesh["b"].subscribe("t.a")
    mesh.quiet()
    peer = Stranger(mesh)
    assert [type(word) for word in peer.heard] == [Digest]
    peer.heard.clear()
    mesh["b"].subscribe("t.b")
    mesh.quiet()
    mesh["a"].publish("t.a")
    assert peer.heard == []
    answer = [(word.version.origin, word.is_full) for word in peer.say(Digest([])) if isinstance(word, NodeState)]
    assert answer == [("a", True), ("b", True), ("a", False)], "what was known, then that it is a neighbour"


def test_words_of_a_link_that_was_replaced_are_not_heard() -> None:
    mesh = mesh_of("a b")
    old = Stranger(mesh)
    old.say(Digest([]), full("x", 1, 1, "a", "t.a"))
    assert mesh["a"].gossip.is_wanted("t.a")
    new = Stranger(mesh, number=901)
    assert not mesh["a"].gossip.is_wanted("t.a"), "a link counts only when its Digest is answered"
    old.say(full("x", 1, 2, "a"))
    with mesh["a"].turn():
        mesh["a"].gossip.unlinked(old.link)
    new.say(Digest([Version("x", 1, 1)]))
    assert mesh["a"].gossip.is_wanted("t.a") and mesh["a"].reached() == {"b", "x"}


def test_a_link_that_only_one_end_has_given_up_is_no_route() -> None:
    mesh = mesh_of("a b", "b c", "a c")
    mesh["b"].subscribe("t.a")
    mesh.quiet()
    wire = mesh.cut("a", "b")
    wire.ends[1].close()  # b has noticed, and tells it by c
    mesh.quiet()
    assert mesh["a"].gossip.links.keys() == {"b", "c"}
    mesh["a"].publish("t.a")
    mesh.quiet()
    assert mesh.carried == [("a", "c"), ("c", "b")] and len(mesh["b"].delivered) == 1
    assert mesh["a"].gossip.nodes() == [{"name": "b", "hops": 2, "via": "c"}, {"name": "c", "hops": 1, "via": "c"}]
    assert mesh["c"].gossip.are_neighbours("b", "c") and not mesh["c"].gossip.are_neighbours("a", "b")


def test_a_node_that_starts_anew_wins_over_its_earlier_life() -> None:
    for boot in (1, 4, 5, 6, 9):  # restored from a backup, the same again, and later ones
        mesh = Mesh("b", "c")
        mesh.add("a", boot=5)
        mesh.link("a b", "b c")
        mesh["a"].subscribe("t.old")
        mesh.quiet()
        for name in "bc":
            mesh[name].subscribe("t.a")
        mesh.quiet()
        for _ in range(10):
            mesh["a"].publish("t.a")
        mesh.quiet()
        old = mesh["a"].gossip.own.incarnation
        mesh.restart("a", boot)
        for end in [end for wire in mesh.wires for end in wire.ends if wire.is_cut and not end.is_over]:
            end.close()
        mesh.quiet()
        mesh.link("a b")
        assert mesh["a"].gossip.own.incarnation > old and not mesh["b"].gossip.is_wanted("t.old")
        mesh.check_all(("t.a", "t.old"))


def test_a_node_hears_of_an_earlier_life_by_others_too() -> None:
    mesh = Mesh("b", "c")
    old = mesh.add("a", boot=5).gossip.own.incarnation
    mesh.link("a b", "b c")
    mesh["a"].subscribe("t.old")
    mesh.quiet()
    mesh.unlink("b c")
    mesh.restart("a", 2)
    for end in [end for wire in mesh.wires for end in wire.ends if wire.is_cut and not end.is_over]:
        end.close()
    mesh.add("d")
    mesh.link("a d")  # d has never heard of it, c knows its earlier life
    mesh["d"].subscribe("t.a")
    mesh.quiet()
    assert mesh["a"].gossip.own.incarnation < old
    mesh.link("d c", "b c")
    assert mesh["a"].gossip.own.incarnation > old
    mesh.check_all(("t.a", "t.old"))


def test_nobody_can_have_restarted_so_often() -> None:
    peer = Stranger(mesh_of("a b"))
    peer.say(Digest([]))
    peer.refused(full("a", INCARNATION_MAX, 1), "cannot have started so often")
    most = INCARNATION_MAX - (1 << MS_BITS)
    peer.say(full("a", most, 1))
    assert INCARNATION_MAX >= peer.node.gossip.own.incarnation > most


def test_all_that_changes_in_a_turn_is_one_word() -> None:
    mesh = mesh_of("a b")
    heard: list[PeerFrame] = []
    mesh["a"].subscribe("t.0")
    mesh.quiet()
    mesh.on_word = heard.append
    mesh["a"].subscribe(*(f"t.{i}" for i in range(1, 4)))
    [state] = heard
    assert isinstance(state, NodeState)
    number = state.version.number
    assert state.patterns == ["t.1", "t.2", "t.3"] or state.is_full
    with mesh["a"].turn():
        mesh["a"].gossip.subscribed("t.x")
        mesh["a"].gossip.unsubscribed("t.x")
    mesh["a"].subscribe("t.0")
    assert len(heard) == 1, "what comes and goes is no news"
    mesh["a"].unsubscribe("t.1")
    assert heard[1] == NodeState(
        Version("a", state.version.incarnation, number + 1), False, [], [], [], ["t.1"], "peer://a:61614"
    )


def test_past_the_bound_of_patterns_a_node_is_sent_everything() -> None:
    mesh = mesh_of("a b")
    heard: list[PeerFrame] = []
    names = [f"t.{i}" for i in range(NODE_PATTERNS_MAX + 1)]
    mesh["b"].subscribe(*names[:-1])
    mesh.quiet()
    assert not mesh["a"].gossip.is_wanted("t.else")
    mesh.on_word = heard.append
    mesh["b"].subscribe(names[-1])
    mesh.quiet()
    assert [word.patterns for word in heard if isinstance(word, NodeState)] == [["#"]]
    assert mesh["a"].gossip.is_wanted("t.else") and not mesh["a"].gossip.is_wanted("else")
    mesh["b"].unsubscribe(*names[: NODE_PATTERNS_MAX // 2 + 2])
    mesh.quiet()
    assert not mesh["a"].gossip.is_wanted("t.else") and mesh["a"].gossip.is_wanted(names[-1])


# ---- messages -------------------------------------------------------------------------------------------------------


def test_of_each_origin_only_ascending_sequences_are_taken() -> None:
    mesh = mesh_of("a b")
    mesh["a"].subscribe("t.a")
    mesh["b"].subscribe("t.a")
    mesh.quiet()
    peer = Stranger(mesh)
    peer.say(Digest([]), full("x", 3, 1, "a"))
    peer.say(*(publish("x", sequence, 3) for sequence in (5, 5, 4, 7, 6, 2**63 - 1)))
    expected = [b"x-5", b"x-7", b"x-%d" % (2**63 - 1)]
    assert mesh["a"].delivered == mesh["b"].delivered == expected
    peer.say(full("x", 4, 1, "a"), publish("x", 8, 3), publish("x", 1, 4), publish("x", 9, 5))
    assert mesh["a"].delivered == mesh["b"].delivered == [*expected, b"x-1"]


def test_messages_of_oneself_and_of_nobody_known_are_dropped() -> None:
    mesh = mesh_of("a b")
    mesh["a"].subscribe("t.a")
    mesh["b"].subscribe("t.a")
    mesh.quiet()
    peer = Stranger(mesh)
    peer.say(Digest([]), full("x", 1, 1, "a"))
    peer.say(publish("a", 99, mesh["a"].gossip.own.incarnation), publish("y", 1))
    assert mesh["a"].delivered == mesh["b"].delivered == []
    assert mesh["a"].context.counters == {"topic_messages_strange": 2}
    mesh.check_all()


def test_a_message_is_not_passed_back_to_whom_it_came_from() -> None:
    mesh = mesh_of("a b")
    peer = Stranger(mesh)
    peer.say(Digest([]), full("x", 1, 1, "a", "t.a"))
    assert peer.say(publish("b", 1, mesh["b"].gossip.own.incarnation)) == []
    with peer.listening():
        mesh["a"].gossip.publish("t.a", message(), b"a-1")
    assert [type(word) for word in peer.heard] == [Publish]


def test_a_message_of_one_that_cannot_be_reached_stays_here() -> None:
    mesh = mesh_of("a b")
    mesh["a"].subscribe("t.a")
    mesh["b"].subscribe("t.a")
    mesh.quiet()
    peer = Stranger(mesh)
    peer.say(Digest([]), full("x", 1, 1, "a"), full("y", 1, 1, "nobody"))
    peer.say(publish("y", 1))
    assert mesh["a"].delivered == [b"y-1"] and mesh["b"].delivered == []


def test_a_full_link_loses_messages_and_no_news() -> None:
    mesh = mesh_of("a b", "a c")
    for name in "bc":
        mesh[name].subscribe("t.a")
    mesh.quiet()
    a = mesh["a"]
    connection = a.gossip.links["b"].connection
    with a.turn():
        a.gossip.publish("t.a", message(size=LINK_OUTBOX_BYTES - 1000), b"a-1")
        assert not a.gossip.must_flush("t.a")
        a.gossip.publish("t.a", message(size=1000), b"a-2")
        assert a.gossip.must_flush("t.a") and not a.gossip.must_flush("t.b")
        assert a.gossip.must_flush("t.a", "x") is False
    with a.turn():
        connection.outbox_bytes = LINK_OUTBOX_BYTES
        assert not a.gossip.must_flush("t.a"), "it is full for another reason"
        a.gossip.publish("t.a", message(), b"a-3")
        a.gossip.subscribed("t.new")
    mesh.quiet()
    assert mesh["b"].delivered == [b"a-1", b"a-2"] and mesh["c"].delivered == [b"a-1", b"a-2", b"a-3"]
    assert a.context.counters == {"topic_messages_dropped": 1}
    assert mesh["b"].gossip.is_wanted("t.new")
    mesh.check_all()


def test_what_is_remembered_for_speed_is_bounded() -> None:
    mesh = mesh_of("a b")
    mesh["b"].subscribe("t.#")
    mesh.quiet()
    gossip = mesh["a"].gossip
    for i in range(max(ROUTES_KEPT, SCOPES_KEPT) + 10):
        assert gossip.is_wanted(f"t.{i}")
    assert len(gossip.routes) <= ROUTES_KEPT and len(gossip.scopes) <= SCOPES_KEPT
    mesh.check_all()


# ---- many nodes -----------------------------------------------------------------------------------------------------


def crowd(mesh: Mesh, count: int) -> Stranger:
    """Node a and b, and so many that x has heard of and that cannot be reached."""
    peer = Stranger(mesh)
    peer.say(Digest([]), full("x", 1, 1, "a"))
    for i in range(count):
        peer.say(full(f"n{i}", 1, 1, "", "t.n"))
    return peer


def test_nodes_at_the_limit_and_one_past_it() -> None:
    mesh = mesh_of("a b")
    peer = crowd(mesh, NODES_MAX - 3)
    known = mesh["a"].gossip.known
    assert len(known) == NODES_MAX and "n0" in known and not mesh["a"].gossip.has_forgotten
    peer.say(full("one more", 1, 1))
    assert len(known) == NODES_MAX and "n0" not in known and "n1" in known and "one more" in known
    assert len(mesh["a"].gossip.claims) == NODES_MAX


def test_one_that_was_forgotten_is_asked_for_when_its_news_change() -> None:
    mesh = mesh_of("a b")
    peer = crowd(mesh, NODES_MAX - 2)
    assert "n0" not in mesh["a"].gossip.known
    [digest] = peer.say(delta("n0", 1, 2, "t.more"))
    assert isinstance(digest, Digest) and "n0" not in {version.origin for version in digest.versions}
    peer.say(full("n0", 1, 2, "", "t.more"))
    assert "n0" in mesh["a"].gossip.known


def test_one_that_was_forgotten_is_asked_for_when_a_neighbour_names_it() -> None:
    mesh = mesh_of("a b")
    peer = crowd(mesh, NODES_MAX - 2)
    heard = peer.say(NodeState(Version("x", 1, 2), False, ["n0"], [], [], [], ""))
    assert [type(word) for word in heard] == [Digest]
    peer.say(full("n0", 1, 1, "x", "t.n"))
    assert "n0" in mesh["a"].reached() and mesh["a"].gossip.is_wanted("t.n")


def test_when_all_can_be_reached_one_more_is_left_out() -> None:
    mesh = Mesh("a")
    peer = Stranger(mesh)
    names = [f"n{i}" for i in range(NODES_MAX - 2)]
    peer.say(Digest([]), full("x", 1, 1, " ".join(["a", *names])))
    peer.say(*(full(name, 1, 1, "x") for name in names))
    assert len(mesh["a"].reached()) == NODES_MAX - 1
    assert peer.say(full("one more", 1, 1, "x"), delta("one more", 1, 2, "t.a")) == []
    assert len(mesh["a"].reached()) == NODES_MAX - 1 and mesh["a"].context.counters == {"nodes_ignored": 1}


# ---- what is told ---------------------------------------------------------------------------------------------------


def test_joining_leaving_routes_and_addresses_are_told() -> None:
    mesh = mesh_of("a b", "b c")
    a = mesh["a"]
    assert [fields for event, fields in a.events if event == "learned"] == [
        {"node": name, "address": f"peer://{name}:61614"} for name in "bc"
    ]
    assert [fields["node"] for event, fields in a.events if event == "joined"] == ["b", "c"]
    a.events.clear()
    mesh.link("a c")
    assert [each for each in a.events if each[0] != "learned"] == [("routes", {"changed": 1})]
    a.events.clear()
    mesh.unlink("a c")
    assert a.events == [("routes", {"changed": 1})]
    a.events.clear()
    mesh.unlink("b c")
    assert a.events == [("left", {"node": "c"})]
    assert a.gossip.nodes() == [{"name": "b", "hops": 1, "via": "b"}]


# ---- random histories -----------------------------------------------------------------------------------------------

TOPICS = ("t.a", "t.b", "t.own.x", "u.a", "else")
PATTERNS = ("t.a", "t.b", "t.*", "t.#", "#", "*.a", "t.own.x", "u.*", "else", "#.x")
SOME = (
    EVERYWHERE,
    Declarations(topics=["t.#", "u.*"], cluster_topics=frozenset({"t.#", "u.*"})),
    Declarations(topics=["t.#", "t.own.#", "u.a"], cluster_topics=frozenset({"t.#", "u.a"})),
    Declarations(topics=["t.#"]),
)


class History:
    """One random mesh, and what befalls it."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.mesh = mesh = Mesh()
        self.names = [f"n{i}" for i in range(random.randrange(2, 8))]
        for name in self.names:
            mesh.add(name, random.randrange(1, 4), random.choice(SOME[: random.randrange(1, len(SOME) + 1)]))
        self.pairs = [(one, other) for one in self.names for other in self.names if one < other]
        random.shuffle(self.pairs)
        self.pairs = self.pairs[: random.randrange(1, 3 * len(self.names) + 1)]
        self.closing: list[End] = []
        self.haste: dict[int, int] = {}  # of ends: some are slow
        self.busy = random.choice((3, 10))
        self.last: dict[tuple[str, bytes], int] = {}
        self.moves = random.choice((MOVES, RACES))
        if self.moves is RACES:  # all that could be linked is, and nearly everybody has subscribed
            mesh.link(*(f"{one} {other}" for one, other in self.pairs))
            for name in self.names:
                if random.random() < 0.8:
                    mesh[name].subscribe("t.a")
            mesh.quiet()

    def run(self) -> None:
        for _ in range(self.random.randrange(1, 4)):
            for _ in range(self.random.randrange(10, 120)):
                self.random.choice(self.moves)(self)
            self.settle()
            for name in self.names:
                for topic in TOPICS:
                    self.mesh.check_publish(name, topic, self.random)
                    self.check_order()

    def settle(self) -> None:
        """Everybody has noticed everything, and all has been said."""
        while self.closing:
            self.notice()
        for wire in self.mesh.wires:
            for end in wire.ends:
                if not end.is_open and not end.is_over:
                    end.open()
        self.mesh.quiet(self.random)
        self.check_order()

    def hear(self) -> None:
        for _ in range(self.random.randrange(1, self.busy)):
            waiting = self.mesh.waiting()
            if not waiting:
                return
            weights = [self.haste.setdefault(end.number, self.random.choice((1, 10, 100))) for end in waiting]
            self.random.choices(waiting, weights)[0].hear()

    def wire(self) -> None:
        one, other = self.random.choice(self.pairs)
        if self.mesh.between(one, other) is None:  # where one has been cut, an end may not have noticed yet
            self.mesh.wire(one, other)

    def open(self) -> None:
        closed = [end for wire in self.mesh.wires for end in wire.ends if not wire.is_cut and not end.is_open]
        if closed:
            self.random.choice(closed).open()

    def cut(self) -> None:
        one, other = self.random.choice(self.pairs)
        if self.mesh.between(one, other) is not None:
            wire = self.mesh.between(one, other)
            assert wire is not None
            wire.is_cut = True
            for end in wire.ends:  # what was said before may still arrive
                while end.words and self.random.random() < 0.5:
                    end.words.pop()
                self.closing.append(end)

    def notice(self) -> None:
        if self.closing:
            self.closing.pop(self.random.randrange(len(self.closing))).close()

    def subscribe(self) -> None:
        self.mesh[self.random.choice(self.names)].subscribe(
            *self.random.choices(PATTERNS, k=self.random.randrange(1, 4))
        )

    def unsubscribe(self) -> None:
        node = self.mesh[self.random.choice(self.names)]
        if node.patterns:
            node.unsubscribe(self.random.choice(node.patterns))

    def publish(self) -> None:
        name = self.random.choice(self.names)
        for _ in range(self.random.randrange(1, 4)):
            self.mesh[name].publish(self.random.choice(("t.a", *TOPICS)))

    def restart(self) -> None:
        """Sometimes from a backup: with an earlier boot, or the same again."""
        name = self.random.choice(self.names)
        old = self.mesh[name]
        self.closing = [end for end in self.closing if end.node is not old]
        cut = [wire for wire in self.mesh.wires if not wire.is_cut and any(end.node is old for end in wire.ends)]
        self.mesh.restart(name, max(1, old.context.boot + self.random.choice((1, 1, 2, 0, -1))))
        self.closing += [end for wire in cut for end in wire.ends if end.node is not old]

    def check_order(self) -> None:
        """No node ever gets a message twice, or behind a later one of the same life of its publisher."""
        for name, node in self.mesh.nodes.items():
            for message_id in node.delivered:
                life, _, number = message_id.rpartition(b"-")
                key = (name + str(id(node)), life)
                assert self.last.get(key, 0) < int(number), (name, message_id)
                self.last[key] = int(number)
            node.delivered.clear()


MOVES = (
    *[History.hear] * 8, *[History.wire] * 4, *[History.open] * 8, *[History.cut] * 2, *[History.notice] * 3,
    *[History.subscribe] * 3, *[History.unsubscribe] * 2, *[History.publish] * 3, History.restart,
)  # fmt: skip
RACES = (
    *[History.hear] * 10, *[History.wire] * 2, *[History.open] * 6, History.cut, History.notice,
    *[History.publish] * 3,
)  # fmt: skip


def test_random_meshes() -> None:
    for seed in range(SEEDS):
        try:
            History(seed).run()
        except (AssertionError, LinkError, KeyError) as failed:
            raise AssertionError(f"seed {seed}: {failed}") from failed
