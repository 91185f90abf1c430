"""`radiator context`: what is listed, shown and changed."""

import json
from pathlib import Path

import pytest

from radiator.tools.cli import main

TEXT = """\
# mine
[context.prod]
broker = "stomps://broker.example"
user = "ops"
password_file = "ops.token"
[context.dev]
broker = "stomp://127.0.0.1:61613"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "radiator.toml").write_text(TEXT)
    (tmp_path / "radiator.toml").chmod(0o640)
    return tmp_path / "radiator.toml"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["context", *words])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_all_are_listed_and_the_current_one_has_a_star(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text('current = "dev"\n' + TEXT)
    status, out, _ = run(capsys, "list")
    lines = [line.split() for line in out.splitlines()]
    assert status == 0 and ["prod", "stomps://broker.example:61612", "ops"] in lines
    assert ["*", "dev", "stomp://127.0.0.1:61613", "-"] in lines
    answer = json.loads(run(capsys, "list", "--json")[1])
    assert (answer["file"], answer["current"], [*answer["contexts"]]) == (str(file), "dev", ["prod", "dev"])


def test_without_a_file_the_list_says_how_one_is_written(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.unlink()
    assert run(capsys, "list") == (
        0, f'{file} has none: write [context."prod"] with broker = "stomps://broker.example:61612".\n', ""
    )  # fmt: skip
    status, out, err = run(capsys, "use", "prod")
    assert (status, out) == (2, "") and f'There is no context "prod", since {file} is not there: write' in err
    assert run(capsys, "unset")[0] == 0 and not file.exists()


def test_one_is_shown_with_the_file_of_its_password_and_not_what_is_in_it(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file.parent / "ops.token").write_text("hunter2")
    shown = f"name: prod\nbroker: stomps://broker.example:61612\nuser: ops\npassword_file: {file.parent}/ops.token\n"
    assert run(capsys, "show", "prod") == (0, shown, "")
    assert run(capsys, "show") == (0, "No context is the current one.\n", "")
    file.write_text('current = "prod"\n' + TEXT)
    assert run(capsys, "show") == (0, shown, "")
    assert json.loads(run(capsys, "show", "dev", "--json")[1]) == {"name": "dev", "broker": "stomp://127.0.0.1:61613"}


def test_another_one_is_chosen_and_how_that_is_undone_is_said(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    now = "The current context is prod."
    assert run(capsys, "use", "prod") == (0, f"{now} `radiator context unset` takes it back.\n", "")
    assert file.read_text() == f'current = "prod"\n\n{TEXT}' and file.stat().st_mode & 0o777 == 0o640
    assert run(capsys, "use", "prod") == (0, f"{now} It was before.\n", "")
    out = run(capsys, "use", "dev")[1]
    assert out == "The current context is dev. `radiator context use prod` takes it back.\n"
    assert json.loads(run(capsys, "use", "prod", "--json")[1]) == {"current": "prod", "was": "dev"}
    out = run(capsys, "unset")[1]
    assert out == "No context is the current one. `radiator context use prod` takes it back.\n"
    assert file.read_text() == f"\n{TEXT}" and [one.name for one in file.parent.iterdir()] == ["radiator.toml"]


def test_a_file_behind_a_symbolic_link_is_changed_there(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file.parent / "dotfiles").mkdir()
    there = file.rename(file.parent / "dotfiles/radiator.toml")
    file.symlink_to(there)
    assert run(capsys, "use", "prod")[0] == 0
    assert file.is_symlink() and there.read_text().startswith('current = "prod"')


@pytest.mark.parametrize("words", [("show", "prud"), ("use", "prud")])
def test_one_that_is_not_there_changes_nothing(
    file: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "") and 'has no context "prud"; did you mean "prod"?' in err
    assert file.read_text() == TEXT
