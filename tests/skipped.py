"""What a run of scripts/test has left out, and why: noted by pytest and by the campaigns, and summed at its end.

    python -m tests.skipped FILE        prints the sum of what was noted in FILE

Nothing is noted unless RADIATOR_SKIPPED names the file.
"""

import json
import os
import sys
from collections import Counter, defaultdict
from pathlib import Path

KINDS = {
    "test": ("test", "tests"),
    "module": ("whole file of tests", "whole files of tests"),
    "campaign": ("campaign", "campaigns"),
}


def note(kind: str, name: str, why: str) -> None:
    """kind: of KINDS. why: a sentence that says what to install, where that would help. Any process may note."""
    if file := os.environ.get("RADIATOR_SKIPPED"):
        with open(file, "a", encoding="utf-8") as notes:
            notes.write(json.dumps([kind, name, why]) + "\n")


def how_many(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[kind]} {names[counts[kind] > 1]}" for kind, names in KINDS.items() if counts[kind])


def summed(lines: list[str]) -> str:
    """What was noted, each thing once: workers, and the passes of one run, note the same file again."""
    if not lines:
        return "Nothing was skipped."
    noted = {(kind, name): why for kind, name, why in map(json.loads, lines)}
    by_reason: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for (kind, _), why in noted.items():
        by_reason[why][kind] += 1
    rows = sorted(by_reason.items(), key=lambda item: (-item[1].total(), item[0]))
    total = sum(by_reason.values(), Counter[str]())
    return "\n".join([f"Skipped: {how_many(total)}.", *(f"  {how_many(counts)}: {why}" for why, counts in rows)])


if __name__ == "__main__":
    print(summed(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()))
