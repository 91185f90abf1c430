"""What the command says of an outcome, and of what it cannot run; no network."""

import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.suites import command
from tests.suites.command import differences, main
from tests.suites.counting import Outcome
from tests.suites.sources import CannotRun, fetched
from tests.suites.table import KnownFailures, Pinned, in_markdown, suites

SUITE = replace(suites()[0], name="one", passed=3, skipped=1, known=(KnownFailures(("a", "b"), "they want more"),))
LEAST = Outcome(3, 1, {"a": "no", "b": "no"})


def test_as_known() -> None:
    assert differences(SUITE, LEAST) == []


def test_each_difference_is_a_sentence() -> None:
    assert differences(SUITE, replace(LEAST, failed={"a": "no", "c": "0 != 1"}, passed=4, skipped=0)) == [
        "one: c fails: 0 != 1",
        "one: b does not fail any more.",
        "one: 4 passed; the table says 3.",
        "one: 0 were skipped; the table says 1.",
    ]


def test_an_unknown_suite_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["nix"])
    assert ended.value.code == 2 and "'nix' is no suite; pika, kombu" in capsys.readouterr().err


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--markdown"]) == 0
    assert capsys.readouterr().out == in_markdown(suites()) + "\n"


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(CannotRun, match=f"port {port} is taken; stop the broker"):
            command._broker(replace(SUITE, listen=(f"amqp://127.0.0.1:{port}",)), tmp_path, tmp_path)


def repository(tmp_path: Path) -> tuple[str, str]:
    """One with a tag v1: where it is, and the commit."""
    place = tmp_path / "theirs"
    place.mkdir()
    (place / "test.py").write_text("pass\n")
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "x"], ["tag", "v1"]):
        subprocess.run(["git", *words], cwd=place, check=True)
    done = subprocess.run(["git", "rev-parse", "v1"], cwd=place, check=True, capture_output=True, text=True)
    return str(place), done.stdout.strip()


def test_sources_are_fetched_once(tmp_path: Path) -> None:
    git, commit = repository(tmp_path)
    suite = replace(SUITE, source=Pinned("v1", commit, git=git))
    place = fetched(suite, tmp_path / "ours")
    assert (place / "test.py").read_text() == "pass\n"
    (place / "test.py").write_text("kept\n")
    assert fetched(suite, tmp_path / "ours") == place and (place / "test.py").read_text() == "kept\n"


def test_other_sources_than_those_of_the_table_are_not_taken(tmp_path: Path) -> None:
    git, commit = repository(tmp_path)
    with pytest.raises(CannotRun, match=f"The tag v1 is the commit {commit}; the table says b"):
        fetched(replace(SUITE, source=Pinned("v1", "b" * 40, git=git)), tmp_path / "ours")
    assert not (tmp_path / "ours" / "source" / ".radiator-fetched").exists()


def test_what_cannot_be_fetched_is_said_in_a_sentence(tmp_path: Path) -> None:
    source = Pinned("v1", "b" * 40, git=str(tmp_path / "nowhere"))
    with pytest.raises(
        CannotRun, match="could not be fetched from .*nowhere, which needs the internet. git has failed"
    ):
        fetched(replace(SUITE, source=source), tmp_path / "ours")
