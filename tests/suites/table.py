"""Which suites there are, and what is known to fail in them: suites.toml, read."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("suites.toml")
RUNNERS = ("pytest", "node", "rspec", "go", "phpunit")
HEADS = ("suite", "tests", "pass", "skipped", "fail, and why", "RabbitMQ 3.10.8")


class WrongTable(ValueError):
    """What is wrong with the table, in a sentence."""


@dataclass(frozen=True, slots=True)
class KnownFailures:
    """tests: their names as counting.py has them. why: the cause, a sentence."""

    tests: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Pinned:
    """Where the sources are from, and what says that they are those.

    pypi: a project there, whose source package of `version` has the SHA-256 `digest`. git: an address of a repository,
    whose tag `version` is the commit `digest`.
    """

    version: str
    digest: str
    pypi: str = ""
    git: str = ""


@dataclass(frozen=True, slots=True)
class ClientSuite:
    """One suite, and what comes of it on this broker.

    runner: of RUNNERS. arguments: what it is given. packages: what pip installs beside the client itself. listen: the
    broker's addresses of AMQP. config: tables of its config.toml. environment: of the suite. certificates: where in the
    sources those of a client are put; "": it has none. rabbitmq: what came of it there; "": not tried.
    """

    name: str
    title: str
    source: Pinned
    runner: str
    arguments: tuple[str, ...]
    packages: tuple[str, ...]
    listen: tuple[str, ...]
    config: str
    environment: dict[str, str]
    certificates: str
    limit_s: float
    passed: int
    skipped: int
    known: tuple[KnownFailures, ...]
    rabbitmq: str

    @property
    def failed(self) -> int:
        return sum(len(one.tests) for one in self.known)


_SUITE: dict[str, tuple[type, Any]] = {  # of each key its kind, and what it is where it is left out; None: it must be
    "name": (str, None),
    "title": (str, None),
    "source": (dict, None),
    "runner": (str, None),
    "arguments": (list, []),
    "packages": (list, []),
    "listen": (list, ["amqp://127.0.0.1:5672"]),
    "config": (str, ""),
    "environment": (dict, {}),
    "certificates": (str, ""),
    "limit_s": (int, 600),
    "passed": (int, None),
    "skipped": (int, 0),
    "fails": (list, []),
    "rabbitmq": (str, ""),
}
_DIGITS = {"pypi": 64, "git": 40}


def suites(text: str | None = None) -> list[ClientSuite]:
    """text: of suites.toml; None: the file as it is. WrongTable: why it is none."""
    rows = tomllib.loads(FILE.read_text(encoding="utf-8") if text is None else text)
    if set(rows) != {"suite"}:
        raise WrongTable(f"The table has {sorted(rows)}; it has [[suite]] and nothing else.")
    found = [_suite(row) for row in rows["suite"]]
    names = [suite.name for suite in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise WrongTable(f"{sorted(twice)[0]!r} is the name of two suites.")
    return found


def _suite(row: dict[str, Any]) -> ClientSuite:
    name = row.get("name", "a suite without a name")
    if unknown := sorted(set(row) - set(_SUITE)):
        raise WrongTable(f"{name}: {unknown[0]!r} is no key of a suite; {', '.join(_SUITE)} are.")
    for key, (kind, otherwise) in _SUITE.items():
        if key not in row and otherwise is None:
            raise WrongTable(f"{name}: it has no {key!r}.")
        if not isinstance(row.get(key, kind()), kind):
            raise WrongTable(f"{name}: {key!r} is {row[key]!r}; it is a {kind.__name__}.")
    whole = {key: row.get(key, otherwise) for key, (_, otherwise) in _SUITE.items()}
    if whole["runner"] not in RUNNERS:
        raise WrongTable(f"{name}: the runner is {whole['runner']!r}; it is one of {', '.join(RUNNERS)}.")
    known = tuple(_known(name, failure) for failure in whole.pop("fails"))
    _each_once(name, known)
    for key in ("arguments", "packages", "listen"):
        whole[key] = tuple(whole[key])
    return ClientSuite(**{**whole, "source": _pinned(name, whole["source"])}, known=known)


def _known(name: str, row: Any) -> KnownFailures:
    if not isinstance(row, dict) or set(row) != {"tests", "why"} or not row["tests"]:
        raise WrongTable(f"{name}: a failure is {row!r}; it has `tests`, at least one, and `why`.")
    if not re.fullmatch(r"[A-Za-z`].*[^.]", row["why"]) or "|" in row["why"]:
        raise WrongTable(
            f"{name}: the cause {row['why']!r} is no sentence for a table: no | in it, no full stop behind."
        )
    return KnownFailures(tuple(row["tests"]), row["why"])


def _each_once(name: str, known: tuple[KnownFailures, ...]) -> None:
    tests = [test for one in known for test in one.tests]
    if twice := {test for test in tests if tests.count(test) > 1}:
        raise WrongTable(f"{name}: {sorted(twice)[0]!r} fails for two causes; name the one that is true.")


def _pinned(name: str, row: dict[str, str]) -> Pinned:
    kinds = [kind for kind in _DIGITS if kind in row]
    if len(kinds) != 1 or set(row) != {kinds[0], "version", "digest"}:
        raise WrongTable(f"{name}: the source is {row!r}; it has `pypi` or `git`, `version` and `digest`.")
    digits = _DIGITS[kinds[0]]
    if not re.fullmatch(f"[0-9a-f]{{{digits}}}", row["digest"]):
        raise WrongTable(f"{name}: the digest is {row['digest']!r}; of {kinds[0]} it is {digits} hexadecimal digits.")
    return Pinned(**row)


def in_markdown(found: list[ClientSuite]) -> str:
    """The table of docs/AMQP.md."""
    return "\n".join([f"| {' | '.join(HEADS)} |", "|---|--:|--:|--:|---|---|", *map(_row, found)])


def _row(suite: ClientSuite) -> str:
    why = "; ".join(f"{len(one.tests)}: {one.why}" for one in suite.known) or "0"
    tests = suite.passed + suite.skipped + suite.failed
    return (
        f"| {suite.title} | {tests:,} | {suite.passed:,} | {suite.skipped} | {why} | {suite.rabbitmq or 'not tried'} |"
    )
