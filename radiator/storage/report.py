"""Collects what a check has read, and what is wrong with it; and says how long work reports its progress."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from radiator.model.errors import DamagedRecord
from radiator.model.limits import CHECK_FINDINGS_MAX

_Value = TypeVar("_Value")

Progress = Callable[[str, str, int, int], None]
"""Called with the work, the unit that is counted, how much is done, and of how much (0: not known)."""


def unheard(what: str, unit: str, done: int, whole: int) -> None:
    """A Progress that reports nothing."""


@dataclass(slots=True)
class Report:
    """The findings of a check: what was read, and what is wrong with it.

    messages, message_bytes: the delayed ones too. exchanges_elsewhere: exchanges that queues are bound to, and that are
    neither standard nor declared at run time: config.toml must declare them. logs: without deleted ones; records: of
    all. prepared: transactions. structure_checked: False where a running broker wrote all the time; stop it to have
    this checked too. forward: of a restore that carried out a log (forward.py). progress: called with how far the check
    is.
    """

    messages: int = 0
    message_bytes: int = 0
    delayed: int = 0
    queues: int = 0
    counts: int = 0
    dedup_ids: int = 0
    bindings: int = 0
    logs: int = 0
    records: int = 0
    prepared: int = 0
    exchanges_elsewhere: list[str] = field(default_factory=list)
    structure_checked: bool = False
    findings: list[str] = field(default_factory=list)
    findings_left_out: int = 0
    forward: dict[str, int | str] | None = None
    progress: Progress = field(default=unheard, repr=False, compare=False)

    def find(self, sentence: str) -> None:
        """Adds a finding."""
        if len(self.findings) < CHECK_FINDINGS_MAX:
            self.findings.append(sentence)
        else:
            self.findings_left_out += 1

    def decoded(self, decode: Callable[[bytes, bytes], _Value], key: bytes, value: bytes | memoryview) -> _Value | None:
        """Returns the decoded row; None, and a finding, where it is damaged."""
        try:
            return decode(key, bytes(value))
        except DamagedRecord as error:
            self.find(str(error))
            return None
