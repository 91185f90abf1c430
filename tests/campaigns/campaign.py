"""A campaign: one kind of trouble, made many times, and judged each time; and the run of one, which keeps its score.

A campaign says beforehand what it needs of a machine and which broken builds (tests/mutants) it must catch. One that
catches none of them proves nothing, and fails.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

LEVELS = ("quick", "nightly", "release")
VIOLATIONS_MAX = 50  # of one run: more of them tell nothing new


class TooManyViolations(Exception):
    """This run has seen enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """number: in the plan of tests, as T4. unit: what one case is, in the plural. cases: how many at each of LEVELS.

    needs: names in needs.py. mutants: names in tests/mutants that `run` must catch within `mutant_cases`; the first
    `quick_mutants` of them are tried in a quick run already, so the quickest to catch stand first.
    controls: what `run` itself breaks, and must say `caught` of, each time: for what no edit of the package can reach.
    is_timed: it judges times, so nothing else runs beside it. is_waiting: it takes less than half of a core, since it
    waits for clocks, disks or processes; so one of them runs beside those that compute.
    limit_s: a watchdog: who takes longer at that level hangs, and is ended. It judges nothing of Radiator: what must be
    quick has bounds of its own within `run`, and this one is some three times what a run takes on two cores.
    """

    number: str
    name: str
    title: str
    unit: str
    run: Callable[["Run"], None]
    cases: tuple[int, int, int]
    mutants: tuple[str, ...] = ()
    mutant_cases: int = 1
    quick_mutants: int = 1
    controls: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    is_timed: bool = False
    is_waiting: bool = False
    limit_s: tuple[float, float, float] = (120, 3600, 6 * 3600)


@dataclass(slots=True)
class Run:
    """One run. `chance` is all the chance it may use; `directory` is empty, and its own.

    is_hunt: on a broken build, where the first violation is enough.
    figures: what it measured, for the table. caught: of the campaign's own controls. untried: those that this machine
    cannot make; the figures say why.
    """

    seed: int
    cases: int
    level: str
    directory: Path
    is_hunt: bool = False
    done: int = 0
    violations: list[str] = field(default_factory=list)
    figures: dict[str, float | int | str] = field(default_factory=dict)
    caught: list[str] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)
    chance: Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)

    @property
    def is_over(self) -> bool:
        """Whether there have been cases enough, or a hunt has caught something."""
        return self.done >= self.cases or (self.is_hunt and bool(self.violations))

    def case(self, count: int = 1) -> None:
        """So many more cases were made and judged."""
        self.done += count

    def violation(self, sentence: str) -> None:
        """A promise was broken: which, and in what case. TooManyViolations ends the run."""
        self.violations.append(sentence)
        if self.is_hunt or len(self.violations) >= VIOLATIONS_MAX:
            raise TooManyViolations
