"""`radiator token`."""

import json
import stat
import tomllib
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from radiator.auth.tokens import is_token, sha256_of
from radiator.tools.cli import main


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["token", *words])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_the_token_is_shown_once_and_the_line_has_its_sha256(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys)
    token = err.rstrip("\n").rpartition(" ")[2]
    assert status == 0 and is_token(token.encode()) and err.count("\n") == 1
    # as `>> users.toml` has it
    made = tomllib.loads(f'[user."shop"]\n{out}')["user"]["shop"]
    assert made == {"tokens": [{"sha256": sha256_of(token.encode())}]} and out.count("\n") == 1
    assert run(capsys)[1] != out


def test_a_file_has_the_token_and_nothing_else_has_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "shop.token"
    status, out, err = run(capsys, "--file", str(file))
    token = file.read_text()
    assert (status, err) == (0, "") and is_token(token.rstrip("\n").encode()) and token.count("\n") == 1
    assert tomllib.loads(out) == {"tokens": [{"sha256": sha256_of(token.strip().encode())}]}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    status, out, err = run(capsys, "--file", str(file))
    assert (status, out) == (1, "") and "shop.token is there, and stays" in err
    assert file.read_text() == token
    status, out, err = run(capsys, "--file", str(tmp_path / "none" / "x"))
    assert (status, out) == (1, "") and "No such file" in err


def test_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = json.loads(run(capsys, "--json")[1])
    assert found.keys() == {"token", "sha256", "until"} and found["sha256"] == sha256_of(found["token"].encode())
    found = json.loads(run(capsys, "--json", "--file", str(tmp_path / "t"))[1])
    assert found.keys() == {"file", "sha256", "until"}


@pytest.mark.parametrize(
    ("until", "value"),
    [
        ("2099-01-31", date(2099, 1, 31)),
        ("2099-01-31T02:31:00Z", datetime(2099, 1, 31, 2, 31, tzinfo=UTC)),
        ("2099-01-31T02:31:00.5+01:00", datetime(2099, 1, 31, 1, 31, 0, 500_000, tzinfo=UTC)),
    ],
)
def test_it_ends_when_it_is_said(capsys: pytest.CaptureFixture[str], until: str, value: date) -> None:
    (made,) = tomllib.loads(run(capsys, "--until", until)[1])["tokens"]
    assert made["until"] == value


TODAY = datetime.now(UTC).date()


@pytest.mark.parametrize(
    "wrong",
    ["never", "31.1.2099", "2099-02-30", "2020-01-01", str(TODAY), "2099-01-31T02:31:00", "2099-01-31 25:00Z"]
    + ["2020-01-01T00:00:00Z"],
)
def test_what_is_no_time_or_is_over_is_refused(capsys: pytest.CaptureFixture[str], wrong: str) -> None:
    status, out, err = run(capsys, "--until", wrong)
    assert (status, out) == (2, "") and repr(wrong) in err


def test_this_very_moment_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--until", datetime.now(UTC).isoformat())[0] == 2


def test_what_comes_next_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--until", str(TODAY + timedelta(days=2)))[0] == 0
    assert run(capsys, "--until", (datetime.now(UTC) + timedelta(seconds=30)).isoformat())[0] == 0
