"""Passwords that a command is given: what is taken, at the bounds, and what is never said."""

import io
from pathlib import Path

import pytest

from radiator.auth.tokens import text_of
from radiator.model.errors import ConfigError
from radiator.model.limits import JWT_MAX_BYTES, SECRET_GIVEN_MAX_BYTES
from radiator.tools.cli.secret_input import checked, from_file, from_stdin, no_token

JWT = "eyJ4.eyJ4."  # and then a signature
LONGEST_JWT = JWT.ljust(JWT_MAX_BYTES, "x")
RIGHT = ["x", " with spaces ", "cor:rect\\", "pässword", "x" * SECRET_GIVEN_MAX_BYTES, LONGEST_JWT]
WRONG = [
    "",
    "x" * (SECRET_GIVEN_MAX_BYTES + 1),
    "ä" * (SECRET_GIVEN_MAX_BYTES // 2 + 1),
    "a\rb",
    "a\0b",
    "\udcff",
    LONGEST_JWT + "x",
]


@pytest.mark.parametrize("password", RIGHT)
def test_a_password_is_taken_as_it_is(password: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checked(password, "It") == password
    (tmp_path / "file").write_text(password + "\nmore\n")
    (tmp_path / "file").chmod(0o600)
    assert from_file(tmp_path / "file") == password
    monkeypatch.setattr("sys.stdin", io.StringIO(password + "\nmore\n"))
    assert from_stdin() == password


@pytest.mark.parametrize("password", WRONG)
def test_what_cannot_be_a_passcode_is_refused_and_not_repeated(password: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        checked(password, "It")
    assert not password or password not in str(caught.value)
    (tmp_path / "file").write_bytes(password.encode("utf-8", "surrogateescape") + b"\n")
    (tmp_path / "file").chmod(0o600)
    with pytest.raises(ConfigError, match="file"):
        from_file(tmp_path / "file")


def test_a_file_is_there_and_nobody_elses(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        from_file(tmp_path / "none")
    (tmp_path / "file").write_text("x")
    (tmp_path / "file").chmod(0o644)
    with pytest.raises(ConfigError, match="everybody on this machine may read it: chmod 600"):
        from_file(tmp_path / "file")


def test_a_password_that_would_be_taken_for_a_token_is_refused() -> None:
    assert no_token("radt_x") == "radt_x"
    with pytest.raises(ConfigError, match="the form of a token"):
        no_token(text_of(bytes(32)))
    with pytest.raises(ConfigError, match="the form of a JSON Web Token"):
        no_token(JWT)
