"""Routes: which links count, the shortest tree, and what is behind a neighbour."""

from random import Random

from radiator.core.cluster.routes import branches, is_link, tree
from radiator.model.limits import TOPIC_HOPS_MAX


def graph(*pairs: str) -> dict[str, set[str]]:
    claims: dict[str, set[str]] = {}
    for pair in pairs:
        one, other = pair.split()
        claims.setdefault(one, set()).add(other)
        claims.setdefault(other, set()).add(one)
    return claims


def test_a_link_counts_only_if_both_ends_say_so() -> None:
    claims = {"a": {"b", "c"}, "b": {"a"}, "c": set[str](), "d": {"a"}}
    assert is_link(claims, "a", "b") and is_link(claims, "b", "a")
    assert not is_link(claims, "a", "c") and not is_link(claims, "c", "a")
    assert not is_link(claims, "a", "d") and not is_link(claims, "x", "a") and not is_link(claims, "a", "x")
    assert tree(claims, "a") == {"a": ("", 0), "b": ("a", 1)}
    assert tree(claims, "d") == {"d": ("", 0)}


def test_an_origin_that_nobody_knows_reaches_itself() -> None:
    assert tree({}, "x") == {"x": ("", 0)}


def test_the_tree_is_the_shortest_and_the_first_name_wins() -> None:
    claims = graph("a b", "a c", "b d", "c d", "d e", "a z", "z e")
    assert tree(claims, "a") == {
        "a": ("", 0),
        "b": ("a", 1),
        "c": ("a", 1),
        "z": ("a", 1),
        "d": ("b", 2),
        "e": ("z", 2),
    }
    # seen from the other side it may be another way
    assert tree(claims, "d")["a"] == ("b", 2)
    assert tree(claims, "e")["a"] == ("z", 2)


def test_a_node_that_claims_itself_is_no_matter() -> None:
    claims = graph("a b")
    claims["a"].add("a")
    assert tree(claims, "a") == {"a": ("", 0), "b": ("a", 1)}


def test_branches_are_what_is_behind_each_neighbour_below() -> None:
    of = tree(graph("a b", "b c", "c d", "b e", "a f"), "a")
    assert branches(of, "a") == {"b": "b", "c": "b", "d": "b", "e": "b", "f": "f"}
    assert branches(of, "b") == {"c": "c", "d": "c", "e": "e"}
    assert branches(of, "d") == {} and branches(of, "x") == {}


def test_the_tree_ends_at_the_hop_limit() -> None:
    names = [f"n{i:02}" for i in range(TOPIC_HOPS_MAX + 3)]
    claims = graph(*(f"{one} {other}" for one, other in zip(names, names[1:], strict=False)))
    of = tree(claims, names[0])
    assert of[names[TOPIC_HOPS_MAX]] == (names[TOPIC_HOPS_MAX - 1], TOPIC_HOPS_MAX)
    assert names[TOPIC_HOPS_MAX + 1] not in of


def test_trees_of_random_graphs_are_shortest_paths_by_least_names() -> None:
    for seed in range(200):
        random = Random(seed)
        names = [f"n{i}" for i in range(random.randrange(2, 12))]
        pairs = [f"{one} {other}" for one in names for other in names if one < other and random.random() < 0.3]
        claims = graph(*pairs)
        away = {"n0": 0}
        for name in (walk := ["n0"]):
            for other in claims.get(name, ()):
                if other not in away:
                    away[other] = away[name] + 1
                    walk.append(other)
        of = tree(claims, "n0")
        assert {name: hops for name, (_, hops) in of.items()} == away
        for name in away.keys() - {"n0"}:
            assert of[name][0] == min(other for other in claims[name] if away[other] == away[name] - 1)
