"""`radiator token`."""

import tomllib
from datetime import UTC, date, datetime, timedelta

import pytest

from radiator.auth.tokens import is_token, sha256_of
from radiator.tools.cli import main


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["token", *words])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_the_token_is_shown_once_and_the_line_has_its_sha256(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys)
    token, line = out.splitlines()
    assert (status, err) == (0, "") and is_token(token.encode())
    assert tomllib.loads(line) == {"tokens": [{"sha256": sha256_of(token.encode())}]}
    assert run(capsys)[1] != out


def test_it_ends_with_the_day_that_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--until", "2099-01-31")
    (made,) = tomllib.loads(out.splitlines()[1])["tokens"]
    assert made["until"] == date(2099, 1, 31)


TODAY = datetime.now(UTC).date()


@pytest.mark.parametrize("wrong", ["never", "31.1.2099", "2099-02-30", "2020-01-01", str(TODAY)])
def test_a_day_that_is_none_or_has_begun_is_refused(capsys: pytest.CaptureFixture[str], wrong: str) -> None:
    status, out, err = run(capsys, "--until", wrong)
    assert (status, out) == (2, "") and repr(wrong) in err


def test_tomorrow_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--until", str(TODAY + timedelta(days=2)))[0] == 0
