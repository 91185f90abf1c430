"""What scripts/prove says in the end is short, and names what failed."""

import pytest

from tests.campaigns.campaign import Campaign, Run
from tests.campaigns.prove import Job, row, tell_failures


def nothing(run: Run) -> None: ...


def campaign(controls: tuple[str, ...] = ()) -> Campaign:
    return Campaign(
        number="T0", name="nothing", title="", unit="cases", run=nothing, cases=(1, 1, 1), mutants=("one", "two"),
        controls=controls,
    )  # fmt: skip


def job(mutant: str, violations: list[str], caught: tuple[str, ...] = (), controls: tuple[str, ...] = ()) -> Job:
    score = {"cases": 1, "violations": violations, "caught": list(caught)}
    return Job(campaign(controls), mutant, 1, 1, "quick", score)


def test_what_was_caught_is_a_number() -> None:
    cells, is_well = row(campaign(), [job("", []), job("one", ["x"]), job("two", ["x"])])
    assert is_well
    assert cells[-2:] == ["2/2", "ok"]


def test_what_was_missed_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [job("", []), job("one", ["x"]), job("two", [])]
    cells, is_well = row(campaign(), jobs)
    assert not is_well
    assert cells[-2:] == ["1/2", "MISSED two"]
    tell_failures(jobs)
    assert "--mutant two" in capsys.readouterr().out


def test_a_control_of_its_own_that_was_not_caught_is_missed(capsys: pytest.CaptureFixture[str]) -> None:
    controls = ("this", "that")
    jobs = [job("", [], ("that",), controls)]
    cells, is_well = row(campaign(controls), jobs)
    assert not is_well
    assert cells[-2:] == ["1/2", "MISSED this"]
    tell_failures(jobs)
    assert "not caught: this." in capsys.readouterr().out
    assert row(campaign(controls), [job("", [], controls, controls)])[1]


def test_a_violation_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [job("", ["It was lost."])]
    cells, is_well = row(campaign(), jobs)
    assert not is_well
    assert cells[-1] == "VIOLATED"
    tell_failures(jobs)
    assert "It was lost." in capsys.readouterr().out
