"""News of a node: what a change and the whole make of what is known, and its bounds."""

import pytest

from radiator.core.cluster.node_state import (
    BOOT_MAX,
    MS_BITS,
    Change,
    Known,
    check_version,
    incarnation_above,
    incarnation_of,
    size_bytes,
)
from radiator.model.errors import LinkError
from radiator.model.limits import INCARNATION_MAX, NODE_NEIGHBOURS_MAX, NODE_PATTERNS_MAX
from radiator.model.peer import NodeState, Version


def state(number: int, is_full: bool = False, incarnation: int = 1, **lists: list[str]) -> NodeState:
    names = ("neighbours", "neighbours_gone", "patterns", "patterns_gone")
    return NodeState(Version("o", incarnation, number), is_full, *(lists.get(name, []) for name in names), "peer://o:1")


def put_together(known: Known, *all_states: NodeState) -> Known:
    for each in all_states:
        known.apply(each, known.change(each))
    return known


def test_changes_add_up_to_the_whole() -> None:
    known = put_together(
        Known(),
        state(1, True, neighbours=["a", "b"], patterns=["t.1", "t.2"]),
        state(2, neighbours=["c"], patterns_gone=["t.1"]),
        state(3, neighbours_gone=["a", "never there"], patterns=["t.3", "t.2"]),
    )
    whole = known.state("o")
    assert whole == state(3, True, neighbours=["b", "c"], patterns=["t.2", "t.3"])
    assert put_together(Known(), whole) == known


def test_the_whole_replaces_all_that_was_known() -> None:
    known = put_together(Known(), state(1, True, neighbours=["a", "b"], patterns=["x", "y"]))
    whole = state(7, True, incarnation=2, neighbours=["b", "c"], patterns=["y", "z"])
    assert known.change(whole) == Change({"c"}, {"a"}, {"z"}, {"x"})
    assert put_together(known, whole).state("o") == whole


def test_a_new_incarnation_counts_its_messages_from_the_beginning() -> None:
    known = put_together(Known(), state(1, True))
    known.sequence = 17
    assert put_together(known, state(2)).sequence == 17
    assert put_together(known, state(1, True, incarnation=2)).sequence == 0


@pytest.mark.parametrize(("what", "most"), [("neighbours", NODE_NEIGHBOURS_MAX), ("patterns", NODE_PATTERNS_MAX)])
def test_bounds_hold_after_a_change_at_the_limit_and_one_past_it(what: str, most: int) -> None:
    known = put_together(Known(), state(1, True, **{what: [f"n{i}" for i in range(most)]}))
    at_most = state(2, **{what: ["one more"], what + "_gone": ["n0"]})
    known.change(at_most)
    before = known.state("o")
    with pytest.raises(LinkError, match=f"Node o is said to have {most + 1} "):
        known.change(state(2, **{what: ["one more"]}))
    assert known.state("o") == before


def test_incarnations_at_the_limit_and_one_past_it() -> None:
    check_version(Version("o", INCARNATION_MAX, 1))
    with pytest.raises(LinkError, match=f"incarnation {INCARNATION_MAX + 1}"):
        check_version(Version("o", INCARNATION_MAX + 1, 1))


def test_incarnations_ascend_with_boots_and_differ_by_time() -> None:
    now_ms = 1_800_000_000_000
    assert incarnation_of(2, 0) > incarnation_of(1, now_ms) > incarnation_of(1, now_ms - 1)
    assert incarnation_of(0, now_ms) > 0 and incarnation_of(10**9, 10**15) <= INCARNATION_MAX


def test_there_is_an_incarnation_above_all_but_the_last_boots() -> None:
    heard = incarnation_of(BOOT_MAX - 1, 2**MS_BITS - 1)
    assert heard < incarnation_above("o", heard, 0) <= INCARNATION_MAX
    assert incarnation_above("o", heard, 0) != incarnation_above("o", heard, 1), "two lives that have heard of the same"
    with pytest.raises(LinkError, match="Node o is said to be in its incarnation"):
        incarnation_above("o", incarnation_of(BOOT_MAX, 0), 0)


def test_size_counts_names_and_patterns() -> None:
    assert size_bytes(state(1)) == len("peer://o:1")
    assert size_bytes(state(1, patterns=["x" * 100], neighbours_gone=["y" * 10])) == len("peer://o:1") + 104 + 14
