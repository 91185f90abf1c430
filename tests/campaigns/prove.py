"""scripts/prove: the campaigns, on this build and on broken ones, and a table of what came of it.

    scripts/prove [--quick|--nightly|--release] [NAME ...]      NAME: of a campaign, or its number

Each campaign runs on this build, where it must find nothing, and on the broken builds (tests/mutants) that it is for,
where it must find something. The command ends with 0 only if both hold everywhere. The seed is printed; with --seed
and --cases a run can be made again.
"""

import argparse
import compileall
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from radiator.tools.cli.text import table
from tests import skipped
from tests.campaigns import mutants
from tests.campaigns.campaign import LEVELS, Campaign
from tests.campaigns.needs import NEEDS, CannotRun, NotInstalled
from tests.campaigns.plan import by_name, campaigns
from tests.nodes.cluster import TREE_BEFORE

HEADS = ("", "campaign", "cases", "of", "violations", "seconds", "caught", "result")


@dataclass(slots=True)
class Job:
    """One run in a process of its own. mutant "": this build."""

    campaign: Campaign
    mutant: str
    cases: int
    seed: int
    level: str
    score: dict[str, object] = field(default_factory=dict)
    error: str = ""
    seconds: float = 0.0

    @property
    def limit_s(self) -> float:
        return self.campaign.limit_s[LEVELS.index(self.level)]

    @property
    def violations(self) -> list[str]:
        found = self.score.get("violations", [])
        assert isinstance(found, list)
        return found

    @property
    def controls(self) -> list[str]:
        """What the campaign breaks by itself, as far as this machine can. Nothing on a broken build: there it only
        hunts.
        """
        untried = self.score.get("untried", [])
        assert isinstance(untried, list)
        return [] if self.mutant else [control for control in self.campaign.controls if control not in untried]

    @property
    def missed_controls(self) -> list[str]:
        """Those that it did not catch."""
        caught = self.score.get("caught", [])
        assert isinstance(caught, list)
        return [control for control in self.controls if control not in caught]

    @property
    def again(self) -> str:
        """The command that makes this run again."""
        mutant = f" --mutant {self.mutant}" if self.mutant else " --no-mutants"
        if before := os.environ.get(TREE_BEFORE):
            mutant = f" --before {before}"
        return f"scripts/prove --{self.level} {self.campaign.name} --seed {self.seed} --cases {self.cases}{mutant}"


class Bench:
    """Runs jobs, a few at a time, and one more of those that mostly wait; those that judge times alone.

    `stop` ends what runs.
    """

    def __init__(self, directory: Path, workers: int) -> None:
        self._directory = directory
        self._workers = workers
        self._running: set[subprocess.Popen[str]] = set()
        self._is_stopped = False
        self._lock = threading.Lock()

    def run(self, jobs: list[Job]) -> None:
        computing, waiting, timed = deque[Job](), deque[Job](), deque[Job]()
        for job in jobs:
            (timed if job.campaign.is_timed else waiting if job.campaign.is_waiting else computing).append(job)
        together = [(computing, waiting)] * self._workers + [(waiting,)] * (self._workers > 1)
        for lanes in (together, [(timed,)]):
            threads = [threading.Thread(target=self._work, args=lane) for lane in lanes]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            for process in self._running:
                os.killpg(process.pid, signal.SIGKILL)

    def _work(self, *queues: deque[Job]) -> None:
        """Whatever is in the first of them, then in the next."""
        while not self._is_stopped:
            queue = next(filter(None, queues), None)
            if queue is None:
                return
            try:
                job = queue.popleft()
            except IndexError:  # another one was quicker
                continue
            began_s = time.monotonic()
            try:
                self._run_one(job)
            except mutants.DoesNotApply as moved_on:
                job.error = str(moved_on)
            job.seconds = time.monotonic() - began_s
            print(progress(job), file=sys.stderr, flush=True)

    def _run_one(self, job: Job) -> None:
        with tempfile.TemporaryDirectory(dir=self._directory) as directory:
            tree = mutants.broken_tree(job.mutant, Path(directory)) if job.mutant else mutants.CHECKOUT
            command = [sys.executable, "-m", "tests.campaigns.one", job.campaign.name, "--level", job.level]
            command += ["--cases", str(job.cases), "--seed", str(job.seed)] + (["--hunt"] if job.mutant else [])
            with self._lock:
                if self._is_stopped:
                    return
                process = subprocess.Popen(
                    command,
                    cwd=tree,
                    env={**os.environ, "PYTHONPATH": str(tree), "TMPDIR": directory},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="backslashreplace",
                    start_new_session=True,
                )
                self._running.add(process)
            try:
                out, printed = process.communicate(timeout=job.limit_s)
            except subprocess.TimeoutExpired:
                out, printed = "", f"It took longer than {job.limit_s:.0f} s."
            finally:
                with self._lock:
                    self._running.discard(process)
                    kill_group(process.pid)  # what a campaign left behind
                process.wait()
            try:
                job.score = json.loads(out.splitlines()[-1])
                job.error = str(job.score["error"])
            except (ValueError, LookupError):
                job.error = printed[-2000:] or f"It ended with status {process.returncode} and said nothing."


