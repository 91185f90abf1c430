"""The sources of a suite, fetched once, and only taken if they are those that the table names."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.suites.table import ClientSuite, Pinned

FETCH_MAX_S = 600.0
STAMP = ".radiator-fetched"


class CannotRun(Exception):
    """Why a suite was not run, in a sentence."""


def printed_by(
    command: list[str | Path], cwd: Path, environment: dict[str, str] | None = None, max_s: float = 60.0
) -> str:
    """What it prints. CannotRun with the last line of what it said if it fails, is not there or takes too long."""
    program = command[0]
    try:
        done = subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, errors="replace", timeout=max_s
        )
    except FileNotFoundError as error:
        raise CannotRun(f"{program} is not on the path, and this suite needs it.") from error
    except subprocess.TimeoutExpired as error:
        raise CannotRun(f"{program} has not ended within {max_s:g} s.") from error
    if done.returncode:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()] or ["it said nothing"]
        raise CannotRun(f"{program} has failed: {lines[-1]}")
    return done.stdout


def fetched(suite: ClientSuite, under: Path) -> Path:
    """The directory of its sources. CannotRun: they could not be fetched, or are others than the table says."""
    source = suite.source
    place = under / "source"
    stamp = place / STAMP
    if stamp.exists() and stamp.read_text() == source.digest:
        return place
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        (_by_git if source.git else _by_pip)(source, place)
    except CannotRun as error:
        whence = source.git or f"PyPI ({source.pypi} {source.version})"
        raise CannotRun(
            f"{suite.title}: the sources could not be fetched from {whence}, which needs the internet. {error}"
        ) from error
    stamp.write_text(source.digest)
    return place


def _by_git(source: Pinned, place: Path) -> None:
    """A commit's name says what is in it, so it is checked by git itself."""
    printed_by(["git", "init", "-q"], place)
    printed_by(
        ["git", "fetch", "-q", "--depth", "1", source.git, f"refs/tags/{source.version}"], place, max_s=FETCH_MAX_S
    )
    got = printed_by(["git", "rev-parse", "FETCH_HEAD^{commit}"], place).strip()
    if got != source.digest:
        raise CannotRun(f"The tag {source.version} is the commit {got}; the table says {source.digest}.")
    printed_by(["git", "checkout", "-q", "FETCH_HEAD"], place)


def _by_pip(source: Pinned, place: Path) -> None:
    """pip compares the digest before it opens what it has got."""
    wanted = place.parent / "wanted.txt"
    wanted.write_text(f"{source.pypi}=={source.version} --hash=sha256:{source.digest}\n")
    loaded = place.parent / "loaded"
    shutil.rmtree(loaded, ignore_errors=True)
    printed_by(
        [
            python_in(place.parent), "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
            "--no-binary", source.pypi, "--require-hashes", "-d", loaded, "-r", wanted,
        ],
        place,
        max_s=FETCH_MAX_S,
    )  # fmt: skip
    (archive,) = loaded.iterdir()
    printed_by(["tar", "--extract", "--strip-components=1", f"--file={archive}"], place)


def python_in(under: Path) -> Path:
    """Of the suite's own environment of packages, which is made if it is not there."""
    python = under / "venv" / "bin" / "python"
    if not python.exists():
        under.mkdir(parents=True, exist_ok=True)
        printed_by([sys.executable, "-m", "venv", "--clear", "venv"], under, max_s=FETCH_MAX_S)
    return python


def installed_by_pip(suite: ClientSuite, under: Path, place: Path) -> None:
    """The client itself, and what its suite needs, in an environment of its own. CannotRun: why not."""
    wanted = "\n".join([suite.source.digest, *suite.packages])
    pip = [python_in(under), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-input"]
    _installed(suite, under / "venv" / STAMP, wanted, [*pip, place, *suite.packages], under)


def installed_by_npm(suite: ClientSuite, under: Path, place: Path) -> None:
    """What its package-lock.json names, beside its sources; no script of a package is run. CannotRun: why not."""
    command: list[str | Path] = ["npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
    _installed(suite, under / "npm-installed", suite.source.digest, command, place)


def _installed(suite: ClientSuite, stamp: Path, wanted: str, command: list[str | Path], cwd: Path) -> None:
    if stamp.exists() and stamp.read_text() == wanted:
        return
    try:
        printed_by(command, cwd, max_s=FETCH_MAX_S)
    except CannotRun as error:
        why = "what it needs could not be installed, which needs the internet"
        raise CannotRun(f"{suite.title}: {why}. {error}") from error
    stamp.write_text(wanted)
