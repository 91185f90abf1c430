"""A machine without a program: what needs it is skipped, and the sum of that is told once, at the end."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import skipped
from tests.campaigns import needs

CHECKOUT = Path(__file__).resolve().parent.parent.parent
WORLD = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_one(number):
    pytest.skip("no beer; apt install beer")

@pytest.mark.skipif(True, reason="no beer; apt install beer")
def test_two(): ...

@pytest.mark.xfail
def test_three():
    raise ValueError

def test_four(): ...
"""
NOT_READ = "import pytest\npytest.skip('no wine here', allow_module_level=True)\ndef test_wine(): ...\n"


def test_each_thing_counts_once_and_the_most_common_reason_stands_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tmp_path / "notes"
    monkeypatch.setenv("RADIATOR_SKIPPED", str(notes))
    for name in ("a", "b", "a"):
        skipped.note("campaign", name, "it needs root")
    skipped.note("test", "a", "no beer; apt install beer")
    assert skipped.summed(notes.read_text().splitlines()) == (
        "Skipped: 1 test, 2 campaigns.\n  2 campaigns: it needs root\n  1 test: no beer; apt install beer"
    )
    assert skipped.summed([]) == "Nothing was skipped."


def test_every_skip_of_pytest_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conftest.py").write_bytes((CHECKOUT / "tests/conftest.py").read_bytes())
    (tmp_path / "test_world.py").write_text(WORLD)
    (tmp_path / "test_wine.py").write_text(NOT_READ)
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    for workers in "02":
        notes = tmp_path / f"notes-{workers}"
        monkeypatch.setenv("RADIATOR_SKIPPED", str(notes))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", workers, str(tmp_path)]
        subprocess.run(command, cwd=tmp_path, stdout=subprocess.DEVNULL, check=True)
        assert skipped.summed(notes.read_text().splitlines()).splitlines() == [
            "Skipped: 4 tests, 1 whole file of tests.",
            "  4 tests: no beer; apt install beer",
            "  1 whole file of tests: no wine here",
        ]


def test_a_campaign_without_its_program_fails_only_where_setup_could_have_installed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(needs.CannotRun, match="beer is not here; on Debian or Ubuntu: apt install beer-all"):
        needs.program("beer", "beer-all")
    (tmp_path / "apt-get").touch(mode=0o755)
    with pytest.raises(needs.NotInstalled):
        needs.program("beer", "beer-all")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(needs.CannotRun):
        needs.program("beer", "beer-all")