def compile_once() -> None:
    """What is compiled goes into every broken tree as well; else each of their processes would compile it all again."""
    for part in ("radiator", "tests"):
        compileall.compile_dir(mutants.CHECKOUT / part, quiet=2)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def progress(job: Job) -> str:
    build = f"on the build {job.mutant}" if job.mutant else "on this build"
    if job.error:
        what = "ERROR"
    elif job.mutant:
        what = "caught" if job.violations else "NOT CAUGHT"
    else:
        what = f"{len(job.violations)} violations"
    return f"  {job.campaign.number} {job.campaign.name} {build}: {what} ({job.seconds:.1f} s)"


def jobs_of(campaign: Campaign, wanted: argparse.Namespace, seed: int) -> list[Job]:
    level = wanted.level
    if wanted.mutant:
        return [Job(campaign, wanted.mutant, wanted.cases or campaign.mutant_cases, seed, level)]
    broken = campaign.mutants[: campaign.quick_mutants] if level == "quick" else campaign.mutants
    if wanted.no_mutants:
        broken = ()
    cases = wanted.cases or campaign.cases[LEVELS.index(level)]
    return [
        Job(campaign, "", cases, seed, level),
        *(Job(campaign, mutant, campaign.mutant_cases, seed, level) for mutant in broken),
    ]


def cannot_run(campaign: Campaign) -> tuple[str, bool]:
    """Why it cannot run here ("": it can), and whether that is a failure."""
    for need in campaign.needs:
        try:
            NEEDS[need]()
        except CannotRun as reason:
            return str(reason), False
        except NotInstalled as reason:
            return str(reason), True
    return "", False


def row(campaign: Campaign, jobs: list[Job]) -> tuple[list[str | int], bool]:
    """Its line of the table, and whether it is well."""
    real = [job for job in jobs if not job.mutant]
    hunted = [job.mutant for job in jobs if job.mutant] + [control for job in real for control in job.controls]
    missed = [job.mutant for job in jobs if job.mutant and (job.error or not job.violations)]
    missed += [control for job in real for control in job.missed_controls]
    wrong = []
    if any(job.violations for job in real):
        wrong.append("VIOLATED")
    if any(job.error for job in jobs):
        wrong.append("ERROR")
    if any(not job.score.get("cases") and not job.violations and not job.error for job in real):
        wrong.append("NO CASE WAS RUN")
    if missed:
        wrong.append("MISSED " + " ".join(missed))
    cells: list[str | int] = [
        campaign.number,
        campaign.name,
        sum(int(str(job.score.get("cases", 0))) for job in real),
        campaign.unit,
        sum(len(job.violations) for job in real),
        f"{sum(job.seconds for job in jobs):.1f}",
        f"{len(hunted) - len(missed)}/{len(hunted)}" if hunted else "-",
        ", ".join(wrong) or "ok",
    ]
    return cells, not wrong


def print_failures(jobs: list[Job]) -> None:
    for job in jobs:
        wrong = [job.error] if job.error else []
        wrong += job.violations[:5] if not job.mutant else []
        if job.mutant and not job.error and not job.violations:
            wrong.append("This broken build was not caught.")
        if not job.error:
            wrong += [f"What it breaks by itself was not caught: {control}." for control in job.missed_controls]
        for sentence in wrong:
            print(f"\n{job.campaign.number} {job.campaign.name} {job.mutant}\n  {job.again}\n{sentence}")


