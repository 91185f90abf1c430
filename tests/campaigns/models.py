"""T12: models of what nodes say to each other (tests/models): all orders of steps and faults within bounds, by spin.

A case is one model at one size. Models are no part of the package, so broken builds cannot reach them: each has its own
ways to be broken, and one that claims that nothing interesting happens; every one must fail. What is proven is the
model: that the package does as the model does is for the simulation (T10).
"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.campaigns.campaign import LEVELS, Campaign, Run

MODELS = Path(__file__).resolve().parent.parent / "models"
DEPTH_MAX = 10_000  # steps one after the other
MEMORY_MAX_MB = 8_000


@dataclass(frozen=True, slots=True)
class Size:
    """A model, and its bounds."""

    model: str
    bounds: str

    @property
    def defines(self) -> list[str]:
        return [f"-D{word}" for word in self.bounds.split()]


SIZES = {
    "quick": (
        Size("handover", "ITEMS=1 SEQUENCES=1 CRASHES=1 BREAKS=1"),
        Size("handover", "ITEMS=2 SEQUENCES=1 CRASHES=1 BREAKS=0"),
        Size("handover", "ITEMS=1 SEQUENCES=2 CRASHES=1 BREAKS=0 REFUSALS=1"),
        Size("interest", "NODES=3 CHANGES=1 LOSSES=1 CRASHES=0"),
        Size("interest", "NODES=3 CHANGES=0 LOSSES=0 CRASHES=1"),
    ),
    "nightly": (
        Size("handover", "ITEMS=1 SEQUENCES=2 CRASHES=1 BREAKS=1"),
        Size("handover", "ITEMS=1 SEQUENCES=2 CRASHES=1 BREAKS=1 REFUSALS=1"),
        Size("handover", "ITEMS=2 SEQUENCES=1 CRASHES=1 BREAKS=1"),
        Size("handover", "ITEMS=2 SEQUENCES=2 CRASHES=0 BREAKS=1"),
        Size("handover", "ITEMS=2 SEQUENCES=2 CRASHES=1 BREAKS=0"),
        Size("interest", "NODES=3 ORIGINS=2 CHANGES=2 LOSSES=1 CRASHES=0"),
        Size("interest", "NODES=3 CHANGES=1 LOSSES=0 CRASHES=1"),
        Size("interest", "NODES=4 CHANGES=2 LOSSES=1 CRASHES=0"),
    ),
    "release": (Size("handover", "ITEMS=1 SEQUENCES=2 CRASHES=2 BREAKS=1"),),
}
CONTROLS = {
    **{
        f"handover:{variant}": Size("handover", f"ITEMS=1 SEQUENCES=2 CRASHES=1 BREAKS={breaks} {variant}")
        for variant, breaks in {
            "GIVE_BACK": 1, "NO_FENCE": 1, "TWO_COMMITS": 0, "EARLY_DELETE": 0, "EARLY_TRANSFER": 0, "EARLY_TAKEN": 0,
            "EARLY_WELCOME": 1, "REACHED": 1, "REFUSALS=1 UNTAKEN_COUNTS": 0,
        }.items()
    },
    **{
        f"interest:{variant}": Size("interest", f"NODES=3 {bounds} {variant}")
        for variant, bounds in {
            "STALE": "CHANGES=2 LOSSES=1", "NO_ANSWER": "CHANGES=2 LOSSES=1",
            "EARLY_NEWS": "CHANGES=0 LOSSES=0 CRASHES=1", "NO_WITHDRAWAL": "CHANGES=1 LOSSES=0",
            "SAME_LIFE": "CHANGES=0 LOSSES=0 CRASHES=1", "ALL_LINKS": "CHANGES=1 LOSSES=0",
            "REACHED": "CHANGES=2 LOSSES=1",
        }.items()
    },
}  # fmt: skip


def sizes(level: str) -> list[Size]:
    """Those of this level and of those below it."""
    return [size for below in LEVELS[: LEVELS.index(level) + 1] for size in SIZES[below]]


def explore(size: Size, directory: Path, *options: str) -> tuple[int, str]:
    """All that can happen: the number of states, and what is wrong, "" for nothing. RuntimeError if it did not end.

    options: of the compiler, whose time counts as much as the search's.
    """
    directory.mkdir()
    command(directory, "spin", *size.defines, "-a", str(MODELS / f"{size.model}.pml"))
    command(directory, "gcc", *options, "-w", "-DSAFETY", f"-DMEMLIM={MEMORY_MAX_MB}", "-o", "pan", "pan.c")
    commands = command(directory, "./pan", f"-m{DEPTH_MAX}")
    wrong = re.search(r"^pan:\d+: (.*)$", commands, re.MULTILINE)
    states = re.search(r"^ *(\d+) states, stored", commands, re.MULTILINE)
    is_whole = "Search not completed" not in commands and "max search depth too small" not in commands
    if states is None or not (wrong or is_whole):
        raise RuntimeError(f"The search of {size.model} with {size.bounds} did not end: {commands[-2000:]}")
    return int(states[1]), wrong[1] if wrong else ""


def command(directory: Path, *words: str) -> str:
    """What it says. RuntimeError if it fails."""
    done = subprocess.run(words, cwd=directory, capture_output=True, text=True)
    printed = done.stdout + done.stderr
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}: {printed[-2000:]}")
    return printed


def models(run: Run) -> None:
    for number, size in enumerate(sizes(run.level)[: run.cases]):
        options = ("-O1",) if size in SIZES["quick"] else ("-O2", "-DCOLLAPSE")  # which takes a third of the memory
        states, wrong = explore(size, run.directory / str(number), *options)
        run.figures[f"{size.model} {size.bounds}:"] = f"{states:,} states"
        run.case()
        if wrong:
            run.violation(
                f"{wrong}, in the model {size.model} with {size.bounds}. The steps: "
                f"spin {' '.join(size.defines)} -search tests/models/{size.model}.pml, then "
                f"spin {' '.join(size.defines)} -k {size.model}.pml.trail -p -g tests/models/{size.model}.pml"
            )
    for name, size in CONTROLS.items():
        if "assertion violated" in explore(size, run.directory / name, "-O0")[1]:
            run.caught.append(name)


CAMPAIGNS = (
    Campaign(
        number="T12",
        name="models",
        title="models of the hand-over and of the news of nodes: all orders of steps and faults",
        unit="models",
        run=models,
        cases=(len(sizes("quick")), len(sizes("nightly")), len(sizes("release"))),
        controls=tuple(CONTROLS),
        needs=("spin",),
    ),
)
