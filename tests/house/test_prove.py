"""What scripts/prove says in the end is short, and names what failed."""

import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.campaigns.campaign import Campaign, Run
from tests.campaigns.prove import Bench, Job, arguments, print_failures, row
from tests.nodes.cluster import TREE_BEFORE


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
    print_failures(jobs)
    assert "--mutant two" in capsys.readouterr().out


def test_a_control_of_its_own_that_was_not_caught_is_missed(capsys: pytest.CaptureFixture[str]) -> None:
    controls = ("this", "that")
    jobs = [job("", [], ("that",), controls)]
    cells, is_well = row(campaign(controls), jobs)
    assert not is_well
    assert cells[-2:] == ["1/2", "MISSED this"]
    print_failures(jobs)
    assert "not caught: this." in capsys.readouterr().out
    assert row(campaign(controls), [job("", [], controls, controls)])[1]


def test_a_control_that_this_machine_cannot_make_is_not_missed() -> None:
    there = job("", [], ("that",), ("this", "that"))
    there.score["untried"] = ["this"]
    cells, is_well = row(campaign(("this", "that")), [there])
    assert is_well
    assert cells[-2:] == ["1/1", "ok"]


def test_a_violation_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [job("", ["It was lost."])]
    cells, is_well = row(campaign(), jobs)
    assert not is_well
    assert cells[-1] == "VIOLATED"
    print_failures(jobs)
    assert "It was lost." in capsys.readouterr().out


class Noted(Bench):
    """Runs nothing: it notes what would have run beside what."""

    def __init__(self) -> None:
        super().__init__(Path(), 2)
        self.begun: list[Job] = []
        self.beside: list[Counter[str]] = []
        self._now = Counter[str]()
        self._both = threading.Condition()

    def _run_one(self, job: Job) -> None:
        with self._both:
            self.begun.append(job)
            self._now[kind(job)] += 1
            self.beside.append(self._now.copy())
            self._both.wait(0.01)  # others may begin
            self._now[kind(job)] -= 1


def kind(job: Job) -> str:
    return "timed" if job.campaign.is_timed else "waiting" if job.campaign.is_waiting else "computing"


def test_two_run_at_a_time_and_one_that_waits_and_the_timed_ones_alone() -> None:
    computing, waiting, timed = campaign(), replace(campaign(), is_waiting=True), replace(campaign(), is_timed=True)
    jobs = [Job(one, "", 1, 1, "quick") for one in (timed, waiting, *[computing] * 5) * 3]
    bench = Noted()
    bench.run(jobs)
    assert sorted(map(id, bench.begun)) == sorted(map(id, jobs))
    assert max(beside.total() for beside in bench.beside) == 3
    assert max(beside["computing"] for beside in bench.beside) == 2
    assert all(beside.total() == 1 for beside in bench.beside if beside["timed"])


def test_before_names_a_checkout_and_leaves_broken_builds_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(TREE_BEFORE, "")
    with pytest.raises(SystemExit):
        arguments(["nodes", "--before", str(tmp_path)])
    assert f"{tmp_path} is no checkout of Radiator" in capsys.readouterr().err
    (tmp_path / "radiator").mkdir()
    (tmp_path / "radiator" / "__main__.py").touch()
    assert arguments(["nodes", "--before", str(tmp_path)]).no_mutants
    assert job("", ["x"]).again.endswith(f"--before {tmp_path}")
