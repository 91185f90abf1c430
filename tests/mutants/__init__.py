"""Broken builds: each file here has `MUTANTS`, the mutants of one subsystem, as edits of the package's text.

No edit names a folder or a line, so code that moves takes its mutants along. Where the code that `old` quotes changes,
the edit follows it, and must still break what it says. tests/campaigns/mutants.py makes trees of them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One piece of the package's text becomes another.

    function: where `old` stands, as one of

        Queue.ack, create   a method or function by its qualified name, with its decorators and all that is in it
        Queue               a class, with all that is in it
        BATCH_BYTES         the assignment that gives a name of a module its value
        limits:             all of a file, by its name without .py
        limits:BATCH_BYTES  any of the others, in files of that name only

    old: whole lines that stand there exactly once; where several places have that name, once in all of them together.
    The lines begin at the margin: they are found at any depth, so a function that becomes a method keeps its mutants.
    The comment behind a single line need not be written, and stays.
    new: the lines that stand there then, as deep as `old` stood; "": none.

    In both, line feeds before the first line and white space behind the last do not count, nor does an indentation that
    all lines have.
    """

    function: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """A broken build. name: what campaigns call it. breaks: a sentence that says what is wrong with it.

    function, old, new: its edit, as in Edit. also: further edits, made behind it in this order.
    """

    name: str
    breaks: str
    function: str
    old: str
    new: str
    also: tuple[Edit, ...] = ()

    @property
    def edits(self) -> tuple[Edit, ...]:
        return (Edit(function=self.function, old=self.old, new=self.new), *self.also)
