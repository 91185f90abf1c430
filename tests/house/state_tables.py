"""The tables of docs/DURABILITY.md and docs/STATES.md that come from radiator/core/states.py and storage/wal.py.

`python -m tests.house.state_tables` writes them.
Each stands between `<!-- states: NAME -->` and `<!-- end -->`.
"""

import re
from pathlib import Path

from radiator.core.states import AFTER_A_CRASH, MEMORY_MOVES, PERSISTENT_MOVES, Event, State
from radiator.storage import wal

DOCUMENTS = [Path(__file__).resolve().parents[2] / "docs" / name for name in ("DURABILITY.md", "STATES.md")]


def states() -> str:
    return _table(("state", "what it means"), [(state.name, state.value) for state in State])


def moves(table: dict[tuple[State, Event], State]) -> str:
    rows = [(start.name, event.name, table[start, event].name, event.value) for start, event in table]
    return _table(("from", "event", "to", "what the event is"), rows)


def crash() -> str:
    rows = [
        (state.name, " or ".join(sorted((s.name for s in found), reverse=True)), why)
        for state, (found, why) in AFTER_A_CRASH.items()
    ]
    return _table(("state before", "found as", "because"), rows)


def batches() -> str:
    rows = [(step, found, why) for step, (found, why) in wal.AFTER_A_CRASH.items()]
    return _table(("the batch is", "found", "because"), rows)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ("---",) * len(head), *rows])


TABLES = {
    "states": states(),
    "persistent": moves(PERSISTENT_MOVES),
    "memory": moves(MEMORY_MOVES),
    "crash": crash(),
    "batches": batches(),
}


def rendered(text: str) -> str:
    """The document with each table as the code has it."""

    def fresh(found: re.Match[str]) -> str:
        return f"{found[1]}\n\n{TABLES[found[2]]}\n\n<!-- end -->"

    return re.sub(r"(<!-- states: (\w+) -->)\n.*?<!-- end -->", fresh, text, flags=re.DOTALL)


if __name__ == "__main__":
    for document in DOCUMENTS:
        document.write_text(rendered(document.read_text(encoding="utf-8")), encoding="utf-8")
