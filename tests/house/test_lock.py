"""requirements.lock is what setup.cfg and pyproject.toml ask for, whole, and every file of it has its sum."""

import configparser
import re
import tomllib
from importlib.metadata import requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.broker_process import CHECKOUT

ENTRY = re.compile(r"^([\w.-]+)==(\S+)(?: ; ([^\\]+?))? \\\n((?:    --hash=\S+(?: \\)?\n)+)", re.MULTILINE)
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def lock() -> str:
    return (CHECKOUT / "requirements.lock").read_text()


def locked(python: str) -> dict[str, str]:
    """Names and versions that are installed for that Python on Linux."""
    here = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
    here |= {"implementation_name": "cpython", "platform_python_implementation": "CPython", "extra": ""}
    entries = {name: Requirement(f"{name} ; {marker or 'python_version'}") if marker else None
               for name, _, marker, _ in ENTRY.findall(lock())}  # fmt: skip
    versions = {name: version for name, version, _, _ in ENTRY.findall(lock())}
    return {
        name: versions[name]
        for name, entry in entries.items()
        if entry is None or entry.marker is None or entry.marker.evaluate(here)
    }


def wanted() -> list[Requirement]:
    setup = configparser.ConfigParser()
    setup.read(CHECKOUT / "setup.cfg")
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    lines = [*setup["options"]["install_requires"].split("\n"), *project["build-system"]["requires"]]
    return [Requirement(line) for line in lines if line]


def test_every_entry_has_the_sums_of_its_files() -> None:
    entries = ENTRY.findall(lock())
    assert "".join(ENTRY.sub("", lock()).splitlines(keepends=True)[1:]) == "", "what is no entry"
    for name, _, _, sums in entries:
        for line in sums.splitlines():
            assert re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line), (name, line)


def test_what_is_asked_for_is_there_in_a_version_that_will_do() -> None:
    for python in PYTHONS:
        there = locked(python)
        for requirement in wanted():
            version = there[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), f"{requirement} is locked at {version}: run scripts/lock"


def test_what_those_need_is_there_too() -> None:
    """As their own metadata here say it: of the same versions, where scripts/setup has made this environment."""
    for python in PYTHONS:
        there = locked(python)
        for name in there:
            for line in requires(name) or ():
                needed = Requirement(line)
                here = {"python_version": python, "sys_platform": "linux", "extra": ""}
                if needed.marker is None or needed.marker.evaluate(here):
                    assert canonicalize_name(needed.name) in there, f"{name} needs {needed}"
