"""How a suite is run: by the program that its authors run it with, unmodified."""

import os
import subprocess
from pathlib import Path

from tests.suites.counting import Outcome, outcome
from tests.suites.sources import CannotRun, fetched, installed_by_npm, installed_by_pip, python_in
from tests.suites.table import ClientSuite

PLUGINS = Path(__file__).with_name("plugins")
INSTALLED = {"pytest": installed_by_pip, "node": installed_by_npm}
OUTPUT = "output.txt"  # what a runner has printed


def ready(suite: ClientSuite, under: Path) -> Path:
    """Fetches and installs what is not there: the directory of its sources."""
    place = fetched(suite, under)
    if suite.runner in INSTALLED:
        INSTALLED[suite.runner](suite, under, place)
    return place


def ran(suite: ClientSuite, under: Path, place: Path) -> Outcome:
    """What came of it, beside a broker that runs already. CannotRun: it has ended without a report."""
    report = under / "report"
    report.unlink(missing_ok=True)
    # not those of this command: this checkout has a package `tests` too
    environment = {**os.environ, "PYTHONPATH": str(PLUGINS), **suite.environment}
    with (under / OUTPUT).open("wb") as output:
        try:
            subprocess.run(
                [*_command(suite, under, report), *suite.arguments], cwd=place, env=environment,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, timeout=suite.limit_s,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise CannotRun(f"{suite.title}: {suite.runner} is not on the path, and this suite needs it.") from error
        except subprocess.TimeoutExpired as error:
            raise CannotRun(f"{suite.title}: it has not ended within {suite.limit_s:g} s.") from error
    written = report if report.exists() else under / OUTPUT
    try:
        found = outcome(suite.runner, written.read_text(encoding="utf-8", errors="replace"))
    except ValueError as error:  # of XML and of JSON
        raise CannotRun(f"{suite.title}: it has ended without a report; see {under / OUTPUT}.") from error
    if not found.tests:
        raise CannotRun(f"{suite.title}: it has run no test; see {under / OUTPUT}.")
    return found


def _command(suite: ClientSuite, under: Path, report: Path) -> list[str]:
    """All but its arguments. What does not write to `report` prints its report."""
    if suite.runner == "pytest":
        return [str(python_in(under)), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    if suite.runner == "node":
        return ["node", "--test", "--test-reporter=junit", f"--test-reporter-destination={report}"]
    if suite.runner == "rspec":
        return ["rspec", "--format", "json", "--out", str(report)]
    if suite.runner == "phpunit":
        return ["phpunit", "--log-junit", str(report)]
    return ["go", "test", "-json"]
