"""Routes through the graph of nodes: the shortest tree of each origin, which every node computes alike."""

from collections.abc import Mapping

from radiator.model.limits import TOPIC_HOPS_MAX

Claims = Mapping[str, set[str]]  # for each node, the nodes that it says it is linked with
Tree = dict[str, tuple[str, int]]  # for each reachable node: the node before it on its way, and the number of links

NOBODY = set[str]()


def is_link(claims: Claims, one: str, other: str) -> bool:
    """Whether both ends claim the link: one that has noticed its loss is enough to end it."""
    return other in claims.get(one, NOBODY) and one in claims.get(other, NOBODY)


def tree(claims: Claims, origin: str) -> Tree:
    """Returns all nodes within TOPIC_HOPS_MAX links of the origin, nearest first.

    Where several nodes that are equally near to the origin lead to a node, it is reached through the first by name.
    """
    found: Tree = {origin: ("", 0)}
    level = [origin]
    for hops in range(1, TOPIC_HOPS_MAX + 1):
        following = []
        for name in sorted(level):
            for other in claims.get(name, NOBODY).difference(found):
                if name in claims.get(other, NOBODY):
                    found[other] = (name, hops)
                    following.append(other)
        if not following:
            break
        level = following
    return found


def branches(of: Tree, here: str) -> dict[str, str]:
    """Returns, for each node below `here` in the tree, the neighbour that leads to it."""
    behind: dict[str, str] = {}
    for name, (before, _) in of.items():
        if before == here:
            behind[name] = name
        elif before in behind:
            behind[name] = behind[before]
    return behind
