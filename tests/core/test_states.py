"""The tables of a message's life: every row, and every row that is not there."""

import ast
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

import radiator
from radiator.core.states import AFTER_A_CRASH, MEMORY_MOVES, PERSISTENT_MOVES, Event, IllegalMove, State, move
from tests.house.sources import nodes_of

S, E = State, Event
Moves = dict[tuple[State, Event], State]

# contract and design, written down a second time
PERSISTENT = """
    STORING COMMITTED READY | READY DELIVER UNACKED | UNACKED ACK REMOVING | UNACKED WRITTEN REMOVING
    UNACKED NACK READY | UNACKED LOST READY | UNACKED OVERDUE READY | UNACKED UNUSED READY | UNACKED GIVE_UP REMOVING
    UNACKED EXPIRE REMOVING | READY EXPIRE REMOVING | READY DROP REMOVING | STORING DROP REMOVING
    REMOVING COMMITTED GONE | READY OFFER IN_DOUBT | IN_DOUBT TAKEN REMOVING | IN_DOUBT NOT_TAKEN READY
    UNACKED DELAY DELAYED | DELAYED DUE DUE | DELAYED EXPIRE REMOVING | DELAYED DROP REMOVING
    DUE COMMITTED READY | DUE DROP REMOVING
"""
MEMORY = """
    READY DELIVER UNACKED | UNACKED ACK GONE | UNACKED WRITTEN GONE | UNACKED NACK READY | UNACKED LOST READY
    UNACKED OVERDUE READY | UNACKED UNUSED READY | UNACKED GIVE_UP GONE | UNACKED EXPIRE GONE
    READY EXPIRE GONE | READY DROP GONE
    UNACKED DELAY DELAYED | DELAYED DUE READY | DELAYED EXPIRE GONE | DELAYED DROP GONE
"""


@dataclass
class Thing:
    state: State


def rows(text: str) -> Moves:
    words = [row.split() for row in text.replace("\n", "|").split("|") if row.strip()]
    return {(S[a], E[b]): S[c] for a, b, c in words}


@pytest.mark.parametrize("moves, written", [(PERSISTENT_MOVES, PERSISTENT), (MEMORY_MOVES, MEMORY)])
def test_table_has_exactly_the_rows_of_the_design(moves: Moves, written: str) -> None:
    assert moves == rows(written)


@pytest.mark.parametrize("moves", [PERSISTENT_MOVES, MEMORY_MOVES])
@pytest.mark.parametrize("state, event", list(product(State, Event)))
def test_move_carries_out_each_row_and_refuses_each_missing_one(moves: Moves, state: State, event: Event) -> None:
    thing = Thing(state)
    if (state, event) in moves:
        move(thing, event, moves)
        assert thing.state is moves[state, event]
    else:
        with pytest.raises(IllegalMove, match=f"{event.name} .* {state.name}"):
            move(thing, event, moves)
        assert thing.state is state


@pytest.mark.parametrize("moves", [PERSISTENT_MOVES, MEMORY_MOVES])
def test_every_state_is_reached_and_left_and_gone_is_the_end(moves: Moves) -> None:
    states = {state for state, _ in moves} | set(moves.values())
    first = S.STORING if moves is PERSISTENT_MOVES else S.READY
    assert states - set(moves.values()) <= {first}
    assert {state for state, _ in moves} == states - {S.GONE}


def test_crash_table_covers_every_state_and_never_invents_one() -> None:
    assert set(AFTER_A_CRASH) == set(State)
    for state, (found, why) in AFTER_A_CRASH.items():
        may_be = {S.READY, S.IN_DOUBT} if state is S.IN_DOUBT else {S.READY, S.DELAYED, S.GONE}
        assert found <= may_be and found and why, state
    assert AFTER_A_CRASH[S.READY][0] == AFTER_A_CRASH[S.UNACKED][0] == {S.READY}
    assert AFTER_A_CRASH[S.DUE][0] == {S.DELAYED, S.READY}


def test_state_is_assigned_in_one_function_only() -> None:
    assigned = []
    for path in Path(radiator.__file__).parent.joinpath("core").rglob("*.py"):
        for node in nodes_of(path):
            targets = (
                node.targets
                if isinstance(node, ast.Assign)
                else [node.target]
                if isinstance(node, ast.AugAssign)
                else []
            )
            assigned += [path.name for t in targets if isinstance(t, ast.Attribute) and t.attr == "state"]
    assert assigned == ["states.py"]