def print_figures(jobs: list[Job]) -> None:
    for job in jobs:
        figures = job.score.get("figures", {})
        if not job.mutant and isinstance(figures, dict) and figures:
            print(f"{job.campaign.number} {job.campaign.name}: " + "; ".join(f"{k} {v}" for k, v in figures.items()))


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/prove", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    level = parser.add_mutually_exclusive_group()
    for name, what in (("quick", "minutes; the default"), ("nightly", "an hour or two"), ("release", "a day")):
        level.add_argument(f"--{name}", dest="level", action="store_const", const=name, help=what)
    parser.set_defaults(level="quick")
    parser.add_argument("names", nargs="*", metavar="NAME", help="campaigns by name or number; default: all")
    parser.add_argument("--list", action="store_true", help="says what campaigns and broken builds there are")
    parser.add_argument("--seed", type=int, help="all chance comes from it; default: a new one")
    parser.add_argument("--cases", type=int, help="instead of the level's number of cases")
    parser.add_argument("--mutant", choices=mutants.names(), metavar="BUILD", help="only on this broken build")
    parser.add_argument("--no-mutants", action="store_true", help="not on broken builds")
    parser.add_argument(
        "--before", type=Path, metavar="TREE", help="every second real node is of that checkout; not on broken builds"
    )
    parser.add_argument(
        "--jobs", type=int, default=2, help="how many run at a time, beside one that mostly waits; default 2"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="the scores as JSON too")
    wanted = parser.parse_args(argv)
    if wanted.before is not None:
        if not (wanted.before / "radiator" / "__main__.py").is_file():
            parser.error(f"--before {wanted.before} is no checkout of Radiator: it has no radiator/__main__.py")
        os.environ[TREE_BEFORE] = str(wanted.before.resolve())
        wanted.no_mutants = True
    return wanted


def print_list() -> None:
    rows = [(one.number, one.name, one.title, " ".join(one.mutants + one.controls)) for one in campaigns()]
    print(table(("", "campaign", "what it does", "broken builds that it must catch"), rows))


def write_json(file: Path, jobs: list[Job]) -> None:
    reported = [
        {"campaign": job.campaign.name, "number": job.campaign.number, "mutant": job.mutant, "seed": job.seed,
         "level": job.level, "seconds": round(job.seconds, 2), **job.score, "error": job.error}
        for job in jobs
    ]  # fmt: skip
    file.write_text(json.dumps(reported, indent=1) + "\n")


def main(argv: list[str] | None = None) -> int:
    wanted = arguments(sys.argv[1:] if argv is None else argv)
    if wanted.list:
        print_list()
        return 0
    try:
        chosen = [by_name(name) for name in wanted.names] or campaigns()
    except LookupError as unknown:
        print(unknown.args[0], file=sys.stderr)
        return 2
    seed = wanted.seed if wanted.seed is not None else random.SystemRandom().randrange(10**9)
    print(f"prove --{wanted.level}, seed {seed}", file=sys.stderr, flush=True)
    rows: dict[str, list[str | int]] = {}
    failed: list[str] = []
    not_run: list[str] = []
    jobs: dict[str, list[Job]] = {}
    for one in chosen:
        why, is_failure = cannot_run(one)
        if not why:
            jobs[one.name] = jobs_of(one, wanted, seed)
            continue
        printed = "FAILED" if is_failure else "skipped"
        rows[one.name] = [one.number, one.name, 0, one.unit, 0, "-", "-", f"{printed}: {why}"]
        if is_failure:
            failed.append(one.name)
            not_run.append(f"{one.number} {one.name}\n{why}")
        else:
            skipped.note("campaign", f"{one.number} {one.name}", why)
    everything = [job for some in jobs.values() for job in some]
    compile_once()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="radiator-prove-") as directory:
        bench = Bench(Path(directory), wanted.jobs)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            worker = threading.Thread(target=bench.run, args=(everything,), daemon=True)
            worker.start()
            worker.join()
        finally:
            bench.stop()
    for name, some in jobs.items():
        rows[name], is_well = row(by_name(name), some)
        if not is_well:
            failed.append(name)
    print(f"\n{table(HEADS, [rows[one.name] for one in chosen])}")
    print_figures(everything)
    # behind the table: whoever keeps only the end of what was said keeps these
    for sentence in not_run:
        print(f"\n{sentence}")
    print_failures(everything)
    if wanted.json:
        write_json(wanted.json, everything)
    caught = {job.mutant for job in everything if job.mutant and job.violations}
    named = ", ".join(f"{one.number} {one.name}" for one in chosen if one.name in failed)
    verdict = f"FAILED: {named}" if failed else "every promise held"
    print(f"\nprove --{wanted.level}: {len(chosen)} campaigns, {len(caught)} broken builds caught, "
          f"{time.monotonic() - began_s:.0f} s, seed {seed}: {verdict}.")  # fmt: skip
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
